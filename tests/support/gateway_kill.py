"""Gateways that are really killed, and their traces in chats and transcripts."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Self

from support.gateway_process import GatewayFixture
from support.telegram_server import BotApi

WORKER = Path(__file__).parents[1] / "crash" / "gateway_worker.py"


class KilledGateway:
    """A gateway that the test starts and kills. A context manager: a gateway that still runs at its end is killed."""

    def __init__(self, house: GatewayFixture) -> None:
        arguments = (
            house.folder,
            # Sessions are named after it, so that those of another run on this machine are not confused with these.
            house.parts.bot,
            house.daemon.socket,
            house.run,
            house.api.url,
            house.daemon.environ["HOME"],
        )
        self._worker = subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(WORKER.parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._living: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self.kill()
        self._worker.stdin.close()
        self._worker.wait(60)
        self._worker.stdout.close()

    def begin(self, fault: str = "") -> int:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(f"{fault}\n")
        self._worker.stdin.flush()
        self._living = int(self._worker.stdout.readline())
        return self._living

    def ended(self) -> int:
        """Wait for its end; returns how it ended."""
        assert self._worker.stdout is not None
        how = int(self._worker.stdout.readline())
        self._living = None
        return how

    def kill(self) -> None:
        """Kill the running one, if there is one."""
        if self._living is not None:
            os.kill(self._living, signal.SIGKILL)
            self.ended()


def prompts_in(home: Path) -> Counter[str]:
    """How often the agents got each prompt, by their own records."""
    records = [
        json.loads(line)
        for each in home.glob(".claude/projects/*/*.jsonl")
        for line in each.read_text().splitlines()
    ]
    return Counter(str(each["message"]["content"]) for each in records if each["type"] == "user")


def one_life(lives: KilledGateway, fault: str, seconds: float) -> None:
    """Start a gateway; it kills itself at the fault, or is killed when its time is over."""
    pid = lives.begin(fault)
    killer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    killer.start()
    try:
        assert lives.ended() == -signal.SIGKILL
        assert not fault or killer.is_alive(), "a fault that was never reached shows nothing"
    finally:
        killer.cancel()


def answers(api: BotApi, person: int) -> list[str]:
    return [text for text in api.seen(person) if text != "…"]
