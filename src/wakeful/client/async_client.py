"""Asynchronous client of the daemon's Unix socket; implements the interfaces of `api.py`.

Every request has a deadline. Sessions also use the run folders. The client keeps no state that a restart
would lose.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from wakeful.checkpoints.model import CheckpointList, CheckpointRecord, CheckpointState
from wakeful.client import wire
from wakeful.client.api import ActionReply, DaemonSummary, OpenCheckpoint, SessionSummary, Workspace
from wakeful.client.client import answer_of, decode_body
from wakeful.client.errors import DaemonRefused, transport_errors
from wakeful.client.turn_stream import TurnStream
from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import TurnEvent
from wakeful.core.errors import AmbiguousSession, SessionNotFound
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import prompt_id_for
from wakeful.integrations.providers import provider as client
from wakeful.judging.session_record import SessionRecord
from wakeful.reports.model import Report
from wakeful.views.records import DecisionRecord, Overview

# Twenty-four conversations, each with a question of its own and one that waits for a start.
CONNECTIONS_MAX: Final = 100
READ_SECONDS_MAX: Final = 10.0
# A decision may stop an agent and start another one.
DECIDE_SECONDS_MAX: Final = 180.0
# Logs and git of sixty sessions, on a machine that is busy.
REPORT_SECONDS_MAX: Final = 30.0
# A start takes up to a minute, its first word 20 s more, and others may be before it in the queue of a busy machine.
START_SECONDS_MAX: Final = 180.0
ACTION_SECONDS_MAX: Final = 60.0


class AsyncDaemonClient:
    """The daemon behind one socket. Each request has a connection of its own."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._connections = asyncio.Semaphore(CONNECTIONS_MAX)

    async def get(self, target: str, seconds: float) -> bytes:
        """Raises DaemonAway or DaemonRefused."""
        return await self._request("GET", target, b"", None, seconds)

    async def post(self, target: str, body: object, seconds: float, key: str | None = None) -> bytes:
        """Raises DaemonAway or DaemonRefused. With `key`, an Idempotency-Key, a repeated request acts once."""
        return await self._request("POST", target, msgspec.json.encode(body), key, seconds)

    async def _request(self, method: str, target: str, body: bytes, key: str | None, seconds: float) -> bytes:
        request = wire.encode_request(method, target, body, key)
        with transport_errors(self._socket_path, method, target, seconds):
            async with asyncio.timeout(seconds), self._connections:
                reply = await self._exchange(request)
        return answer_of(reply).body

    async def _exchange(self, request: bytes) -> wire.HttpReply:
        loop, received = asyncio.get_running_loop(), bytearray()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, self._socket_path)
            await loop.sock_sendall(connection, request)
            while chunk := await loop.sock_recv(connection, wire.READ_BYTES):
                received += chunk
                wire.require_bounded(len(received))
            return wire.parse_reply(bytes(received), wire.peer_pid(connection))


class DaemonApiClient:
    """Implements `api.DaemonApi` for the daemon of one home."""

    def __init__(self, daemon: AsyncDaemonClient) -> None:
        self._client = daemon

    async def summary(self) -> DaemonSummary:
        status = decode_body(await self._client.get("/api/status", READ_SECONDS_MAX), Overview)
        paused = status.daemon.paused
        return DaemonSummary(status.mode, paused.by if paused is not None else None, status.daemon.notes)

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        body = await self._client.get("/api/checkpoints", READ_SECONDS_MAX)
        records = decode_body(body, CheckpointList).checkpoints
        return tuple(_open_checkpoint(each) for each in records if each.state is CheckpointState.OPEN)

    async def decide(self, number: int, choice: str, by: str) -> str:
        order: dict[str, object] = {"by": by}
        if choice == "rollback":
            order["dry_run"] = False
        if choice == "done":
            choice, order["done"] = "continue", True
        target = f"/api/checkpoints/{number:d}/{choice}"
        return decode_body(await self._client.post(target, order, DECIDE_SECONDS_MAX), DecisionRecord).words

    async def pause(self, by: str) -> None:
        await self._client.post("/api/pause", {"by": by}, READ_SECONDS_MAX)

    async def resume(self, by: str) -> None:
        await self._client.post("/api/resume", {"by": by}, READ_SECONDS_MAX)

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        target = _path(session_id, "/mute")
        await self._client.post(target, {"for_seconds": seconds, "by": by}, READ_SECONDS_MAX)

    async def report(self, since: str) -> Report:
        body = await self._client.get(f"/api/report?{urlencode({'since': since})}", REPORT_SECONDS_MAX)
        return decode_body(body, Report)


