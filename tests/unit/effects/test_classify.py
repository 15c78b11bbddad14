"""The class of a tool call by its tool and input, and the unfinished calls of a folded session."""

import json
from pathlib import Path
from typing import Final

import pytest
from bench.effects import measure, page, rule_tables
from hypothesis import given, settings, strategies as st

from support.judging_helpers import folded
from wakeful.effects.rules import MEANINGS, PROGRAMS, RANK, VERBS, Effect, EffectRule
from wakeful.judging import events as e
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX
from wakeful.judging.interrupted_calls import TOOLS, classify, interrupted_calls

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "effects.md"


def given_command(command: object, key: str = "command") -> bytes:
    return json.dumps({key: command, "description": "git push"}).encode()


def script(code: str) -> EffectRule:
    return classify("exec", code.encode()).rule


@pytest.mark.parametrize(
    ("tool", "given_input", "rule"),
    [
        ("Read", b"{}", EffectRule.READS),
        ("TodoWrite", b"{}", EffectRule.READS),
        ("WebFetch", b"{}", EffectRule.NETWORK_READ),
        ("Edit", b'{"new_string":"git push"}', EffectRule.LOCAL_WRITE),
        ("apply_patch", b"*** Begin Patch", EffectRule.LOCAL_WRITE),
        ("AskUserQuestion", b"{}", EffectRule.ASKS_PERSON),
        ("Task", b"{}", EffectRule.SUBAGENT),
        ("TaskOutput", b"{}", EffectRule.POLLS),
        ("Bash", given_command("git push"), EffectRule.GIT_PUSH),
        ("Bash", given_command("echo git push"), EffectRule.READS),
        ("exec_command", given_command("git push", "cmd"), EffectRule.GIT_PUSH),
        ("shell", given_command(["bash", "-lc", "git push"]), EffectRule.GIT_PUSH),
        ("shell", given_command(["git", "status"]), EffectRule.READS),
        ("local_shell", json.dumps({"action": {"command": ["git", "push"]}}).encode(), EffectRule.GIT_PUSH),
        ("write_stdin", b'{"session_id":1,"chars":""}', EffectRule.POLLS),
        ("write_stdin", b'{"session_id":1,"chars":"\\u0003"}', EffectRule.LOCAL_WRITE),
        ("write_stdin", b'{"session_id":1,"chars":"y\\n"}', EffectRule.TYPED_INPUT),
        ("mcp__github__get_issue", b"{}", EffectRule.MCP_READ),
        ("mcp__apps__github_fetch_pr", b"{}", EffectRule.MCP_READ),
        ("mcp__github__get_or_create_issue", b"{}", EffectRule.MCP_TOOL),
        ("mcp__slack__post_message", b"{}", EffectRule.MCP_TOOL),
        ("mcp__db__query", b"{}", EffectRule.MCP_TOOL),
        ("mcp__apps__listAndDelete", b"{}", EffectRule.MCP_TOOL),
        ("mcp__", b"{}", EffectRule.MCP_TOOL),
        ("something_new", b"{}", EffectRule.UNKNOWN_TOOL),
        ("", b"", EffectRule.UNKNOWN_TOOL),
        ("Bash", b"", EffectRule.UNREADABLE),
        ("Bash", b"{}", EffectRule.UNREADABLE),
        ("Bash", b'{"command": 3}', EffectRule.UNREADABLE),
        ("Bash", b"[" * 100_000, EffectRule.UNREADABLE),
        ("Bash", b'{"command":"\xff\xfe"}', EffectRule.UNREADABLE),
        ("Bash", b'{"command":"git push && echo ', EffectRule.GIT_PUSH),
    ],
)
def test_a_call_is_classed_by_its_tool_and_input(tool: str, given_input: bytes, rule: EffectRule) -> None:
    """The tool decides where it can, the command where it must, and what cannot be read is unknown."""
    assert classify(tool, given_input).rule is rule


