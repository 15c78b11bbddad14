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
    Answered,
    DaemonCutOff,
    DaemonNotRunning,
    DaemonSilent,
    HouseStanding,
    OpenCheckpoint,
    Refused,
    Seat,
    Standing,
)
from wakeful.client.turn_stream import Listener
from wakeful.control.driver import Reply
from wakeful.control.turn_events import Heard
from wakeful.core.decoding import decode_json
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import prompt_id_for
from wakeful.core.process import Sight
from wakeful.integrations.driver_support import agent_of
from wakeful.integrations.providers import provider as client
from wakeful.linux.terminate import end
from wakeful.reports.model import Report
from wakeful.storage.base import Outcome

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


LOOK_SECONDS_MAX: Final = 10.0
# A decision may stop an agent and start another one.
DECIDE_SECONDS_MAX: Final = 180.0
# Logs and git of sixty sessions, on a machine that is busy.
REPORT_SECONDS_MAX: Final = 30.0


class _Paused(Struct):
    by: str = ""


class _Daemon(Struct):
    paused: _Paused | None = None
    notes: tuple[str, ...] = ()


class _Status(Struct):
    mode: str
    daemon: _Daemon


class _Choice(Struct):
    name: str
    consequence: str = ""


class _Checkpoint(Struct):
    number: int
    state: str
    subject: str
    happened: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    did_not: tuple[str, ...] = ()
    choices: tuple[_Choice, ...] = ()


class _Checkpoints(Struct):
    checkpoints: tuple[_Checkpoint, ...]


class _Decided(Struct):
    words: str


