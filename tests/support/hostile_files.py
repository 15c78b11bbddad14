"""Files that others can write: valid ones with one fault. Seeded, so that a failure can be repeated."""

import json
import random
from typing import Any, Final

ABSURD: Final[list[Any]] = [
    0, -1, 2**63, 10**30, -(10**30), 1e308, -1e308, 5e-324, "", "9" * 4000, "1e999", "nan", "\0", "\x1b[2J", "/" * 5000,
    "../" * 50, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30", "\U0001f600" * 300, "\u202e",
    None, True, [], {}, [[[[[]]]]], {"a": {"a": {"a": {}}}}, ["x"] * 200,
]  # fmt: skip
RAW: Final = (
    b"",
    b"\0" * 4096,
    b"\xff" * 41,
    b"\xef\xbb\xbf{}",
    b"[" * 60_000,
    b'{"a":' * 30_000,
    b'"\\ud800"',
    b'{"pid":' + b"9" * 5000 + b"}",
    b"\xed\xa0\x80",
    b"{}\n{}\n",
    b"\xff\xfe" + "{}".encode("utf-16-le"),
    b"\r\n" * 500,
    b"{" + b'"x":1,' * 2000 + b'"y":1}',
    b"- " * 3000,
    b"\x1f\x8b\x08\0\0\0\0\0",
    b"SQLite format 3\0" + b"\xff" * 100,
)


def spoiled(good: bytes, chance: random.Random) -> bytes:
    """A valid file with a fault written into it."""
    kind = chance.random()
    if kind < 0.15:
        return chance.choice(RAW)
    if kind < 0.55 and (changed := _with_absurd(good, chance)) is not None:
        return changed
    at = chance.randrange(len(good) + 1)
    if kind < 0.65:
        return good[:at]
    if kind < 0.8:
        noise = chance.choice(
            (b"\xff\xfe", b"\0", b"\xf0\x28", b'"', b"{", b"]", b"\\", b"\n", b"-", b"9" * 5000, b": ")
        )
        return good[:at] + noise + good[at:]
    if kind < 0.9:
        return good + chance.choice(RAW) + good
    return good[:at] + good[at + chance.randrange(1, 30) :]


def _with_absurd(good: bytes, chance: random.Random) -> bytes | None:
    """One line of JSON with one value replaced; None where no line is JSON."""
    lines = good.splitlines(keepends=True)
    at = chance.randrange(len(lines)) if lines else 0
    for start, text in ((at, lines[at] if lines else b""), (0, good)):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        _spoil(document, chance)
        changed = json.dumps(document).encode() + b"\n"
        return b"".join([*lines[:start], changed, *lines[start + 1 :]]) if text is not good else changed
    return None


def _spoil(value: Any, chance: random.Random) -> None:
    """Replace, remove or add one value somewhere inside."""
    if isinstance(value, list) and value and chance.random() < 0.8:
        _spoil(value[chance.randrange(len(value))], chance)
        return
    if not isinstance(value, dict) or not value:
        return
    name = chance.choice(list(value))
    if isinstance(value[name], (dict, list)) and value[name] and chance.random() < 0.7:
        _spoil(value[name], chance)
    elif chance.random() < 0.1:
        del value[name]
    else:
        value[name] = chance.choice(ABSURD)
