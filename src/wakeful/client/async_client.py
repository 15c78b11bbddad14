"""Asynchronous client of the daemon's Unix socket; implements the interfaces of `api.py`.

Every request has a deadline, and failures are the errors of those interfaces. Sessions also use the run
folders. The client keeps no state that a restart would lose.
"""

import signal
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx
import msgspec
from msgspec import Struct

from wakeful.client.api import (
    ActionReply,
    DaemonDisconnected,
    DaemonRefused,
    DaemonSummary,
    DaemonTimeout,
    DaemonUnavailable,
    OpenCheckpoint,
    SessionSummary,
    Workspace,
)
from wakeful.client.turn_stream import TurnStream
from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import TurnEvent
from wakeful.core.decoding import decode_json
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import prompt_id_for
from wakeful.core.process import ProcessState
from wakeful.integrations.driver_support import agent_of
from wakeful.integrations.providers import provider as client
from wakeful.linux.terminate import terminate
from wakeful.reports.model import Report
from wakeful.storage.base import ActionOutcome

# Twenty-four conversations, each with a question of its own and one that waits for a start.
CONNECTIONS_MAX: Final = 100
CONNECT_SECONDS_MAX: Final = 5.0


class _ProblemBody(Struct):
    code: str = "unknown"
    detail: str = ""


class AsyncDaemonClient:
    """The daemon behind one socket."""

    def __init__(self, socket: str) -> None:
        transport = httpx.AsyncHTTPTransport(
            uds=socket, limits=httpx.Limits(max_connections=CONNECTIONS_MAX), trust_env=False
        )
        self._http = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def get(self, target: str, seconds: float) -> bytes:
        """Raises DaemonNotRunning, DaemonSilent, DaemonDisconnected or Refused."""
        return await self._request("GET", target, None, None, seconds)

    async def post(self, target: str, body: object, seconds: float, key: str | None = None) -> bytes:
        """Raises as `get` does. `key` is an Idempotency-Key: asking twice is once."""
        return await self._request("POST", target, body, key, seconds)

    async def close(self) -> None:
        await self._http.aclose()

    async def _request(
        self, method: str, target: str, body: object, key: str | None, seconds: float
    ) -> bytes:
        headers = {"content-type": "application/json"} if method == "POST" else {}
        if key is not None:
            headers["idempotency-key"] = key
        content = msgspec.json.encode(body) if method == "POST" else None
        limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS_MAX))
        try:
            reply = await self._http.request(method, target, content=content, headers=headers, timeout=limits)
        except httpx.ConnectError as problem:
            raise DaemonUnavailable from problem
        except httpx.TimeoutException as problem:
            raise DaemonTimeout(seconds=seconds) from problem
        except httpx.HTTPError as problem:
            raise DaemonDisconnected from problem
        if reply.status_code >= HTTPStatus.BAD_REQUEST:
            raise _refusal_error(reply.status_code, reply.content)
        return reply.content


def _refusal_error(status: int, body: bytes) -> DaemonRefused:
    try:
        problem = decode_json(body, _ProblemBody)
    except msgspec.DecodeError:
        problem = _ProblemBody()
    return DaemonRefused(detail=problem.detail or f"status {status}", reason=problem.code, status=status)


READ_SECONDS_MAX: Final = 10.0
# A decision may stop an agent and start another one.
DECIDE_SECONDS_MAX: Final = 180.0
# Logs and git of sixty sessions, on a machine that is busy.
REPORT_SECONDS_MAX: Final = 30.0


class _PauseBody(Struct):
    by: str = ""


class _DaemonBody(Struct):
    paused: _PauseBody | None = None
    notes: tuple[str, ...] = ()


class _StatusBody(Struct):
    mode: str
    daemon: _DaemonBody


class _ChoiceBody(Struct):
    name: str
    consequence: str = ""


class _CheckpointBody(Struct):
    number: int
    state: str
    subject: str
    happened: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    did_not: tuple[str, ...] = ()
    choices: tuple[_ChoiceBody, ...] = ()


class _CheckpointListBody(Struct):
    checkpoints: tuple[_CheckpointBody, ...]


class _DecisionBody(Struct):
    words: str


class DaemonApiClient:
    """Implements client.api.House for the daemon of one home."""

    def __init__(self, door: AsyncDaemonClient) -> None:
        self._client = door

    async def summary(self) -> DaemonSummary:
        status = decode_json(await self._client.get("/api/status", READ_SECONDS_MAX), _StatusBody)
        paused = status.daemon.paused
        return DaemonSummary(status.mode, paused.by if paused is not None else None, status.daemon.notes)

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        body = await self._client.get("/api/checkpoints", READ_SECONDS_MAX)
        listed = decode_json(body, _CheckpointListBody).checkpoints
        return tuple(_open_checkpoint(each) for each in listed if each.state == "open")

    async def decide(self, number: int, choice: str, by: str) -> str:
        order: dict[str, object] = {"by": by}
        if choice == "rollback":
            order["dry_run"] = False
        if choice == "done":
            choice, order["done"] = "continue", True
        target = f"/api/checkpoints/{number:d}/{choice}"
        return decode_json(await self._client.post(target, order, DECIDE_SECONDS_MAX), _DecisionBody).words

    async def pause(self, by: str) -> None:
        await self._client.post("/api/pause", {"by": by}, READ_SECONDS_MAX)

    async def resume(self, by: str) -> None:
        await self._client.post("/api/resume", {"by": by}, READ_SECONDS_MAX)

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        target = f"/api/sessions/{parse_session_id(session_id)}/mute"
        await self._client.post(target, {"for_seconds": seconds, "by": by}, READ_SECONDS_MAX)

    async def report(self, since: str) -> Report:
        body = await self._client.get(f"/api/report?{urlencode({'since': since})}", REPORT_SECONDS_MAX)
        return decode_json(body, Report)


