"""Registry of all known sessions: lookup by id, name or prefix, paged lists, counts, waiting for a state.

Old logs are kept by name and age only. They cost one small entry until a request needs them.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.errors import AmbiguousSession, SessionNotFound
from wakeful.core.ids import PROVIDER_PREFIXES, SessionId, parse_session_id
from wakeful.core.labels import label
from wakeful.judging.evidence import SessionIdentity
from wakeful.judging.findings import Attention, Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.short_names import ShortNames

LIMIT_MAX: Final = 10_000
# A whole id, or what precedes a bare conversation id.
_ID_STARTS: Final = ("", *PROVIDER_PREFIXES)
# Sources whose ids any program chooses.
_LOG_PROVIDERS: Final = frozenset({"events", "tool-use"})


class OldLog(Struct, frozen=True, gc=False):
    """A log without recent writes: known and counted, not read."""

    subject: SessionIdentity
    last_wall: float


class Query(Struct, frozen=True):
    """The filters of a list. `all` includes sessions folded for their age."""

    all: bool = False
    health: Health | None = None
    state: State | None = None
    project: str | None = None
    limit: int = LIMIT_MAX
    cursor: str | None = None

    @property
    def has_filters(self) -> bool:
        return self.health is not None or self.state is not None or self.project is not None


class Page(Struct, frozen=True):
    """A part of the list: encoded records in a stable order, the number of folded ones, and the next cursor."""

    bodies: list[bytes]
    older: int
    next_cursor: str | None


class WaitResult(StrEnum):
    """How waiting for a session ended."""

    REACHED = "reached"
    NEEDS_PERSON = "needs_person"
    DIED = "died"
    STOPPED = "stopped"
    TIMEOUT = "timeout"


class KnownSessions:
    """All sessions and old logs, and the waiters for each. The supervisor adds and removes sessions."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, TrackedSession] = {}
        self.old_logs: dict[SessionId, OldLog] = {}
        # The names that people gave to managed sessions, and to those released since.
        self.names: dict[SessionId, str] = {}
        self.short_names = ShortNames()
        self.waiters: dict[SessionId, set[asyncio.Event]] = {}
        self._sorted_ids: list[SessionId] | None = None
        self._sorted_sessions: list[TrackedSession] | None = None
        self._managed: list[TrackedSession] | None = None

    def on_membership_change(self) -> None:
        """Sessions were added or removed, or their owner changed: the lists are built again when they are needed."""
        self._sorted_ids = self._sorted_sessions = self._managed = None

    def remove(self, session_id: SessionId) -> None:
        """Forget a session, its name too; its siblings may get shorter names."""
        self.sessions.pop(session_id, None)
        self.short_names.remove(session_id)
        self.on_membership_change()

    def ids(self) -> list[SessionId]:
        """The ids of all sessions and old logs, sorted."""
        if self._sorted_ids is None:
            self._sorted_ids = sorted(self.sessions.keys() | self.old_logs.keys())
        return self._sorted_ids

    def sorted_sessions(self) -> list[TrackedSession]:
        """The sessions without the old logs, in order of id."""
        if self._sorted_sessions is None:
            self._sorted_sessions = [self.sessions[each] for each in self.ids() if each in self.sessions]
        return self._sorted_sessions

    @property
    def managed(self) -> list[TrackedSession]:
        """The managed sessions, in no order."""
        if self._managed is None:
            self._managed = [each for each in self.sessions.values() if each.subject.is_managed]
        return self._managed

    def notify_waiters(self, session_id: SessionId) -> None:
        for event in self.waiters.get(session_id, ()):
            event.set()


class SessionLoader(Protocol):
    """Makes a record of an old log. The supervisor is one."""

    def unfold(self, session_id: SessionId, read: bool) -> None:
        """Judge it by its name and age, or with `read` by its contents."""


class ReachabilityCheck(Protocol):
    def check(self, session: TrackedSession) -> None:
        """Judge a managed session again if its reachability changed since it was judged."""


