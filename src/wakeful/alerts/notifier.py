"""The one way to send alerts: `Notifier` raises an alert under a key and resolves it under the same key.

An alert about one thing is queued at once. An alert about an incident waits until its sessions are gathered, so
six deaths with one cause are one message with the result for each. The end of an incident is reported
when it can no longer reopen. A due alert is stored with the incident, so a restart sends it.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from msgspec.structs import replace

from wakeful.alerts.model import (
    Alert,
    AlertBody,
    AlertKind,
    DigestEntry,
    Topic,
    format_alert,
    incident_text,
    resolved_text,
)
from wakeful.alerts.outbox import AlertOutbox
from wakeful.alerts.pending import PendingAlert
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import WakefulError
from wakeful.incidents.model import Incident, MemberStatus, actions_text, summary_of
from wakeful.incidents.service import REOPEN_SECONDS, Incidents

# Sessions and agents with one cause are seen and treated within this time of each other.
GATHER_SECONDS: Final = 5.0
# A session that still waits for its turn by then is reported as waiting.
GATHER_SECONDS_MAX: Final = 60.0

log = logging.getLogger("wakeful.healing")


class Notifier:
    """Raises and resolves alerts, at once or gathered by incident. Call `restore` after incidents and outbox."""

    def __init__(self, outbox: AlertOutbox, incidents: Incidents, clock: Clock) -> None:
        self._outbox = outbox
        self._incidents = incidents
        self._clock = clock
        self._gather_tasks: dict[str, asyncio.Task[None]] = {}
        self._end_tasks: dict[str, asyncio.Task[None]] = {}

    async def raise_alert(
        self,
        key: str,
        body: AlertBody | str,
        topic: Topic | None,
        *,
        kind: AlertKind = AlertKind.TROUBLE,
        digest: DigestEntry | None = None,
    ) -> bool:
        """Queue an alert. Mutes of its `topic` delay it; None if the caller has checked the mutes already.

        False: no channel wants it, or it is queued under this key already.
        """
        text = body if isinstance(body, str) else format_alert(body)
        return await self._outbox.enqueue(Alert(kind, key, text, topic=topic, gist=digest))

    async def resolve(self, key: str, text: str | None = None) -> bool:
        """End an alert; channels that delivered it deliver `text`. False: no alert of this key is open."""
        return await self._outbox.resolve(key, text)

    def open_alerts(self, prefix: str) -> list[PendingAlert]:
        """Alerts that are not resolved, by the beginning of their key."""
        return self._outbox.open_episodes(prefix)

    async def raise_incident(self, incident: Incident, topic: Topic | None = None) -> None:
        """Raise one alert about an incident once all its sessions had their turn, unless that is under way."""
        if incident.id not in self._gather_tasks:
            due = replace(self._incidents.newest(incident), is_due=True)
            self._start_task(self._gather_tasks, due, self._gather(due, topic))
            await self._incidents.update(due)

    async def resolve_incident(self, incident: Incident) -> None:
        """Resolve every alert about an incident, once it can no longer reopen."""
        self._start_task(self._end_tasks, incident, self._resolve_closed(incident))

    async def restore(self) -> None:
        """Continue with the incidents that an earlier daemon had not reported or resolved yet."""
        alerted = {each.alert.episode.partition("/")[0] for each in self.open_alerts("")}
        for incident in await self._incidents.list_incidents(include_resolved=True):
            if incident.is_due:
                self._start_task(self._gather_tasks, incident, self._gather(incident))
            elif not incident.is_open and incident.id in alerted:
                await self.resolve_incident(incident)

    async def close(self) -> None:
        """Stop gathering; the next start continues it."""
        tasks = [*self._gather_tasks.values(), *self._end_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_task(
        self, tasks: dict[str, asyncio.Task[None]], incident: Incident, work: Coroutine[Any, Any, None]
    ) -> None:
        if (earlier := tasks.pop(incident.id, None)) is not None:
            earlier.cancel()
        task = tasks[incident.id] = asyncio.create_task(_run_guarded(incident, work))
        task.add_done_callback(lambda done: tasks.get(incident.id) is done and tasks.pop(incident.id))

    async def _gather(self, incident: Incident, topic: Topic | None = None) -> None:
        """Wait until no session of it awaits its turn and nothing has changed for a while."""
        until = self._clock.now().awake + GATHER_SECONDS_MAX
        before: Incident | None = None
        newest = incident
        while (newest != before or _awaits_turn(newest)) and self._clock.now().awake < until:
            await self._clock.sleep(GATHER_SECONDS)
            newest, before = self._incidents.newest(incident), newest
        digest = DigestEntry(summary_of(newest), "", newest.cause)
        await self.raise_alert(newest.id, incident_text(newest), topic, digest=digest)
        await self._incidents.update(replace(self._incidents.newest(incident), is_due=False))

    async def _resolve_closed(self, incident: Incident) -> None:
        assert incident.resolved_at is not None, "only an incident that is over is resolved"
        rest_seconds = incident.resolved_at + REOPEN_SECONDS - self._clock.now().wall
        await self._clock.sleep(min(max(rest_seconds, 0.0), REOPEN_SECONDS))
        if self._incidents.is_open(incident):
            return
        text, is_reported = _ending_text(incident), False
        for key in (incident.id, given_up_key(incident), checkpoint_key(incident)):
            # People who got several alerts about it get its end once.
            is_reported = await self.resolve(key, None if is_reported else text) or is_reported


def checkpoint_key(incident: Incident) -> str:
    """The key of the alert about its checkpoint: the problem itself may have been reported before."""
    return f"{incident.id}/held"


def given_up_key(incident: Incident) -> str:
    """The key of a second alert about the same problem: nothing more is tried."""
    return f"{incident.id}/given-up"


async def _run_guarded(incident: Incident, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except WakefulError as error:
        log.warning("the alert about incident %s was not queued: %s", incident.id, error)


def _awaits_turn(incident: Incident) -> bool:
    return any(each.is_in and each.fate is MemberStatus.OPEN for each in incident.members)


def _ending_text(incident: Incident) -> str:
    ended = incident.members[0].ended if len(incident.members) == 1 else ""
    because, well = incident.because or ended, incident.is_well
    return resolved_text(
        summary_of(incident), iso(incident.opened_at), did=actions_text(incident), because=because, well=well
    )
