"""The class of a tool call by its tool and input, and the unfinished calls of a folded session."""

import json
from pathlib import Path
from typing import Final

import pytest
from bench.effects import measure, page, rule_tables
from hypothesis import given, settings, strategies as st

from support.judging_helpers import folded
from wakeful.effects.rules import MEANINGS, PROGRAMS, RANK, VERBS, Effect, Rule
from wakeful.judging import events as e
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX
from wakeful.judging.interrupted_calls import TOOLS, classify, interrupted

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "effects.md"


def given_command(command: object, key: str = "command") -> bytes:
    return json.dumps({key: command, "description": "git push"}).encode()


def script(code: str) -> Rule:
    return classify("exec", code.encode()).rule


@pytest.mark.parametrize(
    ("tool", "given_input", "rule"),
    [
        ("Read", b"{}", Rule.READS),
        ("TodoWrite", b"{}", Rule.READS),
        ("WebFetch", b"{}", Rule.NETWORK_READ),
        ("Edit", b'{"new_string":"git push"}', Rule.LOCAL_WRITE),
        ("apply_patch", b"*** Begin Patch", Rule.LOCAL_WRITE),
        ("AskUserQuestion", b"{}", Rule.ASKS_PERSON),
        ("Task", b"{}", Rule.SUBAGENT),
        ("TaskOutput", b"{}", Rule.POLLS),
        ("Bash", given_command("git push"), Rule.GIT_PUSH),
        ("Bash", given_command("echo git push"), Rule.READS),
        ("exec_command", given_command("git push", "cmd"), Rule.GIT_PUSH),
        ("shell", given_command(["bash", "-lc", "git push"]), Rule.GIT_PUSH),
        ("shell", given_command(["git", "status"]), Rule.READS),
        ("local_shell", json.dumps({"action": {"command": ["git", "push"]}}).encode(), Rule.GIT_PUSH),
        ("write_stdin", b'{"session_id":1,"chars":""}', Rule.POLLS),
        ("write_stdin", b'{"session_id":1,"chars":"\\u0003"}', Rule.LOCAL_WRITE),
        ("write_stdin", b'{"session_id":1,"chars":"y\\n"}', Rule.TYPED_INPUT),
        ("mcp__github__get_issue", b"{}", Rule.MCP_READ),
        ("mcp__apps__github_fetch_pr", b"{}", Rule.MCP_READ),
        ("mcp__github__get_or_create_issue", b"{}", Rule.MCP_TOOL),
        ("mcp__slack__post_message", b"{}", Rule.MCP_TOOL),
        ("mcp__db__query", b"{}", Rule.MCP_TOOL),
        ("mcp__apps__listAndDelete", b"{}", Rule.MCP_TOOL),
        ("mcp__", b"{}", Rule.MCP_TOOL),
        ("something_new", b"{}", Rule.UNKNOWN_TOOL),
        ("", b"", Rule.UNKNOWN_TOOL),
        ("Bash", b"", Rule.UNREADABLE),
        ("Bash", b"{}", Rule.UNREADABLE),
        ("Bash", b'{"command": 3}', Rule.UNREADABLE),
        ("Bash", b"[" * 100_000, Rule.UNREADABLE),
        ("Bash", b'{"command":"\xff\xfe"}', Rule.UNREADABLE),
        ("Bash", b'{"command":"git push && echo ', Rule.GIT_PUSH),
    ],
)
def test_a_call_is_classed_by_its_tool_and_input(tool: str, given_input: bytes, rule: Rule) -> None:
    """The tool decides where it can, the command where it must, and what cannot be read is unknown."""
    assert classify(tool, given_input).rule is rule


@pytest.mark.parametrize("command", ["sleep 0.3", "ls", "cd a && true", "git push"])
def test_a_person_reads_which_command_it_was(command: str) -> None:
    """Also of one that does nothing worth a rule."""
    assert classify("Bash", given_command(command)).words == command


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('const r = await tools.exec_command({cmd:"git push"}); text(r.output)', Rule.GIT_PUSH),
        ('tools.exec_command({"cmd": "git status", workdir: "x"})', Rule.READS),
        ("tools.exec_command({cmd:'ls'}); tools.exec_command({cmd:`git push`})", Rule.GIT_PUSH),
        ('tools.exec_command({cmd:"git pu\\x73h"})', Rule.GIT_PUSH),
        ('tools.exec_command({workdir:"git push", cmd:"ls"})', Rule.READS),
        ("tools.exec_command({cmd:`ls ${x}`})", Rule.HIDDEN_COMMAND),
        ("tools.exec_command({cmd:`git push ${x}`})", Rule.GIT_PUSH),
        ('tools.exec_command({cmd:"ls " + x})', Rule.HIDDEN_COMMAND),
        ("tools.exec_command({cmd})", Rule.HIDDEN_COMMAND),
        ("const a = {cmd}; tools.exec_command(a)", Rule.HIDDEN_COMMAND),
        ("tools.exec_command({...a, cmd:'ls'})", Rule.HIDDEN_COMMAND),
        ("const t = tools; t.exec_command({cmd:'ls'})", Rule.HIDDEN_COMMAND),
        ("tools['exec_command']({cmd:'ls'})", Rule.HIDDEN_COMMAND),
        ('const cmds = ["git push"]; for (const cmd of cmds) tools.exec_command({cmd})', Rule.GIT_PUSH),
        ('const t = tools; t.exec_command({cmd:"git push"})', Rule.GIT_PUSH),
        ('tools.exec_command({cmd:"ls"}); fetch("x")', Rule.HIDDEN_COMMAND),
        ('tools.write_stdin({session_id:1,chars:""})', Rule.POLLS),
        ('tools.write_stdin({session_id:1,chars:"rm\\n"})', Rule.TYPED_INPUT),
        ('const p = "*** Begin Patch"; tools.apply_patch(p)', Rule.LOCAL_WRITE),
        ("tools.mcp__github__create_issue({})", Rule.MCP_TOOL),
        ("tools.spawn_agent({})", Rule.SUBAGENT),
        ("tools.exec('x')", Rule.HIDDEN_COMMAND),
        ("text(ALL_TOOLS.length)", Rule.READS),
        ("// tools.exec_command({cmd:'git push'})", Rule.READS),
        ('text("unfinished', Rule.HIDDEN_COMMAND),
        ("", Rule.READS),
    ],
)
def test_the_calls_inside_a_script_are_classed_one_by_one(code: str, rule: Rule) -> None:
    """Codex writes scripts that call tools; what such a script puts together while it runs is not seen."""
    assert script(code) is rule


