"""Masks volatile parts of texts, and detects a text that repeats its own end. Pure.

Ids, pids, clock times, durations and random names are masked. Bare numbers are not: a line number or a count
that changes is progress. Commands are masked less than results: the session or temporary file that a command
names is its subject.

A model that repeats itself does not recover, so only the end of a text is checked. The repetition must be
exact: lists with a long common beginning, tables, dividers and code repeat themselves by nature.
"""

import re
import string
from collections.abc import Iterator
from functools import cache
from typing import Final

_DIGITS: Final = b"0123456789"
# The rest of patterns that begin with a digit.
_AFTER_DIGIT: Final = (
    rb"\d{3}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"  # a date with its time
    rb"|\d:\d\d:\d\d(?:[.,]\d+)?"  # a time of day
    rb"|(?<=0)x[0-9a-fA-F]+"
    rb"|(?=[0-9a-f-]*[a-f])[0-9a-f]{3,}(?:-[0-9a-f]+)*\b"  # a hexadecimal id
)
_AFTER_LETTER: Final = (
    rb"[a-f](?=[0-9a-f]{3})(?=[0-9a-f-]*\d)[0-9a-f]{3,}(?:-[0-9a-f]+)*\b"
    rb"|(?:p(?:id|rocess)|PID)[ =:#]{1,3}\d+"
    rb"|tmp[._-]\w{6,}"  # a name of mktemp
)
# One word boundary and one check of the first letter for all, and one check of the digit that most begin with: four
# times as fast as plain alternatives.
_IN_COMMANDS: Final = rb"\b(?=[\da-fpPt])(?:\d(?:%b)|%b)" % (_AFTER_DIGIT, _AFTER_LETTER)
_LONG_TIMES: Final = (
    rb"\d*(?:h ?\d+)?m(?: ?\d+(?:\.\d+)?s)?\b|\d*h\b"  # 1h2m3s, 0m1.234s, 5m
    rb"|\d* ?(?:min(?:ute)?s?|h(?:ou)?rs?)\b"
    rb"|\d*(?:\.\d+)? ?(?:ms|s|secs?|seconds?|n(?:ano)?s|u(?:sec)?s|\xc2\xb5s|\xce\xbcs|\\u00b5s)\b"
    rb"|\d:\d\d:\d\d \S{1,64} [\w./-]{1,64}\[\d+\](?=:)"  # a line of a system's log: time, host, program and pid
)
_IN_RESULTS: Final = (
    rb"\b(?=[\da-fA-FpPst])(?:\d(?:%b|%b|(?=[0-9A-F]*[A-F])[0-9A-F]{7,}\b)|%b"
    rb"|[A-F](?=[0-9A-F]*\d)[0-9A-F]{7,}\b"
    rb"|sess(?:ion)?[ =:#_-]{1,3}\d+"
    rb"|tmp(?:[a-z0-9_]{8}\b|/[A-Za-z]+-\d+))"  # a name of Python's tempfile, or a numbered one
) % (_LONG_TIMES, _AFTER_DIGIT, _AFTER_LETTER)
# Names of ids that are new each time; ids of a chat or a file are not.
_ID_NAMES: Final = (b"Id", b"_id", b"ID")
# An answer with such an id is short; the content of a file has none.
_WITH_ID_BYTES_MAX: Final = 300
_NAMED_ID: Final = (
    rb"((?:background with |[mM]essage|[mM]sg|[rR]equest|[rR]un|[tT]race|[sS]pan|[rR]eceipt|[cC]orrelation|[eE]xecution|[iI]nvocation"
    rb"|[tT]ransaction)[ _-]?[iI][dD][\\\"' =:#]{1,6}|/tasks/(?=[\w-]{1,64}\.output))[\w.-]{1,64}"
)
# Names of volatile numbers; the name stays, and is searched first.
_NAMES: Final = (b'pid\\"', b"uration", b"lapsed", b"imestamp", b"atency")
_NAMED: Final = rb"((?:pid|[dD]uration|[eE]lapsed|[tT]imestamp|[lL]atency)\w{0,12}[\\\"' =:]{1,6})\d+(?:\.\d+)?(?:[hm]\d*(?:\.\d+)?)*s?"
# Every character that a match of these can have, apart from random names, and that masking inserts or removes.
_MASKABLE: Final = f"{string.hexdigits}TZPIhimnoprstux -:.,+=#~\\\n\tµμ".encode()
# Also within a word: masking the part before it may make it a separate word.
_TEMPORARY: Final = rb"tmp(?:[._-]\w{6,}|[a-z0-9_]{8}\b|/[A-Za-z]+-\d+)"
# Compiled when first needed: otherwise every command that reads a record would wait for it.
_pattern: Final = cache(re.compile)


