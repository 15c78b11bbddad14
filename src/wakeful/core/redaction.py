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
from wakeful.core.secret_formats import TOKENS, Format, with_escaped_breaks
from wakeful.core.secret_sentences import SENTENCES
from wakeful.core.text import has_hidden_characters, without_hidden

WITHHELD: Final = "[withheld: could not be redacted]"
REDACTED_CHARS_MAX: Final = 20_000
# Longer than nearly every secret together with its name.
_BORDER_CHARS: Final = 500

FORMATS: Final = (*TOKENS, *COMMANDS, *SENTENCES)
# Checked in every text, and only in texts with a long word.
_ANYWHERE: Final = tuple(each for each in FORMATS if not each.long)
_IN_LONG_WORDS: Final = tuple(each for each in FORMATS if each.long)

# A sequence that was cut off, or whose end is not certain, with a secret or its name behind it: a terminal would
# take the first letter for the sequence's end; redaction does not.
_CUT_SEQUENCE: Final = re.compile(
    r"((?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b(?:[78=>cDEHMZ]|[ -/]*))(?=[spr]k[-_]|gh[pousr]_|github_|glpat-|xox|npm_|pypi-|hf_|a[ks]ia|aiza|eyj"
    r"|bot[0-9]|[0-9]{6,12}:|bearer|basic|api|access|secret|token|passw|passphrase|credential|private|authorization|---)",
    re.IGNORECASE,
)
# The beginning of a sequence of two characters, the first of which may be one of a token.
_SHORT_SEQUENCE: Final = re.compile(r"\x1b++(?=[-+./])")
# A JSON escape; several backslashes in JSON within JSON. Half of a surrogate pair is no character.
_UNICODE_ESCAPE: Final = re.compile(r"\\+u(?!d[89a-f])([0-9a-f]{4})", re.IGNORECASE)
_NEEDS_NO_ESCAPE: Final = frozenset(map(chr, range(0x20, 0x7F))) - frozenset('\\"') | frozenset(
    # The full-width signs, and the letters of the words for a password in `secret_sentences`.
    "\uff1d\uff1a\u662f\u306f\u043f\u0430\u0440\u043e\u043b\u044c\u041f\u5bc6\u7801\u78bc\u30d1\u30b9\u30ef\u30fc\u30c9\ube44\ubc00\ubc88\ud638\u0142\u00f6\u00f3\u00fc\u00f1\u00e9\u00e8"
)
# Encoded any number of times.
_PERCENT: Final = re.compile(r"%(?:25){0,8}(?!25)([2-7][0-9a-f])", re.IGNORECASE)
# A text in which no word has sixteen characters. One pass: no part can match in two ways.
_SHORT_WORDS: Final = re.compile(r"[^A-Za-z0-9_-]*+(?:[A-Za-z0-9_-]{1,15}+(?:[^A-Za-z0-9_-]++|\Z))*+")
_LONG_CHARS_MIN: Final = 16
_BETWEEN_WORDS: Final = re.compile(r"[\s\"'`,;=<>(){}\[\]|&?#@*!]+")
_NO_TOKEN: Final = re.compile(rf"[0-9a-f-]++|(?:toolu|msg|req|call)_[0-9a-z]++|{_SHORT_WORDS.pattern}")
RANDOM: Final = "[random]"
_MARKS: Final = re.compile(r"\[[a-z ]{3,20}\]")
# A run without blanks and without the marks of a path, an address or a sentence. Keys have 20 characters or more.
_RANDOM: Final = re.compile(r"(?<![A-Za-z0-9+/_.=~-])[A-Za-z0-9+/_~-]{24,}={0,2}(?![A-Za-z0-9+/_.=~-])")
_RUNS: Final = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_RUNS_SHARE_MIN: Final = 0.4
_DIGITS: Final = frozenset("0123456789")
# Ids of calls, messages and requests from clients and models; named digests.
_KNOWN_IDS: Final = re.compile(
    r"(?:[a-z]{1,12}_){0,2}(?:toolu|msg|req|call|resp|rs|fc|ws|run|thread|item|chatcmpl|ctc)[_-]|[A-Z]{1,6}_kw|(?:sha(?:1|256|384|512)-)|[/~]"
)
_MARK: Final = "\0"
# Prefixes shorter than this end ordinary words, too.
_PREFIX_CHARS_MIN: Final = 3
# Also a quote: in JSON a text ends there, and the next one begins in the same line.
_TABLE_LINES: Final = re.compile(r"(\r?\n|(?:\\{1,127}+r)?\\{1,127}+n|\\{0,127}+\")")
# Names without blanks and nothing else in the line.
_CSV_HEADING: Final = re.compile(r"(?:\A|\n|\\n|\")[\w-]{1,40}(?:,[\w-]{1,40}){1,40}(?=\r?\n|\\)")
_TABLE_RULE: Final = frozenset("-+|: \t")
# A plain word in such a column comes from a manual.
_SECRET_VALUE: Final = re.compile(r"(?=\S*[0-9!#$%^&*])\S{4,200}")
# An example of a secret: whether a heading names one does not depend on the value.
_SOME_VALUE: Final = "Q7z-example-1"
_CELLS_MAX: Final = 40


