"""Answers of the Bot API, decoded. One update that cannot be decoded must cost neither the others nor the next ones.

The chat service gives an update again until it is confirmed by its number. So the number of a bad one is looked for in its
bytes; what has none cannot be confirmed and is left out.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wakeful.core.decoding import decode_json_leniently

_RESULT: Final = re.compile(r'"result"\s*:\s*\[')
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},]', re.DOTALL)
# The first one: a message of a chat is deeper inside, and Telegram writes the number first.
_NUMBER: Final = re.compile(r'"update_id"\s*:\s*(\d{1,18})\b')


def read_answer(payload: bytes) -> Any:
    """The whole answer. Where a list of updates cannot be decoded at once, each is decoded by itself.

    Raises msgspec.DecodeError for anything else that cannot be decoded.
    """
    text = payload.decode("utf-8", "replace")
    try:
        return decode_json_leniently(text)
    except msgspec.DecodeError:
        begin = _RESULT.search(text)
        if begin is None:
            raise
        return {"ok": True, "result": list(_each(text, begin.end()))}


def _each(text: str, begin: int) -> Iterator[Any]:
    for piece in _elements(text, begin):
        try:
            yield decode_json_leniently(piece)
        except msgspec.DecodeError:
            number = _NUMBER.search(piece)
            if number is not None:
                yield {"update_id": int(number[1])}


def _elements(text: str, begin: int) -> Iterator[str]:
    """The texts between the commas of a list, by its brackets and quotes alone: however deep it is, nothing is built."""
    depth, start = 0, begin
    for token in _TOKEN.finditer(text, begin):
        sign = token[0]
        if sign in {"[", "{"}:
            depth += 1
        elif depth == 0 and sign in {"]", ","}:
            yield text[start : token.start()]
            start = token.end()
            if sign == "]":
                return
        elif sign in {"]", "}"}:
            depth -= 1
    # Cut off: the last one may still hold its number.
    yield text[start:]