def _open_checkpoint(each: _CheckpointBody) -> OpenCheckpoint:
    lines = (
        *(f"happened: {line}" for line in each.happened),
        *(f"may have happened: {line}" for line in each.may_have),
        *(f"did not happen: {line}" for line in each.did_not),
    )
    choices = tuple((choice.name, choice.consequence) for choice in each.choices)
    return OpenCheckpoint(each.number, each.subject, lines, choices)


# A start is waited for a minute, its first word 20 s more, and others may be before it in the queue of a busy machine.
START_SECONDS_MAX: Final = 180.0
ACTION_SECONDS_MAX: Final = 60.0
# SIGKILL is not argued with; a kernel may take a moment.
KILL_SECONDS_MAX: Final = 5.0
NOT_FOUND: Final = "session-not-found"
AMBIGUOUS: Final = "ambiguous-session"


class _ActionBody(Struct):
    session_id: str
    outcome: ActionOutcome
    words: str
    epoch: int = 0


class _FindingBody(Struct):
    code: str


class _SessionBody(Struct):
    id: str
    state: str
    health: str
    managed: bool = False
    pid: int | None = None
    findings: tuple[_FindingBody, ...] = ()


class SessionsApiClient:
    """Implements client.api.Sessions for the daemon of one home."""

    def __init__(self, socket: str, run: Path) -> None:
        self._client = AsyncDaemonClient(socket)
        self._turns = TurnStream(run, self._fetch_pid)

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
        return _decode_action_reply(await self._client.post("/api/sessions", order, START_SECONDS_MAX, key))

    async def send(self, session_id: SessionId, prompt: str, key: str) -> ActionReply:
        return await self._post_action(session_id, "send", {"prompt": prompt}, START_SECONDS_MAX, key)

    async def resume(self, session_id: SessionId, environ: Mapping[str, str]) -> ActionReply:
        order = {"environ": dict(environ)} if environ else {}
        return await self._post_action(session_id, "resume", order, START_SECONDS_MAX)

    async def answer(self, session_id: SessionId, question_id: str, reply: PermissionReply) -> ActionReply:
        return await self._post_action(session_id, "answer", {"question_id": question_id, "reply": reply})

    async def interrupt(self, session_id: SessionId) -> ActionReply:
        return await self._post_action(session_id, "interrupt", {})

    async def stop(self, session_id: SessionId, *, by_itself: bool = False) -> ActionReply:
        return await self._post_action(session_id, "stop", {"by_gateway": by_itself})

    async def kill_process(self, session_id: SessionId) -> bool:
        processes = await self._turns.processes_of(session_id)
        meant = agent_of(session_id, session_id.partition("-")[2])
        steps = ((signal.SIGKILL, KILL_SECONDS_MAX),)
        endings = [await terminate(each, steps, is_meant=meant) for each in processes]
        return bool(endings) and all(each.sight is ProcessState.DEAD for each in endings)

    async def revive(self, session_id: SessionId) -> ActionReply:
        return await self._post_action(session_id, "revive", {"by_gateway": True}, START_SECONDS_MAX)

    async def summary(self, session_id: SessionId) -> SessionSummary | None:
        record = await self._fetch_session(session_id)
        if record is None:
            return None
        findings = tuple(each.code for each in record.findings)
        return SessionSummary(record.state, record.health, findings, record.managed)

    async def find_by_name(self, name: str) -> SessionId | None:
        record = await self._fetch_session(SessionId(name))
        if record is None or record.pid is None or not record.managed:
            return None
        return parse_session_id(record.id)

    async def stream_turn(
        self, provider: str, session_id: SessionId, key: str, epoch: int = 0
    ) -> AsyncIterator[TurnEvent]:
        reader = client(provider).hearing(str(prompt_id_for(key)))
        async for heard in self._turns.events(session_id, reader, epoch):
            yield heard

    async def close(self) -> None:
        """Let go of what it holds open."""
        await self._client.close()

    async def _post_action(
        self,
        session_id: SessionId,
        act: str,
        order: Mapping[str, object],
        seconds: float = ACTION_SECONDS_MAX,
        key: str | None = None,
    ) -> ActionReply:
        return _decode_action_reply(
            await self._client.post(_path(session_id, f"/{act}"), order, seconds, key)
        )

    async def _fetch_session(self, session_id: SessionId) -> _SessionBody | None:
        try:
            body = await self._client.get(_path(session_id), READ_SECONDS_MAX)
        except DaemonRefused as refused:
            if refused.reason in {NOT_FOUND, AMBIGUOUS}:
                return None
            raise
        return decode_json(body, _SessionBody)

    async def _fetch_pid(self, session_id: SessionId) -> int | None:
        record = await self._fetch_session(session_id)
        return record.pid if record is not None else None


def _path(session_id: SessionId, tail: str = "") -> str:
    # Only what this lets through goes into an address.
    return f"/api/sessions/{parse_session_id(session_id)}{tail}"


def _decode_action_reply(body: bytes) -> ActionReply:
    deed = decode_json(body, _ActionBody)
    return ActionReply(deed.outcome, deed.words, deed.session_id, deed.epoch)