class DaemonHouse:
    """Implements client.api.House for the daemon of one home."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def standing(self) -> HouseStanding:
        status = decode_json(await self._door.get("/api/status", LOOK_SECONDS_MAX), _Status)
        paused = status.daemon.paused
        return HouseStanding(status.mode, paused.by if paused is not None else None, status.daemon.notes)

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        body = await self._door.get("/api/checkpoints", LOOK_SECONDS_MAX)
        listed = decode_json(body, _Checkpoints).checkpoints
        return tuple(_open(each) for each in listed if each.state == "open")

    async def decide(self, number: int, choice: str, by: str) -> str:
        order: dict[str, object] = {"by": by}
        if choice == "rollback":
            order["dry_run"] = False
        if choice == "done":
            choice, order["done"] = "continue", True
        target = f"/api/checkpoints/{number:d}/{choice}"
        return decode_json(await self._door.post(target, order, DECIDE_SECONDS_MAX), _Decided).words

    async def pause(self, by: str) -> None:
        await self._door.post("/api/pause", {"by": by}, LOOK_SECONDS_MAX)

    async def resume(self, by: str) -> None:
        await self._door.post("/api/resume", {"by": by}, LOOK_SECONDS_MAX)

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        target = f"/api/sessions/{parse_session_id(session_id)}/mute"
        await self._door.post(target, {"for_seconds": seconds, "by": by}, LOOK_SECONDS_MAX)

    async def report(self, since: str) -> Report:
        body = await self._door.get(f"/api/report?{urlencode({'since': since})}", REPORT_SECONDS_MAX)
        return decode_json(body, Report)


def _open(each: _Checkpoint) -> OpenCheckpoint:
    lines = (
        *(f"happened: {line}" for line in each.happened),
        *(f"may have happened: {line}" for line in each.may_have),
        *(f"did not happen: {line}" for line in each.did_not),
    )
    choices = tuple((choice.name, choice.consequence) for choice in each.choices)
    return OpenCheckpoint(each.number, each.subject, lines, choices)


# A start is waited for a minute, its first word 20 s more, and others may be before it in the queue of a busy machine.
START_SECONDS_MAX: Final = 180.0
ACT_SECONDS_MAX: Final = 60.0
# SIGKILL is not argued with; a kernel may take a moment.
KILL_SECONDS_MAX: Final = 5.0
NOT_FOUND: Final = "session-not-found"
AMBIGUOUS: Final = "ambiguous-session"


class _Deed(Struct):
    session_id: str
    outcome: Outcome
    words: str
    epoch: int = 0


class _Finding(Struct):
    code: str


class _Record(Struct):
    id: str
    state: str
    health: str
    managed: bool = False
    pid: int | None = None
    findings: tuple[_Finding, ...] = ()


class DaemonSessions:
    """Implements client.api.Sessions for the daemon of one home."""

    def __init__(self, socket: str, run: Path) -> None:
        self._door = Door(socket)
        self._listener = Listener(run, self._pid)

    async def start(self, seat: Seat, prompt: str, key: str) -> Answered:
        program, *flags = seat.argv
        order = {
            "argv": (program, *client(seat.provider).subcommand, *flags),
            "cwd": seat.cwd,
            "environ": dict(seat.environ),
            "name": seat.name or None,
            "terminal": False,
            "prompt": prompt,
        }
        return _answered(await self._door.post("/api/sessions", order, START_SECONDS_MAX, key))

    async def send(self, session_id: SessionId, prompt: str, key: str) -> Answered:
        return await self._act(session_id, "send", {"prompt": prompt}, START_SECONDS_MAX, key)

    async def resume(self, session_id: SessionId, environ: Mapping[str, str]) -> Answered:
        order = {"environ": dict(environ)} if environ else {}
        return await self._act(session_id, "resume", order, START_SECONDS_MAX)

    async def answer(self, session_id: SessionId, question_id: str, reply: Reply) -> Answered:
        return await self._act(session_id, "answer", {"question_id": question_id, "reply": reply})

    async def interrupt(self, session_id: SessionId) -> Answered:
        return await self._act(session_id, "interrupt", {})

    async def stop(self, session_id: SessionId, *, by_itself: bool = False) -> Answered:
        return await self._act(session_id, "stop", {"by_gateway": by_itself})

    async def end_process(self, session_id: SessionId) -> bool:
        processes = await self._listener.processes_of(session_id)
        meant = agent_of(session_id, session_id.partition("-")[2])
        steps = ((signal.SIGKILL, KILL_SECONDS_MAX),)
        endings = [await end(each, steps, is_meant=meant) for each in processes]
        return bool(endings) and all(each.sight is Sight.DEAD for each in endings)

    async def revive(self, session_id: SessionId) -> Answered:
        return await self._act(session_id, "revive", {"by": "the chat gateway"}, START_SECONDS_MAX)

    async def standing(self, session_id: SessionId) -> Standing | None:
        record = await self._record(session_id)
        if record is None:
            return None
        findings = tuple(each.code for each in record.findings)
        return Standing(record.state, record.health, findings, record.managed)

    async def named(self, name: str) -> SessionId | None:
        record = await self._record(SessionId(name))
        if record is None or record.pid is None or not record.managed:
            return None
        return parse_session_id(record.id)

    async def hear(
        self, provider: str, session_id: SessionId, key: str, epoch: int = 0
    ) -> AsyncIterator[Heard]:
        hearing = client(provider).hearing(str(prompt_id_for(key)))
        async for heard in self._listener.listen(session_id, hearing, epoch):
            yield heard

    async def close(self) -> None:
        """Let go of what it holds open."""
        await self._door.close()

    async def _act(
        self,
        session_id: SessionId,
        act: str,
        order: Mapping[str, object],
        seconds: float = ACT_SECONDS_MAX,
        key: str | None = None,
    ) -> Answered:
        return _answered(await self._door.post(_path(session_id, f"/{act}"), order, seconds, key))

    async def _record(self, session_id: SessionId) -> _Record | None:
        try:
            body = await self._door.get(_path(session_id), LOOK_SECONDS_MAX)
        except Refused as refused:
            if refused.reason in {NOT_FOUND, AMBIGUOUS}:
                return None
            raise
        return decode_json(body, _Record)

    async def _pid(self, session_id: SessionId) -> int | None:
        record = await self._record(session_id)
        return record.pid if record is not None else None


def _path(session_id: SessionId, tail: str = "") -> str:
    # Only what this lets through goes into an address.
    return f"/api/sessions/{parse_session_id(session_id)}{tail}"


def _answered(body: bytes) -> Answered:
    deed = decode_json(body, _Deed)
    return Answered(deed.outcome, deed.words, deed.session_id, deed.epoch)
