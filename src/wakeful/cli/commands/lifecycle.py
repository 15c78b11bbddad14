"""Commands `wakeful resume` and `wakeful stop`, for sessions and agents alike.

`resume` says what it will do before it does it. Where a call was interrupted that may have had effects elsewhere, a
person decides: `--done` goes on after the call, `--yes` lets the agent repeat it.
"""

from enum import StrEnum
from functools import partial
from shlex import quote
from typing import Final

import click

from wakeful.agents.model import AgentRecord, AgentState
from wakeful.cli.commands.agent import (
    fetch_records,
    post_action as post_agent_action,
    post_stop,
    record_of as agent_record_of,
    show_record,
)
from wakeful.cli.commands.healing import restore
from wakeful.cli.commands.mute import operator_name, resume_lines
from wakeful.cli.commands.session_control import environ, post_action, print_action
from wakeful.cli.names import NothingChosen, find_session
from wakeful.cli.options import completion_of, json_option, name_argument
from wakeful.cli.output import is_terminal, print_answer, print_line, print_note, read_choice
from wakeful.client.client import decode_body, own_daemon
from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.judging.available_actions import INTERRUPTED_CALL, ActionName, AvailableAction
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import PauseAnswer

# The order that brings an agent of this state back, and what is announced.
_AGENT_ORDERS: Final = {
    AgentState.STALE: ("restart-session", "restarting the session of agent {}"),
    AgentState.STOPPED: ("start", "starting agent {}"),
    AgentState.ERROR: ("start", "starting agent {}"),
}


class Answer(StrEnum):
    """A person's answer about the interrupted call."""

    DONE = "done"
    REPEAT = "repeat"


class NameNeeded(OperatorError):
    """Name what to resume, or use --all after a reboot."""

    code = "name-needed"


class NameOrAll(OperatorError):
    """Use either a name or --all."""

    code = "name-or-all"


class OneAnswer(OperatorError):
    """Use either --done (the call has happened) or --yes (it may be repeated)."""

    code = "one-answer"


class NothingToResume(OperatorError):
    """{shown} cannot be resumed: {reason}."""

    code = "nothing-to-resume"
    exit_code = 1


class DecisionNeeded(OperatorError):
    """{shown} was interrupted in a call that may have taken effect (`wakeful why {shown}` names it). Check, then run one of:\n  wakeful resume {shown} --done   it has happened: continue after it\n  wakeful resume {shown} --yes    continue; the call may be repeated"""

    code = "decision-needed"
    exit_code = 1


@click.command(epilog="Example: wakeful resume docs --dry-run")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion_of("places_like"))
@click.option(
    "--all", "everything", is_flag=True, help="Resume everything that a reboot or a dead tmux server ended."
)
@click.option("--done", is_flag=True, help="I checked: the interrupted call has happened. Continue after it.")
@click.option(
    "--yes", "approved", is_flag=True, help="I checked: continue; the interrupted call may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done without doing it.")
