"""What the program we watch for does itself, and what is filed and written down of its sessions."""

import logging
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, Happening, critical_event
from wakeful.incidents.issue_tracker import Filing, Forge, Report
from wakeful.watchdog.queue import Jobs, Revival
from wakeful.watchdog.watchdog_calls import CALL_SECONDS_MAX, Callback, Calls, Ending, Said

# A forge ends by itself after 20 s; this is for one that does not.
FORGE_SECONDS_MAX: Final = 21.0

# One watchdog at a time writes what is owed: for so long, and then one more write within its deadline.
OWED_SECONDS_MAX: Final = CALL_SECONDS_MAX
OWED_CLAIM_SECONDS: Final = 3 * CALL_SECONDS_MAX
_OWED: Final = "owed-events"

_owed_form: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(CriticalEvent)
log = logging.getLogger("wakeful.watchdog")


class Callbacks(Struct, frozen=True, kw_only=True):
    """What the program we watch for does itself; everything may be left out."""

    enqueue_job: Callback | None = None
    send_message: Callback | None = None
    stop_session: Callback | None = None
    start_worker: Callback | None = None
    alert: Callback | None = None
    write: Callback | None = None
    # Asks a person about a held attempt: its number. And: nobody has to decide about this session any more.
    hold: Callback | None = None
    gone_on: Callback | None = None


class Ledger:
    """Files issues and writes events down. What fails here is said, and stops nothing."""

    def __init__(
        self, jobs: Jobs, clock: Clock, calls: Calls, forge: Forge | None, write: Callback | None
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._calls = calls
        self._forge = forge
        self._write = write

    async def file(self, report: Report) -> Filing:
        if self._forge is None:
            return Filing(None, "no repository is configured for issues")
        answer = await self._calls.call("the issue", self._forge.file, report, seconds_max=FORGE_SECONDS_MAX)
        if answer.ending is Ending.DONE and isinstance(answer.value, Filing):
            return answer.value
        return Filing(None, answer.words)

    async def event(
        self,
        happening: Happening,
        session_id: str,
        project_key: str,
        reason: str,
        action: ActionTaken,
        issue_url: str | None,
        details: Mapping[str, Any],
        *,
        owed: bool = False,
    ) -> bool:
        """Whether it is written down, or nobody wants it to be. `owed`: it is written later if it cannot be now."""
        at_wall = self._clock.now().wall
        event = critical_event(
            happening, session_id, project_key, reason, action, issue_url, details, at_wall=at_wall
        )
        if await self._written(event):
            return True
        if owed:
            await self._jobs.owe_event(_owed_form(event))
        return owed

    def owed_forms(self, happening: Happening, revival: Revival, outcome: str) -> list[bytes]:
        """What is told of a revival, one line for each finding it was about, as it is kept until it is written."""
        about, at_wall = (revival.session_id, revival.project_key), self._clock.now().wall
        details = {"outcome": outcome}
        return [
            _owed_form(
                critical_event(
                    happening, *about, reason, ActionTaken.NONE, revival.issue_url, details, at_wall=at_wall
                )
            )
            for reason in revival.reasons
        ]

    async def try_again(self) -> None:
        """Write what is owed, in its order; what the log still does not take is kept.

        An event is kept until it is written: ended in between we leave it to the next one, who may write it twice.
        """
        if not await self._jobs.owed_events():
            return
        token = uuid4().hex
        if not await self._jobs.claim(_OWED, token, OWED_CLAIM_SECONDS):
            return
        try:
            until = self._clock.now().awake + OWED_SECONDS_MAX
            for body in await self._jobs.owed_events():
                if self._clock.now().awake > until or not await self._is_settled(body):
                    return
                await self._jobs.drop_owed_event(body)
        finally:
            await self._jobs.yield_(_OWED, token)

    async def _is_settled(self, owed: bytes) -> bool:
        try:
            event = _decode(owed)
        except msgspec.DecodeError as problem:
            log.error("watchdog: an event of another version is not written: %s", problem)  # noqa: TRY400 - told, not ours
            return True
        return await self._written(event)

    async def _written(self, event: CriticalEvent) -> bool:
        answer = await self._calls.call("the log of critical events", self._write, event)
        if answer.ending in {Ending.DONE, Ending.ABSENT}:
            return True
        log.error("watchdog: an event about %s was not written: %s", event.session_id, answer.words)
        return False


def action_of(said: Said) -> ActionTaken:
    """What was done for a chat, in the words of the log."""
    return ActionTaken.FAILURE_MESSAGE_SENT if said is Said.SENT else ActionTaken.NONE
