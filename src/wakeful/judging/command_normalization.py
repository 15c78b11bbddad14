"""Normalizes command lines, so that two spellings of the same request are the same call. Pure.

Wrappers that do not change the request are removed: a shell that runs it, a time limit, a comment, a limit on
its output. Folder and variables are returned separately: commands with the same ones, or with none, are equal;
commands in two folders are not. For read-only inspections the order of flags, quotes and `./` do not matter.
Commands that write stay as they are.
"""

import re
from typing import Final

_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
# A script that a shell gets as one word; a quote inside would mean that it ends earlier.
_SHELL_SCRIPT: Final = re.compile(r"""(?:\S*/)?(?:ba|z|da)?sh (?:-\w+ )*-\w*c (?:'([^']*)'|"([^"]*)")$""")
_WRAPPERS_MAX: Final = 3
# Independent lines: no word, block or heredoc spans two of them.
_IS_PLAIN: Final = re.compile(r"""[^'"\\<(){}]*""")
_COMMENT: Final = re.compile(r"""(?:^|(?<=\s))#(?!!)[^'"\n]*$""", re.MULTILINE)
# Before a command, without changing the request: a folder, a variable, a time limit.
_PREFIX: Final = re.compile(
    r"(?:cd \S+ ?(?:&&|;) ?|(?:env )?[A-Z_]+=\S* |timeout (?:-\S+ )*\d+(?:\.\d+)?[smhd]? |time |nice (?:-n ?\d+ )?)+"
)
# After a command: where its errors go, how much of its output is shown. Written so that every alternative begins
# with a letter the search can skip to: four times as fast as beginning with an optional space.
_ERRORS_TO: Final = r"2>(?:&1|/dev/null)"
_SHOWN_BY: Final = r"\| ?(?:cat|head|tail)(?: -n? ?-?\d+)?"
_SUFFIX: Final = re.compile(
    rf"(?: {_ERRORS_TO}| {_SHOWN_BY}|{_ERRORS_TO}|{_SHOWN_BY})(?: ?(?:{_ERRORS_TO}|{_SHOWN_BY}))*$"
)
_SUFFIX_WORDS: Final = ("cat", "head", "tail", "/null")
# Three of them together are shorter.
_SUFFIX_CHARS_MAX: Final = 48
# The folder and the variables in the prefix.
_PLACE: Final = re.compile(r"(?<!\S)(?:cd (\S+?)/?(?= |$|[;&])|([A-Z_]+=\S*))")
_GIT_PLACE: Final = re.compile(r"git (?:--no-pager |-c \S+ )*-C (\S+?)/? ")
_GIT_NOISE: Final = re.compile(r"git (?:--no-pager |-C \S+ |-c \S+ )+")
# An overview names no file: a slash, an extension or a `--` means something in particular.
_GIT_OVERVIEW: Final = re.compile(
    r"^git (?:status|diff|ls-files|log|branch)(?: (?:-n ?\d+|-{1,2}[\w=-]+|HEAD\S*))*$"
)
_CHAINED: Final = re.compile(r" ?(?:&&|;) ?")
# Programs with single letters as short flags, in any order.
_INSPECTIONS: Final = frozenset(
    {"ag", "cat", "df", "du", "egrep", "fgrep", "file", "grep", "head", "ls", "nl", "rg", "stat", "tail", "tree", "wc"}
)  # fmt: skip
# Programs with words in fixed positions: only quotes and `./` make no difference.
_ORDERED: Final = frozenset({"awk", "fd", "find", "jq", "sed"})
_JOINED: Final = re.compile(r"[;&|<>`]|\$\(")
# Quotes around a word without blanks change nothing, and around others both kinds are equal.
_QUOTED_WORD: Final = re.compile(r"""(?<!\S)(['"])([\w./:,-]+)\1(?!\S)""")
_DOUBLE_QUOTED: Final = re.compile(r"""(?<!\S)"([^"'$`\\]*)"(?!\S)""")
_WRITES: Final = re.compile(r"-i\b|--in-place|-delete\b|-(?:exec|ok)(?:dir)?\b|-fprint|-fls\b")
# The number of lines that `head` and `tail` show, in one spelling.
_LINES: Final = re.compile(r" (?:-n ?|--lines[= ])(?=[-+]?\d)-?")
_SHORT_FLAGS: Final = re.compile(r"-[A-Za-z]+")


