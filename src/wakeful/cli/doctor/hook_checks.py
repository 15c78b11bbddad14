"""What `wakeful doctor` says about the hooks of the clients: in place, ours, trusted, reporting."""

from collections.abc import Callable

from wakeful.cli.doctor.grading import Finding, Scene, ok, warn
from wakeful.core.moment import iso
from wakeful.hooks.hookwork import State, hooks_state


def hook_check(client: str) -> Callable[[Scene], Finding]:
    """The check of one client's hooks."""

    def check(scene: Scene) -> Finding:
        return _graded(client, hooks_state(client, scene.environ, scene.places))

    return check


def _graded(client: str, state: State) -> Finding:
    if state.trouble:
        return warn(f"{state.path}: {state.trouble}", f"wakeful hooks install {client}: prints what to add")
    if not state.is_installed:
        return ok(f"not installed (`wakeful hooks install {client}`: what it asks a person is known at once)")
    if not state.is_current:
        return warn("installed for another state folder or version", f"wakeful hooks install {client}")
    if state.fired_at is not None:
        return ok(f"installed, a report came at {iso(state.fired_at)}")
    if client == "codex":
        # Codex skips what nobody trusted, without a word: only silence tells.
        return warn("installed, never fired: trust it in /hooks", "start codex, type /hooks and trust it")
    return ok("installed, no report yet: sessions that start from now on report")
