"""Lists the actions on a session: whether each is possible now, why not, and its command. Pure.

Agents and scripts rely on this list, and every view draws its buttons from it. It is no permission: the
action gate decides again, by the newest evidence.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.ids import ConversationId
from wakeful.core.process import Sight
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import Presence, Subject, why_final
from wakeful.judging.findings import MEANINGS, Act, Code, State, Verdict
from wakeful.judging.resuming import RESUMED_BY_HAND, resume_argv, resume_place

# Asked for with every record; before Python 3.12 an enum's member is looked up anew each time it is named.
_ALIVE, _DEAD = Sight.ALIVE, Sight.DEAD


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


class Action(Struct, frozen=True, gc=False):
    """Something a person or an agent can do about the session, whether it may, and the exact command."""

    name: ActionName
    allowed: bool
    reason: str
    argv: tuple[str, ...]
    reversible: bool


OBSERVING: Final = "the mode is observe: Wakeful acts on nothing"
AT_DIALOG: Final = "a dialog is open in its terminal: attach and answer it first"
HELD: Final = "a call was cut off that may have happened elsewhere: a person has to look first"
# What Wakeful's own hands do; the rest is a person's, or changes nothing but who may act.
_BY_HANDS: Final = frozenset(
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
_GOING_ON: Final = frozenset({ActionName.REVIVE, ActionName.RESUME})
_WAIT, _ATTACH = ActionName.WAIT, ActionName.ATTACH
_RESUME_REASONS: Final = {
    Sight.DEAD: "its process is gone",
    Sight.ALIVE: "a live process holds it",
    Sight.UNKNOWN: "its process was not seen",
}
_BUSY: Final = {True: "a turn runs", False: "its process is gone"}
# What a revival does not help against; `plan` has the rules.
_NOT_HELPED: Final = {
    Code.USAGE_LIMITED: "only time helps",
    Code.AUTH_REQUIRED: "it needs a login",
    Code.TWIN_PROCESSES: "two processes hold it: end one of them first",
}


def possible_actions(
    subject: Subject,
    activity: Activity,
    presence: Presence,
    verdict: Verdict,
    state: State,
    *,
    path_open: bool = False,
) -> tuple[Action, ...]:
    """Every act that has a meaning for this session, those that may not be done now with the reason.

    `path_open`: a prompt would arrive, also where no process waits for one.
    """
    actions = [Action(_WAIT, True, "blocks until it is idle", _wait_argv(subject), True)]
    pane = presence.pane
    is_shown = pane is not None and pane.sight is _ALIVE
    if subject.agent is not None and not subject.managed:
        by_agent = _agent_actions(
            subject.agent, subject, verdict, state, is_shown=is_shown, at_dialog=_at_dialog(presence)
        )
        return (*actions, *by_agent)
    if pane is not None and is_shown:
        argv = ("tmux", "-S", pane.socket, "attach-session", "-t", pane.target)
        actions.append(Action(_ATTACH, True, "its pane is open in tmux", argv, True))
    conversation = activity.conversation_id or subject.conversation_id
    if conversation is not None and subject.provider in RESUMED_BY_HAND:
        place = resume_place(subject.folder, presence.cwd, activity.cwd)
        actions.append(_resume(subject, conversation, verdict, place))
        # Offered where somebody might want to act, not with every session that is well.
        if not subject.managed and (verdict.findings or verdict.agent is _DEAD):
            text = "Wakeful may then act on it"
            actions.append(Action(ActionName.ADOPT, True, text, _ours(ActionName.ADOPT, subject), True))
    if subject.managed:
        actions += _managed_actions(subject, presence, verdict, state, path_open=path_open)
    return tuple(actions)


def is_cut_off(activity: Activity, verdict: Verdict) -> bool:
    """Whether something it began has not come back, and it is gone or in trouble: what of it may go on is asked then."""
    is_open = bool(activity.calls or activity.background)
    return is_open and (verdict.agent is _DEAD or bool(verdict.findings))


def restrained(actions: tuple[Action, ...], *, observing: bool, held: bool) -> tuple[Action, ...]:
    """The acts on a session that is ours, without those the mode or a call that was cut off forbids."""
    if observing:
        return tuple(_refused(each, OBSERVING) if each.name in _BY_HANDS else each for each in actions)
    if held:
        return tuple(_refused(each, HELD) if each.name in _GOING_ON else each for each in actions)
    return actions


def _refused(action: Action, reason: str) -> Action:
    """What is not to be had anyway keeps the reason that says more of it."""
    return replace(action, allowed=False, reason=reason) if action.allowed else action


def _managed_actions(
    subject: Subject, presence: Presence, verdict: Verdict, state: State, *, path_open: bool
) -> list[Action]:
    """What Wakeful does to a session it was given."""
    in_turn = verdict.agent is _ALIVE and verdict.active_prompt
    interrupt, release = ActionName.INTERRUPT, ActionName.RELEASE
    return [
        _send(subject, verdict, state, path_open=path_open, at_dialog=_at_dialog(presence)),
        Action(interrupt, in_turn, _TURN[in_turn], _ours(interrupt, subject), False),
        _revive(subject, presence, verdict),
        _stop(verdict, _ours(ActionName.STOP, subject)),
        Action(release, True, "Wakeful then only watches it", _ours(release, subject), True),
    ]


_TURN: Final = {True: "a turn runs", False: "no turn runs"}


def _agent_actions(
    agent: str, subject: Subject, verdict: Verdict, state: State, *, is_shown: bool, at_dialog: bool
) -> list[Action]:
    """What can be done to a session by the agent that hosts it; its conversation is nobody else's to go on with."""
    restart = ("wakeful", "agent", "restart-session", agent)
    reason = _RESUME_REASONS[verdict.agent]
    return [
        Action(_ATTACH, True, "goes to its agent", ("wakeful", "attach", agent), True),
        *([_send(subject, verdict, state, at_dialog=at_dialog)] if is_shown else []),
        Action(ActionName.RESTART, verdict.agent is _DEAD, reason, restart, False),
        _stop(verdict, ("wakeful", "agent", "stop", agent)),
    ]


