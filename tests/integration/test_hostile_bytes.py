"""Claims about bytes that anyone can write where Wakeful reads: they end nothing and hide no session. A real daemon."""

import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

from support.daemon_process import RunningDaemon
from wakeful.testing.scripted_agent import ScriptedAgent

GOOD = str(uuid.UUID(int=7, version=4))
# Printed with every failure, so that it can be repeated.
SEED = random.SystemRandom().randrange(2**32)
ENTRY = {
    "pid": 7,
    "sessionId": str(uuid.UUID(int=8, version=4)),
    "procStart": "123",
    "startedAt": 1.8e12,
    "cwd": "/x",
    "status": "idle",
    "statusUpdatedAt": 1.8e12,
}
ABSURD = [
    0,
    -1,
    10**30,
    -(10**30),
    1e308,
    -1e308,
    "",
    "9" * 4000,
    "\0",
    "/" * 5000,
    None,
    True,
    [],
    {},
    2**63,
]
RAW = [
    b'{"pid":7,"sessionId":"\xff\xfe","procStart":1}'[:41],
    b"\xff" * 41,
    b"[" * 60_000,
    b'{"a":' * 30_000,
    b'"\\ud800"',
    b"\0" * 4096,
    b'{"pid":' + b"9" * 5000 + b"}",
    b"",
]


def hostile(chance: random.Random) -> bytes:
    """Bytes that look like an entry until they do not."""
    if chance.random() < 0.4:
        return chance.choice(RAW)
    entry = {**ENTRY, chance.choice(list(ENTRY)): chance.choice(ABSURD)}
    whole = json.dumps(entry).encode()
    cut = chance.randrange(len(whole))
    return chance.choice(
        [whole, whole[:cut], whole[:cut] + b"\xf0\x28" + whole[cut:], whole + b"\n" + chance.choice(RAW)]
    )


def places(home: Path) -> Iterator[Path]:
    """Where a file of anybody's is read: by its name, without its suffix's number."""
    state, claude, codex = home / "state", home / ".claude", home / ".codex"
    name = uuid.UUID(int=random.Random(SEED).getrandbits(128), version=4)
    yield claude / "sessions" / "7.json"
    yield claude / "sessions" / "1.json"
    yield claude / "projects" / "-x" / f"{name}.jsonl"
    yield claude / "projects" / "-x" / str(name) / "subagents" / "agent-1.jsonl"
    yield codex / "sessions" / "2027" / "01" / "15" / f"rollout-2027-01-15T08-00-00-{name}.jsonl"
    yield state / "spool" / f"claude-{name}.json"
    yield state / "spool" / "0"
    yield state / "events" / "x.jsonl"
    yield state / "run" / f"claude-{name}" / "stream.jsonl"
    yield state / "run" / f"claude-{name}" / "typed.json"
    yield state / "agents" / "docs.json"
    yield state / "checkpoints" / "CHECKPOINT_1.md"
    yield state / "gateway.trouble"
    yield state / "trusted"


def test_hostile_files_end_nothing_and_hide_nobody(daemon: RunningDaemon) -> None:
    """There before the start, and written again and again while it runs: the living session is seen all the while."""
    chance = random.Random(SEED)
    (daemon.home / "state").mkdir(mode=0o700)
    targets = list(places(daemon.home))
    for path in targets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(RAW[0])
    agent = ScriptedAgent(daemon.home / ".claude", daemon.home / "project")
    with agent.start(
        {"prompt": "go on"}, {"tool": "Bash", "input": {"command": "make"}, "seconds": 600}
    ) as life:
        assert daemon.run("ls", "--json").exit_code == 0, f"seed {SEED}"
        daemon.up()
        life.wait_for_tool(60)
        for _ in range(40):
            for path in chance.sample(targets, 5):
                path.write_bytes(hostile(chance))
        mine = daemon.wait_for_session(lambda each: each["id"] == life.session_id, "session")
        assert (mine["state"], mine["session_alive"]) == ("prompting", True), f"seed {SEED}"
        status = daemon.run("status", "--json").json
        assert [each for each in status["daemon"]["notes"] if "down since" in each] == [], f"seed {SEED}"
        assert "Traceback" not in daemon.said(), f"seed {SEED}"
        life.process.kill()
        daemon.wait_for_session(lambda each: each["id"] == mine["id"] and each["health"] == "dead", "death")
    assert daemon.end() == 0
