"""The dialogs that Claude Code shows before it takes a prompt, read from its screen. Pure.

Seen with 2.1.197. A dialog is known by its own words and by a sign that it waits for a key; one without the other is a
screen that nobody knows, and it is called that.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from wakeful.adapters.tmux.claude_input import ClaudeInput, permission
from wakeful.adapters.tmux.keys import squeezed
from wakeful.adapters.tmux.screen import Screen
from wakeful.domain.evidence import DialogKind

# A narrow pane breaks lines anywhere, so that words are compared without their spaces.
_WORDS: Final[Mapping[DialogKind, tuple[str, ...]]] = {
    DialogKind.TRUST: ("Quick safety check:", "Do you trust the files in this folder?"),
    DialogKind.BYPASS: ("WARNING: Claude Code running in Bypass Permissions mode",),
    DialogKind.LOGIN: ("Select login method:", "Paste code here if prompted"),
    DialogKind.THEME: ("Choose the text style that looks best with your terminal",),
    DialogKind.API_KEY: ("Detected a custom API key in your environment",),
    DialogKind.MCP_SERVER: ("New MCP server found in", "new MCP servers found in"),
    DialogKind.SECURITY_NOTES: ("Security notes:",),
}
_AWAITS_KEY: Final = re.compile(
    r"\u276f\s*\d+\.|enter to (?:confirm|select|continue)|press enter|esc to cancel|paste code here",
    re.IGNORECASE,
)
_INPUT: Final = ClaudeInput()


class Shown(Struct, frozen=True):
    """A dialog on a screen, and what it says from its first known words on."""

    kind: DialogKind
    words: str


def dialog_on(screen: Screen) -> Shown | None:
    """The dialog on the screen; None if it shows an input line or asks permission inside a turn.

    What is neither of all these is of kind UNKNOWN.
    """
    if _INPUT.draft(screen) is not None or permission(screen) is not None:
        return None
    said = [row.strip() for row in screen.rows if row.strip()]
    for kind, phrases in _WORDS.items():
        at = max(_begin(said, phrase) for phrase in phrases)
        if at >= 0 and any(map(_AWAITS_KEY.search, said[at:])):
            return Shown(kind, " ".join(said[at:]))
    return Shown(DialogKind.UNKNOWN, " ".join(said))


def _begin(said: list[str], phrase: str) -> int:
    """The row in which this phrase begins, wherever the pane broke it; -1 if it is not there."""
    text, wanted = "".join(map(squeezed, said)), squeezed(phrase)
    found = text.rfind(wanted)
    if found < 0:
        return -1
    for at, row in enumerate(said):
        found -= len(squeezed(row))
        if found < 0:
            return at
    return -1
