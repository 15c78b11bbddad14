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

from wakeful.cli.app import Entry, LazyGroup
from wakeful.cli.commands.session_control import ACT_SECONDS_MAX
from wakeful.cli.format.sessions import decoded
from wakeful.cli.options import answers_json, completed_by
from wakeful.cli.output import note, say, show_json, wall_now
from wakeful.cli.settings import load_settings
from wakeful.client.client import Client
from wakeful.config.paths import Places
from wakeful.config.trust import TrustBook
from wakeful.core.clock import iso
from wakeful.heartbeat.model import HeartbeatStatus, PolicySnapshot, WakeAnswer, parse_target, shown
from wakeful.heartbeat.policy import Clamped, HeartbeatInvalid, Problem
from wakeful.judging.wake_eligibility import PolicyState

_HERE: Final = "wakeful.cli.commands.heartbeat"
COMMANDS: Final = {
    "status": Entry("See", f"{_HERE}:status", "Whether an agent may be woken now, and by which policy"),
    "wake": Entry("Run", f"{_HERE}:wake", "Wake an agent, or say why not"),
    "validate": Entry("See", f"{_HERE}:validate", "Whether a HEARTBEAT.md is valid, or which line is not"),
}


# NAME is an agent's, or a session's whole id.
_target_argument = click.argument(
    "name", metavar="NAME", type=parse_target, shell_complete=completed_by("agents_like")
)


class Validation(Struct, frozen=True):
    """What a file amounts to: a snapshot, or the one problem that keeps it from being one."""

    valid: bool
    snapshot: PolicySnapshot | None
    problem: Problem | None
    # None where none is needed: the file is not in an agent's folder.
    trusted: bool | None = None


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful agent heartbeat status fox")
def heartbeat() -> None:
    """HEARTBEAT.md: when an agent would like to be woken, and whether it may be now."""


@click.command(epilog="Example: wakeful agent heartbeat status fox --json")
@_target_argument
@answers_json
def status(*, name: str, as_json: bool) -> int:
    """Say whether an agent may be woken now, by which policy, and what was last decided."""
    answer = _client().get(f"/api/agents/{name}/heartbeat/status")
    if as_json:
        show_json(answer.body)
        return answer.exit_code
    for line in status_lines(decoded(answer.body, HeartbeatStatus)):
        say(line)
    return answer.exit_code


@click.command(epilog="Example: wakeful agent heartbeat wake fox")
@_target_argument
@answers_json
def wake(*, name: str, as_json: bool) -> int:
    """Give an agent the prompt of its HEARTBEAT.md. Exit 1 with one reason if it may not be woken."""
    answer = _client().post(f"/api/agents/{name}/heartbeat/wake", timeout_seconds=ACT_SECONDS_MAX)
    if as_json:
        show_json(answer.body)
        return answer.exit_code
    woken = decoded(answer.body, WakeAnswer)
    reason = f" ({woken.reason})" if woken.reason is not None else ""
    say(f"{name}: {woken.outcome}{reason}: {woken.words}")
    return answer.exit_code


def _client() -> Client:
    return Client(Places.of(os.environ))


def status_lines(status: HeartbeatStatus) -> Iterator[str]:
    """A status as people read it."""
    may = "may be woken" if status.eligible_for_wake else f"may not be woken: {status.ineligibility_reason}"
    yield f"{status.agent}: {may}"
    if status.ineligibility_reason is not None:
        yield f"  {status.words}"
    yield f"  session: {status.session_id or 'none'}"
    snapshot = status.policy_snapshot
    # Beside a file that is wrong or gone stands what it last said.
    was = (
        "; the last valid one was"
        if status.policy_state in (PolicyState.INVALID, PolicyState.MISSING)
        else ","
    )
    yield f"  policy: {status.policy_state}" + (f"{was} {snapshot.id} of {snapshot.path}" if snapshot else "")
    problem = status.policy_problem
    if problem is not None and problem.reason not in status.words:
        yield f"  {problem.file}:{problem.line}: {problem.reason}"
    if snapshot is not None:
        yield from (f"  {clamped_words(each)}" for each in snapshot.clamped)
    state = status.wake_state
    times = {
        "last wake": state.last_wake_at,
        "cooling until": state.cooldown_until,
        "quiet until": state.quiet_until,
        "next wake": state.next_wake_at,
    }
    yield from (f"  {name}: {at}" for name, at in times.items() if at is not None)
    if status.audits:
        yield "  decided, newest first:"
    for audit in status.audits:
        counted = f" ({audit.count} times)" if audit.count > 1 else ""
        said = f"{audit.outcome or 'under way'} {audit.reason or ''}".rstrip()
        yield f"    {audit.last_at} {audit.trigger}: {said}{counted}"


@click.command(epilog="Example: wakeful agent heartbeat validate ./HEARTBEAT.md")
@click.argument("file", metavar="FILE")
@answers_json
def validate(*, file: str, as_json: bool) -> int:
    """Say whether FILE is a valid HEARTBEAT.md. Exit 1 with file, line and reason if it is not."""
    found = _validated(file)
    if as_json:
        show_json(msgspec.json.encode(found))
    elif found.problem is not None:
        say(f"{found.problem.file}:{found.problem.line}: {found.problem.reason}")
    elif found.snapshot is not None:
        say(f"{file}: valid, {found.snapshot.id}")
        if found.trusted is False:
            from wakeful.daemon.heartbeat import not_trusted  # noqa: PLC0415 - YAML costs only who reads one

            note(not_trusted(found.snapshot.path))
        for each in found.snapshot.clamped:
            note(clamped_words(each))
    return 0 if found.valid else 1


def clamped_words(clamped: Clamped) -> str:
    """What a preference beyond the bounds got instead."""
    return f"{clamped.code}: {clamped.field} asks for {clamped.asked} and gets {clamped.given}"


def _validated(file: str) -> Validation:
    from wakeful.daemon import heartbeat as heartbeats  # noqa: PLC0415 - YAML costs only who reads one

    bounds = heartbeats.bounds_of(load_settings(None).config.heartbeat)
    place = heartbeats.place_at(file, Places.of(os.environ).home)
    try:
        if place is None:
            return Validation(True, shown(heartbeats.load(str(Path(file)), bounds, iso(wall_now()))), None)
        content = heartbeats.read_place(place, bounds)
        snapshot = shown(heartbeats.understood(content, place.path, bounds, iso(wall_now())))
    except HeartbeatInvalid as wrong:
        return Validation(False, None, problem_of(wrong))
    return Validation(True, snapshot, None, _trusts().is_trusted(place.path, content))


def _trusts() -> TrustBook:
    return TrustBook(Places.of(os.environ).trusted)


def problem_of(wrong: HeartbeatInvalid) -> Problem:
    """The facts of a refusal."""
    return Problem(str(wrong.facts["file"]), int(str(wrong.facts["line"])), str(wrong.facts["reason"]))
