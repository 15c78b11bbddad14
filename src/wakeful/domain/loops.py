"""Going round in circles: the same calls with the same results, the same words, the same unchanged poll.

Constant time and memory per call. A cycle of n calls is a run of calls that each equal the n-th before it; five
counters find cycles of one to five. What a person says, and a write that was not made before, begin afresh; words
in between do not. Polls count by time, for waiting is what they are for.
"""

from typing import Final

from msgspec import Struct, field

from wakeful.domain.moment import Instant
from wakeful.domain.policy import Policy
from wakeful.domain.signature import Call, result_key

CYCLE_CALLS_MAX: Final = 5
# Distinct calls remembered since the last new write; a turn with more of them is not going in circles.
SEEN_MAX: Final = 64
# A call repeated with others in between still goes on if it came within the last few.
SEEN_RECENTLY: Final = 3


class _Seen(Struct):
    """A call with its result, since the last new write."""

    since: Instant
    count: int = 0
    last_index: int = 0


class _Run(Struct):
    """How many calls in a row equalled the one a cycle's length before."""

    length: int = 0
    since: Instant | None = None
    polled: bool = False


class Circles(Struct):
    """What one turn has repeated so far."""

    recent: list[tuple[int, Instant]] = field(default_factory=list)
    runs: list[_Run] = field(default_factory=lambda: [_Run() for _ in range(CYCLE_CALLS_MAX)])
    seen: dict[int, _Seen] = field(default_factory=dict)
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
    circles.recent.clear()
    circles.runs = [_Run() for _ in range(CYCLE_CALLS_MAX)]
    circles.seen.clear()
    circles.poll = 0


def came_back(circles: Circles, call: Call, result: bytes, since: Instant, at: Instant) -> None:
    """A call came back; `since` is when it was made."""
    signature = result_key(result, call.key)
    if call.polls:
        _polled(circles, signature, at)
        return
    circles.words_repeats = 0
    circles.poll = 0
    if not call.reads and signature not in circles.seen:
        # A new write breaks every cycle by being new; only what was counted across other calls begins afresh.
        circles.seen.clear()
    _count(circles, signature, since)
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


def _polled(circles: Circles, signature: int, at: Instant) -> None:
    for run in circles.runs:
        run.polled = True
    if signature != circles.poll:
        circles.poll, circles.poll_since = signature, at
    circles.poll_last = at


def _count(circles: Circles, signature: int, since: Instant) -> None:
    circles.index += 1
    seen = circles.seen.get(signature)
    if seen is None:
        if len(circles.seen) >= SEEN_MAX:
            del circles.seen[next(iter(circles.seen))]
        seen = circles.seen[signature] = _Seen(since)
    seen.count += 1
    seen.last_index = circles.index


def _extend_runs(circles: Circles, signature: int, since: Instant) -> None:
    recent = circles.recent
    for size, run in enumerate(circles.runs, start=1):
        if len(recent) >= size and recent[-size][0] == signature:
            if run.length == 0:
                run.since = recent[-size][1]
            run.length += 1
        else:
            run.length, run.since, run.polled = 0, None, False
    recent.append((signature, since))
    if len(recent) > CYCLE_CALLS_MAX:
        del recent[0]


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
