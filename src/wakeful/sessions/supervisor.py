"""The supervisor: applies evidence to sessions, judges them, and reports transitions and changes.

Evidence is applied immediately; judging is put off to the end of the loop's turn, so that a hundred lines of
one session cost one verdict. One heap of deadlines wakes the supervisor: idle sessions cost nothing.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from wakeful.core.clock import Clock, Instant, Sleep
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.events import Event, LogOpened
from wakeful.judging.evidence import (
    LAST_LINES_SECONDS,
    STREAM,
    AgentProcess,
    ClientStatus,
    Dialog,
    DialogKind,
    Orphan,
    Pane,
    RuntimeState,
    SessionIdentity,
    dead_pane,
    has_written_nothing_yet,
    note_late_write,
    remember_process,
)
from wakeful.judging.folding import fold
from wakeful.judging.thresholds import Policy
from wakeful.sessions.feed import SessionChange, change_of
from wakeful.sessions.registry import KnownSessions, OldLog
from wakeful.sessions.session import (
    SessionSnapshot,
    TrackedSession,
    TransitionKey,
    snapshot_of,
    transition_key_of,
    transition_of,
)
from wakeful.sessions.session_judge import SessionJudge, SessionOwners
from wakeful.sessions.supervisor_host import EvidenceSources, SupervisorHost
from wakeful.storage.base import Transition

_decode_snapshot: Final = json_decoder(SessionSnapshot)
# These take a few milliseconds; then the loop can serve a request.
JUDGED_AT_ONCE_MAX: Final = 100
# Deadlines that no longer count are kept up to this number beyond those of the sessions.
DEADLINES_SPARE: Final = 1000
# The name in a client's registry for a dialog that a person opened between two turns.
DIALOG_OPEN: Final = "dialog open"


class Supervisor:
    """Implements the sources' EvidenceSink. Everything runs in the daemon's one loop."""

    def __init__(
        self,
        clock: Clock,
        known: KnownSessions,
        policy: Policy,
        host: SupervisorHost,
        sources: EvidenceSources,
        *,
        boot_id: str,
    ) -> None:
        self.known = known
        self._clock = clock
        self._host = host
        self._sources = sources
        self._boot_id = boot_id
        self._dirty: dict[SessionId, None] = {}
        self._deadlines: list[tuple[float, SessionId]] = []
        self._by_process: dict[Process, set[SessionId]] = {}
        self._stored_keys: dict[SessionId, TransitionKey] = {}
        self._owners = SessionOwners()
        self._fold_after_seconds = policy.fold_after_seconds
        self._judge = SessionJudge(clock, policy, self._owners, host, sources, known.short_names)
        # Sessions that a queue of another program reports as running.
        self._queue_running: frozenset[SessionId] = frozenset()
        # Clients without a conversation yet, and the placeholder session of each.
        self._awaited_conversations: dict[Process, SessionId] = {}
        self._withdrawn: list[SessionId] = []
        self._last_sleep: Sleep | None = None

    def set_policy(self, policy: Policy) -> None:
        """Judge every session by these thresholds from now on."""
        self._judge.set_policy(policy)
        for session_id in self.known.sessions:
            self._mark_dirty(session_id)

    def restore_transition_keys(self, keys: dict[SessionId, TransitionKey]) -> None:
        """Set the last stored states: a restart is no transition."""
        self._stored_keys = keys

    def on_events(
        self, identity: SessionIdentity, events: Sequence[Event], *, live: bool, replaced: bool = False
    ) -> None:
        session = self._track(identity)
        self._apply_events(session, identity, events, live=live, replaced=replaced)
        # The lines of a stream have no times.
        if identity.source != STREAM and (newest := max((event.at for event in events), default=0.0)):
            note_late_write(session.presence, self._clock.instant(newest), live=live)

    def _apply_events(
        self,
        session: TrackedSession,
        identity: SessionIdentity,
        events: Sequence[Event],
        *,
        live: bool,
        replaced: bool = False,
    ) -> None:
        if replaced or not session.is_log_read:
            session.activity, session.is_log_read = Activity(), True
        only_started = self._has_only_started(session)
        for event in events:
            fold(session.activity, event, self._instant(event, session.activity))
            if type(event) is LogOpened and event.pid is not None:
                self._sources.find_named_process(self, identity, event.pid, event.at)
        if live:
            session.presence.grown_at = self._clock.now()
            if not session.presence.living_processes:
                self._sources.find_agent_process(identity.id)
        if only_started and not self._has_only_started(session):
            # The new process works: look up its pane again.
            self._find_pane(identity.id)
        session.presence.vouched = identity.vouched or identity.id in self._queue_running
        self._mark_dirty(identity.id)

    def on_report(
        self,
        identity: SessionIdentity,
        events: Sequence[Event],
        *,
        live: bool,
        written_wall: float | None = None,
    ) -> None:
        session = self._track(identity)
        self._ensure_log_read(session)
        if written_wall is not None and _is_after_its_end(session, events, written_wall):
            return
        last_at = session.activity.last_at
        if live or last_at is None or self._instant(events[0], session.activity) > last_at:
            self._apply_events(session, identity, events, live=live)

    def _instant(self, event: Event, activity: Activity) -> Instant:
        """The time of an event. A mark about bytes without a time is as old as the event before it."""
        return self._clock.instant(event.at) if event.at else activity.last_at or self._clock.now()

    def restore(self, identity: SessionIdentity, stored: bytes) -> bool:
        try:
            snapshot = _decode_snapshot(stored)
        except msgspec.DecodeError:
            return False
        session = self._track(identity)
        same_boot = snapshot.boot_id == self._boot_id
        for process in snapshot.holders.values():
            self._restore_process(session, process, same_boot=same_boot)
        if same_boot:
            session.activity = snapshot.activity
            session.presence.written_after_at = snapshot.written_after_at
            self._restore_pane(session, snapshot.pane)
        elif snapshot.pane is not None:
            # A resume needs the name of the pane.
            session.presence.pane = dead_pane(snapshot.pane)
        self._mark_dirty(identity.id)
        return same_boot

    def on_restored(self, session_id: SessionId) -> None:
        session = self.known.sessions.get(session_id)
        if (
            session is not None
            and session.presence.agent_state is ProcessState.DEAD
            and session.activity.in_turn
        ):
            self._sources.on_agent_exit(self, session_id)

    def on_growth(self, session_id: SessionId) -> None:
        session = self.known.sessions.get(session_id)
        if session is not None:
            self._ensure_log_read(session)
            session.presence.grown_at = self._clock.now()
            self._mark_dirty(session_id)

    def on_action(self, session_id: SessionId) -> None:
        """An action on a session began or ended. That is no evidence about its agent, but its record shows it."""
        if session_id in self.known.sessions:
            self._mark_dirty(session_id)

    def on_recent_log(self, identity: SessionIdentity, last_wall: float, cwd: str | None) -> None:
        session = self._track(identity)
        session.is_log_read = False
        session.activity.last_at = self._clock.instant(last_wall)
        session.presence.cwd = cwd or session.presence.cwd
        self._read_if_managed(session)
        self._mark_dirty(identity.id)

    def on_old_log(self, identity: SessionIdentity, last_wall: float) -> None:
        if identity.id not in self.known.sessions:
            self.known.old_logs[identity.id] = OldLog(identity, last_wall)
            self.known.on_membership_change()

    def on_process(
        self,
        identity: SessionIdentity,
        process: Process,
        state: ProcessState,
        *,
        source: str,
        status: ClientStatus | None = None,
        status_wall: float | None = None,
        waiting_for: str | None = None,
        cwd: str | None = None,
    ) -> None:
        unread = identity.id in self.known.old_logs
        session = self._track(identity)
        session.is_log_read = session.is_log_read and not unread
        self._ensure_log_read(session)
        now = self._clock.now()
        status_at = self._clock.instant(status_wall) if status_wall is not None else None
        is_new = remember_process(
            session.presence,
            # A process found dead ended at an unknown time.
            AgentProcess(process, state, now, source, None, status, status_at, waiting_for),
        )
        session.presence.cwd = cwd or session.presence.cwd
        self._by_process.setdefault(process, set()).add(identity.id)
        self._leave_start_dialog(session, process, status, waiting_for)
        self._mark_dirty(identity.id)
        if is_new and state is ProcessState.ALIVE:
            self._find_pane(identity.id)
        elif is_new and session.activity.in_turn:
            self._sources.on_agent_exit(self, identity.id)

    def on_dialog(
        self, identity: SessionIdentity, process: Process, kind: DialogKind, text: str, *, cwd: str | None
    ) -> None:
        if identity.awaited:
            self._awaited_conversations[process] = identity.id
            if identity.id in self._withdrawn:
                self._withdrawn.remove(identity.id)
        session = self._track(identity)
        if any(holder.process != process for holder in session.presence.living_processes):
            # Another process runs this session; it does not show the dialog.
            return
        if process.pid not in session.presence.holders:
            self.on_process(identity, process, self._sources.watch(process), source="tmux", cwd=cwd)
        before = session.presence.dialog
        if before is None or (before.kind, before.words, before.process) != (kind, text, process):
            session.presence.dialog = Dialog(kind, text, self._clock.now(), process)
            self._mark_dirty(identity.id)

    def session_of_process(self, process: Process) -> SessionIdentity | None:
        for session_id in self._by_process.get(process, ()):
            session = self.known.sessions.get(session_id)
            if session is not None and process.pid in session.presence.holders:
                return session.subject
        return None

    def on_dialog_closed(self, process: Process) -> None:
        # The client accepts prompts now; its conversation becomes a session of its own.
        self._withdraw(process)
        for session_id in self._by_process.get(process, ()):
            session = self.known.sessions.get(session_id)
            if session is not None and _is_at_dialog(session, process):
                session.presence.dialog = None
                self._mark_dirty(session_id)

    def _leave_start_dialog(
        self, session: TrackedSession, process: Process, status: ClientStatus | None, waiting_for: str | None
    ) -> None:
        """A client with a conversation and a status is past the dialogs of its start."""
        if self._awaited_conversations.get(process) not in (None, session.subject.id):
            self._withdraw(process)
        if status is ClientStatus.WAITING and waiting_for == DIALOG_OPEN:
            # The screen shows which dialog it is.
            self._find_pane(session.subject.id)
        elif status is not None and _is_at_dialog(session, process):
            session.presence.dialog = None

    def _withdraw(self, process: Process) -> None:
        """Drop the placeholder of a conversation that has begun, or never will."""
        session_id = self._awaited_conversations.pop(process, None)
        session = self.known.sessions.get(session_id) if session_id is not None else None
        if session_id is not None and session is not None:
            session.presence = RuntimeState(slept=session.presence.slept)
            self._withdrawn.append(session_id)
            self._mark_dirty(session_id)

    def on_release(self, session_id: SessionId, process: Process) -> None:
        session = self.known.sessions.get(session_id)
        if session is not None:
            self._end_process(session, process)

    def on_exit(self, process: Process) -> None:
        self._withdraw(process)
        for session_id in self._by_process.pop(process, set()):
            session = self.known.sessions.get(session_id)
            if session is None:
                continue
            # The file may have last lines whose notification comes after this one.
            self._sources.catch_up(session_id)
            self._end_process(session, process)
            pane = session.presence.pane
            if pane is not None and pane.process == process:
                session.presence.pane = msgspec.structs.replace(pane, sight=ProcessState.DEAD)
            self._set_orphans(
                session, tuple(each for each in session.presence.orphans if each.process != process)
            )

    def on_pane(self, session_id: SessionId, pane: Pane | None) -> None:
        session = self.known.sessions.get(session_id)
        if session is None or session.presence.pane == pane or self._is_moved_too_soon(session, pane):
            return
        session.presence.pane = pane
        if pane is not None:
            self._by_process.setdefault(pane.process, set()).add(session_id)
        self._mark_dirty(session_id)

    def _is_moved_too_soon(self, session: TrackedSession, pane: Pane | None) -> bool:
        """Whether its known pane stays: it is alive, and a second or new process of the session runs elsewhere.

        It is not known yet which of two living processes goes on; when one ends, the pane is looked up again.
        """
        known, are_two = session.presence.pane, len(session.presence.living_processes) > 1
        if pane is None:
            return False
        if (pane.sight, pane.runtime) == (ProcessState.DEAD, ProcessState.ALIVE):
            has_new_process = are_two or self._has_only_started(session)
            return has_new_process and self._sources.watch(pane.process) is ProcessState.ALIVE
        if known is None or known.sight is not ProcessState.ALIVE or known.process == pane.process:
            return False
        return are_two and self._sources.watch(known.process) is ProcessState.ALIVE

    def _has_only_started(self, session: TrackedSession) -> bool:
        """Whether its newest process followed another one and has written nothing yet."""
        return len(session.presence.holders) > 1 and has_written_nothing_yet(
            session.presence, session.activity.last_at
        )

    def on_orphans(self, session_id: SessionId, orphans: tuple[Orphan, ...]) -> None:
        session = self.known.sessions.get(session_id)
        if session is None:
            return
        # The end of an orphan is reported like that of any process.
        living = tuple(each for each in orphans if self._sources.watch(each.process) is not ProcessState.DEAD)
        for each in living:
            self._by_process.setdefault(each.process, set()).add(session_id)
        self._set_orphans(session, living)

    def snapshot(self, session_id: SessionId) -> bytes | None:
        session = self.known.sessions.get(session_id)
        return snapshot_of(session, self._boot_id) if session is not None else None

    def on_log_deleted(self, session_id: SessionId) -> None:
        self.known.old_logs.pop(session_id, None)
        session = self.known.sessions.get(session_id)
        if session is not None and not session.presence.living_processes:
            self.known.remove(session_id)
            self.known.names.pop(session_id, None)
            self._host.on_session_gone(session_id)
            self._rename_others()
        self.known.on_membership_change()

    def unfold(self, session_id: SessionId, read: bool) -> None:
        """Make a record of an old log from its name and age, or with `read` from its contents."""
        old = self.known.old_logs.get(session_id)
        if old is not None:
            session = self._track(old.subject)
            session.activity.last_at = self._clock.instant(old.last_wall)
            session.is_log_read = False
        session = self.known.sessions[session_id]
        if read:
            self._ensure_log_read(session)
        self._judge_session(session, self._clock.now())

    def manage(self, session_id: SessionId, managed: ManagedSession | None) -> None:
        """Make a session managed; with None it is only watched from now on."""
        self._owners.set_managed(session_id, managed)
        if managed is not None and managed.name is not None:
            self.known.names[session_id] = managed.name
        self._update_ownership(session_id)

    def set_elsewhere(
        self, hosts: Mapping[SessionId, str], managed: Iterable[tuple[SessionIdentity, str]]
    ) -> None:
        """Set which other machines have which sessions.

        What they manage, in which folder, is shown even if nothing is known of it here.
        """
        changed = self._owners.set_elsewhere(hosts, self._clock.now())
        for identity, cwd in managed:
            if identity.id not in self.known.sessions and identity.id not in self.known.old_logs:
                self._track(identity).presence.cwd = cwd
            if identity.name is not None:
                self.known.names[identity.id] = identity.name
        for session_id in changed & self.known.sessions.keys():
            session = self.known.sessions[session_id]
            is_known_here = session.activity.last_at is not None or session.presence.holders
            if session_id in hosts or is_known_here:
                self._mark_dirty(session_id)
            else:
                self.on_log_deleted(session_id)

    def set_agent(self, session_id: SessionId, agent: str | None) -> None:
        """Set the agent of the hub that hosts the session; None: no agent does."""
        self._owners.set_agent(session_id, agent)
        self._update_ownership(session_id)

    def mark_stopped_by_person(
        self, processes: Collection[Process], sessions: Collection[SessionId] = ()
    ) -> list[SessionId]:
        """Mark processes that a person ordered to stop: their end is no problem. Returns the sessions that they run.

        `sessions` are those that they ran at the time of the order: after a restart their processes may be unknown.
        """
        self._owners.mark_stopped(processes, sessions)
        marked = [session_id for process in processes for session_id in self._by_process.get(process, ())]
        for session_id in marked:
            self._mark_dirty(session_id)
        return marked

    def unmark_stopped_by_person(self, processes: Collection[Process]) -> None:
        """Withdraw the marks of processes that were not stopped."""
        sessions = {each for process in processes for each in self._by_process.get(process, ())}
        self._owners.unmark_stopped(processes, sessions)
        for session_id in sessions:
            self._mark_dirty(session_id)

    def set_queue_running(self, session_ids: Collection[SessionId]) -> None:
        """Set the sessions that a queue reports as running: their logs have living writers."""
        before, self._queue_running = self._queue_running, frozenset(session_ids)
        for session_id in before ^ self._queue_running:
            session = self.known.sessions.get(session_id)
            if session is not None:
                self._ensure_log_read(session)
                session.presence.vouched = session_id in self._queue_running
                self._mark_dirty(session_id)

    def judge_pending(self) -> bool:
        """Judge sessions with new evidence, a slice at a time; True if more are left."""
        transitions: list[Transition] = []
        changes: list[SessionChange] = []
        now = self._clock.now()
        self._handle_sleep()
        for session_id in list(islice(self._dirty, JUDGED_AT_ONCE_MAX)):
            del self._dirty[session_id]
            session = self.known.sessions.get(session_id)
            if session is not None:
                self._judge_one(session, now, transitions, changes)
        if changes:
            self._host.on_judged(transitions, changes)
        # Removed only after the end of a withdrawn session was announced.
        for session_id in [each for each in self._withdrawn if each not in self._dirty]:
            self._withdrawn.remove(session_id)
            self.known.remove(session_id)
            self._rename_others()
        return bool(self._dirty)

    def on_timer(self) -> float | None:
        """Mark every session whose deadline has come; returns the next deadline, if any."""
        now = self._clock.now().awake
        self._handle_sleep()
        while self._deadlines and self._deadlines[0][0] <= now:
            due, session_id = heapq.heappop(self._deadlines)
            session = self.known.sessions.get(session_id)
            if session is not None and session.check_at == due:
                self._judge.probe_tool(session)
                self._mark_dirty(session_id)
        return self._deadlines[0][0] if self._deadlines else None

    def _handle_sleep(self) -> None:
        """After a sleep, judge every working session again: its waits end at another time of day."""
        if self._clock.last_sleep is self._last_sleep:
            return
        self._last_sleep = self._clock.last_sleep
        for session in self.known.sessions.values():
            session.presence.slept = self._last_sleep
            if session.check_at is not None:
                self._mark_dirty(session.subject.id)

    def _track(self, identity: SessionIdentity) -> TrackedSession:
        session = self.known.sessions.get(identity.id)
        if session is None:
            session = self.known.sessions[identity.id] = TrackedSession(
                self._owners.with_owner(identity), transition_key=self._stored_keys.pop(identity.id, None)
            )
            session.presence.slept = self._last_sleep
            self.known.old_logs.pop(identity.id, None)
            self.known.on_membership_change()
        elif identity.folder and not session.subject.folder:
            # A client registers before it has a log.
            session.subject = msgspec.structs.replace(session.subject, folder=identity.folder)
        return session

    def _update_ownership(self, session_id: SessionId) -> None:
        session = self.known.sessions.get(session_id)
        if session is not None:
            self._read_if_managed(session)
            before, session.subject = session.subject, self._owners.with_owner(session.subject)
            if session.subject.is_managed is not before.is_managed:
                self.known.on_membership_change()
            self._mark_dirty(session_id)

    def _ensure_log_read(self, session: TrackedSession) -> None:
        """Read a log that is known by its name and age only."""
        if not session.is_log_read:
            self._sources.catch_up(session.subject.id)
            session.is_log_read = True

    def _read_if_managed(self, session: TrackedSession) -> None:
        """Read the log of a managed session: it is never judged by the name and age of its log alone."""
        managed = self._owners.get(session.subject.id)
        if managed is not None:
            session.presence.cwd = session.presence.cwd or managed.cwd
            self._ensure_log_read(session)

    def _restore_process(self, session: TrackedSession, process: AgentProcess, *, same_boot: bool) -> None:
        """Check whether a process from before the restart still lives: that decides between working and dead."""
        if not same_boot:
            # A process of another boot is gone, since an unknown time.
            process.sight, process.seen_at, process.ended_at = ProcessState.DEAD, self._clock.now(), None
        elif process.sight is not ProcessState.DEAD:
            process.sight = self._sources.watch(process.process)
            if process.sight is ProcessState.DEAD:
                # It ended at an unknown time after it was last seen alive.
                process.seen_at = self._clock.now()
            self._by_process.setdefault(process.process, set()).add(session.subject.id)
        if process.sight is not ProcessState.ALIVE:
            process.ended_idle = process.ended_idle or process.status is ClientStatus.IDLE
            process.status = None
        remember_process(session.presence, process)
        if process.sight is ProcessState.ALIVE:
            self._find_pane(session.subject.id)

    def _restore_pane(self, session: TrackedSession, pane: Pane | None) -> None:
        """Restore a pane whose process lives, also without its agent; its state in tmux is looked up again."""
        if pane is None:
            return
        if self._sources.watch(pane.process) is not ProcessState.ALIVE:
            if pane.server is not None and self._sources.watch(pane.server) is ProcessState.DEAD:
                session.presence.pane = dead_pane(pane)
            return
        session.presence.pane = msgspec.structs.replace(
            pane, sight=ProcessState.ALIVE, runtime=ProcessState.UNKNOWN
        )
        self._by_process.setdefault(pane.process, set()).add(session.subject.id)
        self._find_pane(session.subject.id)

    def _find_pane(self, session_id: SessionId) -> None:
        self._sources.find_pane(session_id)
        self._host.on_session_process(session_id)

    def _set_orphans(self, session: TrackedSession, orphans: tuple[Orphan, ...]) -> None:
        if session.presence.orphans != orphans:
            session.presence.orphans = orphans
            self._mark_dirty(session.subject.id)

    def _mark_dirty(self, session_id: SessionId) -> None:
        if not self._dirty:
            self._host.request_judging(self)
        self._dirty[session_id] = None

    def _end_process(self, session: TrackedSession, process: Process) -> None:
        holder = session.presence.holders.get(process.pid)
        if holder is None or holder.process != process or holder.sight is ProcessState.DEAD:
            return
        holder.ended_idle = holder.status is ClientStatus.IDLE
        holder.sight, holder.ended_at, holder.status = ProcessState.DEAD, self._clock.now(), None
        session.presence.written_after_at = None
        self._sources.mark_unsaved(session.subject.id)
        if _is_at_dialog(session, process):
            session.presence.dialog = None
        self._mark_dirty(session.subject.id)
        if session.presence.living_processes:
            self._find_pane(session.subject.id)
        if holder is session.presence.newest_process and self._has_only_started(session):
            # A resume that failed: the session is dead since its process before, and back in its pane.
            del session.presence.holders[process.pid]
            if session.presence.pane != holder.pane_before:
                session.presence.pane = None
                self._restore_pane(session, holder.pane_before)
            return
        if session.activity.in_turn:
            self._sources.on_agent_exit(self, session.subject.id)

    def _judge_session(self, session: TrackedSession, now: Instant) -> None:
        due = self._judge.judge(session, now)
        self._rename_others()
        if due is not None and due != session.check_at:
            heapq.heappush(self._deadlines, (due, session.subject.id))
            if self._deadlines[0][0] == due:
                self._host.set_timer(self, due)
        session.check_at = due
        if len(self._deadlines) > 2 * len(self.known.sessions) + DEADLINES_SPARE:
            # Drop old deadlines of sessions that change often; they would stay until they are due.
            known = self.known.sessions.items()
            self._deadlines = [(each.check_at, name) for name, each in known if each.check_at is not None]
            heapq.heapify(self._deadlines)

    def _rename_others(self) -> None:
        """Give sessions the short names that others left them with, and announce those that lists show."""
        renamed = self.known.short_names.take_renamed()
        oldest = self._clock.now().wall - self._fold_after_seconds if renamed else 0.0
        for session_id, short_name in renamed.items():
            session = self.known.sessions[session_id]
            session.rename(short_name)
            if session.last_seen_wall >= oldest:
                self._mark_dirty(session_id)

    def _judge_one(
        self,
        session: TrackedSession,
        now: Instant,
        transitions: list[Transition],
        changes: list[SessionChange],
    ) -> None:
        self._judge_session(session, now)
        record = session.record
        assert record is not None, "judged just above"
        before, session.transition_key = session.transition_key, transition_key_of(record)
        reason = record.findings[0].code if record.findings else record.state
        changes.append(change_of(session, before, reason))
        if before != session.transition_key:
            self.known.notify_waiters(record.id)
            transitions.append(transition_of(session, before, reason, now.wall))


def _is_at_dialog(session: TrackedSession, process: Process) -> bool:
    dialog = session.presence.dialog
    return dialog is not None and dialog.process == process


def _is_after_its_end(session: TrackedSession, events: Sequence[Event], written_wall: float) -> bool:
    """Whether a report was written after every known process of its session ended. A report of a start never is."""
    holders = session.presence.holders.values()
    ends = [
        each.ended_at for each in holders if each.sight is ProcessState.DEAD and each.ended_at is not None
    ]
    if not ends or len(ends) != len(holders) or all(type(event) is LogOpened for event in events):
        return False
    return written_wall > max(end.wall for end in ends) + LAST_LINES_SECONDS
