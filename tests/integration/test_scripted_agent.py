"""Claims about the scripted agent: on disk and in the process table it looks like Claude Code."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support.real_clients import ClaudeHome, wait_for
from wakeful.integrations.claude_code.registry import read_entry
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.judging import events as e
from wakeful.linux import proc
from wakeful.testing.scripted_agent import BadStep, NotInTime, RunningAgent, ScriptedAgent
from wakeful.testing.scripted_model import script

ALL_STEPS: Final = (
    {"prompt": "Make it green"},
    {"text": "I will look first"},
    {"tool": "Read", "input": {"file_path": "a.py"}, "result": "print()"},
    {"tool": "Bash", "input": {"command": "make"}, "seconds": 0.05, "result": "ok"},
    {"tool": "Bash", "input": {"command": "false"}, "result": "Exit code 1", "is_error": True},
    {"loop": [{"tool": "Grep", "input": {"pattern": "x"}}], "times": 2},
    {"wait": 0.01},
    {"end": "All green"},
    {"prompt": "And now?"},
    {"fail": "authentication_failed"},
)
LONG_TOOL: Final = {"tool": "Bash", "input": {"command": "make test"}, "seconds": 300}


@pytest.fixture
def agent(tmp_path: Path) -> ScriptedAgent:
    return ScriptedAgent(tmp_path / "claude", tmp_path / "project")


@pytest.fixture
def in_a_tool(agent: ScriptedAgent) -> Iterator[RunningAgent]:
    """An agent in the middle of a tool that will take minutes."""
    with agent.start({"prompt": "Test it"}, LONG_TOOL) as running:
        running.wait_for_tool()
        yield running


def events_of(running: RunningAgent) -> list[e.Event]:
    reader = TranscriptReader()
    return [event for line in running.lines() for event in reader.read(line)]


def records(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def shapes(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The paths of all keys, by a name for what kind of record it is."""
    return {_kind(record): set(_paths(record)) for record in found}


def _kind(record: dict[str, Any]) -> str:
    content = record.get("message", {}).get("content")
    block = content[0].get("type", "") if isinstance(content, list) else ""
    # A result that is an error, and a turn that failed, have other keys than their good sisters.
    bad = "error" if record.get("isApiErrorMessage") or isinstance(record.get("toolUseResult"), str) else ""
    return " ".join(part for part in (record["type"], record.get("subtype"), block, bad) if part)


def _paths(value: object, path: str = "") -> Iterator[str]:
    # What a tool was given is the script's business.
    if isinstance(value, dict) and not path.endswith(".input"):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from _paths(inner, f"{path}.{key}")
    elif isinstance(value, list) and value:
        yield from _paths(value[0], f"{path}[]")


def kill_all(running: RunningAgent) -> None:
    running.close()
    assert running.tools() == []


def test_its_transcript_reads_like_a_real_one(agent: ScriptedAgent) -> None:
    """The reader finds nothing malformed, unknown or drifted, and every step is the event it stands for."""
    with agent.start(*ALL_STEPS, {"exit": 0}) as running:
        assert running.process.wait(60) == 0
        events = events_of(running)
    odd = (e.LineMalformed, e.FormatDrifted, e.RecordSkipped)
    assert not [event for event in events if isinstance(event, odd)]
    calls = [event for event in events if isinstance(event, e.CallStarted)]
    ends = [event for event in events if isinstance(event, e.CallEnded)]
    assert [call.tool for call in calls] == ["Read", "Bash", "Bash", "Grep", "Grep"]
    assert [(end.call, end.is_error) for end in ends] == [
        (call.call, index == 2) for index, call in enumerate(calls)
    ]
    assert len({event for event in events if isinstance(event, e.Prompted)}) == 2
    assert [event.by_mark for event in events if isinstance(event, e.TurnEnded)] == [False, True, True]
    assert [event.failure for event in events if isinstance(event, e.TurnFailed)] == [e.Failure.AUTH]
    stamps = [event.at for event in events if event.at]
    assert stamps == sorted(stamps)


def test_it_writes_the_records_of_the_real_client(
    agent: ScriptedAgent, claude_home: ClaudeHome, tmux_socket: Path
) -> None:
    """Registry entry and every kind of record have exactly the keys the real Claude Code gives them."""
    work = script({"text": "I will look", "run": "ls"}, {"run": "ls missing"}, {"text": "All done"})
    session = claude_home.in_tmux(tmux_socket, f"Please {work}", "real")
    transcript = wait_for(lambda: next(iter(claude_home.logs()), None), "transcript")
    wait_for(lambda: b"turn_duration" in transcript.read_bytes() or None, "end of the turn")
    entry = claude_home.wait_for_status("idle")
    session.type_line(script({"status": 401}))
    wait_for(lambda: transcript.read_bytes().count(b"turn_duration") == 2 or None, "end of the failed turn")
    real = shapes(records(transcript.read_bytes().splitlines()))
    # What other tools add to their results is theirs; the script imitates that of Bash only.
    with agent.start(
        *(step for step in ALL_STEPS if step.get("tool") != "Read" and "loop" not in step)
    ) as running:
        running.wait_until_line(14)
        running.wait_for_status("idle")
        scripted = shapes(records(running.lines()))
        assert (running.entry() or {}).keys() == entry.keys()
    assert real.keys() - scripted.keys() == {"attachment"}
    assert scripted == {kind: real.get(kind, set()) for kind in scripted}


def test_its_registry_entry_names_the_very_process(in_a_tool: RunningAgent) -> None:
    """Pid, start time, conversation and status can be read as the real one's are."""
    in_a_tool.wait_for_status("busy")
    entry = read_entry(in_a_tool.registry)
    assert entry is not None
    assert entry.process == proc.identify(in_a_tool.pid)
    assert entry.session_id == in_a_tool.conversation
    assert entry.cwd == str(in_a_tool.transcript.parents[3] / "project")


