"""What may be said to an agent, and what a resumed one must be told. Pure.

A brief is one line, begins with a letter that answers no question on a screen, and holds nothing that was not redacted.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from wakeful.judging.wording import length, quoted

# The rest is counted: more than a handful of open calls nobody checks one by one.
CALLS_NAMED_MAX: Final = 8
# How everything begins that Wakeful itself tells an agent.
SPEAKER: Final = "Wakeful: "
WAKER: Final = "Wakeful wakes the agent "
# In bytes as well: logs are read as such.
OPENINGS: Final = (SPEAKER.encode(), WAKER.encode())


class InterruptedCall(Struct, frozen=True):
    """A call that was begun and never came back. `words` are its input, or what it is about."""

    tool: str
    words: str
    # How long before its end it was begun, where that is known.
    since_seconds: float | None = None


def brief(calls: Sequence[InterruptedCall], running: Sequence[str] = ()) -> str:
    """What to tell an agent that goes on after its process ended: its client does not tell it what was cut off.

    `running` are the commands of its tools that live on without it.
    """
    opening = (
        "Wakeful: your process ended in the middle of your work and was started again in this conversation."
    )
    if not calls:
        return (
            f"{opening} No call is known to have been running, but one begun in the last moment may be missing in your "
            "conversation. Look at what is done already, then go on."
        )
    named = "; ".join(_named(call) for call in calls[:CALLS_NAMED_MAX])
    more = f"; and {len(calls) - CALLS_NAMED_MAX} more" if len(calls) > CALLS_NAMED_MAX else ""
    alive = (
        f"Still running: {'; '.join(quoted(each) for each in running[:CALLS_NAMED_MAX])}. " if running else ""
    )
    return (
        f"{opening} Begun and never answered: {named}{more}. {alive}"
        "Each may have run whole, in part or not at all, and may have had effects elsewhere. "
        "Check what is there before you repeat any of it, then go on."
    )


def fresh_brief(conversation_id: str) -> str:
    """What to tell an agent that takes the place of a conversation that cannot go on."""
    return (
        f"Wakeful: the conversation {conversation_id} worked in this folder and cannot go on; you take its place. "
        "Look at what is done already before you do anything, then go on with its work; if you cannot tell what it "
        "was, say so and end your turn."
    )


def unfit(prompt: str, bytes_max: int) -> str | None:
    """Why this prompt must not be delivered, or None. Nothing is stripped: what is not meant is refused."""
    if not prompt.strip():
        return "it is empty"
    # A character has one byte at least: no need to encode what is too long anyway.
    if len(prompt) > bytes_max or len(prompt.encode("utf-8", "surrogatepass")) > bytes_max:
        return f"it is longer than {bytes_max} bytes"
    refused = next(
        (char for char in prompt if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"), None
    )
    return None if refused is None else f"it holds the control character U+{ord(refused):04X}"


def _named(call: InterruptedCall) -> str:
    began = "" if call.since_seconds is None else f", begun {length(call.since_seconds)} before"
    return f"{call.tool} {quoted(call.words)}{began}"
