"""Redacts secrets in texts and in whole documents.

Every output passes `redact`; a replacement names the kind of secret. If redaction fails, the text is
withheld: a lost line is better than a leaked key. Colours, zero-width characters and NULs around or within a
secret do not hide it. `Redactor` does the same for files that leave the machine: every line and every JSON
string, and known secrets by value.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from wakeful.core.decoding import decode_json
from wakeful.core.named_secrets import HINTS, SECRET, names_a_secret, redact_named
from wakeful.core.secret_commands import COMMANDS
from wakeful.core.secret_formats import TOKENS, Format
from wakeful.core.secret_tables import redact_columns
from wakeful.core.text import has_hidden_characters, without_hidden

WITHHELD: Final = "[withheld: could not be redacted]"
REDACTED_CHARS_MAX: Final = 20_000
# Longer than nearly every secret with all that says what it is.
_BORDER_CHARS: Final = 500

FORMATS: Final = (*TOKENS, *COMMANDS)
# Looked at in every text, and only in those with a long word.
_ANYWHERE: Final = tuple(each for each in FORMATS if not each.long)
_IN_LONG_WORDS: Final = tuple(each for each in FORMATS if each.long)

# A sequence that was cut off, or whose end is not certain, and a secret or its name behind it: a terminal would take
# the first letter for the sequence's end, we do not.
_CUT_SEQUENCE: Final = re.compile(
    r"((?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b(?:[78=>cDEHMZ]|[ -/]*))(?=[spr]k[-_]|gh[pousr]_|github_|glpat-|xox|npm_|pypi-|hf_|a[ks]ia|aiza|eyj"
    r"|bot[0-9]|[0-9]{6,12}:|bearer|basic|api|access|secret|token|passw|passphrase|credential|private|authorization|---)",
    re.IGNORECASE,
)
# As JSON spells what nobody sees; several backslashes where JSON stands within JSON. Halves of a pair are no character.
_UNICODE_ESCAPE: Final = re.compile(r"\\+u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)
_NEEDS_NO_ESCAPE: Final = frozenset(map(chr, range(0x20, 0x7F))) - frozenset('\\"') | frozenset(
    "\uff1d\uff1a"
)
# Encoded any number of times.
_PERCENT: Final = re.compile(r"%(?:25){0,8}(?!25)([2-7][0-9a-f])", re.IGNORECASE)
# A text in which no word has sixteen characters. One pass, for nothing in it can match in two ways.
_SHORT_WORDS: Final = re.compile(r"[^A-Za-z0-9_-]*+(?:[A-Za-z0-9_-]{1,15}+(?:[^A-Za-z0-9_-]++|\Z))*+")
_LONG_CHARS_MIN: Final = 16
_BETWEEN_WORDS: Final = re.compile(r"[\s\"'`,;=<>(){}\[\]|&?#@*!]+")
_NO_TOKEN: Final = re.compile(rf"[0-9a-f-]++|(?:toolu|msg|req|call)_[0-9a-z]++|{_SHORT_WORDS.pattern}")
RANDOM: Final = "[random]"
_MARKS: Final = re.compile(r"\[[a-z ]{3,20}\]")
# A run without a blank or a mark that a path, an address or a sentence has. Keys have 20 characters at least.
_RANDOM: Final = re.compile(r"(?<![A-Za-z0-9+/_.=~-])[A-Za-z0-9+/_~-]{24,}={0,2}(?![A-Za-z0-9+/_.=~-])")
_RUNS: Final = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_RUNS_SHARE_MIN: Final = 0.4
_DIGITS: Final = frozenset("0123456789")
# Ids that clients and models give to calls, messages and requests; digests with their name.
_KNOWN_IDS: Final = re.compile(
    r"(?:[a-z]{1,12}_){0,2}(?:toolu|msg|req|call|resp|rs|fc|ws|run|thread|item|chatcmpl|ctc)[_-]|[A-Z]{1,6}_kw|(?:sha(?:1|256|384|512)-)|[/~]"
)
_MARK: Final = "\0"
# Prefixes shorter than this end ordinary words, too.
_PREFIX_CHARS_MIN: Final = 3


def redact(text: str) -> str:
    """`text` without anything that looks like a credential; bounded, and withheld whole on failure."""
    try:
        if len(text) <= REDACTED_CHARS_MAX:
            return _redact_visible(text)
        # The end is redacted with the rest and not shown: nobody can tell what the beginning of a secret is.
        return _redact_visible(text[: REDACTED_CHARS_MAX + _BORDER_CHARS])[:-_BORDER_CHARS]
    except (re.error, RecursionError, MemoryError):
        return WITHHELD


def _redact_visible(text: str) -> str:
    if "\\u" in text:
        text = _UNICODE_ESCAPE.sub(_decode_if_hidden, text)
    if has_hidden_characters(text):
        if text.count("\0") > len(text) // 3:
            # UTF-16 taken for another encoding: within a sequence they would hide that it is one.
            text = text.replace("\0", "")
        return min(map(_redact_all_spellings, _visible_variants(text)), key=_chars_left)
    return _redact_all_spellings(text)


def _redact_all_spellings(text: str) -> str:
    if "\\u" in text:
        text = _redact_decoded(text, _UNICODE_ESCAPE)
    if "%" in text:
        text = _redact_decoded(text, _PERCENT)
    return _without_secrets(text)


def _chars_left(redacted: str) -> int:
    return len(_MARKS.sub("", redacted))


def _without_secrets(text: str) -> str:
    lower = text.lower()
    shown = _without_formats(text, lower, _ANYWHERE)
    if _SHORT_WORDS.fullmatch(text) is None and (words := _long_words(lower)):
        shown = _RANDOM.sub(_redact_unless_harmless, _without_formats(shown, words, _IN_LONG_WORDS))
    for hint in HINTS:
        if hint in lower:
            return redact_named(redact_columns(shown))
    return shown


def _long_words(lower: str) -> str:
    """The words that may be a token: long, and neither a digest nor an id nor a path of short names."""
    words = (word for word in _BETWEEN_WORDS.split(lower) if len(word) >= _LONG_CHARS_MIN)
    return " ".join(word for word in words if _NO_TOKEN.fullmatch(word) is None)


def _without_formats(text: str, lower: str, formats: tuple[Format, ...]) -> str:
    for _, hints, pattern, replacement, _ in formats:
        for hint in hints:
            if hint in lower:
                text = _compile_pattern(pattern).sub(replacement, text)
                break
    return text


def _redact_decoded(text: str, escape: re.Pattern[str]) -> str:
    """Decoded where that shows a secret, else as it was: not every percent sign begins an escape."""
    decoded = escape.sub(_decode_if_readable, text)
    if decoded == text:
        return text
    clean = _without_secrets(decoded)
    return text if clean == decoded else clean


# Where its hint is first met: compiling all of them takes longer than importing everything that is imported here.
@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _visible_variants(text: str) -> set[str]:
    """The visible text in one piece; and parted where a secret may begin behind something hidden, if that is another."""
    marked = without_hidden(_CUT_SEQUENCE.sub(r"\1\0", text.replace(_MARK, "\x01")), _MARK)
    return {marked.replace(_MARK, ""), _hidden_before_prefix().sub(" ", marked).replace(_MARK, "")}


@cache
def _hidden_before_prefix() -> re.Pattern[str]:
    """What was hidden before a prefix. Behind a letter many are none, unless something stood between the two."""
    hints = {hint for format_ in FORMATS for hint in format_.hints if len(hint) >= _PREFIX_CHARS_MIN}
    prefixes = sorted(hint for hint in hints if hint[0].isalnum())
    spelled = (r"\0*".join(map(re.escape, prefix)) for prefix in prefixes)
    return re.compile(rf"(?<!\0)\0++(?=[spr]\0*k\0*-|{'|'.join(spelled)})", re.IGNORECASE)


def _decode_if_hidden(spelled: re.Match[str]) -> str:
    char = chr(int(spelled[1], 16))
    return char if has_hidden_characters(char) else spelled[0]


def _decode_if_readable(spelled: re.Match[str]) -> str:
    """A character that needs no escape; a quote stays escaped, for it would end the text that it is in."""
    char = chr(int(spelled[1], 16))
    return char if char in _NEEDS_NO_ESCAPE else spelled[0]


def _redact_unless_harmless(found: re.Match[str]) -> str:
    """Long and random: its characters change their class twice in five places, in names and paths once in six."""
    word = found[0]
    if _KNOWN_IDS.match(word) is not None:
        return word
    runs = len(_RUNS.findall(word))
    if runs < _RUNS_SHARE_MIN * len(word) or word.islower() or word.isupper() or _DIGITS.isdisjoint(word):
        return word
    return RANDOM


# Shorter ones would cut holes into ordinary words, and are no secrets.
SECRET_CHARS_MIN: Final = 6
KNOWN: Final = "[secret of this machine]"
_KEY_BEGINS: Final = "PRIVATE KEY"


class Redactor:
    """Redacts by pattern, and by value what is known to be secret here."""

    def __init__(self, secrets: Collection[str]) -> None:
        # The longest first: one may be the beginning of another.
        self._secrets = sorted(
            (each for each in secrets if len(each) >= SECRET_CHARS_MIN), key=len, reverse=True
        )

    def redact_text(self, text: str) -> str:
        """All of it, however long. A private key goes as a whole, however many lines it has."""
        return "\n".join(map(self._redact_piece, _pieces(_without_keys(text.split("\n")))))

    def redact_json(self, body: bytes) -> bytes:
        """The same document, indented, with every string of it redacted; withheld if it is none."""
        try:
            document = decode_json(body)
        except msgspec.DecodeError:
            return msgspec.json.encode(WITHHELD)
        return msgspec.json.format(msgspec.json.encode(self.redact_value(document)), indent=2)

    def _redact_piece(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, KNOWN)
        return redact(text)

    def redact_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list):
            return [self.redact_value(each) for each in value]
        if isinstance(value, dict):
            return {
                self.redact_text(name): self._redact_named_value(name, each) for name, each in value.items()
            }
        return value

    def _redact_named_value(self, name: str, value: Any) -> Any:
        """A value is also what its name says: alone, a password looks like any other word."""
        if isinstance(value, str) and names_a_secret(name, value):
            return SECRET
        return self.redact_value(value)


def _without_keys(lines: Iterable[str]) -> Iterator[str]:
    in_key = False
    for line in lines:
        if not in_key and "-----BEGIN " in line and _KEY_BEGINS in line:
            in_key = True
            yield "[private key]"
        elif not in_key:
            yield line
        if in_key:
            # Also one that begins and ends in a single line, as JSON writes it.
            in_key = "-----END " not in line or line.rfind("-----END ") < line.rfind("-----BEGIN ")


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Lines together, as many as are redacted at once: the name of a secret may stand in the line before it."""
    piece: list[str] = []
    chars = 0
    for line in lines:
        if piece and chars + len(line) + 1 > REDACTED_CHARS_MAX:
            yield "\n".join(piece)
            piece, chars = [], 0
        piece.append(line)
        chars += len(line) + 1
    yield "\n".join(piece)
