"""Actions of `wakeful top`: which are offered, what is confirmed first, and the requests to the daemon.

The record's `actions` decide what is offered; besides, only mute, wrong and the adoption of a live session
are.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from wakeful.agents.model import AgentState
from wakeful.checkpoints.model import CheckpointChoice, ChoiceName
from wakeful.cli.commands.mute import operator_name
from wakeful.cli.commands.session_control import ACTION_SECONDS_MAX, action_text, environ
from wakeful.client.client import DaemonClient
from wakeful.client.errors import DaemonRefused
from wakeful.control.driver import PermissionQuestion
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError
from wakeful.core.text import plain
from wakeful.judging.available_actions import INTERRUPTED_CALL, ActionName
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.wording import call_text

MUTE_SECONDS: Final = 2 * 3600
# Refusals that a person's approval overcomes.
APPROVAL_NEEDED_CODES: Final = frozenset({"held-for-person", "held-in-queue"})
BUSY_CODE: Final = "agent-busy"
NOT_MANAGED: Final = "not managed by Wakeful; `a` adopts it"

Body = dict[str, object]


class ActionRequest(NamedTuple):
    """One action: its target, the question, the explanation, and the body."""

    target: str
    asked: str
    told: str
    body: Body


class KeyedAction(NamedTuple):
    key: str
    label: str
    order: ActionRequest


def shown_name(record: SessionRecord) -> str:
    """Its short name; a daemon of an earlier version sends none."""
    return plain(record.short_name or record.name or str(record.id), 80)


def refusal_reason(act: str, record: SessionRecord) -> str:
    """Why an action is not available now; empty if it is."""
    known = {action.name: action for action in record.actions}
    is_hosted = ActionName.RESTART in known
    if act in {"mute", "wrong"}:
        return ""
    if is_hosted and act in {"adopt", "release"}:
        return f"agent {record.agent} hosts it"
    if act == "adopt" and ActionName.ADOPT not in known:
        # Records offer it only after a problem; a living session can be adopted at any time.
        return "" if record.session_alive else "its process was not found"
    action = known.get(ActionName.RESTART if is_hosted and act == "revive" else ActionName(act))
    if action is None:
        adopt = known.get(ActionName.ADOPT)
        return NOT_MANAGED if adopt is None or adopt.allowed else adopt.reason
    return "" if action.allowed else action.reason


def session_request(act: str, record: SessionRecord, expected: str = "ok") -> ActionRequest:
    """The request for this session. `expected` is the right verdict, for `wrong`."""
    is_hosted = any(action.name is ActionName.RESTART for action in record.actions)
    if is_hosted and act in _AGENT_ACTION_OF:
        return agent_request(_AGENT_ACTION_OF[act], record.agent or "")
    label = shown_name(record)
    bodies: dict[str, Body] = {
        "revive": {"approved": False, "by": operator_name()},
        "mute": {"for_seconds": MUTE_SECONDS, "by": operator_name()},
        "wrong": {"expect": expected, "note": ""},
    }
    asked = f"{_LABELS.get(act, act.capitalize())} {label}?"
    return ActionRequest(f"/api/sessions/{record.id}/{act}", asked, _EXPLANATIONS[act], bodies.get(act, {}))


def approved_revival(record: SessionRecord) -> ActionRequest:
    """The revival of a session that was cut off inside a call with possible effects: a person approves it."""
    order = session_request("revive", record)
    told = f"Needs your approval: {INTERRUPTED_CALL}. Key 2 shows the call."
    return order._replace(asked=_APPROVAL_QUESTION, told=told, body={**order.body, "approved": True})


_APPROVAL_QUESTION: Final = "Did you check the interrupted call? Resume the session?"
# What people read for the names that the interface keeps.
_LABELS: Final = {"revive": "Resume", "wrong": "Wrong verdict:"}
_EXPLANATIONS: Final = {
    "revive": "The conversation continues, with a note about the interrupted call.",
    "stop": "Wakeful ends the agent process. After your stop, Wakeful does not resume the session by itself.",
    "adopt": "Wakeful may then act on the session: resume it when it crashes, stop it when you ask.",
    "release": "Wakeful keeps watching the session and no longer acts on it. The agent keeps running.",
    "mute": "No alerts about it for 2 hours. Watching and healing continue.",
    "wrong": "Wakeful saves the evidence on this machine, redacted, as a case to test the rules.",
}
# A session of a managed agent is acted on through its agent.
_AGENT_ACTION_OF: Final = {"revive": "restart-session", "stop": "stop"}
_AGENT_QUESTIONS: Final = {
    "start": ("Start agent {}?", "Wakeful starts it as declared and shows it as running when it is ready."),
    "stop": ("Stop agent {}?", "Wakeful ends its session and removes its container, if it has one."),
    "tear-down": (
        "Tear agent {} down?",
        "Wakeful ends what still runs. You can resume the conversation later.",
    ),
    "restart-session": (
        "Restart the session of agent {}?",
        "Wakeful starts a new session in place of the old one.",
    ),
}
# As in the hub's table of transitions; the hub decides.
_AGENT_KEYS: Final[dict[AgentState, tuple[tuple[str, str], ...]]] = {
    AgentState.STOPPED: (("s", "start"),),
    AgentState.ERROR: (("s", "start"), ("x", "stop")),
    AgentState.STARTING: (("x", "stop"),),
    AgentState.RUNNING: (("x", "stop"),),
    AgentState.STALE: (("r", "restart-session"), ("x", "tear-down")),
    AgentState.UNKNOWN: (("x", "stop"),),
    AgentState.STOPPING: (),
}


def agent_request(act: str, name: str) -> ActionRequest:
    """A teardown is the stop of an agent without a session."""
    asked, told = _AGENT_QUESTIONS[act]
    path = "stop" if act == "tear-down" else act
    return ActionRequest(f"/api/agents/{name}/{path}", asked.format(plain(name, 60)), told, {})


def agent_actions(name: str, state: AgentState) -> tuple[KeyedAction, ...]:
    return tuple(
        KeyedAction(key, act.replace("-", " "), agent_request(act, name)) for key, act in _AGENT_KEYS[state]
    )


_CHOICE_KEYS: Final = {
    ChoiceName.CONTINUE: ("c", "continue"),
    ChoiceName.DONE: ("d", "it has happened"),
    ChoiceName.ROLLBACK: ("b", "roll back"),
    ChoiceName.ABORT: ("x", "abort"),
}


def choice_action(number: int, choice: CheckpointChoice) -> KeyedAction:
    """A decision about a checkpoint; its explanation shows what it will run."""
    key, label = _CHOICE_KEYS[choice.name]
    body: Body = {"by": operator_name()}
    if choice.name is ChoiceName.DONE:
        body["done"] = True
    if choice.name is ChoiceName.ROLLBACK:
        body["dry_run"] = False
    path = "continue" if choice.name is ChoiceName.DONE else choice.name.value
    told = "\n".join(plain(each, 200) for each in (choice.consequence, *choice.commands[1:]))
    asked = f"Checkpoint {number}: {label}?"
    return KeyedAction(key, label, ActionRequest(f"/api/checkpoints/{number}/{path}", asked, told, body))


def prompt_request(record: SessionRecord, text: str) -> ActionRequest:
    """A prompt is sent without another question."""
    return ActionRequest(f"/api/sessions/{record.id}/send", "", "", {"prompt": text, "environ": environ()})


def question_text(question: PermissionQuestion) -> str:
    """What would run. Only a call that begins as one is read as one: an agent may quote another in its words."""
    text = f"{question.tool} {question.untrusted}"
    return plain(call_text(text) if question.untrusted.startswith("{") else text, 300)


def answer_request(record: SessionRecord, question_id: str, reply: str) -> ActionRequest:
    body: Body = {"question_id": question_id, "reply": reply}
    return ActionRequest(f"/api/sessions/{record.id}/answer", "", "", body)


def approved_again(order: ActionRequest, refused: WakefulError) -> ActionRequest | None:
    """The same request with a person's approval; None where approval changes nothing."""
    code = refused.reason if isinstance(refused, DaemonRefused) else None
    told = plain(str(refused), 300)
    if code in APPROVAL_NEEDED_CODES and not order.body.get("approved"):
        return order._replace(asked=_APPROVAL_QUESTION, told=told, body={**order.body, "approved": True})
    if code == BUSY_CODE and not order.body.get("yes"):
        return order._replace(asked="Stop it during its turn?", told=told, body={"yes": True})
    return None


