"""Held sessions of a real Redis world as checkpoints: asked once, decided once, the queue as the checkpoint said."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.healing_fixture import MemoryCheckpointFiles
from support.queue_app import CHAT, SESSION, QueueAppFixture
from support.redis_server import RedisServer
from wakeful.alerts.delivery import Refused
from wakeful.checkpoints.model import CheckpointKind, CheckpointState, ChoiceName
from wakeful.checkpoints.service import Checkpoints
from wakeful.checkpoints.user_rules import Lessons
from wakeful.core.errors import WorldError
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock
from wakeful.watchdog.checkpoints import QueueCheckpoints, QueueDecisionExecutor
from wakeful.watchdog.loop import RedisWatch
from wakeful.watchdog.rules import FAILURE_MESSAGE


@pytest.fixture
def bridge(redis_server: RedisServer, tmp_path: Path) -> QueueAppFixture:
    bridge = QueueAppFixture(redis_server, tmp_path)
    bridge.active()
    bridge.call("gh pr create --fill", 940.0)
    bridge.call("git push origin main", 930.0, ended=False)
    return bridge


class Scene:
    """A watchdog whose held sessions are checkpoints."""

    def __init__(self, bridge: QueueAppFixture, **callbacks: Any) -> None:
        store, clock = MemoryStore(), VirtualClock()
        self.checkpoints = Checkpoints(store, clock, MemoryCheckpointFiles())
        self.held = QueueCheckpoints(self.checkpoints)
        self.lessons = Lessons(store, clock)
        self.watch: RedisWatch = bridge.watch(
            hold=self.held.open_checkpoint,
            gone_on=self.held.on_continued,
            taught=self.lessons.of,
            **callbacks,
        )
        self.checkpoints.executors[CheckpointKind.QUEUE] = QueueDecisionExecutor(self.watch)


def refuse(_chat_id: str, _text: str) -> None:
    raise Refused(channel="chat", reason="429")


@asynccontextmanager
async def opened_scene(bridge: QueueAppFixture) -> AsyncIterator[Scene]:
    """After two cycles that found it held."""
    scene = Scene(bridge)
    try:
        await scene.watch.check()
        await scene.watch.check()
        yield scene
    finally:
        await scene.watch.close()


def context_of_next(bridge: QueueAppFixture) -> str:
    (job,) = bridge.server.query("RedisJob", status="pending")
    return str(job["revival_context"])


async def test_a_held_session_of_a_queue_is_a_checkpoint(bridge: QueueAppFixture) -> None:
    """One, with what was done, what may have happened and the choices; the alert names its number."""
    async with opened_scene(bridge) as scene:
        (checkpoint,) = await scene.checkpoints.list_checkpoints()
        assert (checkpoint.kind, checkpoint.subject, checkpoint.project) == ("queue", SESSION, "popoto")
        assert checkpoint.happened == ("Bash `gh pr create --fill`",)
        assert "Bash `git push origin main`" in checkpoint.may_have[0]
        assert [each.name for each in checkpoint.choices] == ["continue", "done", "abort"]
    (alert,) = bridge.alerts
    assert alert.splitlines()[-1] == "→ wakeful checkpoint show 1"


async def test_continue_enqueues_its_message_once(bridge: QueueAppFixture) -> None:
    """The next attempt gets the advice to check; a second yes changes nothing."""
    async with opened_scene(bridge) as scene:
        decided = await scene.checkpoints.decide(1, ChoiceName.CONTINUE, "ann")
        assert decided.changed
        assert not (await scene.checkpoints.decide(1, ChoiceName.CONTINUE, "bob")).changed
        assert (await scene.checkpoints.get(1)).decided_by == "ann"
    assert "check before you repeat" in context_of_next(bridge)


async def test_what_has_happened_is_told_to_the_next_attempt(bridge: QueueAppFixture) -> None:
    """Not to repeat it, in its context."""
    async with opened_scene(bridge) as scene:
        await scene.checkpoints.decide(1, ChoiceName.DONE, "ann")
    assert "has happened. Do not repeat any of them." in context_of_next(bridge)


async def test_abort_fails_its_job_and_tells_its_chat(bridge: QueueAppFixture) -> None:
    """Nothing is enqueued again, now or by the cycles that follow."""
    async with opened_scene(bridge) as scene:
        decided = await scene.checkpoints.decide(1, ChoiceName.ABORT, "ann")
        assert decided.checkpoint.state is CheckpointState.ABORTED
        assert decided.words == "its job is marked as failed; the chat: sent"
        await scene.watch.check()
        assert len(await scene.checkpoints.list_checkpoints()) == 1
    assert (bridge.statuses("RedisJob"), bridge.statuses("AgentSession")) == (["failed"], ["failed"])
    assert bridge.sent[-1] == (CHAT, FAILURE_MESSAGE)
    assert "aborted by ann" in bridge.events[-1]["details"]["outcome"]


async def test_an_abort_says_what_became_of_its_message(bridge: QueueAppFixture) -> None:
    """A chat that refuses has not been told, and the person who decided is not told that it was."""
    refusing = Scene(bridge, send_message=refuse)
    try:
        await refusing.watch.check()
        decided = await refusing.checkpoints.decide(1, ChoiceName.ABORT, "ann")
    finally:
        await refusing.watch.close()
    assert decided.words == "its job is marked as failed; the chat: refused, will be sent again"


async def test_one_that_goes_on_by_itself_needs_nobody(bridge: QueueAppFixture) -> None:
    """Its checkpoint is answered by that."""
    async with opened_scene(bridge) as scene:
        over = {"event": "post_tool_use", "tool_name": "Bash", "tool_output_preview": "ok", "end_time": 0.0}
        bridge.log(SESSION, over)
        await scene.watch.check()
        assert await scene.checkpoints.list_checkpoints(everything=False) == []


async def test_what_was_taught_is_revived_without_asking(bridge: QueueAppFixture) -> None:
    """The same classifier as everywhere."""
    scene = Scene(bridge)
    await scene.lessons.teach("popoto", "git push", "ann", even_remote=True)
    await scene.watch.check()
    assert await scene.checkpoints.list_checkpoints() == []
    await scene.watch.close()
    assert bridge.statuses("RedisJob") == ["pending", "failed"]


async def test_a_store_that_refuses_is_asked_again(bridge: QueueAppFixture) -> None:
    """The alert that it is held is sent even so, once; the checkpoint is opened as soon as that can be done."""
    scene = Scene(bridge)
    opened = scene.checkpoints.open

    async def refuse(_draft: object) -> None:
        raise WorldError

    scene.checkpoints.open = refuse  # type: ignore[assignment,method-assign]
    await scene.watch.check()
    await scene.watch.check()
    assert len(bridge.alerts) == 1
    scene.checkpoints.open = opened  # type: ignore[method-assign]
    await scene.watch.check()
    assert [each.number for each in await scene.checkpoints.list_checkpoints()] == [1]
    await scene.watch.close()
    assert bridge.alerts[-1].splitlines()[-1] == "→ wakeful checkpoint show 1"
