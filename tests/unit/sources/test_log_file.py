"""Claims about cutting bytes into lines: any chunking gives the same, and a good record is never lost."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings, strategies as st

from wakeful.sources.log_file import (
    BLANK,
    LINE_BYTES_MAX,
    RESCUE_BYTES_MAX,
    RESCUE_TOKENS_MAX,
    TAIL_BYTES,
    LineSplitter,
    Oversized,
    rescue,
)

# Few different bytes, so that newlines, blanks and limits meet often.
STREAMS = st.lists(st.sampled_from([b"\n", b"\0", b" ", b"\r", b"a", b"bc", b'{"k":1}']), max_size=40).map(
    b"".join
)
CUTS = st.lists(st.integers(0, 80), max_size=12)
LIMITS = st.integers(1, 20)

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)


def written(record: dict[str, Any], *, plain: bool = False) -> bytes:
    return json.dumps(record, ensure_ascii=plain, separators=(",", ":")).encode()


def in_chunks(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    return [stream[start:stop] for start, stop in pairwise(edges)]


def fed(lines: LineSplitter, chunks: list[bytes]) -> list[bytes | Oversized]:
    return [line for chunk in chunks for line in lines.feed(chunk)]


def expected(stream: bytes, bytes_max: int) -> list[bytes | Oversized]:
    """The same lines, found the simple way."""
    kept = [line.lstrip(BLANK) for line in stream.split(b"\n")[:-1]]
    tail = min(TAIL_BYTES, bytes_max)
    return [
        Oversized(len(line), line[-tail:]) if len(line) > bytes_max else line.rstrip(BLANK)
        for line in kept
        if line
    ]


@settings(max_examples=500, deadline=None)
@given(STREAMS, CUTS, LIMITS)
def test_any_chunking_gives_the_same_lines_and_marks(stream: bytes, cuts: list[int], bytes_max: int) -> None:
    """Whole, byte by byte and cut anywhere, a stream gives what splitting it at once gives."""
    same = expected(stream, bytes_max)
    assert LineSplitter(bytes_max=bytes_max).feed(stream) == same
    assert fed(LineSplitter(bytes_max=bytes_max), [bytes([byte]) for byte in stream]) == same
    assert fed(LineSplitter(bytes_max=bytes_max), in_chunks(stream, cuts)) == same


@settings(deadline=None)
@given(STREAMS, CUTS, LIMITS)
def test_pending_bytes_are_those_after_the_last_newline(
    stream: bytes, cuts: list[int], bytes_max: int
) -> None:
    """The end of the last complete line is distinct from pending bytes, whatever was cut or dropped."""
    lines = LineSplitter(bytes_max=bytes_max)
    fed(lines, in_chunks(stream, cuts))
    assert lines.pending_bytes == len(stream) - (stream.rfind(b"\n") + 1)


@settings(deadline=None)
@given(STREAMS, CUTS, LIMITS)
def test_a_stream_entered_inside_a_line_gives_a_mark_for_it(
    stream: bytes, cuts: list[int], limit: int
) -> None:
    """Half a line is never taken for a whole one, however short it is."""
    first, *rest = fed(LineSplitter(bytes_max=limit, inside=True), in_chunks(b"x" + stream + b"\n", cuts))
    assert isinstance(first, Oversized)
    assert rest == expected((b"x" + stream + b"\n").split(b"\n", 1)[1], limit)


def test_a_forgotten_rest_is_not_glued_to_what_follows() -> None:
    """After `forget` the next byte begins a line."""
    lines = LineSplitter()
    lines.feed(b"torn")
    lines.forget()
    assert lines.feed(b"good\n") == [b"good"]


def test_the_good_line_after_one_too_long_is_not_lost() -> None:
    """One byte more than the limit is a mark with the line's end; the limit itself is a line."""
    longest = b"x" * LINE_BYTES_MAX
    ended = LineSplitter().feed(longest + b"\n" + longest + b"y\n" + b'{"a":1}\n')
    assert ended == [longest, Oversized(LINE_BYTES_MAX + 1, longest[1 - TAIL_BYTES :] + b"y"), b'{"a":1}']


def test_nuls_do_not_take_the_record_behind_them_along() -> None:
    """A hole longer than any line is cut off, not counted."""
    lines = LineSplitter(bytes_max=64)
    hole = bytes(1000)
    assert fed(lines, [hole] * 10 + [b'{"a":1}' + bytes(9) + b"\n" + hole + b"\n"]) == [b'{"a":1}']


@settings(deadline=None)
@given(RECORDS, st.binary().map(lambda torn: torn.replace(b"\n", b"")), st.booleans())
def test_a_record_behind_any_bytes_is_rescued(record: dict[str, Any], torn: bytes, plain: bool) -> None:
    """Whatever stands in front of a good record on its line, the record comes out unchanged."""
    good = written(record, plain=plain)
    assert rescue(torn + good) == good


@settings(deadline=None)
@given(RECORDS, RECORDS, st.integers(0, 200))
def test_a_record_behind_a_torn_one_is_rescued(
    torn: dict[str, Any], record: dict[str, Any], cut: int
) -> None:
    """A record cut off at any byte costs itself only."""
    good = written(record)
    assert rescue(written(torn)[:cut] + good) == good


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(list('{}[]":,\\1a')), max_size=30).map("".join))
def test_rescue_gives_a_whole_object_or_nothing(line: str) -> None:
    """What comes out ends the line and is one JSON object; nothing makes it raise."""
    rescued = rescue(line.encode())
    whole = [line[at:] for at in range(len(line)) if line[at:].startswith('{"') and _is_object(line[at:])]
    assert rescued == (whole[-1].encode() if whole else None)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def test_rescue_gives_up_on_more_than_it_may_look_at() -> None:
    """Work is bounded in bytes and in tokens; one less of either is rescued."""
    fits = b'{"a":"' + b"x" * (RESCUE_BYTES_MAX - 8) + b'"}'
    assert len(fits) == RESCUE_BYTES_MAX
    assert rescue(b"torn" + fits) == fits
    assert rescue(b"torn" + fits.replace(b"a", b"ab")) is None
    busy = written({"a": [""] * (RESCUE_TOKENS_MAX - 3)})
    assert rescue(b"torn" + busy) == busy
    assert rescue(b"torn" + written({"a": [""] * (RESCUE_TOKENS_MAX - 2)})) is None


def test_a_record_nested_too_deep_is_no_record() -> None:
    """Hostile nesting ends as nothing, not as an exception."""
    assert rescue(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None


def test_a_line_of_open_strings_costs_no_more_than_its_length() -> None:
    """A megabyte of escaped quotes is looked at once, not once per quote: that would take hours."""
    assert rescue(b'\\"' * (RESCUE_BYTES_MAX // 4) + b"}") is None
