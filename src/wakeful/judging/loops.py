"""Loop detection: repeated calls with equal results, repeated texts, and polls without change.

Time and memory per call are constant. A cycle of n calls is a run of calls that each equal the n-th before
it, n from one to five. A prompt of a person, or a write that was not made before, resets it; text in between
does not. Equal calls of one message are one step, because the first result was not known yet. Polls count by
time, because they are meant to wait, and so does a check that is repeated after a pause. Two more patterns:
different questions with the same answer, and a plan that is only reworded. Calls and results are normalized
lazily, only when another call seems to give the same result.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final
from zlib import crc32

from msgspec import Struct, field
from msgspec.structs import replace

from wakeful.core.clock import Instant
from wakeful.judging.call_identity import (
    NOT_YET_BYTES_MAX,
    Call,
    Meaning,
    essence,
    is_write,
    may_move,
    meaning_of,
    says_not_over,
    writes_nothing,
)
from wakeful.judging.masking import ECHOES_MIN, masked, outline
from wakeful.judging.stagnation import Alike, PlanRun, alike_with, planned
from wakeful.judging.thresholds import Policy

CYCLE_CALLS_MAX: Final = 5
# Distinct calls remembered since the last new write; a turn with more of them is not going in circles.
SEEN_MAX: Final = 64
# A call repeated with others in between still goes on if it came within the last few.
SEEN_RECENTLY: Final = 3
# What is waited for at once: a handful of background tasks.
POLLS_MAX: Final = 4
# Half of all model waits end within 3 s: whoever looks again later than this has waited, and sooner hammers.
LOOK_SECONDS_MIN: Final = 10.0
# And whoever looks at anything again after a minute: 37 of the 51 equal looks in 40 recordings of work came so late.
SPACED_SECONDS_MIN: Final = 60.0


class _Made(Struct, gc=False):
    """A call with its result, and how often it was made since something new was written."""

    call: Call
    result: bytes
    since: Instant
    asked: Instant
    # The place where it came first, and the one where counting began: the same until something new is written.
    number: int = 0
    counted_from: int = 0
    last_index: int = 0
    count: int = 1
    meaning: Meaning | None = None
    masked: bytes | None = None
    # The message it was last made in; 0: not known.
    step: int = 0


class _Poll(Struct, gc=False):
    """What is asked again and again, and how long its answer has been the same."""

    made: _Made
    since: Instant
    last: Instant


class _Run(Struct, gc=False):
    """How many calls in a row equalled the one a cycle's length before."""

    length: int = 0
    since: Instant | None = None
    polled: bool = False


class Circles(Struct, gc=False):
    """What one turn has repeated so far. Every session has one, and most of them repeat nothing: that takes no room."""

    # The last calls with their results by their numbers, and when each was made.
    recent: tuple[int, ...] = ()
    recent_since: tuple[Instant, ...] = ()
    # One for each length of a cycle; none while nothing is repeated and nothing polled.
    runs: tuple[_Run, ...] = ()
    # The last distinct calls, and a number for what masking leaves of each result.
    made: list[_Made] = field(default_factory=list)
    outlines: list[int] = field(default_factory=list)
    # How often the one that came back last was made.
    last_count: int = 0
    index: int = 0
    words: int = 0
    words_repeats: int = 0
    words_since: Instant | None = None
    # How often the last text repeats its own end.
    echoes: int = 0
    # Summaries of the conversation with nothing done between them.
    compactions: int = 0
    compacted_since: Instant | None = None
    # What is waited for, the one asked last at the end; news of one is news for all.
    polls: tuple[_Poll, ...] = ()
    # The call before the last poll, by its place: what was made since then is not merely asked again.
    polled_index: int = -1
    # Runs count by time only because a look was taken again after a longer pause.
    spaced: bool = False
    # The last call if it failed, and how often in a row it did, whatever it said each time.
    failing: Call | None = None
    failing_since: Instant | None = None
    failing_step: int = 0
    failures: int = 0
    # Reading calls in a row with one answer, and writes of a plan in a row that neither grew nor got done.
    alike: Alike | None = None
    plan: PlanRun | None = None


