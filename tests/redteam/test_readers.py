"""What is read on request: imports, settings, notes, marks, checkpoints, journals. A value or one clear error, no other."""

import json
import random
import shutil
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from redteam.conftest import Redteam
from support.hostile_files import spoiled
from wakeful.checkpoints.files import read_checkpoint
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName, to_markdown
from wakeful.config import load as config_reading
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.daemon.heartbeat import bounds_of
from wakeful.gateway import import_config as gateway_import
from wakeful.heartbeat.document import parse
from wakeful.heartbeat.file import find_zone
from wakeful.hooks import install as hookwork
from wakeful.hooks.spool import read_hook
from wakeful.incidents.critical_log import CriticalLog, archive, forget, recover_archive
from wakeful.integrations.claude_code.registry import read_entry
from wakeful.integrations.claude_code.stream_json import StreamState
from wakeful.integrations.claude_code.turn_reader import ClaudeTurnReader
from wakeful.integrations.codex.driver import CodexTurn
from wakeful.integrations.codex.turn_reader import CodexTurnReader
from wakeful.integrations.driver_support import RunFolder
from wakeful.integrations.telegram import read_answer
from wakeful.integrations.tmux.agent_runtime import AgentMarks
from wakeful.integrations.tmux.prompt_in_log import has_prompt
from wakeful.integrations.tmux.typed_notes import TypedNotes
from wakeful.journal.api import Journal
from wakeful.journal.backlog import Backlog
from wakeful.journal.locks import registered_roots
from wakeful.journal.recovery_watch import recover_journal
from wakeful.linux.files import ProblemFile
from wakeful.replay.cases import read_case

SEED = random.SystemRandom().randrange(2**32)
CONVERSATION: Final = "7e3eb83f-1111-4111-8111-111111111111"
PROCESS: Final = {"pid": 1, "started_at": 2, "boot_id": "b"}
Read = Callable[[bytes, Path], object]


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