def outline(result: bytes) -> bytes:
    """The part that masking never changes: results that differ here are not equal, and masking is slow."""
    if result.find(b"tmp") >= 0:
        result = _pattern(_TEMPORARY).sub(b"", _unescape(result))
    if _may_have_id(result):
        result = _pattern(_NAMED_ID).sub(rb"\1", _unescape(result))
    return result.translate(None, _MASKABLE)


def mask_result(result: bytes) -> bytes:
    """A result's JSON with everything volatile masked; an escaped line break or tab is no part of the next word."""
    if not _may_be_volatile(result):
        return result
    has_id = _may_have_id(result)
    result = _unescape(result)
    if has_id:
        result = _pattern(_NAMED_ID).sub(rb"\1~", result)
    if max(map(result.find, _NAMES)) >= 0:
        result = _pattern(_NAMED).sub(rb"\1~", result)
    return _pattern(_IN_RESULTS).sub(b"~", result)


def mask_command(text: bytes) -> bytes:
    """The same for a command."""
    return _pattern(_IN_COMMANDS).sub(b"~", text.replace(b"\\n", b"\n")) if _may_be_volatile(text) else text


def _may_have_id(result: bytes) -> bool:
    return len(result) <= _WITH_ID_BYTES_MAX and max(map(result.find, _ID_NAMES)) >= 0


def _unescape(result: bytes) -> bytes:
    return result.replace(b"\\n", b"\n").replace(b"\\t", b"\t")


def _may_be_volatile(text: bytes) -> bool:
    # Removing the digits is the fastest test for any.
    return len(text.translate(None, _DIGITS)) != len(text) or text.find(b"tmp") >= 0


# How often a model in a loop repeats itself at least; a shorter text is too short for that.
REPEATED_ENDS_MIN: Final = 10
_TEXT_BYTES_MIN: Final = 400
# The repeated part is no longer than this.
_PERIOD_BYTES_MAX: Final = 300
# Searched first; the repeated part may be shorter.
_PIECE_BYTES: Final = 32
# Blanks after the last repetition are often missing.
_LACKING_BYTES_MAX: Final = 8
# Enough of the end to see its characters, after an escape that may be cut in half.
_CHECKED_BYTES: Final = 120
_HALF_ESCAPE_CHARS: Final = 5
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
_TABLE: Final = b"|"
_FENCE: Final = b"```"


def count_repeated_ends(text: bytes) -> int:
    """How often a text repeats its end, if that is often; 0 for nearly every text."""
    if len(text) < _TEXT_BYTES_MIN:
        return 0
    end = len(text) - text.endswith(b'"')
    for period in _periods(text, end):
        if _is_repeated(text, end, period):
            return 0 if _is_repetitive_format(text, end) else _count(text, end, period)
    return 0


def _periods(text: bytes, end: int) -> Iterator[int]:
    """Distances at which the last piece occurs before the end, the nearest first."""
    start = end - _PIECE_BYTES
    piece, at = text[start:end], start
    while (at := text.rfind(piece, max(0, start - _PERIOD_BYTES_MAX), at + _PIECE_BYTES - 1)) >= 0:
        yield start - at


def _is_repeated(text: bytes, end: int, period: int) -> bool:
    times = max(REPEATED_ENDS_MIN, -(-_TEXT_BYTES_MIN // period))
    begin = end - (times - 1) * period + _LACKING_BYTES_MAX
    return begin >= period and text[begin:end] == text[begin - period : end - period]


def _is_repetitive_format(text: bytes, end: int) -> bool:
    piece = text[end - _PIECE_BYTES : end]
    in_code = text.count(_FENCE) % 2 == 1 or text.endswith((_FENCE, _FENCE + b'"'))
    return in_code or _TABLE in piece or _is_divider(text[end - _CHECKED_BYTES : end])


def _is_divider(piece: bytes) -> bool:
    """A line of dashes, a bar and a run of dots have no letter; an endlessly repeated letter is one."""
    decoded = _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else " ", piece.decode("utf-8", "ignore")
    )
    return not any(map(str.isalnum, decoded[_HALF_ESCAPE_CHARS:]))


def _count(text: bytes, end: int, period: int) -> int:
    """By binary search: a model in a loop may repeat one letter a million times."""
    least, most = REPEATED_ENDS_MIN, end // period
    while least < most:
        times = (least + most + 1) // 2
        begin = end - times * period
        if text[begin : end - period] == text[begin + period : end]:
            least = times
        else:
            most = times - 1
    return least