def test_a_question_waits_for_its_answer(agent: ScriptedAgent) -> None:
    """While it asks the registry says so and for what; the answer lets the call run and the turn end."""
    ask = {"ask": "permission prompt", "tool": "Bash", "input": {"command": "git push"}, "result": "pushed"}
    with agent.start({"prompt": "Ship it"}, ask, {"end": "Shipped"}) as running:
        running.wait_for_status("waiting")
        entry = read_entry(running.registry)
        assert entry is not None
        assert entry.waiting_for == "permission prompt"
        assert isinstance(events_of(running)[-2], e.CallStarted)
        running.answer()
        running.wait_for_status("idle")
        assert isinstance(events_of(running)[-1], e.TurnEnded)
        assert "waitingFor" not in (running.entry() or {})


def test_kill_9_leaves_the_registry_file_and_an_orphaned_tool(in_a_tool: RunningAgent) -> None:
    """The evidence of a death: a file of a vanished process, an open call, a tool without a parent."""
    tool = in_a_tool.wait_for_tool()
    in_a_tool.kill()
    assert in_a_tool.process.returncode == -signal.SIGKILL
    entry = read_entry(in_a_tool.registry)
    assert entry is not None
    assert proc.identify(in_a_tool.pid) is None
    assert in_a_tool.tools() == [tool]
    assert os.getsid(tool) == tool
    assert isinstance(events_of(in_a_tool)[-2], e.CallStarted)


def test_a_killed_step_is_a_kill_9(agent: ScriptedAgent) -> None:
    """The script's own way to die leaves the same behind as a kill from outside."""
    with agent.start({"prompt": "Test it"}, {"killed": 0.5}, LONG_TOOL) as running:
        assert running.process.wait(60) == -signal.SIGKILL
        assert running.registry.exists()
        assert len(running.tools()) == 1


def test_a_normal_exit_removes_the_registry_file(agent: ScriptedAgent) -> None:
    """An orderly end leaves no entry, and an end mark in the transcript."""
    with agent.start({"prompt": "Say hello"}, {"end": "Hello"}, {"exit": 3}) as running:
        assert running.process.wait(60) == 3
        assert not running.registry.exists()
        assert records(running.lines())[-1]["type"] == "last-prompt"


def test_sigterm_leaves_the_tool_and_sigint_ends_it(tmp_path: Path) -> None:
    """The two polite signals differ as the real client's do: 143 and an orphan, 0 and an interrupted turn."""
    expected = {signal.SIGTERM: (143, 1, e.CallStarted), signal.SIGINT: (0, 0, e.TurnInterrupted)}
    for number, (code, tools, last) in expected.items():
        agent = ScriptedAgent(tmp_path / "claude", tmp_path / number.name)
        with agent.start({"prompt": "Test it"}, LONG_TOOL) as running:
            running.wait_for_tool()
            running.process.send_signal(number)
            assert running.process.wait(60) == code
            assert len(running.tools()) == tools
            assert not running.registry.exists()
            steps = [
                event for event in events_of(running) if not isinstance(event, e.TokensSpent | e.LogClosed)
            ]
            assert isinstance(steps[-1], last)


def test_closing_it_ends_its_own_tools_only(tmp_path: Path, in_a_tool: RunningAgent) -> None:
    """Another agent's tool is not touched, nor the other agent."""
    with ScriptedAgent(tmp_path / "claude", tmp_path / "other").start({"prompt": "x"}, LONG_TOOL) as other:
        tool = other.wait_for_tool()
        kill_all(in_a_tool)
        assert other.tools() == [tool]
        assert other.process.poll() is None


def test_a_resumed_conversation_continues_its_file(in_a_tool: RunningAgent, tmp_path: Path) -> None:
    """Same file, and the new prompt hangs on the record before the call that never came back."""
    before = records(in_a_tool.lines())
    in_a_tool.kill()
    again = ScriptedAgent(
        tmp_path / "claude", tmp_path / "project", conversation=in_a_tool.conversation
    ).start({"prompt": "Go on"}, {"end": "Done"})
    with again:
        again.wait_until_line(len(before) + 2)
        prompt = records(again.lines())[len(before)]
    assert again.transcript == in_a_tool.transcript
    assert prompt["parentUuid"] == before[-2]["uuid"]


def test_it_shows_a_person_what_it_does(agent: ScriptedAgent) -> None:
    """Started by hand it prints prompt, words, calls and results; nothing of it is coloured in a pipe."""
    agent.cwd.mkdir()
    argv = agent.argv(*ALL_STEPS, {"exit": True})
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout
    for expected in ("> Make it green", "● I will look first", "● Bash(make)", "  ⎿  ok", "Invalid API key"):
        assert expected in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "step", [{"dance": 1}, "prompt", {"text": "x", "seconds": 1}, {"fail": "tired"}, {"loop": [{}]}]
)
def test_a_bad_step_is_refused_before_anything_starts(agent: ScriptedAgent, step: Any) -> None:
    """A script with a mistake names it; no process, no file."""
    with pytest.raises(BadStep):
        agent.start(step)
    assert not agent.home.exists()


def test_a_bad_command_line_is_one_line_and_exit_2() -> None:
    """Missing options are answered with the usage."""
    argv = [sys.executable, "-m", "wakeful.testing.scripted_agent", "--home", "x"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")


def test_waiting_for_what_never_comes_says_so(agent: ScriptedAgent) -> None:
    """A test that waits in vain learns for what."""
    with agent.start() as running, pytest.raises(NotInTime, match="line 1"):
        running.wait_until_line(1, timeout_seconds=0.05)
