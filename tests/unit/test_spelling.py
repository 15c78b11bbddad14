"""Ways to write one command, and commands that only look alike."""

import pytest

from wakeful.adapters.call_kinds import kind_of
from wakeful.domain.echoes import echoes_in
from wakeful.domain.events import CallKind
from wakeful.domain.spelling import plain_command


@pytest.mark.parametrize(
    ("spellings", "plain"),
    [
        (("pytest -q", "cd /w && pytest -q", "(cd /w; pytest -q)", "timeout 60 pytest -q", "pytest -q # again"), "pytest -q"),
        (("bash -lc 'pytest -q'", '/bin/sh -c "pytest -q"', ["bash", "-lc", "cd /w && pytest -q"]), "pytest -q"),
        (("# look\ngit status", "git --no-pager diff --stat", "git status 2>/dev/null"), "git status"),
        (("ls", "ls -la", "ls ./", "ls -l . | head -20"), "ls"),
        (("cat a.py", "cat ./a.py", "cat 'a.py' | head -50"), "cat a.py"),
        (("grep -rn foo src", "grep -nr 'foo' src/", "grep -r -n foo ./src"), "grep -n -r foo src"),
    ],
)  # fmt: skip
def test_spellings_of_one_command_are_one(spellings: tuple[object, ...], plain: str) -> None:
    """What stands around a command and the order of an inspection's flags do not change what it asks."""
    assert {plain_command(each) for each in spellings} == {plain}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bash -c 'a' && echo 'b'", "bash -c 'a' && echo 'c'"),
        ("cat a > b", "cat a"),
        ("grep '#x' f", "grep '#y' f"),
        ("ls src", "ls tests"),
        ("cat <<E\n# One\nE", "cat <<E\n# Two\nE"),
        ("rm -rf a", "rm -fr a"),
        ("(a) || (b)", "(a) || (c)"),
        ("grep 'unclosed f", "grep unclosed f"),
    ],
)
def test_commands_that_ask_for_different_things_stay_different(one: str, other: str) -> None:
    """Nothing is taken off that a command does, and what writes is left as it is."""
    assert plain_command(one) != plain_command(other)


@pytest.mark.parametrize(
    "said", ["I will wait for the next command. ", "Now I fix the module that fails. \\n"]
)
def test_a_text_that_says_one_thing_over_and_over_is_told(said: str) -> None:
    """Ten times and more; a text that ends otherwise has found its thread again."""
    assert echoes_in(b'"Here is my plan. %s"' % (said * 15).encode()) >= 10
    assert (
        echoes_in(f"{said * 15} All of that is done now, and every test of the module passes.".encode()) < 2
    )


@pytest.mark.parametrize(
    "text",
    ["-" * 600, "| a | pending |\n" * 40, "short. " * 5, "".join(f"- updated file {n}\n" for n in range(60))],
)
def test_dividers_tables_and_lists_are_no_stammer(text: str) -> None:
    """They repeat themselves by nature."""
    assert echoes_in(text.encode()) < 10


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("AskUserQuestion", CallKind.PERSON),
        ("request_user_input", CallKind.PERSON),
        ("mcp__desk__ask_user", CallKind.PERSON),
        ("ask_followup_question", CallKind.PERSON),
        ("Task", CallKind.SUBAGENT),
        ("wait_agent", CallKind.SUBAGENT),
        ("runSubagent", CallKind.SUBAGENT),
        ("Bash", CallKind.TOOL),
        ("TaskOutput", CallKind.TOOL),
        ("request_user_profile", CallKind.TOOL),
    ],
)
def test_a_tools_name_says_what_is_waited_for(tool: str, kind: CallKind) -> None:
    """A person, a subagent, or the tool itself."""
    assert kind_of(tool) is kind
