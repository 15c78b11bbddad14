"""Read queries about sessions for all interfaces: records, status, explanation, transitions and calls.

Answers are encoded here, so CLI, HTTP and socket send the same bytes. Text of an agent or tool is under
`untrusted`, redacted, plain and cut.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from wakeful.agents.model import AgentsSummary
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import AmbiguousSession, BadSessionId, OperatorError, SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.core.labels import label
from wakeful.core.process import Process
from wakeful.core.query_result import QueryResult
from wakeful.healing.case import HealingCase
from wakeful.heartbeat.model import HeartbeatStatus
from wakeful.judging.events import (
    Event,
)
from wakeful.judging.evidence import Pane
from wakeful.judging.explanation import Explanation, ExplanationEvidence, explain
from wakeful.judging.findings import EXIT_CODES, State, Verdict
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.judging.thresholds import Policy
from wakeful.replay.cases import EVENTS_RECALLED_MAX, CaseFile, Expect, NoCaseFile, SavedCase, case_of
from wakeful.sessions.feed import Feed
from wakeful.sessions.lookup import MatchKind, SessionMatches, SessionNames, match_sessions
from wakeful.sessions.prompt_timeouts import TimerRules
from wakeful.sessions.registry import Query, SessionRegistry, WaitResult
from wakeful.sessions.session import TrackedSession
from wakeful.sources.log_source import LogExcerpt
from wakeful.storage.base import StateChange, Transition
from wakeful.views.calls import OpenCallEnd, left_open, open_call_end, recent_calls
from wakeful.views.conversation import conversation_of
from wakeful.views.records import (
    DaemonRecord,
    EventList,
    EventRecord,
    Overview,
)
from wakeful.views.timeline import CHANGES_MAX, fleet_timeline


def event_record(row: Transition) -> EventRecord:
    return EventRecord(
        row.seq,
        iso(row.at),
        row.old_state or None,
        row.new_state,
        row.old_health or None,
        row.new_health,
        row.reason,
        row.left_out,
    )


# A person chooses from a list; a longer one is not read.
MATCHES_MAX: Final = 20
# At once: callers of orders are checked in the same threads.
LOG_READS_MAX: Final = 2
_encode: Final = msgspec.json.Encoder().encode
# 0 reached; scripts distinguish the others. 6: a person is needed.
WAIT_EXIT_CODES: Final = {
    WaitResult.REACHED: 0,
    WaitResult.DIED: 1,
    WaitResult.STOPPED: 1,
    WaitResult.TIMEOUT: 3,
    WaitResult.NEEDS_PERSON: 6,
}


class NotASession(OperatorError, code="not-a-session", http_status=404):
    """This process does not run inside a known session. List them with `wakeful ls`."""


class SupervisionRecord(Struct, frozen=True):
    """Prompt timers. They never change health."""

    last_progress_at: str | None
    tool_seen_at: str | None
    # When the running prompt gets a warning and times out, without progress until then.
    warning_at: str | None
    timeout_at: str | None
    warnings: tuple[str, ...]


class AgentProcessRecord(Struct, frozen=True):
    pid: int
    started: int
    boot_id: str
    sight: str
    source: str
    status: str | None
    since: str


class ProcessRecord(Struct, frozen=True):
    """One process of a session's tree."""

    pid: int
    parent_pid: int
    untrusted: str


class EvidenceRecord(Struct, frozen=True):
    """The evidence of a verdict. `untrusted` has the open calls."""

    phase: str
    holders: tuple[AgentProcessRecord, ...]
    pane: Pane | None
    orphans: tuple[int, ...]
    processes: tuple[ProcessRecord, ...]
    calls_total: int
    input_tokens: int
    output_tokens: int
    records_known: int
    records_skipped: int
    records_malformed: int
    untrusted: tuple[str, ...]