@json_option
@click.pass_context
def resume(
    context: click.Context,
    *,
    name: str | None,
    everything: bool,
    done: bool,
    approved: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Resume a session that is down, in its conversation, or a stale agent, in a new one.

    For crashed, interrupted and stopped sessions, and for sessions that wait for your decision.
    """
    if done and approved:
        raise OneAnswer
    if everything and name is not None:
        raise NameOrAll
    if everything:
        return int(context.invoke(restore, dry_run=dry_run, json_flag=as_json, output="text"))
    if name is None:
        return _end_pause(as_json=as_json)
    agent = _agent_named(name)
    if agent is not None:
        return _resume_agent(agent, dry_run=dry_run, as_json=as_json)
    answer = Answer.DONE if done else Answer.REPEAT if approved else None
    return _resume_session(find_session(name, acting=True), answer, dry_run=dry_run, as_json=as_json)


@click.command(epilog="Example: wakeful stop docs")
@partial(name_argument, like="places_like")
@click.option("--yes", is_flag=True, help="Stop an agent during a turn without asking.")
@json_option
def stop(*, session_id: str, yes: bool, as_json: bool) -> int:
    """Stop a session or agent and the tools it left running. It is not resumed automatically."""
    agent = _agent_named(session_id)
    if agent is not None:
        return show_record(post_stop(agent.name, yes=yes), as_json=as_json)
    found = find_session(session_id, acting=True)
    return print_action(post_action(found, "stop"), as_json=as_json)


def _agent_named(name: str) -> AgentRecord | None:
    return next((each for each in fetch_records() if each.name == name), None)


def _end_pause(*, as_json: bool) -> int:
    """`wakeful resume` alone ended a pause in earlier versions, and still does. Raises NameNeeded."""
    answer = own_daemon().post("/api/resume")
    if not decode_body(answer.body, PauseAnswer).changed:
        raise NameNeeded
    print_note("the pause is over; the command for this is now `wakeful unpause`")
    return print_answer(answer, resume_lines, as_json=as_json)


def _resume_agent(agent: AgentRecord, *, dry_run: bool, as_json: bool) -> int:
    if agent.state not in _AGENT_ORDERS:
        raise NothingToResume(shown=agent.name, reason=f"the agent is {agent.state}")
    order, words = _AGENT_ORDERS[agent.state]
    if _announce(words.format(agent.name), dry_run=dry_run):
        return 0
    return show_record(post_agent_action(agent.name, order), as_json=as_json)


def _resume_session(session_id: SessionId, answer: Answer | None, *, dry_run: bool, as_json: bool) -> int:
    record = decode_body(own_daemon().get(f"/api/sessions/{session_id}").body, SessionRecord)
    shown = quote(record.short_name or record.name or session_id)
    actions = {each.name: each for each in record.actions}
    if ActionName.RESTART in actions and record.agent is not None:
        return _resume_agent(agent_record_of(record.agent), dry_run=dry_run, as_json=as_json)
    revive, resumed = actions.get(ActionName.REVIVE), actions.get(ActionName.RESUME)
    if _is_interrupted(revive) or _is_interrupted(resumed):
        answer = answer or _ask_person(shown)
    if answer is not None or (revive is not None and revive.allowed):
        if _announce(f"resuming {shown} with a note about the interrupted call", dry_run=dry_run):
            return 0
        order = {"approved": answer is not None, "happened": answer is Answer.DONE, "by": operator_name()}
        return print_action(post_action(session_id, "revive", order), as_json=as_json)
    if resumed is None or not resumed.allowed:
        raise NothingToResume(shown=shown, reason=_refusal(resumed, revive, actions.get(ActionName.ADOPT)))
    if not record.managed:
        if _announce(f"{shown} is watched only: adopting it, then resuming it", dry_run=dry_run):
            return 0
        return _adopt_and_resume(session_id, answer, as_json=as_json)
    if _announce(f"resuming {shown} in its conversation", dry_run=dry_run):
        return 0
    return print_action(post_action(session_id, "resume", {"environ": environ()}), as_json=as_json)


def _adopt_and_resume(session_id: SessionId, answer: Answer | None, *, as_json: bool) -> int:
    """Resume a watched session, in which an interrupted call counts once it is managed. Without a decision it stays watched."""
    post_action(session_id, "adopt", {"name": None})
    try:
        return _resume_session(session_id, answer, dry_run=False, as_json=as_json)
    except (DecisionNeeded, NothingChosen):
        post_action(session_id, "release")
        raise


def _announce(words: str, *, dry_run: bool) -> bool:
    """Say what comes; True if it is only said."""
    if dry_run:
        print_line(f"dry run: {words}")
    else:
        print_note(f"{words} …")
    return dry_run


def _is_interrupted(action: AvailableAction | None) -> bool:
    return action is not None and action.reason == INTERRUPTED_CALL


def _refusal(*actions: AvailableAction | None) -> str:
    return next(
        (each.reason for each in actions if each is not None and not each.allowed),
        "its agent cannot be resumed",
    )


def _ask_person(shown: str) -> Answer:
    """What became of the interrupted call. Raises DecisionNeeded outside a terminal."""
    if not is_terminal():
        raise DecisionNeeded(shown=shown)
    print_line(
        f"{shown} was interrupted in a call that may have taken effect (`wakeful why {shown}` names it)."
    )
    match read_choice("Has it [h]appened, may it be [r]epeated, or [c]ancel? "):
        case "h" | "happened":
            return Answer.DONE
        case "r" | "repeat" | "repeated":
            return Answer.REPEAT
        case _:
            raise NothingChosen
