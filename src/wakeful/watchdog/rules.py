"""Decides what to do about a failed attempt at a queued task, and writes the note for the next attempt. Pure.

The plan chooses; this module adds the rules of a queue. An agent cannot be steered through it. A job whose
folder is gone cannot run. A task whose one resume is spent is given up instead of held.
"""

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from wakeful.control.briefs import CALLS_NAMED_MAX
from wakeful.core.clock import Instant, iso
from wakeful.effects.rules import Effect
from wakeful.healing.case import CALLS_FILED_MAX, CALLS_HAPPENED, REMOTE_CALLS_NAMED_MAX
from wakeful.healing.plan import ACTING_STEPS, CaseHistory, HealingRules, HealingStep, Situation, plan
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.findings import Verdict
from wakeful.judging.folding import fold
from wakeful.judging.interrupted_calls import InterruptedCall, classify
from wakeful.judging.wording import format_length, format_time_of_day, quote

# Part of the interface: chats and their users know this sentence.
FAILURE_MESSAGE: Final = (
    "Sorry, I ran into an issue and couldn't recover. The error has been logged for investigation."
)
AWAITING_DECISION_MESSAGE: Final = (
    "I was interrupted during a step that may already have changed something elsewhere. "
    "I will not repeat it by myself: it needs a person's approval."
)
NO_FOLDER_MESSAGE: Final = (
    "I cannot continue: the folder I worked in is gone. A person has to restore it first."
)

MAY_HAVE_RUN: Final = "Each may have run whole, in part or not at all: check before you repeat any of it."


class QueueAction(StrEnum):
    NOTHING = "nothing"
    NOTIFY = "notify"
    HOLD = "hold"
    REVIVE = "revive"
    GIVE_UP = "give_up"


class QueueDecision(Struct, frozen=True):
    """The action and its reason. `chat_text` is the message to the chat while the work waits."""

    action: QueueAction
    reason: str
    chat_text: str = ""


class AttemptLog(Struct):
    """The log of one attempt: folded for judging, and the calls to show to a person or the next attempt."""

    activity: Activity = field(default_factory=Activity)
    # Time, tool, subject, result.
    recent: deque[tuple[str, str, str, str]] = field(default_factory=lambda: deque(maxlen=CALLS_FILED_MAX))
    # Returned calls with a remote effect.
    remote: deque[str] = field(default_factory=lambda: deque(maxlen=REMOTE_CALLS_NAMED_MAX))
    entries: int = 0


def fold_log_event(log: AttemptLog, event: e.Event, at: Instant) -> None:
    if not isinstance(event, e.CallEnded):
        log.entries += isinstance(event, e.CallStarted)
        fold(log.activity, event, at)
        return
    log.entries += 1
    before = dict(log.activity.calls)
    fold(log.activity, event, at)
    for name in before.keys() - log.activity.calls.keys():
        call = before[name]
        about = _call_summary(call.tool, call.input)
        log.recent.append((iso(call.since.wall), call.tool, about, "error" if event.is_error else "ok"))
        if classify(call.tool, call.input).effect is Effect.REMOTE:
            log.remote.append(f"{call.tool} {about}")


def last_calls(log: AttemptLog) -> tuple[tuple[str, str, str, str], ...]:
    """The newest calls, open ones last."""
    still_open = [
        (iso(call.since.wall), call.tool, _call_summary(call.tool, call.input), "no answer")
        for call in log.activity.calls.values()
    ]
    return tuple([*log.recent, *still_open][-CALLS_FILED_MAX:])


def _call_summary(tool: str, given: bytes) -> str:
    return quote(f"{tool} {given.decode('utf-8', 'replace')}")


