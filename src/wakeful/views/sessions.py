"""Read queries about sessions for all interfaces: records, status, explanation, transitions and calls.

Answers are encoded here, so CLI, HTTP and socket send the same bytes. Calls are joined from the events of the
log: when each began and ended, and how. Text of an agent or tool is under `untrusted`, redacted, plain and
cut.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.agents.model import AgentsStanding
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.answer import Answer
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import OperatorError, SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, Sight
from wakeful.healing.trouble import Trouble
from wakeful.heartbeat.model import HeartbeatStatus
from wakeful.judging.activity import LATE_SECONDS_MAX, Activity
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Event,
    Prompted,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.judging.evidence import Pane
from wakeful.judging.explanation import Why, WhyEvidence, explain
from wakeful.judging.findings import EXIT_CODES, State, Verdict
from wakeful.judging.session_record import SessionRecord, safe
from wakeful.judging.thresholds import Policy
from wakeful.replay.cases import EVENTS_RECALLED_MAX, CaseBook, Expect, KeptCase, NoCaseBook, case_of
from wakeful.sessions.feed import Feed
from wakeful.sessions.prompt_timeouts import TimerRules
from wakeful.sessions.registry import Ending, Query, Roster
from wakeful.sessions.session import Watched
from wakeful.storage.base import Transition


class EventRecord(Struct, frozen=True):
    """One transition of a session."""

    seq: int
    at: str
    old_state: str | None
    state: str
    old_health: str | None
    health: str
    reason: str


class EventList(Struct, frozen=True):
    """Transitions, oldest first. Pass `next_cursor` as `after` to go on."""

    events: tuple[EventRecord, ...]
    next_cursor: int | None


def event_record(row: Transition) -> EventRecord:
    return EventRecord(
        row.seq,
        iso(row.at),
        row.old_state or None,
        row.new_state,
        row.old_health or None,
        row.new_health,
        row.reason,
    )


# A page shows fewer; a timeline of an hour's work needs some hundred.
CALLS_MAX: Final = 500
_TURN_MARKS: Final = (Prompted, TurnEnded, TurnFailed, TurnInterrupted)


class CallEnd(StrEnum):
    """How a call ended. `cut_off`: its turn or its agent was over before it came back. `waiting`: for a person."""

    OK = "ok"
    ERROR = "error"
    REFUSED = "refused"
    OPEN = "open"
    WAITING = "waiting"
    CUT_OFF = "cut_off"


class CallWords(Struct, frozen=True):
    """What an agent and its tool wrote."""

    tool: str
    input: str
    result: str


class CallRecord(Struct, frozen=True):
    """One call. Without `ended_at` nobody saw it come back."""

    at: str
    ended_at: str | None
    end: CallEnd
    untrusted: CallWords


class CallList(Struct, frozen=True):
    """The newest calls, oldest first. `since` is where the part of the log begins that was read for it."""

    calls: tuple[CallRecord, ...]
    since: str | None


def recent_calls(
    events: Iterable[Event], limit: int, still_open: Callable[[str], CallEnd] = lambda _tool: CallEnd.OPEN
) -> CallList:
    """The newest `limit` calls of these events, which are in the order of the log.

    `still_open` says how a call of this tool stands that the log leaves open.
    """
    known = list(events)
    joined = [
        replace(call, end=still_open(call.untrusted.tool)) if call.end is CallEnd.OPEN else call
        for call in _calls_joined(known)
    ]
    # A record that cannot be placed in time stands at the epoch.
    times = [event.at for event in known if event.at > 0]
    return CallList(tuple(joined[-limit:]), iso(min(times)) if times else None)


def _calls_joined(events: Iterable[Event]) -> Iterator[CallRecord]:
    """Calls in the order in which they began."""
    records: dict[int, CallRecord] = {}
    begun: dict[str, tuple[int, CallStarted]] = {}
    newest_at = 0.0
    for number, event in enumerate(events):
        if isinstance(event, CallStarted):
            begun[event.call] = (number, event)
            records[number] = _call_record(event, CallEnd.OPEN)
        elif isinstance(event, CallEnded):
            if (found := _begun(begun, event)) is not None:
                place, call = begun.pop(found)
                records[place] = _call_record(call, _end(event), event)
        elif isinstance(event, _TURN_MARKS) and not _is_late(event, newest_at):
            for place, call in begun.values():
                records[place] = _call_record(call, CallEnd.CUT_OFF)
            begun.clear()
        newest_at = max(newest_at, event.at)
    return iter(records.values())


def _is_late(event: Event, newest_at: float) -> bool:
    """A client may write its first batch out of order: the calls of a prompt then stand before it."""
    return isinstance(event, Prompted) and 0 < newest_at - event.at <= LATE_SECONDS_MAX


def still_open(activity: Activity, verdict: Verdict, tool: str) -> CallEnd:
    """How a call stands that has not come back: cut off only where its agent is gone, or goes on with nothing."""
    if verdict.agent is Sight.DEAD or activity.is_out_of_budget:
        return CallEnd.CUT_OFF
    if verdict.state is not State.WAITING:
        return CallEnd.OPEN
    others = activity.asked_about not in {None, tool}
    runs = others and any(call.tool == activity.asked_about for call in activity.calls.values())
    return CallEnd.OPEN if runs else CallEnd.WAITING


def _begun(begun: dict[str, tuple[int, CallStarted]], end: CallEnded) -> str | None:
    """The open call that came back; logs without ids mean the newest of its tool."""
    if end.call:
        return end.call if end.call in begun else None
    return next((key for key, (_, call) in reversed(begun.items()) if call.tool == end.tool), None)


def _end(event: CallEnded) -> CallEnd:
    if event.refused:
        return CallEnd.REFUSED
    return CallEnd.ERROR if event.is_error else CallEnd.OK


def _call_record(call: CallStarted, end: CallEnd, ended: CallEnded | None = None) -> CallRecord:
    result = ended.result if ended is not None else b""
    words = CallWords(safe(call.tool), safe(_text(call.input)), safe(_text(result)))
    return CallRecord(iso(call.at), iso(ended.at) if ended is not None else None, end, words)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


_encode: Final = msgspec.json.Encoder().encode
# 0 reached; the others are told apart by scripts. 6 is ours: design's codes had none for "a person is needed".
WAIT_EXIT_CODES: Final = {
    Ending.REACHED: 0,
    Ending.DIED: 1,
    Ending.STOPPED: 1,
    Ending.TIMEOUT: 3,
    Ending.NEEDS_PERSON: 6,
}


class History(Protocol):
    """The stored transitions of a session; `Store.transitions` is one."""

    async def __call__(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]: ...


class NotASession(OperatorError):
    """This process does not run inside a session Wakeful knows. `wakeful ls` lists those it does."""

    code = "not-a-session"
    http_status = 404


class EyeRecord(Struct, frozen=True):
    """An eye: why it sees late, and which logs it does not read."""

    name: str
    slow: str | None
    left_out: str | None = None


class Standing(Struct, frozen=True):
    """What the daemon says of itself, ahead of any session. One look without a daemon has no pid and no start."""

    mode: str
    version: str
    host: str
    pid: int | None
    started_at: str | None
    listening: tuple[str, ...]
    eyes: tuple[EyeRecord, ...]
    notes: tuple[str, ...]
    paused: PauseRecord | None = None
    # The configuration files it has read; null where there is no daemon.
    config_files: tuple[str, ...] | None = None


class Overview(Struct, frozen=True):
    """Mode first, then the daemon, then how many sessions stand where."""

    schema: int
    mode: str
    paused: bool
    daemon: Standing
    sessions: dict[str, dict[str, int]]
    agents: AgentsStanding


class Supervision(Struct, frozen=True):
    """Timers that stand beside health and never write it."""

    last_progress_at: str | None
    tool_seen_at: str | None
    # When the running prompt would be warned of and time out, without any progress until then.
    warning_at: str | None
    timeout_at: str | None
    warnings: tuple[str, ...]


class HolderRecord(Struct, frozen=True):
    pid: int
    started: int
    boot_id: str
    sight: str
    source: str
    status: str | None
    since: str


class ProcessRecord(Struct, frozen=True):
    """One process of a session's tree, as it was when somebody asked."""

    pid: int
    parent_pid: int
    untrusted: str


