"""Decodes bytes from outside: JSON, MessagePack and TOML. A lint rule forbids decoding anywhere else.

Anyone can write these bytes: an agent, a log, a registry file, a chat, a peer. The caller gets a value or
`msgspec.DecodeError`: invalid UTF-8, lone surrogates, deep nesting and absurd numbers are malformed input,
never another exception that ends a loop.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")

# msgspec decodes text with Python's codec and limits nesting by Python's stack, so it also raises these.
_FROM_PYTHON: Final = (UnicodeDecodeError, RecursionError, OverflowError)
# tomllib needs the square of a key's parts, in time and memory: 60,000 parts, which are 120 KB, take 14 GB. Tables of
# people have 4 parts.
TOML_KEY_PARTS_MAX: Final = 32
_LONG_TOML_KEY: Final = re.compile(
    rf"""(?:^|[\[{{,])[ \t]*+(?:(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{TOML_KEY_PARTS_MAX}}}""",
    re.MULTILINE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def json_decoder(kind: type[T]) -> Callable[[bytes | str], T]:
    """A function that decodes JSON into `kind`. It raises msgspec.DecodeError."""
    decode = msgspec.json.Decoder(kind).decode

    def decode_or_refuse(raw: bytes | str) -> T:
        try:
            return decode(raw)
        except _FROM_PYTHON as problem:
            raise _decode_error(problem) from problem

    return decode_or_refuse


@overload
def decode_json(raw: bytes | str) -> Any: ...
@overload
def decode_json(
    raw: bytes | str, kind: type[T], *, dec_hook: Callable[[type[Any], Any], Any] | None = None
) -> T: ...
def decode_json(
    raw: bytes | str, kind: Any = Any, *, dec_hook: Callable[[type[Any], Any], Any] | None = None
) -> Any:
    """The value of a JSON document. Raises msgspec.DecodeError."""
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=dec_hook)
    except _FROM_PYTHON as problem:
        raise _decode_error(problem) from problem


def decode_msgpack(raw: bytes) -> Any:
    """The value of a MessagePack document. Raises msgspec.DecodeError."""
    try:
        return msgspec.msgpack.decode(raw)
    except (*_FROM_PYTHON, ValueError) as problem:
        raise _decode_error(problem) from problem


def decode_json_leniently(text: str) -> Any:
    """The value of a JSON document; a lone surrogate, which chats send, becomes a question mark.

    Raises msgspec.DecodeError.
    """
    import json  # noqa: PLC0415 - few commands need it, and start time is a feature

    try:
        return json.loads(_ESCAPE.sub(lambda escape: "?" if escape["half"] else escape[0], text))
    except (ValueError, RecursionError) as problem:
        raise _decode_error(problem) from problem


def decode_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document. Raises msgspec.DecodeError with the parser's message."""
    import tomllib  # noqa: PLC0415 - it takes milliseconds, and only commands that read a configuration need it

    if (found := _LONG_TOML_KEY.search(text)) is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise msgspec.DecodeError(
            f"A key has more than {TOML_KEY_PARTS_MAX} parts (at line {line}, column 1)"
        )
    try:
        return tomllib.loads(text)
    except RecursionError as problem:
        raise _decode_error(problem) from problem
    except tomllib.TOMLDecodeError as problem:
        raise msgspec.DecodeError(str(problem)) from problem
    except ValueError as problem:
        raise msgspec.DecodeError("A number has too many digits") from problem


def _decode_error(problem: Exception) -> msgspec.DecodeError:
    if isinstance(problem, msgspec.DecodeError):
        return problem
    # The problem's own text may quote the input.
    why = "is nested too deeply" if isinstance(problem, RecursionError) else "holds bytes that are not text"
    return msgspec.DecodeError(f"the input {why}")
