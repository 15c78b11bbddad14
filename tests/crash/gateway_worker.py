"""Lives of a gateway, one after the other, each in a process of its own that was made by fork: dying is cheap.

Every line on standard input begins one: a fault (`turn.said:1:kill`), or nothing. Answers with its pid, then with how
it ended.
"""

import asyncio
import logging
import os
import sys
from pathlib import Path

from support.gateway_virtual import Gateway, GatewayParts
from support.telegram_server import TOKEN
from wakeful.client.api import Workspace
from wakeful.client.async_client import SessionsApiClient
from wakeful.core import fault_points as faults
from wakeful.gateway.answer import ChatAnswers
from wakeful.gateway.rules.pool import PoolLimits
from wakeful.gateway.telegram import TelegramChat
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore


async def live(folder: Path, bot: str, socket: str, run: Path, api: str, home: str) -> None:
    parts, clock = GatewayParts(), SystemClock()
    parts.heard_users = set(range(1, 200))
    # A storm is not refused: what is claimed is that nothing of it is lost.
    parts.pool_limits = PoolLimits(queue_max=100_000)
    parts.bot = bot
    parts.store = await SqliteStore.open(folder / "gateway.db")
    chat = TelegramChat(TOKEN, api, clock)
    environ = {"HOME": home, "PATH": os.environ["PATH"]}
    gateway = Gateway(
        parts,
        clock=clock,
        chat=chat,
        sessions=SessionsApiClient(socket, run),
        answers=ChatAnswers(chat, clock, edit_seconds=0.01),
        seat=Workspace("claude", str(folder / "project"), (str(folder / "bin" / "claude"),), environ, ""),
    )
    await gateway.start()
    await asyncio.Event().wait()


def main(folder: str, bot: str, socket: str, run: str, api: str, home: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            given = line.strip()
            faults.install(faults.FaultInjector([faults.InjectedFault.parse(given)]) if given else None)
            asyncio.run(live(Path(folder), bot, socket, Path(run), api, home))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
