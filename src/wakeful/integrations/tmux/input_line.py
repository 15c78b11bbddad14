"""Reads input lines and questions of Claude Code, Codex and shells on the screen; checks typed text. Pure.

A terminal obeys control characters, and a program may take a newline for Enter, so text that could do more
than appear in an input line is refused before typing. The readers distinguish an empty input line, one with a
draft, and none; a screen that is not understood has none, and nothing is typed there. Claude Code's screen is
that of 2.1.197: there a pasted text never answers a dialog, and text that begins with a blank is never a command.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from wakeful.control.driver import LinesRefused, PermissionReply, PromptRefused
from wakeful.integrations.tmux.screen import Screen

# A terminal is slow and visible. Longer prompts belong in a file that the prompt names.
TYPED_BYTES_MAX: Final = 32 * 1024
# Linux keeps 4,095 bytes of a line that its program reads line by line, and silently drops the rest.
LINE_BYTES_MAX: Final = 4000
# Terminals may omit these or join them with their neighbours: marks, joiners, spaces of any kind.
_INVISIBLE_CATEGORIES: Final = frozenset({"Mn", "Me", "Cf", "Cc", "Zs", "Zl", "Zp"})


def prepare_prompt(prompt: str, *, several_lines: bool) -> str:
    """The prompt as it will be typed. Raises PromptRefused."""
    text = prompt.replace("\r\n", "\n").strip(" \t\n")
    if not text:
        raise PromptRefused(reason="it is empty")
    for char in text:
        if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs"):
            raise PromptRefused(reason=f"it contains the control character U+{ord(char):04X}")
    bytes_count = len(text.encode())
    if bytes_count > TYPED_BYTES_MAX:
        advice = "write it to a file and send the file's path"
        raise PromptRefused(
            reason=f"{bytes_count:,} bytes are more than a terminal takes ({TYPED_BYTES_MAX:,}): {advice}"
        )
    if "\n" in text and not several_lines:
        raise LinesRefused
    return text


def squeeze(text: str) -> str:
    """The text without characters that a terminal wraps, indents or joins; only this is compared."""
    if text.isascii():
        return "".join(text.split())
    normal = unicodedata.normalize("NFC", text)
    return "".join(char for char in normal if unicodedata.category(char) not in _INVISIBLE_CATEGORIES)


def digest(text: str) -> str:
    """A digest by which a text is recognized later without storing it."""
    return hashlib.sha256(squeeze(text).encode(errors="surrogatepass")).hexdigest()[:32]


# An open question is in so many last rows of a screen.
_QUESTION_ROWS: Final = 8
_BOX: Final = " \t\xa0│┃|"
# The angles that clients and shells draw before their input lines.
_ANGLES: Final = "\u276f\u203a\xbb"
# The prompt before a program's empty input line. Not of shells: no prompt is typed into one.
_PROMPT: Final = re.compile(rf"[\w .:/~()\[\]@-]*(?:>{{1,3}}|[{_ANGLES}])")
_WORKING: Final = "esc to interrupt"
_CODEX_SIGN: Final = "\u203a"
# A selected entry of a menu, which begins with the same sign.
_CHOICE: Final = re.compile(rf"{_CODEX_SIGN}\s*\d+\.(?:\s|$)")
_SHELL_SIGNS: Final = f"$#%>{_ANGLES}➜λ"
_QUESTION: Final = re.compile(
    r"\[y(?:es)?/n(?:o)?\]|\(y(?:es)?/n(?:o)?\)|\by/n\b|\byes/no\b|password|passphrase|are you sure"
    r"|press (?:enter|return|any key)|(?:enter|return) to (?:select|confirm|continue)|esc to cancel"
    rf"|^\s*[{_ANGLES}>] 1\. |\(END\)|--more--",
    re.IGNORECASE,
)


class InputLineState(Enum):
    """The content of an input line, compared with one text."""

    EMPTY = "nothing"
    WHOLE = "the whole text"
    PART = "the beginning of the text"
    OTHER = "something else"
    HIDDEN = "no input line is shown"


class InputReader(Protocol):
    """Reads one program's input line and questions."""

    several_lines: bool
    # Whether the program may be a shell.
    shell: bool
    # The key that ends a turn and leaves the program alive.
    interrupt_key: str

    def draft(self, screen: Screen) -> str | None:
        """The text in the input line; None if no input line is shown."""

    def question(self, screen: Screen) -> str | None:
        """The text of an open question or menu; None if there is none."""

    def escape(self, text: str) -> str:
        """The text in a form that this program takes literally."""

    def shows(self, screen: Screen, before: Screen, text: str) -> bool:
        """Whether exactly this text is in the input line that was empty before."""

    def input_state(self, screen: Screen, prompt: str, text: str) -> InputLineState:
        """The input line compared with this text; `prompt` was before its cursor when it was empty."""

    def is_working(self, screen: Screen) -> bool:
        """Whether the screen shows a running turn."""


