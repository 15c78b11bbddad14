"""A claim about a gateway in a storm of messages that is killed at any time: none is lost, none is answered twice.

WAKEFUL_STORM=50 makes it 5,000 messages and 50 deaths.
"""

import os
import random
import signal
from pathlib import Path

from bot_api import BotApi
from clients import wait_for
from daemons import RunningDaemon
from gateway_houses import House
from gateway_lives import Lives, answers, one_life, prompts_in

DEATHS = int(os.environ.get("WAKEFUL_STORM", "2"))
MESSAGES_A_LIFE = 100
PEOPLE = 20
SEED = 20261116


def test_none_is_lost_or_answered_twice(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Twenty people write a hundred messages in every life; each message has one answer, and each prompt came once."""
    chance = random.Random(SEED)
    daemon.up("--no-tcp", port=None)
    sent: dict[int, list[str]] = {person: [] for person in range(1, PEOPLE + 1)}
    with BotApi() as api:
        house = House(daemon, api, tmp_path)
        lives = Lives(house)
        try:
            for life in range(DEATHS):
                for number in range(MESSAGES_A_LIFE):
                    person = chance.randrange(PEOPLE) + 1
                    sent[person].append(f"message {life}-{number}")
                    api.says(sent[person][-1], user=person)
                one_life(lives, "", chance.uniform(0.2, 3.0))
            last = lives.begin()
            for person, messages in sent.items():
                expected = sorted(f"Answer to: {each}." for each in messages)
                wait_for(
                    lambda: sorted(answers(api, person)) == expected or None,  # noqa: B023 - called here
                    f"answers for {person}, seed {SEED}",
                    120 + 5 * DEATHS,
                )
            os.kill(last, signal.SIGKILL)
            lives.ended()
        finally:
            lives.close()
            daemon.end()
            house.end_agents()
    given = prompts_in(daemon.home)
    for messages in sent.values():
        assert [sum(f'"{each}"' in line for line in given) for each in messages] == [1] * len(messages)
