"""Bytes that anybody can write where Wakeful reads: they end nothing, hide nothing and lose no good record after them."""

import json
import os
import random
import re
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from redteam.conftest import Redteam
from support.hostile_files import spoiled
from support.raw_http import RawConnection, RawHttpDaemon
from support.real_clients import wait_for
from support.recordings import SMALL, lines_of, recordings
from wakeful.linux.machine import this_machine
from wakeful.storage.base import SHARED, is_shared
from wakeful.testing.scripted_agent import RunningAgent, ScriptedAgent

# Printed with every failure, so that it can be repeated.
SEED = random.SystemRandom().randrange(2**32)
CONVERSATION = "7e3eb83f-1111-4111-8111-111111111111"
LOG_BYTES_MAX = 64 * 1024
SECONDS_MAX = 90.0


def recorded(provider: str) -> bytes:
    """The first lines of a recording: enough for every kind of record that begins a session."""
    path = next(each for each in recordings(SMALL) if each.parent.name == provider)
    return b"\n".join(lines_of(path)[:12]) + b"\n"


def lines(*records: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


GOOD: dict[str, bytes] = {
    "registry": lines(
        {
            "pid": 7, "sessionId": CONVERSATION, "procStart": "123", "startedAt": 1.8e12, "cwd": "/x",
            "status": "idle", "statusUpdatedAt": 1.8e12, "waitingFor": "x",
        }
    ),
    "spool": lines(
        {
            "session_id": CONVERSATION, "hook_event_name": "PermissionRequest", "cwd": "/x", "tool_name": "Bash",
            "tool_input": {"command": "ls"}, "transcript_path": "/x",
        }
    ),
    "events": lines(
        {"at": 1.77e9, "event": "opened", "cwd": "/x", "pid": 7, "version": "1", "project": "p"},
        {"at": 1.77e9, "event": "call", "call": "1", "tool": "make", "input": {"a": [1]}, "timeout_seconds": 9.5},
        {"at": "2026-01-05T09:00:00Z", "event": "failed", "reason": "limit", "message": "resets 15:30"},
    ),
    "tool_use": lines(
        {"event": "pre_tool_use", "tool_name": "Bash", "tool_input": {"a": "}"}, "start_time": 1.77e9},
        {"event": "post_tool_use", "tool_name": "Bash", "exit_code": 1, "end_time": 1.77e9, "tool_output_preview": "x"},
    ),
    "stream": lines(
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "a"}]}, "uuid": "u", "session_id": "s"},
        {"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}},
        {"type": "result", "subtype": "success", "result": "x", "usage": {"input_tokens": 1}},
    ),
    "claude": recorded("claude"),
    "codex": recorded("codex"),
}  # fmt: skip