class PlainInput:
    """An unknown program: the row of the cursor is its input line."""

    several_lines = False
    shell = False
    interrupt_key = "C-c"

    def draft(self, screen: Screen) -> str | None:
        # A terminal shows an interrupt before the prompt that follows it.
        row = screen.cursor_text.strip(_BOX).removeprefix("^C")
        return "" if not row or _PROMPT.fullmatch(row) else row

    def question(self, screen: Screen) -> str | None:
        last_rows = [row for row in screen.rows if row.strip()][-_QUESTION_ROWS:]
        if screen.cursor_text.rstrip(_BOX).endswith("?"):
            return screen.cursor_text.strip()
        return next((row.strip() for row in last_rows if _QUESTION.search(row)), None)

    def escape(self, text: str) -> str:
        return text

    def shows(self, screen: Screen, before: Screen, text: str) -> bool:
        # A long line continues in the rows below, so all rows up to the cursor are compared, from the end.
        last = screen.before_cursor.strip(_BOX)
        rows = [*(row.strip(_BOX) for row in screen.typed[: screen.cursor_row]), last]
        expected = squeeze(before.before_cursor.strip(_BOX) + text)
        return bool(last or screen.is_wrapped) and squeeze("".join(rows)).endswith(expected)

    def input_state(self, screen: Screen, prompt: str, text: str) -> InputLineState:
        before, whole = squeeze(prompt.strip(_BOX)), squeeze(text)
        if screen.behind_cursor.strip(_BOX):
            # A person moved the cursor.
            return InputLineState.OTHER
        rows = [row.strip(_BOX) for row in screen.typed[: screen.cursor_row]]
        shown = squeeze(screen.before_cursor.strip(_BOX))
        if shown == before and not screen.is_wrapped:
            return InputLineState.EMPTY
        # A long line began in one of the rows above.
        for row in (*reversed(rows), None):
            part = shown.removeprefix(before)
            if shown.startswith(before) and part and whole.startswith(part):
                return InputLineState.WHOLE if part == whole else InputLineState.PART
            if row is None or len(shown) > len(before) + len(whole):
                break
            shown = squeeze(row) + shown
        return InputLineState.OTHER

    def is_working(self, screen: Screen) -> bool:  # noqa: ARG002 - an unknown program shows no known sign of it
        return False


class CodexInput(PlainInput):
    """Codex in a terminal: it shows the key that interrupts it. Known only from its documented screens.

    Its input line begins with an angle. A screen without one shows a start or a question.
    """

    interrupt_key = "Escape"

    def draft(self, screen: Screen) -> str | None:
        # A long draft continues in the rows below its sign.
        rows: list[str] = []
        for row in reversed(screen.typed[: screen.cursor_row + 1]):
            rows.insert(0, row.strip(_BOX))
            if not rows[0] or rows[0].startswith(_CODEX_SIGN):
                break
        if not rows or not rows[0].startswith(_CODEX_SIGN) or _CHOICE.match(rows[0]) is not None:
            return None
        return "\n".join(rows).removeprefix(_CODEX_SIGN).strip()

    def is_working(self, screen: Screen) -> bool:
        return any(_WORKING in row for row in screen.rows)


