"""Commands `wakeful mute|unmute|pause|unpause`: ask the daemon to suppress alerts or its own actions."""

import os
import pwd
import socket
from functools import wraps
from typing import TypeVar

import click
from msgspec.structs import replace

from wakeful.alerts.mute_pause_model import MuteKind, MuteList, MuteRecord, mute_text, pause_text
from wakeful.cli import read_store as stored
from wakeful.cli.commands.session_control import short_name_of
from wakeful.cli.commands.work import post, print_list, text
from wakeful.cli.options import Command, completion_of, json_option
from wakeful.cli.output import print_answer
from wakeful.client.client import decode_body
from wakeful.core.durations import parse_duration
from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.views.records import PauseAnswer, UnmuteAnswer

Target = tuple[MuteKind, str]
Muted = TypeVar("Muted", MuteRecord, UnmuteAnswer)


class OneTargetNeeded(OperatorError):
    """Name one target: a session's ID, --project P or --code C."""

    code = "one-mute-target"


class DurationNeeded(OperatorError):
    """Set a duration, like --for 2h: mutes expire."""

    code = "mute-without-end"


def target_options(command: Command) -> Command:
    """Give a command NAME, `--project` and `--code`; it gets `target`, which is None if none was given."""

    @click.argument(
        "session_id", metavar="[NAME]", required=False, shell_complete=completion_of("sessions_like")
    )
    @click.option("--project", type=text, metavar="P", help="All sessions of this project.")
    @click.option("--code", type=text, metavar="C", help="One problem in all sessions, like loop.")
    @wraps(command)
    def named(*, session_id: str | None, project: str | None, code: str | None, **kwargs: object) -> int:
        given = ((MuteKind.SESSION, session_id), (MuteKind.PROJECT, project), (MuteKind.CODE, code))
        targets = [(kind, value) for kind, value in given if value is not None]
        if len(targets) > 1:
            raise OneTargetNeeded
        if session_id is None:
            return command(target=targets[0] if targets else None, **kwargs)
        from wakeful.cli.names import with_session  # noqa: PLC0415 - only for a session

        return with_session(
            session_id, lambda found: command(target=(MuteKind.SESSION, found), **kwargs), acting=False
        )

    return named


@click.command(epilog="Example: wakeful mute --project shop --for 2h --reason 'moving servers'")
@target_options
@click.option("--for", "duration", metavar="TIME", help="Duration, like 30m, 2h or 1d; 30 days at most.")
@click.option("--reason", type=text, default="", help="Reason; shown with the mute.")
@json_option
def mute(*, target: Target | None, duration: str | None, reason: str, as_json: bool) -> int:
    """Send no alerts about a session, project or code for a while. Without arguments: list the mutes.

    Only alerts are muted. Wakeful still watches and heals.
    """
    if target is None and duration is None:
        return print_list(
            stored.daemon_or_store("/api/mutes", stored.stored_mutes), list_lines, as_json=as_json
        )
    if target is None:
        raise OneTargetNeeded
    if duration is None:
        raise DurationNeeded
    kind, value = target
    order = {
        "kind": kind,
        "value": value,
        "for_seconds": parse_duration(duration),
        "by": operator_name(),
        "reason": reason,
    }
    return print_answer(post("/api/mutes", order), mute_lines, as_json=as_json)


@click.command(epilog="Example: wakeful unmute --project shop")
@target_options
@json_option
def unmute(*, target: Target | None, as_json: bool) -> int:
    """Send alerts again. Exit 1: it was not muted."""
    if target is None:
        raise OneTargetNeeded
    kind, value = target
    return print_answer(post("/api/unmute", {"kind": kind, "value": value}), unmuted_lines, as_json=as_json)


@click.command(epilog="Example: wakeful pause --for 2h --reason 'upgrading the provider'")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="End the pause after this time, like 30m, 2h or 1d; 30 days at most.",
)
@click.option("--reason", type=text, default="", help="Reason; shown with the pause.")
@json_option
def pause(*, duration: str | None, reason: str, as_json: bool) -> int:
    """Stop all automatic actions. Wakeful still watches, and does what you ask for."""
    order: dict[str, str | float] = {"by": operator_name(), "reason": reason}
    if duration is not None:
        order["for_seconds"] = parse_duration(duration)
    answer = post("/api/pause", order)
    return print_answer(answer, pause_lines, as_json=as_json)


@click.command(epilog="Example: wakeful unpause")
@json_option
def unpause(*, as_json: bool) -> int:
    """End the pause and allow automatic actions again."""
    return print_answer(post("/api/resume", {}), resume_lines, as_json=as_json)


def operator_name() -> str:
    """The user and host of this command: several people and hosts may share one store."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def mute_lines(body: bytes) -> list[str]:
    return [mute_text(_named(decode_body(body, MuteRecord)))]


def list_lines(body: bytes) -> list[str]:
    return [mute_text(_named(each)) for each in decode_body(body, MuteList).mutes] or ["no mutes"]


def unmuted_lines(body: bytes) -> list[str]:
    answer = _named(decode_body(body, UnmuteAnswer))
    return [
        f"unmuted {answer.kind} {answer.value}"
        if answer.changed
        else f"{answer.kind} {answer.value} was not muted"
    ]


def _named(target: Muted) -> Muted:
    """With what lists show for a session in the place of its id."""
    if target.kind is not MuteKind.SESSION:
        return target
    return replace(target, value=short_name_of(SessionId(target.value)))


def pause_lines(body: bytes) -> list[str]:
    """The pause, and who began it if it was paused already."""
    answer = decode_body(body, PauseAnswer)
    if answer.paused is None:
        return ["not paused: another command ended the pause"]
    return [
        f"{'' if answer.changed else 'already '}{pause_text(answer.paused)}",
        "end it with `wakeful unpause`",
    ]


def resume_lines(body: bytes) -> list[str]:
    return [
        "pause ended; automatic actions are on"
        if decode_body(body, PauseAnswer).changed
        else "Wakeful was not paused"
    ]
