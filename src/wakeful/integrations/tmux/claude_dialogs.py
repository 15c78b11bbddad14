"""Recognizes the dialogs that Claude Code shows before it takes a prompt. Pure. Seen with 2.1.197."""

import re
from collections.abc import Mapping
from typing import Final

from wakeful.integrations.tmux.input_line import ClaudeInput, find_permission
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.start_screens import StartDialog, known_dialog
from wakeful.judging.evidence import DialogKind

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


def dialog_on(screen: Screen) -> StartDialog | None:
    """The dialog on the screen; None if it shows an input line or asks permission inside a turn.

    Any other screen is of kind UNKNOWN.
    """
    if _INPUT.draft(screen) is not None or find_permission(screen) is not None:
        return None
    return known_dialog(screen, _WORDS, _AWAITS_KEY)
