"""The screen of Claude Code: its input line between two rules, its questions, the sign that it works. Pure.

Seen with 2.1.197. A pasted text never answers a dialog there, and one that begins with a blank is never a command.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from wakeful.control.driver import Reply
from wakeful.integrations.tmux.inputs import Standing
from wakeful.integrations.tmux.keys import squeezed
from wakeful.integrations.tmux.screen import Screen

_RULE: Final = "─" * 8
_SIGN: Final = "\u276f"
_WORKING: Final = "esc to interrupt"
_ASKING: Final = re.compile(r"\s*Do you want to .*\?\s*")
_OPTION: Final = re.compile(rf"\s*(?:{_SIGN}\s*)?([1-9])\.\s+(\S.*?)\s*")
_MENU: Final = re.compile(
    rf"esc to (?:cancel|exit|go back)|enter to (?:select|confirm|continue)|{_SIGN} [1-9]\. ", re.IGNORECASE
)
# A paste that is long or has many lines is shown by this alone; its number counts the pastes of the session.
_PASTED: Final = re.compile(r"\[Pasted text #\d+(?: \+(\d+) lines?)?\]")
# `/` begins a command of the client, `!` one of the shell; behind a blank they are text.
_COMMAND_SIGNS: Final = ("/", "!", "#")


class Permission(Struct, frozen=True):
    """An open permission question. `id` is a digest of all it says, so that an answer fits no other one."""

    id: str
    text: str
    options: dict[str, str]

    @property
    def tool(self) -> str:
        """What the client calls the tool: the headline of the question."""
        return self.text.partition("\n")[0]

    def digit(self, reply: Reply) -> str | None:
        """The digit that gives this answer once and promises nothing for later."""
        for digit, label in self.options.items():
            if label == "Yes" if reply is Reply.ALLOW else re.match(r"No\b", label):
                return digit
        return None


class ClaudeInput:
    """Claude Code: an input line is one only between its rules, with the cursor in it."""

    several_lines = True
    shell = False
    interrupt_key = "Escape"

    def draft(self, screen: Screen) -> str | None:
        bounds = _bounds(screen)
        if bounds is None:
            return None
        top, bottom = bounds
        text = "\n".join(screen.typed[top + 1 : bottom]).strip()
        return text.removeprefix(_SIGN).strip()

    def question(self, screen: Screen) -> str | None:
        if _bounds(screen) is not None:
            return None
        return next((row.strip() for row in reversed(screen.rows) if _MENU.search(row)), None)

    def prepared(self, text: str) -> str:
        before = " " if text.startswith(_COMMAND_SIGNS) else ""
        # An `@name` at the end opens a list of files, and Enter would choose from it.
        after = " " if text.rsplit(maxsplit=1)[-1].startswith("@") else ""
        return f"{before}{text}{after}"

    def shows(self, screen: Screen, before: Screen, text: str) -> bool:  # noqa: ARG002 - the rules bound it
        draft = self.draft(screen)
        if not draft:
            return False
        pasted = _PASTED.fullmatch(draft)
        if pasted is not None:
            return int(pasted[1] or 0) == text.count("\n")
        return squeezed(draft) == squeezed(text)

    def standing(self, screen: Screen, prompt: str, text: str) -> Standing:  # noqa: ARG002 - the rules bound it
        draft = self.draft(screen)
        if not draft:
            return Standing.HIDDEN if draft is None else Standing.EMPTY
        if self.shows(screen, screen, text):
            return Standing.OURS
        return Standing.PART if squeezed(text).startswith(squeezed(draft)) else Standing.OTHER

    def works(self, screen: Screen) -> bool:
        bounds = _bounds(screen)
        return bounds is not None and any(_WORKING in row for row in screen.rows[bounds[1] :])


def permission(screen: Screen) -> Permission | None:
    """The permission question on the screen; None if there is none, or if its beginning is out of sight."""
    if _bounds(screen) is not None:
        return None
    asked = _last(screen.rows, _ASKING.fullmatch)
    top = None if asked is None else _last(screen.rows[:asked], _is_rule)
    if asked is None or top is None:
        return None
    found = (_OPTION.fullmatch(row) for row in screen.rows[asked + 1 :])
    options = {each[1]: each[2] for each in found if each is not None}
    # Without the mark of the chosen option: it moves, and the question stays the same.
    text = "\n".join(row.replace(_SIGN, " ").strip() for row in screen.rows[top + 1 :]).strip()
    return Permission(hashlib.sha256(squeezed(text).encode()).hexdigest()[:16], text, options)


def _bounds(screen: Screen) -> tuple[int, int] | None:
    """The rows of the two rules around the input line that holds the cursor."""
    top = _last(screen.rows[: screen.cursor_row], _is_rule)
    below = (at for at in range(screen.cursor_row + 1, len(screen.rows)) if _is_rule(screen.rows[at]))
    bottom = next(below, None)
    if top is None or bottom is None or not screen.rows[top + 1].startswith(_SIGN):
        return None
    return top, bottom


def _is_rule(row: str) -> bool:
    return row.startswith(_RULE)


def _last(rows: tuple[str, ...], fits: Callable[[str], object]) -> int | None:
    return next((at for at in range(len(rows) - 1, -1, -1) if fits(rows[at])), None)