class SessionFacts(ABC):
    """Facts of the other parts about sessions. The defaults are for a single scan, which has no such parts."""

    @abstractmethod
    def daemon_record(self) -> DaemonRecord:
        """The daemon's own record."""

    def agents(self) -> AgentsSummary:
        return AgentsSummary({}, ())

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        """The stored transitions of a session, as `Store.transitions`."""
        del session_id, after, limit
        return []

    async def state_changes(self, since: float, limit: int) -> Sequence[StateChange]:
        """The stored changes of all sessions, as `Store.state_changes`."""
        del since, limit
        return ()

    def process_tree(self, agent: Process) -> Sequence[ProcessRecord]:
        del agent
        return ()

    def healing_case_of(self, session_id: SessionId) -> HealingCase | None:
        del session_id
        return None

    def wake_of(self, session_id: SessionId) -> HeartbeatStatus | None:
        del session_id
        return None

    def warnings_of(self, session_id: SessionId) -> tuple[str, ...]:
        """The warnings of the timers of its running prompt."""
        del session_id
        return ()

    def read_last_events(self, session_id: SessionId, limit: int) -> Sequence[Event]:
        """The newest events of a session's log. Blocks."""
        del session_id, limit
        return ()

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        """An excerpt of a session's log, after a cursor of an earlier one. Blocks."""
        del session_id, after
        return None

    def folder_exists(self, folder: str) -> bool:
        del folder
        return True


