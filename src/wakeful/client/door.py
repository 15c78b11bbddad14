"""Questions to the running daemon over its Unix socket, for programs that do not wait for each other's answers.

Every question has a deadline. What an answer means is for others; what went wrong is an error of the port.
"""

from http import HTTPStatus
from typing import Final

import httpx
import msgspec
from msgspec import Struct

from wakeful.client.ports_sessions import DaemonCutOff, DaemonNotRunning, DaemonSilent, Refused
from wakeful.core.decoding import decode_json

# Twenty-four conversations, each with a question of its own and one that waits for a start.
CONNECTIONS_MAX: Final = 100
CONNECT_SECONDS_MAX: Final = 5.0


class _Problem(Struct):
    code: str = "unknown"
    detail: str = ""


class Door:
    """The daemon behind one socket."""

    def __init__(self, socket: str) -> None:
        transport = httpx.AsyncHTTPTransport(
            uds=socket, limits=httpx.Limits(max_connections=CONNECTIONS_MAX), trust_env=False
        )
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def get(self, target: str, seconds: float) -> bytes:
        """Raises DaemonNotRunning, DaemonSilent, DaemonCutOff or Refused."""
        return await self._ask("GET", target, None, None, seconds)

    async def post(self, target: str, body: object, seconds: float, key: str | None = None) -> bytes:
        """Raises as `get` does. `key` is an Idempotency-Key: asking twice is once."""
        return await self._ask("POST", target, body, key, seconds)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, method: str, target: str, body: object, key: str | None, seconds: float) -> bytes:
        headers = {"content-type": "application/json"} if method == "POST" else {}
        if key is not None:
            headers["idempotency-key"] = key
        content = msgspec.json.encode(body) if method == "POST" else None
        limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS_MAX))
        try:
            reply = await self._client.request(
                method, target, content=content, headers=headers, timeout=limits
            )
        except httpx.ConnectError as problem:
            raise DaemonNotRunning from problem
        except httpx.TimeoutException as problem:
            raise DaemonSilent(seconds=seconds) from problem
        except httpx.HTTPError as problem:
            raise DaemonCutOff from problem
        if reply.status_code >= HTTPStatus.BAD_REQUEST:
            raise _refusal(reply.status_code, reply.content)
        return reply.content


def _refusal(status: int, body: bytes) -> Refused:
    try:
        problem = decode_json(body, _Problem)
    except msgspec.DecodeError:
        problem = _Problem()
    return Refused(detail=problem.detail or f"status {status}", reason=problem.code, status=status)
