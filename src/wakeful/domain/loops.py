"""Going round in circles: the same calls with the same results, the same words, the same unchanged poll.

Constant time and memory per call. A cycle of n calls is a run of calls that each equal the n-th before it, n from
one to five. What a person says, and a write that was not made before, begin afresh; words in between do not. Polls
count by time, for waiting is what they are for. Results are masked only where a call is made again.
"""

from typing import Final
from zlib import crc32

from msgspec import Struct, field

from wakeful.domain.moment import Instant
from wakeful.domain.policy import Policy
from wakeful.domain.signature import Call, essence, masked, result_key

CYCLE_CALLS_MAX: Final = 5
# Distinct calls remembered since the last new write; a turn with more of them is not going in circles.
SEEN_MAX: Final = 64
# A call repeated with others in between still goes on if it came within the last few.
SEEN_RECENTLY: Final = 3


class _Seen(Struct, gc=False):
    """A call with its result, since the last new write."""

    since: Instant
    count: int = 0
    last_index: int = 0


class _Run(Struct, gc=False):
    """How many calls in a row equalled the one a cycle's length before."""

    length: int = 0
    since: Instant | None = None
    polled: bool = False


class Circles(Struct, gc=False):
    """What one turn has repeated so far. Every session has one, and most of them repeat nothing: that takes no room."""

    # The last calls with their results, and when each was made.
    recent: tuple[int, ...] = ()
    recent_since: tuple[Instant, ...] = ()
    # One for each length of a cycle; none while nothing is repeated and nothing polled.
    runs: tuple[_Run, ...] = ()
    seen: dict[int, _Seen] = field(default_factory=dict)
    # What each call brought when it was made first, the call that came back last at the end.
    results: dict[int, bytes] = field(default_factory=dict)
    index: int = 0
    words: int = 0
    words_repeats: int = 0
    words_since: Instant | None = None
    poll: int = 0
    poll_since: Instant | None = None
    poll_last: Instant | None = None


class Circle(Struct, frozen=True):
    """A loop that is going on now."""

    since: Instant
    summary: str


def forget(circles: Circles) -> None:
    """Begin afresh: a person spoke, or something new was written."""
    forget_calls(circles)
    circles.words = circles.words_repeats = 0


def forget_calls(circles: Circles) -> None:
    """A turn is over, and its calls with it. What was said stays: a hook that asks again gets the same words."""
    circles.recent = circles.recent_since = circles.runs = ()
    circles.seen.clear()
    circles.results.clear()
    circles.poll = 0


def came_back(circles: Circles, call: Call, result: bytes, since: Instant, at: Instant) -> None:
    """A call came back; `since` is when it was made."""
    if call.polls:
        _polled(circles, result_key(result, call.key), at)
        return
    signature = _signature(circles.results, call.key, essence(result))
    if circles.words_repeats or circles.poll:
        circles.words_repeats = circles.poll = 0
    circles.index += 1
    seen = circles.seen.get(signature)
    if seen is not None:
        seen.count += 1
        seen.last_index = circles.index
    else:
        _forget_before(circles, is_write=not call.reads)
        circles.seen[signature] = _Seen(since, 1, circles.index)
    _extend_runs(circles, signature, since)


def spoke(circles: Circles, words: int, at: Instant) -> None:
    """The agent said something; `words` is a number for it."""
    if words == circles.words:
        circles.words_repeats += 1
        return
    circles.words, circles.words_repeats, circles.words_since = words, 0, at


def circle(circles: Circles, policy: Policy, now: Instant) -> Circle | None:
    """The loop that goes on now, if one does."""
    return (
        _cycle(circles, policy, now)
        or _often(circles, policy)
        or _poll(circles, policy)
        or _monologue(circles, policy)
    )


def _signature(results: dict[int, bytes], call: int, result: bytes) -> int:
    """A number for a call with its result: equal if nothing but what is volatile differs.

    Masking costs more than all else of a call, and nearly every call of a turn is made once. So the first result
    counts as it stands, and is masked when another one comes for the same call.
    """
    first = results.pop(call, result)
    results[call] = first
    if first == result:
        return crc32(result, call)
    lasting = masked(result)
    return crc32(first if lasting == masked(first) else lasting, call)


def _polled(circles: Circles, signature: int, at: Instant) -> None:
    circles.runs = circles.runs or _no_runs()
    for run in circles.runs:
        run.polled = True
    if signature != circles.poll:
        circles.poll, circles.poll_since = signature, at
    circles.poll_last = at


def _forget_before(circles: Circles, *, is_write: bool) -> None:
    """Make room for a call that is new, with its result."""
    seen = circles.seen
    if is_write:
        # It breaks every cycle by being new; only what was counted across other calls begins afresh.
        seen.clear()
    elif len(seen) >= SEEN_MAX:
        del seen[next(iter(seen))]
    # What the calls that are still remembered brought, and not much more.
    results, count_max = circles.results, CYCLE_CALLS_MAX + len(seen)
    while len(results) > count_max:
        del results[next(iter(results))]


def _extend_runs(circles: Circles, signature: int, since: Instant) -> None:
    recent, recent_since = circles.recent, circles.recent_since
    if signature not in recent:
        circles.runs = ()
    else:
        circles.runs = circles.runs or _no_runs()
        for size, run in enumerate(circles.runs, start=1):
            if len(recent) >= size and recent[-size] == signature:
                run.since = run.since or recent_since[-size]
                run.length += 1
            else:
                run.length, run.since, run.polled = 0, None, False
    circles.recent = (*recent[1 - CYCLE_CALLS_MAX :], signature)
    circles.recent_since = (*recent_since[1 - CYCLE_CALLS_MAX :], since)


def _no_runs() -> tuple[_Run, ...]:
    return tuple(_Run() for _ in range(CYCLE_CALLS_MAX))


def _cycle(circles: Circles, policy: Policy, now: Instant) -> Circle | None:
    for size, run in enumerate(circles.runs, start=1):
        rounds = 1 + run.length // size
        if run.since is None or rounds < (policy.repeats_max + 1 if size == 1 else policy.cycles_max + 1):
            continue
        if run.polled and now.seconds_since(run.since) < policy.poll_seconds:
            continue
        what = "the same call" if size == 1 else f"the same {size} calls"
        return Circle(run.since, f"{what} with the same result {rounds} times")
    return None


def _often(circles: Circles, policy: Policy) -> Circle | None:
    for seen in circles.seen.values():
        if seen.count > policy.duplicates_max and circles.index - seen.last_index < SEEN_RECENTLY:
            return Circle(
                seen.since, f"one call {seen.count} times with the same result, nothing written between"
            )
    return None


def _poll(circles: Circles, policy: Policy) -> Circle | None:
    if circles.poll == 0 or circles.poll_since is None or circles.poll_last is None:
        return None
    unchanged_seconds = circles.poll_last.seconds_since(circles.poll_since)
    if unchanged_seconds < policy.poll_seconds:
        return None
    return Circle(circles.poll_since, f"polling for {unchanged_seconds / 60:.0f} min without any change")


def _monologue(circles: Circles, policy: Policy) -> Circle | None:
    if circles.words_repeats < policy.repeats_max or circles.words_since is None:
        return None
    return Circle(circles.words_since, f"the same words {circles.words_repeats + 1} times")