class Evidence(Struct, frozen=True):
    """What a verdict was judged from. `untrusted` holds the open calls."""

    phase: str
    holders: tuple[HolderRecord, ...]
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


class Desk:
    """Reads the roster for every door. Holds no state of its own."""

    def __init__(
        self,
        clock: Clock,
        roster: Roster,
        feed: Feed,
        history: History,
        policy: Policy,
        standing: Callable[[], Standing],
        tree: Callable[[Process], Sequence[ProcessRecord]] = lambda _holder: (),
        cases: CaseBook | None = None,
        trouble_of: Callable[[SessionId], Trouble | None] = lambda _session_id: None,
        agents: Callable[[], AgentsStanding] = lambda: AgentsStanding({}, ()),
        exists: Callable[[str], bool] = lambda _folder: True,
        wake_of: Callable[[SessionId], HeartbeatStatus | None] = lambda _session_id: None,
        timers: TimerRules = TimerRules(),  # noqa: B008 - frozen, and its defaults are the documented ones
        warnings_of: Callable[[SessionId], tuple[str, ...]] = lambda _session_id: (),
        recall: Callable[[SessionId, int], Sequence[Event]] = lambda _session_id, _limit: (),
    ) -> None:
        self.feed = feed
        self.wake_of = wake_of
        # The newest events of a session's log. Blocks.
        self.recall = recall
        self._timers = timers
        self._warnings_of = warnings_of
        self._clock = clock
        self._roster = roster
        self._history = history
        self._policy = policy
        self._standing = standing
        self._tree = tree
        self._cases = cases
        self._trouble_of = trouble_of
        self._agents = agents
        # Whether a folder is there.
        self._exists = exists

    def health(self, text: str) -> Answer:
        """The health fields of one session."""
        watched = self._found(text)
        return Answer(watched.health_body(), _exit_code(watched))

    def record(self, text: str) -> Answer:
        """The whole record of one session."""
        watched = self._found(text)
        return Answer(watched.body(), _exit_code(watched))

    def status(self, text: str) -> Answer:
        """The record with supervision timers and warnings."""
        watched = self._found(text)
        return Answer(_joined(watched.body(), supervision=self._supervision(watched)), _exit_code(watched))

    def inspect(self, text: str) -> Answer:
        """The status with the evidence, the policy that was applied, and what wake and audit know."""
        watched = self._found(text)
        body = _joined(
            watched.body(),
            supervision=self._supervision(watched),
            evidence=_evidence(watched, self._tree),
            policy=self._policy,
            **_wake_part(self.wake_of(watched.subject.id)),
        )
        return Answer(body, _exit_code(watched))

    def why(self, text: str) -> Answer:
        """The verdict in one sentence, with all that led to it and the one right command."""
        watched = self._found(text)
        record, verdict = _record(watched), _verdict(watched)
        activity, presence, now = watched.activity, watched.presence, self._clock.now()
        cwd = activity.cwd or presence.cwd
        gone = cwd is not None and not record.session_alive and not self._exists(cwd)
        why = explain(record, activity, presence, verdict, self._policy, now, place_gone=gone)
        if note := watched.subject.note:
            unseen = WhyEvidence(None, "hands", note, "")
            why = msgspec.structs.replace(why, evidence=(*why.evidence, unseen))
        if (trouble := self._trouble_of(watched.subject.id)) is not None:
            why = _treated(why, trouble)
        return Answer(_encode(why), _exit_code(watched))

    async def wrong(self, text: str, expect: Expect, note: str) -> Answer:
        """Keep the evidence of a verdict that should have been `expect`. Raises NoCaseBook without a daemon."""
        book = self._cases
        if book is None:
            raise NoCaseBook
        watched = self._found(text)
        events = book.recall(watched.subject.id, EVENTS_RECALLED_MAX)
        now = self._clock.now()
        case = case_of(_record(watched), _verdict(watched), events, now, expect=expect, note=note)
        # In a thread: a slow disk must not keep verdicts waiting.
        await asyncio.to_thread(book.append, _encode(case))
        return Answer(_encode(KeptCase(case.id, book.path, len(case.events), case.expect, case.verdict)))

    def _found(self, text: str) -> Watched:
        watched = self._roster.find(text)
        self._roster.prove(watched)
        return watched

    def resolve(self, text: str) -> SessionId:
        """The id of the session somebody means. Raises SessionNotFound, AmbiguousSession, BadSessionId."""
        return self._roster.resolve(text)

    def sessions(self, query: Query) -> Answer:
        """A page of records."""
        page = self._roster.page(query, self._clock.now())
        paused = _encode(self._standing().paused)
        tail = b'],"older":%d,"next_cursor":%b,"paused":%b}' % (page.older, _encode(page.next_cursor), paused)
        return Answer(_enclosed(b'{"sessions":[', page.bodies, tail))

    def overview(self) -> Answer:
        """Mode first, then the daemon, then how many sessions stand where."""
        standing = self._standing()
        counts = self._roster.counts(self._clock.now())
        paused = standing.paused is not None
        return Answer(_encode(Overview(1, standing.mode, paused, standing, counts, self._agents())))

    def _supervision(self, watched: Watched) -> Supervision:
        activity, presence = watched.activity, watched.presence
        progress_at = activity.progress_at
        running = progress_at if _record(watched).active_prompt else None
        note = (watched.subject.note,) if watched.subject.note else ()
        return Supervision(
            iso(progress_at.wall) if progress_at else None,
            iso(presence.tool_seen_at.wall) if presence.tool_seen_at else None,
            iso(running.wall + self._timers.warning_seconds) if running else None,
            iso(running.wall + self._timers.timeout_seconds) if running else None,
            (*note, *self._warnings_of(watched.subject.id)),
        )

    async def events(self, text: str, *, after: int, limit: int) -> Answer:
        """Transitions of one session after a sequence number, oldest first; `limit` is at least 1."""
        session_id = self._roster.resolve(text)
        rows = await self._history(session_id, after=after, limit=limit)
        more = rows[-1].seq if len(rows) == limit else None
        return Answer(_encode(EventList(tuple(map(event_record, rows)), more)))

    async def calls(self, text: str, *, limit: int) -> Answer:
        """The newest calls of one session, oldest first; what they say is redacted."""
        session_id = self._roster.resolve(text)
        # In a thread: a long log takes longer to read than verdicts may wait.
        events = await asyncio.to_thread(self.recall, session_id, EVENTS_RECALLED_MAX)
        watched = self._roster.watched.get(session_id)
        if watched is None or watched.verdict is None:
            return Answer(_encode(recent_calls(events, limit)))
        stands = partial(still_open, watched.activity, watched.verdict)
        return Answer(_encode(recent_calls(events, limit, stands)))

    async def wait(self, text: str, until: State, timeout_seconds: float) -> Answer:
        """Block until the session is in a state, needs a person, died, or the time is over."""
        watched = self._found(text)
        ending = await self._roster.wait(watched.subject.id, until, timeout_seconds)
        self._roster.prove(watched)
        body = b'{"ending":%b,"session":%b}' % (_encode(ending), watched.body())
        return Answer(body, WAIT_EXIT_CODES[ending])

    def of_caller(self, conversations: Sequence[str], pids: Sequence[int]) -> Answer:
        """The session that asks: by its conversation id, else by the process it descends from."""
        for conversation in conversations:
            try:
                return self.record(conversation)
            except SessionNotFound:
                continue
        wanted = set(pids)
        for watched in self._roster.watched.values():
            if any(holder.process.pid in wanted for holder in watched.presence.living):
                return self.record(watched.subject.id)
        raise NotASession


