"""Blocking client of the daemon's Unix socket, and how an answer of the daemon is read.

It prints nothing. `async_client.py` sends the same requests and reads the answers with the same functions.
"""

import os
from typing import Final, NamedTuple, TypeVar

import msgspec

from wakeful.client import wire
from wakeful.client.errors import DaemonAway, DaemonVersionMismatch, refusal_error, transport_errors
from wakeful.config.paths import StatePaths
from wakeful.core.decoding import decode_json

ANSWER_SECONDS_MAX: Final = 10.0
RUNNING_SECONDS_MAX: Final = 2.0

S = TypeVar("S", bound=msgspec.Struct)


class DaemonAnswer(NamedTuple):
    """A body as the daemon sent it, its exit code, and the daemon's pid."""

    body: bytes
    exit_code: int
    server_pid: int


class DaemonClient:
    """Sends one request at a time; every call ends by its deadline."""

    def __init__(self, paths: StatePaths) -> None:
        self._socket = paths.socket

    def get(self, target: str, *, timeout_seconds: float = ANSWER_SECONDS_MAX) -> DaemonAnswer:
        """Raises DaemonAway or DaemonRefused."""
        return self._request("GET", target, b"", timeout_seconds)

    def post(
        self,
        target: str,
        body: bytes = b"{}",
        *,
        key: str | None = None,
        timeout_seconds: float = ANSWER_SECONDS_MAX,
    ) -> DaemonAnswer:
        """Raises DaemonAway or DaemonRefused. `key` is an Idempotency-Key: printable ASCII."""
        return self._request("POST", target, body, timeout_seconds, key)

    def running_pid(self) -> int | None:
        """The daemon's pid; None if it is away."""
        try:
            return self.get("/healthz", timeout_seconds=RUNNING_SECONDS_MAX).server_pid
        except DaemonAway:
            return None

    def _request(
        self, method: str, target: str, body: bytes, timeout_seconds: float, key: str | None = None
    ) -> DaemonAnswer:
        with transport_errors(self._socket, method, target, timeout_seconds):
            reply = wire.send_request(
                self._socket, target, method=method, body=body, key=key, timeout_seconds=timeout_seconds
            )
        return answer_of(reply)


def own_daemon() -> DaemonClient:
    """The client of the daemon that serves this process's state folder."""
    return DaemonClient(StatePaths.from_environ(os.environ))


def local_answer(record: object) -> DaemonAnswer:
    """The answer that a daemon would give with this record."""
    return DaemonAnswer(msgspec.json.encode(record), 0, os.getpid())


def answer_of(reply: wire.HttpReply) -> DaemonAnswer:
    """Raises DaemonRefused for every status from 400 on."""
    if reply.status >= 400:
        raise refusal_error(reply)
    return DaemonAnswer(reply.body, int(reply.headers.get("x-wakeful-exit", "0")), reply.server_pid)


def decode_body(body: bytes | str, kind: type[S]) -> S:
    """The record in an answer. Findings, waits and actions that only a newer daemon knows are left out.

    Raises DaemonVersionMismatch.
    """
    try:
        return _decode(body, kind)
    except msgspec.DecodeError:
        pass
    from wakeful.client.newer_values import without_newer_values  # noqa: PLC0415 - only a newer daemon needs it

    try:
        return _decode(msgspec.json.encode(without_newer_values(decode_json(body))), kind)
    except msgspec.DecodeError as problem:
        raise DaemonVersionMismatch from problem


def _decode(body: bytes | str, kind: type[S]) -> S:
    return decode_json(body, kind, dec_hook=lambda wanted, text: wanted(text))