class SessionQueries:
    """Answers queries from the registry and the facts. Holds no state of its own."""

    def __init__(
        self,
        clock: Clock,
        registry: SessionRegistry,
        feed: Feed,
        policy: Policy,
        facts: SessionFacts,
        cases: CaseFile | None = None,
        timers: TimerRules = TimerRules(),  # noqa: B008 - frozen, and its defaults are the documented ones
    ) -> None:
        self.feed = feed
        self._timers = timers
        self._clock = clock
        self._registry = registry
        self._policy = policy
        self._facts = facts
        self._case_file = cases
        self._log_reads = asyncio.Semaphore(LOG_READS_MAX)
        self._reads_by_session: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()

    def set_rules(self, policy: Policy, timers: TimerRules) -> None:
        """The configuration has changed."""
        self._policy, self._timers = policy, timers

    def health(self, text: str) -> QueryResult:
        session = self._find(text)
        return QueryResult(session.health_body(), _exit_code(session))

    def record(self, text: str) -> QueryResult:
        session = self._find(text)
        return QueryResult(session.body(), _exit_code(session))

    def status(self, text: str) -> QueryResult:
        session = self._find(text)
        return QueryResult(
            _join_keys(session.body(), supervision=self._supervision(session)), _exit_code(session)
        )

    def inspect(self, text: str) -> QueryResult:
        """The status with the evidence, the applied policy, and the facts of wakes and audits."""
        session = self._find(text)
        # Null for a session that no agent hosts.
        wake = self._facts.wake_of(session.subject.id)
        names = ("policy_state", "policy_snapshot", "policy_problem", "wake_state", "last_audit")
        body = _join_keys(
            session.body(),
            supervision=self._supervision(session),
            evidence=_evidence(session, self._facts),
            policy=self._policy,
            **{name: getattr(wake, name, None) for name in names},
            wake_reason=wake.ineligibility_reason if wake is not None else None,
        )
        return QueryResult(body, _exit_code(session))

    def why(self, text: str) -> QueryResult:
        """The verdict in one sentence, with its evidence and the command that helps."""
        session = self._find(text)
        record, verdict = _record(session), _verdict(session)
        activity, runtime, now = session.activity, session.presence, self._clock.now()
        cwd = activity.cwd or runtime.cwd
        gone = cwd is not None and not record.session_alive and not self._facts.folder_exists(cwd)
        explanation = explain(record, activity, runtime, verdict, self._policy, now, place_gone=gone)
        if note := session.subject.note:
            unseen = ExplanationEvidence(None, "hands", note, "")
            explanation = msgspec.structs.replace(explanation, evidence=(*explanation.evidence, unseen))
        if (case := self._facts.healing_case_of(session.subject.id)) is not None:
            explanation = _with_healing(explanation, case)
        return QueryResult(_encode(explanation), _exit_code(session))

    async def report_wrong(self, text: str, expect: Expect, note: str) -> QueryResult:
        """Store the evidence of a verdict that should have been `expect`. Raises NoCaseFile without a daemon."""
        book = self._case_file
        if book is None:
            raise NoCaseFile
        session = self._find(text)
        events = book.read_last_events(session.subject.id, EVENTS_RECALLED_MAX)
        now = self._clock.now()
        case = case_of(_record(session), _verdict(session), events, now, expect=expect, note=note)
        # In a thread: a slow disk must not delay verdicts.
        await asyncio.to_thread(book.append, _encode(case))
        return QueryResult(
            _encode(SavedCase(case.id, book.path, len(case.events), case.expect, case.verdict))
        )

    def _find(self, text: str) -> TrackedSession:
        session = self._registry.find(text)
        self._registry.check_reachability(session)
        return session

    def _known(self, session_id: SessionId) -> TrackedSession:
        """The session with this whole id, also where orders take its id for the name of another one."""
        if (session := self._registry.sessions.get(session_id)) is None or not session.is_log_read:
            self._registry.unfold(session_id, True)
        session = self._registry.sessions[session_id]
        self._registry.check_reachability(session)
        return session

    def resolve(self, text: str) -> SessionId:
        """The id of a session. Raises SessionNotFound, AmbiguousSession, BadSessionId."""
        return self._registry.resolve(text)

    def sessions(self, query: Query) -> QueryResult:
        page = self._registry.page(query, self._clock.now())
        paused = _encode(self._facts.daemon_record().paused)
        tail = b'],"older":%d,"next_cursor":%b,"paused":%b}' % (page.older, _encode(page.next_cursor), paused)
        return QueryResult(_join_bodies(b'{"sessions":[', page.bodies, tail))

    def find(self, name: str) -> QueryResult:
        """The sessions that `name` stands for, one or several: those that lists show, else those that they fold."""
        shown = self._registry.list_unfolded(self._clock.now())
        matches = match_sessions(name, [_names_of(each) for each in shown])
        if matches.match in {MatchKind.PART, MatchKind.NONE}:
            folded = self._find_folded(name)
            matches = matches if matches.match is folded.match else folded
        bodies = [self._known(each).body() for each in matches.ids[:MATCHES_MAX]]
        head = b'{"match":"%b","total":%d,"sessions":[' % (matches.match.encode(), len(matches.ids))
        return QueryResult(_join_bodies(head, bodies, b"]}"))

    def _find_folded(self, name: str) -> SessionMatches:
        """The sessions that lists fold, by the start of an id or by a name; others fit as well."""
        try:
            return SessionMatches(MatchKind.PREFIX, (self._registry.resolve(name),))
        except (BadSessionId, SessionNotFound, AmbiguousSession):
            judged = [each for each in self._registry.sessions.values() if each.record is not None]
            return match_sessions(name, [_names_of(each) for each in judged])

    def overview(self) -> QueryResult:
        """The mode, the daemon, and numbers of sessions."""
        standing = self._facts.daemon_record()
        counts = self._registry.counts(self._clock.now())
        paused = standing.paused is not None
        return QueryResult(
            _encode(Overview(1, standing.mode, paused, standing, counts, self._facts.agents()))
        )

    def _supervision(self, session: TrackedSession) -> SupervisionRecord:
        activity, runtime = session.activity, session.presence
        progress_at = activity.progress_at
        running = progress_at if _record(session).active_prompt else None
        note = (session.subject.note,) if session.subject.note else ()
        return SupervisionRecord(
            iso(progress_at.wall) if progress_at else None,
            iso(runtime.tool_seen_at.wall) if runtime.tool_seen_at else None,
            iso(running.wall + self._timers.warning_seconds) if running else None,
            iso(running.wall + self._timers.timeout_seconds) if running else None,
            (*note, *self._facts.warnings_of(session.subject.id)),
        )

    async def events(self, text: str, *, after: int, limit: int) -> QueryResult:
        """Transitions of one session after a sequence number, oldest first; `limit` is at least 1."""
        session_id = self._registry.resolve(text)
        rows = await self._facts.transitions(session_id, after=after, limit=limit)
        more = rows[-1].seq if len(rows) == limit else None
        return QueryResult(_encode(EventList(tuple(map(event_record, rows)), more)))

    async def timeline(self, hours: int) -> QueryResult:
        """What every session did in the last hours."""
        until = self._clock.now().wall
        since = until - hours * 3600.0
        changes = await self._facts.state_changes(since, CHANGES_MAX)
        # In a thread: so many take longer than verdicts may wait.
        return QueryResult(_encode(await asyncio.to_thread(fleet_timeline, changes, since, until)))

    async def calls(self, text: str, *, limit: int) -> QueryResult:
        """The newest calls of one session, oldest first, redacted."""
        session_id = self._registry.resolve(text)
        still_open = self._call_end_of(session_id)

        def read() -> QueryResult:
            events = self._facts.read_last_events(session_id, EVENTS_RECALLED_MAX)
            return QueryResult(_encode(recent_calls(events, limit, still_open)))

        return await self._in_thread(session_id, read)

    async def messages(self, text: str, *, after: str, limit: int) -> QueryResult:
        """What was said and called in one session, oldest first, redacted."""
        session_id = self._registry.resolve(text)
        still_open = self._call_end_of(session_id)

        def read() -> QueryResult:
            excerpt = self._facts.read_conversation(session_id, after)
            return QueryResult(_encode(conversation_of(excerpt, limit, still_open)))

        return await self._in_thread(session_id, read)

    async def _in_thread(self, session_id: SessionId, read: Callable[[], QueryResult]) -> QueryResult:
        """Verdicts wait for no long log, other threads for few of them, and other sessions for one reader of each."""
        of_session = self._reads_by_session.setdefault(session_id, asyncio.Lock())
        async with of_session, self._log_reads:
            return await asyncio.to_thread(read)

    def _call_end_of(self, session_id: SessionId) -> OpenCallEnd:
        """How calls of this session ended that its log leaves open."""
        session = self._registry.sessions.get(session_id)
        if session is None or session.verdict is None:
            return left_open
        # A copy: its log may go on while a thread reads it.
        activity = msgspec.structs.replace(session.activity, calls=dict(session.activity.calls))
        return partial(open_call_end, activity, session.verdict)

    async def wait(self, text: str, until: State, timeout_seconds: float) -> QueryResult:
        """Block until the session is in a state, needs a person, died, or the time is over."""
        session = self._find(text)
        ending = await self._registry.wait(session.subject.id, until, timeout_seconds)
        self._registry.check_reachability(session)
        body = b'{"ending":%b,"session":%b}' % (_encode(ending), session.body())
        return QueryResult(body, WAIT_EXIT_CODES[ending])

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> QueryResult:
        """The session that asks: by its conversation id, else by the process it descends from."""
        for conversation in conversations:
            try:
                return self.record(conversation)
            except SessionNotFound:
                continue
        wanted = set(pids)
        for session in self._registry.sessions.values():
            if any(process.process.pid in wanted for process in session.presence.living_processes):
                return self.record(session.subject.id)
        raise NotASession