class Circle(Struct, frozen=True):
    """A loop that is going on now. `call` is one of those it goes round with; words alone have none."""

    since: Instant
    summary: str
    call: Call | None = None


def forget(circles: Circles) -> None:
    """Begin afresh: a person spoke, or something new was written."""
    forget_calls(circles)
    forget_words(circles)


def forget_words(circles: Circles) -> None:
    """Somebody or something asked: whoever gives the same answer to the next question is no monologue."""
    circles.words = circles.words_repeats = 0


def forget_calls(circles: Circles) -> None:
    """A turn is over, and its calls with it. What was said stays: a hook that asks again gets the same words."""
    circles.recent = circles.recent_since = circles.runs = ()
    circles.made.clear()
    circles.outlines.clear()
    circles.last_count = circles.echoes = circles.compactions = 0
    circles.polls, circles.polled_index = (), -1
    circles.failing, circles.failures = None, 0
    circles.alike = circles.plan = None


def came_back(
    circles: Circles,
    call: Call,
    result: bytes,
    since: Instant,
    at: Instant,
    *,
    failed: bool = False,
    step: int = 0,
) -> None:
    """A call came back; `since` is when it was made, `step` a number for the message that made it."""
    circles.echoes = circles.compactions = circles.words = circles.words_repeats = 0
    if call.plan is not None or circles.plan is not None:
        circles.plan = planned(circles.plan, call, since, step)
    if call.polls:
        _polled(circles, _Made(call, essence(result), at, at), at)
        return
    circles.polls = ()
    if failed or circles.failures:
        _count_failures(circles, call, since, step, failed=failed)
    index = circles.index + 1
    new = _Made(call, essence(result), since, since, index, index, index, step=step)
    trace = crc32(outline(new.result))
    made = _before(circles, new, trace) if trace in circles.outlines else None
    if made is not None and step and made.step == step:
        return
    circles.index = index
    if made is None:
        circles.alike = alike_with(circles.alike, call, result, since, step)
        made = _remember(circles, new, trace)
    else:
        made.step = step
        _count(circles, made, since)
    circles.last_count = made.count
    _extend_runs(circles, made.number, since)


def spoke(circles: Circles, words: int, echoes: int, at: Instant) -> None:
    """The agent said something; `words` is a number for it."""
    circles.echoes, circles.compactions = echoes, 0
    if words == circles.words:
        circles.words_repeats += 1
        return
    circles.words, circles.words_repeats, circles.words_since = words, 0, at


def compacted(circles: Circles, at: Instant) -> None:
    """The conversation was summarised."""
    if not circles.compactions:
        circles.compacted_since = at
    circles.compactions += 1


def circle(circles: Circles, policy: Policy, now: Instant, *, in_turn: bool = True) -> Circle | None:
    """The loop that goes on now, if one does. Between turns only the words are left: a hook may ask for them again."""
    if not in_turn:
        return _monologue(circles, policy)
    return (
        _cycle(circles, policy, now)
        or _failing(circles, policy)
        or _often(circles, policy, now)
        or _poll(circles, policy)
        or _stagnation(circles, policy)
        or _plan_churn(circles, policy)
        or _monologue(circles, policy)
        or _stammer(circles)
        or _squeeze(circles, policy)
    )


def _before(circles: Circles, new: _Made, trace: int) -> _Made | None:
    """The same call with the same result, if it is remembered; then it is the last one from now on."""
    for place, made in enumerate(circles.made):
        if circles.outlines[place] == trace and _is_same(made, new):
            circles.made.append(circles.made.pop(place))
            circles.outlines.append(circles.outlines.pop(place))
            return made
    return None