class SessionRegistry:
    """Finds and lists the known sessions, and waits for one of them to change."""

    def __init__(
        self,
        known: KnownSessions,
        loader: SessionLoader,
        reachability: ReachabilityCheck,
        fold_after_seconds: float,
    ) -> None:
        self._known = known
        self._loader = loader
        self._reachability = reachability
        self._fold_after_seconds = fold_after_seconds
        # The same objects: `KnownSessions` never replaces its dicts.
        self.sessions = known.sessions
        self.old_logs = known.old_logs
        self.names = known.names

    def ids(self) -> list[SessionId]:
        return self._known.ids()

    @property
    def managed(self) -> list[TrackedSession]:
        return self._known.managed

    def is_known(self, session_id: SessionId) -> bool:
        """Whether there is a session or an old log with this id."""
        return session_id in self.sessions or session_id in self.old_logs

    def unfold(self, session_id: SessionId, read: bool) -> None:
        self._loader.unfold(session_id, read)

    def check_reachability(self, session: TrackedSession) -> None:
        """Judge a managed session again if its reachability changed since it was judged."""
        self._reachability.check(session)

    def find(self, text: str) -> TrackedSession:
        """The session with this id, bare conversation id, name, short name, or unique prefix of an id; judged."""
        session_id = self.resolve(text)
        session = self.sessions.get(session_id)
        if session is None or session.record is None or not session.is_log_read:
            self.unfold(session_id, True)
        return self.sessions[session_id]

    def resolve(self, text: str) -> SessionId:
        """The full id that `text` means. Raises BadSessionId, SessionNotFound or AmbiguousSession.

        A client's conversation, and a name that a person gave, come before a log of the same name; a short name
        before the start of an id. The start of an id that is also the name of a project stands for both.
        """
        wanted = parse_session_id(text)
        known = [each for each in (SessionId(start + wanted) for start in _ID_STARTS) if self.is_known(each)]
        clients = self._without_found_logs(known)
        if clients:
            return clients[0]
        if wanted in known:
            return self._prefer_client(wanted)
        names = self._known.short_names
        shown = names.shown_as(wanted)
        fits = self._find_by_name(wanted) or ([shown] if shown is not None else [])
        fits = fits or [*dict.fromkeys((*self._fits(wanted), *names.called(wanted)))]
        if not fits:
            raise SessionNotFound(shown=text)
        if len(fits) > 1:
            raise AmbiguousSession(shown=text, count=len(fits), examples=", ".join(fits[:3]))
        return fits[0]

    def _fits(self, wanted: SessionId) -> list[SessionId]:
        """The sessions whose id, or bare conversation id, begins so. A log that looks like a client's id counts last."""
        fits = [each for start in _ID_STARTS for each in self._starting_with(start + wanted)]
        clients = self._without_found_logs(fits)
        return (
            [each for each in fits if each in clients or not each.startswith(_ID_STARTS[1:])]
            if clients
            else fits
        )

    def _prefer_client(self, log: SessionId) -> SessionId:
        """The session that a person gave the name of this found log to, or whose short id the log has; else the log."""
        named = self._find_by_name(log)
        if len(named) == 1:
            return named[0]
        clients = self._without_found_logs(self._starting_with(log)) if log.startswith(_ID_STARTS[1:]) else []
        return clients[0] if len(clients) == 1 else log

    def _without_found_logs(self, session_ids: Iterable[SessionId]) -> list[SessionId]:
        """Those that are not a log that any program may write."""
        clients = []
        for each in session_ids:
            session = self.sessions.get(each)
            subject = self.old_logs[each].subject if session is None else session.subject
            if subject.managed or subject.provider not in _LOG_PROVIDERS:
                clients.append(each)
        return clients

    def _find_by_name(self, name: str) -> list[SessionId]:
        """The living sessions with this name; those that ended only if none lives."""
        called = [each for each, known in self.names.items() if known == name and each in self.sessions]
        return [each for each in called if self.sessions[each].presence.living_processes] or called

    def _starting_with(self, prefix: str) -> Iterator[SessionId]:
        ids = self.ids()
        for index in range(bisect_left(ids, prefix), len(ids)):
            if not ids[index].startswith(prefix):
                return
            yield ids[index]

    def page(self, query: Query, now: Instant) -> Page:
        """Records in order of id from `cursor` on, reachability checked; stable while sessions come and go."""
        ids = self.ids()
        oldest, limit = self._fold_before_wall(now), min(query.limit, LIMIT_MAX)
        if not (query.all or query.cursor or query.has_filters or limit < len(self.sessions)):
            return self._page_of_unfolded(oldest)
        begin = bisect_left(ids, parse_session_id(query.cursor) + "\0") if query.cursor else 0
        # Encoded at the end: a session that is unfolded may rename others.
        chosen: list[TrackedSession] = []
        folded = 0
        for index in range(begin, len(ids)):
            session = self.sessions.get(ids[index])
            if session is None:
                folded += 1
                if not query.all:
                    continue
                self.unfold(ids[index], False)
                session = self.sessions[ids[index]]
            elif session.last_seen_wall < oldest and not query.all:
                folded += 1
                continue
            if session.subject.is_managed:
                self.check_reachability(session)
            record = session.record
            if record is None or not _matches(record, query):
                continue
            if len(chosen) == limit:
                return Page([each.body() for each in chosen], folded, ids[index - 1])
            chosen.append(session)
        return Page([each.body() for each in chosen], folded, None)

    def _page_of_unfolded(self, oldest: float) -> Page:
        """Answer the most frequent query in a tenth of the time."""
        self._check_unfolded(oldest)
        # One pass, and no call for encoded records: ten thousand are far apart in memory.
        bodies = [
            each.encoded_record or each.body()
            for each in self._known.sorted_sessions()
            if each.last_seen_wall >= oldest and each.record is not None
        ]
        return Page(bodies, len(self.ids()) - len(bodies), None)

    def _check_unfolded(self, oldest: float) -> None:
        for each in self.managed:
            if each.last_seen_wall >= oldest:
                self.check_reachability(each)

    def _fold_before_wall(self, now: Instant) -> float:
        """The wall time for folding: sessions without a live process that were last seen earlier are folded."""
        return now.wall - self._fold_after_seconds

    def list_unfolded(self, now: Instant) -> list[TrackedSession]:
        """The judged sessions that lists do not fold, reachability checked, in no order."""
        oldest = self._fold_before_wall(now)
        self._check_unfolded(oldest)
        return [each for each in self.sessions.values() if each.record and each.last_seen_wall >= oldest]

    def counts(self, now: Instant) -> dict[str, dict[str, int]]:
        """Numbers of sessions by health and state, without folded ones."""
        shown = self.list_unfolded(now)
        return {
            "health": dict(Counter(each.record.health for each in shown if each.record)),
            "state": dict(Counter(each.record.state for each in shown if each.record)),
            "total": {
                "shown": len(shown),
                "older": len(self.ids()) - len(shown),
                "managed": sum(each.subject.is_managed for each in shown),
            },
        }

    async def wait(self, session_id: SessionId, until: State, timeout_seconds: float) -> WaitResult:
        """Return once the session is in state `until`, needs a person, died, or the time is over."""
        event = asyncio.Event()
        self._known.waiters.setdefault(session_id, set()).add(event)
        try:
            async with asyncio.timeout(timeout_seconds):
                while (ending := _wait_result(self.find(session_id).record, until)) is None:
                    event.clear()
                    await event.wait()
                return ending
        except TimeoutError:
            return WaitResult.TIMEOUT
        finally:
            self._known.waiters[session_id].discard(event)
            if not self._known.waiters[session_id]:
                del self._known.waiters[session_id]


def _matches(record: SessionRecord, query: Query) -> bool:
    return (
        (query.health is None or record.health is query.health)
        and (query.state is None or record.state is query.state)
        and (query.project is None or record.project == label(query.project))
    )


def _wait_result(record: SessionRecord | None, until: State) -> WaitResult | None:
    if record is None:
        return None
    # A detached session is idle; only prompts cannot reach it.
    if record.state is until or (record.state is State.DETACHED and until is State.IDLE):
        return WaitResult.REACHED
    if record.health is Health.DEAD:
        return WaitResult.DIED
    if record.attention in {Attention.PERSON, Attention.LOGIN}:
        return WaitResult.NEEDS_PERSON
    return WaitResult.STOPPED if record.state is State.STOPPED else None