def choose(
    verdict: Verdict,
    activity: Activity,
    interrupted: Sequence[InterruptedCall],
    *,
    spent: bool,
    folder_gone: bool,
    breaker_seconds: float,
    rules: HealingRules,
    now: Instant,
) -> QueueDecision:
    """The action for an attempt with a problem. Never acts."""
    if not verdict.findings:
        return QueueDecision(QueueAction.NOTHING, "nothing is wrong")
    situation = _situation(verdict, activity, None if spent else _worst_effect(interrupted), now)
    # A missing folder needs a person at once.
    situation = replace(situation, breaker_seconds=0.0 if folder_gone else breaker_seconds)
    # A queue cannot prompt a working agent, so it counts as prompted; and a second check confirmed the problem.
    history = CaseHistory(revivals=int(spent), steered_seconds_ago=rules.steer_seconds)
    decision = plan(situation, history, rules)
    if decision.step is HealingStep.HOLD:
        return QueueDecision(QueueAction.HOLD, decision.reason, AWAITING_DECISION_MESSAGE)
    if decision.step is HealingStep.GIVE_UP:
        return QueueDecision(QueueAction.GIVE_UP, decision.reason)
    if decision.step not in ACTING_STEPS:
        return QueueDecision(
            QueueAction.NOTIFY if decision.step is HealingStep.NOTIFY else QueueAction.NOTHING,
            decision.reason,
        )
    if folder_gone:
        return QueueDecision(QueueAction.HOLD, "its working directory is gone", NO_FOLDER_MESSAGE)
    return QueueDecision(QueueAction.REVIVE, decision.reason)


def _situation(verdict: Verdict, activity: Activity, effect: Effect | None, now: Instant) -> Situation:
    progress_at = activity.progress_at
    return Situation(
        # The first finding names the problem.
        code=verdict.findings[0].code,
        state=verdict.state,
        agent=verdict.agent,
        managed=True,
        for_seconds=float("inf"),
        since_progress_seconds=now.seconds_since(progress_at) if progress_at is not None else 0.0,
        effect=effect,
    )


def _worst_effect(interrupted: Sequence[InterruptedCall]) -> Effect | None:
    order = (Effect.LOCAL, Effect.UNKNOWN, Effect.REMOTE)
    return max((call.verdict.effect for call in interrupted), key=order.index, default=None)


def revival_context(
    verdict: Verdict,
    log: AttemptLog,
    interrupted: Sequence[InterruptedCall],
    issue_url: str | None,
    now: Instant,
    *,
    happened: bool = False,
) -> str:
    """The note about this attempt for the next one. Text that an agent wrote is redacted and quoted."""
    reasons = "; ".join(finding.summary for finding in verdict.findings)
    lines = [
        "Wakeful: an earlier attempt at this message ended before its work was done, and you take it up.",
        f"Why it ended: {reasons or 'a person asked for it'}.",
        f"What it was doing: {_activity_text(log, now)}",
    ]
    if interrupted:
        lines.append(f"Begun and never answered: {_format_calls(interrupted, log, now)}.")
        lines.append(CALLS_HAPPENED if happened else MAY_HAVE_RUN)
    if log.remote:
        lines.append(f"Already done elsewhere, do not repeat: {'; '.join(log.remote)}.")
    if issue_url is not None:
        lines.append(f"Issue: {issue_url}")
    lines.append("Look at what is done already, then go on.")
    return "\n".join(lines)


def _activity_text(log: AttemptLog, now: Instant) -> str:
    calls = last_calls(log)
    if not calls:
        return "no call of it is known."
    _, tool, about, ended = calls[-1]
    last_at = log.activity.last_at
    when = f" at {format_time_of_day(last_at, now)}" if last_at is not None else ""
    return f"{tool} {about} ({ended}), {log.activity.calls_total} calls so far, the last word{when}."


def _format_calls(interrupted: Sequence[InterruptedCall], log: AttemptLog, now: Instant) -> str:
    more = len(interrupted) - CALLS_NAMED_MAX
    named = [_call_text(call, log, now) for call in interrupted[:CALLS_NAMED_MAX]]
    return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def _call_text(call: InterruptedCall, log: AttemptLog, now: Instant) -> str:
    known = log.activity.calls.get(call.call)
    about = _call_summary(known.tool, known.input) if known is not None else quote(call.verdict.words)
    ago = format_length(now.seconds_since(call.since))
    return f"{call.tool} {about} ({call.verdict.effect}, begun {ago} ago)"