def file_of(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def read_hooks(content: bytes, folder: Path) -> None:
    for client, name in (("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")):
        file_of(folder, name, content)
        hookwork.hooks_state(client, {"HOME": str(folder)}, StatePaths(str(folder)))
        with suppress(WakefulError):
            hookwork.plan_install(client, {"HOME": str(folder)}, StatePaths(str(folder)))
        with suppress(WakefulError):
            hookwork.plan_uninstall(client, {"HOME": str(folder)})


def read_critical(content: bytes, folder: Path) -> None:
    shutil.rmtree(folder / "critical", ignore_errors=True)
    path = file_of(folder, "critical/events.jsonl", content)
    CriticalLog(path).recent(0.0)
    archive(path, 1.9e9)
    forget(path, 1.9e9)
    recover_archive(path)


def read_run_folder(content: bytes, folder: Path) -> None:
    run = RunFolder(folder / "run", SessionId("claude-x"))
    for name in ("prompt", "stderr.log", "stderr"):
        file_of(run.path, name, content)
    assert run.prompts is not None
    run.last_error_output()


def read_streams(content: bytes, _folder: Path) -> None:
    stream, claude, turn, codex = StreamState(), ClaudeTurnReader("u"), CodexTurn(), CodexTurnReader("")
    for line in content.splitlines():
        stream.feed(line)
        claude.feed(line)
        turn.feed(line)
        codex.feed(line)
    claude.on_caught_up()


def read_backlog(content: bytes, folder: Path) -> None:
    file_of(folder, "backlog/doc/todo-archive.ndjson", content)
    Backlog(folder / "backlog").items()


def read_entry_file(content: bytes, folder: Path) -> None:
    entry = read_entry(file_of(folder, "7.json", content))
    with suppress(ValueError):
        # The registry's own reader says so, too.
        _ = entry.process if entry is not None else None


CHECKPOINT: Final = Checkpoint(
    1, CheckpointKind.JOURNAL, "/x", "p", 1.8e9, ("a",), ("b",), ("c",), (CheckpointChoice(ChoiceName.ABORT, "no", ("ls",)),)
)  # fmt: skip
CONFIG: Final = (
    b'[gateway]\nallow = [1, 2]\ntoken = "1:x"\n[daemon]\nport = 47\nmode = "mine"\n[detect]\nsilence_seconds = 300\n'
    b'[agents.docs]\nruntime = "tmux"\ncommand = ["claude"]\nworkdir = "/x"\n[gateway.chats.default]\nfolder = "/x"\n'
)
HEARTBEAT: Final = (
    b"---\nversion: 1\nenabled: true\nsummary: look\npreferences:\n  min_interval: 30m\n  quiet_windows:\n"
    b'    - {timezone: Europe/Berlin, start: "22:00", end: "07:00"}\ncontext:\n  include: [self]\n---\nLook at the build.\n'
)
ITEM: Final = {
    "id": "a", "title": "t", "status": "todo", "priority": 1, "est_hours": 2, "added_at": "2026-01-01T00:00:00Z", "x": [1],
}  # fmt: skip
CASE: Final = (Path(__file__).parents[1] / "cases/judgement.jsonl").read_bytes().splitlines()[0]
READERS: Final[dict[str, tuple[bytes, Read]]] = {
    "gateway.json": (
        lines({"conversation": {"max_active_sessions": 5}, "responseActions": {"enabled": True}, "x": {"y": [1]}}),
        lambda content, _: list(gateway_import.toml_lines(gateway_import.read_gateway_json(content, "f"))),
    ),
    "wakeful.toml": (
        CONFIG,
        lambda content, _: config_reading.combine([config_reading.Document("f", content)], {"HOME": "/x"}),
    ),
    "HEARTBEAT.md": (HEARTBEAT, lambda content, _: parse(content, "f", bounds_of(Config().heartbeat), find_zone)),
    "checkpoint": (to_markdown(CHECKPOINT).encode(), lambda content, folder: read_checkpoint(file_of(folder, "c", content))),
    "client settings": (
        lines({"hooks": {"Stop": [{"matcher": "*", "hooks": [{"type": "command", "command": "x"}]}]}, "x": {"y": ["a"]}}),
        read_hooks,
    ),
    "critical events": (
        lines(*[{"timestamp": "2026-11-01T00:00:00Z", "event_type": "session_hung", "session_id": "x", "extra": {}}] * 3),
        read_critical,
    ),
    "case": (CASE, lambda content, _: read_case(content, "f")),
    "typed note": (
        lines(
            {
                "session_id": "claude-x", "pane": {"socket": "/s", "target": "a:0.0"}, "process": PROCESS,
                "reader": "claude", "text": "x", "prompt": ">", "stage": "begun", "at": 1.0,
            }
        ),
        lambda content, folder: TypedNotes(str(file_of(folder, "typing/typing-00", content).parent)).all(),
    ),
    "agent mark": (
        lines({"epoch": 1, "process": PROCESS, "ready": True, "server": PROCESS}),
        lambda content, folder: AgentMarks(str(file_of(folder, "agents/docs.json", content).parent)).find("docs"),
    ),
    "trouble": (
        lines({"writer": PROCESS, "words": "x"}),
        lambda content, folder: ProblemFile(file_of(folder, "t", content)).read(),
    ),
    "run folder": (b"p1 open\np2 taken\n", read_run_folder),
    "hook": (
        lines(
            {
                "session_id": CONVERSATION, "hook_event_name": "PermissionRequest", "cwd": "/x", "tool_name": "Bash",
                "tool_input": {"command": "ls"},
            }
        ),
        lambda content, _: read_hook(content, 5.0),
    ),
    "registry": (
        lines({"pid": 7, "sessionId": CONVERSATION, "procStart": "123", "startedAt": 1.8e12, "cwd": "/x", "status": "idle"}),
        read_entry_file,
    ),
    "streams": (
        lines(
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "a"}]}, "uuid": "u"},
            {"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool", "input": {"a": 1}}},
            {"type": "result", "subtype": "success", "total_cost_usd": 0.1, "usage": {"input_tokens": 1}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "x"}},
            {"type": "turn.failed", "error": {"message": "x"}},
        ),
        read_streams,
    ),
    "said": (
        lines(
            {"type": "user", "timestamp": "2026-01-05T09:00:00Z", "message": {"content": "hi"}},
            {"timestamp": "2026-01-05T09:00:00Z", "type": "event_msg", "payload": {"type": "user_message", "message": "x"}},
        ),
        lambda content, _: has_prompt(content.splitlines(), "hi", 1.0),
    ),
    "backlog": (lines(ITEM, ITEM | {"id": "b"}), read_backlog),
    "journals": (b"/tmp/x", lambda content, folder: registered_roots(file_of(folder, "journals/00", content).parent)),
    "Bot API": (
        b'{"ok": true, "result": [{"update_id": 1, "message": {"text": "\\ud83d"}}, {"update_id": 2}]}',
        lambda content, _: _answered(content),
    ),
}  # fmt: skip


