"""Session pool, one queue per conversation key: picks the next message and the session to evict. Pure.

No key ever gets another key's messages. At most `active_max` keys have a session. A new one takes the place
of the session that was idle longest and waits while none is idle: a busy session is never evicted for
another. Adding, running and finishing an item have constant cost, and `next_check_at` says when a
session was idle too long, so nothing is polled.
"""

from collections import OrderedDict, deque
from enum import StrEnum
from typing import Final, Generic, TypeVar

from msgspec import Struct

from wakeful.gateway.rules.messages import ConversationKey

Item = TypeVar("Item")


class EvictionReason(StrEnum):
    """Why a session left the pool. Logs and dashboards know these words."""

    IDLE_TTL = "idle_ttl"
    LRU_LIMIT = "lru_limit"
    RESTART = "restart"
    STOP = "stop"
    STOP_ALL = "stop_all"


STOPS: Final = frozenset({EvictionReason.STOP, EvictionReason.STOP_ALL})


class PoolLimits(Struct, frozen=True):
    """`queue_max`: how many messages of one key may wait; more are refused."""

    active_max: int = 24
    idle_seconds: float = 1800.0
    queue_max: int = 100


class Evicted(Struct, Generic[Item], frozen=True):
    """A session that is to be ended, if it has an id. `dropped`: the items that waited for it and are not run."""

    key: ConversationKey
    session_id: str
    reason: EvictionReason
    dropped: tuple[Item, ...] = ()


class Next(Struct, Generic[Item], frozen=True):
    """An item to run now, after `evicted` is ended. `session_id` is empty if a session has to be started."""

    key: ConversationKey
    item: Item
    session_id: str
    evicted: Evicted[Item] | None = None


class KeyState(Struct, Generic[Item]):
    waiting: deque[Item]
    session_id: str = ""
    # An item of the key runs: one at a time.
    is_running: bool = False
    # The session is being ended, which takes a while: until then it keeps its place.
    is_leaving: bool = False
    idle_since: float | None = None

    @property
    def is_active(self) -> bool:
        return self.is_running or bool(self.session_id)


