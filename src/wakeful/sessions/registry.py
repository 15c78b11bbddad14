"""Registry of all known sessions: lookup by id, name or prefix, paged lists, counts, waiting for a state.

Old logs are kept by name and age only. They cost one small entry until a request needs them.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.errors import AmbiguousSession, SessionNotFound
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.labels import label
from wakeful.judging.evidence import Subject
from wakeful.judging.findings import Attention, Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.session import Watched

LIMIT_MAX: Final = 10_000
_PROVIDER_PREFIXES: Final = ("claude-", "codex-")
# Sources whose ids any program chooses.
_LOG_PROVIDERS: Final = frozenset({"events", "tool-use"})


class OldLog(Struct, frozen=True, gc=False):
    """A log nobody has written to for long: known, counted, not read."""

    subject: Subject
    last_wall: float


class Query(Struct, frozen=True):
    """What a list is asked for. `all` includes sessions folded for their age."""

    all: bool = False
    health: Health | None = None
    state: State | None = None
    project: str | None = None
    limit: int = LIMIT_MAX
    cursor: str | None = None

    @property
    def is_picky(self) -> bool:
        return self.health is not None or self.state is not None or self.project is not None


class Page(Struct, frozen=True):
    """A part of the list: encoded records in a stable order, how many older ones were folded, where to go on."""

    bodies: list[bytes]
    older: int
    next_cursor: str | None


class Ending(StrEnum):
    """How waiting for a session ended."""

    REACHED = "reached"
    NEEDS_PERSON = "needs_person"
    DIED = "died"
    STOPPED = "stopped"
    TIMEOUT = "timeout"


class Roster:
    """The sessions, and everybody who waits for one of them to change."""

    def __init__(self, fold_after_seconds: float) -> None:
        self.watched: dict[SessionId, Watched] = {}
        self.old: dict[SessionId, OldLog] = {}
        # What people call the managed ones, and those they have released since.
        self.names: dict[SessionId, str] = {}
        self.unfold: Callable[[SessionId, bool], None] = lambda _session_id, _read: None
        # Looks whether the way to a session is still as its record says.
        self.prove: Callable[[Watched], None] = lambda _watched: None
        self._fold_after_seconds = fold_after_seconds
        self._waiting: dict[SessionId, set[asyncio.Event]] = {}
        self._sorted: list[SessionId] | None = None
        self._in_order: list[Watched] | None = None
        self._ours: list[Watched] | None = None

    def changed_membership(self) -> None:
        """Sessions came or went, or were handed over: ids are sorted anew when next needed."""
        self._sorted = self._in_order = self._ours = None

    def ids(self) -> list[SessionId]:
        if self._sorted is None:
            self._sorted = sorted(self.watched.keys() | self.old.keys())
        return self._sorted

    @property
    def ours(self) -> list[Watched]:
        """The managed ones, in no order."""
        if self._ours is None:
            self._ours = [each for each in self.watched.values() if each.subject.ours]
        return self._ours

    def find(self, text: str) -> Watched:
        """The session with this id, bare conversation id, name, or unique prefix of an id; judged."""
        session_id = self.resolve(text)
        watched = self.watched.get(session_id)
        if watched is None or watched.record is None or not watched.read:
            self.unfold(session_id, True)
        return self.watched[session_id]

    def resolve(self, text: str) -> SessionId:
        """The full id `text` stands for. Raises BadSessionId, SessionNotFound or AmbiguousSession.

        A client's conversation, and a name that a person gave, count before a log that some program called the same.
        """
        wanted = parse_session_id(text)
        for candidate in (*(SessionId(prefix + wanted) for prefix in _PROVIDER_PREFIXES), wanted):
            if candidate in self.watched or candidate in self.old:
                return candidate if candidate != wanted else self._over_log(wanted)
        fits = self._named(wanted) or [
            each for start in ("", *_PROVIDER_PREFIXES) for each in self._starting_with(start + wanted)
        ]
        if not fits:
            raise SessionNotFound(shown=text)
        if len(fits) > 1:
            raise AmbiguousSession(shown=text, count=len(fits), examples=", ".join(fits[:3]))
        return fits[0]

    def _over_log(self, session_id: SessionId) -> SessionId:
        """The session that a person gave this name to, if only a log that was found has it as its id."""
        watched = self.watched.get(session_id)
        if watched is None or watched.subject.managed or watched.subject.provider not in _LOG_PROVIDERS:
            return session_id
        named = self._named(session_id)
        return named[0] if len(named) == 1 else session_id

    def _named(self, name: str) -> list[SessionId]:
        """The living sessions that a person called so; those that ended only if none lives."""
        called = [each for each, known in self.names.items() if known == name and each in self.watched]
        return [each for each in called if self.watched[each].presence.living] or called

    def _starting_with(self, prefix: str) -> Iterator[SessionId]:
        ids = self.ids()
        for index in range(bisect_left(ids, prefix), len(ids)):
            if not ids[index].startswith(prefix):
                return
            yield ids[index]

    def page(self, query: Query, now: Instant) -> Page:
        """Records in order of id from `cursor` on, each proven; stable while sessions come and go."""
        ids = self.ids()
        oldest, limit, picky = self._oldest(now), min(query.limit, LIMIT_MAX), query.is_picky
        if not (query.all or query.cursor or picky or limit < len(self.watched)):
            return self._all_shown(oldest)
        begin = bisect_left(ids, parse_session_id(query.cursor) + "\0") if query.cursor else 0
        bodies: list[bytes] = []
        folded = 0
        for index in range(begin, len(ids)):
            watched = self.watched.get(ids[index])
            if watched is None:
                folded += 1
                if not query.all:
                    continue
                self.unfold(ids[index], False)
                watched = self.watched[ids[index]]
            elif watched.seen_wall < oldest and not query.all:
                folded += 1
                continue
            if watched.subject.ours:
                self.prove(watched)
            record = watched.record
            if record is None or (picky and not _fits(record, query)):
                continue
            if len(bodies) == limit:
                return Page(bodies, folded, ids[index - 1])
            bodies.append(watched.body())
        return Page(bodies, folded, None)

    def _all_shown(self, oldest: float) -> Page:
        """The question asked most often, answered in a tenth of the time."""
        self._prove_shown(oldest)
        if self._in_order is None:
            self._in_order = [self.watched[each] for each in self.ids() if each in self.watched]
        # Once over them, and no call for those that are encoded: ten thousand lie far apart in memory.
        bodies = [
            each.encoded or each.body()
            for each in self._in_order
            if each.seen_wall >= oldest and each.record is not None
        ]
        return Page(bodies, len(self.ids()) - len(bodies), None)

    def _prove_shown(self, oldest: float) -> None:
        for each in self.ours:
            if each.seen_wall >= oldest:
                self.prove(each)

    def _oldest(self, now: Instant) -> float:
        """Sessions without a live process that were last seen before this are folded."""
        return now.wall - self._fold_after_seconds

    def shown(self, now: Instant) -> list[Watched]:
        """Everybody whom lists do not fold, judged and proven, in no order."""
        oldest = self._oldest(now)
        self._prove_shown(oldest)
        return [each for each in self.watched.values() if each.record and each.seen_wall >= oldest]

    def counts(self, now: Instant) -> dict[str, dict[str, int]]:
        """How many sessions stand where, folded ones apart."""
        shown = self.shown(now)
        return {
            "health": dict(Counter(each.record.health for each in shown if each.record)),
            "state": dict(Counter(each.record.state for each in shown if each.record)),
            "total": {
                "shown": len(shown),
                "older": len(self.ids()) - len(shown),
                "managed": sum(each.subject.ours for each in shown),
            },
        }

    def announce(self, session_id: SessionId) -> None:
        """Wake whoever waits for this session."""
        for event in self._waiting.get(session_id, ()):
            event.set()

    async def wait(self, session_id: SessionId, until: State, timeout_seconds: float) -> Ending:
        """Return once the session is in state `until`, needs a person, died, or the time is over."""
        event = asyncio.Event()
        self._waiting.setdefault(session_id, set()).add(event)
        try:
            async with asyncio.timeout(timeout_seconds):
                while (ending := _ending(self.find(session_id).record, until)) is None:
                    event.clear()
                    await event.wait()
                return ending
        except TimeoutError:
            return Ending.TIMEOUT
        finally:
            self._waiting[session_id].discard(event)
            if not self._waiting[session_id]:
                del self._waiting[session_id]


def _fits(record: SessionRecord, query: Query) -> bool:
    return (
        (query.health is None or record.health is query.health)
        and (query.state is None or record.state is query.state)
        and (query.project is None or record.project == label(query.project))
    )


def _ending(record: SessionRecord | None, until: State) -> Ending | None:
    if record is None:
        return None
    # Who is detached is as idle as anybody; it only cannot be told so.
    if record.state is until or (record.state is State.DETACHED and until is State.IDLE):
        return Ending.REACHED
    if record.health is Health.DEAD:
        return Ending.DIED
    if record.attention in {Attention.PERSON, Attention.LOGIN}:
        return Ending.NEEDS_PERSON
    return Ending.STOPPED if record.state is State.STOPPED else None
