"""Lives of a gateway that is really killed, and what is left of them in chats and transcripts."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from bot_api import BotApi
from gateway_houses import House

WORKER = Path(__file__).parent / "crash" / "gateway_worker.py"


class Lives:
    """A gateway that is started and killed by the test."""

    def __init__(self, house: House) -> None:
        arguments = (
            house.folder,
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

    def begin(self, fault: str = "") -> int:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(f"{fault}\n")
        self._worker.stdin.flush()
        return int(self._worker.stdout.readline())

    def ended(self) -> int:
        """How it ended; waits for it."""
        assert self._worker.stdout is not None
        return int(self._worker.stdout.readline())

    def close(self) -> None:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.close()
        self._worker.wait(10)
        self._worker.stdout.close()


def prompts_in(home: Path) -> list[str]:
    """Every prompt that the agents were given, by their own records."""
    lines = [
        line for each in home.glob(".claude/projects/*/*.jsonl") for line in each.read_text().splitlines()
    ]
    return [line for line in lines if '"type": "user"' in line]


def one_life(lives: Lives, fault: str, seconds: float) -> None:
    """Begin one; it kills itself at the fault, or is killed when its time is over."""
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
