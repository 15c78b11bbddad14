"""The folded state of a session in the form that may be written to disk: without secrets. Pure.

Values that are only compared become digests, so a restart changes no verdict; values that are shown are
redacted. State in memory is not redacted: folding a log is faster than redacting it.
"""

from msgspec.structs import replace

from wakeful.core.redaction import redact
from wakeful.judging.activity import INPUT_BYTES_KEPT_MAX, Activity, OpenCall
from wakeful.judging.call_identity import BORDER_BYTES, Call, identity_of
from wakeful.judging.evidence import AgentProcess
from wakeful.judging.kept_ids import kept_id, with_kept_ids
from wakeful.judging.loops import LoopTracker, redacted_call


def redacted_activity(activity: Activity) -> Activity:
    """A copy with redacted texts; `activity` is not changed."""
    return replace(
        activity,
        calls=with_kept_ids({key: _call(call) for key, call in activity.calls.items()}),
        early_results=_early_results(activity.early_results),
        newest_call=kept_id(activity.newest_call),
        background=with_kept_ids(
            {
                key: replace(task, tool=redact(task.tool), input=_input(task.input))
                for key, task in activity.background.items()
            }
        ),
        asks=redact(activity.asks),
        failure_message=redact(activity.failure_message),
        failed=_about(activity.failed),
        failed_with=_bytes(activity.failed_with),
        circles=_redacted_loops(activity.circles),
        asked_about=_text(activity.asked_about),
        drifted=_text(activity.drifted),
        # A redacted folder or project is useless; the log will state it again.
        cwd=_drop_if_secret(activity.cwd),
        project=_drop_if_secret(activity.project),
    )


def redacted_process(process: AgentProcess) -> AgentProcess:
    return replace(process, waiting_for=_text(process.waiting_for)) if process.waiting_for else process


def _redacted_loops(tracker: LoopTracker) -> LoopTracker:
    alike, plan = tracker.alike, tracker.plan
    return replace(
        tracker,
        made=[redacted_call(made, _call_of, _bytes) for made in tracker.made],
        polls=tuple(replace(poll, made=redacted_call(poll.made, _call_of, _bytes)) for poll in tracker.polls),
        failing=_about(tracker.failing),
        alike=replace(alike, call=_call_of(alike.call)) if alike is not None else None,
        plan=replace(plan, call=_call_of(plan.call)) if plan is not None else None,
    )


def _early_results(results: dict[str, str] | None) -> dict[str, str] | None:
    return results and {kept_id(call): kept_id(task) for call, task in results.items()}


def _call(call: OpenCall) -> OpenCall:
    name, tool = kept_id(call.call), redact(call.tool)
    return replace(call, call=name, tool=tool, input=_input(call.input), about=_call_of(call.about))


def _about(call: Call | None) -> Call | None:
    return _call_of(call) if call is not None else None


def _call_of(call: Call) -> Call:
    """With its identity: a digest of the original call, and the command of the redacted input."""
    identity, given = identity_of(call), _bytes(call.given)
    if given == call.given and redact(identity.command) == identity.command:
        return replace(call, meaning=identity)
    command = identity_of(replace(call, given=given, meaning=None)).command
    return replace(call, given=given, meaning=replace(identity, command=redact(command)))


def _input(given: bytes) -> bytes:
    """The end of a cut input may be half a secret."""
    if len(given) < INPUT_BYTES_KEPT_MAX:
        return _bytes(given)
    # As long as before: the length shows that it was cut.
    return _bytes(given)[:-BORDER_BYTES].ljust(INPUT_BYTES_KEPT_MAX)


def _bytes(raw: bytes) -> bytes:
    text = raw.decode("utf-8", "replace")
    shown = redact(text)
    return raw if shown == text else shown.encode()


def _text(text: str | None) -> str | None:
    return redact(text) if text else text


def _drop_if_secret(text: str | None) -> str | None:
    return text if text is None or redact(text) == text else None
