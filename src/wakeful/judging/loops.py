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
    PENDING_BYTES_MAX,
    Call,
    CallIdentity,
    identity_of,
    is_write,
    may_change,
    reports_in_progress,
    result_digest,
    writes_nothing,
)
from wakeful.judging.masking import REPEATED_ENDS_MIN, mask_result, outline
from wakeful.judging.stagnation import PlanRun, SameAnswerRun, extend_plan_run, extend_same_answer_run
from wakeful.judging.thresholds import Policy

CYCLE_CALLS_MAX: Final = 5
# The most distinct calls since the last new write that are stored; a turn with more of them is no loop.
CALLS_REMEMBERED_MAX: Final = 64
# A call repeated with others in between still continues if it is among the last few.
RECENT_CALLS: Final = 3
# An agent polls a few background tasks at once.
POLLS_MAX: Final = 4
# Half of all model waits end within 3 s: a check repeated later than this has waited, an earlier one has not.
POLL_PAUSE_SECONDS_MIN: Final = 10.0
# Any read repeated after a minute has waited, too: 37 of the 51 equal reads in 40 recordings of work came so late.
SPACED_SECONDS_MIN: Final = 60.0


class _RepeatedCall(Struct, gc=False):
    """A call with its result, and how often it was made since the last new write."""

    call: Call
    result: bytes
    since: Instant
    asked: Instant
    # The index of its first occurrence, and the one where counting began: equal until something new is written.
    number: int = 0
    counted_from: int = 0
    last_index: int = 0
    count: int = 1
    meaning: CallIdentity | None = None
    masked: bytes | None = None
    # Its last message; 0: unknown.
    step: int = 0


class _Poll(Struct, gc=False):
    """A repeated poll, and how long its answer has been the same."""

    made: _RepeatedCall
    since: Instant
    last: Instant


class _Run(Struct, gc=False):
    """How many calls in a row equalled the call one cycle length before."""

    length: int = 0
    since: Instant | None = None
    polled: bool = False


class LoopTracker(Struct, gc=False):
    """The repetitions of one turn. Every session has one, and most of them repeat nothing: that needs no memory."""

    # Numbers of the last calls with their results, and when each was made.
    recent: tuple[int, ...] = ()
    recent_since: tuple[Instant, ...] = ()
    # One for each cycle length; empty without repetitions and polls.
    runs: tuple[_Run, ...] = ()
    # The last distinct calls, and a number for the unmasked part of each result.
    made: list[_RepeatedCall] = field(default_factory=list)
    outlines: list[int] = field(default_factory=list)
    # How often the last call was made.
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
    # The current polls, the newest last; a change of one is a change for all.
    polls: tuple[_Poll, ...] = ()
    # Index of the call before the last poll: calls since then are not mere polls.
    polled_index: int = -1
    # Runs count by time only because a read was repeated after a longer pause.
    spaced: bool = False
    # The last call if it failed, and how often in a row it failed, with any result.
    failing: Call | None = None
    failing_since: Instant | None = None
    failing_step: int = 0
    failures: int = 0
    # Reading calls in a row with one answer, and writes of a plan in a row without a new or done item.
    alike: SameAnswerRun | None = None
    plan: PlanRun | None = None


class DetectedLoop(Struct, frozen=True):
    """A loop that is going on now. `call` is one of its calls; repeated texts have none."""

    since: Instant
    summary: str
    call: Call | None = None


def reset(tracker: LoopTracker) -> None:
    """Start over: a person sent a prompt, or something new was written."""
    reset_calls(tracker)
    reset_texts(tracker)


def reset_texts(tracker: LoopTracker) -> None:
    """After any prompt: the same answer to another prompt is no repetition."""
    tracker.words = tracker.words_repeats = 0


def reset_calls(tracker: LoopTracker) -> None:
    """At the end of a turn. Texts stay: a hook may ask again and get the same text."""
    tracker.recent = tracker.recent_since = tracker.runs = ()
    tracker.made.clear()
    tracker.outlines.clear()
    tracker.last_count = tracker.echoes = tracker.compactions = 0
    tracker.polls, tracker.polled_index = (), -1
    tracker.failing, tracker.failures = None, 0
    tracker.alike = tracker.plan = None