class Hostile:
    """Writes hostile files at every place where the daemon reads what others wrote."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self._home = home
        self._chance = chance
        self.count = 0
        self.written: list[Path] = []
        self._tool_use = home / "tool-use"
        for folder in (".claude/sessions", ".claude/projects/-x", "state/spool", "state/events", "tool-use"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "state").chmod(0o700)

    def write(self, count: int) -> None:
        """So many files; each is a new one."""
        kinds = list(self._places())
        for _ in range(count):
            kind, place = self._chance.choice(kinds)
            path = place(self.count)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(spoiled(GOOD[kind], self._chance))
            self.count += 1
            self.written.append(path)

    def remove(self) -> None:
        for path in self.written:
            path.unlink(missing_ok=True)
        own = (self._home / "state/run", self._tool_use, self._home / ".claude/projects/-x")
        for folder in (inner for each in own if each.is_dir() for inner in each.iterdir()):
            shutil.rmtree(folder)
        self.written.clear()

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def _places(self) -> Iterator[tuple[str, Callable[[int], Path]]]:
        home, state = self._home, self._home / "state"
        claude, codex = home / ".claude", home / ".codex/sessions/2027/01/15"
        for _ in range(30):
            # They have pids for names: none of a process that lives.
            yield "registry", lambda number: claude / "sessions" / f"{5_000_000 + number}.json"
        for _ in range(5):
            yield "spool", lambda number: state / "spool" / f"claude-{number}"
            yield "events", lambda number: state / "events" / f"h{number}.jsonl"
            yield "claude", lambda _: claude / "projects/-x" / f"{self._uuid()}.jsonl"
        yield "claude", lambda _: claude / "projects/-x" / self._uuid() / "subagents" / "agent-1.jsonl"
        yield "codex", lambda _: codex / f"rollout-2027-01-15T08-00-00-{self._uuid()}.jsonl"
        yield "tool_use", lambda number: self._tool_use / f"t{number}" / "tool_use.jsonl"
        yield "stream", lambda _: state / "run" / f"claude-{self._uuid()}" / "stream.jsonl"


class Beacon:
    """An event log in which good records follow bad ones: each good one must be seen."""

    def __init__(self, house: RawHttpDaemon, chance: random.Random) -> None:
        self._path = house.home / "state/events/beacon.jsonl"
        self._wire = house.wire(tcp=False)
        self._chance = chance
        self._turns = 0

    def shine(self) -> None:
        """Write something bad and then something good, and wait until that was read."""
        self._turns += 1
        event, state = ("prompt", "prompting") if self._turns % 2 else ("done", "idle")
        bad = (
            spoiled(GOOD["events"], self._chance)
            .replace(b"opened", b"nothing")
            .replace(b"failed", b"nothing")
        )
        with self._path.open("ab") as log:
            log.write(bad + b"\n" + lines({"at": time.time(), "event": event}))
        wait_for(lambda: (self._state() == state) or None, f"beacon {self._turns} (seed {SEED})", 60)

    def _state(self) -> str:
        status, body = self._wire.ask("GET", b"/api/sessions/beacon")
        return str(json.loads(body)["state"]) if status == 200 else ""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RawHttpDaemon]:
    daemon = RawHttpDaemon(tmp_path / "h")
    daemon.environ["WAKEFUL_EYES__TOOL_USE_DIRS"] = str(daemon.home / "tool-use")
    yield daemon
    daemon.end()


def alive(wire: RawConnection, life: RunningAgent) -> bool:
    """Whether the good session is seen as what it is."""
    status, body = wire.ask("GET", f"/api/sessions/{life.session_id}".encode())
    record = json.loads(body) if status == 200 else {}
    return (record.get("state"), record.get("session_alive")) == ("prompting", True)


def test_hostile_files_beside_a_living_session(house: RawHttpDaemon, redteam: Redteam) -> None:
    """Before the start and while the daemon runs; `ls` is right about the good one, and nothing is down."""
    chance = random.Random(SEED)
    hostile = Hostile(house.home, chance)
    hostile.write(300)
    agent = ScriptedAgent(house.home / ".claude", house.home / "project")
    # As long as its own timeout it is at work, and no longer.
    making = {"command": "make", "timeout": 600_000}
    with agent.start({"prompt": "go on"}, {"tool": "Bash", "input": making, "seconds": 600}) as life:
        assert house.run("ls", "--json").exit_code == 0, f"seed {SEED}"
        house.up()
        life.wait_for_tool(60)
        wire, beacon = house.wire(tcp=False), Beacon(house, chance)
        wait_for(lambda: alive(wire, life) or None, "the living session")
        began = time.monotonic()
        # On a machine that is busy with something else it is fewer; the figure says how many.
        while hostile.count < redteam.rounds(4_000, 100_000) and time.monotonic() - began < SECONDS_MAX:
            hostile.write(2000)
            beacon.shine()
            held = alive(wire, life)
            for _ in range(2000):
                redteam.attack("Files", f"seed {SEED}: the living session is wrong", held=held)
            hostile.remove()
        took = time.monotonic() - began
        redteam.figure(
            f"{hostile.count:,} hostile files, live daemon",
            f"{took:.0f} s, {house.resident_bytes / 1e6:.0f} MB",
        )
        notes = [
            each for each in house.run("status", "--json").json["daemon"]["notes"] if "down since" in each
        ]
        redteam.attack("Files", f"seed {SEED}: {notes}", held=not notes)
        said = house.said()
        redteam.attack("Files", f"seed {SEED}: {said[-2000:]}", held="Traceback" not in said)
        redteam.attack("Files", f"seed {SEED}: {len(said):,} B log", held=len(said) < LOG_BYTES_MAX)
        life.process.kill()
        house.wait_for_session(
            lambda each: each["id"] == life.session_id and each["health"] == "dead", "death"
        )
    assert house.end() == 0


# In the place of what the daemon recalls when it starts.
GARBAGE = (b"", b"\xff\xfe", b"[" * 60_000, b'{"a":1}', b"null", b"9" * 5000)


def test_a_store_full_of_garbage_keeps_no_daemon_from_starting(
    house: RawHttpDaemon, redteam: Redteam
) -> None:
    """Notes under every name that Wakeful has, none of which can be read: they are left out, and the daemon answers."""
    (house.home / "state/events").mkdir(parents=True)
    (house.home / "state").chmod(0o700)
    log = house.home / "state/events/good.jsonl"
    log.write_bytes(
        lines({"at": time.time(), "event": "opened", "cwd": "/x"}, {"at": time.time(), "event": "prompt"})
    )
    house.up()
    house.wait_for_session(lambda each: each["id"] == "good", "session")
    assert house.end() == 0
    kinds = sorted(
        set(re.findall(r'^[A-Z_]+(?:: Final)? = "([a-z_.-]+)"$', _service_sources(), re.MULTILINE))
    )
    assert len(kinds) > 10
    with closing(sqlite3.connect(house.home / "state/wakeful.db")) as store:
        for kind in kinds:
            for number, body in enumerate(GARBAGE):
                _keep(store, kind, f"key-{number}", body)
        for table, column in (("bookmarks", "folded"), ("transitions", "record")):
            assert store.execute(f"UPDATE {table} SET {column} = ?", (b"\xff{",)).rowcount > 0
        store.commit()
    house.up()
    house.wait_for_session(lambda each: (each["id"], each["state"]) == ("good", "prompting"), "session")
    redteam.attack("Store", f"the daemon is {house.pid}", held=house.run("ls").exit_code == 0)
    for command in ("status", "incidents", "checkpoint list", "report", "agent list", "mute --list"):
        spoken = house.run(*command.split())
        redteam.attack("Store", f"{command}: {spoken.err}", held="bug of ours" not in spoken.err)
    said = house.said()
    redteam.attack("Store", said[-3000:], held="Traceback" not in said)
    assert house.end() == 0


def _service_sources() -> str:
    folder = Path(__file__).parents[2] / "src/wakeful"
    return "\n".join(path.read_text() for path in folder.rglob("*.py"))


def _keep(store: sqlite3.Connection, kind: str, key: str, body: bytes) -> None:
    store.execute(
        "INSERT OR REPLACE INTO notes (machine, kind, key, body) VALUES (?, ?, ?, ?)",
        (SHARED if is_shared(kind) else this_machine().id, kind, key, body),
    )


def odd_places(home: Path) -> Iterator[Path]:
    """Where files of a known name are read, now or at the next start."""
    state, name = home / "state", str(uuid.UUID(int=7, version=4))
    yield home / ".claude/sessions/8.json"
    yield home / f".claude/projects/-x/{name}.jsonl"
    yield home / f".codex/sessions/2027/01/15/rollout-2027-01-15T08-00-00-{name}.jsonl"
    yield home / ".claude/settings.json"
    yield state / "spool/claude-1"
    yield state / "events/odd.jsonl"
    yield state / f"run/claude-{name}/stream.jsonl"
    yield state / f"run/claude-{name}/prompts"
    yield state / "agents/docs.json"
    yield state / "checkpoints/CHECKPOINT_1.md"
    yield state / "typing/typing-0000"
    yield state / "run/typing-0000"
    yield state / "probe"
    yield state / "tmux.sock"
    yield state / "journals/00"
    yield state / "gateway.trouble"
    yield state / "trusted"
    yield state / "hooks/claude"


@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "device"])
def test_what_is_no_file_is_not_waited_for(house: RawHttpDaemon, redteam: Redteam, kind: str) -> None:
    """A FIFO, a folder, a link to itself or a device in the place of a file: the daemon starts, and commands answer."""
    for path in odd_places(house.home):
        path.parent.mkdir(parents=True, exist_ok=True)
        make_odd(path, kind)
    (house.home / "state").chmod(0o700)
    house.up()
    for command in ("ls", "status", "doctor", "checkpoint list", "hooks install claude --dry-run"):
        start = time.monotonic()
        spoken = house.run(*command.split())
        held = "bug of ours" not in spoken.err and time.monotonic() - start < 20
        redteam.attack("Odd files", f"{kind}: {command}: {spoken.err}", held=held)
    said = house.said()
    redteam.attack("Odd files", said[-2000:], held="Traceback" not in said)
    assert house.end() == 0


def test_a_client_folder_that_leads_to_itself_is_empty(house: RawHttpDaemon, redteam: Redteam) -> None:
    """A link in a circle in the place of a whole folder: the daemon starts, and finds nothing there."""
    for name in (".claude", ".codex"):
        (house.home / name).symlink_to(name)
    house.up()
    listed = house.run("ls")
    redteam.attack("Odd files", f"a folder: {listed.err}", held=listed.exit_code == 0)
    assert house.end() == 0


def make_odd(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        path.symlink_to("/dev/zero")
    # As old as what will not be continued.
    old = time.time() - 600
    os.utime(path, (old, old), follow_symlinks=False)


# Names of registry entries: a file's name is as much its writer's choice as its content.
NAMES = (
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x1b[31mred\x07\nsessions   none",
    b"\x1b]0;title\x07",
    "\u202egnp".encode(),
    b"ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    b"$(id)`id`",
    b"-rf",
    b"n" * 250,
)


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_file_breaks_no_answer(house: RawHttpDaemon, redteam: Redteam, name: bytes) -> None:
    """An entry that is not believed is named in plain text without secrets, and no longer once it was deleted."""
    registry = house.home / ".claude/sessions"
    registry.mkdir(parents=True)
    house.up()
    entry = {"pid": 7, "sessionId": CONVERSATION, "procStart": "1"}
    forged = Path(os.fsdecode(os.fsencode(registry) + b"/" + name + b".json"))
    forged.write_text(json.dumps(entry))
    wire = house.wire(tcp=False)
    wait_for(lambda: wire.ask("GET", b"/api/status")[0] != 200 or _left_out(wire) or None, "the entry")
    shown = [_left_out(wire)]
    for command in ("ls", "status", "doctor"):
        spoken = house.run(*command.split())
        shown.append(spoken.out)
        held = spoken.exit_code < 2 and "it names process 7" in spoken.out
        redteam.attack("Names of files", f"{name!r}: {command}: {spoken.err}", held=held)
    for text in shown:
        held = text.replace("\n", "").isprintable() and "ghp_" not in text
        redteam.attack("Names of files", f"{name!r}: {text!r}", held=held)
    forged.unlink()
    wait_for(lambda: not _left_out(wire) or None, "the deletion")
    redteam.attack("Names of files", f"{name!r}: {house.said()}", held="Traceback" not in house.said())


def _left_out(wire: RawConnection) -> str:
    """The entries that are not believed, as the daemon names them."""
    status, body = wire.ask("GET", b"/api/status")
    eyes = json.loads(body)["daemon"]["eyes"] if status == 200 else []
    return next((each["left_out"] or "" for each in eyes if each["name"] == "claude-registry"), "")


def test_a_number_that_is_none_is_no_entry(house: RawHttpDaemon, redteam: Redteam) -> None:
    """Start times that Python's own `int` takes or refuses: not an entry, and no message of Python's is shown."""
    registry = house.home / ".claude/sessions"
    registry.mkdir(parents=True)
    for number, start in enumerate(("\u00b2", "1_0", "\u0661", "", " 5", "+5", "-5", "--", "9" * 19)):
        entry = {"pid": 100 + number, "sessionId": CONVERSATION, "procStart": start}
        (registry / f"{100 + number}.json").write_text(json.dumps(entry))
    house.up()
    told = house.run("status").out
    redteam.attack("Names of files", told, held="left out" not in told)


COMMANDS = (
    "ls", "ls --json", "doctor", "report", "events --json", "incidents", "backlog list", "backlog sync", "recover",
    "config show", "config check", "config trust", "config import ../gateway.json", "config show --config ../conf.toml",
    "hooks install claude --dry-run", "replay ../rec.jsonl", "replay ../cases.jsonl --format cases", "checkpoint list",
    "doctor --bundle b.tar.gz",
)  # fmt: skip
CONFIG = b'[daemon]\nport = 47\nmode = "mine"\n[gateway]\nallow = [1, 2]\n'
ITEM = {
    "id": "a",
    "title": "t",
    "status": "todo",
    "priority": 1,
    "est_hours": 2,
    "added_at": "2026-01-01T00:00:00Z",
}
EVENT = {"timestamp": "2026-11-01T00:00:00Z", "event_type": "session_hung", "session_id": "x", "extra": {}}


def spoil_home(home: Path, chance: random.Random) -> Path:
    """Everything that a command reads, spoiled; the folder in which a person types it."""
    good = {
        ".claude/sessions/7.json": GOOD["registry"],
        f".claude/projects/-x/{CONVERSATION}.jsonl": GOOD["claude"],
        ".claude/settings.json": lines(
            {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
        ),
        f".codex/sessions/2027/01/15/rollout-2027-01-15T08-00-00-{CONVERSATION}.jsonl": GOOD["codex"],
        "state/spool/a": GOOD["spool"],
        "state/events/x.jsonl": GOOD["events"],
        "state/trusted": lines({"/x": "aa"}),
        "state/logs/up.log": b"x\n",
        "state/logs/critical_events.jsonl": lines(EVENT, EVENT),
        "project/data/critical_events.jsonl": lines(EVENT, EVENT),
        "project/wakeful.toml": CONFIG,
        "project/doc/todo-archive.ndjson": lines(ITEM),
        "project/.copilot/session_state.json": lines({"session_id": "x", "steps": []}),
        "project/events.ndjson": lines({"at": "2026-11-01T00:00:00Z", "event": "session.start", "id": "1"}),
        "gateway.json": lines({"conversation": {"max_active_sessions": 5}}),
        "conf.toml": CONFIG,
        "rec.jsonl": GOOD["claude"],
        "cases.jsonl": (Path(__file__).parents[1] / "cases/judgement.jsonl").read_bytes().splitlines()[0]
        + b"\n",
    }
    for name, content in good.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(spoiled(content, chance))
    (home / "state").chmod(0o700)
    return home / "project"


def test_commands_survive_a_hostile_home(house: RawHttpDaemon, redteam: Redteam) -> None:
    """Without a daemon: every command answers or refuses in one line, and none is a bug."""
    chance = random.Random(SEED)
    for number in range(redteam.rounds(1, 4)):
        project = spoil_home(house.home, chance)
        for command in COMMANDS:
            spoken = house.run(*command.split(), cwd=project)
            held = "bug of ours" not in spoken.err and "Traceback" not in spoken.err
            what = f"seed {SEED}, round {number}: {command}: {spoken.err[-300:]}"
            redteam.attack("Commands on a hostile home", what, held=held)