def _is_same(one: _Made, other: _Made) -> bool:
    if one.call.tool != other.call.tool or not _meaning(one).is_same(_meaning(other)):
        return False
    if one.masked is None and other.masked is None and one.result == other.result:
        return True
    return _masked(one) == _masked(other)


def fixed(
    made: _Made, call_at_rest: Callable[[Call], Call], result_at_rest: Callable[[bytes], bytes]
) -> _Made:
    """As it may be written to disk: compared by digests, with no more of its result than a rule reads."""
    digest = _masked(made)
    result = result_at_rest(made.result) if len(made.result) <= NOT_YET_BYTES_MAX else b""
    return replace(made, call=call_at_rest(made.call), result=result, meaning=None, masked=digest)


def _meaning(made: _Made) -> Meaning:
    if made.meaning is None:
        made.meaning = meaning_of(made.call)
    return made.meaning


def _masked(made: _Made) -> bytes:
    """A digest of its result with everything volatile masked, made once: it is compared with many."""
    if made.masked is None:
        made.masked = blake2b(masked(made.result), digest_size=16).digest()
    return made.masked


def _remember(circles: Circles, new: _Made, trace: int) -> _Made:
    # What stands before something newly written counts no more; it may still be part of a cycle.
    room = CYCLE_CALLS_MAX if is_write(new.call) else SEEN_MAX
    if len(circles.made) >= room:
        del circles.made[: 1 - room], circles.outlines[: 1 - room]
    circles.made.append(new)
    circles.outlines.append(trace)
    return new


def _count(circles: Circles, made: _Made, since: Instant) -> None:
    paused_seconds = since.seconds_since(made.asked)
    if paused_seconds >= LOOK_SECONDS_MIN and _waits(circles, made):
        _hold_runs(circles, circles.index - 1)
    elif paused_seconds >= SPACED_SECONDS_MIN and writes_nothing(_meaning(made)):
        _hold_runs(circles, circles.index - 1, spaced=True)
    elif circles.spaced:
        # Nobody waits any more: what is repeated without a pause begins to count here.
        circles.runs, circles.spaced = (), False
    made.asked, made.last_index = since, circles.index
    if _is_counted(circles, made):
        made.count += 1
    else:
        made.since, made.count, made.counted_from = since, 1, circles.index


def _is_counted(circles: Circles, made: _Made) -> bool:
    """Whether nothing was written anew behind it: every call that was new there only reads."""
    return all(_meaning(other).reads for other in circles.made if other.counted_from > made.counted_from)


def _waits(circles: Circles, made: _Made) -> bool:
    """Whether it is asked again because something is not over; or looks at what may move, and nothing else was done."""
    meaning = _meaning(made)
    if says_not_over(made.call, meaning, made.result):
        return True
    return made.last_index == circles.index - 1 and may_move(made.call, meaning)


def _count_failures(circles: Circles, call: Call, since: Instant, step: int, *, failed: bool) -> None:
    if not failed:
        circles.failing, circles.failures = None, 0
    elif circles.failing is None or not asks_the_same(circles.failing, call):
        circles.failing, circles.failing_since, circles.failures = call, since, 1
    elif not step or circles.failing_step != step:
        circles.failures += 1
    circles.failing_step = step


def asks_the_same(one: Call, other: Call) -> bool:
    return one.tool == other.tool and meaning_of(one).is_same(meaning_of(other))


def _hold_runs(circles: Circles, polled_index: int, *, spaced: bool = False) -> None:
    """Somebody waits: what is repeated counts by time."""
    circles.runs = circles.runs or _no_runs()
    circles.spaced = spaced and (circles.spaced or not any(run.polled for run in circles.runs))
    for run in circles.runs:
        run.polled = True
    circles.polled_index = polled_index


