"""A claim about a gateway that is really killed, again and again: nothing is asked twice, nothing answered twice."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from bot_api import BotApi
from clients import wait_for
from daemons import RunningDaemon
from gateway_houses import House

HERE = Path(__file__).parent
POINTS = (
    "turn.accepted",
    "turn.sent",
    "turn.placed",
    "turn.asking",
    "turn.given",
    "turn.asked",
    "turn.heard",
    "turn.answering",
    "turn.said",
    "turn.done",
)
# Besides the points: killed at any time, as often.
TIMES = 10


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
            [sys.executable, str(HERE / "gateway_worker.py"), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
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


def test_killed_at_every_point_and_at_any_time(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Twenty lives: every message reaches its agent once, and has one answer in the chat in the end."""
    seed = 20261116
    chance = random.Random(seed)
    daemon.up("--no-tcp", port=None)
    with BotApi() as api:
        house = House(daemon, api, tmp_path)
        lives = Lives(house)
        sent: dict[int, list[str]] = {1: [], 2: [], 3: []}
        try:
            for number in range(len(POINTS) + TIMES):
                person = number % 3 + 1
                sent[person].append(f"message {number}")
                api.says(sent[person][-1], user=person)
                if number < len(POINTS):
                    one_life(lives, f"{POINTS[number]}:1:kill", 20.0)
                else:
                    one_life(lives, "", chance.uniform(0.05, 0.6))
            last = lives.begin()
            for person, messages in sent.items():
                expected = [f"Answer to: {each}." for each in messages]
                wait_for(lambda: answers(api, person) == expected or None, f"answers, seed {seed}", 60)  # noqa: B023
            os.kill(last, signal.SIGKILL)
            lives.ended()
        finally:
            lives.close()
            daemon.end()
            house.end_agents()
    given = prompts_in(daemon.home)
    for messages in sent.values():
        assert [sum(f'"{each}"' in line for line in given) for each in messages] == [1] * len(messages)


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
