"""Builds healing, incidents, alerts, issues, checkpoints, critical events and the journal and queue watches.

It connects these parts to the observer, to control and to the store, and lists the tasks that run as long as
the daemon does.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeful.alerts.attention import Asking
from wakeful.alerts.model import Alert, AlertKind, Matter, Question, Topic, forge_news, resolved, text_of
from wakeful.alerts.mute_pause import Calm
from wakeful.alerts.outbox import AlertDesk
from wakeful.alerts.ping import Ping
from wakeful.checkpoints.files import CheckpointFiles
from wakeful.checkpoints.model import CheckpointKind
from wakeful.checkpoints.service import Announcer, Checkpoints
from wakeful.checkpoints.sessions import HeldSessions, SessionCarrier
from wakeful.checkpoints.user_rules import Lessons
from wakeful.config.alert_channels import open_channels, rules_of
from wakeful.config.paths import Places
from wakeful.config.schema import Config, RedisPlace, Runaway
from wakeful.config.state_dir import store_path
from wakeful.core.clock import iso
from wakeful.core.errors import ExtraMissing
from wakeful.core.ids import SessionId
from wakeful.core.process import Sight
from wakeful.daemon.control import Handwork
from wakeful.daemon.observer import Lookout
from wakeful.healing.closed_sessions import Closing
from wakeful.healing.disk import DiskWatch
from wakeful.healing.healer import Healer
from wakeful.healing.notifier import Voice
from wakeful.healing.plan import Rules
from wakeful.healing.rate_limit import Pace
from wakeful.healing.restore import Restorer
from wakeful.healing.revival import Reviver
from wakeful.healing.situation import Circumstances
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, Happening
from wakeful.incidents.critical_log import RETENTION_SECONDS, CriticalLog
from wakeful.incidents.issue_tracker import Filing, Report
from wakeful.incidents.issues import Issues
from wakeful.incidents.model import Cause
from wakeful.incidents.service import Incidents
from wakeful.integrations.github import GhForge, StoreLedger
from wakeful.integrations.telegram import TelegramMessenger
from wakeful.integrations.tmux.server import is_visible
from wakeful.journal.alerts import JournalVoice
from wakeful.journal.checkpoint_store import StoreDesk
from wakeful.journal.recovery_watch import JournalCarrier, RecoveryWatch, Sighting
from wakeful.judging.session_record import SessionRecord
from wakeful.linux.host import Disk, HostPlace
from wakeful.linux.logging import show_moves
from wakeful.sessions.feed import Change
from wakeful.storage.base import Store
from wakeful.watchdog.checkpoints import HeldQueue, QueueCarrier, QueueDoor
from wakeful.work.expiry import WorkRevival

if TYPE_CHECKING:
    from wakeful.watchdog.loop import RedisWatch

# Whatever is wrong with the forge is one episode.
FORGE: Final = "forge"
KEPT_FOR_LATER: Final = "kept what it had to say, and tries again every ten minutes"
Task = tuple[Callable[[], Coroutine[None, None, None]], str]
"""Something that runs for ever, and what it means if the store refuses it."""


class Care:
    """The care of one daemon for its sessions."""

    def __init__(
        self,
        lookout: Lookout,
        places: Places,
        store: Store,
        config: Config,
        handwork: Handwork,
        calm: Calm,
        refused: Callable[[], str | None],
    ) -> None:
        self._lookout = lookout
        self._config = config
        self._calm = calm
        self._store = store
        self._handwork = handwork
        self._holdings = handwork.holdings
        self._shares_store = bool(config.store.url)
        clock = lookout.clock
        path = config.events.critical_path or f"{places.logs}/critical_events.jsonl"
        self.critical = CriticalLog(Path(path))
        # What was written since the start.
        self.written: Counter[tuple[Happening, ActionTaken]] = Counter()
        self.incidents = Incidents(store, clock)
        self.lessons = Lessons(store, clock)
        self.checkpoints = Checkpoints(store, clock, CheckpointFiles(Path(places.home, "checkpoints")))
        self.alerts = self._alert_desk(places)
        self.asking = self._questions()
        self._issues = self._filing()
        place = self._place = HostPlace(lookout.host, clock)
        pace = Pace(clock, config.heal.pace_seconds, config.heal.pace_burst)
        self.circumstances = Circumstances(handwork.holdings, place, places.tmux, self.lessons.of)
        self._closing = Closing(clock, lookout.roster, handwork.holdings, self.circumstances)
        self.voice = self._voice()
        self._disk = self._disk_watch(places, refused)
        self.healer = self._healer(pace)
        desk = StoreDesk(store_path(config, places))
        self._journal_voice = JournalVoice(self.alerts, clock)
        self._announcer = Announcer(self.checkpoints, self.alerts, store, clock)
        self._journals = self._recovery_watch(places, desk)
        self.works = self._work_revival()
        self.restorer = Restorer(
            lookout.roster, handwork.holdings, handwork.hands, place, pace, self.circumstances
        )
        self._held_queue = HeldQueue(self.checkpoints)
        self.queue = self._queue_watch(config.redis, places, pace) if config.redis.url else None
        self._join(desk)

    def _join(self, desk: StoreDesk) -> None:
        """Who carries decisions out, and who is told of changes: all of them are there by now."""
        carriers, handwork = self.checkpoints.carriers, self._handwork
        carriers[CheckpointKind.SESSION] = SessionCarrier(
            self.healer,
            handwork.hands,
            handwork.holdings,
            handwork.end_tools,
            self._lookout.supervisor.acted,
        )
        carriers[CheckpointKind.JOURNAL] = JournalCarrier(desk)
        if self.queue is not None:
            carriers[CheckpointKind.QUEUE] = QueueCarrier(self.queue)
        handwork.hands.cut_off = handwork.own_hands.cut_off = self.circumstances.cut_off
        self.lessons.changed = self._calm.changed = self.healer.look_again

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
        await self.lessons.load()
        await self.healer.take_up()
        await self.voice.take_up()
        await self.checkpoints.take_up()

    def seen(self, changes: Sequence[Change]) -> None:
        """Sessions were judged anew."""
        for change in changes:
            watched = self._lookout.roster.watched.get(change.session_id)
            if watched is not None and watched.record is not None:
                self.asking.seen(watched.record)
                self.healer.seen(change.session_id)
                self._closing.seen(change.session_id)

    def tasks(self) -> Iterator[Task]:
        """What runs as long as the daemon does."""
        yield self.healer.run, "nothing is healed"
        yield self.alerts.run, "alerts are not delivered"
        yield self._disk.run, "the disk is not watched"
        yield self._place.run, "memory is not watched"
        yield self._closing.run, "who closes a session is not noted"
        yield self.works.run, "work that expired is not revived"
        if self._issues is not None:
            yield self._issues.run, "issues are not filed again"
        if self._shares_store:
            yield self._calm.follow, "pauses of other daemons are not heard"
            yield self._holdings.follow, "what other daemons manage is not heard"
        yield self._journals.run, "journals are not recovered"
        yield self._announcer.run, "nobody is told what waits for a decision"
        if self.queue is not None:
            yield self.queue.run, "the queue is not watched"
        if self._config.alerts.ping_url:
            yield Ping(self._config.alerts.ping_url, self._lookout.clock).run, "nobody is pinged"

    @property
    def queue_door(self) -> QueueDoor | None:
        """Where people say yes to sessions of the queue, if one is watched."""
        return QueueDoor(self.queue, self._held_queue, self.checkpoints) if self.queue is not None else None

    async def close(self) -> None:
        """Let go of what is still being asked and of whom we watch for."""
        await self.asking.close()
        await self.checkpoints.close()
        if self.queue is not None:
            await self.queue.close()

    async def write(self, event: CriticalEvent) -> None:
        """Add a line to the log of critical events. A slow disk does not stop the loop."""
        await asyncio.to_thread(self.critical.append, event)
        self.written[event.event, event.action_taken] += 1

    async def forget_old(self) -> None:
        """Critical events that nobody archived are kept for a month."""
        before = self._lookout.clock.now().wall - RETENTION_SECONDS
        await asyncio.to_thread(self.critical.forget, before)

    def _alert_desk(self, places: Places) -> AlertDesk:
        alerts, lookout = self._config.alerts, self._lookout
        channels, owner = open_channels(alerts, os.environ), f"{lookout.host}:{places.home}"
        return AlertDesk(self._store, lookout.clock, channels, rules_of(alerts), owner=owner, calm=self._calm)

    def _questions(self) -> Asking:
        rules = rules_of(self._config.alerts)
        excuses = self._is_visible, self._is_excused, self._is_done
        return Asking(self.alerts, self._lookout.clock, rules, *excuses)

    def _filing(self) -> Issues | None:
        github, store = self._config.github, self._store
        if not github.repo and not github.repos:
            return None
        forge = GhForge(StoreLedger(store), repo=github.repo, repos=github.repos, public=github.public)
        return Issues(
            forge,
            store,
            self._lookout.clock,
            wants=forge.wants,
            tell=self._tell_of_forge,
            works=self._forge_works,
            filed=_filed_late,
        )

    def _voice(self) -> Voice:
        return Voice(
            clock=self._lookout.clock,
            incidents=self.incidents,
            alerts=self.alerts,
            calm=self._calm,
            write=self.write,
            mode=self._config.daemon.mode,
        )

    def _disk_watch(self, places: Places, refused: Callable[[], str | None]) -> DiskWatch:
        return DiskWatch(
            clock=self._lookout.clock,
            host=self._lookout.host,
            room=Disk(places.home),
            refused=refused,
            incidents=self.incidents,
            owe=self.alerts.owe,
            over=self.voice.resolved,
            forge=self._issues,
        )

    def _healer(self, pace: Pace) -> Healer:
        lookout, handwork = self._lookout, self._handwork
        reviver = self.reviver = Reviver(
            clock=lookout.clock,
            store=self._store,
            hands=handwork.own_hands,
            asked=handwork.hands,
            holdings=handwork.holdings,
            pace=pace,
            past=lookout,
            forge=self._issues,
        )
        return Healer(
            clock=lookout.clock,
            store=self._store,
            roster=lookout.roster,
            reviver=reviver,
            incidents=self.incidents,
            telling=self.voice,
            holding=HeldSessions(self.checkpoints, self.circumstances, lookout),
            circumstances=self.circumstances,
            rules=self.rules,
        )

    def _recovery_watch(self, places: Places, desk: StoreDesk) -> RecoveryWatch:
        return RecoveryWatch(
            self._config.recovery.roots,
            registry=Path(places.home, "journals"),
            clock=self._lookout.clock,
            tell=self._tell_of_journal,
            well=self._journal_voice.well,
            desk=desk,
        )

    def _work_revival(self) -> WorkRevival:
        return WorkRevival(
            store=self._store,
            clock=self._lookout.clock,
            cut_off=self._cut_off,
            rules=self.rules,
            write=self.write,
            owe=self.alerts.owe,
        )

    def _cut_off(self, session_id: SessionId) -> list[str] | None:
        watched = self._lookout.roster.watched.get(session_id)
        return self.circumstances.calls_elsewhere(watched) if watched is not None else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What does not work now, for `wakeful status`."""
        count, waiting = self.incidents.open_count, self.checkpoints.open_count
        incidents = "1 incident is open" if count == 1 else f"{count} incidents are open"
        checkpoints = "1 checkpoint waits for you" if waiting == 1 else f"{waiting} checkpoints wait for you"
        trouble = self.queue.trouble if self.queue is not None else None
        return (
            *((f"{incidents}: `wakeful incidents`",) if count else ()),
            *((f"{checkpoints}: `wakeful checkpoint list`",) if waiting else ()),
            *self.alerts.troubles,
            *((f"queue: {trouble}",) if trouble is not None else ()),
        )

    def _queue_watch(self, redis: RedisPlace, places: Places, pace: Pace) -> "RedisWatch":
        """The watchdog of sessions in Redis, imported only if configured. Raises ExtraMissing."""
        try:
            from wakeful.watchdog.loop import RedisWatch, connect  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            raise ExtraMissing(what="redis.url", library=missing.name, extra="fleet") from missing
        from wakeful.watchdog.callbacks import Callbacks  # noqa: PLC0415
        from wakeful.watchdog.notifications import QueueVoice  # noqa: PLC0415

        # Every cycle logs one line.
        show_moves(logging.getLogger("wakeful.watchdog"))
        alerts = self._config.alerts
        bot = TelegramMessenger(alerts.telegram_token, alerts.telegram_chat, alerts.telegram_api)

        async def send_message(chat: object, text: str) -> None:
            await bot.send(text, chat=str(chat))

        return RedisWatch(
            jobs=connect(redis.url),
            logs=Path(redis.logs or f"{places.logs}/sessions"),
            clock=self._lookout.clock,
            callbacks=Callbacks(
                write=self.write,
                send_message=send_message if alerts.telegram_token else None,
                hold=self._held_queue.hold,
                gone_on=self._held_queue.gone_on,
            ),
            taught=self.lessons.of,
            rules=self.rules,
            forge=self._issues,
            policy=self._config.detect,
            active_projects=self._config.projects.active or None,
            interval_seconds=redis.interval_seconds,
            operator=QueueVoice(
                incidents=self.incidents,
                alerts=self.alerts,
                soon=self.voice.soon,
                over=self.voice.resolved,
                treated=lambda session_id: self.healer.trouble_of(session_id) is not None,
            ),
            pace=pace,
            present=self._runs_in_queue,
        )

    def _runs_in_queue(self, session_ids: Collection[SessionId]) -> None:
        self.circumstances.queued = frozenset(session_ids)
        self._lookout.supervisor.vouch_for(session_ids)

    async def _tell_of_journal(self, sighting: Sighting) -> None:
        if sighting.recovered is not None and sighting.recovered.checkpoint is not None:
            await self._announcer.check()
            return
        await self._journal_voice.told(sighting)

    async def _tell_of_forge(self, words: str) -> None:
        now = self._lookout.clock.now().wall
        news = forge_news(words, self._lookout.host, now, did=KEPT_FOR_LATER)
        topic = Topic((Matter.ISSUES,))
        await self.alerts.owe(Alert(AlertKind.TROUBLE, FORGE, text_of(news), topic=topic))

    async def _forge_works(self) -> None:
        since = next((each.owed_at for each in self.alerts.open_episodes(FORGE)), None)
        if since is not None:
            await self.alerts.resolve(FORGE, resolved("no issue could be filed", iso(since)))

    async def _is_visible(self, session_id: SessionId) -> bool:
        watched = self._lookout.roster.watched.get(session_id)
        pane = watched.presence.pane if watched is not None else None
        return pane is not None and pane.sight is Sight.ALIVE and await is_visible(pane.socket, pane.target)

    def _is_excused(self, record: SessionRecord, question: Question | None) -> bool:
        """Muted, or told as one incident of many."""
        incident = self.incidents.of(record.id)
        if incident is not None and incident.cause is not Cause.SESSION:
            return True
        codes = (question.code,) if question is not None and question.code is not None else ()
        return self._calm.is_muted(record, codes, self._lookout.clock.now().wall)

    def _is_done(self, session_id: SessionId) -> bool:
        watched = self._lookout.roster.watched.get(session_id)
        return watched is not None and watched.activity.ended_well and not watched.presence.stopped


async def _filed_late(_report: Report, _filing: Filing) -> None:
    """Nothing more to do: its event was written without an issue, and lines are never changed."""
