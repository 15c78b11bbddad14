"""Commands `wakeful agent heartbeat status|wake|validate`: whether an agent may be woken, and waking it.

The daemon decides and delivers; `validate` reads one file and needs no daemon.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.commands.session_control import ACTION_SECONDS_MAX
from wakeful.cli.options import completion_of, json_option
from wakeful.cli.output import print_answer, print_json, print_line, print_note, wall_now
from wakeful.cli.settings import load_settings
from wakeful.client.client import decode_body, own_daemon
from wakeful.config.paths import StatePaths
from wakeful.config.trust import TrustFile
from wakeful.core.clock import iso
from wakeful.heartbeat.model import HeartbeatStatus, PolicySnapshot, WakeAnswer, parse_target, policy_snapshot
from wakeful.heartbeat.policy import ClampedPreference, HeartbeatInvalid, PolicyProblem
from wakeful.judging.wake_eligibility import PolicyState

_MODULE: Final = "wakeful.cli.commands.heartbeat"
COMMANDS: Final = {
    "status": CommandEntry("See", f"{_MODULE}:status", "Show whether an agent may be woken now, and why"),
    "wake": CommandEntry("Run", f"{_MODULE}:wake", "Wake an agent now"),
    "validate": CommandEntry("See", f"{_MODULE}:validate", "Check a HEARTBEAT.md file"),
}


# NAME is an agent's, or a session's whole id.
_target_argument = click.argument(
    "name", metavar="NAME", type=parse_target, shell_complete=completion_of("agents_like")
)


class Validation(Struct, frozen=True):
    """What a file amounts to: a snapshot, or the one problem that keeps it from being one."""

    valid: bool
    snapshot: PolicySnapshot | None
    problem: PolicyProblem | None
    # None where none is needed: the file is not in an agent's folder.
    trusted: bool | None = None


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful agent heartbeat status fox")
def heartbeat() -> None:
    """Wake agents as their HEARTBEAT.md allows."""


@click.command(epilog="Example: wakeful agent heartbeat status fox --json")
@_target_argument
@json_option
def status(*, name: str, as_json: bool) -> int:
    """Show whether an agent may be woken now, by which policy, and the last decisions."""
    answer = own_daemon().get(f"/api/agents/{name}/heartbeat/status")
    return print_answer(
        answer, lambda body: status_lines(decode_body(body, HeartbeatStatus)), as_json=as_json
    )


@click.command(epilog="Example: wakeful agent heartbeat wake fox")
@_target_argument
@json_option
def wake(*, name: str, as_json: bool) -> int:
    """Send an agent the prompt of its HEARTBEAT.md. Exit 1: it may not be woken; prints the reason."""
    answer = own_daemon().post(f"/api/agents/{name}/heartbeat/wake", timeout_seconds=ACTION_SECONDS_MAX)
    if as_json:
        print_json(answer.body)
        return answer.exit_code
    woken = decode_body(answer.body, WakeAnswer)
    reason = f" ({woken.reason})" if woken.reason is not None else ""
    print_line(f"{name}: {woken.outcome}{reason}: {woken.words}")
    return answer.exit_code


def status_lines(status: HeartbeatStatus) -> Iterator[str]:
    may = "may be woken" if status.eligible_for_wake else f"may not be woken: {status.ineligibility_reason}"
    yield f"{status.agent}: {may}"
    if status.ineligibility_reason is not None:
        yield f"  {status.words}"
    yield f"  session: {status.session_id or 'none'}"
    snapshot = status.policy_snapshot
    # For a file that is invalid or gone the last valid policy is shown too.
    was = (
        "; the last valid snapshot was"
        if status.policy_state in (PolicyState.INVALID, PolicyState.MISSING)
        else ","
    )
    yield f"  policy: {status.policy_state}" + (f"{was} {snapshot.id} of {snapshot.path}" if snapshot else "")
    problem = status.policy_problem
    if problem is not None and problem.reason not in status.words:
        yield f"  {problem.file}:{problem.line}: {problem.reason}"
    if snapshot is not None:
        yield from (f"  {clamped_text(each)}" for each in snapshot.clamped)
    state = status.wake_state
    times = {
        "last wake": state.last_wake_at,
        "cooldown until": state.cooldown_until,
        "quiet until": state.quiet_until,
        "next wake": state.next_wake_at,
    }
    yield from (f"  {name}: {at}" for name, at in times.items() if at is not None)
    if status.audits:
        yield "  decisions, newest first:"
    for audit in status.audits:
        counted = f" ({audit.count} times)" if audit.count > 1 else ""
        said = f"{audit.outcome or 'in progress'} {audit.reason or ''}".rstrip()
        yield f"    {audit.last_at} {audit.trigger}: {said}{counted}"


@click.command(epilog="Example: wakeful agent heartbeat validate ./HEARTBEAT.md")
@click.argument("file", metavar="FILE")
@json_option
def validate(*, file: str, as_json: bool) -> int:
    """Check whether FILE is a valid HEARTBEAT.md. Exit 1: invalid; prints file, line and reason."""
    found = _validate(file)
    if as_json:
        print_json(msgspec.json.encode(found))
    elif found.problem is not None:
        print_line(f"{found.problem.file}:{found.problem.line}: {found.problem.reason}")
    elif found.snapshot is not None:
        print_line(f"{file}: valid, {found.snapshot.id}")
        if found.trusted is False:
            from wakeful.heartbeat.file import not_trusted_text  # noqa: PLC0415 - imports YAML

            print_note(not_trusted_text(found.snapshot.path))
        for each in found.snapshot.clamped:
            print_note(clamped_text(each))
    return 0 if found.valid else 1


def clamped_text(clamped: ClampedPreference) -> str:
    """The value that replaces a preference beyond the bounds."""
    return f"{clamped.code}: {clamped.field} is {clamped.asked}; limited to {clamped.given}"


def _validate(file: str) -> Validation:
    from wakeful.daemon.heartbeat import bounds_of  # noqa: PLC0415
    from wakeful.heartbeat import file as heartbeats  # noqa: PLC0415 - imports YAML

    bounds = bounds_of(load_settings(None).config.heartbeat)
    place = heartbeats.heartbeat_path_from(file, StatePaths.from_environ(os.environ).state_dir)
    try:
        if place is None:
            return Validation(
                True, policy_snapshot(heartbeats.load(str(Path(file)), bounds, iso(wall_now()))), None
            )
        content = heartbeats.read_heartbeat(place, bounds)
        snapshot = policy_snapshot(heartbeats.parse_snapshot(content, place.path, bounds, iso(wall_now())))
    except HeartbeatInvalid as wrong:
        return Validation(False, None, problem_of(wrong))
    trust = TrustFile(StatePaths.from_environ(os.environ).trust_file)
    return Validation(True, snapshot, None, trust.is_trusted(place.path, content))


def problem_of(wrong: HeartbeatInvalid) -> PolicyProblem:
    return PolicyProblem(str(wrong.facts["file"]), int(str(wrong.facts["line"])), str(wrong.facts["reason"]))
