"""Claims about bytes from outside: whatever they are, decoding them gives a value or one kind of error."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from wakeful.core.decoding import (
    decode_json,
    decode_json_leniently,
    decode_msgpack,
    decode_toml,
    json_decoder,
)


class Entry(Struct):
    pid: int
    words: str = ""
    at: float = 0.0


HOSTILE = [
    b'{"pid":7,"words":"\xff\xfe"}',
    b'{"pid":7,"words":"\\ud800"}',
    b'{"pid":7,"words":"\\udc00\\ud800"}',
    b'{"pid":7,"at":1e999}',
    b'{"pid":' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b'{"pid":' * 100_000,
    b'{"pid":7,"other":' + b"[" * 100_000,
    b"\xff" * 41,
    b"\0" * 41,
    b"",
    b"7",
]


@pytest.mark.parametrize("raw", HOSTILE, ids=lambda raw: repr(raw[:24]))
def test_hostile_bytes_are_malformed(raw: bytes) -> None:
    """Invalid UTF-8, lone surrogates, deep nesting and absurd numbers raise what a caller catches, and nothing else."""
    with pytest.raises(msgspec.DecodeError):
        json_decoder(Entry)(raw)
    with pytest.raises(msgspec.DecodeError):
        decode_json(raw, Entry)


def test_an_error_quotes_nothing_of_what_it_could_not_read() -> None:
    """It may reach a log or a chat; what it could not read may be a secret."""
    with pytest.raises(msgspec.DecodeError) as caught:
        decode_json(b'"hunter2 \xff"')
    assert "hunter2" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_one_error(raw: bytes) -> None:
    """Whichever decoder is asked."""
    for decode in (decode_json, json_decoder(dict[str, Any]), decode_msgpack):
        with suppress(msgspec.DecodeError):
            decode(raw)


def test_deep_messagepack_is_malformed() -> None:
    """Records of other programs in Redis are MessagePack."""
    with pytest.raises(msgspec.DecodeError):
        decode_msgpack(b"\x91" * 100_000)
    with pytest.raises(msgspec.DecodeError):
        decode_msgpack(b"\xa1\xff")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"half \ud83d"', "half ?"),
        (r'"\udc00\ud800"', "??"),
        (r'"\ud83d\ude00 whole"', "\U0001f600 whole"),
        (r'"a backslash \\ud83d"', r"a backslash \ud83d"),
    ],
)
def test_half_a_character_is_a_question_mark(text: str, value: str) -> None:
    """Chats send such halves, and no store takes one."""
    assert decode_json_leniently(text) == value


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 6000, "{", "\0"])
def test_what_chats_send_is_malformed_or_a_value(text: str) -> None:
    """Nothing but a DecodeError travels."""
    with pytest.raises(msgspec.DecodeError):
        decode_json_leniently(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 32 + " = 1",
        "[a" + " . a" * 32 + "]",
        'b = {"a"' + '."\\""' * 32 + " = 1}",
        "x = " + "9" * 5000,
    ],
)
def test_no_toml_takes_the_square_of_its_length(text: str) -> None:
    """Keys of many parts are refused before they are read, and no message is Python's own."""
    with pytest.raises(
        msgspec.DecodeError, match=r"^A (key has more than 32 parts \(at line 1, |number has too many)"
    ):
        decode_toml(text)


def test_ordinary_toml_is_read() -> None:
    """Dots in texts and numbers, and keys of as many parts as people write."""
    prose = "e.g. a.b.c " * 100 + "One. Two. Three. " * 100
    assert decode_toml(f'a.b."c.d" = "{prose}"\nn = [1.5, 2.5]')["a"]["b"]["c.d"] == prose
