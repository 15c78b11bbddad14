"""Recognizes the dialogs that Codex shows before it takes a prompt. Pure.

The phrases are those of 0.166.0. Inside a conversation Codex shows its input line, or asks for an approval.
"""

import re
from collections.abc import Mapping
from typing import Final

from wakeful.integrations.tmux.input_line import CodexInput
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.start_screens import StartDialog, known_dialog
from wakeful.judging.evidence import DialogKind

_WORDS: Final[Mapping[DialogKind, tuple[str, ...]]] = {
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
_AWAITS_KEY: Final = re.compile(
    r"^[>\u203a]\s*\d+\.|enter to|to (?:continue|confirm|cancel)\b|press (?:enter|any key)"
    r"|paste or type your api key|open this link|enter this one-time code",
    re.IGNORECASE,
)
# Questions inside a turn: a conversation has begun.
_ASKING: Final = ("Would you like to ", "Implement this plan?")
_INPUT: Final = CodexInput()


def dialog_on(screen: Screen) -> StartDialog | None:
    """The dialog on the screen; None if it shows an input line, a running turn or a question inside one.

    Any other screen is of kind UNKNOWN.
    """
    if _INPUT.draft(screen) is not None or _INPUT.is_working(screen):
        return None
    if any(row.strip().startswith(_ASKING) for row in screen.rows):
        return None
    return known_dialog(screen, _WORDS, _AWAITS_KEY)
