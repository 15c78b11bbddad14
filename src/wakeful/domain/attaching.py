"""Which command takes a person to a pane. Pure."""

from wakeful.domain.errors import OperatorError
from wakeful.domain.hosting import PaneAddress


class NestedTerminal(OperatorError):
    """You are inside of another tmux server, and a session within a session takes every key twice. Detach first, or open another terminal and run: {command}"""

    code = "nested-terminal"


def attach_argv(pane: PaneAddress, inside: str | None) -> tuple[str, ...]:
    """The words to run; `inside` is the caller's $TMUX. Raises NestedTerminal inside of another server.

    A pane's target names its session and window too, so that the very pane is shown.
    """
    tmux = ("tmux", "-u", "-S", pane.socket)
    # A pane that is not the active one of its window would be attached to, but not shown.
    shown = ("select-window", "-t", pane.target, ";", "select-pane", "-t", pane.target, ";")
    if not inside:
        return (*tmux, *shown, "attach-session", "-t", pane.target)
    if inside.partition(",")[0] == pane.socket:
        return (*tmux, *shown, "switch-client", "-t", pane.target)
    raise NestedTerminal(command=f"tmux -S {pane.socket} attach-session -t {pane.session}")
