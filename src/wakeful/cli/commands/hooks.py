"""Commands `wakeful hooks install|uninstall`: hooks in a client's settings; `--dry-run` shows the changes."""

import os
from collections.abc import Callable
from functools import partial
from typing import Final

import click

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.difference import settings_difference
from wakeful.cli.output import print_line, print_note
from wakeful.cli.person import require_person
from wakeful.config.paths import StatePaths
from wakeful.config.state_dir import make_state_dir, require_home
from wakeful.hooks.install import (
    CLIENTS,
    SettingsPlan,
    apply_plan,
    plan_install,
    plan_uninstall,
    settings_path,
    snippet_for,
)
from wakeful.hooks.json_edit import NotPlainJson
from wakeful.hooks.model import NotOursToWrite

_MODULE: Final = "wakeful.cli.commands.hooks"
COMMANDS: Final = {
    "install": CommandEntry("Set up", f"{_MODULE}:install", "Add Wakeful's hooks to a client's settings"),
    "uninstall": CommandEntry("Set up", f"{_MODULE}:uninstall", "Remove Wakeful's hooks"),
}
NEXT_STEPS: Final = {
    "claude": "new sessions will report; check with `wakeful doctor`",
    "codex": "now trust the hooks: start codex and type /hooks. Codex skips untrusted hooks. Check with `wakeful doctor`",
}


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful hooks install claude --dry-run")
def hooks() -> None:
    """Install or remove hooks of Claude Code and Codex for instant permission alerts."""


@click.command(epilog="Example: wakeful hooks install claude --dry-run")
@click.argument("client", type=click.Choice(CLIENTS))
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them.")
def install(*, client: str, dry_run: bool) -> int:
    """Add Wakeful's hooks to the settings of CLIENT. All other settings stay as they are, byte for byte.

    A file that is not plain JSON, is a link or is not writable is left unchanged; the lines to add are printed. Exit 1.
    For people: refused inside an agent's session.
    """
    if not dry_run:
        require_person()
    paths = StatePaths.from_environ(os.environ)
    require_home(os.environ)
    plan = _plan_or_none(client, partial(plan_install, client, os.environ, paths))
    if plan is None:
        for line in snippet_for(client, paths).splitlines():
            print_line(line)
        return 1
    if not plan.is_done and not dry_run:
        # The spool must be there before a hook is: without it the hooks say nothing.
        make_state_dir(paths)
    return _apply(plan, f"added to {plan.path}", NEXT_STEPS[client], dry_run=dry_run)


@click.command(epilog="Example: wakeful hooks uninstall codex")
@click.argument("client", type=click.Choice(CLIENTS))
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them.")
def uninstall(*, client: str, dry_run: bool) -> int:
    """Remove only Wakeful's hooks from the settings of CLIENT. For people: refused inside an agent's session."""
    if not dry_run:
        require_person()
    plan = _plan_or_none(client, partial(plan_uninstall, client, os.environ))
    if plan is None:
        print_note("remove every hook whose command ends with `# wakeful hook`")
        return 1
    return _apply(plan, f"removed from {plan.path}", "", dry_run=dry_run)


def _plan_or_none(client: str, plan: Callable[[], SettingsPlan]) -> SettingsPlan | None:
    """The plan; None, with a remark, if the file must not be changed."""
    path = settings_path(client, os.environ)
    try:
        return plan()
    except NotPlainJson as problem:
        _print_left_alone(f"{path}: {problem}")
    except NotOursToWrite as problem:
        _print_left_alone(str(problem))
    return None


def _print_left_alone(why: str) -> None:
    print_note(f"{why} Nothing was changed.")


def _apply(plan: SettingsPlan, said: str, then: str, *, dry_run: bool) -> int:
    if plan.is_done:
        print_line(f"nothing to do: {plan.path} is up to date")
        return 0
    if dry_run:
        for line in settings_difference(plan.path, plan.before, plan.after):
            print_line(line)
        return 0
    apply_plan(plan)
    print_line(said)
    if then:
        print_note(then)
    return 0
