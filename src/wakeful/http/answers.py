"""Answers whose bodies are encoded already: sent as they are, described by their type."""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from wakeful.core.answer import Answer
from wakeful.http.asgi import Send
from wakeful.http.problems import EXIT_HEADER

# What the sending buffer of a socket holds on Linux, about.
PIECE_BYTES_MAX: Final = 256 * 1024

T = TypeVar("T")


class Encoded(Generic[T]):
    """The bytes of a `T`, sent untouched; the type is for the API description. `status` stands for the route's own."""

    def __init__(
        self,
        answer: Answer,
        *,
        status: int | None = None,
        media_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._status = status
        self._body = answer.body
        self._headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
            (EXIT_HEADER.encode(), b"%d" % answer.exit_code),
            *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
        ]

    async def send(self, send: Send, status: int) -> None:
        """Send it with this status, unless it has its own."""
        start = {"type": "http.response.start", "status": self._status or status, "headers": self._headers}
        await send(start)
        for piece, more in _pieces(self._body):
            await send({"type": "http.response.body", "body": piece, "more_body": more})


class Text(Encoded[str]):
    """Something else than JSON: it has no exit code."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self._status = None
        self._body = body
        self._headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % len(body)),
        ]


def _pieces(body: bytes) -> Iterator[tuple[bytes | memoryview, bool]]:
    """The body in parts a socket takes at once, each with whether more follow.

    Handed over whole, 12 MB would lie in the server's buffer a second time, and cost three times the CPU.
    """
    if len(body) <= PIECE_BYTES_MAX:
        yield body, False
        return
    view = memoryview(body)
    for begin in range(0, len(body), PIECE_BYTES_MAX):
        yield view[begin : begin + PIECE_BYTES_MAX], begin + PIECE_BYTES_MAX < len(body)


def encoded(value: T, *, headers: Mapping[str, str] | None = None) -> Encoded[T]:
    """The answer for a value that is made by a door itself."""
    return Encoded(Answer(msgspec.json.encode(value)), headers=headers)