def _send(
    subject: Subject, verdict: Verdict, state: State, *, path_open: bool = False, at_dialog: bool = False
) -> Action:
    # A client with a process for each turn needs none to be given the next prompt.
    alive = verdict.agent is _ALIVE or path_open
    if state is State.DETACHED:
        return Action(ActionName.SEND, False, "no way leads to it", _ours(ActionName.SEND, subject), False)
    if at_dialog:
        return Action(ActionName.SEND, False, AT_DIALOG, _ours(ActionName.SEND, subject), False)
    idle = alive and not verdict.active_prompt
    reason = "it waits for a prompt" if idle else _BUSY[alive]
    return Action(ActionName.SEND, idle, reason, _ours(ActionName.SEND, subject), False)


def _at_dialog(presence: Presence) -> bool:
    return presence.dialog is not None and presence.agent is _ALIVE


def _stop(verdict: Verdict, argv: tuple[str, ...]) -> Action:
    alive = verdict.agent is _ALIVE
    return Action(ActionName.STOP, alive, "ends its agent" if alive else "its process is gone", argv, False)


def _revive(subject: Subject, presence: Presence, verdict: Verdict) -> Action:
    refused = _not_revived(presence, verdict)
    reason = refused or "brings it back in its conversation, told what was cut off"
    return Action(ActionName.REVIVE, not refused, reason, _ours(ActionName.REVIVE, subject), False)


def _not_revived(presence: Presence, verdict: Verdict) -> str:
    """Why bringing it back is nothing to offer now; empty if it is."""
    if presence.stopped:
        return why_final(presence.heir, by_gateway=presence.by_gateway)
    if not verdict.findings:
        return "nothing is wrong with it"
    code = verdict.findings[0].code
    if code in _NOT_HELPED:
        return _NOT_HELPED[code]
    if verdict.agent is Sight.UNKNOWN:
        return "nobody knows whether its process lives"
    # A runaway is revived once its progress ends, or where a rule of the operator says so.
    helps = code is Code.RUNAWAY or MEANINGS[code, verdict.state].act is Act.REVIVE
    return "" if helps else "a person has to look at it first"


def _resume(subject: Subject, conversation: ConversationId, verdict: Verdict, place: str | None) -> Action:
    reason, allowed = _RESUME_REASONS[verdict.agent], verdict.agent is _DEAD
    if subject.managed:
        return Action(ActionName.RESUME, allowed, reason, _ours(ActionName.RESUME, subject), False)
    if place is None:
        return Action(ActionName.RESUME, False, "its folder is not known", (), False)
    argv = resume_argv(subject.provider, conversation, place)
    return Action(ActionName.RESUME, allowed, reason, argv, False)


def _ours(act: ActionName, subject: Subject) -> tuple[str, ...]:
    return ("wakeful", "session", act.value, subject.id)


def _wait_argv(subject: Subject) -> tuple[str, ...]:
    return (*_ours(_WAIT, subject), "--until", "idle")