def on_call_result(
    tracker: LoopTracker,
    call: Call,
    result: bytes,
    since: Instant,
    at: Instant,
    *,
    failed: bool = False,
    step: int = 0,
) -> None:
    """Add a returned call; `since` is when it was made, `step` a number for its message."""
    tracker.echoes = tracker.compactions = tracker.words = tracker.words_repeats = 0
    if call.plan is not None or tracker.plan is not None:
        tracker.plan = extend_plan_run(tracker.plan, call, since, step)
    if call.polls:
        _on_poll(tracker, _RepeatedCall(call, result_digest(result), at, at), at)
        return
    tracker.polls = ()
    if failed or tracker.failures:
        _count_failures(tracker, call, since, step, failed=failed)
    index = tracker.index + 1
    new = _RepeatedCall(call, result_digest(result), since, since, index, index, index, step=step)
    trace = crc32(outline(new.result))
    made = _find_equal_call(tracker, new, trace) if trace in tracker.outlines else None
    if made is not None and step and made.step == step:
        return
    tracker.index = index
    if made is None:
        tracker.alike = extend_same_answer_run(tracker.alike, call, result, since, step)
        made = _remember(tracker, new, trace)
    else:
        made.step = step
        _count(tracker, made, since)
    tracker.last_count = made.count
    _extend_runs(tracker, made.number, since)


def on_text(tracker: LoopTracker, words: int, echoes: int, at: Instant) -> None:
    """Add a text of the agent; `words` is a number for it."""
    tracker.echoes, tracker.compactions = echoes, 0
    if words == tracker.words:
        tracker.words_repeats += 1
        return
    tracker.words, tracker.words_repeats, tracker.words_since = words, 0, at


def on_compaction(tracker: LoopTracker, at: Instant) -> None:
    if not tracker.compactions:
        tracker.compacted_since = at
    tracker.compactions += 1


def detect_loop(
    tracker: LoopTracker, policy: Policy, now: Instant, *, in_turn: bool = True
) -> DetectedLoop | None:
    """The current loop, if there is one. Between turns only texts count: a hook may ask for them again."""
    if not in_turn:
        return _repeated_message(tracker, policy)
    return (
        _cycle(tracker, policy, now)
        or _repeated_failure(tracker, policy)
        or _frequent_call(tracker, policy, now)
        or _poll(tracker, policy)
        or _stagnation(tracker, policy)
        or _plan_churn(tracker, policy)
        or _repeated_message(tracker, policy)
        or _repeated_phrase(tracker)
        or _repeated_compaction(tracker, policy)
    )


def _find_equal_call(tracker: LoopTracker, new: _RepeatedCall, trace: int) -> _RepeatedCall | None:
    """The same call with the same result, if it is stored; it becomes the last one."""
    for place, made in enumerate(tracker.made):
        if tracker.outlines[place] == trace and _is_same(made, new):
            tracker.made.append(tracker.made.pop(place))
            tracker.outlines.append(tracker.outlines.pop(place))
            return made
    return None


def _is_same(one: _RepeatedCall, other: _RepeatedCall) -> bool:
    if one.call.tool != other.call.tool or not _identity(one).is_same(_identity(other)):
        return False
    if one.masked is None and other.masked is None and one.result == other.result:
        return True
    return _masked_digest(one) == _masked_digest(other)


def redacted_call(
    made: _RepeatedCall, call_at_rest: Callable[[Call], Call], result_at_rest: Callable[[bytes], bytes]
) -> _RepeatedCall:
    """The form for disk: compared by digests, and only as much of its result as a rule reads."""
    digest = _masked_digest(made)
    result = result_at_rest(made.result) if len(made.result) <= PENDING_BYTES_MAX else b""
    return replace(made, call=call_at_rest(made.call), result=result, meaning=None, masked=digest)


def _identity(made: _RepeatedCall) -> CallIdentity:
    if made.meaning is None:
        made.meaning = identity_of(made.call)
    return made.meaning