def send_action(client: DaemonClient, order: ActionRequest) -> str:
    """Send the request; its result in a few words. Blocks. Raises DaemonAway or DaemonRefused."""
    answer = client.post(order.target, msgspec.json.encode(order.body), timeout_seconds=ACTION_SECONDS_MAX)
    said = decode_json(answer.body)
    return plain(_outcome_text(order.target, said), 200)


def _outcome_text(target: str, said: Mapping[str, Any]) -> str:
    act = target.rpartition("/")[2]
    if act == "mute":
        return f"muted until {said.get('until', '')[11:16]} UTC"
    if act == "wrong":
        return f"saved in {said.get('path', '')}, thank you"
    if act in _OWNERSHIP_RESULTS:
        return _OWNERSHIP_RESULTS[act]
    if target.startswith("/api/agents/"):
        return f"agent {said.get('name', '')} is {said.get('state', '')}"
    outcome = str(said.get("outcome") or "")
    if act in {"send", "answer"}:
        return action_text(str(said.get("act")), outcome, str(said.get("words")))
    parts = (_LABELS.get(act, act).lower(), _OUTCOME_TEXTS.get(outcome, outcome), said.get("words"))
    return ": ".join(str(each) for each in parts if each)


# A confirmed result needs no word.
_OUTCOME_TEXTS: Final = {
    "recovered": "",
    "unverified": "unconfirmed",
    "ineffective": "no effect",
    "declined": "refused",
}
_OWNERSHIP_RESULTS: Final = {
    "adopt": "the session is managed now",
    "release": "the session is watched only now",
}
