"""The words of a shell text: quotes removed, what only the running shell knows marked, nothing guessed.

Nothing is expanded and nothing runs. What stands inside of a substitution is handed to whoever reads commands.
"""

import re
from abc import ABC, abstractmethod
from typing import Final

# Stand for what only the running shell knows: inside of quotes it stays in its word, outside it may become several.
HELD: Final = "\x00"
LOOSE: Final = "\x01"
# Deeper than any person or agent writes; a text that goes on is not read to its end.
DEPTH_MAX: Final = 16

SPACE: Final = re.compile(r"(?:[ \t\n]|\\\n)+")
_PLAIN: Final = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
_PLAIN_QUOTED: Final = re.compile(r"[^\"\\$`]+")
_PLAIN_BRACED: Final = re.compile(r"[^}'\"\\$`]+")
_NAME: Final = re.compile(r"\w+|[@*#?$!-]")
_ARRAY: Final = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_ANSI_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKTICKED: Final = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ESCAPES_QUOTED: Final = {"\n": "", "$": "$", "`": "`", '"': '"', "\\": "\\"}
# Two words side by side are no arithmetic: `$((git push) )` is a subshell.
_NO_ARITHMETIC: Final = re.compile(r"\w\s+\w|[;\"'`]")


class TooDeepError(Exception):
    """More nesting than is read."""


def computes(word: str) -> bool:
    """Whether a word holds an index that the shell would compute by running something."""
    return "[" in word and ("$(" in word or "`" in word)


def is_open(word: str) -> bool:
    """Whether a part of the word is known to the running shell alone."""
    return HELD in word or LOOSE in word


class Words(ABC):
    """Reads words, one pass. `whole` turns false when the text ends inside of one or is not understood."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.whole = True

    @abstractmethod
    def commands_of(self, text: str) -> None:
        """Note the commands of a text that the shell would run apart."""

    @abstractmethod
    def nested(self) -> None:
        """Note the commands of a substitution or subshell, up to its closing parenthesis."""

    def word(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            plain = _PLAIN.match(self.text, self.at)
            char = self.text[self.at]
            if plain:
                self.at = plain.end()
                parts.append(plain[0])
            elif char == "(" and len(parts) == 1 and _ARRAY.fullmatch(parts[0]):
                self.at += 1
                parts.append(self._array())
            elif char in " \t\n;&|<>()":
                break
            else:
                parts.append(self._special(char))
        return "".join(parts)

    def quoted_part(self) -> str:
        """The next piece of a text in which only expansions have a meaning."""
        plain = _PLAIN_QUOTED.match(self.text, self.at)
        if plain:
            self.at = plain.end()
            return plain[0]
        char = self.text[self.at]
        if char == "\\":
            escaped = self._escaped()
            return _ESCAPES_QUOTED.get(escaped, char + escaped)
        if char == '"':
            self.at += 1
            return char
        return self._expansion(HELD)

    def skip(self, blank: re.Pattern[str]) -> bool:
        found = blank.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def arithmetic(self, *, is_loop: bool = False) -> None:
        """Up to the closing pair; a text that is no arithmetic is one we did not understand."""
        start, pairs_open = self.at, 2
        self.depth = self.deeper()
        while self.at < len(self.text) and pairs_open:
            char = self.text[self.at]
            if char in "$`":
                self._expansion(HELD)
                continue
            pairs_open += {"(": 1, ")": -1}.get(char, 0)
            self.at += 1
        self.depth -= 1
        foreign = _NO_ARITHMETIC.search(self.text, start, self.at)
        if pairs_open or (foreign and not (is_loop and foreign[0] == ";")):
            self.whole = False

    def deeper(self) -> int:
        if self.depth >= DEPTH_MAX:
            raise TooDeepError
        return self.depth + 1

    def _torn(self) -> None:
        self.whole = False
        self.at = len(self.text)

    def _special(self, char: str) -> str:
        if char == "'":
            return self._single()
        if char == '"':
            self.at += 1
            return self._double()
        if char == "\\":
            return self._escaped().replace("\n", "")
        return self._expansion(LOOSE)

    def _escaped(self) -> str:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        return escaped

    def _array(self) -> str:
        """The elements of an array are words, not commands."""
        self.depth = self.deeper()
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.skip(SPACE):
                continue
            if self.text[self.at] in ";&|<>(":
                self.whole = False
                self.at += 1
            else:
                self.word()
        self.at += 1
        self.depth -= 1
        return LOOSE

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        text = self.text[self.at + 1 : end if end >= 0 else None]
        if end < 0:
            self._torn()
        else:
            self.at = end + 1
        return text

    def _double(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return "".join(parts)
            parts.append(self.quoted_part())
        self._torn()
        return "".join(parts)

    def _expansion(self, mark: str) -> str:
        """At `$` or a backtick: what it would run is noted, what it would give is marked."""
        if self.text[self.at] == "`":
            return self._backticks(mark)
        self.at += 1
        following = self.peek()
        if following == "(":
            self._substitution()
            return mark
        if following == "{":
            self.at += 1
            return LOOSE if "@" in self._braced() else mark
        if following in {"'", '"'} and mark == LOOSE:
            return self._dollar_quoted(following)
        name = _NAME.match(self.text, self.at)
        if name is None:
            return "$"
        self.at = name.end()
        return LOOSE if name[0] == "@" else mark

    def _dollar_quoted(self, quote: str) -> str:
        if quote == '"':
            self.at += 1
            return self._double()
        found = _ANSI_QUOTED.match(self.text, self.at)
        if found is None:
            self._torn()
            return HELD
        self.at = found.end()
        # Escapes could spell anything: the word is as good as computed.
        return HELD if "\\" in found[1] else found[1]

    def _substitution(self) -> None:
        self.at += 1
        if self.peek() == "(":
            self.at += 1
            self.arithmetic()
        else:
            self.nested()

    def _braced(self) -> str:
        """`${...}` up to its end; its text without what is nested in it."""
        parts: list[str] = []
        self.depth = self.deeper()
        while self.at < len(self.text):
            plain = _PLAIN_BRACED.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(plain[0])
            elif self.text[self.at] == "}":
                self.at += 1
                break
            else:
                self._special(self.text[self.at])
        else:
            self._torn()
        self.depth -= 1
        return "".join(parts)

    def _backticks(self, mark: str) -> str:
        found = _BACKTICKED.match(self.text, self.at)
        if found is None:
            self._torn()
            return mark
        self.at = found.end()
        commands = re.sub(r"\\([`$\\])", r"\1", found[1])
        self.commands_of(commands)
        return mark
