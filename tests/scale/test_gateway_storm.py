"""A claim about a gateway in a storm of messages that is killed at any time: none is lost, none is answered twice.

The suite does two deaths; `WAKEFUL_STORM=50` does 50, with 5,000 messages.
"""

import os
import random
from collections import Counter
from pathlib import Path

from support.daemon_process import RunningDaemon
from support.gateway_kill import KilledGateway, answers, one_life, prompts_in
from support.gateway_process import GatewayFixture
from support.real_clients import wait_for
from support.telegram_server import BotApi

DEATHS = int(os.environ.get("WAKEFUL_STORM", "2"))
MESSAGES_A_LIFE = 100
PEOPLE = range(1, 21)
SEED = 20261116


def test_none_is_lost_or_answered_twice(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Twenty people write a hundred messages in every life; each message has one answer, and each prompt came once."""
    chance = random.Random(SEED)
    sent: dict[int, Counter[str]] = {person: Counter() for person in PEOPLE}
    daemon.up("--no-tcp", port=None)
    with BotApi() as api:
        house = GatewayFixture(daemon, api, tmp_path)

        def missing() -> dict[int, tuple[Counter[str], Counter[str]]]:
            """What each person still has to read, and what they read too much."""
            wanted = {each: Counter(f"Answer to: {text}." for text in sent[each]) for each in PEOPLE}
            read = {each: Counter(answers(api, each)) for each in PEOPLE}
            return {
                each: (wanted[each] - read[each], read[each] - wanted[each])
                for each in PEOPLE
                if wanted[each] != read[each]
            }

        try:
            with KilledGateway(house) as lives:
                for life in range(DEATHS):
                    for number in range(MESSAGES_A_LIFE):
                        person = chance.choice(PEOPLE)
                        text = f"message {life}-{number}"
                        sent[person][text] += 1
                        api.says(text, user=person)
                    one_life(lives, "", chance.uniform(0.2, 3.0))
                lives.begin()
                wait_for(
                    lambda: not missing() or None, f"whole of the answers, seed {SEED}", 120 + 10 * DEATHS
                )
        except AssertionError as error:
            error.add_note(f"missing and too much: {missing()}")
            raise
        finally:
            daemon.end()
            house.end_agents()
    assert prompts_in(daemon.home) == sum(sent.values(), Counter())
