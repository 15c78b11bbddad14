"""What the program we watch for does itself, and what is filed and written down of its sessions."""

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.domain.critical import ActionTaken, CriticalEvent, Happening, critical_event
from wakeful.domain.decoding import json_decoder
from wakeful.ports.clock import Clock
from wakeful.ports.forge import Filing, Forge, Report
from wakeful.ports.jobs import Jobs
from wakeful.services.watchdog_calls import Callback, Calls, Ending, Said

# A forge ends by itself after 20 s; this is for one that does not.
FORGE_SECONDS_MAX: Final = 21.0

_encode: Final = msgspec.json.Encoder().encode
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
        event = critical_event(
            happening,
            session_id,
            project_key,
            reason,
            action,
            issue_url,
            details,
            at_wall=self._clock.now().wall,
        )
        if await self._written(event):
            return True
        if owed:
            await self._jobs.owe_event(_encode(event))
        return owed

    async def try_again(self) -> None:
        """Write what the log did not take before, in its order; what it still does not take is kept."""
        owed = await self._jobs.take_owed_events()
        for number, body in enumerate(owed):
            if not await self._written(_decode(body)):
                for left in owed[number:]:
                    await self._jobs.owe_event(left)
                return

    async def _written(self, event: CriticalEvent) -> bool:
        answer = await self._calls.call("the log of critical events", self._write, event)
        if answer.ending in {Ending.DONE, Ending.ABSENT}:
            return True
        log.error("watchdog: an event about %s was not written: %s", event.session_id, answer.words)
        return False


def action_of(said: Said) -> ActionTaken:
    """What was done for a chat, in the words of the log."""
    return ActionTaken.FAILURE_MESSAGE_SENT if said is Said.SENT else ActionTaken.NONE