def _answered(content: bytes) -> None:
    from msgspec import DecodeError

    # What an answer that is no answer becomes; the bot takes it for a connection that broke.
    with suppress(DecodeError):
        read_answer(content)


@pytest.mark.parametrize("name", READERS)
def test_any_file_is_a_value_or_one_clear_error(name: str, tmp_path: Path, redteam: Redteam) -> None:
    """Errors of Wakeful's own only, each with its sentence; the good file is read before and after."""
    good, read = READERS[name]
    chance = random.Random(f"{SEED} {name}")
    read(good, tmp_path)
    for _ in range(redteam.rounds(150, 500)):
        content = spoiled(good, chance)
        redteam.attack(
            "Imports and notes",
            f"{name}, seed {SEED}: {content[:80]!r}",
            held=is_held(read, content, tmp_path),
        )
    read(good, tmp_path)


def is_held(read: Read, content: bytes, folder: Path) -> bool:
    try:
        read(content, folder)
    except WakefulError as problem:
        return bool(str(problem)) and "\n" not in str(problem)[:20]
    except Exception:  # noqa: BLE001 - whatever it is, it got through
        traceback.print_exc()
        return False
    return True


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a journal of two steps and a backlog of one item."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "state"))
    root = tmp_path / "good"
    root.mkdir()
    with Journal(root) as opened, opened.step("build"):
        (root / "out.txt").write_text("x")
    Backlog(root).add({"id": "a", "title": "t", "status": "todo", "priority": 1, "est_hours": 2})
    return root


def test_a_spoiled_journal_is_recovered_or_refused(journal: Path, redteam: Redteam) -> None:
    """State, events, database and archive, one of them spoiled: recovery, journal and backlog answer with one clear line."""
    chance = random.Random(SEED)
    files = [
        path.relative_to(journal) for path in journal.rglob("*") if path.is_file() and path.name != "out.txt"
    ]
    assert len(files) >= 4
    for number in range(redteam.rounds(40, 200)):
        root = journal.with_name(f"spoiled-{number}")
        shutil.copytree(journal, root)
        spoil(root / chance.choice(files), chance)
        for name, act in acts(root):
            held = is_held(lambda _content, _folder, act=act: act(), b"", root)  # type: ignore[misc]
            redteam.attack("Journals", f"{name}, seed {SEED}, round {number}", held=held)
        shutil.rmtree(root)


def acts(root: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "recover", lambda: recover_journal(root / ".copilot/session_state.json")
    yield "journal", lambda: _stepped(root)
    yield "backlog list", lambda: Backlog(root).items()
    yield "backlog sync", lambda: Backlog(root).sync(write_master=True)


def _stepped(root: Path) -> None:
    with Journal(root) as opened, opened.step("test"):
        pass


def spoil(path: Path, chance: random.Random) -> None:
    if path.suffix != ".db" or chance.random() < 0.4:
        path.write_bytes(spoiled(path.read_bytes(), chance))
        return
    value = chance.choice(
        [b"\xff\xfe", "\0", '{"a"', "[" * 60_000, 10**18, -1, 1e308, "x" * 5000, "{}", "[]"]
    )
    with closing(sqlite3.connect(path)) as rows:
        table = chance.choice(["audit", "backlog"])
        column = chance.choice([row[1] for row in rows.execute(f"PRAGMA table_info({table})")])
        with suppress(sqlite3.IntegrityError):
            rows.execute(f"UPDATE {table} SET {column} = ?", (value,))
        rows.commit()
