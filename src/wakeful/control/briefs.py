"""Texts that Wakeful gives to agents, and the command that attaches a terminal to an agent in a container. Pure.

A brief tells a resumed agent which calls were interrupted. It is one line, begins with a letter that answers
no question on a screen, and contains only redacted text. Attach commands work on this host and in containers.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from wakeful.judging.wording import format_length, quote

# Further calls are only counted: an agent does not check many one by one.
CALLS_NAMED_MAX: Final = 8
# The beginnings of all prompts by Wakeful itself.
BRIEF_PREFIX: Final = "Wakeful: "
WAKE_PREFIX: Final = "Wakeful wakes the agent "
# As bytes, for the readers of logs.
OWN_PROMPT_PREFIXES: Final = (BRIEF_PREFIX.encode(), WAKE_PREFIX.encode())


# For a turn that failed, or died, and was not continued: its user was told so, and asks again.
PROMPT_FOLLOWS: Final = "Your user was told that this work failed, and writes the next message: do not go on before that. End your turn now."


class BriefedCall(Struct, frozen=True):
    """A call that began and never returned. `words` are its input or its subject."""

    tool: str
    words: str
    # From its beginning to the end of the process, if known.
    since_seconds: float | None = None


def brief(calls: Sequence[BriefedCall], running: Sequence[str] = ()) -> str:
    """The brief for an agent that goes on after its process ended: its client does not name the interrupted calls.

    `running` are the commands of its tools that still run.
    """
    opening = (
        "Wakeful: your process ended in the middle of your work and was started again in this conversation."
    )
    if not calls:
        return (
            f"{opening} No call is known to have been running, but one begun in the last moment may be missing in your "
            "conversation. Look at what is done already, then go on."
        )
    named = "; ".join(
        f"{call.tool} {quote(call.words)}"
        + ("" if call.since_seconds is None else f", begun {format_length(call.since_seconds)} before")
        for call in calls[:CALLS_NAMED_MAX]
    )
    more = f"; and {len(calls) - CALLS_NAMED_MAX} more" if len(calls) > CALLS_NAMED_MAX else ""
    alive = (
        f"Still running: {'; '.join(quote(each) for each in running[:CALLS_NAMED_MAX])}. " if running else ""
    )
    return (
        f"{opening} Begun and never answered: {named}{more}. {alive}"
        "Each may have run whole, in part or not at all, and may have had effects elsewhere. "
        "Check what is there before you repeat any of it, then go on."
    )


def fresh_brief(conversation_id: str) -> str:
    """The brief for an agent that replaces a conversation which cannot go on."""
    return (
        f"Wakeful: the conversation {conversation_id} worked in this folder and cannot go on; you take its place. "
        "Look at what is done already before you do anything, then go on with its work; if you cannot tell what it "
        "was, say so and end your turn."
    )


def prompt_problem(prompt: str, bytes_max: int) -> str | None:
    """Why this prompt must not be delivered, or None. Nothing is stripped from a prompt."""
    if not prompt.strip():
        return "it is empty"
    # A character has at least one byte: a prompt with too many need not be encoded.
    if len(prompt) > bytes_max or len(prompt.encode("utf-8", "surrogatepass")) > bytes_max:
        return f"it is longer than {bytes_max} bytes"
    refused = next(
        (char for char in prompt if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"), None
    )
    return None if refused is None else f"it contains the control character U+{ord(refused):04X}"


class ContainerAttach(Struct, frozen=True):
    """The command that attaches a terminal to an agent in a container, and the one that detaches it from outside."""

    argv: tuple[str, ...]
    leave: tuple[str, ...]


# Every such container has sh and tmux. A tmux option stores the pid of the attached client.
_ATTACH_SCRIPT: Final = """\
(tmux set-option -gq "$0" "$(sh -c 'echo $PPID')"; exec "$@")
code=$?; tmux set-option -gqu "$0" 2>/dev/null; exit $code
"""
_DETACH_SCRIPT: Final = """\
visitor=$(tmux show-options -gqv "$0")
tmux list-clients -F '#{client_pid} #{client_tty}' | while read -r pid tty; do
  [ "$pid" != "$visitor" ] || tmux detach-client -t "$tty"
done
"""


def container_attach(argv: Sequence[str], mark: str) -> ContainerAttach:
    """The engine's attach command, `… exec -it CONTAINER tmux …`, marked so that this attachment can be ended."""
    at = list(argv).index("tmux")
    engine, tmux, option = argv[:at], argv[at:], f"@wakeful-visit-{mark}"
    without_terminal = [word for word in engine if word != "-it"]
    return ContainerAttach(
        (*engine, "sh", "-c", _ATTACH_SCRIPT, option, *tmux),
        (*without_terminal, "sh", "-c", _DETACH_SCRIPT, option),
    )
