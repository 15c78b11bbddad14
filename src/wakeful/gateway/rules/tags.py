"""Parses the tags `<telegram-api …/>` and `<send-file …/>` in an answer and removes them from it. Pure.

A tag is a request of the model and grants nothing: other modules decide who may use it and which files may be
sent. Anything that is not exactly a tag, and anything in code, is text.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from html import unescape
from sys import maxsize
from typing import Final

from msgspec import Struct

from wakeful.gateway.rules.formatting import code_spans, open_at_end

# Twenty calls at most. As many files: more than that is a folder.
CALLS_MAX: Final = 20
FILES_MAX: Final = 20
TAG_CHARS_MAX: Final = 8192
_ATTRIBUTE: Final = r"""\s+([A-Za-z_][A-Za-z0-9_]{0,63})\s*=\s*("[^"]{0,4096}"|'[^']{0,4096}')"""
_TAG: Final = re.compile(rf"<(telegram-api|send-file)((?:{_ATTRIBUTE})*)\s*/>")
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_NAMES: Final = ("<telegram-api", "<send-file")
# The beginning of a tag at the end of a growing text.
_OPEN_TAG: Final = re.compile(
    r"""<(?:telegram-api|send-file)\s(?:[^<>"']|"[^"]*"|'[^']*')*(?:"[^"]*|'[^']*)?\Z|<[a-z-]*/?\Z"""
)
_METHOD: Final = re.compile(r"[A-Za-z]{1,64}")


class ApiCall(Struct, frozen=True):
    """A method of the chat service with its parameters, as the model wrote them."""

    method: str
    parameters: Mapping[str, str]


class FileToSend(Struct, frozen=True):
    """A file, by the path that the model wrote: it can be any path."""

    path: str
    caption: str = ""


_Found = tuple[int, int, ApiCall | FileToSend]


class Tagged(Struct, frozen=True):
    """An answer without its tags, and the tags. `left_out`: how many were beyond the limits."""

    text: str
    calls: tuple[ApiCall, ...] = ()
    files: tuple[FileToSend, ...] = ()
    left_out: int = 0


def read_tags(text: str) -> Tagged:
    """Take the tags out of an answer, in their order."""
    found = _tags(text)
    calls = tuple(tag for _, _, tag in found if isinstance(tag, ApiCall))
    files = tuple(tag for _, _, tag in found if isinstance(tag, FileToSend))
    left_out = len(calls[CALLS_MAX:]) + len(files[FILES_MAX:])
    return Tagged(_remove_tags(text, found), calls[:CALLS_MAX], files[:FILES_MAX], left_out)


def shown_so_far(text: str) -> str:
    """The part of a growing answer that may be shown: no tag, and not the beginning of one.

    However the answer goes on, the text shown later begins with this one.
    """
    return read_tags(text[: _certain_length(text)]).text


def _certain_length(text: str) -> int:
    """How much of a growing text is certainly text, tag or code."""
    if "<" not in text:
        return len(text)
    end = _open_tag_start(text)
    line_start = text.rfind("\n", 0, end) + 1
    if _is_in_block(text, end):
        return end
    # Inline code is certain at the end of its line: until then a tag behind a backtick may turn out to be quoted.
    quoted_from = text.find("`", line_start, end)
    if quoted_from < 0:
        return end
    tags = (found.start() for found in _TAG.finditer(text, line_start, end))
    return next((start for start in tags if start > quoted_from), end)


def _open_tag_start(text: str) -> int:
    """The position of text that may become a tag; the end if there is none."""
    position = max(0, len(text) - TAG_CHARS_MAX)
    while (found := _OPEN_TAG.search(text, position)) is not None:
        may_become_tag = any(name.startswith(found[0]) or found[0].startswith(name) for name in _NAMES)
        if may_become_tag and not _is_in_block(text, found.start()):
            return found.start()
        position = found.start() + 1
    return len(text)


def _is_in_block(text: str, position: int) -> bool:
    """Whether this line is in a code block, by the lines before it."""
    return open_at_end(text[: text.rfind("\n", 0, position) + 1]) is not None


def _tags(text: str) -> list[_Found]:
    if "<telegram-api" not in text and "<send-file" not in text:
        return []
    code = list(code_spans(text))
    found = []
    for match in _TAG.finditer(text):
        is_tag = match.end() - match.start() <= TAG_CHARS_MAX and not _in_code(match.start(), code)
        tag = _read(match[1], match[2]) if is_tag else None
        if tag is not None:
            found.append((match.start(), match.end(), tag))
    return found


def _in_code(position: int, code: Sequence[tuple[int, int]]) -> bool:
    before = bisect_right(code, (position, maxsize)) - 1
    return before >= 0 and code[before][0] <= position < code[before][1]


def _read(name: str, written: str) -> ApiCall | FileToSend | None:
    pairs = _ATTRIBUTES.findall(written)
    values = {key: unescape(quoted[1:-1]) for key, quoted in pairs}
    if len(values) != len(pairs):
        return None
    if name == "send-file":
        is_file = bool(values.get("path")) and values.keys() <= {"path", "caption"}
        return FileToSend(**values) if is_file else None
    method = values.pop("method", "")
    return ApiCall(method, values) if _METHOD.fullmatch(method) else None


def _remove_tags(text: str, found: Sequence[_Found]) -> str:
    """The text around the tags. A tag on a line of its own takes its line with it."""
    outside, position = "", 0
    for start, end, _ in found:
        outside += text[position:start]
        own_line = (not outside or outside.endswith("\n")) and text[end : end + 1] == "\n"
        position = end + own_line
    return (outside + text[position:]).strip()
