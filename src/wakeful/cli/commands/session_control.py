"""Commands `wakeful session send|questions|answer|interrupt|resume|stop|adopt|release|repair`.

The daemon acts; these commands ask it and show the result. Exit 0: confirmed, 1: no effect, 5: unconfirmed.
`repair` compares the stored record of a session with its present state and corrects it.
"""

import os
import sys
from typing import Any, Final

import click
import msgspec

from wakeful.cli.format.sessions import value_text
from wakeful.cli.options import acted_session_argument, json_option, name_argument, session_argument
from wakeful.cli.output import print_answer, print_json, print_line
from wakeful.client.client import DaemonAnswer, decode_body, own_daemon
from wakeful.control.driver import PROMPT_BYTES_MAX
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.ids import SessionId
from wakeful.linux.child_environment import given_environ
from wakeful.views.records import ManagedRecord, QuestionList

# A stop goes up a ladder of patience; starting a client takes seconds on a busy machine.
ACTION_SECONDS_MAX: Final = 120.0
# Of each action: the words for a confirmed one, and its name.
_ACTIONS: Final = {
    "start": ("started", "start"),
    "resume": ("resumed", "resume"),
    "deliver": ("prompt sent", "prompt"),
    "answer": ("answered", "answer"),
    "interrupt": ("turn interrupted", "interrupt"),
    "stop": ("stopped", "stop"),
}
_FAILURES: Final = {"unverified": "unconfirmed", "ineffective": "had no effect", "declined": "refused"}


class PromptNotSent(OperatorError):
    """This prompt was not sent: {reason}."""

    code = "prompt-not-sent"


class NoQuestion(OperatorError):
    """{shown} has no open question."""

    code = "no-question"
    exit_code = 1


class SeveralQuestions(OperatorError):
    """{shown} asks {count} questions. Name one with --question: {ids}"""

    code = "several-questions"


@click.command(epilog="Example: wakeful send docs 'run the tests again'")
@name_argument
@click.argument("prompt", required=False)
@json_option
def send(*, session_id: str, prompt: str | None, as_json: bool) -> int:
    """Send a prompt to a managed session. Without PROMPT, or with -, it is read from standard input."""
    from wakeful.cli.names import with_session  # noqa: PLC0415 - the help needs none of it

    # Once, before the session is looked up: standard input cannot be read again.
    order = {"prompt": prompt_text("-" if prompt is None else prompt), "environ": environ()}
    return with_session(
        session_id,
        lambda found: print_action(post_action(found, "send", order), as_json=as_json),
        acting=True,
    )


@click.command(epilog="Example: wakeful session questions 3f2a91bc")
@session_argument
@json_option
def questions(*, session_id: SessionId, as_json: bool) -> int:
    """Show what a managed session asks permission for."""
    return print_answer(_fetch_questions(session_id), question_lines, as_json=as_json)


def question_lines(body: bytes) -> list[str]:
    return [f"{each.id}  {each.tool}  {each.untrusted}" for each in decode_body(body, QuestionList).questions]


@click.command(epilog="Example: wakeful answer docs allow")
@acted_session_argument
@click.argument("reply", type=click.Choice(["allow", "deny"]))
@click.option(
    "--question", help="Id of the question, if there are several. List them with `session questions`."
)
@json_option
def answer(*, session_id: SessionId, reply: str, question: str | None, as_json: bool) -> int:
    """Answer the permission question of a managed session."""
    body = {"question_id": question or _only_question(session_id), "reply": reply}
    return print_action(post_action(session_id, "answer", body), as_json=as_json)


@click.command(epilog="Example: wakeful interrupt docs")
@acted_session_argument
@json_option
def interrupt(*, session_id: SessionId, as_json: bool) -> int:
    """Interrupt the running turn of a managed session. Its agent stays."""
    return print_action(post_action(session_id, "interrupt"), as_json=as_json)


@click.command(epilog="Example: wakeful session resume 3f2a91bc")
@acted_session_argument
@json_option
def resume(*, session_id: SessionId, as_json: bool) -> int:
    """Resume a managed session whose agent ended, with this command's environment."""
    return print_action(post_action(session_id, "resume", {"environ": environ()}), as_json=as_json)


@click.command(epilog="Example: wakeful session stop 3f2a91bc")
@acted_session_argument
@json_option
def stop(*, session_id: SessionId, as_json: bool) -> int:
    """Stop a managed session's agent and the tools it left running. It is not resumed automatically."""
    return print_action(post_action(session_id, "stop"), as_json=as_json)


