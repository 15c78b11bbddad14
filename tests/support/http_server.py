"""An HTTP server on loopback that answers by a script, also badly: for everything that calls out.

One behaviour per request, in order; the last one stays. Whole requests are recorded.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs


@dataclass(frozen=True)
class ReceivedRequest:
    """One request."""

    target: str
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


Behaviour = Callable[[ReceivedRequest], bytes | None]
"""The whole answer; empty: hang up without one; None: keep the connection open and say nothing."""


def answer(status: int, body: Any = None) -> Behaviour:
    """A plain answer with JSON in it."""
    encoded = json.dumps(body or {}).encode()
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {len(encoded)}\r\n\r\n"
    return lambda _got: head.encode() + encoded


def drop(_got: ReceivedRequest) -> bytes:
    """Read the request and close the connection."""
    return b""


def hang(_got: ReceivedRequest) -> None:
    """Read the request and never answer."""


class ScriptedHttp:
    """Runs in the loop of the test that opened it."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.got: list[ReceivedRequest] = []
        self.behaviours: Sequence[Behaviour] = behaviours
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.close()

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            got = await _read(reader)
            self.got.append(got)
            said = self.behaviours[min(len(self.got), len(self.behaviours)) - 1](got)
            if said is None:
                return
            writer.write(said)
            await writer.drain()
        writer.close()
        self._open.discard(writer)


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
    length = int(lengths[0].partition(":")[2]) if lengths else 0
    return ReceivedRequest(head.split(" ", 2)[1], await reader.readexactly(length))