@pytest.mark.parametrize("command", ["sleep 0.3", "ls", "cd a && true", "git push"])
def test_a_person_reads_which_command_it_was(command: str) -> None:
    """Also of one that does nothing worth a rule."""
    assert classify("Bash", given_command(command)).words == command


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('const r = await tools.exec_command({cmd:"git push"}); text(r.output)', EffectRule.GIT_PUSH),
        ('tools.exec_command({"cmd": "git status", workdir: "x"})', EffectRule.READS),
        ("tools.exec_command({cmd:'ls'}); tools.exec_command({cmd:`git push`})", EffectRule.GIT_PUSH),
        ('tools.exec_command({cmd:"git pu\\x73h"})', EffectRule.GIT_PUSH),
        ('tools.exec_command({workdir:"git push", cmd:"ls"})', EffectRule.READS),
        ("tools.exec_command({cmd:`ls ${x}`})", EffectRule.HIDDEN_COMMAND),
        ("tools.exec_command({cmd:`git push ${x}`})", EffectRule.GIT_PUSH),
        ('tools.exec_command({cmd:"ls " + x})', EffectRule.HIDDEN_COMMAND),
        ("tools.exec_command({cmd})", EffectRule.HIDDEN_COMMAND),
        ("const a = {cmd}; tools.exec_command(a)", EffectRule.HIDDEN_COMMAND),
        ("tools.exec_command({...a, cmd:'ls'})", EffectRule.HIDDEN_COMMAND),
        ("const t = tools; t.exec_command({cmd:'ls'})", EffectRule.HIDDEN_COMMAND),
        ("tools['exec_command']({cmd:'ls'})", EffectRule.HIDDEN_COMMAND),
        ('const cmds = ["git push"]; for (const cmd of cmds) tools.exec_command({cmd})', EffectRule.GIT_PUSH),
        ('const t = tools; t.exec_command({cmd:"git push"})', EffectRule.GIT_PUSH),
        ('tools.exec_command({cmd:"ls"}); fetch("x")', EffectRule.HIDDEN_COMMAND),
        ('tools.write_stdin({session_id:1,chars:""})', EffectRule.POLLS),
        ('tools.write_stdin({session_id:1,chars:"rm\\n"})', EffectRule.TYPED_INPUT),
        ('const p = "*** Begin Patch"; tools.apply_patch(p)', EffectRule.LOCAL_WRITE),
        ("tools.mcp__github__create_issue({})", EffectRule.MCP_TOOL),
        ("tools.spawn_agent({})", EffectRule.SUBAGENT),
        ("tools.exec('x')", EffectRule.HIDDEN_COMMAND),
        ("text(ALL_TOOLS.length)", EffectRule.READS),
        ("// tools.exec_command({cmd:'git push'})", EffectRule.READS),
        ('text("unfinished', EffectRule.HIDDEN_COMMAND),
        ("", EffectRule.READS),
    ],
)
def test_the_calls_inside_a_script_are_classed_one_by_one(code: str, rule: EffectRule) -> None:
    """Codex writes scripts that call tools; what such a script puts together while it runs is not seen."""
    assert script(code) is rule


def test_commands_named_in_a_list_are_never_local() -> None:
    """A script that runs its commands from a list is unknown even where each of them reads."""
    verdict = classify("exec", b'for (const cmd of ["ls"]) tools.exec_command({cmd})')
    assert verdict.effect is Effect.UNKNOWN


@settings(max_examples=300)
@given(st.sampled_from(["Bash", "exec", "write_stdin", "shell", "mcp__a__b", "x"]), st.binary(max_size=300))
def test_any_input_has_an_answer(tool: str, given_input: bytes) -> None:
    """Inputs come from logs that any program may write."""
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
    left = interrupted_calls(activity)
    assert [call.call for call in left] == ["push", "sub", "ask"]
    assert [call.verdict.rule for call in left] == [
        EffectRule.GIT_PUSH,
        EffectRule.SUBAGENT,
        EffectRule.ASKS_PERSON,
    ]
    assert left[0].verdict.words == "git push"


def test_a_finished_turn_leaves_nothing() -> None:
    """Only unfinished calls can have left something half done."""
    activity = folded(
        [e.Prompted(1.0), e.CallStarted(2.0, "a", "Bash"), e.CallEnded(3.0, "a"), e.TurnEnded(4.0)]
    )
    assert interrupted_calls(activity) == ()


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
    assert [call.verdict.rule for call in interrupted_calls(activity)] == [
        EffectRule.GIT_PUSH,
        EffectRule.POLLS,
    ]


def test_a_poll_for_a_command_nobody_saw_begin_is_unknown() -> None:
    """What it waits for may be anything."""
    poll = e.CallStarted(2.0, "b", "write_stdin", input=b'{"session_id":77,"chars":""}')
    (left,) = interrupted_calls(folded([e.Prompted(1.0), poll]))
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
    effects = [call.verdict.effect for call in interrupted_calls(folded(events))]
    assert effects == [Effect.UNKNOWN, Effect.REMOTE, Effect.UNKNOWN, Effect.LOCAL]


def test_every_rule_has_a_meaning_and_the_worst_class_ranks_highest() -> None:
    """A part that is remote always speaks before one that is unknown, and that before a local one."""
    order = [Effect.LOCAL, Effect.UNKNOWN, Effect.REMOTE]
    ranked = [order.index(MEANINGS[rule].effect) for rule in sorted(EffectRule, key=RANK.__getitem__)]
    assert ranked == sorted(ranked)
    assert set(MEANINGS) == set(EffectRule)


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
