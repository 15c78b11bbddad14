"""The port of sessions, over the daemon's Unix socket and its run folders. Keeps nothing that a restart would lose."""

import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.client.door import Door
from wakeful.client.listening import Listener
from wakeful.client.ports_sessions import Answered, Refused, Seat, Standing
from wakeful.control.driver import Reply
from wakeful.control.turn_events import Heard
from wakeful.core.decoding import decode_json
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import prompt_id_for
from wakeful.core.process import Sight
from wakeful.integrations.driving import agent_of
from wakeful.integrations.providers import provider as client
from wakeful.linux.terminate import end
from wakeful.storage.store import Outcome

# A start is waited for a minute, its first word 20 s more, and others may be before it in the queue of a busy machine.
START_SECONDS_MAX: Final = 180.0
ACT_SECONDS_MAX: Final = 60.0
LOOK_SECONDS_MAX: Final = 10.0
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
    """Implements ports.sessions.Sessions for the daemon of one home."""

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

    async def stop(self, session_id: SessionId) -> Answered:
        return await self._act(session_id, "stop", {})

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