def _exit_code(watched: Watched) -> int:
    return EXIT_CODES[_record(watched).health]


def _record(watched: Watched) -> SessionRecord:
    assert watched.record is not None, "a session is judged before it is shown"
    return watched.record


def _verdict(watched: Watched) -> Verdict:
    assert watched.verdict is not None, "a session is judged before it is shown"
    return watched.verdict


def _wake_part(status: HeartbeatStatus | None) -> dict[str, object]:
    """What the wake service knows about the agent whose session it is; nothing of one that is nobody's."""
    names = ("policy_state", "policy_snapshot", "policy_problem", "wake_state", "last_audit")
    part: dict[str, object] = {name: getattr(status, name, None) for name in names}
    return part | {"wake_reason": status.ineligibility_reason if status is not None else None}


def _joined(body: bytes, **parts: object) -> bytes:
    """The record with further keys behind its own, without encoding the record again."""
    return body[:-1] + b"," + _encode(parts)[1:]


def _enclosed(head: bytes, bodies: list[bytes], tail: bytes) -> bytes:
    """Bodies with commas between head and tail, copied once: ten thousand of them have 11 MB."""
    parts = bodies or [b""]
    parts[0] = head + parts[0]
    parts[-1] += tail
    return b",".join(parts)


def _treated(why: Why, trouble: Trouble) -> Why:
    """With what Wakeful did about it; what is held needs nothing but a person's yes."""
    if not trouble.did:
        return why
    evidence = (*why.evidence, WhyEvidence(None, "healing", f"Wakeful {trouble.did}", ""))
    if not trouble.held:
        return msgspec.structs.replace(why, evidence=evidence)
    return msgspec.structs.replace(
        why,
        evidence=evidence,
        command=("wakeful", "checkpoint", "show", str(trouble.checkpoint)),
        command_text="shows what was cut off and what you can decide",
    )


def _evidence(watched: Watched, tree: Callable[[Process], Sequence[ProcessRecord]]) -> Evidence:
    activity, presence = watched.activity, watched.presence
    holders = tuple(
        HolderRecord(
            holder.process.pid,
            holder.process.started,
            holder.process.boot_id,
            holder.sight,
            holder.source,
            holder.status,
            iso(holder.seen_at.wall),
        )
        for holder in presence.holders.values()
    )
    return Evidence(
        activity.phase,
        holders,
        presence.pane,
        tuple(orphan.process.pid for orphan in presence.orphans),
        tuple(each for holder in presence.living for each in tree(holder.process)),
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
