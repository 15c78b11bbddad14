"""Tells from the screen of an agent in a container whether it is ready, and why not. Never types.

A declared `ready` pattern decides alone. Without it a known client is ready once it shows its input line, and
any other program once it runs.
"""

from typing import Final

from wakeful.agents.model import AgentSpec
from wakeful.integrations.docker.spec import ready_pattern
from wakeful.integrations.tmux.screen import FACTS, Screen
from wakeful.integrations.tmux.start_clients import blocking_dialog_text, client_started_by, dialog_of

UNKNOWN_SCREEN: Final = "its client shows neither an input line nor a dialog that Wakeful knows"


def needs_screen(spec: AgentSpec) -> bool:
    """Whether only its screen says that it is ready. Raises AgentRefused."""
    return ready_pattern(spec) is not None or client_started_by(spec.command) is not None


def capture_argv(target: str) -> tuple[str, ...]:
    """The words for tmux that show a pane as `Screen.parse` reads it."""
    return ("display-message", "-p", "-t", target, FACTS, ";", "capture-pane", "-p", "-e", "-t", target)


def unready_reason(spec: AgentSpec, seen: bytes) -> str | None:
    """Why this screen does not say that it is ready; None if it does. Raises AgentRefused."""
    try:
        screen = Screen.parse(seen)
    except ValueError:
        return "its screen cannot be read"
    pattern = ready_pattern(spec)
    if pattern is not None and pattern.search("\n".join(screen.rows)) is not None:
        return None
    if (dialog := blocking_dialog_text(spec.name, spec.command, screen)) is not None:
        return dialog
    if pattern is not None:
        return f"its screen never showed {spec.ready!r}"
    return None if dialog_of(spec.command, screen) is None else UNKNOWN_SCREEN
