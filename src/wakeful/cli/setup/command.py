"""Command `wakeful setup`: walks through the steps, shows each before it is done, and undoes what it did.

What it did is recorded in the state folder, without any secret.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.output import confirm, is_terminal, print_line, print_note, read_choice
from wakeful.cli.person import require_person
from wakeful.cli.setup import steps
from wakeful.cli.setup.steps import StepPlan
from wakeful.config.paths import StatePaths
from wakeful.config.state_dir import make_state_dir, require_home
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WakefulError
from wakeful.hooks.install import read_settings, replace_settings

_MODULE: Final = "wakeful.cli.setup.command"
STEPS: Final = ("hooks", "alerts", "autostart", "completion", "mcp")
# `mcp` starts the client's own command, which is slow; it is a step of its own.
WALK: Final = ("hooks", "alerts", "autostart", "completion")
COMMANDS: Final = {
    "hooks": CommandEntry("Steps", f"{_MODULE}:hooks", "Client hooks for instant permission alerts"),
    "alerts": CommandEntry("Steps", f"{_MODULE}:alerts", "A channel for alerts"),
    "autostart": CommandEntry("Steps", f"{_MODULE}:autostart", "Start with systemd"),
    "completion": CommandEntry("Steps", f"{_MODULE}:completion", "Completion for your shell"),
    "mcp": CommandEntry("Steps", f"{_MODULE}:mcp", "MCP server for Claude Code"),
}


class _Record(msgspec.Struct):
    """The steps that were carried out, in their order, with what undoing them needs."""

    steps: dict[str, dict[str, Any]] = {}


_yes = click.option("--yes", "-y", is_flag=True, help="Do every step without asking.")
_undo = click.option("--undo", is_flag=True, help="Undo what setup did.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")


@click.command(
    cls=LazyGroup, entries=COMMANDS, invoke_without_command=True, epilog="Example: wakeful setup --dry-run"
)
@_yes
@_undo
@_dry_run
@click.pass_context
def setup(context: click.Context, *, yes: bool, undo: bool, dry_run: bool) -> int:
    """Set up hooks, alerts, autostart and completion. Each step is shown before it is done.

    Running it again changes nothing. In a pipe it only explains (exit 2), unless you pass --yes.
    For people: refused inside an agent's session.
    """
    if context.invoked_subcommand is not None:
        return 0
    return run_setup(STEPS if undo else WALK, yes=yes, undo=undo, dry_run=dry_run)


@click.command(epilog="Example: wakeful setup hooks --dry-run")
@_yes
@_undo
@_dry_run
def hooks(*, yes: bool, undo: bool, dry_run: bool) -> int:
    """Add hooks to Claude Code and Codex, as `wakeful hooks install` does."""
    return run_setup(("hooks",), yes=yes, undo=undo, dry_run=dry_run)


@click.command(epilog="Example: wakeful setup alerts")
@_yes
@_undo
@_dry_run
def alerts(*, yes: bool, undo: bool, dry_run: bool) -> int:
    """Ask for a channel and write it to your configuration. `wakeful alerts test` tests it."""
    return run_setup(("alerts",), yes=yes, undo=undo, dry_run=dry_run)


@click.command(epilog="Example: wakeful setup autostart --dry-run")
@_yes
@_undo
@_dry_run
def autostart(*, yes: bool, undo: bool, dry_run: bool) -> int:
    """Install a systemd user unit, as `wakeful autostart install` does."""
    return run_setup(("autostart",), yes=yes, undo=undo, dry_run=dry_run)


@click.command(epilog="Example: wakeful setup completion --dry-run")
@_yes
@_undo
@_dry_run
def completion(*, yes: bool, undo: bool, dry_run: bool) -> int:
    """Add a line to the file of your shell that loads `wakeful completion`."""
    return run_setup(("completion",), yes=yes, undo=undo, dry_run=dry_run)


@click.command(epilog="Example: wakeful setup mcp --dry-run")
@_yes
@_undo
@_dry_run
def mcp(*, yes: bool, undo: bool, dry_run: bool) -> int:
    """Add `wakeful mcp` to Claude Code with its own command, `claude mcp add`."""
    return run_setup(("mcp",), yes=yes, undo=undo, dry_run=dry_run)


def run_setup(names: Sequence[str], *, yes: bool, undo: bool, dry_run: bool) -> int:
    """Walk through these steps. Exit 1: a step failed; 2: nothing was done, because there is no terminal to ask on."""
    if not dry_run:
        require_person()
    require_home(os.environ)
    paths = StatePaths.from_environ(os.environ)
    asks = not yes and not dry_run
    if asks and not is_terminal():
        plans = list(_plans(names, paths, undo=undo, asks=False))
        _walk(plans, paths, undo=undo, mode="show")
        if not plans:
            return 0
        print_note("nothing was changed: this is not a terminal. Pass --yes to do these steps")
        return 2
    mode = "show" if dry_run else "ask" if asks else "do"
    return _walk(_plans(names, paths, undo=undo, asks=asks), paths, undo=undo, mode=mode)


def _plans(
    names: Sequence[str], paths: StatePaths, *, undo: bool, asks: bool
) -> Iterator[StepPlan | WakefulError]:
    """One after the other, because a step may change what the next one finds. A refusal takes the place of its plan."""
    if undo:
        for step, details in reversed(_read_record(paths).steps.items()):
            if step.partition(" ")[0] in names:
                try:
                    yield steps.undo_plan(step, details, os.environ)
                except WakefulError as problem:
                    yield problem
        return
    for name in names:
        try:
            yield from _step_plans(name, paths, asks=asks)
        except WakefulError as problem:
            yield problem


def _step_plans(name: str, paths: StatePaths, *, asks: bool) -> Iterable[StepPlan]:
    if name == "hooks":
        return steps.hook_plans(os.environ, paths)
    if name == "alerts":
        return [steps.alert_plan(_ask_channel() if asks and not steps.has_channel() else {})]
    if name == "autostart":
        return [steps.autostart_plan(os.environ)]
    if name == "completion":
        return [steps.completion_plan(os.environ)]
    return [steps.mcp_plan(os.environ)]


def _ask_channel() -> dict[str, Any]:
    def read_secret(question: str) -> str:
        typed: str = click.prompt(question, default="", show_default=False, hide_input=True)
        return typed.strip()

    return steps.asked_values(read_choice, read_secret)


def _walk(plans: Iterable[StepPlan | WakefulError], paths: StatePaths, *, undo: bool, mode: str) -> int:
    results = [_take(plan, paths, undo=undo, mode=mode) for plan in plans]
    if not results:
        print_line("nothing to undo" if undo else "nothing to do")
    return 0 if all(results) else 1


def _take(plan: StepPlan | WakefulError, paths: StatePaths, *, undo: bool, mode: str) -> bool:
    """Show a step, and carry it out if that is wanted; False if it failed."""
    if isinstance(plan, WakefulError):
        print_note(str(plan))
        return False
    print_line(f"{plan.title}{f' ({plan.why})' if plan.apply is None else ''}")
    for line in plan.lines:
        print_line(f"  {line}")
    is_done = True
    if mode != "show":
        if plan.apply is None and undo:
            _remember(paths, plan, undo=True)
        elif plan.apply is not None and (mode == "do" or confirm("Do this?")):
            is_done = _carry_out(plan.apply, plan, paths, undo=undo)
    print_line()
    return is_done


def _carry_out(apply: Callable[[], None], plan: StepPlan, paths: StatePaths, *, undo: bool) -> bool:
    if not undo:
        # Before: a step that a crash leaves half done can be undone.
        _remember(paths, plan, undo=False)
    try:
        apply()
    except WakefulError as problem:
        print_note(str(problem))
        if not undo:
            _remember(paths, plan, undo=True)
        return False
    if undo:
        _remember(paths, plan, undo=True)
    print_line("undone" if undo else "done")
    if plan.then and not undo:
        print_line(plan.then)
    return True


def _record_path(paths: StatePaths) -> Path:
    return Path(paths.state_dir) / "setup.json"


def _read_record(paths: StatePaths) -> _Record:
    content = read_settings(_record_path(paths)) if Path(paths.state_dir).is_dir() else None
    try:
        return _Record() if content is None else decode_json(content, _Record)
    except msgspec.DecodeError:
        print_note(f"{_record_path(paths)} is damaged: remove it")
        return _Record()


def _remember(paths: StatePaths, plan: StepPlan, *, undo: bool) -> None:
    make_state_dir(paths)
    path = _record_path(paths)
    record = _read_record(paths)
    record.steps.pop(plan.id, None)
    if not undo:
        record.steps[plan.id] = plan.details
    replace_settings(path, read_settings(path), msgspec.json.encode(record))
