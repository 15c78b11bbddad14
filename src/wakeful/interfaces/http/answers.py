"""Answers whose bodies are encoded already: sent as they are, described by their type."""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec
from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from wakeful.domain.answer import Answer
from wakeful.interfaces.http.problems import EXIT_HEADER

# What the sending buffer of a socket holds on Linux, about.
PIECE_BYTES_MAX: Final = 256 * 1024

T = TypeVar("T")
_Headers = list[tuple[bytes, bytes]]


class Encoded(Response[T], Generic[T]):
    """The bytes of a `T`. Litestar reads the type for the API description and sends the bytes untouched."""

    def __init__(
        self, answer: Answer, *, status_code: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        # Litestar's own constructors cost as much as everything else together, and nothing here needs them.
        self.status_code = status_code
        self.headers = {EXIT_HEADER: str(answer.exit_code), **(headers or {})}
        self._body = answer.body

    def to_asgi_response(self, *_args: Any, **_kwargs: Any) -> ASGIResponse:
        encoded = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return _Sent(self.status_code or 200, encoded, self._body)


class _Sent(ASGIResponse):
    """The messages of an answer, and nothing that could change them."""

    def __init__(self, status_code: int, headers: _Headers, body: bytes) -> None:
        self.status_code = status_code
        self.body = body
        length = (b"content-length", b"%d" % len(body))
        self._headers = [(b"content-type", b"application/json"), length, *headers]

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        start: Any = {"type": "http.response.start", "status": self.status_code, "headers": self._headers}
        await send(start)
        for piece, more in _pieces(self.body):
            message: Any = {"type": "http.response.body", "body": piece, "more_body": more}
            await send(message)


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


def encoded(value: T, *, status_code: int = 200, headers: dict[str, str] | None = None) -> Encoded[T]:
    """The answer for a value that is made by a door itself."""
    return Encoded(Answer(msgspec.json.encode(value)), status_code=status_code, headers=headers)