def _open_checkpoint(record: CheckpointRecord) -> OpenCheckpoint:
    lines = (
        *(f"happened: {line}" for line in record.happened),
        *(f"may have happened: {line}" for line in record.may_have),
        *(f"did not happen: {line}" for line in record.did_not),
    )
    choices = tuple((choice.name, choice.consequence) for choice in record.choices)
    return OpenCheckpoint(record.number, record.subject, lines, choices)


class SessionsApiClient:
    """Implements `api.SessionsApi` for the daemon of one home."""

    def __init__(self, socket_path: str, run: Path) -> None:
        self._client = AsyncDaemonClient(socket_path)
        self._turns = TurnStream(run, self.pid)

    async def start(self, workspace: Workspace, prompt: str, key: str) -> ActionReply:
        program, *flags = workspace.argv
        order = {
            "argv": (program, *client(workspace.provider).subcommand, *flags),
            "cwd": workspace.cwd,
            "environ": dict(workspace.environ),
            "name": workspace.name or None,
            "terminal": False,
            "prompt": prompt,
        }
        return decode_body(
            await self._client.post("/api/sessions", order, START_SECONDS_MAX, key), ActionReply
        )

    async def send(self, session_id: SessionId, prompt: str, key: str) -> ActionReply:
        return await self._post_action(session_id, "send", {"prompt": prompt}, START_SECONDS_MAX, key)

    async def resume(self, session_id: SessionId, environ: Mapping[str, str]) -> ActionReply:
        order = {"prompt_follows": True} | ({"environ": dict(environ)} if environ else {})
        return await self._post_action(session_id, "resume", order, START_SECONDS_MAX)

    async def answer(self, session_id: SessionId, question_id: str, reply: PermissionReply) -> ActionReply:
        return await self._post_action(session_id, "answer", {"question_id": question_id, "reply": reply})

    async def interrupt(self, session_id: SessionId) -> ActionReply:
        return await self._post_action(session_id, "interrupt", {})

    async def stop(self, session_id: SessionId, *, by_itself: bool = False) -> ActionReply:
        return await self._post_action(session_id, "stop", {"by_gateway": by_itself})

    async def end_runaway(self, session_id: SessionId) -> ActionReply:
        return await self._post_action(session_id, "revive", {"by_gateway": True, "runaway": True})

    async def leave_to_user(self, session_id: SessionId) -> ActionReply:
        order = {"by_gateway": True, "failed": True}
        return await self._post_action(session_id, "revive", order, START_SECONDS_MAX)

    async def revive(self, session_id: SessionId) -> ActionReply:
        return await self._post_action(session_id, "revive", {"by_gateway": True}, START_SECONDS_MAX)

    async def summary(self, session_id: SessionId) -> SessionSummary | None:
        record = await self._fetch_session(session_id)
        if record is None:
            return None
        findings = tuple(each.code for each in record.findings)
        return SessionSummary(record.state, record.health, findings, record.managed)

    async def pid(self, session_id: SessionId) -> int | None:
        record = await self._fetch_session(session_id)
        return record.pid if record is not None else None

    async def find_by_name(self, name: str) -> SessionId | None:
        record = await self._fetch_session(SessionId(name))
        if record is None or record.pid is None or not record.managed:
            return None
        return parse_session_id(record.id)

    async def stream_turn(
        self, provider: str, session_id: SessionId, key: str, epoch: int = 0
    ) -> AsyncIterator[TurnEvent]:
        reader = client(provider).turn_reader(str(prompt_id_for(key)))
        async for event in self._turns.events(session_id, reader, epoch):
            yield event

    async def _post_action(
        self,
        session_id: SessionId,
        action: str,
        order: Mapping[str, object],
        seconds: float = ACTION_SECONDS_MAX,
        key: str | None = None,
    ) -> ActionReply:
        body = await self._client.post(_path(session_id, f"/{action}"), order, seconds, key)
        return decode_body(body, ActionReply)

    async def _fetch_session(self, session_id: SessionId) -> SessionRecord | None:
        try:
            body = await self._client.get(_path(session_id), READ_SECONDS_MAX)
        except DaemonRefused as refused:
            if refused.reason in {SessionNotFound.code, AmbiguousSession.code}:
                return None
            raise
        return decode_body(body, SessionRecord)


def _path(session_id: SessionId, tail: str = "") -> str:
    # Only an id that this accepts is put into an address.
    return f"/api/sessions/{parse_session_id(session_id)}{tail}"
