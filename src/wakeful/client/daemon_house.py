"""The port of the house, over the daemon's Unix socket."""

from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from wakeful.client.door import Door
from wakeful.client.ports_house import HouseStanding, OpenCheckpoint
from wakeful.core.decoding import decode_json
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.reports.model import Report

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
    """Implements ports.house.House for the daemon of one home."""

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
