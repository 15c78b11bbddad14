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

# Asked for with every record; before Python 3.12 an enum's member is looked up anew each time it is named.
_ALIVE, _DEAD = ProcessState.ALIVE, ProcessState.DEAD


class ActionName(StrEnum):
    """All there are."""

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
    """Something a person or an agent can do about the session, whether it may, and the exact command."""

    name: ActionName
    allowed: bool
    reason: str
    argv: tuple[str, ...]
    reversible: bool


OBSERVING: Final = "the mode is observe: Wakeful acts on nothing"
AT_DIALOG: Final = "a dialog is open in its terminal: attach and answer it first"
INTERRUPTED_CALL: Final = "a call was cut off that may have happened elsewhere: a person has to look first"
# What Wakeful's own hands do; the rest is a person's, or changes nothing but who may act.
_BY_WAKEFUL: Final = frozenset(
    {
        ActionName.SEND,
        ActionName.INTERRUPT,
        ActionName.REVIVE,
        ActionName.RESUME,
        ActionName.RESTART,
        ActionName.STOP,
    }
)
# What would go on inside a call that was cut off, and may repeat it.
_CONTINUING: Final = frozenset({ActionName.REVIVE, ActionName.RESUME})
_WAIT, _ATTACH = ActionName.WAIT, ActionName.ATTACH
_RESUME_REASONS: Final = {
    ProcessState.DEAD: "its process is gone",
    ProcessState.ALIVE: "a live process holds it",
    ProcessState.UNKNOWN: "its process was not seen",
}
_BUSY: Final = {True: "a turn runs", False: "its process is gone"}
# What a revival does not help against; `plan` has the rules.
_NOT_HELPED: Final = {
    FindingCode.USAGE_LIMITED: "only time helps",
    FindingCode.AUTH_REQUIRED: "it needs a login",
    FindingCode.TWIN_PROCESSES: "two processes hold it: end one of them first",
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
    """Every act that has a meaning for this session, those that may not be done now with the reason.

    `path_open`: a prompt would arrive, also where no process waits for one.
    """
    actions = [AvailableAction(_WAIT, True, "blocks until it is idle", _wait_argv(identity), True)]
    pane = runtime.pane
    is_shown = pane is not None and pane.sight is _ALIVE
    if identity.agent is not None and not identity.managed:
        by_agent = _agent_actions(
            identity.agent, identity, verdict, state, is_shown=is_shown, at_dialog=_at_dialog(runtime)
        )
        return (*actions, *by_agent)
    if pane is not None and is_shown:
        argv = ("tmux", "-S", pane.socket, "attach-session", "-t", pane.target)
        actions.append(AvailableAction(_ATTACH, True, "its pane is open in tmux", argv, True))
    conversation = activity.conversation_id or identity.conversation_id
    if conversation is not None and identity.provider in RESUMABLE_CLIENTS:
        place = resume_place(identity.folder, runtime.cwd, activity.cwd)
        actions.append(_resume(identity, conversation, verdict, place))
        # Offered where somebody might want to act, not with every session that is well.
        if not identity.managed and (verdict.findings or verdict.agent is _DEAD):
            text = "Wakeful may then act on it"
            actions.append(
                AvailableAction(
                    ActionName.ADOPT, True, text, _wakeful_command(ActionName.ADOPT, identity), True
                )
            )
    if identity.managed:
        actions += _managed_actions(identity, runtime, verdict, state, path_open=path_open)
    return tuple(actions)


def is_cut_off(activity: Activity, verdict: Verdict) -> bool:
    """Whether something it began has not come back, and it is gone or in trouble: what of it may go on is asked then."""
    is_open = bool(activity.calls or activity.background)
    return is_open and (verdict.agent is _DEAD or bool(verdict.findings))


def restrict_actions(
    actions: tuple[AvailableAction, ...], *, observing: bool, held: bool
) -> tuple[AvailableAction, ...]:
    """The acts on a session that is ours, without those the mode or a call that was cut off forbids."""
    if observing:
        return tuple(_refuse(each, OBSERVING) if each.name in _BY_WAKEFUL else each for each in actions)
    if held:
        return tuple(
            _refuse(each, INTERRUPTED_CALL) if each.name in _CONTINUING else each for each in actions
        )
    return actions


def _refuse(action: AvailableAction, reason: str) -> AvailableAction:
    """What is not to be had anyway keeps the reason that says more of it."""
    return replace(action, allowed=False, reason=reason) if action.allowed else action


def _managed_actions(
    identity: SessionIdentity, runtime: RuntimeState, verdict: Verdict, state: State, *, path_open: bool
) -> list[AvailableAction]:
    """What Wakeful does to a session it was given."""
    in_turn = verdict.agent is _ALIVE and verdict.active_prompt
    interrupt, release = ActionName.INTERRUPT, ActionName.RELEASE
    return [
        _send(identity, verdict, state, path_open=path_open, at_dialog=_at_dialog(runtime)),
        AvailableAction(interrupt, in_turn, _TURN[in_turn], _wakeful_command(interrupt, identity), False),
        _revive(identity, runtime, verdict),
        _stop(verdict, _wakeful_command(ActionName.STOP, identity)),
        AvailableAction(
            release, True, "Wakeful then only watches it", _wakeful_command(release, identity), True
        ),
    ]


_TURN: Final = {True: "a turn runs", False: "no turn runs"}


def _agent_actions(
    agent: str, identity: SessionIdentity, verdict: Verdict, state: State, *, is_shown: bool, at_dialog: bool
) -> list[AvailableAction]:
    """What can be done to a session by the agent that hosts it; its conversation is nobody else's to go on with."""
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
    # A client with a process for each turn needs none to be given the next prompt.
    alive = verdict.agent is _ALIVE or path_open
    if state is State.DETACHED:
        return AvailableAction(
            ActionName.SEND, False, "no way leads to it", _wakeful_command(ActionName.SEND, identity), False
        )
    if at_dialog:
        return AvailableAction(
            ActionName.SEND, False, AT_DIALOG, _wakeful_command(ActionName.SEND, identity), False
        )
    idle = alive and not verdict.active_prompt
    reason = "it waits for a prompt" if idle else _BUSY[alive]
    return AvailableAction(ActionName.SEND, idle, reason, _wakeful_command(ActionName.SEND, identity), False)


def _at_dialog(runtime: RuntimeState) -> bool:
    return runtime.dialog is not None and runtime.agent_state is _ALIVE


def _stop(verdict: Verdict, argv: tuple[str, ...]) -> AvailableAction:
    alive = verdict.agent is _ALIVE
    return AvailableAction(
        ActionName.STOP, alive, "ends its agent" if alive else "its process is gone", argv, False
    )


def _revive(identity: SessionIdentity, runtime: RuntimeState, verdict: Verdict) -> AvailableAction:
    refused = _revive_refusal(runtime, verdict)
    reason = refused or "brings it back in its conversation, told what was cut off"
    return AvailableAction(
        ActionName.REVIVE, not refused, reason, _wakeful_command(ActionName.REVIVE, identity), False
    )


def _revive_refusal(runtime: RuntimeState, verdict: Verdict) -> str:
    """Why bringing it back is nothing to offer now; empty if it is."""
    if runtime.stopped:
        return why_final(runtime.heir, by_gateway=runtime.by_gateway)
    if not verdict.findings:
        return "nothing is wrong with it"
    code = verdict.findings[0].code
    if code in _NOT_HELPED:
        return _NOT_HELPED[code]
    if verdict.agent is ProcessState.UNKNOWN:
        return "nobody knows whether its process lives"
    # A runaway is revived once its progress ends, or where a rule of the operator says so.
    helps = code is FindingCode.RUNAWAY or MEANINGS[code, verdict.state].act is HealingAction.REVIVE
    return "" if helps else "a person has to look at it first"


def _resume(
    identity: SessionIdentity, conversation: ConversationId, verdict: Verdict, place: str | None
) -> AvailableAction:
    reason, allowed = _RESUME_REASONS[verdict.agent], verdict.agent is _DEAD
    if identity.managed:
        return AvailableAction(
            ActionName.RESUME, allowed, reason, _wakeful_command(ActionName.RESUME, identity), False
        )
    if place is None:
        return AvailableAction(ActionName.RESUME, False, "its folder is not known", (), False)
    argv = resume_argv(identity.provider, conversation, place)
    return AvailableAction(ActionName.RESUME, allowed, reason, argv, False)


def _wakeful_command(act: ActionName, identity: SessionIdentity) -> tuple[str, ...]:
    return ("wakeful", "session", act.value, identity.id)


def _wait_argv(identity: SessionIdentity) -> tuple[str, ...]:
    return (*_wakeful_command(_WAIT, identity), "--until", "idle")
