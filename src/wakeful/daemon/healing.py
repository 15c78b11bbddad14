"""Builds healing, incidents, alerts, issues, checkpoints, critical events and the journal and queue watches.

It connects these parts to the observer, to control and to the store, and lists the tasks that run as long as
the daemon does.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.attention import AttentionMonitor
from wakeful.alerts.model import AlertCode, AttentionQuestion, Topic, issue_tracker_alert, resolved_text
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.notifier import Notifier
from wakeful.alerts.outbox import AlertOutbox
from wakeful.alerts.ping import Ping
from wakeful.checkpoints.files import CheckpointFiles
from wakeful.checkpoints.model import CheckpointKind
from wakeful.checkpoints.service import CheckpointNotifier, Checkpoints
from wakeful.checkpoints.sessions import SessionCheckpoints, SessionDecisionExecutor
from wakeful.config.alert_channels import alert_rules_of, channel_settings, open_channels
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, RedisConfig, RunawayResponse
from wakeful.config.state_dir import store_path
from wakeful.control.ownership import ManagedSessions
from wakeful.core.clock import iso
from wakeful.core.errors import ExtraMissing
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessState
from wakeful.daemon.control import ControlComponents, SessionControllers
from wakeful.daemon.host import JUDGING
from wakeful.daemon.observer import ObservedSessions, SessionObserver
from wakeful.healing.cases import HealingCases
from wakeful.healing.closed_sessions import FailedStopDetector, UserCloseDetector
from wakeful.healing.disk import DiskWatch
from wakeful.healing.healer import Healer
from wakeful.healing.issues import CaseIssues
from wakeful.healing.notifier import HealingNotifier
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import OutageProbe, RevivalLimiter
from wakeful.healing.restore import Restorer
from wakeful.healing.revival import Reviver
from wakeful.healing.situation import SituationBuilder
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, CriticalEventKind
from wakeful.incidents.critical_log import RETENTION_SECONDS, CriticalLog
from wakeful.incidents.issue_tracker import IssueTracker
from wakeful.incidents.issues import Issues
from wakeful.incidents.model import Cause
from wakeful.incidents.service import Incidents
from wakeful.integrations.github import GhIssueTracker, StoreIssueLedger
from wakeful.integrations.telegram import TelegramMessenger
from wakeful.integrations.tmux.server import is_visible
from wakeful.journal.alerts import JournalNotifier
from wakeful.journal.checkpoint_store import StoredJournalCheckpoints
from wakeful.journal.recovery_watch import JournalDecisionExecutor, JournalWatchReport, RecoveryWatch
from wakeful.judging.session_record import SessionRecord
from wakeful.linux.host import Disk, HostInfo
from wakeful.linux.logging import log_to_stderr
from wakeful.sessions.feed import SessionChange
from wakeful.sessions.transition_writer import TransitionWriter
from wakeful.storage.base import Store
from wakeful.watchdog.checkpoints import QueueApproval, QueueCheckpoints, QueueDecisionExecutor
from wakeful.work.expiry import WorkRevival

if TYPE_CHECKING:
    from wakeful.watchdog.loop import RedisWatch

# All problems with the issue tracker are one episode.
ISSUES_EPISODE: Final = "forge"
SAVED_FOR_LATER: Final = "saved the report and retries every ten minutes"
Task = tuple[Callable[[], Coroutine[None, None, None]], str]
"""A task that never ends, and the consequence if the store refuses it."""


class HealerParts(Struct, frozen=True, kw_only=True):
    """The parts of the daemon that healing of sessions needs."""

    observer: ObservedSessions
    store: Store
    managed_sessions: ManagedSessions
    controllers: SessionControllers
    incidents: Incidents
    checkpoints: Checkpoints
    notifier: Notifier
    mute_pause: MutePause
    issues: IssueTracker | None
    limiter: RevivalLimiter
    situations: SituationBuilder
    write: Callable[[CriticalEvent], Awaitable[None]]
    rules: Callable[[], HealingRules]


class BuiltHealer(Struct, frozen=True):
    reviver: Reviver
    cases: HealingCases
    healer: Healer


def build_healer(parts: HealerParts) -> BuiltHealer:
    observer, situations = parts.observer, parts.situations
    clock, registry = observer.clock, observer.registry
    reviver = Reviver(
        clock=clock,
        store=parts.store,
        controller=parts.controllers.automatic,
        person_controller=parts.controllers.asked,
        managed_sessions=parts.managed_sessions,
        limiter=parts.limiter,
        history=observer,
    )
    notifier = HealingNotifier(
        clock=clock,
        notifier=parts.notifier,
        mute_pause=parts.mute_pause,
        write=parts.write,
        mode=parts.rules().mode,
    )
    probe = OutageProbe(clock, registry)
    cases = HealingCases(
        store=parts.store,
        clock=clock,
        incidents=parts.incidents,
        issues=CaseIssues(clock, parts.incidents, observer, parts.issues),
        notifier=notifier,
        checkpoints=SessionCheckpoints(parts.checkpoints, situations, observer),
        situations=situations,
        probe=probe,
    )
    healer = Healer(
        clock=clock,
        registry=registry,
        reviver=reviver,
        cases=cases,
        situations=situations,
        probe=probe,
        rules=parts.rules,
    )
    return BuiltHealer(reviver, cases, healer)


class HealingComponents:
    def __init__(
        self,
        observer: SessionObserver,
        paths: StatePaths,
        store: Store,
        config: Config,
        control: ControlComponents,
        mute_pause: MutePause,
        writer: TransitionWriter,
    ) -> None:
        self._observer = observer
        self._config = config
        self._mute_pause = mute_pause
        self._store = store
        self._control = control
        self._managed_sessions = control.managed_sessions
        self._shares_store = bool(config.store.url)
        clock = observer.clock
        path = config.events.critical_path or f"{paths.logs}/critical_events.jsonl"
        self.critical_log = CriticalLog(Path(path))
        self.event_counts: Counter[tuple[CriticalEventKind, ActionTaken]] = Counter()
        self.incidents = Incidents(store, clock)
        self.lessons = control.lessons
        self.checkpoints = Checkpoints(store, clock, CheckpointFiles(Path(paths.state_dir, "checkpoints")))
        self.alerts = self._build_outbox(paths)
        self.notifier = Notifier(self.alerts, self.incidents, clock)
        conditions = self._is_visible, self._is_suppressed, self._is_turn_done
        self.attention = AttentionMonitor(self.notifier, clock, alert_rules_of(config.alerts), *conditions)
        self._issues = self._build_issues()
        host = self._host = HostInfo(observer.host, clock)
        self.limiter = RevivalLimiter(clock, config.heal.pace_seconds, config.heal.pace_burst)
        self.situations = SituationBuilder(control.managed_sessions, host, paths.tmux, self.lessons)
        self._close_detector = UserCloseDetector(
            clock, observer.registry, control.managed_sessions, self.situations
        )
        self._failed_stops = FailedStopDetector(clock, observer.registry, control.managed_sessions)
        self._disk = self._build_disk_watch(paths, writer)
        built = self._build_healer()
        self.reviver, self.healer = built.reviver, built.healer
        checkpoints = StoredJournalCheckpoints(store_path(config, paths))
        self._journal_notifier = JournalNotifier(self.notifier, clock)
        self._checkpoint_notifier = CheckpointNotifier(self.checkpoints, self.notifier, store, clock)
        self._journals = self._build_recovery_watch(paths, checkpoints)
        self.work_revival = self._build_work_revival()
        self.restorer = Restorer(
            observer.registry,
            control.managed_sessions,
            control.controller,
            host,
            self.limiter,
            self.situations,
        )
        self._queue_checkpoints = QueueCheckpoints(self.checkpoints)
        self.queue = self._build_queue_watch(config.redis, paths) if config.redis.url else None
        self._connect(checkpoints)

    def _connect(self, checkpoints: StoredJournalCheckpoints) -> None:
        """Connect the parts: executors of decisions, and listeners for changes."""
        executors, control = self.checkpoints.executors, self._control
        executors[CheckpointKind.SESSION] = SessionDecisionExecutor(
            self.healer,
            control.controller,
            control.managed_sessions,
            control.stop_tools,
            self._observer.supervisor.on_action,
        )
        executors[CheckpointKind.JOURNAL] = JournalDecisionExecutor(checkpoints)
        if self.queue is not None:
            executors[CheckpointKind.QUEUE] = QueueDecisionExecutor(self.queue)
        self.lessons.subscribe(self.healer.recheck_all)
        self._mute_pause.subscribe(self.healer.recheck_all)

    def rules(self) -> HealingRules:
        heal, paused = self._config.heal, self._mute_pause.current_pause
        return HealingRules(
            mode=self._config.daemon.mode,
            revive_runaways=heal.runaway is RunawayResponse.REVIVE,
            confirm_seconds=heal.confirm_seconds,
            steer_seconds=heal.steer_seconds,
            paused_by=paused.by if paused is not None else None,
        )

    def apply_config(self, config: Config) -> None:
        """Use the sections `alerts` and `heal` of this configuration."""
        before, alerts, heal = self._config.alerts, config.alerts, config.heal
        self._config = replace(self._config, alerts=alerts, heal=heal)
        self.limiter.set_pace(heal.pace_seconds, heal.pace_burst)
        self.attention.set_rules(alert_rules_of(alerts))
        self.alerts.set_rules(alert_rules_of(alerts))
        if channel_settings(before) != channel_settings(alerts):
            self.alerts.set_channels(open_channels(alerts, os.environ))
        self.healer.recheck_all()

    async def restore(self) -> None:
        await self.alerts.restore()
        self.attention.restore()
        await self.lessons.load()
        await self.healer.restore()
        await self.notifier.restore()
        await self.checkpoints.restore()

    def on_changes(self, changes: Sequence[SessionChange]) -> None:
        for change in changes:
            session = self._observer.registry.sessions.get(change.session_id)
            if session is not None and session.record is not None:
                self.attention.on_judged(session.record)
                self.healer.on_judged(change.session_id)
                self._close_detector.on_judged(change.session_id)
                self._failed_stops.on_judged(change.session_id)

    def is_treated(self, session_id: SessionId) -> bool:
        return self.healer.case_of(session_id) is not None

    def tasks(self) -> Iterator[Task]:
        yield self.healer.run, "nothing is healed"
        yield self.alerts.run, "alerts are not delivered"
        yield self._disk.run, "the disk is not watched"
        yield self._host.run, "memory is not watched"
        yield self._close_detector.run, "who closes a session is not noted"
        yield self._failed_stops.run, "stops that failed are not withdrawn"
        yield self.work_revival.run, "work that expired is not revived"
        if self._issues is not None:
            yield self._issues.run, "issues are not filed again"
        yield self._mute_pause.end_on_time, "a pause with an end does not end"
        if self._shares_store:
            yield self._mute_pause.follow, "pauses of other daemons are not heard"
            yield self._managed_sessions.follow, "what other daemons manage is not heard"
        yield self._journals.run, "journals are not recovered"
        yield self._checkpoint_notifier.run, "no alert is sent about what waits for a decision"
        if self.queue is not None:
            yield self.queue.run, "the queue is not watched"
        if self._config.alerts.ping_url:
            ping = Ping(self._config.alerts.ping_url, self._observer.clock, self._is_judging)
            yield ping.run, "no ping is sent"

    def _is_judging(self) -> bool:
        return not self._observer.failures.is_down(JUDGING)

    @property
    def queue_approval(self) -> QueueApproval | None:
        """For approvals of sessions of the queue, if one is watched."""
        return (
            QueueApproval(self.queue, self._queue_checkpoints, self.checkpoints)
            if self.queue is not None
            else None
        )

    async def close(self) -> None:
        await self.attention.close()
        await self.notifier.close()
        await self.checkpoints.close()
        if self.queue is not None:
            await self.queue.close()

    async def write(self, event: CriticalEvent) -> None:
        """Add a line to the log of critical events. A slow disk does not stop the loop."""
        await asyncio.to_thread(self.critical_log.append, event)
        self.event_counts[event.event, event.action_taken] += 1

    async def forget_old(self) -> None:
        """Delete critical events that are older than a month and were not archived."""
        before = self._observer.clock.now().wall - RETENTION_SECONDS
        await asyncio.to_thread(self.critical_log.forget, before)

    def _build_outbox(self, paths: StatePaths) -> AlertOutbox:
        alerts, observer = self._config.alerts, self._observer
        channels, owner = open_channels(alerts, os.environ), f"{observer.host}:{paths.state_dir}"
        return AlertOutbox(
            self._store,
            observer.clock,
            channels,
            alert_rules_of(alerts),
            owner=owner,
            mute_pause=self._mute_pause,
        )

    def _build_issues(self) -> Issues | None:
        github, store = self._config.github, self._store
        if not github.repo and not github.repos:
            return None
        tracker = GhIssueTracker(
            StoreIssueLedger(store), repo=github.repo, repos=github.repos, public=github.public
        )
        return Issues(
            tracker,
            store,
            self._observer.clock,
            wants=tracker.wants,
            tell=self._notify_issue_tracker,
            works=self._on_issue_tracker_works,
        )

    def _build_disk_watch(self, paths: StatePaths, writer: TransitionWriter) -> DiskWatch:
        return DiskWatch(
            clock=self._observer.clock,
            host=self._observer.host,
            disk=Disk(paths.state_dir),
            store_problem=lambda: writer.problem,
            incidents=self.incidents,
            notifier=self.notifier,
            tracker=self._issues,
        )

    def _build_healer(self) -> BuiltHealer:
        parts = HealerParts(
            observer=self._observer,
            store=self._store,
            managed_sessions=self._managed_sessions,
            controllers=self._control.controllers,
            incidents=self.incidents,
            checkpoints=self.checkpoints,
            notifier=self.notifier,
            mute_pause=self._mute_pause,
            issues=self._issues,
            limiter=self.limiter,
            situations=self.situations,
            write=self.write,
            rules=self.rules,
        )
        return build_healer(parts)

    def _build_recovery_watch(
        self, paths: StatePaths, checkpoints: StoredJournalCheckpoints
    ) -> RecoveryWatch:
        return RecoveryWatch(
            self._config.recovery.roots,
            registry=Path(paths.state_dir, "journals"),
            clock=self._observer.clock,
            report=self._notify_journal,
            on_healthy=self._journal_notifier.resolve,
            checkpoints=checkpoints,
        )

    def _build_work_revival(self) -> WorkRevival:
        return WorkRevival(
            store=self._store,
            clock=self._observer.clock,
            cut_off=self._remote_calls_of,
            rules=self.rules,
            limiter=self.limiter,
            write=self.write,
            notifier=self.notifier,
        )

    def _remote_calls_of(self, session_id: SessionId) -> list[str] | None:
        session = self._observer.registry.sessions.get(session_id)
        return self.situations.describe_remote_calls(session) if session is not None else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Current problems, for `wakeful status`."""
        count, waiting = self.incidents.open_count, self.checkpoints.open_count
        incidents = "1 incident is open" if count == 1 else f"{count} incidents are open"
        checkpoints = "1 checkpoint waits for you" if waiting == 1 else f"{waiting} checkpoints wait for you"
        queue_problem = self.queue.problem if self.queue is not None else None
        return (
            *((f"{incidents}: `wakeful incidents`",) if count else ()),
            *((f"{checkpoints}: `wakeful checkpoint list`",) if waiting else ()),
            *self.alerts.problems,
            *((f"queue: {queue_problem}",) if queue_problem is not None else ()),
        )

    def _build_queue_watch(self, redis: RedisConfig, paths: StatePaths) -> "RedisWatch":
        """The watchdog of sessions in Redis, imported only if configured. Raises ExtraMissing."""
        try:
            from wakeful.watchdog.loop import RedisWatch, connect  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            raise ExtraMissing(what="redis.url", library=missing.name, extra="fleet") from missing
        from wakeful.watchdog.callbacks import Callbacks  # noqa: PLC0415
        from wakeful.watchdog.notifications import QueueNotifier  # noqa: PLC0415
        from wakeful.watchdog.parts import (  # noqa: PLC0415
            HealingControls,
            QueueSessionsObserver,
            WatchSettings,
        )

        # Every cycle logs one line.
        log_to_stderr(logging.getLogger("wakeful.watchdog"))
        alerts = self._config.alerts
        bot = TelegramMessenger(alerts.telegram_token, alerts.telegram_chat, alerts.telegram_api)

        async def send_message(chat: object, text: str) -> None:
            await bot.send(text, chat=str(chat))

        return RedisWatch(
            jobs=connect(redis.url),
            logs=Path(redis.logs or f"{paths.logs}/sessions"),
            clock=self._observer.clock,
            callbacks=Callbacks(
                write=self.write,
                send_message=send_message if alerts.telegram_token else None,
                hold=self._queue_checkpoints.open_checkpoint,
                gone_on=self._queue_checkpoints.on_continued,
            ),
            controls=HealingControls(
                rules=self.rules, limiter=self.limiter, lessons_of=self.lessons.of, tracker=self._issues
            ),
            settings=WatchSettings(
                policy=self._config.detect,
                active_projects=self._config.projects.active or None,
                interval_seconds=redis.interval_seconds,
            ),
            notifier=QueueNotifier(
                incidents=self.incidents,
                notifier=self.notifier,
                is_treated=self.is_treated,
            ),
            observer=QueueSessionsObserver(self.situations, self._observer.supervisor),
        )

    async def _notify_journal(self, report: JournalWatchReport) -> None:
        if report.recovered is not None and report.recovered.checkpoint is not None:
            await self._checkpoint_notifier.check()
            return
        await self._journal_notifier.notify(report)

    async def _notify_issue_tracker(self, problem: str) -> None:
        now = self._observer.clock.now().wall
        body = issue_tracker_alert(problem, self._observer.host, now, did=SAVED_FOR_LATER)
        await self.notifier.raise_alert(ISSUES_EPISODE, body, Topic((AlertCode.ISSUES,)))

    async def _on_issue_tracker_works(self) -> None:
        since = next((each.owed_at for each in self.notifier.open_alerts(ISSUES_EPISODE)), None)
        if since is not None:
            await self.notifier.resolve(ISSUES_EPISODE, resolved_text("issue not filed", iso(since)))

    async def _is_visible(self, session_id: SessionId) -> bool:
        session = self._observer.registry.sessions.get(session_id)
        pane = session.presence.pane if session is not None else None
        return (
            pane is not None
            and pane.sight is ProcessState.ALIVE
            and await is_visible(pane.socket, pane.target)
        )

    def _is_suppressed(self, record: SessionRecord, question: AttentionQuestion | None) -> bool:
        """Whether it is muted, or part of an incident whose cause is not this session alone."""
        incident = self.incidents.of(record.id)
        if incident is not None and incident.cause is not Cause.SESSION:
            return True
        codes = (question.code,) if question is not None and question.code is not None else ()
        return self._mute_pause.is_muted(record, codes, self._observer.clock.now().wall)

    def _is_turn_done(self, session_id: SessionId) -> bool:
        session = self._observer.registry.sessions.get(session_id)
        return session is not None and session.activity.ended_well and not session.presence.stopped
