"""Recognizes a client's start dialog on a screen by the dialog's own words. Pure.

A dialog needs both its words and a sign that it waits for a key; a screen with only one of them is unknown.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from wakeful.integrations.tmux.input_line import squeeze
from wakeful.integrations.tmux.screen import Screen
from wakeful.judging.evidence import DialogKind


class StartDialog(Struct, frozen=True):
    """A dialog on a screen, and what it says from its first known words on."""

    kind: DialogKind
    words: str


def known_dialog(
    screen: Screen, words: Mapping[DialogKind, Sequence[str]], awaits_key: re.Pattern[str]
) -> StartDialog:
    """The dialog with some of these words; of kind UNKNOWN if there is none."""
    said = [row.strip() for row in screen.rows if row.strip()]
    for kind, phrases in words.items():
        at = max(_begin(said, phrase) for phrase in phrases)
        if at >= 0 and any(map(awaits_key.search, said[at:])):
            return StartDialog(kind, " ".join(said[at:]))
    return StartDialog(DialogKind.UNKNOWN, " ".join(said))


def _begin(said: list[str], phrase: str) -> int:
    """The row in which this phrase begins, wherever the pane broke it; -1 if it is not there.

    A narrow pane breaks lines anywhere, so that words are compared without their spaces.
    """
    text, wanted = "".join(map(squeeze, said)), squeeze(phrase)
    found = text.rfind(wanted)
    if found < 0:
        return -1
    for at, row in enumerate(said):
        found -= len(squeeze(row))
        if found < 0:
            return at
    return -1
