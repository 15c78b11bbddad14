"""Which command takes a person to a pane, on this host or in a container. Pure."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from wakeful.core.errors import OperatorError
from wakeful.core.managed_session import PaneAddress


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


class Visit(Struct, frozen=True):
    """The words that hand a terminal to an agent in a container, and those that end the visit from outside of it."""

    argv: tuple[str, ...]
    leave: tuple[str, ...]


# Only what every such container has: sh and tmux. The server remembers which client this visit is.
_COME: Final = """\
(tmux set-option -gq "$0" "$(sh -c 'echo $PPID')"; exec "$@")
code=$?; tmux set-option -gqu "$0" 2>/dev/null; exit $code
"""
_LEAVE: Final = """\
visitor=$(tmux show-options -gqv "$0")
tmux list-clients -F '#{client_pid} #{client_tty}' | while read -r pid tty; do
  [ "$pid" != "$visitor" ] || tmux detach-client -t "$tty"
done
"""


def container_visit(argv: Sequence[str], mark: str) -> Visit:
    """The engine's words to attach, `… exec -it CONTAINER tmux …`, marked so that this very visit can be ended."""
    at = list(argv).index("tmux")
    engine, tmux, option = argv[:at], argv[at:], f"@wakeful-visit-{mark}"
    unseen = [word for word in engine if word != "-it"]
    return Visit((*engine, "sh", "-c", _COME, option, *tmux), (*unseen, "sh", "-c", _LEAVE, option))
