"""Runs the operator's program when state or health of a session changed: `session.health.update.after`.

It runs on transitions only, and for one session at most once in `min_interval`. Changes in between are
reported as one change at the end of the interval, or not at all if the session changed back. If the program
fails, that is logged and affects nothing else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.core.waiting import wait_for_event_or_deadline
from wakeful.storage.base import Transition

EVENT: Final = "session.health.update.after"
# A hundred sessions that change at once must not start a hundred programs.
AT_ONCE_MAX: Final = 4
_encode: Final = msgspec.json.Encoder().encode

log = logging.getLogger("wakeful")

RunProgram = Callable[[bytes], Awaitable[str | None]]
"""Runs the program with these bytes on standard input, with its own deadline. Returns an error text or None."""


class HealthUpdate(Struct, frozen=True):
    """The program's input: the state of a session before and after, and its record."""

    event: str
    session_id: SessionId
    at: str
    old_state: str
    state: str
    old_health: str
    health: str
    reason: str
    record: msgspec.Raw


class HealthHook:
    def __init__(self, clock: Clock, run: RunProgram, min_interval_seconds: float) -> None:
        self._clock = clock
        self._run_program = run
        self._min_interval_seconds = min_interval_seconds
        self._pending: dict[SessionId, Transition] = {}
        self._next_awake: dict[SessionId, float] = {}
        self._wakeup = asyncio.Event()

    def on_transitions(self, transitions: Sequence[Transition]) -> None:
        """Queue the changes of sessions. The first transition of a session is no change."""
        for each in transitions:
            first = self._pending.get(each.session_id, each)
            if not first.old_health:
                continue
            self._pending[each.session_id] = msgspec.structs.replace(
                each, old_state=first.old_state, old_health=first.old_health
            )
            self._wakeup.set()

    async def run(self) -> None:
        """Report each pending change as soon as its interval allows, until cancelled."""
        while True:
            self._wakeup.clear()
            due = [
                each for each in self._pending if self._next_awake.get(each, 0.0) <= self._clock.now().awake
            ]
            for begin in range(0, len(due), AT_ONCE_MAX):
                await asyncio.gather(*(self._report(each) for each in due[begin : begin + AT_ONCE_MAX]))
            if not due:
                first = min((self._next_awake.get(each, 0.0) for each in self._pending), default=None)
                await wait_for_event_or_deadline(self._clock, self._wakeup, first)

    async def _report(self, session_id: SessionId) -> None:
        change = self._pending.pop(session_id)
        if (change.old_state, change.old_health) == (change.new_state, change.new_health):
            return
        now = self._clock.now().awake
        self._next_awake[session_id] = now + self._min_interval_seconds
        if len(self._next_awake) > len(self._pending) + 1000:
            self._next_awake = {each: at for each, at in self._next_awake.items() if at > now}
        problem = await self._run_program(_encode(_update(change)))
        if problem is not None:
            log.warning("the hook %s failed for %s: %s", EVENT, session_id, problem)


def _update(change: Transition) -> HealthUpdate:
    return HealthUpdate(
        EVENT,
        change.session_id,
        iso(change.at),
        change.old_state,
        change.new_state,
        change.old_health,
        change.new_health,
        change.reason,
        msgspec.Raw(change.record),
    )
