"""Hostile files in a container agent's own home, which the agent there writes as it likes: a real engine, a real daemon."""

import json
import os
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from redteam.conftest import Redteam
from support.agents_e2e import AgentsFixture
from support.docker_engine import IMAGE, DockerEngine
from support.hostile_files import spoiled
from support.raw_http import RawHttpDaemon
from support.real_clients import require_tmux, wait_for

SEED = random.SystemRandom().randrange(2**32)
AGENT = f"""
[agents.bot]
runtime = "docker"
image = "{IMAGE}"
command = ["sleep", "100000"]
network = "none"
"""
ENTRY = {
    "pid": 1,
    "sessionId": str(uuid.UUID(int=7, version=4)),
    "procStart": "123",
    "cwd": "/x",
    "status": "idle",
}

# 41 bytes that once ended the daemon.
SHORT = b'{"pid":7,"sessionId":"\xff\xfe","status":"x"}'[:41]
NAMES = (b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[31mred\n", b"2")


@pytest.fixture
def house(docker: DockerEngine, tmp_path: Path) -> Iterator[tuple[AgentsFixture, RawHttpDaemon]]:
    require_tmux()
    daemon = RawHttpDaemon(tmp_path / "h")
    daemon.environ["DOCKER_HOST"] = docker.address
    house = AgentsFixture(daemon, AGENT)
    daemon.up()
    try:
        yield house, daemon
    finally:
        daemon.end()
        house.end()


def prompt(conversation: str) -> bytes:
    record = {
        "type": "user",
        "sessionId": conversation,
        "cwd": "/code",
        "timestamp": datetime.now(UTC).isoformat(),
        "uuid": str(uuid.uuid4()),
        "message": {"role": "user", "content": "go on"},
    }
    return json.dumps(record).encode() + b"\n"


def test_hostile_files_in_a_container_end_nothing(
    house: tuple[AgentsFixture, RawHttpDaemon], docker: DockerEngine, redteam: Redteam
) -> None:
    """Registry and logs inside: the agent runs on, a good log after bad ones is seen, and nothing is down."""
    hub, daemon = house
    hub.start("bot")
    root = Path(f"/proc/{docker.inspect('agent-bot')['State']['Pid']}/root/root/.claude")
    (root / "sessions").mkdir(parents=True)
    (root / "sessions" / "7.json").write_bytes(SHORT)
    for raw_name in NAMES:
        forged = os.fsdecode(os.fsencode(root / "sessions") + b"/" + raw_name + b".json")
        Path(forged).write_text(json.dumps(ENTRY))
    chance = random.Random(SEED)
    wire, good, count = daemon.wire(tcp=False), prompt(str(uuid.uuid4())), 0
    for _ in range(redteam.rounds(3, 20)):
        for folder, number in ((root / "sessions", 100), (root / "projects/-work", 50)):
            folder.mkdir(parents=True, exist_ok=True)
            for _ in range(number):
                count += 1
                is_entry = folder.name == "sessions"
                name = f"{count}.json" if is_entry else f"{uuid.uuid4()}.jsonl"
                content = json.dumps(ENTRY).encode() if is_entry else good
                (folder / name).write_bytes(spoiled(content, chance))
                redteam.attack("Container files", "a file", held=True)
        conversation = str(uuid.uuid4())
        log = root / "projects/-work" / f"{conversation}.jsonl"
        log.write_bytes(spoiled(good, chance) + b"\n" + prompt(conversation))
        target = f"/api/sessions/claude-{conversation}".encode()
        wait_for(lambda target=target: (wire.ask("GET", target)[0] == 200) or None, f"log (seed {SEED})", 60)  # type: ignore[misc]
    notes = [each for each in daemon.run("status", "--json").json["daemon"]["notes"] if "down since" in each]
    redteam.attack("Container files", f"seed {SEED}: {notes}", held=not notes)
    for command in ("ls", "status", "doctor"):
        spoken = daemon.run(command)
        held = spoken.exit_code < 2 and spoken.out.replace("\n", "").isprintable()
        redteam.attack("Container files", f"seed {SEED}: {command}: {spoken.err}", held=held)
    said = daemon.said()
    redteam.attack("Container files", f"seed {SEED}: {said[-2000:]}", held="Traceback" not in said)
    redteam.attack("Container files", "the agent", held=hub.agent("bot")["state"] == "running")