def _polled(circles: Circles, new: _Made, at: Instant) -> None:
    _hold_runs(circles, circles.index)
    before = next((poll for poll in circles.polls if asks_the_same(poll.made.call, new.call)), None)
    if before is None:
        circles.polls = (*circles.polls[1 - POLLS_MAX :], _Poll(new, at, at))
    elif not _is_same(before.made, new):
        circles.polls = (_Poll(new, at, at),)
    else:
        before.last = at
        circles.polls = (*(poll for poll in circles.polls if poll is not before), before)


def _extend_runs(circles: Circles, number: int, since: Instant) -> None:
    recent, recent_since = circles.recent, circles.recent_since
    if number not in recent:
        circles.runs = ()
    else:
        circles.runs = circles.runs or _no_runs()
        for size, run in enumerate(circles.runs, start=1):
            if len(recent) >= size and recent[-size] == number:
                run.since = run.since or recent_since[-size]
                run.length += 1
            else:
                run.length, run.since, run.polled = 0, None, False
    circles.recent = (*recent[1 - CYCLE_CALLS_MAX :], number)
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
        return Circle(run.since, f"{what} with the same result {rounds} times", _last_call(circles))
    return None


def _failing(circles: Circles, policy: Policy) -> Circle | None:
    if circles.failures <= policy.repeats_max or circles.failing_since is None:
        return None
    what = f"the same call failed {circles.failures} times in a row"
    return Circle(circles.failing_since, what, circles.failing)


def _last_call(circles: Circles) -> Call | None:
    return next((made.call for made in circles.made if made.number == circles.recent[-1]), None)


def _often(circles: Circles, policy: Policy, now: Instant) -> Circle | None:
    for made in circles.made:
        is_recent = circles.index - made.last_index < SEEN_RECENTLY
        # With a wait between the same calls they are a poll in pieces.
        if circles.polled_index >= made.counted_from and now.seconds_since(made.since) < policy.poll_seconds:
            continue
        if made.count > policy.duplicates_max and is_recent and _is_counted(circles, made):
            what = f"one call {made.count} times with the same result, nothing written between"
            return Circle(made.since, what, made.call)
    return None


def _poll(circles: Circles, policy: Policy) -> Circle | None:
    if not circles.polls or unchanged_seconds(circles) < policy.poll_seconds:
        return None
    poll = circles.polls[-1]
    what = f"polling for {unchanged_seconds(circles) / 60:.0f} min without any change"
    return Circle(poll.since, what, poll.made.call)


def unchanged_seconds(circles: Circles) -> float:
    """How long what was polled last has given the same answer."""
    return circles.polls[-1].last.seconds_since(circles.polls[-1].since) if circles.polls else 0.0


def _stagnation(circles: Circles, policy: Policy) -> Circle | None:
    alike = circles.alike
    if alike is None or alike.count <= policy.alike_results_max:
        return None
    return Circle(alike.since, f"{alike.count} different calls in a row with the same result", alike.call)


def _plan_churn(circles: Circles, policy: Policy) -> Circle | None:
    plan = circles.plan
    if plan is None or plan.count <= policy.plan_writes_max:
        return None
    what = f"the plan was written {plan.count} times in a row, with nothing created or done"
    return Circle(plan.since, what, plan.call)


def _monologue(circles: Circles, policy: Policy) -> Circle | None:
    if circles.words_repeats < policy.cycles_max or circles.words_since is None:
        return None
    return Circle(circles.words_since, f"the same words {circles.words_repeats + 1} times")


def _stammer(circles: Circles) -> Circle | None:
    if circles.echoes < ECHOES_MIN or circles.words_since is None:
        return None
    return Circle(circles.words_since, f"one text says the same thing {circles.echoes} times")


def _squeeze(circles: Circles, policy: Policy) -> Circle | None:
    if circles.compactions <= policy.compactions_max or circles.compacted_since is None:
        return None
    what = f"the conversation was summarised {circles.compactions} times with nothing done between"
    return Circle(circles.compacted_since, what)
