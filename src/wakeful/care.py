"""Everything that heals and tells, joined in one place: plan and hands, issues, critical events, alerts, questions.

What `handwork` is to acting. Nothing here decides; the daemon builds it on its lookout, its hands and its store.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path

from wakeful.adapters.critical.log import RETENTION_SECONDS, CriticalLog
from wakeful.adapters.github.forge import GhForge
from wakeful.adapters.github.ledger import StoreLedger
from wakeful.adapters.system.ping import Ping
from wakeful.adapters.system.place import HostPlace
from wakeful.adapters.tmux.visible import is_visible
from wakeful.channels import open_channels, rules_of
from wakeful.config import Config, Runaway
from wakeful.domain.alerts import Alert, AlertKind
from wakeful.domain.critical import CriticalEvent
from wakeful.domain.ids import SessionId
from wakeful.domain.incident import Cause
from wakeful.domain.plan import Rules
from wakeful.domain.process import Sight
from wakeful.domain.record import SessionRecord
from wakeful.handwork import Handwork
from wakeful.lookout import Lookout
from wakeful.places import Places
from wakeful.ports.forge import Filing, Report
from wakeful.ports.store import Store
from wakeful.services.alerts import AlertDesk
from wakeful.services.asking import Asking
from wakeful.services.calm import Calm
from wakeful.services.circumstances import Circumstances
from wakeful.services.feed import Change
from wakeful.services.healing import Healer
from wakeful.services.incidents import Incidents
from wakeful.services.issues import Issues
from wakeful.services.pace import Pace
from wakeful.services.restoring import Restorer
from wakeful.services.revival import Reviver
from wakeful.services.telling import Voice

Task = tuple[Callable[[], Coroutine[None, None, None]], str]
"""Something that runs for ever, and what it means if the store refuses it."""


class Care:
    """The care of one daemon for its sessions."""

    def __init__(
        self, lookout: Lookout, places: Places, store: Store, config: Config, handwork: Handwork, calm: Calm
    ) -> None:
        self._lookout = lookout
        self._config = config
        self._calm = calm
        self._shares_store = bool(config.store.url)
        rules = rules_of(config.alerts)
        path = config.events.critical_path or f"{places.logs}/critical_events.jsonl"
        self.critical = CriticalLog(Path(path))
        self.incidents = Incidents(store, lookout.clock)
        self.alerts = AlertDesk(
            store,
            lookout.clock,
            open_channels(config.alerts, os.environ),
            rules,
            owner=f"{lookout.host}:{places.home}",
        )
        self.asking = Asking(self.alerts, lookout.clock, rules, self._is_visible, self._is_excused)
        self._issues = self._filing(store)
        place = HostPlace(lookout.host, lookout.clock)
        pace = Pace(lookout.clock, config.heal.pace_seconds, config.heal.pace_burst)
        self.healer = Healer(
            clock=lookout.clock,
            store=store,
            roster=lookout.roster,
            reviver=Reviver(
                clock=lookout.clock,
                store=store,
                hands=handwork.own_hands,
                asked=handwork.hands,
                holdings=handwork.holdings,
                pace=pace,
                past=lookout,
                forge=self._issues,
            ),
            incidents=self.incidents,
            telling=Voice(
                clock=lookout.clock,
                roster=lookout.roster,
                incidents=self.incidents,
                alerts=self.alerts,
                calm=calm,
                write=self.write,
                mode=config.daemon.mode,
            ),
            circumstances=Circumstances(handwork.holdings, place, places.tmux),
            rules=self.rules,
        )
        self.restorer = Restorer(lookout.roster, handwork.holdings, handwork.hands, place, pace)
        calm.changed = self.healer.look_again

    def rules(self) -> Rules:
        """What the operator allows at this moment."""
        heal, paused = self._config.heal, self._calm.paused
        return Rules(
            mode=self._config.daemon.mode,
            revive_runaways=heal.runaway is Runaway.REVIVE,
            confirm_seconds=heal.confirm_seconds,
            steer_seconds=heal.steer_seconds,
            paused_by=paused.by if paused is not None else None,
        )

    async def take_up(self) -> None:
        """Go on where an earlier daemon stopped."""
        await self.alerts.take_up()
        self.asking.take_up()
        await self.healer.take_up()

    def seen(self, changes: Sequence[Change]) -> None:
        """Sessions were judged anew."""
        for change in changes:
            watched = self._lookout.roster.watched.get(change.session_id)
            if watched is not None and watched.record is not None:
                self.asking.seen(watched.record)
                self.healer.seen(change.session_id)

    def tasks(self) -> Iterator[Task]:
        """What runs as long as the daemon does."""
        yield self.healer.run, "nothing is healed"
        yield self.alerts.run, "alerts are not delivered"
        if self._issues is not None:
            yield self._issues.run, "issues are not filed again"
        if self._shares_store:
            yield self._calm.follow, "pauses of other daemons are not heard"
        if self._config.alerts.ping_url:
            yield Ping(self._config.alerts.ping_url, self._lookout.clock).run, "nobody is pinged"

    async def write(self, event: CriticalEvent) -> None:
        """Add a line to the log of critical events. A slow disk does not stop the loop."""
        await asyncio.to_thread(self.critical.append, event)

    async def forget_old(self) -> None:
        """Critical events that nobody archived are kept for a month."""
        before = self._lookout.clock.now().wall - RETENTION_SECONDS
        await asyncio.to_thread(self.critical.forget, before)

    def _filing(self, store: Store) -> Issues | None:
        github = self._config.github
        if not github.repo and not github.repos:
            return None
        forge = GhForge(StoreLedger(store), repo=github.repo, repos=github.repos, public=github.public)
        return Issues(
            forge, store, self._lookout.clock, wants=forge.wants, tell=self._tell_of_forge, filed=_filed_late
        )

    async def _tell_of_forge(self, words: str) -> None:
        await self.alerts.owe(Alert(AlertKind.TROUBLE, "forge", f"No issue could be filed: {words}"))

    async def _is_visible(self, session_id: SessionId) -> bool:
        watched = self._lookout.roster.watched.get(session_id)
        pane = watched.presence.pane if watched is not None else None
        return pane is not None and pane.sight is Sight.ALIVE and await is_visible(pane.socket, pane.target)

    def _is_excused(self, record: SessionRecord) -> bool:
        """Muted, or told as one incident of many."""
        incident = self.incidents.of(record.id)
        if incident is not None and incident.cause is not Cause.SESSION:
            return True
        code = record.findings[0].code if record.findings else None
        return self._calm.is_muted(record, code, self._lookout.clock.now().wall)


async def _filed_late(_report: Report, _filing: Filing) -> None:
    """Nothing more to do: its event was written without an issue, and lines are never changed."""