class Pool(Generic[Item]):
    """`add` an item, run what `next` gives, then call `done`; end the session of each `Evicted`."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self.limits = limits or PoolLimits()
        self._states: dict[ConversationKey, KeyState[Item]] = {}
        self._active = 0
        # Idle sessions, the one that has been idle longest first.
        self._idle: OrderedDict[ConversationKey, None] = OrderedDict()
        # Keys with an item that waits and none that runs, in the order they became so.
        self._ready_with_session: OrderedDict[ConversationKey, None] = OrderedDict()
        self._ready_without_session: OrderedDict[ConversationKey, None] = OrderedDict()

    @property
    def active(self) -> int:
        """How many keys have a session, or are getting one."""
        return self._active

    @property
    def next_check_at(self) -> float | None:
        """When `expired` has its next entry, if no message comes until then."""
        if not self._idle:
            return None
        idle_since = self._states[next(iter(self._idle))].idle_since
        assert idle_since is not None, "an idle session must have the time since which it is idle"
        return idle_since + self.limits.idle_seconds

    def keys(self) -> tuple[ConversationKey, ...]:
        """Every key with a session or something to do."""
        return tuple(self._states)

    def session_of(self, key: ConversationKey) -> str:
        """Its session, empty if it has none."""
        key_state = self._states.get(key)
        return key_state.session_id if key_state else ""

    def waiting(self, key: ConversationKey) -> int:
        """How many items wait, without the one that runs."""
        key_state = self._states.get(key)
        return len(key_state.waiting) if key_state else 0

    def is_busy(self, key: ConversationKey) -> bool:
        """Whether an item runs or waits."""
        key_state = self._states.get(key)
        return key_state is not None and (key_state.is_running or bool(key_state.waiting))

    def add(self, key: ConversationKey, item: Item, *, is_known: bool = False) -> bool:
        """Queue an item behind the others of its key. False: too many wait there, nothing was queued.

        `is_known`: an earlier gateway queued it, so it is not refused now.
        """
        key_state = self._states.setdefault(key, KeyState(deque()))
        if len(key_state.waiting) >= self.limits.queue_max and not is_known:
            return False
        key_state.waiting.append(item)
        self._requeue(key, key_state)
        return True

    def next(self, now: float) -> Next[Item] | None:
        """The next item, which runs from now on. None: nothing waits, or there is no room for another session."""
        if self._ready_with_session:
            return self._take(next(iter(self._ready_with_session)))
        if not self._ready_without_session:
            return None
        evicted = None
        if self._active >= self.limits.active_max:
            if not self._idle:
                return None
            evicted = self._evict(next(iter(self._idle)), EvictionReason.LRU_LIMIT, now)
        return self._take(next(iter(self._ready_without_session)), evicted)

    def done(self, key: ConversationKey, now: float) -> None:
        """The running item of this key is over, with or without success."""
        key_state = self._states[key]
        assert key_state.is_running, "no item of this key runs"
        self._change(key, key_state, is_running=False, session_id=key_state.session_id, now=now)

    def hold(self, key: ConversationKey, session_id: str, now: float, *, is_leaving: bool = False) -> None:
        """Assign this session to the key: it was started, or found again after a restart.

        `is_leaving`: it was evicted and still runs; it counts until it is evicted once more, by name.
        """
        assert session_id, "a session has an id"
        key_state = self._states.setdefault(key, KeyState(deque()))
        key_state.is_leaving = is_leaving
        self._change(key, key_state, is_running=key_state.is_running, session_id=session_id, now=now)

    def expired(self, now: float, *, keeps_idle: bool = False) -> tuple[Evicted[Item], ...]:
        """The sessions that were idle for too long or are beyond the limit; they have left the pool.

        `keeps_idle`: only those beyond the limit.
        """
        evicted = []
        while self._idle and self._is_over_limit():
            evicted.append(self._evict(next(iter(self._idle)), EvictionReason.LRU_LIMIT, now))
        while not keeps_idle and (due_at := self.next_check_at) is not None and due_at <= now:
            evicted.append(self._evict(next(iter(self._idle)), EvictionReason.IDLE_TTL, now))
        return tuple(evicted)

    def evict(self, key: ConversationKey, reason: EvictionReason, now: float) -> Evicted[Item] | None:
        """Take a key's session away, busy or not, on request. A restart keeps what waits, a stop drops it."""
        key_state = self._states.get(key)
        drops = key_state is not None and reason in STOPS and bool(key_state.waiting)
        if key_state is None or not (key_state.session_id or drops):
            return None
        return self._evict(key, reason, now)

    def evict_all(self, reason: EvictionReason, now: float) -> tuple[Evicted[Item], ...]:
        evicted = (self.evict(key, reason, now) for key in self.keys())
        return tuple(each for each in evicted if each is not None)

    def _is_over_limit(self) -> bool:
        """Whether more keys have a session than may. One that is being ended does not count."""
        if self._active <= self.limits.active_max:
            return False
        leaving = sum(
            key_state.is_leaving and not key_state.is_running for key_state in self._states.values()
        )
        return self._active - leaving > self.limits.active_max

    def _take(self, key: ConversationKey, evicted: Evicted[Item] | None = None) -> Next[Item]:
        key_state = self._states[key]
        item = key_state.waiting.popleft()
        self._active += not key_state.is_active
        key_state.is_running = True
        self._requeue(key, key_state)
        return Next(key, item, key_state.session_id, evicted)

    def _evict(self, key: ConversationKey, reason: EvictionReason, now: float) -> Evicted[Item]:
        key_state = self._states[key]
        dropped = tuple(key_state.waiting) if reason in STOPS else ()
        evicted = Evicted(key, key_state.session_id, reason, dropped)
        if dropped:
            key_state.waiting.clear()
        key_state.is_leaving = False
        self._change(key, key_state, is_running=key_state.is_running, session_id="", now=now)
        return evicted

    def _change(
        self,
        key: ConversationKey,
        key_state: KeyState[Item],
        *,
        is_running: bool,
        session_id: str,
        now: float,
    ) -> None:
        """Set the values that decide the state of a key."""
        was_active = key_state.is_active
        key_state.is_running, key_state.session_id = is_running, session_id
        self._active += key_state.is_active - was_active
        key_state.idle_since = now
        self._idle.pop(key, None)
        self._requeue(key, key_state)

    def _requeue(self, key: ConversationKey, key_state: KeyState[Item]) -> None:
        """Add a key to the ready keys, the idle ones, or neither. It keeps its place in their order."""
        # While a session is being ended its key is not ready; after that it is ready without a session.
        is_ready = bool(key_state.waiting) and not key_state.is_running and not key_state.is_leaving
        _set_member(self._ready_with_session, key, belongs=is_ready and bool(key_state.session_id))
        _set_member(self._ready_without_session, key, belongs=is_ready and not key_state.session_id)
        is_idle = not key_state.waiting and not key_state.is_running
        _set_member(
            self._idle, key, belongs=is_idle and bool(key_state.session_id) and not key_state.is_leaving
        )
        if is_idle and not key_state.session_id:
            del self._states[key]


def _set_member(members: OrderedDict[ConversationKey, None], key: ConversationKey, *, belongs: bool) -> None:
    if belongs:
        members.setdefault(key)
    else:
        members.pop(key, None)
