"""Claims about following a turn through a run folder whose process is gone."""

import asyncio
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.real_clients import wait_for
from wakeful.client import turn_stream as listening
from wakeful.control.turn_events import Ended, Gone, PromptUnread, TurnEvent
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import EPOCH_VARIABLE, SESSION_VARIABLE, ManagedSession
from wakeful.core.process import ProcessState
from wakeful.daemon.control import LocalProcesses
from wakeful.integrations.claude_code.turn_reader import ClaudeTurnReader
from wakeful.linux import proc
from wakeful.testing.virtual_clock import VirtualClock

PROMPT_ID = "11111111-1111-5111-8111-111111111111"
SESSION = SessionId("claude-22222222-2222-5222-8222-222222222222")
Line = dict[str, Any]
RUNNING: Line = {"type": "system", "subtype": "session_state_changed", "state": "running"}


def replayed(uuid: str, text: str = "hello") -> Line:
    return {"type": "user", "message": {"content": text}, "uuid": uuid, "isReplay": True}


def result(text: str) -> Line:
    return {"type": "result", "result": text, "stop_reason": "end_turn"}


def told(root: Path, *lines: Line, count: int = 1) -> list[TurnEvent]:
    """The first words that matter, of a folder that holds these lines and whose process is not found."""
    folder = root / SESSION
    folder.mkdir()
    (folder / "out.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    async def nobody(_session_id: SessionId) -> None:
        return None

    async def scenario() -> list[TurnEvent]:
        found: list[TurnEvent] = []
        async with asyncio.timeout(5):
            async for each in listening.TurnStream(root, nobody).events(
                SESSION, ClaudeTurnReader(PROMPT_ID), 1
            ):
                if isinstance(each, Ended | Gone | PromptUnread):
                    found.append(each)
                if len(found) == count:
                    break
        return found

    return asyncio.run(scenario())


def test_an_answer_that_is_there_is_taken_before_anybody_waits_for_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed agent begins its file again: an answer that was not read by then is lost."""
    monkeypatch.setattr(listening, "NEW_PROCESS_SECONDS_MAX", 3600)
    (end,) = told(tmp_path, RUNNING, replayed(PROMPT_ID), result("the answer"))
    assert (type(end), getattr(end, "text", "")) == (Ended, "the answer")


def test_a_prompt_that_its_process_never_came_to_is_said_to_be_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was at work on what the healer told it before."""
    monkeypatch.setattr(listening, "NEW_PROCESS_SECONDS_MAX", 0)
    assert told(tmp_path, RUNNING, replayed("brief", "Wakeful: go on"), count=2) == [Gone(""), PromptUnread()]


def test_an_agent_is_ended_with_the_program_below_its_wrapper(tmp_path: Path) -> None:
    """Codex works on when only npm's wrapper is killed; a tool is left, as a crash leaves it."""
    marked = {**os.environ, SESSION_VARIABLE: SESSION, EPOCH_VARIABLE: "2"}
    inner = f"CODEX_THREAD_ID=x setsid sleep 1000 & echo $! > {tmp_path}/tool; sleep 1001 & echo $! > {tmp_path}/agent; wait"
    wrapper = subprocess.Popen(["sh", "-c", inner], env=marked)
    files = [tmp_path / "agent", tmp_path / "tool"]
    wait_for(lambda: all(_pid(each) for each in files) or None, "an agent and its tool")
    pids = [_pid(each) for each in files]
    processes = LocalProcesses(VirtualClock(), tmp_path)
    managed = ManagedSession(SESSION, ConversationId("x"), "codex", "/", ("codex",), 2, 0.0)
    try:
        assert set(asyncio.run(processes.kill(managed))) == {ProcessState.DEAD}
        assert wrapper.wait(5) == -signal.SIGKILL
        assert [proc.identify_or_none(pid) is not None for pid in pids] == [False, True]
    finally:
        for pid in filter(None, (wrapper.pid, *pids)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _pid(file: Path) -> int:
    """0: it is not there yet."""
    text = file.read_text().strip() if file.exists() else ""
    return int(text or 0)
