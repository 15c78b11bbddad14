"""Claims about driving the real Codex: one process per turn, the native one, in the conversation that was meant."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from support.real_clients import CodexHome
from wakeful.control.driver import (
    ActionResult,
    ArgumentRefused,
    ConversationUnknown,
    PermissionReply,
    PromptRefused,
    StartRequest,
)
from wakeful.core.errors import ClientMissing, StartFailed, WakefulError, WorkingDirectoryGone
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import INTENT_VARIABLE, SESSION_VARIABLE, ManagedSession
from wakeful.core.process import ProcessState
from wakeful.daemon.control import LocalProcesses
from wakeful.integrations.codex.driver import CodexDriver
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import ActionOutcome
from wakeful.testing.scripted_model import script

FREE = ("codex", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
SECONDS_MAX = 60.0
# Stands in for a client that begins another conversation than the one it should go on with.
ANOTHER_THREAD = """#!/bin/sh
echo '{"type":"thread.started","thread_id":"01a1e1b7-8985-7cd0-ab99-366ecff06ef5"}'
echo '{"type":"turn.started"}'
exec sleep 60
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def driver(root: Path, codex_home: CodexHome) -> CodexDriver:
    return CodexDriver(root, SystemClock(), codex_home.environ())


def order_for(home: CodexHome, prompt: str | None, **changes: Any) -> StartRequest:
    request = StartRequest(
        session_id=None,
        conversation_id=None,
        epoch=1,
        intent_id=uuid4().hex,
        cwd=str(home.project),
        argv=FREE,
        environ=home.environ(),
        prompt=prompt,
    )
    return replace(request, **changes)


def hosted(seen: ActionResult) -> ManagedSession:
    assert seen.outcome is ActionOutcome.CONFIRMED, seen.words
    assert seen.hosting is not None
    return seen.hosting


def is_gone(hosting: ManagedSession) -> bool:
    assert hosting.process is not None
    return proc.state_of(hosting.process) is ProcessState.DEAD


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        await asyncio.sleep(0.02)


def said(hosting: ManagedSession) -> str:
    assert hosting.folder is not None
    return (Path(hosting.folder) / "out.jsonl").read_text()


async def test_a_client_that_came_and_went_unseen_is_known_to_be_gone(
    codex_home: CodexHome, driver: CodexDriver, root: Path
) -> None:
    """Wakeful ends before its client has named the conversation, and the client ends before Wakeful is back."""
    request = order_for(codex_home, script({"text": "done"}))
    folder = root / f"new-{request.intent_id}"
    starting = asyncio.create_task(driver.start(request))
    await until((folder / "process").is_file, "start of the client")
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert folder.is_dir(), "its conversation had no name yet"
    await until(lambda: "turn.completed" in (folder / "out.jsonl").read_text(), "end of its turn")
    later = CodexDriver(root, SystemClock(), codex_home.environ())
    planned = ManagedSession(SessionId(""), ConversationId(""), "codex", request.cwd, request.argv, 1, 0.0)
    await until(
        lambda: not proc.processes_with_variable(INTENT_VARIABLE, request.intent_id, os.getuid()),
        "end of its process",
    )
    result = await later.find_started(planned, request.intent_id, ())
    assert result is not None
    assert is_gone(hosted(result))


async def test_a_prompt_whose_taker_died_in_the_hand_over_is_known_by_what_the_client_said(
    codex_home: CodexHome, driver: CodexDriver, root: Path
) -> None:
    """The next daemon says that it was done, and does it no second time; a prompt that never arrived is given."""
    request = order_for(codex_home, script({"text": "first"}), prompt_id="one")
    managed = hosted(await driver.start(request))
    await until(lambda: "turn.completed" in said(managed), "end of the first turn")
    assert (driver.has_prompt(managed, "one"), driver.has_prompt(managed, "two")) == (True, False)
    prompt = script({"text": "second"})
    await driver.deliver_once(managed, prompt, "two", again=False)
    await until(lambda: "turn.completed" in said(managed), "end of the second turn")
    # What the one that died knew is lost: `hosting` is as it was before.
    calls = len(codex_home.model.requests)
    later = CodexDriver(root, SystemClock(), codex_home.environ())
    result = await later.deliver_once(managed, prompt, "two", again=True)
    assert (result.outcome, result.words) == (ActionOutcome.CONFIRMED, "it already got this prompt")
    assert len(codex_home.model.requests) == calls
    third = hosted(await later.deliver_once(managed, script({"text": "third"}), "three", again=True))
    await until(lambda: "turn.completed" in said(third), "end of the third turn")
    # A process that another program, a healer, started since does not make it forget.
    healed = hosted(await later.deliver(third, script({"text": "fourth"})))
    await until(lambda: "turn.completed" in said(healed), "end of the fourth turn")
    calls = len(codex_home.model.requests)
    had = await later.deliver_once(healed, script({"text": "third"}), "three", again=True)
    assert (had.outcome, len(codex_home.model.requests)) == (ActionOutcome.CONFIRMED, calls)
    (root / managed.session_id / "prompt").unlink()
    unknown = await later.deliver_once(managed, prompt, "three", again=True)
    assert unknown.outcome is ActionOutcome.UNVERIFIED, "a folder of an earlier version says nothing"
    await later.stop(third)