def redact(text: str, chars_max: int = REDACTED_CHARS_MAX) -> str:
    """`text` without anything that looks like a credential; cut after about `chars_max`, withheld whole on failure."""
    try:
        if len(text) <= chars_max + _BORDER_CHARS:
            return _redact_visible(text)
        # The end is redacted with the rest and not shown: the beginning of a secret cannot be recognised.
        return _redact_visible(text[: chars_max + _BORDER_CHARS])[:-_BORDER_CHARS]
    except (re.error, RecursionError, MemoryError):
        return WITHHELD


def _redact_visible(text: str) -> str:
    if "\\u" in text:
        text = _UNICODE_ESCAPE.sub(_decode_if_hidden, text)
    if has_hidden_characters(text):
        if text.count("\0") > len(text) // 3:
            # UTF-16 decoded as another encoding: within a sequence NULs would hide it.
            text = text.replace("\0", "")
        variants = map(_redact_all_spellings, _visible_variants(text))
        # The variant with the most redacted.
        return min(variants, key=lambda redacted: len(_MARKS.sub("", redacted)))
    return _redact_all_spellings(text)


def _redact_all_spellings(text: str) -> str:
    if "\\u" in text:
        text = _redact_decoded(text, _UNICODE_ESCAPE)
    if "%" in text:
        text = _redact_decoded(text, _PERCENT)
    return _without_secrets(text)


def _without_secrets(text: str) -> str:
    lower = text.lower()
    shown = _without_formats(text, lower, _ANYWHERE)
    if _SHORT_WORDS.fullmatch(text) is None and (words := _long_words(lower)):
        shown = _RANDOM.sub(_redact_unless_harmless, _without_formats(shown, words, _IN_LONG_WORDS))
    for hint in HINTS:
        if hint in lower:
            return redact_named(_redact_columns(shown))
    return shown


def _long_words(lower: str) -> str:
    """The words that may be tokens: long, and no digest, id or path of short names."""
    words = (word for word in _BETWEEN_WORDS.split(lower) if len(word) >= _LONG_CHARS_MIN)
    return " ".join(word for word in words if _NO_TOKEN.fullmatch(word) is None)


def _without_formats(text: str, lower: str, formats: tuple[Format, ...]) -> str:
    is_escaped = "\\" in text
    for _, hints, pattern, replacement, _ in formats:
        for hint in hints:
            if hint in lower:
                text = _compile_pattern(pattern, is_escaped).sub(replacement, text)
                break
    return text


def _redact_decoded(text: str, escape: re.Pattern[str]) -> str:
    """Decoded if that reveals a secret, else unchanged: not every percent sign begins an escape."""
    decoded = escape.sub(_decode_if_readable, text)
    if decoded == text:
        return text
    clean = _without_secrets(decoded)
    return text if clean == decoded else clean


# At the first hint: compiling all patterns takes longer than all imports of this module.
@cache
def _compile_pattern(pattern: str, is_escaped: bool) -> re.Pattern[str]:
    return re.compile(with_escaped_breaks(pattern) if is_escaped else pattern, re.IGNORECASE | re.DOTALL)


def _visible_variants(text: str) -> set[str]:
    """The visible text in one piece, and the text split where a secret may begin after hidden characters.

    A short sequence takes characters that may be those of a secret, so in the third variant only its beginning is hidden.
    """
    marked = without_hidden(_CUT_SEQUENCE.sub(r"\1\0", text.replace(_MARK, "\x01")), _MARK)
    variants = {marked.replace(_MARK, ""), _hidden_before_prefix().sub(" ", marked).replace(_MARK, "")}
    if _SHORT_SEQUENCE.search(text) is not None:
        variants.add(without_hidden(_SHORT_SEQUENCE.sub("", text), ""))
    return variants


@cache
def _hidden_before_prefix() -> re.Pattern[str]:
    """Hidden characters before a token prefix. Directly behind a letter many prefixes are part of a word."""
    hints = {hint for format_ in FORMATS for hint in format_.hints if len(hint) >= _PREFIX_CHARS_MIN}
    prefixes = sorted(hint for hint in hints if hint[0].isalnum())
    spelled = (r"\0*".join(map(re.escape, prefix)) for prefix in prefixes)
    return re.compile(rf"(?<!\0)\0++(?=[spr]\0*k\0*-|{'|'.join(spelled)})", re.IGNORECASE)