class ShellInput(PlainInput):
    """A shell at its prompt. Only the command that continues a conversation is typed there."""

    shell = True

    def draft(self, screen: Screen) -> str | None:
        """Text after the cursor may be the end of a draft, or a leftover of a killed program."""
        if self.shows_prompt(screen) and not screen.behind_cursor.strip():
            return ""
        return screen.cursor_text.strip() or None

    def shows_prompt(self, screen: Screen) -> bool:
        """Whether only a prompt is before the cursor.

        A prompt may look like anything, and a draft may end like one: only a row with one sign, at its end, counts.
        """
        row = screen.before_cursor.rstrip()
        signs = [
            at for at, sign in enumerate(row) if sign in _SHELL_SIGNS and row[at + 1 : at + 2] in ("", " ")
        ]
        return bool(row) and signs == [len(row) - 1]

    def question(self, screen: Screen) -> str | None:  # noqa: ARG002 - the rows above are output of programs
        return None


_RULE: Final = "─" * 8
_SIGN: Final = "\u276f"
# The start dialog for an API key begins like a permission question, and no tool waits for its answer.
_PERMISSION_QUESTION: Final = re.compile(r"\s*Do you want to (?!use this API key\?).*\?\s*")
_OPTION: Final = re.compile(rf"\s*(?:{_SIGN}\s*)?([1-9])\.\s+(\S.*?)\s*")
_MENU: Final = re.compile(
    rf"esc to (?:cancel|exit|go back)|enter to (?:select|confirm|continue)|{_SIGN} [1-9]\. ", re.IGNORECASE
)
# A paste that is long or has many lines is shown only as this; its number counts the pastes of the session.
_PASTED: Final = re.compile(r"\[Pasted text #\d+(?: \+(\d+) lines?)?\]")
# `/` begins a command of the client, `!` one of the shell; after a blank they are text.
_COMMAND_SIGNS: Final = ("/", "!", "#")


class PermissionDialog(Struct, frozen=True):
    """An open permission question. `id` is a digest of its whole text, so that no answer reaches another question."""

    id: str
    text: str
    options: dict[str, str]

    @property
    def tool(self) -> str:
        """The client's name for the tool: the headline of the question."""
        return self.text.partition("\n")[0]

    def digit(self, reply: PermissionReply) -> str | None:
        """The digit that gives this answer only once, not for later questions."""
        for digit, label in self.options.items():
            if label == "Yes" if reply is PermissionReply.ALLOW else re.match(r"No\b", label):
                return digit
        return None


class ClaudeInput:
    """Claude Code: its input line is between two rules, with the cursor in it."""

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

    def escape(self, text: str) -> str:
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
        return squeeze(draft) == squeeze(text)

    def input_state(self, screen: Screen, prompt: str, text: str) -> InputLineState:  # noqa: ARG002 - the rules bound it
        draft = self.draft(screen)
        if not draft:
            return InputLineState.HIDDEN if draft is None else InputLineState.EMPTY
        if self.shows(screen, screen, text):
            return InputLineState.WHOLE
        return InputLineState.PART if squeeze(text).startswith(squeeze(draft)) else InputLineState.OTHER

    def is_working(self, screen: Screen) -> bool:
        bounds = _bounds(screen)
        return bounds is not None and any(_WORKING in row for row in screen.rows[bounds[1] :])


def find_permission(screen: Screen) -> PermissionDialog | None:
    """The permission question on the screen; None if there is none, or if its beginning is not visible."""
    if _bounds(screen) is not None:
        return None
    question = _last(screen.rows, _PERMISSION_QUESTION.fullmatch)
    top = None if question is None else _last(screen.rows[:question], _is_rule)
    if question is None or top is None:
        return None
    found = (_OPTION.fullmatch(row) for row in screen.rows[question + 1 :])
    options = {each[1]: each[2] for each in found if each is not None}
    # Without the mark of the selected option: it moves, but the question stays the same.
    text = "\n".join(row.replace(_SIGN, " ").strip() for row in screen.rows[top + 1 :]).strip()
    return PermissionDialog(hashlib.sha256(squeeze(text).encode()).hexdigest()[:16], text, options)


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