async def test_from_prompt_to_prompt_to_stop(codex_home: CodexHome, driver: CodexDriver, root: Path) -> None:
    """A new conversation names itself, the next prompt goes on in it, and a stop leaves nothing."""
    managed = hosted(await driver.start(order_for(codex_home, script({"text": "first"}))))
    assert managed.session_id == f"codex-{managed.conversation_id}"
    assert managed.folder == str(root / managed.session_id)
    await until(lambda: "turn.completed" in said(managed), "end of the first turn")
    # Right after its last word: the process is given the moment it needs to leave.
    result = await driver.deliver(managed, f"--help {script({'text': 'second'})}")
    again = hosted(result)
    assert again.conversation_id == managed.conversation_id
    await until(lambda: '"second"' in said(again), "second answer")
    assert (await driver.answer(again, "any", PermissionReply.ALLOW)).outcome is ActionOutcome.DECLINED
    assert (await driver.stop(again)).outcome is ActionOutcome.CONFIRMED
    assert len(codex_home.logs()) == 1
    assert codex_home.pids() == []
    assert list(root.iterdir()) == []


async def test_interrupted_in_a_tool_it_goes_on(codex_home: CodexHome, driver: CodexDriver) -> None:
    """The native process is the one held; a prompt is declined while it works, and taken after an interrupt."""
    managed = hosted(
        await driver.start(order_for(codex_home, script({"run": "sleep 60"}, {"text": "never"})))
    )
    assert managed.process is not None
    assert proc.comm(managed.process.pid) == "codex"
    tool = await asyncio.to_thread(codex_home.wait_for_tool, "sleep")
    assert (await driver.deliver(managed, "hello")).outcome is ActionOutcome.DECLINED
    result = await driver.interrupt(managed)
    assert result.outcome is ActionOutcome.CONFIRMED
    assert is_gone(managed)
    await until(lambda: proc.identify(tool) is None, "end of the tool")
    assert (await driver.interrupt(managed)).outcome is ActionOutcome.DECLINED
    again = hosted(await driver.deliver(managed, script({"text": "went on"})))
    await until(lambda: "went on" in said(again), "next answer")
    await driver.stop(again)
    (rollout,) = codex_home.logs()
    assert b"turn_aborted" in rollout.read_bytes()


async def test_the_first_process_of_a_conversation_is_ended_as_a_crash(
    codex_home: CodexHome, driver: CodexDriver, tmp_path: Path
) -> None:
    """It has no mark, because Codex names its own conversation: it is still ended, and its tool is left alone."""
    processes = LocalProcesses(SystemClock(), tmp_path)
    managed = hosted(
        await driver.start(order_for(codex_home, script({"run": "sleep 60; true"}, {"text": "never"})))
    )
    tool = await asyncio.to_thread(codex_home.wait_for_tool, "sleep")
    assert processes.processes_with_variable(SESSION_VARIABLE, managed.session_id) == []
    assert list(await processes.kill(managed)) == [ProcessState.DEAD]
    assert is_gone(managed)
    assert proc.identify(tool) is not None
    stranger = proc.identify(os.getpid())
    assert await processes.kill(replace(managed, process=stranger)) == [ProcessState.ALIVE]
    await driver.stop(managed)


async def test_killed_in_a_tool_and_resumed(codex_home: CodexHome, driver: CodexDriver) -> None:
    """Killed -9, its orphan is ended by a stop and the same conversation goes on in a new process."""
    request = order_for(codex_home, script({"run": "sleep 60; true"}, {"text": "never"}))
    managed = hosted(await driver.start(request))
    orphan = await asyncio.to_thread(codex_home.wait_for_tool, "sleep")
    assert managed.process is not None
    os.kill(managed.process.pid, signal.SIGKILL)
    await until(lambda: is_gone(managed), "death")
    assert proc.identify(orphan) is not None
    assert (await driver.stop(managed)).outcome is ActionOutcome.CONFIRMED
    assert proc.identify(orphan) is None
    resume = replace(
        request,
        session_id=managed.session_id,
        conversation_id=managed.conversation_id,
        resume=True,
        epoch=2,
    )
    resting = hosted(await driver.start(replace(resume, prompt=None)))
    assert resting.process is None
    again = hosted(await driver.start(replace(resume, prompt=script({"text": "back again"}))))
    assert again.epoch == 2
    await until(lambda: "back again" in said(again), "answer")
    await driver.stop(again)
    assert len(codex_home.logs()) == 1
    assert codex_home.pids() == []


