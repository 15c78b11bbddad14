"""Claims about driving the real Claude Code: every act, what it reports, and what is left afterwards."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import replace

from support.real_clients import ClaudeHome
from wakeful.control.briefs import BriefedCall, brief
from wakeful.control.driver import (
    ActionResult,
    ArgumentRefused,
    ConversationUnknown,
    PermissionQuestion,
    PermissionReply,
    PromptRefused,
    StartRequest,
)
from wakeful.core.errors import ClientMissing, StartFailed, WakefulError, WorkingDirectoryGone
from wakeful.core.ids import ConversationId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import ProcessState
from wakeful.integrations.claude_code.driver import ClaudeDriver
from wakeful.integrations.driver_support import DriverTimeouts
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import ActionOutcome
from wakeful.testing.scripted_model import script

T = TypeVar("T")
ALLOWED = ("claude", "--allowedTools", "Bash")
SECONDS_MAX = 60.0
# What a driver does that is killed as soon as its order is under way.
DRIVE_AND_WAIT = """
import asyncio, sys, msgspec
from pathlib import Path
from wakeful.integrations.claude_code.driver import ClaudeDriver
from wakeful.linux.clock import SystemClock
from wakeful.control.driver import StartRequest

async def main():
    order = msgspec.json.decode(sys.argv[2], type=StartRequest)
    seen = await ClaudeDriver(Path(sys.argv[1]), SystemClock()).start(order)
    print(msgspec.json.encode(seen).decode(), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def driver(root: Path) -> ClaudeDriver:
    return ClaudeDriver(root, SystemClock())


def order_for(home: ClaudeHome, **changes: Any) -> StartRequest:
    conversation = ConversationId(str(uuid4()))
    request = StartRequest(
        session_id=None,
        conversation_id=conversation,
        epoch=1,
        intent_id=uuid4().hex,
        cwd=str(home.project),
        argv=("claude",),
        environ=home.environ(),
    )
    return replace(request, **changes)


def tool(command: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": command}}


def hosted(seen: ActionResult) -> ManagedSession:
    assert seen.outcome is ActionOutcome.CONFIRMED, seen.words
    assert seen.hosting is not None
    return seen.hosting


def said(hosting: ManagedSession, kind: str) -> list[dict[str, Any]]:
    """The records of one type in the session's output."""
    assert hosting.folder is not None
    *lines, _torn = (Path(hosting.folder) / "out.jsonl").read_bytes().split(b"\n")
    return [record for record in map(json.loads, lines) if record["type"] == kind]


async def until(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    deadline = time.monotonic() + SECONDS_MAX
    while (found := await look()) is None:
        assert time.monotonic() < deadline, f"no {what}"
        await asyncio.sleep(0.02)
    return found


async def results(hosting: ManagedSession, count: int) -> list[str]:
    """The answers of that many turns, once it is at rest after them."""

    async def look() -> list[str] | None:
        found = [record.get("result", "") for record in said(hosting, "result")]
        states = [record["state"] for record in said(hosting, "system") if "state" in record]
        return found if len(found) >= count and states[-1:] == ["idle"] else None

    return await until(look, f"{count} results")


async def question(driver: ClaudeDriver, hosting: ManagedSession) -> PermissionQuestion:
    async def look() -> PermissionQuestion | None:
        return next(iter(await driver.questions(hosting)), None)

    return await until(look, "question")


async def test_from_start_to_stop(claude_home: ClaudeHome, driver: ClaudeDriver, root: Path) -> None:
    """It starts without a prompt, answers two, is never started twice, and a stop leaves nothing of it."""
    request = order_for(claude_home)
    managed = hosted(await driver.start(request))
    assert (managed.session_id, managed.epoch) == (f"claude-{request.conversation_id}", 1)
    assert managed.process is not None
    assert proc.environ_value(managed.process.pid, "WAKEFUL_SESSION") == managed.session_id
    assert proc.environ_value(managed.process.pid, "WAKEFUL_INTENT") == request.intent_id
    twin = await driver.start(request)
    assert (twin.outcome, twin.hosting) == (ActionOutcome.DECLINED, None)
    for number in (1, 2):
        result = await driver.deliver(managed, script({"text": f"answer {number}"}))
        assert (result.outcome, result.words) == (ActionOutcome.CONFIRMED, "its turn began")
        assert (await results(managed, number))[-1] == f"answer {number}"
    assert (await driver.interrupt(managed)).outcome is ActionOutcome.DECLINED
    stopped = await driver.stop(managed)
    assert stopped.outcome is ActionOutcome.CONFIRMED
    assert "SIGINT" in stopped.words
    assert proc.state_of(managed.process) is ProcessState.DEAD
    again = await driver.stop(managed)
    assert (again.outcome, again.words) == (ActionOutcome.CONFIRMED, "its process had ended already")
    assert claude_home.pids() == []
    assert list(root.iterdir()) == []


async def test_a_question_is_allowed_and_another_denied(
    claude_home: ClaudeHome, driver: ClaudeDriver
) -> None:
    """An allowed call runs as it was asked for, a denied one does not, and no question is answered twice."""
    prompt = script(tool("touch allowed; true"), tool("touch denied; true"), {"text": "done"})
    managed = hosted(await driver.start(order_for(claude_home, prompt=prompt)))
    first = await question(driver, managed)
    assert (first.tool, "touch allowed; true" in first.untrusted) == ("Bash", True)
    assert (await driver.answer(managed, first.id, PermissionReply.ALLOW)).outcome is ActionOutcome.CONFIRMED
    assert (await driver.answer(managed, first.id, PermissionReply.ALLOW)).outcome is ActionOutcome.DECLINED
    second = await question(driver, managed)
    assert (await driver.answer(managed, second.id, PermissionReply.DENY)).outcome is ActionOutcome.CONFIRMED
    assert await results(managed, 1) == ["done"]
    await driver.stop(managed)
    assert [path.name for path in claude_home.project.iterdir()] == ["allowed"]


async def test_interrupted_in_a_tool_it_goes_on(claude_home: ClaudeHome, driver: ClaudeDriver) -> None:
    """The tool ends, the process stays, and the next prompt is answered; one given meanwhile is not lost."""
    prompt = script(tool("sleep 60"), {"text": "never"})
    managed = hosted(await driver.start(order_for(claude_home, argv=ALLOWED, prompt=prompt)))
    tool_pid = await asyncio.to_thread(claude_home.wait_for_tool, "sleep")
    meanwhile = await driver.deliver(managed, script({"text": "meanwhile"}))
    assert (meanwhile.outcome, meanwhile.words) == (
        ActionOutcome.CONFIRMED,
        "it has the prompt and works on",
    )
    result = await driver.interrupt(managed)
    assert (result.outcome, result.words) == (ActionOutcome.CONFIRMED, "its turn was interrupted")
    # The client says that the turn is over before it has ended the tool.
    await until(lambda: _ended(tool_pid), "end of the tool")
    assert (await results(managed, 2))[1] == "meanwhile"
    assert (await driver.deliver(managed, script({"text": "went on"}))).outcome is ActionOutcome.CONFIRMED
    assert (await results(managed, 3))[2] == "went on"
    assert managed.process is not None
    assert proc.state_of(managed.process) is ProcessState.ALIVE
    await driver.stop(managed)


async def test_killed_in_a_tool_and_resumed(claude_home: ClaudeHome, driver: ClaudeDriver) -> None:
    """Its orphan is ended with it, the same conversation goes on, and the agent learns what was interrupted."""
    request = order_for(claude_home, argv=ALLOWED, prompt=script(tool("sleep 60"), {"text": "never"}))
    managed = hosted(await driver.start(request))
    orphan = await asyncio.to_thread(claude_home.wait_for_tool, "sleep")
    assert managed.process is not None
    os.kill(managed.process.pid, signal.SIGKILL)
    await until(lambda: _gone(managed), "death")
    assert (await driver.deliver(managed, "hello")).outcome is ActionOutcome.INEFFECTIVE
    assert proc.identify(orphan) is not None
    stopped = await driver.stop(managed)
    assert stopped.outcome is ActionOutcome.CONFIRMED
    assert "it left behind were ended" in stopped.words
    assert proc.identify(orphan) is None
    told = brief([BriefedCall("Bash", "sleep 60", 70.0)])
    prompt = f"{told} {script({'text': 'back again'})}"
    again = hosted(
        await driver.start(replace(request, resume=True, epoch=2, argv=("claude",), prompt=prompt))
    )
    assert await results(again, 1) == ["back again"]
    await driver.stop(again)
    (transcript,) = claude_home.logs()
    assert b"begun 1 min before" in transcript.read_bytes()


async def _ended(pid: int) -> bool | None:
    return True if proc.identify(pid) is None else None


async def _gone(hosting: ManagedSession) -> bool | None:
    assert hosting.process is not None
    return True if proc.state_of(hosting.process) is ProcessState.DEAD else None


async def test_it_outlives_its_driver(claude_home: ClaudeHome, driver: ClaudeDriver, root: Path) -> None:
    """The driving process killed -9 in the middle of a turn: the turn ends well, and another one delivers the next."""
    request = order_for(claude_home, argv=ALLOWED, prompt=script(tool("sleep 2"), {"text": "survived"}))
    driving = subprocess.Popen(
        [sys.executable, "-c", DRIVE_AND_WAIT, str(root), msgspec.json.encode(request)],
        stdout=subprocess.PIPE,
    )
    assert driving.stdout is not None
    with driving.stdout as output:
        managed = hosted(msgspec.json.decode(output.readline(), type=ActionResult))
        claude_home.wait_for_tool("sleep")
        driving.kill()
        driving.wait()
    assert await results(managed, 1) == ["survived"]
    assert (await driver.deliver(managed, script({"text": "next"}))).outcome is ActionOutcome.CONFIRMED
    assert (await results(managed, 2))[1] == "next"
    assert (await driver.stop(managed)).outcome is ActionOutcome.CONFIRMED
    assert claude_home.pids() == []


async def test_a_client_that_does_not_read_blocks_nobody(claude_home: ClaudeHome, root: Path) -> None:
    """Stopped, it takes a prompt later and the answer claims no more; what does not fit is not written at all."""
    driver = ClaudeDriver(root, SystemClock(), DriverTimeouts(write=0.2, take=0.5))
    managed = hosted(await driver.start(order_for(claude_home)))
    assert managed.process is not None
    os.kill(managed.process.pid, signal.SIGSTOP)
    later = await driver.deliver(managed, script({"text": "later"}))
    assert later.outcome is ActionOutcome.UNVERIFIED
    began = time.monotonic()
    full = await driver.deliver(managed, "x" * 1024 * 1024)
    assert (full.outcome, "full" in full.words) == (ActionOutcome.INEFFECTIVE, True)
    assert time.monotonic() - began < 10.0
    os.kill(managed.process.pid, signal.SIGCONT)
    assert await results(managed, 1) == ["later"]
    # A prompt of the largest size goes through as soon as it reads.
    assert (await driver.deliver(managed, "\n\t" * (512 * 1024 - 1) + "y")).outcome is ActionOutcome.CONFIRMED
    await results(managed, 2)
    await driver.stop(managed)


async def test_a_long_output_begins_anew_between_turns(
    claude_home: ClaudeHome, driver: ClaudeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file does not grow for ever, and the prompt that finds it too long is answered in the new one."""
    monkeypatch.setattr("wakeful.integrations.claude_code.stream_json.OUTPUT_BYTES_MAX", 0)
    managed = hosted(await driver.start(order_for(claude_home, prompt=script({"text": "first"}))))
    assert await results(managed, 1) == ["first"]
    assert (await driver.deliver(managed, script({"text": "second"}))).outcome is ActionOutcome.CONFIRMED
    assert await results(managed, 1) == ["second"]
    await driver.stop(managed)


def test_what_ends_at_once_says_why_without_secrets(
    claude_home: ClaudeHome, driver: ClaudeDriver, root: Path
) -> None:
    """A client that refuses its arguments is a failed start, in its own words, redacted, and nothing is left."""
    request = order_for(claude_home, argv=("claude", "--api-key=sk-ant-0123456789abcdef"))
    with pytest.raises(StartFailed) as failure:
        asyncio.run(driver.start(request))
    assert "unknown option" in str(failure.value)
    assert "0123456789abcdef" not in str(failure.value)
    assert list(root.iterdir()) == []


def test_a_missing_login_is_named(claude_home: ClaudeHome, driver: ClaudeDriver) -> None:
    """Without credentials it runs and can do nothing: the start had no effect, and it says what is missing."""

    async def scenario() -> ActionResult:
        environ = {
            name: value for name, value in claude_home.environ().items() if name != "ANTHROPIC_API_KEY"
        }
        result = await driver.start(order_for(claude_home, environ=environ, prompt="hello"))
        assert result.hosting is not None
        await driver.stop(result.hosting)
        return result

    result = asyncio.run(scenario())
    assert result.outcome is ActionOutcome.INEFFECTIVE
    assert "not logged in: Not logged in" in result.words


UNKNOWN = ConversationId("0c5b2a52-6ffa-4d9b-9e40-000000000000")
REFUSALS: dict[str, tuple[dict[str, Any], type[WakefulError]]] = {
    "unknown conversation": ({"conversation_id": UNKNOWN, "resume": True}, ConversationUnknown),
    "malformed conversation": ({"conversation_id": "../../etc", "resume": True}, ConversationUnknown),
    "missing client": ({"argv": ("clod",)}, ClientMissing),
    "client elsewhere": ({"argv": ("./claude",)}, ClientMissing),
    "folder gone": ({"cwd": "/nowhere/at/all"}, WorkingDirectoryGone),
    "empty prompt": ({"prompt": " \n"}, PromptRefused),
    "huge prompt": ({"prompt": "é" * 600_000}, PromptRefused),
    "escape prompt": ({"prompt": "hello \x1b[2J"}, PromptRefused),
    "half a character": ({"prompt": "hello \ud83d"}, PromptRefused),
    "print": ({"argv": ("claude", "--print")}, ArgumentRefused),
    "other format": ({"argv": ("claude", "--model", "x", "--output-format=json")}, ArgumentRefused),
    "other conversation": ({"argv": ("claude", "-r", str(UNKNOWN))}, ArgumentRefused),
    "no argument at all": ({"argv": ("claude", "--model", "x\0y")}, ArgumentRefused),
    "a prompt as argument": ({"argv": ("claude", "do it")}, ArgumentRefused),
    "words behind a dash": ({"argv": ("claude", "--model", "x", "--", "do it")}, ArgumentRefused),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_orders_start_nothing(
    case: str, claude_home: ClaudeHome, driver: ClaudeDriver, root: Path
) -> None:
    """What cannot be done as asked is refused before anything runs, and no folder stays."""
    changes, expected = REFUSALS[case]
    with pytest.raises(expected):
        asyncio.run(driver.start(order_for(claude_home, **changes)))
    assert claude_home.pids() == []
    assert not root.exists() or list(root.iterdir()) == []


def test_a_conversation_of_another_folder_is_unknown_here(
    claude_home: ClaudeHome, driver: ClaudeDriver, tmp_path: Path
) -> None:
    """Claude Code looks below the working directory's project only, and so do we, before starting it."""
    request = order_for(claude_home, resume=True)
    projects = claude_home.home / ".claude" / "projects"
    (projects / "-elsewhere").mkdir(parents=True)
    (projects / "-elsewhere" / f"{request.conversation_id}.jsonl").write_text("{}\n")
    with pytest.raises(ConversationUnknown) as unknown:
        asyncio.run(driver.start(replace(request, cwd=str(tmp_path))))
    assert str(tmp_path) in str(unknown.value)
