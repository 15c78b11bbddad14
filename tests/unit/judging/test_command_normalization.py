"""Ways to write one command, and commands that only look alike."""

import pytest

from wakeful.judging.command_normalization import normalize_command
from wakeful.judging.events import CallKind
from wakeful.judging.masking import count_repeated_ends
from wakeful.sources.parsing import kind_of


@pytest.mark.parametrize(
    ("spellings", "plain"),
    [
        (("pytest -q", "cd /w && pytest -q", "(cd /w; pytest -q)", "timeout 60 pytest -q", "pytest -q # again"), "pytest -q"),
        (("bash -lc 'pytest -q'", '/bin/sh -c "pytest -q"', ["bash", "-lc", "cd /w && pytest -q"]), "pytest -q"),
        (("# look\ngit status", "git --no-pager diff --stat", "git status 2>/dev/null", "git status --short && git diff --stat"), "git status"),
        (("ls", "ls -la", "ls ./", "ls -l . | head -20"), "ls"),
        (("cat a.py", "cat ./a.py", "cat 'a.py' | head -50"), "cat a.py"),
        (("grep -rn foo src", "grep -nr 'foo' src/", "grep -r -n foo ./src"), "grep -n -r foo src"),
        (("git diff --stat\ngit status -s", "git -C . diff\n git --no-pager status", "git log -n 5"), "git status"),
        (("head -n 20 a", "head -20 a", "head -n20 ./a", "head --lines=20 a"), "head -20 a"),
        (("sed -n '1,9p' a", "sed -n 1,9p ./a", 'sed -n "1,9p" a'), "sed -n 1,9p a"),
        (("find . -name '*.py'", 'find ./ -name "*.py"'), "find . -name '*.py'"),
    ],
)  # fmt: skip
def test_spellings_of_one_command_are_one(spellings: tuple[object, ...], plain: str) -> None:
    """What stands around a command and the order of an inspection's flags do not change what it asks."""
    assert {normalize_command(each)[0] for each in spellings} == {plain}


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
        ("cd a && make", "cd b && make"),
        ("git -C a status", "git -C b status"),
        ("GOOS=linux go build", "GOOS=darwin go build"),
        ("find . -name '*.py' -delete", 'find . -name "*.py" -delete'),
        ("head -n 20 a", "head -n 30 a"),
    ],
)
def test_commands_that_ask_for_different_things_stay_different(one: str, other: str) -> None:
    """Nothing is taken off that a command does, and what writes is left as it is."""
    assert normalize_command(one) != normalize_command(other)


THING = "I will wait for what comes next. "


@pytest.mark.parametrize(
    "said",
    [
        THING,
        "Thinking... Done. ",
        f"{THING * 4}I will wa",
        "Fixed. Now\\n the next one.\\n",
        "ABCDE" * 4,
        "no " * 20,
    ],
)
def test_a_text_that_says_one_thing_over_and_over_is_told(said: str) -> None:
    """Ten times and more; a text that ends otherwise has found its thread again."""
    assert count_repeated_ends(b'"Here is my plan. %s"' % (said * 40).encode()) >= 10
    assert count_repeated_ends((said * 40).strip().encode()) >= 10
    assert (
        count_repeated_ends(
            f"{said * 40} All of that is done now, and every test of the module passes.".encode()
        )
        == 0
    )


def test_nine_times_is_not_often_enough() -> None:
    """And what stands before something else does not count."""
    said = f"{THING}{THING[:17]}"
    assert count_repeated_ends((said * 10).encode()) == 10
    assert count_repeated_ends((said * 9).encode()) == 0
    assert count_repeated_ends((said * 9 + "* item " + said * 9).encode()) == 0
    assert count_repeated_ends(("Then something else. " + said * 12_345).encode()) == 12_345


@pytest.mark.parametrize(
    "text",
    [
        "-" * 600,
        "\u2500" * 600,
        r"\u2501" * 600,
        r"=-=-=-=-=\n" * 100,
        "\u256d\u2500" * 300,
        "| a | pending |\n" * 40,
        "short. " * 5,
        "".join(f"- projects/our-project-12345/locations/us-central1/services/{n}\n" for n in range(60)),
        f"```\n{THING * 40}\n```",
        f"Here is the code:\n```\n{THING * 40}",
    ],
)
def test_dividers_tables_and_lists_are_no_stammer(text: str) -> None:
    """They repeat themselves by nature."""
    assert count_repeated_ends(text.encode()) < 10


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
