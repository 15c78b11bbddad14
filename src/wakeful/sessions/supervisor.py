"""The supervisor: applies evidence to sessions, judges them, and reports transitions and changes.

Evidence is applied immediately; judging is put off to the end of the loop's turn, so that a hundred lines of
one session cost one verdict. One heap of deadlines wakes the supervisor: idle sessions cost nothing.
`Surroundings` is the interface to the code that runs it: the daemon, a one-time check, a test or a
simulation.
"""

import heapq
import logging
from collections.abc import Collection, Sequence
from itertools import islice
from math import inf
from typing import Final, Protocol

import msgspec

from wakeful.core.clock import Clock, Instant, Sleep
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.judging.activity import Activity, fold
from wakeful.judging.at_rest import activity_at_rest, holder_at_rest
from wakeful.judging.available_actions import is_cut_off
from wakeful.judging.events import Drifted, Event, Opened
from wakeful.judging.evidence import (
    LAST_LINES_SECONDS,
    STREAM,
    Dialog,
    DialogKind,
    Holder,
    Orphan,
    Pane,
    Presence,
    Status,
    Subject,
    gone_with_server,
    has_only_come_up,
    hold,
    note_writer,
)
from wakeful.judging.findings import ExpectedWait
from wakeful.judging.judge import judge
from wakeful.judging.session_record import describe
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import Phase
from wakeful.judging.wake_eligibility import OUT_OF_REACH, Reach
from wakeful.sessions.feed import Change
from wakeful.sessions.registry import OldLog, Roster
from wakeful.sessions.session import Kept, Standing, Watched, standing_of, transition_of
from wakeful.storage.base import Transition


class Surroundings(Protocol):
    """Every call comes from the loop in which the supervisor runs."""

    def wake(self) -> None:
        """Call `settle` soon."""

    def alarm(self, awake: float) -> None:
        """Call `ring` at this moment."""

    def catch_up(self, session_id: SessionId) -> None:
        """Let the eyes report whatever is new about a session, now."""

    def watch(self, process: Process) -> Sight:
        """Whether it lives; if it does, its end will be told."""

    def seek_holder(self, session_id: SessionId) -> None:
        """A log grows and nobody is known to write it: find out who does."""

    def seek_named(self, subject: Subject, pid: int, wall: float) -> None:
        """A log says that the process with this pid wrote it, at this time: report who that is."""

    def seek_pane(self, session_id: SessionId) -> None:
        """A session has a new holder: find out where it is shown."""

    def died(self, session_id: SessionId) -> None:
        """Tell what it did that its log does not know; look for tools it left behind, in your own time."""

    def vanished(self, session_id: SessionId) -> None:
        """Its log is gone, and no process of it is left: nobody watches it any more."""

    def tool_alive(self, agent: Process, within_seconds: float) -> bool:
        """Whether the agent has a living descendant that was started within the last so many seconds."""

    def reach(self, session_id: SessionId) -> Reach:
        """Whether Wakeful may act on a managed session, and whether a prompt would arrive there now."""

    def is_held(self, session_id: SessionId) -> bool:
        """Whether a call of it was cut off that may have happened elsewhere: nobody goes on before a person looked."""

    def changed(self, transitions: list[Transition], changes: list[Change]) -> None:
        """Store and announce what was judged."""


_encode: Final = msgspec.json.Encoder().encode
_decode_kept: Final = json_decoder(Kept)
# A few milliseconds of judging, then the loop may serve a request.
JUDGED_AT_ONCE_MAX: Final = 100
# So many tracebacks say what there is to say.
UNJUDGED_LOGGED_MAX: Final = 10
# A permission that was only guessed may have been given meanwhile: its call's process would show that. At first looked
# for sooner than the 10 s after which people are told of a question, for a whole night once a minute.
LOOK_SECONDS_MIN: Final = 5.0
LOOK_SECONDS_MAX: Final = 60.0
# So many deadlines that do not count any more are kept beside those of the sessions.
DEADLINES_SPARE: Final = 1000
# What a client's registry calls a dialog that a person opened between two turns.
DIALOG_OPEN: Final = "dialog open"


log = logging.getLogger("wakeful")


