"""The one right next step for a session: a command, and what it does. Pure."""

from collections.abc import Mapping
from shlex import join
from typing import Final

from wakeful.core.labels import label
from wakeful.judging.available_actions import INTERRUPTED_CALL, NOTHING_WRITTEN, OBSERVING, ActionName
from wakeful.judging.evidence import RuntimeState
from wakeful.judging.findings import FindingCode, Health, State, Verdict, WaitKind
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.summary import orphan_text

NextStep = tuple[tuple[str, ...], str]
_Allowed = Mapping[ActionName, tuple[str, ...]]

# How a person ends a problem at the session's pane.
_AT_ITS_PANE: Final[Mapping[FindingCode, str]] = {
    FindingCode.LOOP: "go to its pane, interrupt it and say what to do instead",
    FindingCode.ERROR_CASCADE: "go to its pane, interrupt it and say what to do instead",
    FindingCode.RUNAWAY: "go to its pane and see whether it still does what you asked for",
    FindingCode.SILENT: "go to its pane and see what it shows; interrupt it to let it continue",
    FindingCode.TOOL_WEDGED: "go to its pane and interrupt the call",
    FindingCode.NEVER_STARTED: "go to its pane and see what it shows",
    FindingCode.TURN_FAILED: "go to its pane, read the error and prompt it again",
    FindingCode.POISONED_CONVERSATION: "go to its pane and start a new conversation",
}
_REVIVE_TEXT: Final = "resumes it; asks you first if an interrupted call may have had effects"
LOGINS: Final[Mapping[str, tuple[str, ...]]] = {"claude": ("claude", "/login"), "codex": ("codex", "login")}


def next_step(
    record: SessionRecord,
    runtime: RuntimeState,
    verdict: Verdict,
    *,
    unfinished: str | None,
    place_gone: bool,
) -> NextStep:
    """The one right command and its description. `unfinished` describes a turn that ended without a log entry."""
    allowed = {action.name: action.argv for action in record.actions if action.allowed}
    inspect = ("wakeful", "session", "inspect", record.id)
    attach = allowed.get(ActionName.ATTACH)
    code = verdict.findings[0].code if verdict.findings else None
    if code is FindingCode.AUTH_REQUIRED:
        return _login_step(record.provider, attach or inspect, has_pane=attach is not None)
    if code is FindingCode.USAGE_LIMITED:
        return _limit_step(record, verdict, allowed, inspect)
    if (after := _revive_step(allowed, runtime, code)) is not None:
        gone = "its working directory is gone: restore that first, then resume it"
        return (inspect, gone) if place_gone and ActionName.RESUME in allowed else after
    if code is not None and code in _AT_ITS_PANE and attach is not None:
        return attach, _AT_ITS_PANE[code]
    if ActionName.REVIVE in allowed:
        return allowed[ActionName.REVIVE], _REVIVE_TEXT
    if (forbidden := _forbidden_step(record, inspect)) is not None:
        return forbidden
    if code is not None or verdict.health is Health.UNKNOWN:
        return inspect, "look at the evidence first; no action is safe without it"
    if verdict.state is State.WAITING:
        probable = any(wait.probable for wait in verdict.waits)
        return _answer_step(record, attach, inspect, probable=probable)
    if verdict.state is State.IDLE:
        return _prompt_step(record, allowed, inspect, unfinished)
    return allowed[ActionName.WAIT], "nothing is wrong; wait until it is done"


def _limit_step(
    record: SessionRecord, verdict: Verdict, allowed: _Allowed, inspect: tuple[str, ...]
) -> NextStep:
    """The step after the limit has ended: until then nothing helps."""
    has_end = any(wait.kind is WaitKind.LIMIT and wait.until is not None for wait in verdict.waits)
    send, attach = allowed.get(ActionName.SEND), allowed.get(ActionName.ATTACH)
    if record.managed and send is not None and has_end:
        return inspect, "wait: once the limit has ended, Wakeful continues it"
    if attach is not None:
        return attach, "wait until the limit has ended, then go to its pane and prompt it again"
    if send is not None:
        return send, "wait for the limit to end, at an unknown time, then prompt it again with this"
    return inspect, "wait until the limit has ended, then prompt it again where it was started"