def _exit_code(session: TrackedSession) -> int:
    return EXIT_CODES[_record(session).health]


def _record(session: TrackedSession) -> SessionRecord:
    assert session.record is not None, "a session is judged before it is shown"
    return session.record


def _verdict(session: TrackedSession) -> Verdict:
    assert session.verdict is not None, "a session is judged before it is shown"
    return session.verdict


def _names_of(session: TrackedSession) -> SessionNames:
    record, pane = _record(session), session.presence.pane
    return SessionNames(
        id=record.id,
        short_name=record.short_name,
        name=record.name,
        agent=record.agent,
        tmux=label(pane.session) if pane is not None else None,
        project=record.project,
        alive=record.session_alive,
    )


def _join_keys(body: bytes, **parts: object) -> bytes:
    """The record with further keys behind its own, without encoding the record again."""
    return body[:-1] + b"," + _encode(parts)[1:]


def _join_bodies(head: bytes, bodies: list[bytes], tail: bytes) -> bytes:
    """Bodies with commas between head and tail, copied once: ten thousand of them have 11 MB."""
    parts = bodies or [b""]
    parts[0] = head + parts[0]
    parts[-1] += tail
    return b",".join(parts)


def _with_healing(explanation: Explanation, case: HealingCase) -> Explanation:
    """Add the action of healing; a held session needs only a person's decision."""
    if not case.did:
        return explanation
    evidence = (*explanation.evidence, ExplanationEvidence(None, "healing", case.did, ""))
    if not case.held:
        return msgspec.structs.replace(explanation, evidence=evidence)
    return msgspec.structs.replace(
        explanation,
        evidence=evidence,
        command=("wakeful", "checkpoint", "show", str(case.checkpoint)),
        command_text="shows the interrupted calls and your choices",
    )


def _evidence(session: TrackedSession, facts: SessionFacts) -> EvidenceRecord:
    activity, runtime = session.activity, session.presence
    holders = tuple(
        AgentProcessRecord(
            process.process.pid,
            process.process.started,
            process.process.boot_id,
            process.sight,
            process.source,
            process.status,
            iso(process.seen_at.wall),
        )
        for process in runtime.holders.values()
    )
    return EvidenceRecord(
        activity.phase,
        holders,
        runtime.pane,
        tuple(orphan.process.pid for orphan in runtime.orphans),
        tuple(each for process in runtime.living_processes for each in facts.process_tree(process.process)),
        activity.calls_total,
        activity.input_tokens,
        activity.output_tokens,
        activity.known,
        activity.skipped,
        activity.malformed,
        tuple(
            safe(f"{call.tool} {call.input.decode('utf-8', 'replace')}") for call in activity.calls.values()
        ),
    )
