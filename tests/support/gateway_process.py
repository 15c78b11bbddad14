"""A gateway of real parts: the daemon, a cheap agent or a real one, the scripted Bot API, and a store on disk."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self
from uuid import uuid4

import msgspec

from support.daemon_process import RunningDaemon
from support.gateway_virtual import Gateway, GatewayParts
from support.stub_claude import install
from support.telegram_server import BotApi
from wakeful.client.api import Workspace
from wakeful.client.async_client import SessionsApiClient
from wakeful.gateway.answer import ChatAnswers
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.telegram import TelegramChat
from wakeful.gateway.turn_store import TURN_KIND as KIND
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore

EDIT_SECONDS = 0.01


class GatewayFixture:
    """The parts that outlive a gateway. Everything that runs in its home ends with it."""

    def __init__(
        self, daemon: RunningDaemon, api: BotApi, folder: Path, seat: Workspace | None = None
    ) -> None:
        self.daemon = daemon
        self.api = api
        self.folder = folder
        self.parts = GatewayParts()
        self.parts.heard_users = set(range(1, 200))
        # Identifies its prompts to a daemon that several fixtures share.
        self.parts.bot = uuid4().hex
        self.seat = seat or self.cheap_seat()

    def cheap_seat(self) -> Workspace:
        program = install(self.folder / "bin")
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        environ = {name: self.daemon.environ[name] for name in ("HOME", "PATH", "LANG")}
        return Workspace("claude", str(project), (program,), environ, "")

    def gateway(self) -> "RunningGateway":
        """One run of a gateway."""
        return RunningGateway(self)

    def end_agents(self) -> None:
        end_agents(self.folder, self.daemon)

    @property
    def run(self) -> Path:
        return Path(self.daemon.environ["WAKEFUL_HOME"]) / "run"


def end_agents(folder: Path, daemon: RunningDaemon) -> None:
    """End sessions, which outlive the daemon but must not outlive the test. A resumed one has the daemon's
    environment."""
    program = str(folder / "bin" / "claude")
    for process in proc.processes_with_variable("HOME", daemon.environ["HOME"], os.getuid()):
        if program in proc.command(process.pid):
            os.kill(process.pid, signal.SIGKILL)


class RunningGateway:
    """A context manager; `gateway` exists inside."""

    def __init__(self, house: GatewayFixture) -> None:
        self._house = house
        self.gateway: Gateway
        self.sessions: SessionsApiClient

    async def __aenter__(self) -> Self:
        house, clock = self._house, SystemClock()
        self._store = house.parts.store = await SqliteStore.open(house.folder / "gateway.db")
        self._chat = TelegramChat(house.api.token, house.api.url, clock)
        self.sessions = SessionsApiClient(str(house.daemon.socket), house.run)
        self.gateway = Gateway(
            house.parts,
            clock=clock,
            chat=self._chat,
            sessions=self.sessions,
            answers=ChatAnswers(self._chat, clock, edit_seconds=EDIT_SECONDS),
            seat=house.seat,
        )
        await self.gateway.start()
        # An earlier gateway may have ended right after it stored an answer, before it reported the end of the turn.
        self._over = {turn.update_id: turn for turn in await self._turns() if turn.is_over and turn.prompt}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gateway.end()
        await self._chat.close()
        await self._store.close()

    async def until(self, holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Return once the condition is true."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"no {what}: {self._house.api.seen()}"
            assert self.gateway.failed == []
            await asyncio.sleep(0.01)

    async def answered(self, count: int, chat: int = 1, seconds: float = 60.0) -> list[str]:
        """The bot's messages there, once this many have their text."""
        api = self._house.api

        def seen() -> list[str]:
            return [text for text in api.seen(chat) if text != "…"]

        def ended() -> int:
            ends = {turn.update_id: turn for turn, _ in self._house.parts.plain.ends} | self._over
            return sum(turn.place.chat_id == chat for turn in ends.values())

        await self.until(lambda: ended() >= count, f"answer number {count} in chat {chat}", seconds)
        return seen()

    async def _turns(self) -> list[Turn]:
        return [msgspec.json.decode(note.body, type=Turn) for note in await self._store.notes(KIND)]
