"""Folds the events of a session's log into its activity, in constant time per event and bounded memory.

Only `fold` applies events to an Activity, for live reading and for replay. A log that is read from its last
turn boundary must lead to the same verdict as the whole log (a property test).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace

from wakeful.core.clock import Instant
from wakeful.judging import events as e
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX, Activity, BackgroundTask, OpenCall
from wakeful.judging.budget import SpendingBudget
from wakeful.judging.call_identity import Call, call_of, is_spawn, is_write, kept_prefix, result_key
from wakeful.judging.kept_ids import take
from wakeful.judging.loops import (
    asks_the_same,
    on_call_result,
    on_compaction,
    on_text,
    reset,
    reset_calls,
    reset_texts,
)
from wakeful.judging.outage import says_outage
from wakeful.judging.spawns import Spawns, on_spawn, on_spawn_failed
from wakeful.judging.turn_state import OPEN, TRANSITIONS, TurnPhase, TurnStep

# Bump when folding changes: bookmarks of another version are read again from the log.
RULE_VERSION: Final = 11
# An assistant message opened at most 20 calls at once in the recordings.
OPEN_CALLS_MAX: Final = 128
# Results that precede their call in the log; client 2.1.98 wrote 7 of 449 this way, all within one message.
EARLY_RESULTS_MAX: Final = 16
# Servers, builds and agents left running; the oldest is dropped first.
BACKGROUND_MAX: Final = 32
# Ids and names are short; a log with longer ones must not fill the memory.
NAME_CHARS_MAX: Final = 200
TEXT_CHARS_KEPT_MAX: Final = 2000
ERROR_BYTES_KEPT_MAX: Final = 400
# A gap may contain a wait without a mark (a permission, an unnoticed sleep of the host): it counts this much at most.
GAP_SECONDS_MAX: Final = 600.0
LATE_SECONDS_MAX: Final = 60.0
_SLEEP: Final = re.compile(rb"\bsleep[ (]([0-9]{1,6})(?:\.[0-9]+)?([smhd]?)\b")
_TIMEOUT: Final = re.compile(rb"\bg?timeout (?:-[ks] \S+ |-\S+ )*([0-9]{1,6})([smhd]?) ")
_UNIT_SECONDS: Final = {b"": 1.0, b"s": 1.0, b"m": 60.0, b"h": 3600.0, b"d": 86_400.0}

# Used for every record; before Python 3.12 each use of an enum's member is a new lookup.
_PERSON: Final = e.CallKind.PERSON
_SUBAGENT: Final = e.CallKind.SUBAGENT
_ASKING: Final = TurnPhase.PERSON
_CALL_OPENED, _CALLS_REMAIN, _CALLS_DONE = TurnStep.CALL_OPENED, TurnStep.CALLS_REMAIN, TurnStep.CALLS_DONE
_PROGRESSED: Final = TurnStep.PROGRESSED
_AT_WORK: Final = OPEN - {TurnPhase.PERSON}


def fold(activity: Activity, event: e.Event, at: Instant) -> None:
    """Apply one event. `at` is the event's time, translated by the clock's timeline."""
    _HANDLERS[type(event)](activity, event, at)
    if not event.at:  # a mark about bytes without a time
        return
    last_at = activity.last_at
    if last_at is None:
        activity.first_at = activity.last_at = at
    elif at.awake > last_at.awake or at > last_at:  # two numbers are compared faster than two moments
        activity.last_at = at


def is_boundary(event: e.Event) -> bool:
    """Whether folding may begin with this event, because judging needs nothing from before it.

    A prompt is no boundary: failures of earlier prompts belong to the judgement. Two things are lost: which tasks
    earlier turns left running, and that the last one ended with a plan. An idle session then does not show them; no
    finding depends on it.
    """
    if isinstance(event, e.TurnEnded):
        return not event.by_mark
    return isinstance(event, e.TurnInterrupted)


def _step(activity: Activity, step: TurnStep, at: Instant) -> None:
    activity.known += 1
    before, progress_at = activity.phase, activity.progress_at
    if progress_at is None:
        activity.progress_at = at
    elif (gap_seconds := at.awake - progress_at.awake) > 0.0 or at > progress_at:
        if before in _AT_WORK:
            counted_seconds = gap_seconds if gap_seconds < GAP_SECONDS_MAX else GAP_SECONDS_MAX  # noqa: FURB136 - no call
            activity.active_seconds += counted_seconds
        activity.progress_at = at
    after = TRANSITIONS[before, step]
    if after is not before and not (before is _ASKING and _precedes_question(activity, at)):
        activity.phase, activity.phase_since = after, at


def _precedes_question(activity: Activity, at: Instant) -> bool:
    """Whether it is older than the question, which a hook or a stream reports earlier than the log."""
    return activity.asked_at is not None and at.wall < activity.asked_at.wall


def _on_opened(activity: Activity, event: e.LogOpened, _at: Instant) -> None:
    activity.conversation_id = event.conversation_id or activity.conversation_id
    activity.cwd = _truncate(event.cwd) or activity.cwd
    activity.version = _truncate(event.version) or activity.version
    activity.pid = event.pid or activity.pid
    activity.project = _truncate(event.project) or activity.project
    activity.closed = False


def _on_permission_mode(activity: Activity, event: e.PermissionModeSet, _at: Instant) -> None:
    activity.permission_mode = event.mode[:NAME_CHARS_MAX]


def _truncate(text: str | None) -> str | None:
    return text[:TEXT_CHARS_KEPT_MAX] if text else None


def _is_late(activity: Activity, at: Instant) -> bool:
    """Whether results of this prompt precede it in the log, because the client wrote its first batch out of order.

    Only by a little: an older stamp comes from a clock that was set since. And only results: if the turn before it is
    over, a mark of another source, such as a stream that reports a busy client, is merely quicker.
    """
    progress_at, since = activity.progress_at, activity.phase_since
    if activity.phase not in OPEN and since is not None and since.wall < at.wall:
        return False
    return progress_at is not None and 0 < progress_at.wall - at.wall <= LATE_SECONDS_MAX


def _on_prompt(activity: Activity, event: e.Prompted, at: Instant) -> None:
    if event.by_person and not event.by_wakeful:
        activity.person_at = max(activity.person_at or at, at)
    if _is_late(activity, at):
        activity.known += 1
        if event.by_person or activity.turn_since is None:
            # The records before it belong to its turn.
            activity.turn_since = at
        return
    activity.well_ended_at = activity.newest_well_end(settled=True)
    # A resumed client leaves the calls of a killed turn open; a new prompt starts without any.
    activity.calls.clear()
    activity.early_results = None
    activity.compacting_since = None
    activity.refused = activity.proposed = False
    if not _precedes_question(activity, at):
        activity.asked_about = None
    activity.failure, activity.failure_message = None, ""
    activity.asks = ""
    activity.closed = activity.log_closed = False
    if event.by_person:
        _reset_turn(activity)
        reset(activity.circles)
    else:
        reset_texts(activity.circles)
    activity.turn_since = activity.turn_since or at
    _step(activity, TurnStep.OPENED if event.unasked else TurnStep.PROMPTED, at)


def _reset_turn(activity: Activity) -> None:
    activity.errors_in_a_row = activity.retries_in_a_row = activity.turn_calls = 0
    activity.turn_tokens = activity.turn_output_tokens = 0
    activity.errors_since = activity.turn_since = activity.failed = activity.spawns = activity.budget = None
    activity.active_seconds = 0.0
    reset_calls(activity.circles)


def _on_progress(activity: Activity, event: e.Progressed, at: Instant) -> None:
    if event.words or activity.retries_in_a_row:
        _record_text(activity, event.words, event.echoes, at)
    if event.words:
        activity.states_stops = True
    else:
        activity.marks += 1
    _step(activity, _PROGRESSED, at)


def _on_compaction_start(activity: Activity, _event: e.CompactionStarted, at: Instant) -> None:
    activity.compacting_since = at
    _step(activity, _PROGRESSED, at)


def _on_compaction_end(activity: Activity, _event: e.CompactionEnded, at: Instant) -> None:
    activity.compacting_since = None
    on_compaction(activity.circles, at)
    _step(activity, _PROGRESSED, at)


def _on_text_event(activity: Activity, event: e.TextWritten, at: Instant) -> None:
    activity.asks = event.asks.decode("utf-8", "replace")
    _record_text(activity, event.words, event.echoes, at)
    _step(activity, _PROGRESSED if activity.states_stops else TurnStep.SPOKE, at)


def _record_text(activity: Activity, words: int, echoes: int, at: Instant) -> None:
    activity.retries_in_a_row = 0
    if words:
        on_text(activity.circles, words, echoes, at)


def _on_retry(activity: Activity, _event: e.RequestRetried, _at: Instant) -> None:
    activity.known += 1
    activity.retries_in_a_row += 1


def _on_call_start(activity: Activity, event: e.CallStarted, at: Instant) -> None:
    step = _step_number(activity, event)
    activity.asks = ""
    activity.calls_total += 1
    activity.turn_calls += 1
    activity.call_at = at
    if activity.retries_in_a_row or activity.compacting_since is not None:
        activity.retries_in_a_row, activity.compacting_since = 0, None
    call, tool = event.call[:NAME_CHARS_MAX], event.tool[:NAME_CHARS_MAX]
    about = call_of(tool, event.input)
    if len(activity.calls) >= OPEN_CALLS_MAX:
        del activity.calls[next(iter(activity.calls))]
    activity.newest_call = call
    opened = OpenCall(
        call,
        tool,
        event.kind,
        at,
        event.input[:INPUT_BYTES_KEPT_MAX],
        about,
        _declared_seconds(event, about),
        event.enforced,
        event.limit_seconds,
        event.escalated,
        step,
    )
    if activity.budget is not None and event.kind is _SUBAGENT:
        activity.budget = replace(activity.budget, shared=True)
    if is_spawn(tool):
        activity.spawns = activity.spawns or Spawns()
        on_spawn(activity.spawns, event.input, at, step)
    elif activity.spawns is not None and is_write(about) and about.plan is None:
        activity.spawns.prompts.clear()
    if activity.early_results and (task := take(activity.early_results, call)) is not None:
        if task:
            _leave_running(activity, task, opened)
        _step(activity, _PROGRESSED, at)
        return
    activity.calls[call] = opened
    if event.kind is _PERSON:
        activity.asked_about = tool
        _step(activity, TurnStep.CALL_ASKED, at)
    else:
        _step(activity, _CALL_OPENED, at)


def _step_number(activity: Activity, event: e.CallStarted) -> int:
    """A number for the message of a call; if the log names none, calls without a result between them share one."""
    if event.message:
        return crc32(event.message.encode())
    return activity.calls_total - len(activity.calls) + 1


def _declared_seconds(event: e.CallStarted, about: Call) -> float | None:
    """How long a call may take by its input: its timeout, or the sleep or timeout in its command if that is longer."""
    if about.meaning is None or is_write(about):  # not analysed: it contains no such word
        return event.timeout_seconds
    given = event.input[:INPUT_BYTES_KEPT_MAX]
    asleep_seconds = sum(_seconds(*found) for found in _SLEEP.findall(given)) if about.polls else 0.0
    limit_seconds = sum(_seconds(*found) for found in _TIMEOUT.findall(given))
    return max(event.timeout_seconds or 0.0, asleep_seconds, limit_seconds) or None


def _seconds(count: bytes, unit: bytes) -> float:
    return int(count) * _UNIT_SECONDS[unit]


def _on_call_end(activity: Activity, event: e.CallEnded, at: Instant) -> None:
    call = _close_call(activity, event)
    if call is None and event.call:
        # The result precedes its call: keep it until the call is read.
        early = activity.early_results = activity.early_results or {}
        if len(early) >= EARLY_RESULTS_MAX:
            del early[next(iter(early))]
        early[event.call[:NAME_CHARS_MAX]] = event.background[:NAME_CHARS_MAX]
    activity.call_at = at
    activity.refused = event.refused
    if (event.is_error or activity.errors_in_a_row) and (call is not None or not event.call):
        _count_errors(activity, event, call, at)
    if call is not None and _is_outage(event, call) and activity.spawns is not None:
        on_spawn_failed(activity.spawns, call.input)
    elif call is not None and not event.refused:
        result = event.result
        if event.background:  # equal launches differ only in their task id
            result = result.replace(event.background.encode(), b"~")
        on_call_result(
            activity.circles, call.about, result, call.since, at, failed=event.is_error, step=call.step
        )
        if event.background:
            _leave_running(activity, event.background, call)
    step = _step_after_call(activity, call)
    if step is not _CALLS_REMAIN:
        activity.asked_about = None
    _step(activity, step, at)


def _is_outage(event: e.CallEnded, call: OpenCall) -> bool:
    return event.is_error and call.kind is _SUBAGENT and says_outage(event.result)


def _leave_running(activity: Activity, task: str, call: OpenCall) -> None:
    if len(activity.background) >= BACKGROUND_MAX:
        del activity.background[next(iter(activity.background))]
    activity.background[task[:NAME_CHARS_MAX]] = BackgroundTask(call.tool, call.since, call.input)


def _on_task_end(activity: Activity, event: e.TaskEnded, _at: Instant) -> None:
    take(activity.background, event.task[:NAME_CHARS_MAX])


def _close_call(activity: Activity, event: e.CallEnded) -> OpenCall | None:
    if event.call:
        return take(activity.calls, event.call[:NAME_CHARS_MAX])
    tool = event.tool[:NAME_CHARS_MAX]
    newest = next((call for call in reversed(activity.calls.values()) if call.tool == tool), None)
    return activity.calls.pop(newest.call) if newest is not None else None


def _step_after_call(activity: Activity, ended: OpenCall | None) -> TurnStep:
    if not activity.calls:
        return _CALLS_DONE
    was_question = ended is not None and ended.kind is _PERSON
    still_asking = any(call.kind is _PERSON for call in activity.calls.values())
    return TurnStep.ANSWERED if was_question and not still_asking else _CALLS_REMAIN


def _count_errors(activity: Activity, event: e.CallEnded, call: OpenCall | None, at: Instant) -> None:
    if event.refused:
        return
    if not event.is_error:
        activity.errors_in_a_row, activity.errors_since, activity.failed = 0, None, None
        return
    is_same_step = call is not None and _is_same_failed_step(activity, call)
    activity.failed = call.about if call is not None else None
    activity.failed_with = kept_prefix(event.result, ERROR_BYTES_KEPT_MAX)
    activity.failed_step = call.step if call is not None else 0
    activity.errors_in_a_row += not is_same_step
    activity.errors_since = activity.errors_since or at


def _is_same_failed_step(activity: Activity, call: OpenCall) -> bool:
    """Whether an equal call of the same message failed just before."""
    failed = activity.failed
    return failed is not None and activity.failed_step == call.step and asks_the_same(failed, call.about)


def _on_question(activity: Activity, event: e.QuestionAsked, at: Instant) -> None:
    activity.asked_about = _truncate(event.about) or activity.asked_about
    activity.asked_at = at
    _step(activity, TurnStep.ASKED, at)


def _on_answer(activity: Activity, event: e.QuestionAnswered, at: Instant) -> None:
    if event.about is not None and activity.asked_tool not in {None, event.about}:
        _step(activity, _PROGRESSED, at)
        return
    activity.asked_about = None
    _step(activity, TurnStep.ANSWERED, at)


def _on_plan(activity: Activity, _event: e.PlanProposed, at: Instant) -> None:
    activity.proposed = True
    _step(activity, _PROGRESSED, at)


def _end_turn(activity: Activity, step: TurnStep, at: Instant) -> None:
    activity.calls.clear()
    activity.early_results = None
    activity.asked_about = activity.compacting_since = None
    _step(activity, step, at)


def _on_turn_end(activity: Activity, event: e.TurnEnded, at: Instant) -> None:
    _reset_turn(activity)
    if not event.by_mark:
        activity.closed = False
        activity.failures_alike = 0
        # Folding may begin here, so these values must come from this event alone.
        activity.states_stops = bool(event.words)
        if event.asks or event.words:
            activity.asks = event.asks.decode("utf-8", "replace")
        # A completed text is no repeated phrase, so its echoes do not count.
        _record_text(activity, event.words, 0, at)
    else:
        activity.marks += 1
    ended = TurnStep.PROPOSED if activity.proposed else TurnStep.ENDED
    _end_turn(activity, TurnStep.MARKED if event.by_mark else ended, at)


def _on_turn_failure(activity: Activity, event: e.TurnFailed, at: Instant) -> None:
    message = event.message[:TEXT_CHARS_KEPT_MAX]
    key = result_key(message.encode(), len(event.failure))
    activity.failures_alike = activity.failures_alike + 1 if key == activity.failure_key else 1
    activity.failure, activity.failure_message, activity.failure_key = event.failure, message, key
    activity.asks = ""
    activity.limit_until = at.plus(event.until - event.at) if event.until is not None else None
    _end_turn(activity, TurnStep.FAILED, at)


def _on_interrupt(activity: Activity, _event: e.TurnInterrupted, at: Instant) -> None:
    _reset_turn(activity)
    reset(activity.circles)
    activity.asks = ""
    activity.closed = activity.states_stops = activity.proposed = False
    activity.failures_alike = 0
    _end_turn(activity, TurnStep.INTERRUPTED, at)


def _on_close(activity: Activity, _event: e.ClientClosed, _at: Instant) -> None:
    activity.closed = True
    activity.compacting_since = None
    activity.background.clear()


def _on_tokens(activity: Activity, event: e.TokensSpent, _at: Instant) -> None:
    activity.turn_tokens += event.input_tokens + event.output_tokens
    activity.turn_output_tokens += event.output_tokens
    activity.input_tokens += event.input_tokens
    activity.output_tokens += event.output_tokens
    if activity.budget is not None:
        weight = activity.budget.newest_weight + event.weight
        activity.budget = replace(activity.budget, newest_weight=weight)


def _on_budget(activity: Activity, event: e.BudgetReported, _at: Instant) -> None:
    activity.log_closed = False
    before = activity.budget or SpendingBudget(event.used_usd, event.total_usd)
    activity.budget = before.with_report(event.used_usd, event.total_usd)


def _on_log_end(activity: Activity, _event: e.LogClosed, _at: Instant) -> None:
    activity.log_closed = True


def _on_skipped_record(activity: Activity, _event: e.RecordSkipped, _at: Instant) -> None:
    activity.skipped += 1


def _on_malformed_line(activity: Activity, _event: e.LineMalformed, _at: Instant) -> None:
    activity.malformed += 1


def _on_format_drift(activity: Activity, event: e.FormatDrifted, _at: Instant) -> None:
    activity.drifted = activity.drifted or event.field


_HANDLERS: Final[Mapping[type[e.Event], Callable[[Activity, Any, Instant], None]]] = {
    e.LogOpened: _on_opened,
    e.PermissionModeSet: _on_permission_mode,
    e.Prompted: _on_prompt,
    e.Progressed: _on_progress,
    e.CompactionStarted: _on_compaction_start,
    e.CompactionEnded: _on_compaction_end,
    e.RequestRetried: _on_retry,
    e.TextWritten: _on_text_event,
    e.CallStarted: _on_call_start,
    e.CallEnded: _on_call_end,
    e.TaskEnded: _on_task_end,
    e.QuestionAsked: _on_question,
    e.QuestionAnswered: _on_answer,
    e.PlanProposed: _on_plan,
    e.TurnEnded: _on_turn_end,
    e.TurnFailed: _on_turn_failure,
    e.TurnInterrupted: _on_interrupt,
    e.ClientClosed: _on_close,
    e.LogClosed: _on_log_end,
    e.TokensSpent: _on_tokens,
    e.BudgetReported: _on_budget,
    e.RecordSkipped: _on_skipped_record,
    e.LineMalformed: _on_malformed_line,
    e.FormatDrifted: _on_format_drift,
}
