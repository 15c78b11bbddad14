"""Recognizes the dialogs that Claude Code and Codex show before they take a prompt, by phrases of the dialogs. Pure.

A dialog needs both a phrase and a sign that it waits for a key; a screen with only one of them is unknown. The
phrases are those of Claude Code 2.1.197 and Codex 0.166.0.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from wakeful.integrations.tmux.input_line import ClaudeInput, CodexInput, find_permission, squeeze
from wakeful.integrations.tmux.screen import Screen
from wakeful.judging.evidence import DialogKind

_Phrases = Mapping[DialogKind, Sequence[str]]
_CLAUDE_PHRASES: Final[_Phrases] = {
    DialogKind.TRUST: ("Quick safety check:", "Do you trust the files in this folder?"),
    DialogKind.BYPASS: ("WARNING: Claude Code running in Bypass Permissions mode",),
    DialogKind.LOGIN: ("Select login method:", "Paste code here if prompted"),
    DialogKind.THEME: ("Choose the text style that looks best with your terminal",),
    DialogKind.API_KEY: ("Detected a custom API key in your environment",),
    DialogKind.MCP_SERVER: ("New MCP server found in", "new MCP servers found in"),
    DialogKind.SECURITY_NOTES: ("Security notes:",),
}
_CLAUDE_AWAITS_KEY: Final = re.compile(
    r"\u276f\s*\d+\.|enter to (?:confirm|select|continue)|press enter|esc to cancel|paste code here",
    re.IGNORECASE,
)
_CLAUDE_INPUT: Final = ClaudeInput()
_CODEX_PHRASES: Final[_Phrases] = {
    DialogKind.TRUST: ("Trust this folder?",),
    DialogKind.LOGIN: (
        "Sign in with ChatGPT to use Codex as part of your paid plan",
        "Choose how you want to use Codex.",
        "Finish signing in via your browser",
        "Follow these steps to sign in with ChatGPT using device code authorization:",
        "Use your own OpenAI API key for usage-based billing",
    ),
    DialogKind.UPDATE: ("Update available",),
    DialogKind.SECURITY_NOTES: ("Learn about permissions and approvals in the Codex docs",),
}
_CODEX_AWAITS_KEY: Final = re.compile(
    r"^[>\u203a]\s*\d+\.|enter to|to (?:continue|confirm|cancel)\b|press (?:enter|any key)"
    r"|paste or type your api key|open this link|enter this one-time code",
    re.IGNORECASE,
)
# Questions inside a turn: a conversation has begun.
_CODEX_QUESTIONS: Final = ("Would you like to ", "Implement this plan?")
_CODEX_INPUT: Final = CodexInput()


class StartDialog(Struct, frozen=True):
    """A dialog on a screen, and its text from the first known phrase on."""

    kind: DialogKind
    words: str


def claude_dialog_on(screen: Screen) -> StartDialog | None:
    """The dialog on the screen; None if it shows an input line or asks permission inside a turn.

    Any other screen is of kind UNKNOWN.
    """
    if _CLAUDE_INPUT.draft(screen) is not None or find_permission(screen) is not None:
        return None
    return _known_dialog(screen, _CLAUDE_PHRASES, _CLAUDE_AWAITS_KEY)


def codex_dialog_on(screen: Screen) -> StartDialog | None:
    """The dialog on the screen; None if it shows an input line, a running turn or a question inside one.

    Any other screen is of kind UNKNOWN.
    """
    if _CODEX_INPUT.draft(screen) is not None or _CODEX_INPUT.is_working(screen):
        return None
    if any(row.strip().startswith(_CODEX_QUESTIONS) for row in screen.rows):
        return None
    return _known_dialog(screen, _CODEX_PHRASES, _CODEX_AWAITS_KEY)


def _known_dialog(screen: Screen, phrases: _Phrases, awaits_key: re.Pattern[str]) -> StartDialog:
    """The dialog with one of these phrases; of kind UNKNOWN if there is none."""
    rows = [row.strip() for row in screen.rows if row.strip()]
    for kind, of_kind in phrases.items():
        at = max(_begin(rows, phrase) for phrase in of_kind)
        if at >= 0 and any(map(awaits_key.search, rows[at:])):
            return StartDialog(kind, " ".join(rows[at:]))
    return StartDialog(DialogKind.UNKNOWN, " ".join(rows))


def _begin(rows: list[str], phrase: str) -> int:
    """The row in which this phrase begins; -1 if it is not there.

    A narrow pane breaks lines anywhere, so text is compared without its spaces.
    """
    found = "".join(map(squeeze, rows)).rfind(squeeze(phrase))
    if found < 0:
        return -1
    for at, row in enumerate(rows):
        found -= len(squeeze(row))
        if found < 0:
            return at
    return -1
