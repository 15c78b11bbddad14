"""Commands `wakeful autostart install|remove`: a systemd user unit; `--dry-run` shows the changes."""

import os
from collections.abc import Iterator
from typing import Final

import click

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.difference import file_difference
from wakeful.cli.output import print_line, print_note
from wakeful.cli.person import require_person
from wakeful.client.client import own_daemon
from wakeful.config.state_dir import require_home
from wakeful.daemon import autostart as work

_MODULE: Final = "wakeful.cli.commands.autostart"
COMMANDS: Final = {
    "install": CommandEntry("Set up", f"{_MODULE}:install", "Let systemd start Wakeful and keep it running"),
    "remove": CommandEntry(
        "Set up", f"{_MODULE}:remove", "Stop Wakeful and remove the unit; agents keep running"
    ),
}


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful autostart install --dry-run")
def autostart() -> None:
    """Run Wakeful as a systemd user service: it starts at your first login and restarts if it hangs."""


@click.command(epilog="Example: wakeful autostart install --dry-run")
@click.option("--observe", is_flag=True, help="Read-only mode with minimal privileges.")
@click.option("--dry-run", is_flag=True, help="Show the changes to the unit without making them.")
def install(*, observe: bool, dry_run: bool) -> int:
    """Write, enable and start a systemd user unit. Restarting it does not stop agents.

    For people: refused inside an agent's session.
    """
    if not dry_run:
        require_person()
    require_home(os.environ)
    plan = work.plan_install(os.environ, watch_only=observe)
    if plan.left_out:
        print_note(left_out_text(plan))
    if dry_run:
        return _print_plan(plan)
    carry_out(plan)
    print_line(f"installed {plan.path}")
    return 0


def left_out_text(plan: work.UnitPlan) -> str:
    names = ", ".join(plan.left_out)
    return (
        f"not stored in the unit, because a secret does not belong there: {names}. Set them in wakeful.toml"
    )


def carry_out(plan: work.UnitPlan) -> None:
    """Install the unit, and say what is left for a person to do. Raises SystemdRefused."""
    other = None if work.is_running() else own_daemon().running_pid()
    work.install(plan, start=other is None)
    if other is not None:
        print_note(
            f"Wakeful runs already (pid {other}): `wakeful down && systemctl --user start wakeful` replaces it with the service"
        )
    if not work.is_linger_enabled(os.environ):
        print_note("it stops at your last logout; to keep it running: `loginctl enable-linger`")


@click.command(epilog="Example: wakeful autostart remove")
@click.option("--dry-run", is_flag=True, help="Show what would be removed without removing it.")
def remove(*, dry_run: bool) -> int:
    """Stop the service and remove its unit. Agents keep running.

    For people: refused inside an agent's session.
    """
    if not dry_run:
        require_person()
    plan = work.plan_remove(os.environ)
    if plan.is_done:
        print_line(f"nothing to do: {plan.path} does not exist")
        return 0
    if dry_run:
        return _print_plan(plan)
    work.remove(plan)
    print_line(f"removed {plan.path}")
    return 0


def _print_plan(plan: work.UnitPlan) -> int:
    for line in _difference(plan):
        print_line(line)
    return 0


def _difference(plan: work.UnitPlan) -> Iterator[str]:
    if plan.is_done:
        yield f"nothing to do: {plan.path} is up to date"
        return
    yield from file_difference(plan.path, plan.before, plan.after)