@click.command(epilog="Example: wakeful adopt api --name fox")
@acted_session_argument
@click.option("--name", metavar="NAME", help="New name of the session.")
@json_option
def adopt(*, session_id: SessionId, name: str | None, as_json: bool) -> int:
    """Let Wakeful act on a session that you started."""
    return _print_managed(post_action(session_id, "adopt", {"name": name}), "is now managed", as_json=as_json)


@click.command(epilog="Example: wakeful release fox")
@acted_session_argument
@json_option
def release(*, session_id: SessionId, as_json: bool) -> int:
    """Let Wakeful only watch a session again. Its agent keeps running."""
    return _print_managed(post_action(session_id, "release"), "is now watched only", as_json=as_json)


def post_action(session_id: SessionId, act: str, body: Any = None) -> DaemonAnswer:
    encoded = msgspec.json.encode(body if body is not None else {})
    return own_daemon().post(f"/api/sessions/{session_id}/{act}", encoded, timeout_seconds=ACTION_SECONDS_MAX)


def prompt_text(given: str) -> str:
    """The argument, or standard input for `-`. Raises PromptNotSent for a prompt that cannot be sent."""
    raw = sys.stdin.buffer.read(PROMPT_BYTES_MAX + 1) if given == "-" else os.fsencode(given)
    if len(raw) > PROMPT_BYTES_MAX:
        raise PromptNotSent(
            reason=f"it has more than {PROMPT_BYTES_MAX:,} bytes; write it to a file and send the file's path"
        )
    try:
        text = raw.decode()
    except UnicodeDecodeError as problem:
        raise PromptNotSent(reason="it is not text in UTF-8") from problem
    if not text.strip():
        raise PromptNotSent(reason="it is empty")
    return text


def environ() -> dict[str, str]:
    """This command's environment without values that are not UTF-8: those cannot be sent."""
    return {name: value for name, value in given_environ(os.environ).items() if _is_text(name + value)}


def print_action(answer: DaemonAnswer, *, as_json: bool) -> int:
    return print_answer(answer, action_lines, as_json=as_json)


def action_lines(body: bytes) -> list[str]:
    action = decode_json(body)
    text = action_text(action["act"], action["outcome"], action["words"])
    return [f"{short_name_of(action['session_id'])}: {text}"]


def short_name_of(session_id: SessionId) -> str:
    """What lists show for a session; its id if the daemon does not list it."""
    try:
        record = decode_json(own_daemon().get(f"/api/sessions/{session_id}").body, dict[str, Any])
    except WakefulError:
        return session_id
    return str(record.get("short_name") or session_id)


def action_text(act: str, outcome: str, words: str) -> str:
    """The result of an action: `stopped (…)`, or `stop refused: …`."""
    done, name = _ACTIONS.get(act, (f"{act} done", act))
    if outcome in _FAILURES:
        return f"{name} {_FAILURES[outcome]}: {words}"
    return words if words.startswith(done) else f"{done} ({words})"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fetch_questions(session_id: SessionId) -> DaemonAnswer:
    return own_daemon().get(f"/api/sessions/{session_id}/questions")


def _only_question(session_id: SessionId) -> str:
    ids = [each.id for each in decode_body(_fetch_questions(session_id).body, QuestionList).questions]
    if not ids:
        raise NoQuestion(shown=short_name_of(session_id))
    if len(ids) > 1:
        raise SeveralQuestions(shown=short_name_of(session_id), count=len(ids), ids=", ".join(ids))
    return ids[0]


def _print_managed(answer: DaemonAnswer, words: str, *, as_json: bool) -> int:
    return print_answer(
        answer,
        lambda body: [f"{short_name_of(decode_body(body, ManagedRecord).session_id)} {words}"],
        as_json=as_json,
    )


@click.command(epilog="Example: wakeful session repair 3f2a91bc --dry-run")
@acted_session_argument
@click.option("--dry-run", is_flag=True, help="Show the repairs without making them.")
@json_option
def repair(*, session_id: SessionId, dry_run: bool, as_json: bool) -> int:
    """Repair a session's stored record after a crash. Shows the changes first."""
    if as_json:
        answer = post_action(session_id, "repair", {"dry_run": dry_run})
        print_json(answer.body)
        return answer.exit_code
    from wakeful.sessions.repair import Repair  # noqa: PLC0415 - asyncio, for this command alone

    planned = decode_body(post_action(session_id, "repair", {"dry_run": True}).body, Repair)
    for change in planned.changes:
        print_line(f"{change.field}: {value_text(change.old)} -> {value_text(change.new)}")
    if dry_run or not planned.changes:
        print_line(f"{short_name_of(planned.session_id)}: {planned.words}")
        return 0
    done = decode_body(post_action(session_id, "repair", {"dry_run": False}).body, Repair)
    print_line(f"{short_name_of(done.session_id)}: {done.words}")
    return 0