def _masked_digest(made: _RepeatedCall) -> bytes:
    """A digest of its result with everything volatile masked; computed once, because it is compared often."""
    if made.masked is None:
        made.masked = blake2b(mask_result(made.result), digest_size=16).digest()
    return made.masked


def _remember(tracker: LoopTracker, new: _RepeatedCall, trace: int) -> _RepeatedCall:
    # Calls before a new write do not count any more; they may still be part of a cycle.
    room = CYCLE_CALLS_MAX if is_write(new.call) else CALLS_REMEMBERED_MAX
    if len(tracker.made) >= room:
        del tracker.made[: 1 - room], tracker.outlines[: 1 - room]
    tracker.made.append(new)
    tracker.outlines.append(trace)
    return new


def _count(tracker: LoopTracker, made: _RepeatedCall, since: Instant) -> None:
    paused_seconds = since.seconds_since(made.asked)
    if paused_seconds >= POLL_PAUSE_SECONDS_MIN and _is_waiting(tracker, made):
        _count_runs_by_time(tracker, tracker.index - 1)
    elif paused_seconds >= SPACED_SECONDS_MIN and writes_nothing(_identity(made)):
        _count_runs_by_time(tracker, tracker.index - 1, spaced=True)
    elif tracker.spaced:
        # No pause any more: repetitions begin to count here.
        tracker.runs, tracker.spaced = (), False
    made.asked, made.last_index = since, tracker.index
    if _is_counted(tracker, made):
        made.count += 1
    else:
        made.since, made.count, made.counted_from = since, 1, tracker.index


def _is_counted(tracker: LoopTracker, made: _RepeatedCall) -> bool:
    """Whether nothing new was written after it: every new call since only reads."""
    return all(_identity(other).reads for other in tracker.made if other.counted_from > made.counted_from)


def _is_waiting(tracker: LoopTracker, made: _RepeatedCall) -> bool:
    """Whether it is repeated because something is not over, or checks something volatile with nothing between."""
    identity = _identity(made)
    if reports_in_progress(made.call, identity, made.result):
        return True
    return made.last_index == tracker.index - 1 and may_change(made.call, identity)


def _count_failures(tracker: LoopTracker, call: Call, since: Instant, step: int, *, failed: bool) -> None:
    if not failed:
        tracker.failing, tracker.failures = None, 0
    elif tracker.failing is None or not asks_the_same(tracker.failing, call):
        tracker.failing, tracker.failing_since, tracker.failures = call, since, 1
    elif not step or tracker.failing_step != step:
        tracker.failures += 1
    tracker.failing_step = step


def asks_the_same(one: Call, other: Call) -> bool:
    return one.tool == other.tool and identity_of(one).is_same(identity_of(other))


def _count_runs_by_time(tracker: LoopTracker, polled_index: int, *, spaced: bool = False) -> None:
    """The agent waits: repetitions count by time."""
    tracker.runs = tracker.runs or _no_runs()
    tracker.spaced = spaced and (tracker.spaced or not any(run.polled for run in tracker.runs))
    for run in tracker.runs:
        run.polled = True
    tracker.polled_index = polled_index


def _on_poll(tracker: LoopTracker, new: _RepeatedCall, at: Instant) -> None:
    _count_runs_by_time(tracker, tracker.index)
    before = next((poll for poll in tracker.polls if asks_the_same(poll.made.call, new.call)), None)
    if before is None:
        tracker.polls = (*tracker.polls[1 - POLLS_MAX :], _Poll(new, at, at))
    elif not _is_same(before.made, new):
        tracker.polls = (_Poll(new, at, at),)
    else:
        before.last = at
        tracker.polls = (*(poll for poll in tracker.polls if poll is not before), before)


def _extend_runs(tracker: LoopTracker, number: int, since: Instant) -> None:
    recent, recent_since = tracker.recent, tracker.recent_since
    if number not in recent:
        tracker.runs = ()
    else:
        tracker.runs = tracker.runs or _no_runs()
        for size, run in enumerate(tracker.runs, start=1):
            if len(recent) >= size and recent[-size] == number:
                run.since = run.since or recent_since[-size]
                run.length += 1
            else:
                run.length, run.since, run.polled = 0, None, False
    tracker.recent = (*recent[1 - CYCLE_CALLS_MAX :], number)
    tracker.recent_since = (*recent_since[1 - CYCLE_CALLS_MAX :], since)


