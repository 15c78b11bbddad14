"""A claim about a gateway that is really killed, again and again: nothing is asked twice, nothing answered twice."""

import random
from collections import Counter
from pathlib import Path

from support.daemon_process import RunningDaemon
from support.gateway_kill import KilledGateway, answers, one_life, prompts_in
from support.gateway_process import GatewayFixture
from support.real_clients import wait_for
from support.telegram_server import BotApi

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


def test_killed_at_every_point_and_at_any_time(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Twenty lives: every message reaches its agent once, and has one answer in the chat in the end."""
    seed = 20261116
    chance = random.Random(seed)
    daemon.up("--no-tcp", port=None)
    with BotApi() as api:
        house = GatewayFixture(daemon, api, tmp_path)
        sent: dict[int, list[str]] = {1: [], 2: [], 3: []}
        try:
            with KilledGateway(house) as lives:
                for number in range(len(POINTS) + TIMES):
                    person = number % 3 + 1
                    sent[person].append(f"message {number}")
                    api.says(sent[person][-1], user=person)
                    if number < len(POINTS):
                        one_life(lives, f"{POINTS[number]}:1:kill", 20.0)
                    else:
                        one_life(lives, "", chance.uniform(0.05, 0.6))
                lives.begin()
                for person, messages in sent.items():
                    expected = [f"Answer to: {each}." for each in messages]
                    wait_for(lambda: answers(api, person) == expected or None, f"answers, seed {seed}", 60)  # noqa: B023
        finally:
            daemon.end()
            house.end_agents()
    assert prompts_in(daemon.home) == Counter(each for messages in sent.values() for each in messages)