def normalize_command(value: object) -> tuple[str, str]:
    """The normalized form of a command line or an argument list, and the folder and variables around it."""
    text, places = _line_of(value), ""
    for _ in range(_WRAPPERS_MAX):
        inner, place = _unwrap(text)
        places += place
        if inner == text:
            break
        text = inner
    if text.startswith("git ") and (named := _GIT_PLACE.match(text)) is not None:
        places += named[1]
    return _normalize(text), "" if places == "." else places


def _normalize(text: str) -> str:
    if text.startswith("git "):
        text = _GIT_NOISE.sub("git ", text)
        return "git status" if all(map(_GIT_OVERVIEW.match, _CHAINED.split(text))) else text
    program = text.partition(" ")[0]
    if program in _ORDERED:
        return _normalize_words(text)
    return _normalize_inspection(text) if program in _INSPECTIONS else text


def _line_of(value: object) -> str:
    if isinstance(value, list):
        words = list(map(str, value))
        is_script = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1].endswith("c")
        return _one_line(words[2] if is_script else " ".join(words))
    return _one_line(str(value))


def _one_line(text: str) -> str:
    if "#" in text and "<<" not in text:
        text = _COMMENT.sub("", text) or text
    if "\n" in text and _IS_PLAIN.fullmatch(text):
        text = "; ".join(filter(None, map(str.strip, text.splitlines())))
    return " ".join(text.split())


def _unwrap(text: str) -> tuple[str, str]:
    """The command without its wrappers, and the folder and variables from them."""
    place, prefix = "", _PREFIX.match(text)
    if prefix is not None:
        place = " ".join(sorted(folder or variable for folder, variable in _PLACE.findall(prefix[0])))
        text = text[prefix.end() :] or text
    if text[-1:].isdigit() or text.endswith(_SUFFIX_WORDS):
        suffix = _SUFFIX.search(text, max(0, len(text) - _SUFFIX_CHARS_MAX))
        if suffix is not None:
            text = text[: suffix.start()] or text
    if text.endswith(("'", '"')) and (script := _SHELL_SCRIPT.match(text)) is not None:
        return (script[1] or script[2] or text).strip(), place
    if text.startswith("(") and text.find(")") == len(text) - 1:
        return text[1:-1].strip() or text, place
    return text, place


def _normalize_inspection(text: str) -> str:
    """Flags split and sorted, quotes and `./` dropped; a command joined with another one stays unchanged."""
    if _JOINED.search(text):
        return text
    text = _unquote(text)
    if text.startswith(("head ", "tail ")):
        text = _LINES.sub(" -", text)
    program, *words = text.split()
    flags = sorted({flag for word in words if word.startswith("-") for flag in _flags_in(word)})
    places = [_normalize_path(word) for word in words if not word.startswith("-")]
    if program == "ls":
        # With any flags, the result is a listing of the folder.
        flags, places = [], [place for place in places if place != "."]
    return " ".join((program, *flags, *places))


def _normalize_words(text: str) -> str:
    """Quotes and `./` normalized, unless it writes or is joined with another command."""
    if _JOINED.search(text) or _WRITES.search(text):
        return text
    program, *words = _unquote(text).split()
    return " ".join((program, *map(_normalize_path, words)))


def _unquote(text: str) -> str:
    return _DOUBLE_QUOTED.sub(r"'\1'", _QUOTED_WORD.sub(r"\2", text))


def _flags_in(word: str) -> list[str]:
    return [f"-{letter}" for letter in word[1:]] if _SHORT_FLAGS.fullmatch(word) else [word]


def _normalize_path(word: str) -> str:
    return word.removeprefix("./").rstrip("/") or word.rstrip("/") or "/"
