"""Parses a shell text into simple commands and words, also in quotes, substitutions, subshells and heredocs.

Nothing is expanded, run or guessed. Quotes are removed, and parts that only the running shell knows are
marked. It is one pass over the text; `whole` is false if the text ends inside something or was not
understood.
"""

import re
from abc import ABC, abstractmethod
from typing import Final

from msgspec import Struct, field

# Marks for parts that only the running shell knows: quoted they stay one word, unquoted they may become several.
QUOTED_UNKNOWN: Final = "\x00"
UNQUOTED_UNKNOWN: Final = "\x01"
# Deeper than any recorded command; a deeper text is not read to its end.
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
# Two adjacent words are no arithmetic: `$((git push) )` is a subshell.
_NO_ARITHMETIC: Final = re.compile(r"\w\s+\w|[;\"'`]")


class TooDeepError(Exception):
    """More nesting than DEPTH_MAX."""


def has_computed_index(word: str) -> bool:
    """Whether a word contains an index that the shell computes by running a command."""
    return "[" in word and ("$(" in word or "`" in word)


def has_unknown_part(word: str) -> bool:
    """Whether only the running shell knows a part of the word."""
    return QUOTED_UNKNOWN in word or UNQUOTED_UNKNOWN in word


class WordReader(ABC):
    """Reads words in one pass. `is_complete` turns false when the text ends inside a word or is not understood."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.is_complete = True

    @abstractmethod
    def read_commands(self, text: str) -> None:
        """Record the commands of a text that the shell would run separately."""

    @abstractmethod
    def read_nested(self) -> None:
        """Record the commands of a substitution or subshell, up to its closing parenthesis."""

    def read_word(self) -> str:
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
                parts.append(self._read_special(char))
        return "".join(parts)

    def read_quoted_part(self) -> str:
        """The next part of a text in which only expansions are special."""
        plain = _PLAIN_QUOTED.match(self.text, self.at)
        if plain:
            self.at = plain.end()
            return plain[0]
        char = self.text[self.at]
        if char == "\\":
            escaped = self._read_escape()
            return _ESCAPES_QUOTED.get(escaped, char + escaped)
        if char == '"':
            self.at += 1
            return char
        return self._expansion(QUOTED_UNKNOWN)

    def skip(self, blank: re.Pattern[str]) -> bool:
        found = blank.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip_arithmetic(self, *, is_loop: bool = False) -> None:
        """Skip to the closing pair; a text that is no arithmetic counts as not understood."""
        start, pairs_open = self.at, 2
        self.depth = self.next_depth()
        while self.at < len(self.text) and pairs_open:
            char = self.text[self.at]
            if char in "$`":
                self._expansion(QUOTED_UNKNOWN)
                continue
            pairs_open += {"(": 1, ")": -1}.get(char, 0)
            self.at += 1
        self.depth -= 1
        foreign = _NO_ARITHMETIC.search(self.text, start, self.at)
        if pairs_open or (foreign and not (is_loop and foreign[0] == ";")):
            self.is_complete = False

    def next_depth(self) -> int:
        if self.depth >= DEPTH_MAX:
            raise TooDeepError
        return self.depth + 1

    def _mark_incomplete(self) -> None:
        self.is_complete = False
        self.at = len(self.text)

    def _read_special(self, char: str) -> str:
        if char == "'":
            end = self.text.find("'", self.at + 1)
            text = self.text[self.at + 1 : end if end >= 0 else None]
            if end < 0:
                self._mark_incomplete()
            else:
                self.at = end + 1
            return text
        if char == '"':
            self.at += 1
            return self._double()
        if char == "\\":
            return self._read_escape().replace("\n", "")
        return self._expansion(UNQUOTED_UNKNOWN)

    def _read_escape(self) -> str:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        return escaped

    def _array(self) -> str:
        """The elements of an array are words, not commands."""
        self.depth = self.next_depth()
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.skip(SPACE):
                continue
            if self.text[self.at] in ";&|<>(":
                self.is_complete = False
                self.at += 1
            else:
                self.read_word()
        self.at += 1
        self.depth -= 1
        return UNQUOTED_UNKNOWN

    def _double(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return "".join(parts)
            parts.append(self.read_quoted_part())
        self._mark_incomplete()
        return "".join(parts)

    def _expansion(self, mark: str) -> str:
        """At `$` or a backtick: record the commands it would run, and mark its result as unknown."""
        if self.text[self.at] == "`":
            found = _BACKTICKED.match(self.text, self.at)
            if found is None:
                self._mark_incomplete()
                return mark
            self.at = found.end()
            commands = re.sub(r"\\([`$\\])", r"\1", found[1])
            self.read_commands(commands)
            return mark
        self.at += 1
        following = self.peek()
        if following == "(":
            self.at += 1
            if self.peek() == "(":
                self.at += 1
                self.skip_arithmetic()
            else:
                self.read_nested()
            return mark
        if following == "{":
            self.at += 1
            return UNQUOTED_UNKNOWN if "@" in self._braced() else mark
        if following in {"'", '"'} and mark == UNQUOTED_UNKNOWN:
            return self._dollar_quoted(following)
        name = _NAME.match(self.text, self.at)
        if name is None:
            return "$"
        self.at = name.end()
        return UNQUOTED_UNKNOWN if name[0] == "@" else mark

    def _dollar_quoted(self, quote: str) -> str:
        if quote == '"':
            self.at += 1
            return self._double()
        found = _ANSI_QUOTED.match(self.text, self.at)
        if found is None:
            self._mark_incomplete()
            return QUOTED_UNKNOWN
        self.at = found.end()
        # Escapes could produce any text: the word counts as computed.
        return QUOTED_UNKNOWN if "\\" in found[1] else found[1]

    def _braced(self) -> str:
        """`${...}` up to its end; returns its text without nested parts."""
        parts: list[str] = []
        self.depth = self.next_depth()
        while self.at < len(self.text):
            plain = _PLAIN_BRACED.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(plain[0])
            elif self.text[self.at] == "}":
                self.at += 1
                break
            else:
                self._read_special(self.text[self.at])
        else:
            self._mark_incomplete()
        self.depth -= 1
        return "".join(parts)


OPENERS: Final = frozenset({"!", "do", "elif", "else", "if", "then", "time", "until", "while", "{"})
# No real command has more of them before it.
_OPENERS_MAX: Final = 8

_MARKS_IN_INPUT: Final = {ord(QUOTED_UNKNOWN): "?", ord(UNQUOTED_UNKNOWN): "?", ord("\r"): " "}
_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECTION: Final = re.compile(r"<<<|<<-|<<|<>|<&|<|&>>|&>|>>|>&|>\||>")
_OPERATOR: Final = re.compile(r";;&|;;|;&|;|&&|&|\|\||\|&|\|")
_TEST_OPERATOR: Final = re.compile(r"&&|\|\||[<>()]")


class Command(Struct):
    """One simple command. `targets`: the files it is redirected to; `stdin`: its heredoc."""

    words: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    stdin: str | None = None
    reads_file: bool = False


class Script(Struct):
    """The commands of a text. Not `whole`: it ends inside a construct, nests too deep, or was not understood."""

    commands: list[Command]
    functions: set[str]
    whole: bool


class _Heredoc(Struct):
    command: Command
    end: str
    indented: bool
    literal: bool


def read_script(text: str) -> Script:
    """Every simple command of a text. Never raises; linear time."""
    script = Script([], set(), whole=True)
    try:
        script.whole = _Reader(text.translate(_MARKS_IN_INPUT), script, 0).read_until("")
    except TooDeepError:
        script.whole = False
    return script


class _Reader(WordReader):
    """Reads commands: words, operators, redirections and reserved words."""

    def __init__(self, text: str, script: Script, depth: int) -> None:
        super().__init__(text, depth)
        self.script = script
        self.command = Command()
        self.cases = 0
        self.heredocs: list[_Heredoc] = []

    def read_until(self, closer: str) -> bool:
        """Read to the closing parenthesis, or to the end of the text. Returns whether all of it was understood."""
        while self.at < len(self.text):
            if self.skip(_BLANK):
                continue
            if closer and self.text[self.at] == closer:
                self.at += 1
                closer = ""
                break
            self._part(self.text[self.at])
        self._end()
        return self.is_complete and not closer and not self.heredocs

    def read_commands(self, text: str) -> None:
        if not _Reader(text, self.script, self.next_depth()).read_until(""):
            self.is_complete = False

    def read_nested(self) -> None:
        inner = _Reader(self.text, self.script, self.next_depth())
        inner.at = self.at
        if not inner.read_until(")"):
            self.is_complete = False
        self.at = inner.at

    def _part(self, char: str) -> None:
        redirection = _REDIRECTION.match(self.text, self.at)
        if char == "\n":
            self._end()
            self.at += 1
            pending, self.heredocs = self.heredocs, []
            for heredoc in pending:
                self._heredoc(heredoc)
        elif char == "#":
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)
        elif redirection:
            self.at = redirection.end()
            self._read_redirection(redirection[0])
        elif char in ";&|":
            found = _OPERATOR.match(self.text, self.at)
            assert found is not None, "the caller checked its first character"
            self.at = found.end()
            self._end()
            if found[0].startswith((";;", ";&")) and self.cases:
                self._pattern()
        elif char in "()":
            self._parenthesis(char)
        else:
            self._read_argument()

    def _end(self) -> None:
        if self.command.words or self.command.targets:
            self.script.commands.append(self.command)
        self.command = Command()

    def _parenthesis(self, char: str) -> None:
        self.at += 1
        words = self.command.words
        if char == ")":
            self.is_complete = False
        elif len(words) == 1 and self.peek() == ")":
            self.at += 1
            self.script.functions.add(words.pop())
        elif self.peek() == "(" and (words[-1:] == ["for"] or self._begins_command(0)):
            self.at += 1
            self.skip_arithmetic(is_loop=words[-1:] == ["for"])
        else:
            # After other words a shell accepts it only with extended patterns.
            self.is_complete = self.is_complete and self._begins_command(0)
            self.read_nested()

    def _begins_command(self, behind: int) -> bool:
        """Whether a command begins `behind` words before the end."""
        count = len(self.command.words) - behind
        return count <= _OPENERS_MAX and all(word in OPENERS for word in self.command.words[:count])

    def _read_argument(self) -> None:
        start = self.at
        word = self.read_word()
        if word.isdigit() and self.peek() in {"<", ">"}:
            return  # the number of a stream
        self.command.words.append(word)
        if self.text[start : self.at] == word:
            words = self.command.words
            if word == "[[" and self._begins_command(1):
                self._test()
            elif word == "esac" and self._begins_command(1):
                self.cases = max(0, self.cases - 1)
            elif word == "in" and words[-3:-2] == ["case"] and self._begins_command(3):
                self.cases += 1
                self._pattern()
            elif words[-2:-1] == ["function"] and self._begins_command(2):
                self.script.functions.add(word)
                del words[-2:]

    def _test(self) -> None:
        """Skip to `]]`: there are no commands, whatever the operators between the words."""
        while self.at < len(self.text) and self.text[self.at] != "\n":
            operator = _TEST_OPERATOR.match(self.text, self.at)
            if operator:
                self.at = operator.end()
            elif self.text[self.at] in ";&|":
                break
            elif not self.skip(_BLANK):
                word = self.read_word()
                # The shell computes an array index and runs a substitution in it, even in a quoted word.
                self.is_complete = self.is_complete and not has_computed_index(word)
                if word == "]]":
                    return
        self.is_complete = False

    def _pattern(self) -> None:
        """Skip the pattern of a case branch, which is no command; the words of a broken pattern count as one."""
        self.command = Command()
        while self.at < len(self.text) and self.text[self.at] not in ";&<>":
            char = self.text[self.at]
            if self.skip(SPACE):
                continue
            if char in "(|)":
                self.at += 1
                if char == ")":
                    self.command = Command()
                    return
            else:
                self.command.words.append(self.read_word())
                if self.command.words == ["esac"]:
                    self.cases -= 1
                    return
        self.is_complete = False

    def _read_redirection(self, sign: str) -> None:
        if sign in {"<", ">"} and self.peek() == "(":
            self.at += 1
            self.read_nested()
            self.command.words.append(QUOTED_UNKNOWN)
            return
        self.skip(_BLANK)
        start = self.at
        target = self.read_word()
        if sign in {"<<", "<<-"}:
            literal = any(char in "'\"\\" for char in self.text[start : self.at])
            self.heredocs.append(_Heredoc(self.command, target, sign == "<<-", literal))
        elif sign == "<<<":
            self.command.stdin = target
        elif sign == "<" and "/dev/" not in target:
            self.command.reads_file = True
        elif (">" in sign and not (target.isdigit() or target == "-")) or "/dev/" in target:
            self.command.targets.append(target)

    def _heredoc(self, heredoc: _Heredoc) -> None:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = end if end >= 0 else len(self.text)
            line = self.text[self.at : end]
            self.at = end + 1
            if (line.lstrip("\t") if heredoc.indented else line) == heredoc.end:
                break
            lines.append(line)
        else:
            self.is_complete = False
        body = "\n".join(lines)
        heredoc.command.stdin = body if heredoc.literal else self._expand(body)

    def _expand(self, body: str) -> str:
        """A heredoc with its expansions marked; the commands they would run are recorded."""
        inner = _Reader(body, self.script, self.next_depth())
        parts: list[str] = []
        while inner.at < len(body):
            parts.append(inner.read_quoted_part())
        self.is_complete = self.is_complete and inner.is_complete
        return "".join(parts)
