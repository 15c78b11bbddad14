"""Where a program takes its text, as its screen shows it: which input line, empty or not, and what is in the way. Pure.

Three things are told apart: an empty input line, one with somebody's draft, and none at all. A screen that is not
understood has none, and then nobody types.
"""

import re
from enum import Enum
from typing import Final, Protocol

from wakeful.integrations.tmux.keys import squeezed
from wakeful.integrations.tmux.screen import Screen

# Rows above the end of a screen on which an open question stands.
_QUESTION_ROWS: Final = 8
_BOX: Final = " \t\xa0│┃|"
# The angles that clients and shells draw before their input lines.
_ANGLES: Final = "\u276f\u203a\xbb"
# What stands before an empty input line of a program. Shells are none of ours: nothing is typed into one.
_PROMPT: Final = re.compile(rf"[\w .:/~()\[\]@-]*(?:>{{1,3}}|[{_ANGLES}])")
_WORKING: Final = "esc to interrupt"
_CODEX_SIGN: Final = "\u203a"
# An entry of a menu, which begins with the same sign while it is chosen.
_CHOICE: Final = re.compile(rf"{_CODEX_SIGN}\s*\d+\.(?:\s|$)")
_SHELL_SIGNS: Final = f"$#%>{_ANGLES}➜λ"
_QUESTION: Final = re.compile(
    r"\[y(?:es)?/n(?:o)?\]|\(y(?:es)?/n(?:o)?\)|\by/n\b|\byes/no\b|password|passphrase|are you sure"
    r"|press (?:enter|return|any key)|(?:enter|return) to (?:select|confirm|continue)|esc to cancel"
    rf"|^\s*[{_ANGLES}>] 1\. |\(END\)|--more--",
    re.IGNORECASE,
)


class Standing(Enum):
    """Whose what stands in an input line is, as far as one text is concerned."""

    EMPTY = "nothing"
    OURS = "the whole text"
    PART = "the beginning of the text"
    OTHER = "something else"
    HIDDEN = "no input line is shown"


class Input(Protocol):
    """How one program shows where text goes."""

    several_lines: bool
    # Whether the program is meant to be a shell.
    shell: bool
    # The key that ends a turn and leaves the program alive.
    interrupt_key: str

    def draft(self, screen: Screen) -> str | None:
        """What stands in the input line: empty if nothing, None if no input line is shown."""

    def question(self, screen: Screen) -> str | None:
        """The words by which an open question or menu was recognised."""

    def prepared(self, text: str) -> str:
        """The text as this program must be given it to take it literally."""

    def shows(self, screen: Screen, before: Screen, text: str) -> bool:
        """Whether exactly this text stands in the input line that was empty before."""

    def standing(self, screen: Screen, prompt: str, text: str) -> Standing:
        """What stands in the input line, compared with this text; `prompt` stood before its cursor when it was empty."""

    def works(self, screen: Screen) -> bool:
        """Whether the screen says that a turn runs."""


class PlainInput:
    """A program nobody knows: the row of the cursor is its input line."""

    several_lines = False
    shell = False
    interrupt_key = "C-c"

    def draft(self, screen: Screen) -> str | None:
        # A terminal shows an interrupt before the prompt that follows it.
        row = screen.cursor_text.strip(_BOX).removeprefix("^C")
        return "" if not row or _PROMPT.fullmatch(row) else row

    def question(self, screen: Screen) -> str | None:
        said = [row for row in screen.rows if row.strip()][-_QUESTION_ROWS:]
        if screen.cursor_text.rstrip(_BOX).endswith("?"):
            return screen.cursor_text.strip()
        return next((row.strip() for row in said if _QUESTION.search(row)), None)

    def prepared(self, text: str) -> str:
        return text

    def shows(self, screen: Screen, before: Screen, text: str) -> bool:
        # A long line goes on in the rows below, so that all up to the cursor is compared, from its end.
        last = screen.before_cursor.strip(_BOX)
        rows = [*(row.strip(_BOX) for row in screen.typed[: screen.cursor_row]), last]
        expected = squeezed(before.before_cursor.strip(_BOX) + text)
        return bool(last or screen.wrapped) and squeezed("".join(rows)).endswith(expected)

    def standing(self, screen: Screen, prompt: str, text: str) -> Standing:
        before, whole = squeezed(prompt.strip(_BOX)), squeezed(text)
        if screen.behind_cursor.strip(_BOX):
            # Somebody moved the cursor.
            return Standing.OTHER
        rows = [row.strip(_BOX) for row in screen.typed[: screen.cursor_row]]
        shown = squeezed(screen.before_cursor.strip(_BOX))
        if shown == before and not screen.wrapped:
            return Standing.EMPTY
        # A long line began in one of the rows above.
        for row in (*reversed(rows), None):
            part = shown.removeprefix(before)
            if shown.startswith(before) and part and whole.startswith(part):
                return Standing.OURS if part == whole else Standing.PART
            if row is None or len(shown) > len(before) + len(whole):
                break
            shown = squeezed(row) + shown
        return Standing.OTHER

    def works(self, screen: Screen) -> bool:  # noqa: ARG002 - the protocol's
        """Never: nobody knows how it would say so."""
        return False


class CodexInput(PlainInput):
    """Codex in a terminal: it says itself how it is interrupted. Known from its documented screens only.

    Its input line begins with an angle. A screen without one is coming up, or asks something.
    """

    interrupt_key = "Escape"

    def draft(self, screen: Screen) -> str | None:
        # A long draft goes on in the rows below its sign.
        rows: list[str] = []
        for row in reversed(screen.typed[: screen.cursor_row + 1]):
            rows.insert(0, row.strip(_BOX))
            if not rows[0] or rows[0].startswith(_CODEX_SIGN):
                break
        if not rows or not rows[0].startswith(_CODEX_SIGN) or _CHOICE.match(rows[0]) is not None:
            return None
        return "\n".join(rows).removeprefix(_CODEX_SIGN).strip()

    def works(self, screen: Screen) -> bool:
        return any(_WORKING in row for row in screen.rows)


class ShellInput(PlainInput):
    """A shell at its prompt, for the one thing that is typed there: the command that continues a conversation."""

    shell = True

    def draft(self, screen: Screen) -> str | None:
        """What stands behind the cursor may be the end of a draft, or left over from a program that was killed."""
        if self.prompts(screen) and not screen.behind_cursor.strip():
            return ""
        return screen.cursor_text.strip() or None

    def prompts(self, screen: Screen) -> bool:
        """Whether a prompt and nothing else stands before the cursor.

        A prompt may look like anything, a draft may end like one: only a row with one sign, at its end, counts.
        """
        row = screen.before_cursor.rstrip()
        signs = [
            at for at, sign in enumerate(row) if sign in _SHELL_SIGNS and row[at + 1 : at + 2] in ("", " ")
        ]
        return bool(row) and signs == [len(row) - 1]

    def question(self, screen: Screen) -> str | None:  # noqa: ARG002 - what stands above was printed by programs
        return None