class Supervisor:
    """Implements the eyes' Witness. Everything runs in the daemon's one loop."""

    def __init__(
        self, clock: Clock, roster: Roster, policy: Policy, surroundings: Surroundings, *, boot_id: str
    ) -> None:
        self.roster = roster
        self._clock = clock
        self._policy = policy
        self._around = surroundings
        self._boot_id = boot_id
        self._dirty: dict[SessionId, None] = {}
        self._deadlines: list[tuple[float, SessionId]] = []
        self._by_process: dict[Process, set[SessionId]] = {}
        self._stored: dict[SessionId, Standing] = {}
        self._hosted: dict[SessionId, Hosting] = {}
        # Sessions of which somebody else's queue says that they run.
        self._vouched: frozenset[SessionId] = frozenset()
        self._agents: dict[SessionId, str | None] = {}
        # Processes that a person ordered to be ended.
        self._ended_by_person: set[Process] = set()
        self._stopped_by_person: set[SessionId] = set()
        # Clients that have begun no conversation yet, and what stands for it.
        self._awaited: dict[Process, SessionId] = {}
        self._withdrawn: list[SessionId] = []
        # Those whose evidence raised an error, as far as the log tells of it.
        self._unjudged: set[SessionId] = set()
        self._slept: Sleep | None = None
        roster.unfold = self.unfold

    def recall_standings(self, standings: dict[SessionId, Standing]) -> None:
        """What the store last knew, so that a restart is no transition."""
        self._stored = standings

    def heard(self, subject: Subject, events: Sequence[Event], *, live: bool, anew: bool = False) -> None:
        watched = self._watch(subject)
        self._hear(watched, subject, events, live=live, anew=anew)
        # A stream's lines carry no time of their own.
        if subject.source != STREAM and (newest := max((event.at for event in events), default=0.0)):
            note_writer(watched.presence, self._clock.instant(newest), live=live)

    def _hear(
        self, watched: Watched, subject: Subject, events: Sequence[Event], *, live: bool, anew: bool = False
    ) -> None:
        if anew or not watched.read:
            watched.activity, watched.read = Activity(), True
        before = self._has_only_come_up(watched)
        for event in events:
            fold(watched.activity, event, self._instant(event, watched.activity))
            if type(event) is Opened and event.pid is not None:
                self._around.seek_named(subject, event.pid, event.at)
        if live:
            watched.presence.grown_at = self._clock.now()
            if not watched.presence.living:
                self._around.seek_holder(subject.id)
        if before and not self._has_only_come_up(watched):
            # The resume works: whether its pane shows it is asked again.
            self._around.seek_pane(subject.id)
        watched.presence.vouched = subject.vouched or subject.id in self._vouched
        self._mark(subject.id)

    def reported(
        self, subject: Subject, events: Sequence[Event], *, live: bool, written_wall: float | None = None
    ) -> None:
        watched = self._watch(subject)
        self._read(watched)
        if written_wall is not None and self._is_after_its_end(watched, events, written_wall):
            return
        last_at = watched.activity.last_at
        if live or last_at is None or self._instant(events[0], watched.activity) > last_at:
            self._hear(watched, subject, events, live=live)

    def _is_after_its_end(self, watched: Watched, events: Sequence[Event], written_wall: float) -> bool:
        """Whether a report was written after every known process of its session had ended. A start may be news even so."""
        holders = watched.presence.holders.values()
        ends = [each.ended_at for each in holders if each.sight is Sight.DEAD and each.ended_at is not None]
        if not ends or len(ends) != len(holders) or all(type(event) is Opened for event in events):
            return False
        return written_wall > max(end.wall for end in ends) + LAST_LINES_SECONDS

    def _instant(self, event: Event, activity: Activity) -> Instant:
        """When it happened; a mark about bytes that carry no time is as old as what was read before it."""
        return self._clock.instant(event.at) if event.at else activity.last_at or self._clock.now()

    def recalled(self, subject: Subject, kept: bytes) -> bool:
        try:
            memory = _decode_kept(kept)
        except msgspec.DecodeError:
            return False
        watched = self._watch(subject)
        same_boot = memory.boot_id == self._boot_id
        for holder in memory.holders.values():
            self._recall_holder(watched, holder, same_boot=same_boot)
        if same_boot:
            watched.activity = memory.activity
            watched.presence.written_after_at = memory.written_after_at
            self._recall_pane(watched, memory.pane)
            if watched.presence.agent is Sight.DEAD and watched.activity.in_turn:
                self._around.died(subject.id)
        elif memory.pane is not None:
            # Its name is what it is brought back by.
            watched.presence.pane = gone_with_server(memory.pane)
        self._mark(subject.id)
        return same_boot

    def moved(self, session_id: SessionId) -> None:
        watched = self.roster.watched.get(session_id)
        if watched is not None:
            self._read(watched)
            watched.presence.grown_at = self._clock.now()
            self._mark(session_id)

    def acted(self, session_id: SessionId) -> None:
        """An act on it began or ended. That is no evidence of its agent, but the record tells of it."""
        if session_id in self.roster.watched:
            self._mark(session_id)

    def glimpsed(self, subject: Subject, last_wall: float, cwd: str | None) -> None:
        watched = self._watch(subject)
        watched.read = False
        watched.activity.last_at = self._clock.instant(last_wall)
        watched.presence.cwd = cwd or watched.presence.cwd
        self._read_if_managed(watched)
        self._mark(subject.id)

    def remembered(self, subject: Subject, last_wall: float) -> None:
        if subject.id not in self.roster.watched:
            self.roster.old[subject.id] = OldLog(subject, last_wall)
            self.roster.changed_membership()

    def held(
        self,
        subject: Subject,
        process: Process,
        sight: Sight,
        *,
        source: str,
        status: Status | None = None,
        status_wall: float | None = None,
        waiting_for: str | None = None,
        cwd: str | None = None,
    ) -> None:
        unread = subject.id in self.roster.old
        watched = self._watch(subject)
        watched.read = watched.read and not unread
        self._read(watched)
        now = self._clock.now()
        status_at = self._clock.instant(status_wall) if status_wall is not None else None
        is_new = hold(
            watched.presence,
            # One found dead ended before anybody looked; when is not known.
            Holder(process, sight, now, source, None, status, status_at, waiting_for),
        )
        watched.presence.cwd = cwd or watched.presence.cwd
        self._by_process.setdefault(process, set()).add(subject.id)
        self._begun(watched, process, status, waiting_for)
        self._mark(subject.id)
        if is_new and sight is Sight.ALIVE:
            self._around.seek_pane(subject.id)
        elif is_new and watched.activity.in_turn:
            self._around.died(subject.id)

    def asked(
        self, subject: Subject, process: Process, kind: DialogKind, words: str, *, cwd: str | None
    ) -> None:
        if subject.awaited:
            self._awaited[process] = subject.id
            if subject.id in self._withdrawn:
                self._withdrawn.remove(subject.id)
        watched = self._watch(subject)
        if any(holder.process != process for holder in watched.presence.living):
            # Its session is held by another process, which is not at this dialog.
            return
        if process.pid not in watched.presence.holders:
            self.held(subject, process, self._around.watch(process), source="tmux", cwd=cwd)
        before = watched.presence.dialog
        if before is None or (before.kind, before.words, before.process) != (kind, words, process):
            watched.presence.dialog = Dialog(kind, words, self._clock.now(), process)
            self._mark(subject.id)

    def subject_held_by(self, process: Process) -> Subject | None:
        """The session that this process was seen to hold."""
        for session_id in self._by_process.get(process, ()):
            watched = self.roster.watched.get(session_id)
            if watched is not None and process.pid in watched.presence.holders:
                return watched.subject
        return None

    def not_asked(self, process: Process) -> None:
        # It takes prompts now, and its conversation will be a session of its own.
        self._withdraw(process)
        for session_id in self._by_process.get(process, ()):
            watched = self.roster.watched.get(session_id)
            if watched is not None and _is_at_dialog(watched, process):
                watched.presence.dialog = None
                self._mark(session_id)

    def _begun(
        self, watched: Watched, process: Process, status: Status | None, waiting_for: str | None
    ) -> None:
        """A client that holds a conversation, and says how it is, has left the dialogs of its start behind."""
        if self._awaited.get(process) not in (None, watched.subject.id):
            self._withdraw(process)
        if status is Status.WAITING and waiting_for == DIALOG_OPEN:
            # Which one is read from its screen.
            self._around.seek_pane(watched.subject.id)
        elif status is not None and _is_at_dialog(watched, process):
            watched.presence.dialog = None

    def _withdraw(self, process: Process) -> None:
        """What stood for a conversation to come is no session of its own any more, however that came."""
        session_id = self._awaited.pop(process, None)
        watched = self.roster.watched.get(session_id) if session_id is not None else None
        if session_id is not None and watched is not None:
            watched.presence = Presence(slept=watched.presence.slept)
            self._withdrawn.append(session_id)
            self._mark(session_id)

    def released(self, session_id: SessionId, process: Process) -> None:
        watched = self.roster.watched.get(session_id)
        if watched is not None:
            self._end_holder(watched, process)

    def gone(self, process: Process) -> None:
        self._withdraw(process)
        for session_id in self._by_process.pop(process, set()):
            watched = self.roster.watched.get(session_id)
            if watched is None:
                continue
            # The last lines may lie in the file while their notification waits behind this one.
            self._around.catch_up(session_id)
            self._end_holder(watched, process)
            pane = watched.presence.pane
            if pane is not None and pane.process == process:
                watched.presence.pane = msgspec.structs.replace(pane, sight=Sight.DEAD)
            self._keep_orphans(
                watched, tuple(each for each in watched.presence.orphans if each.process != process)
            )

    def shown(self, session_id: SessionId, pane: Pane | None) -> None:
        watched = self.roster.watched.get(session_id)
        if watched is None or watched.presence.pane == pane or self._is_moved_too_soon(watched, pane):
            return
        watched.presence.pane = pane
        if pane is not None:
            self._by_process.setdefault(pane.process, set()).add(session_id)
        self._mark(session_id)

    def _is_moved_too_soon(self, watched: Watched, pane: Pane | None) -> bool:
        """Whether its pane is there, and only shows nothing of a process elsewhere that came beside or after its own.

        Which of two living processes goes on is not known yet; once one has ended, the pane is sought again.
        """
        known, are_two = watched.presence.pane, len(watched.presence.living) > 1
        if pane is None:
            return False
        if (pane.sight, pane.runtime) == (Sight.DEAD, Sight.ALIVE):
            came = are_two or self._has_only_come_up(watched)
            return came and self._around.watch(pane.process) is Sight.ALIVE
        if known is None or known.sight is not Sight.ALIVE or known.process == pane.process:
            return False
        return are_two and self._around.watch(known.process) is Sight.ALIVE

    def _has_only_come_up(self, watched: Watched) -> bool:
        return len(watched.presence.holders) > 1 and has_only_come_up(
            watched.presence, watched.activity.last_at
        )

    def left_behind(self, session_id: SessionId, orphans: tuple[Orphan, ...]) -> None:
        watched = self.roster.watched.get(session_id)
        if watched is None:
            return
        # Their end is told like anybody's: nobody is asked to wait for a tool that is done.
        living = tuple(each for each in orphans if self._around.watch(each.process) is not Sight.DEAD)
        for each in living:
            self._by_process.setdefault(each.process, set()).add(session_id)
        self._keep_orphans(watched, living)

    def kept(self, session_id: SessionId) -> bytes | None:
        watched = self.roster.watched.get(session_id)
        if watched is None:
            return None
        presence = watched.presence
        return _encode(
            Kept(
                self._boot_id,
                activity_at_rest(watched.activity),
                {pid: holder_at_rest(holder) for pid, holder in presence.holders.items()},
                presence.pane,
                presence.written_after_at,
            )
        )

    def forgotten(self, session_id: SessionId) -> None:
        self.roster.old.pop(session_id, None)
        watched = self.roster.watched.get(session_id)
        if watched is not None and not watched.presence.living:
            del self.roster.watched[session_id]
            self.roster.names.pop(session_id, None)
            self._around.vanished(session_id)
        self.roster.changed_membership()

    def unfold(self, session_id: SessionId, read: bool) -> None:
        """Make a record of an old log: from its name and age, or from its contents if somebody asked for it."""
        old = self.roster.old.get(session_id)
        if old is not None:
            watched = self._watch(old.subject)
            watched.activity.last_at = self._clock.instant(old.last_wall)
            watched.read = False
        watched = self.roster.watched[session_id]
        if read:
            self._read(watched)
        self._judge_or_doubt(watched, self._clock.now())

    def manage(self, session_id: SessionId, hosting: Hosting | None) -> None:
        """From now on this session is managed there; or, with None, merely found again."""
        if hosting is None:
            self._hosted.pop(session_id, None)
        else:
            self._hosted[session_id] = hosting
        if hosting is not None and hosting.name is not None:
            self.roster.names[session_id] = hosting.name
        self._host_anew(session_id)

    def lodge(self, session_id: SessionId, agent: str | None) -> None:
        """From now on this agent of the hub hosts the session; or, with None, no agent does."""
        self._agents[session_id] = agent
        self._host_anew(session_id)

    def ended_by_person(
        self, processes: Collection[Process], sessions: Collection[SessionId] = ()
    ) -> list[SessionId]:
        """A person ordered these to be ended: what they leave is nobody's trouble. The sessions they run now.

        `sessions` are those they ran when it was ordered, which a restart may not know by their processes any more.
        """
        self._ended_by_person.update(processes)
        self._stopped_by_person.update(sessions)
        found = [session_id for process in processes for session_id in self._by_process.get(process, ())]
        for session_id in found:
            self._mark(session_id)
        return found

    def not_ended_by_person(self, processes: Collection[Process]) -> None:
        """The order to end these came to nothing."""
        self._ended_by_person.difference_update(processes)
        for session_id in {each for process in processes for each in self._by_process.get(process, ())}:
            self._stopped_by_person.discard(session_id)
            self._mark(session_id)

    def vouch_for(self, session_ids: Collection[SessionId]) -> None:
        """A queue says that exactly these of its sessions run: their logs have living writers."""
        before, self._vouched = self._vouched, frozenset(session_ids)
        for session_id in before ^ self._vouched:
            watched = self.roster.watched.get(session_id)
            if watched is not None:
                self._read(watched)
                watched.presence.vouched = session_id in self._vouched
                self._mark(session_id)

    def settle(self) -> bool:
        """Judge what evidence has touched, a slice at a time; True if more is left."""
        transitions: list[Transition] = []
        changes: list[Change] = []
        now = self._clock.now()
        self._notice_sleep()
        for session_id in list(islice(self._dirty, JUDGED_AT_ONCE_MAX)):
            del self._dirty[session_id]
            watched = self.roster.watched.get(session_id)
            if watched is not None:
                self._settle_one(watched, now, transitions, changes)
        if changes:
            self._around.changed(transitions, changes)
        self._drop_withdrawn()
        return bool(self._dirty)

    def _drop_withdrawn(self) -> None:
        """Only once everybody was told of its end."""
        for session_id in [each for each in self._withdrawn if each not in self._dirty]:
            self._withdrawn.remove(session_id)
            self.roster.watched.pop(session_id, None)
            self.roster.changed_membership()

    def ring(self) -> float | None:
        """Mark every session whose deadline has come; the next deadline, if any."""
        now = self._clock.now().awake
        self._notice_sleep()
        while self._deadlines and self._deadlines[0][0] <= now:
            due, session_id = heapq.heappop(self._deadlines)
            watched = self.roster.watched.get(session_id)
            if watched is not None and watched.check_at == due:
                self._look_at_tool(watched)
                self._mark(session_id)
        return self._deadlines[0][0] if self._deadlines else None

    def _notice_sleep(self) -> None:
        """After a sleep everybody at work is judged anew: what they wait for ends at another time of day."""
        if self._clock.slept is self._slept:
            return
        self._slept = self._clock.slept
        for watched in self.roster.watched.values():
            watched.presence.slept = self._slept
            if watched.check_at is not None:
                self._mark(watched.subject.id)

    def _watch(self, subject: Subject) -> Watched:
        watched = self.roster.watched.get(subject.id)
        if watched is None:
            watched = self.roster.watched[subject.id] = Watched(
                self._as_hosted(subject), standing=self._stored.pop(subject.id, None)
            )
            watched.presence.slept = self._slept
            self.roster.old.pop(subject.id, None)
            self.roster.changed_membership()
        elif subject.folder and not watched.subject.folder:
            # A client registers before it has a log.
            watched.subject = msgspec.structs.replace(watched.subject, folder=subject.folder)
        return watched

    def _host_anew(self, session_id: SessionId) -> None:
        watched = self.roster.watched.get(session_id)
        if watched is not None:
            self._read_if_managed(watched)
            before, watched.subject = watched.subject, self._as_hosted(watched.subject)
            if watched.subject.ours is not before.ours:
                self.roster.changed_membership()
            self._mark(session_id)

    def _as_hosted(self, subject: Subject) -> Subject:
        hosting, agent = self._hosted.get(subject.id), self._agents.get(subject.id)
        if hosting is not None:
            known = {"attempt": hosting.epoch, "name": hosting.name, "note": hosting.note}
            return msgspec.structs.replace(subject, managed=True, agent=agent, **known)
        if not subject.managed and subject.agent == agent:
            return subject
        return msgspec.structs.replace(subject, managed=False, agent=agent, attempt=0, note="")

    def _read(self, watched: Watched) -> None:
        """Have a log read that was only remembered or glimpsed: from here on what it was doing matters."""
        if not watched.read:
            self._around.catch_up(watched.subject.id)
            watched.read = True

    def _read_if_managed(self, watched: Watched) -> None:
        """What is ours is never judged by the name and age of its log, also where no process of it is left."""
        hosting = self._hosted.get(watched.subject.id)
        if hosting is not None:
            watched.presence.cwd = watched.presence.cwd or hosting.cwd
            self._read(watched)

    def _recall_holder(self, watched: Watched, holder: Holder, *, same_boot: bool) -> None:
        """Seen alive before the restart: whether it still is decides between working and dead."""
        if not same_boot:
            # Whatever ran in another boot is gone; when exactly is not known.
            holder.sight, holder.seen_at, holder.ended_at = Sight.DEAD, self._clock.now(), None
        elif holder.sight is not Sight.DEAD:
            holder.sight = self._around.watch(holder.process)
            if holder.sight is Sight.DEAD:
                # It ended since it was last seen alive; when exactly is not known.
                holder.seen_at = self._clock.now()
            self._by_process.setdefault(holder.process, set()).add(watched.subject.id)
        if holder.sight is not Sight.ALIVE:
            holder.ended_idle = holder.ended_idle or holder.status is Status.IDLE
            holder.status = None
        hold(watched.presence, holder)
        if holder.sight is Sight.ALIVE:
            self._around.seek_pane(watched.subject.id)

    def _recall_pane(self, watched: Watched, pane: Pane | None) -> None:
        """A pane outlives the daemon, often also its agent. What tmux says of it now is asked anew."""
        if pane is None:
            return
        if self._around.watch(pane.process) is not Sight.ALIVE:
            if pane.server is not None and self._around.watch(pane.server) is Sight.DEAD:
                watched.presence.pane = gone_with_server(pane)
            return
        watched.presence.pane = msgspec.structs.replace(pane, sight=Sight.ALIVE, runtime=Sight.UNKNOWN)
        self._by_process.setdefault(pane.process, set()).add(watched.subject.id)
        self._around.seek_pane(watched.subject.id)

    def _keep_orphans(self, watched: Watched, orphans: tuple[Orphan, ...]) -> None:
        if watched.presence.orphans != orphans:
            watched.presence.orphans = orphans
            self._mark(watched.subject.id)

    def _mark(self, session_id: SessionId) -> None:
        if not self._dirty:
            self._around.wake()
        self._dirty[session_id] = None

    def _end_holder(self, watched: Watched, process: Process) -> None:
        holder = watched.presence.holders.get(process.pid)
        if holder is None or holder.process != process or holder.sight is Sight.DEAD:
            return
        holder.ended_idle = holder.status is Status.IDLE
        holder.sight, holder.ended_at, holder.status = Sight.DEAD, self._clock.now(), None
        watched.presence.written_after_at = None
        if _is_at_dialog(watched, process):
            watched.presence.dialog = None
        self._mark(watched.subject.id)
        if watched.presence.living:
            self._around.seek_pane(watched.subject.id)
        if holder is watched.presence.newest and self._has_only_come_up(watched):
            # A resume that failed: the session is as dead as before, and since then.
            del watched.presence.holders[process.pid]
            return
        if watched.activity.in_turn:
            self._around.died(watched.subject.id)

    def _look_at_tool(self, watched: Watched) -> bool:
        """A wait for a tool, or for what one left running, has run out: is its process still there?"""
        living, activity, now = watched.presence.living, watched.activity, self._clock.now()
        awaited = activity.background if activity.phase is not Phase.TOOL else activity.calls
        if not living or not awaited:
            return False
        # Helpers that an agent keeps for life (MCP servers) are older than the call and say nothing about it.
        oldest_seconds = now.wall - min(each.since.wall for each in awaited.values())
        seen = self._around.tool_alive(living[0].process, oldest_seconds)
        if seen:
            watched.presence.tool_seen_at = now
        return seen

    def _is_stopped(self, watched: Watched) -> bool:
        """Whether it ended on purpose: the session, or the process that ran it last."""
        hosting, holder = self._hosted.get(watched.subject.id), watched.presence.newest
        if hosting is not None and hosting.is_ended:
            return hosting.is_ended_in(holder.process if holder is not None else None)
        if holder is None:
            return watched.subject.id in self._stopped_by_person
        return holder.process in self._ended_by_person

    def _judge(self, watched: Watched, now: Instant) -> None:
        hosting = self._hosted.get(watched.subject.id)
        watched.presence.stopped = self._is_stopped(watched)
        ended = hosting if watched.presence.stopped else None
        watched.presence.heir = ended.heir if ended is not None else None
        watched.presence.by_gateway = ended is not None and ended.by_gateway
        verdict = judge(watched.activity, watched.presence, self._policy, now)
        guess = next((wait for wait in verdict.waits if wait.probable), None)
        if guess is not None and self._look_at_tool(watched):
            verdict, guess = judge(watched.activity, watched.presence, self._policy, now), None
        subject = watched.subject
        reach = self._around.reach(subject.id) if subject.ours else OUT_OF_REACH
        activity, presence = watched.activity, watched.presence
        # Asked only where somebody might want to go on.
        held = subject.managed and is_cut_off(activity, verdict) and self._around.is_held(subject.id)
        watched.show(verdict, describe(subject, activity, presence, verdict, now, reach, held=held))
        due = verdict.next_check_at.awake if verdict.next_check_at is not None else None
        if guess is not None:
            due = min(now.awake + _look_again_seconds(guess, now), due or inf)
        if due is not None and due != watched.check_at:
            heapq.heappush(self._deadlines, (due, subject.id))
            if self._deadlines[0][0] == due:
                self._around.alarm(due)
        watched.check_at = due
        if len(self._deadlines) > 2 * len(self.roster.watched) + DEADLINES_SPARE:
            self._forget_old_deadlines()

    def _forget_old_deadlines(self) -> None:
        """A session that changes often leaves a deadline behind each time, which would stay until it comes."""
        known = self.roster.watched.items()
        self._deadlines = [(each.check_at, name) for name, each in known if each.check_at is not None]
        heapq.heapify(self._deadlines)

    def _judge_or_doubt(self, watched: Watched, now: Instant) -> None:
        """A session that cannot be judged is unknown, and keeps no other from being judged or shown."""
        session_id = watched.subject.id
        try:
            self._judge(watched, now)
            watched.body()
        except Exception as error:
            if len(self._unjudged) < UNJUDGED_LOGGED_MAX and session_id not in self._unjudged:
                self._unjudged.add(session_id)
                log.exception("%s cannot be judged", session_id, exc_info=error)
            watched.activity = Activity()
            fold(watched.activity, Drifted(now.wall, "evidence that can be judged"), now)
            self._judge(watched, now)

    def _settle_one(
        self, watched: Watched, now: Instant, transitions: list[Transition], changes: list[Change]
    ) -> None:
        self._judge_or_doubt(watched, now)
        record = watched.record
        assert record is not None, "judged just above"
        before, watched.standing = watched.standing, standing_of(record)
        reason = record.findings[0].code if record.findings else record.state
        changes.append(
            Change(
                record.id,
                before[0] if before else None,
                record.state,
                before[1] if before else None,
                record.health,
                reason,
                record.updated_at,
                msgspec.Raw(watched.body()),
            )
        )
        if before != watched.standing:
            self.roster.announce(record.id)
            transitions.append(transition_of(watched, before, reason, now.wall))


def _is_at_dialog(watched: Watched, process: Process) -> bool:
    dialog = watched.presence.dialog
    return dialog is not None and dialog.process == process


def _look_again_seconds(guess: ExpectedWait, now: Instant) -> float:
    asking_seconds = now.seconds_since(guess.since)
    return min(max(LOOK_SECONDS_MIN, asking_seconds / 2), LOOK_SECONDS_MAX)