def _forbidden_step(record: SessionRecord, inspect: tuple[str, ...]) -> NextStep | None:
    """The step if another machine, the mode, an interrupted call or a missing conversation prevents a resume."""
    if any(finding.code is FindingCode.RUNS_ELSEWHERE for finding in record.findings):
        return inspect, f"run `wakeful why` on {label(record.host)}: only that machine sees its processes"
    reasons = {action.reason for action in record.actions if not action.allowed}
    if NOTHING_WRITTEN in reasons:
        return inspect, NOTHING_WRITTEN
    if OBSERVING in reasons:
        return inspect, "the mode is observe: Wakeful acts on nothing, so look at it and act yourself"
    if INTERRUPTED_CALL not in reasons:
        return None
    revive = ("wakeful", "resume", record.id, "--yes")
    return revive, "resumes it, once you checked: the interrupted call may have happened"


def _prompt_step(
    record: SessionRecord, allowed: _Allowed, inspect: tuple[str, ...], unfinished: str | None
) -> NextStep:
    """How a session outside a turn gets its next prompt."""
    if record.state is State.DETACHED:
        well = unfinished or "nothing is wrong"
        return (
            inspect,
            f"{well}, but only the program that started it can prompt it; once stopped, it can be resumed",
        )
    if ActionName.ATTACH in allowed:
        done = unfinished or "nothing is wrong: it is done"
        return allowed[ActionName.ATTACH], f"{done}; go to its pane to prompt it"
    send = allowed.get(ActionName.SEND)
    done = f"{unfinished}: it" if unfinished else "nothing is wrong: it is done and"
    waits = f"{done} waits for a prompt"
    return (send, f"{waits}, which this gives it") if send else (inspect, f"{waits} where it was started")


def _revive_step(allowed: _Allowed, runtime: RuntimeState, code: FindingCode | None) -> NextStep | None:
    """How a session without a process comes back, if it can."""
    if ActionName.RESTART in allowed:
        return allowed[ActionName.ATTACH], "go to its agent, then restart or remove it"
    if ActionName.RESUME not in allowed or code is FindingCode.POISONED_CONVERSATION:
        return None
    revive = allowed.get(ActionName.REVIVE)
    if revive is not None and not runtime.orphans:
        # A managed session is resumed by the plan: with a note about interrupted calls, or after a person's decision.
        return revive, _REVIVE_TEXT
    if not runtime.orphans:
        return allowed[ActionName.RESUME], "resume the conversation where it stopped"
    rest = (
        "has ended: its tool still runs" if len(runtime.orphans) == 1 else "have ended: its tools still run"
    )
    text = f"resume it once {orphan_text(runtime.orphans)} {rest}, and would run twice"
    return allowed[ActionName.RESUME], text


def _answer_step(
    record: SessionRecord, attach: tuple[str, ...] | None, inspect: tuple[str, ...], *, probable: bool
) -> NextStep:
    if attach is not None:
        return attach, "go to its pane and see what it asks" if probable else "go to its pane and answer"
    if probable:
        return inspect, "find its terminal and see what it asks"
    if record.managed:
        argv = ("wakeful", "answer", record.id, "allow")
        return argv, "allows what it asks; `deny` refuses it"
    return inspect, "find its process, then answer it"


def _login_step(provider: str, place: tuple[str, ...], *, has_pane: bool) -> NextStep:
    login = LOGINS.get(provider)
    if login is None or (has_pane and provider == "claude"):
        return place, "go to its pane and type /login"
    return login, f"log in again with `{join(login)}`, then prompt it again"