def _decode_if_hidden(spelled: re.Match[str]) -> str:
    char = chr(int(spelled[1], 16))
    return char if has_hidden_characters(char) else spelled[0]


def _decode_if_readable(spelled: re.Match[str]) -> str:
    """A character that needs no escape; a quote stays escaped, because it would end its text."""
    char = chr(int(spelled[1], 16))
    return char if char in _NEEDS_NO_ESCAPE else spelled[0]


def _redact_unless_harmless(found: re.Match[str]) -> str:
    """Random words change their character class at two of five places, names and paths at one of six."""
    word = found[0]
    if _KNOWN_IDS.match(word) is not None:
        return word
    runs = len(_RUNS.findall(word))
    if runs < _RUNS_SHARE_MIN * len(word) or word.islower() or word.isupper() or _DIGITS.isdisjoint(word):
        return word
    return RANDOM


def _redact_columns(text: str) -> str:
    """Redact table columns whose heading names a secret, as `psql`, `mysql`, Markdown and CSV files have them.

    The heading and the value are in different lines, so the rules for names do not find them.
    """
    if "|" in text:
        text = "".join(_table_parts(text, "|"))
    return "".join(_table_parts(text, ",")) if _CSV_HEADING.search(text) is not None else text


def _table_parts(text: str, separator: str) -> Iterator[str]:
    columns: tuple[int, ...] = ()
    count = 0
    for part in _TABLE_LINES.split(text):
        cells = part.split(separator, _CELLS_MAX)
        if len(cells) == 1:
            # A line break, a rule, or the end of the table.
            columns = columns if _TABLE_RULE.issuperset(part) or _TABLE_LINES.fullmatch(part) else ()
            yield part
        elif columns and len(cells) == count:
            yield separator.join(
                _redact_cell(cell) if at in columns else cell for at, cell in enumerate(cells)
            )
        else:
            count = len(cells)
            columns = tuple(at for at, cell in enumerate(cells) if _is_heading(cell.strip()))
            yield part


def _is_heading(name: str) -> bool:
    return 0 < len(name) <= _CELLS_MAX and " " not in name and names_a_secret(name, _SOME_VALUE)


def _redact_cell(cell: str) -> str:
    value = cell.strip()
    if _SECRET_VALUE.fullmatch(value) is None or (value.startswith("[") and value.endswith("]")):
        return cell
    return cell.replace(value, SECRET)


# Shorter ones are no secrets, and replacing them would damage ordinary words.
SECRET_CHARS_MIN: Final = 6
KNOWN: Final = "[secret of this machine]"
_KEY_BEGINS: Final = "PRIVATE KEY"


class Redactor:
    """Redacts by pattern, and the known secrets of this machine by value."""

    def __init__(self, secrets: Collection[str]) -> None:
        # Longest first: one may be the beginning of another.
        self._secrets = sorted(
            (each for each in secrets if len(each) >= SECRET_CHARS_MIN), key=len, reverse=True
        )

    def redact_text(self, text: str) -> str:
        """Redact a text of any length. A private key is replaced as a whole, whatever its number of lines."""
        return "\n".join(map(self._redact_piece, _pieces(_without_keys(text.split("\n")))))

    def redact_json(self, body: bytes) -> bytes:
        """The same document, indented, with every string redacted; withheld if it is not JSON."""
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
            # The name decides, too: alone, a password looks like any other word.
            return {
                self.redact_text(name): SECRET
                if isinstance(each, str) and names_a_secret(name, each)
                else self.redact_value(each)
                for name, each in value.items()
            }
        return value


def _without_keys(lines: Iterable[str]) -> Iterator[str]:
    in_key = False
    for line in lines:
        if not in_key and "-----BEGIN " in line and _KEY_BEGINS in line:
            in_key = True
            yield "[private key]"
        elif not in_key:
            yield line
        if in_key:
            # A key in JSON begins and ends in one line.
            in_key = "-----END " not in line or line.rfind("-----END ") < line.rfind("-----BEGIN ")


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Groups of lines that are redacted together: the name of a secret may be in the line before it."""
    piece: list[str] = []
    chars = 0
    for line in lines:
        if piece and chars + len(line) + 1 > REDACTED_CHARS_MAX:
            yield "\n".join(piece)
            piece, chars = [], 0
        piece.append(line)
        chars += len(line) + 1
    yield "\n".join(piece)
