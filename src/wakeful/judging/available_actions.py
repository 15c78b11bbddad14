"""Lists the actions on a session: whether each is possible now, why not, and its command. Pure.

Agents and scripts rely on this list, and every view draws its buttons from it. It is no permission: the
action gate decides again, by the newest evidence.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.ids import ConversationId
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import RuntimeState, SessionIdentity, why_final
from wakeful.judging.findings import MEANINGS, FindingCode, HealingAction, State, Verdict
from wakeful.judging.resume_command import RESUMABLE_CLIENTS, resume_argv, resume_place

# Used for every record; before Python 3.12 each use of an enum's member is a new lookup.
_ALIVE, _DEAD = ProcessState.ALIVE, ProcessState.DEAD


class ActionName(StrEnum):
    WAIT = "wait"
    ATTACH = "attach"
    SEND = "send"
    INTERRUPT = "interrupt"
    REVIVE = "revive"
    RESUME = "resume"
    RESTART = "restart"
    STOP = "stop"
    ADOPT = "adopt"
    RELEASE = "release"


class AvailableAction(Struct, frozen=True, gc=False):
    """An action on the session for a person or an agent, whether it is allowed, and the exact command."""

    name: ActionName
    allowed: bool
    reason: str
    argv: tuple[str, ...]
    reversible: bool


OBSERVING: Final = "the mode is observe: Wakeful acts on nothing"
AT_DIALOG: Final = "a dialog is open in its terminal: attach and answer it first"
NOTHING_WRITTEN: Final = "nothing was written, or its log was deleted: there is no conversation to resume"
NO_CONVERSATION: Final = "its conversation has not begun: attach and answer its dialog first"
INTERRUPTED_CALL: Final = "an interrupted call may have had effects elsewhere: a person has to check first"
# Performed by Wakeful; the others are for a person, or only change whether Wakeful may act.
_BY_WAKEFUL: Final = frozenset(ActionName) - {ActionName.WAIT, ActionName.ATTACH, ActionName.ADOPT, ActionName.RELEASE}  # fmt: skip
# They continue an interrupted call and may repeat it.
_CONTINUING: Final = frozenset({ActionName.REVIVE, ActionName.RESUME})
_WAIT, _ATTACH = ActionName.WAIT, ActionName.ATTACH
_RESUME_REASONS: Final = {
    ProcessState.DEAD: "its process is gone",
    ProcessState.ALIVE: "a live process uses it",
    ProcessState.UNKNOWN: "its process was not seen",
}
_BUSY: Final = {True: "a turn runs", False: "its process is gone"}
# Findings that a resume does not help; `plan` has the rules.
_NOT_HELPED: Final = {
    FindingCode.USAGE_LIMITED: "only time helps",
    FindingCode.AUTH_REQUIRED: "it needs a login",
    FindingCode.TWIN_PROCESSES: "two processes use it: end one of them first",
}


def possible_actions(
    identity: SessionIdentity,
    activity: Activity,
    runtime: RuntimeState,
    verdict: Verdict,
    state: State,
    *,
    path_open: bool = False,
) -> tuple[AvailableAction, ...]:
    """Every action that makes sense for this session; those that are not allowed now with the reason.

    `path_open`: a prompt would arrive, even if no process waits for one.
    """
    if runtime.other_machine is not None:
        return ()
    wait_argv = (*_wakeful_command(_WAIT, identity), "--until", "idle")
    actions = [AvailableAction(_WAIT, True, "blocks until it is idle", wait_argv, True)]
    pane = runtime.pane
    is_shown = pane is not None and pane.sight is _ALIVE
    if identity.agent is not None and not identity.managed:
        by_agent = _agent_actions(
            identity.agent, identity, verdict, state, is_shown=is_shown, at_dialog=_at_dialog(runtime)
        )
        return (*actions, *by_agent)
    if pane is not None and is_shown:
        argv = ("wakeful", "attach", identity.id)
        actions.append(AvailableAction(_ATTACH, True, "its pane is open in tmux", argv, True))
    conversation = activity.conversation_id or identity.conversation_id
    if conversation is not None and identity.provider in RESUMABLE_CLIENTS:
        place = resume_place(identity.folder, runtime.cwd, activity.cwd)
        actions.append(_resume(identity, conversation, activity, verdict, place))
    if identity.managed:
        actions += _managed_actions(identity, runtime, verdict, state, path_open=path_open)
    else:
        refused = adoption_refusal(identity, activity, runtime)
        # Offered if there is a reason to act, not for every healthy session.
        if verdict.agent is _ALIVE if refused else verdict.findings or verdict.agent is _DEAD:
            text = refused or "Wakeful may then act on it"
            actions.append(_by_command(identity, ActionName.ADOPT, not refused, text, reversible=True))
    return tuple(actions)


def adoption_refusal(identity: SessionIdentity, activity: Activity, runtime: RuntimeState) -> str:
    """Why the session cannot be adopted; empty if it can."""
    if identity.provider not in RESUMABLE_CLIENTS:
        return "only Claude Code and Codex sessions can be adopted"
    if (activity.conversation_id or identity.conversation_id) is None:
        return NO_CONVERSATION if runtime.dialog is not None else "its conversation is not known"
    if (activity.cwd or runtime.cwd) is None:
        return "its folder is not known"
    return ""


def is_cut_off(activity: Activity, verdict: Verdict) -> bool:
    """Whether it has unfinished calls, and is dead or has a finding: only then their effects matter."""
    is_open = bool(activity.calls or activity.background)
    return is_open and (verdict.agent is _DEAD or bool(verdict.findings))


def restrict_actions(
    actions: tuple[AvailableAction, ...], *, observing: bool, held: bool
) -> tuple[AvailableAction, ...]:
    """The actions on a managed session; the mode and interrupted calls forbid some of them."""
    if observing:
        return tuple(_refuse(each, OBSERVING) if each.name in _BY_WAKEFUL else each for each in actions)
    if held:
        return tuple(
            _refuse(each, INTERRUPTED_CALL) if each.name in _CONTINUING else each for each in actions
        )
    return actions


def _refuse(action: AvailableAction, reason: str) -> AvailableAction:
    """An action that is refused already keeps its more specific reason."""
    return replace(action, allowed=False, reason=reason) if action.allowed else action


def _managed_actions(
    identity: SessionIdentity, runtime: RuntimeState, verdict: Verdict, state: State, *, path_open: bool
) -> list[AvailableAction]:
    in_turn = verdict.agent is _ALIVE and verdict.active_prompt
    refused = _revive_refusal(runtime, verdict)
    revived = refused or "resumes it in its conversation, with a note about the interrupted call"
    return [
        _send(identity, verdict, state, path_open=path_open, at_dialog=_at_dialog(runtime)),
        _by_command(identity, ActionName.INTERRUPT, in_turn, _TURN[in_turn]),
        _by_command(identity, ActionName.REVIVE, not refused, revived),
        _stop(verdict, _wakeful_command(ActionName.STOP, identity)),
        _by_command(identity, ActionName.RELEASE, True, "Wakeful then only watches it", reversible=True),
    ]


_TURN: Final = {True: "a turn runs", False: "no turn runs"}


def _agent_actions(
    agent: str, identity: SessionIdentity, verdict: Verdict, state: State, *, is_shown: bool, at_dialog: bool
) -> list[AvailableAction]:
    """Actions through the agent that hosts the session; only that agent may continue its conversation."""
    restart = ("wakeful", "agent", "restart-session", agent)
    reason = _RESUME_REASONS[verdict.agent]
    return [
        AvailableAction(_ATTACH, True, "goes to its agent", ("wakeful", "attach", agent), True),
        *([_send(identity, verdict, state, at_dialog=at_dialog)] if is_shown else []),
        AvailableAction(ActionName.RESTART, verdict.agent is _DEAD, reason, restart, False),
        _stop(verdict, ("wakeful", "agent", "stop", agent)),
    ]


def _send(
    identity: SessionIdentity,
    verdict: Verdict,
    state: State,
    *,
    path_open: bool = False,
    at_dialog: bool = False,
) -> AvailableAction:
    if state is State.DETACHED:
        return _by_command(identity, ActionName.SEND, False, "no way leads to it")
    if at_dialog:
        return _by_command(identity, ActionName.SEND, False, AT_DIALOG)
    # A client with one process per turn needs no process for the next prompt.
    alive = verdict.agent is _ALIVE or path_open
    idle = alive and not verdict.active_prompt
    return _by_command(identity, ActionName.SEND, idle, "it waits for a prompt" if idle else _BUSY[alive])


def _at_dialog(runtime: RuntimeState) -> bool:
    return runtime.dialog is not None and runtime.agent_state is _ALIVE


def _stop(verdict: Verdict, argv: tuple[str, ...]) -> AvailableAction:
    alive = verdict.agent is _ALIVE
    return AvailableAction(
        ActionName.STOP, alive, "ends its agent" if alive else "its process is gone", argv, False
    )


def _revive_refusal(runtime: RuntimeState, verdict: Verdict) -> str:
    """Why a resume is not offered now; empty if it is."""
    if runtime.stopped:
        return why_final(runtime.heir, by_gateway=runtime.by_gateway)
    if not verdict.findings:
        return "nothing is wrong with it"
    code = verdict.findings[0].code
    if code in _NOT_HELPED:
        return _NOT_HELPED[code]
    if verdict.agent is ProcessState.UNKNOWN:
        return "it is unknown whether its process is alive"
    # A runaway is resumed once its progress ends, or by a rule of the operator.
    helps = code is FindingCode.RUNAWAY or MEANINGS[code, verdict.state].act is HealingAction.REVIVE
    return "" if helps else "a person has to check it first"


def _resume(
    identity: SessionIdentity,
    conversation: ConversationId,
    activity: Activity,
    verdict: Verdict,
    place: str | None,
) -> AvailableAction:
    reason, allowed = _RESUME_REASONS[verdict.agent], verdict.agent is _DEAD
    if allowed and activity.last_at is None:
        reason, allowed = NOTHING_WRITTEN, False
    if identity.managed:
        return _by_command(identity, ActionName.RESUME, allowed, reason)
    if place is None:
        return AvailableAction(ActionName.RESUME, False, "its folder is not known", (), False)
    argv = resume_argv(identity.provider, conversation, place)
    return AvailableAction(ActionName.RESUME, allowed, reason, argv, False)


def _by_command(
    identity: SessionIdentity, name: ActionName, allowed: bool, reason: str, *, reversible: bool = False
) -> AvailableAction:
    return AvailableAction(name, allowed, reason, _wakeful_command(name, identity), reversible)


def _wakeful_command(name: ActionName, identity: SessionIdentity) -> tuple[str, ...]:
    if name is _WAIT:
        return ("wakeful", "session", "wait", identity.id)
    # One verb brings back whatever is down.
    verb = ActionName.RESUME if name is ActionName.REVIVE else name
    return ("wakeful", verb.value, identity.id)
