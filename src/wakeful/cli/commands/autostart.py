"""Commands `wakeful autostart install|remove`: a systemd user unit; `--dry-run` shows the changes."""

import os
from collections.abc import Iterator
from difflib import unified_diff
from typing import Final

import click

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.output import print_line, print_note
from wakeful.cli.person import require_person
from wakeful.client.client import own_daemon
from wakeful.config.state_dir import require_home
from wakeful.daemon import autostart as work

_MODULE: Final = "wakeful.cli.commands.autostart"
COMMANDS: Final = {
    "install": CommandEntry("Set up", f"{_MODULE}:install", "Have systemd start Wakeful and keep it running"),
    "remove": CommandEntry("Set up", f"{_MODULE}:remove", "Stop it and take the unit away; agents go on"),
}


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful autostart install --dry-run")
def autostart() -> None:
    """Wakeful as a service of yours: started with your first login, restarted when it hangs."""


@click.command(epilog="Example: wakeful autostart install --dry-run")
@click.option("--observe", is_flag=True, help="Only watch: act on nothing, without any right that needs.")
@click.option("--dry-run", is_flag=True, help="Show the unit's difference and change nothing.")
def install(*, observe: bool, dry_run: bool) -> int:
    """Write a systemd user unit, enable it and start it. Restarting it never ends an agent.

    For people: refused inside an agent's session.
    """
    if not dry_run:
        require_person()
    require_home(os.environ)
    plan = work.plan_install(os.environ, watch_only=observe)
    if dry_run:
        return _print_plan(plan)
    other = None if work.is_running() else own_daemon().running_pid()
    work.install(plan, start=other is None)
    print_line(f"installed {plan.path}")
    if other is not None:
        print_note(
            f"Wakeful runs already (pid {other}): `wakeful down && systemctl --user start wakeful` hands it over"
        )
    if not work.is_linger_enabled(os.environ):
        print_note("it ends with your last logout, unless you run `loginctl enable-linger`")
    return 0


@click.command(epilog="Example: wakeful autostart remove")
@click.option("--dry-run", is_flag=True, help="Show what would go and change nothing.")
def remove(*, dry_run: bool) -> int:
    """Stop the service and take its unit away. Agents go on: nothing they need lives in it.

    For people: refused inside an agent's session.
    """
    if not dry_run:
        require_person()
    plan = work.plan_remove(os.environ)
    if plan.is_done:
        print_line(f"nothing to do: there is no {plan.path}")
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
        yield f"nothing to do: {plan.path} is as it should be"
        return
    before, after = ((side or "").splitlines() for side in (plan.before, plan.after))
    old, new = (os.devnull if side is None else str(plan.path) for side in (plan.before, plan.after))
    yield from unified_diff(before, after, old, new, lineterm="")