def test_commands_named_in_a_list_are_never_local() -> None:
    """A script that runs its commands from a list is unknown even where each of them reads."""
    verdict = classify("exec", b'for (const cmd of ["ls"]) tools.exec_command({cmd})')
    assert verdict.effect is Effect.UNKNOWN


@settings(max_examples=300)
@given(st.sampled_from(["Bash", "exec", "write_stdin", "shell", "mcp__a__b", "x"]), st.binary(max_size=300))
def test_any_input_has_an_answer(tool: str, given_input: bytes) -> None:
    """Inputs come from logs that anybody may write."""
    verdict = classify(tool, given_input)
    assert verdict.effect is MEANINGS[verdict.rule].effect


def test_the_calls_a_killed_session_left_open_are_told_oldest_first() -> None:
    """A transcript that ends inside a call names it, with its class."""
    activity = folded(
        [
            e.Prompted(1.0),
            e.CallStarted(2.0, "done", "Bash", input=given_command("git push")),
            e.CallEnded(3.0, "done"),
            e.CallStarted(4.0, "push", "Bash", input=given_command("git push")),
            e.CallStarted(4.5, "sub", "Task", e.CallKind.SUBAGENT),
            e.CallStarted(5.0, "ask", "AskUserQuestion", e.CallKind.PERSON),
        ]
    )
    left = interrupted(activity)
    assert [call.call for call in left] == ["push", "sub", "ask"]
    assert [call.verdict.rule for call in left] == [Rule.GIT_PUSH, Rule.SUBAGENT, Rule.ASKS_PERSON]
    assert left[0].verdict.words == "git push"


def test_a_finished_turn_leaves_nothing() -> None:
    """Only unfinished calls can have left something half done."""
    activity = folded(
        [e.Prompted(1.0), e.CallStarted(2.0, "a", "Bash"), e.CallEnded(3.0, "a"), e.TurnEnded(4.0)]
    )
    assert interrupted(activity) == ()


def test_a_command_left_running_is_told_beside_the_poll_that_waits_for_it() -> None:
    """Its own call came back long ago; when the client dies it dies too."""
    activity = folded(
        [
            e.Prompted(1.0),
            e.CallStarted(2.0, "a", "exec_command", input=given_command("git push", "cmd")),
            e.CallEnded(3.0, "a", background="77"),
            e.CallStarted(4.0, "b", "write_stdin", input=b'{"session_id":77,"chars":""}'),
        ]
    )
    assert [call.verdict.rule for call in interrupted(activity)] == [Rule.GIT_PUSH, Rule.POLLS]


def test_a_poll_for_a_command_nobody_saw_begin_is_unknown() -> None:
    """What it waits for may be anything."""
    poll = e.CallStarted(2.0, "b", "write_stdin", input=b'{"session_id":77,"chars":""}')
    (left,) = interrupted(folded([e.Prompted(1.0), poll]))
    assert left.verdict.effect is Effect.UNKNOWN


def test_an_input_of_which_only_the_beginning_was_kept_is_not_local() -> None:
    """A push may stand behind the cut; a file that was edited is local however long it is."""
    long = "echo " + "x" * INPUT_BYTES_KEPT_MAX
    events = [
        e.Prompted(1.0),
        e.CallStarted(2.0, "a", "Bash", input=given_command(f"{long}; git push")),
        e.CallStarted(3.0, "b", "Bash", input=given_command(f"git push; {long}")),
        e.CallStarted(4.0, "c", "exec", input=b"text(1)\n" * INPUT_BYTES_KEPT_MAX),
        e.CallStarted(5.0, "d", "Write", input=given_command(long)),
    ]
    effects = [call.verdict.effect for call in interrupted(folded(events))]
    assert effects == [Effect.UNKNOWN, Effect.REMOTE, Effect.UNKNOWN, Effect.LOCAL]


def test_every_rule_has_a_meaning_and_the_worst_class_ranks_highest() -> None:
    """A part that is remote always speaks before one that is unknown, and that before a local one."""
    order = [Effect.LOCAL, Effect.UNKNOWN, Effect.REMOTE]
    ranked = [order.index(MEANINGS[rule].effect) for rule in sorted(Rule, key=RANK.__getitem__)]
    assert ranked == sorted(ranked)
    assert set(MEANINGS) == set(Rule)


def test_no_program_stands_in_two_tables() -> None:
    """Where two rules know a program, which one speaks would be chance."""
    assert not PROGRAMS.keys() & VERBS.keys()
    assert not {name for name in TOOLS if name.startswith("mcp__")}


def test_the_page_has_the_rules_of_the_code() -> None:
    """`python -m bench.effects --write docs/reference/effects.md` was run after the last change of the tables."""
    assert PAGE.read_text().endswith(rule_tables())


def test_the_page_can_be_made_without_recordings() -> None:
    """The bench says nothing about calls it did not see."""
    assert "| all | 0 | - | - | - | - | - | - |" in page(measure([]))