async def test_stopped_in_a_tool(codex_home: CodexHome, driver: CodexDriver, root: Path) -> None:
    """A stop ends the native process, npm's wrapper and the tool."""
    prompt = script({"run": "sleep 60; true"}, {"text": "never"})
    managed = hosted(await driver.start(order_for(codex_home, prompt)))
    await asyncio.to_thread(codex_home.wait_for_tool, "sleep")
    stopped = await driver.stop(managed)
    assert stopped.outcome is ActionOutcome.CONFIRMED
    assert "SIGINT" in stopped.words
    await until(lambda: codex_home.pids() == [], "empty home")
    assert list(root.iterdir()) == []


def test_another_conversation_than_the_one_meant_is_ended(
    codex_home: CodexHome, driver: CodexDriver, tmp_path: Path, root: Path
) -> None:
    """A process that goes on with something else has no effect, says so, and does not stay."""
    program = tmp_path / "codex"
    program.write_text(ANOTHER_THREAD)
    program.chmod(0o700)
    conversation = ConversationId(str(uuid4()))
    request = order_for(codex_home, "hello", argv=(str(program),), conversation_id=conversation, resume=True)
    result = asyncio.run(driver.start(request))
    assert (result.outcome, result.hosting) == (ActionOutcome.INEFFECTIVE, None)
    assert "01a1e1b7-8985-7cd0-ab99-366ecff06ef5" in result.words
    assert codex_home.pids() == []
    assert list(root.iterdir()) == []


def test_a_missing_key_is_named(codex_home: CodexHome, driver: CodexDriver) -> None:
    """A turn that fails for want of a login had no effect, in the client's own words."""
    environ = {name: value for name, value in codex_home.environ().items() if name != "SCRIPTED_KEY"}
    result = asyncio.run(driver.start(order_for(codex_home, "hello", environ=environ)))
    assert result.outcome is ActionOutcome.INEFFECTIVE
    assert result.words.startswith("it is not logged in: Missing environment variable")


async def test_a_prompt_of_the_largest_size_is_taken(codex_home: CodexHome, driver: CodexDriver) -> None:
    """A megabyte goes in, which no argument could carry."""
    managed = hosted(await driver.start(order_for(codex_home, "x" * 1024 * 1024)))
    await until(lambda: "turn.completed" in said(managed), "end of the turn")
    await driver.stop(managed)


UNKNOWN = ConversationId("0c5b2a52-6ffa-4d9b-9e40-000000000000")
REFUSALS: dict[str, tuple[str | None, dict[str, Any], type[WakefulError]]] = {
    "unknown conversation": ("hi", {"conversation_id": UNKNOWN, "resume": True}, ConversationUnknown),
    "unknown, without a prompt": (None, {"conversation_id": UNKNOWN, "resume": True}, ConversationUnknown),
    "malformed conversation": ("hi", {"conversation_id": "newest", "resume": True}, ConversationUnknown),
    "no conversation": ("hi", {"resume": True}, ConversationUnknown),
    "missing client": ("hi", {"argv": ("kodex",)}, ClientMissing),
    "folder gone": ("hi", {"cwd": "/nowhere/at/all"}, WorkingDirectoryGone),
    "no prompt": (None, {}, PromptRefused),
    "empty prompt": ("", {}, PromptRefused),
    "huge prompt": ("x" * (1024 * 1024 + 1), {}, PromptRefused),
    "escape prompt": ("hello \x1b[2J", {}, PromptRefused),
    "another command": ("hi", {"argv": ("codex", "login")}, ArgumentRefused),
    "another conversation": ("hi", {"argv": ("codex", "exec", "resume", "--last")}, ArgumentRefused),
    "refused by the client": ("hi", {"argv": ("codex", "--bogus")}, StartFailed),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_orders_start_nothing(case: str, codex_home: CodexHome, driver: CodexDriver, root: Path) -> None:
    """What cannot be done as asked is refused, nothing runs and no folder stays."""
    prompt, changes, expected = REFUSALS[case]
    with pytest.raises(expected):
        asyncio.run(driver.start(order_for(codex_home, prompt, **changes)))
    assert codex_home.pids() == []
    assert codex_home.logs() == []
    assert not root.exists() or list(root.iterdir()) == []
