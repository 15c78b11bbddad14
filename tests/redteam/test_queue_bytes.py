"""Hostile values in the queue's Redis and in its tool logs: the watchdog's cycle goes on, and the good session is revived."""

import asyncio
import random
from pathlib import Path

import msgspec

from redteam.conftest import Redteam
from support.hostile_files import ABSURD, RAW, spoiled
from support.queue_app import QueueAppFixture
from support.redis_server import RedisServer

SEED = random.SystemRandom().randrange(2**32)
GOOD = "tg_popoto_-5294327191_4469"
LOG = b'{"event":"pre_tool_use","tool_name":"Bash","tool_input":{"command":"ls"},"start_time":1770281100.5}\n'


def packed(chance: random.Random) -> bytes:
    """A field as anybody can write it: no msgpack, deep msgpack, or a value of another kind."""
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(RAW)
    if kind < 0.4:
        return b"\x91" * 100_000
    value = chance.choice([each for each in ABSURD if not isinstance(each, int) or abs(each) < 2**63])
    return chance.choice(
        (msgspec.msgpack.encode(value), msgspec.msgpack.encode(float("nan")), b"\xd9\x02\xff\xfe")
    )


def spoil(bridge: QueueAppFixture, chance: random.Random) -> int:
    """Every field of every record but the good session's own; how many."""
    client, count = bridge.server.client(), 0
    for key in client.keys("*"):
        if GOOD.encode() in key or client.type(key) != b"hash":
            continue
        fields = client.hkeys(key)
        if any(GOOD.encode() in (client.hget(key, field) or b"") for field in fields):
            continue
        for field in fields:
            if chance.random() < 0.6:
                client.hset(key, field, packed(chance))
                count += 1
    return count


def test_hostile_records_cost_only_themselves(
    redis_server: RedisServer, tmp_path: Path, redteam: Redteam
) -> None:
    """Each cycle ends, says what it left out, and revives the one session that can be read."""
    chance = random.Random(SEED)
    for number in range(redteam.rounds(2, 10)):
        folder = tmp_path / str(number)
        folder.mkdir()
        redis_server.client().flushall()
        bridge = QueueAppFixture(redis_server, folder)
        for bad in range(8):
            name = f"tg_popoto_-{100 + bad}_{bad + 1}"
            bridge.active(name)
            path = bridge.logs / name / "tool_use.jsonl"
            path.parent.mkdir(parents=True)
            path.write_bytes(spoiled(LOG * 3, chance))
        bridge.active(GOOD)
        count = spoil(bridge, chance)
        assert count > 10
        held = _is_revived(bridge)
        for _ in range(count):
            redteam.attack("Queue records", f"seed {SEED}, round {number}", held=held)


def _is_revived(bridge: QueueAppFixture) -> bool:
    async def cycles() -> None:
        watch = bridge.watch()
        try:
            for _ in range(2):
                await watch.check()
        finally:
            await watch.close()

    asyncio.run(cycles())
    return any(each["session_id"] == GOOD for each in bridge.events)