def _no_runs() -> tuple[_Run, ...]:
    return tuple(_Run() for _ in range(CYCLE_CALLS_MAX))


def _cycle(tracker: LoopTracker, policy: Policy, now: Instant) -> DetectedLoop | None:
    for size, run in enumerate(tracker.runs, start=1):
        rounds = 1 + run.length // size
        if run.since is None or rounds < (policy.repeats_max + 1 if size == 1 else policy.cycles_max + 1):
            continue
        if run.polled and now.seconds_since(run.since) < policy.poll_seconds:
            continue
        what = "the same call" if size == 1 else f"the same {size} calls"
        last_call = next((made.call for made in tracker.made if made.number == tracker.recent[-1]), None)
        return DetectedLoop(run.since, f"{what} with the same result {rounds} times", last_call)
    return None


def _repeated_failure(tracker: LoopTracker, policy: Policy) -> DetectedLoop | None:
    if tracker.failures <= policy.repeats_max or tracker.failing_since is None:
        return None
    what = f"the same call failed {tracker.failures} times in a row"
    return DetectedLoop(tracker.failing_since, what, tracker.failing)


def _frequent_call(tracker: LoopTracker, policy: Policy, now: Instant) -> DetectedLoop | None:
    for made in tracker.made:
        is_recent = tracker.index - made.last_index < RECENT_CALLS
        # Equal calls with a wait between them are a poll.
        if tracker.polled_index >= made.counted_from and now.seconds_since(made.since) < policy.poll_seconds:
            continue
        if made.count > policy.duplicates_max and is_recent and _is_counted(tracker, made):
            what = f"one call {made.count} times with the same result, nothing written between"
            return DetectedLoop(made.since, what, made.call)
    return None


def _poll(tracker: LoopTracker, policy: Policy) -> DetectedLoop | None:
    if not tracker.polls or unchanged_seconds(tracker) < policy.poll_seconds:
        return None
    poll = tracker.polls[-1]
    what = f"polling for {unchanged_seconds(tracker) / 60:.0f} min without any change"
    return DetectedLoop(poll.since, what, poll.made.call)


def unchanged_seconds(tracker: LoopTracker) -> float:
    """How long the last poll has given the same answer."""
    return tracker.polls[-1].last.seconds_since(tracker.polls[-1].since) if tracker.polls else 0.0


def _stagnation(tracker: LoopTracker, policy: Policy) -> DetectedLoop | None:
    alike = tracker.alike
    if alike is None or alike.count <= policy.alike_results_max:
        return None
    return DetectedLoop(
        alike.since, f"{alike.count} different calls in a row with the same result", alike.call
    )


def _plan_churn(tracker: LoopTracker, policy: Policy) -> DetectedLoop | None:
    plan = tracker.plan
    if plan is None or plan.count <= policy.plan_writes_max:
        return None
    what = f"the plan was written {plan.count} times in a row, with nothing created or done"
    return DetectedLoop(plan.since, what, plan.call)


def _repeated_message(tracker: LoopTracker, policy: Policy) -> DetectedLoop | None:
    if tracker.words_repeats < policy.cycles_max or tracker.words_since is None:
        return None
    return DetectedLoop(tracker.words_since, f"the same words {tracker.words_repeats + 1} times")


def _repeated_phrase(tracker: LoopTracker) -> DetectedLoop | None:
    if tracker.echoes < REPEATED_ENDS_MIN or tracker.words_since is None:
        return None
    return DetectedLoop(tracker.words_since, f"one text says the same thing {tracker.echoes} times")


def _repeated_compaction(tracker: LoopTracker, policy: Policy) -> DetectedLoop | None:
    if tracker.compactions <= policy.compactions_max or tracker.compacted_since is None:
        return None
    what = f"the conversation was summarised {tracker.compactions} times with nothing done between"
    return DetectedLoop(tracker.compacted_since, what)
