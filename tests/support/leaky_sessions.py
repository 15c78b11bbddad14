"""A real daemon whose sessions are full of secrets: every kind in inputs, results, errors and texts."""

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from support import claude_transcripts
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from support.secret_kinds import KINDS, Kind

_ENCODED: Final = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")
REPEATS: Final = 8


class LeakySessions:
    """Three sessions for each kind: one asks, one failed and one repeats a failing call, in an agent's transcript."""

    def __init__(self, daemon: RunningDaemon, alerts: str = "") -> None:
        self.daemon = daemon
        self.state = Path(daemon.environ["WAKEFUL_HOME"])
        self._logs = daemon.home / "events"
        self._claude = daemon.home / "claude"
        self._logs.mkdir()
        self._claude.mkdir()
        # The process of these sessions, for as long as the test runs.
        self._holder = subprocess.Popen(["sleep", "600"])
        daemon.watch(
            CLAUDE_CONFIG_DIR=self._claude,
            WAKEFUL_EYES__EVENT_DIRS=json.dumps([str(self._logs)]),
            WAKEFUL_ALERTS__URLS=json.dumps([alerts] if alerts else []),
            WAKEFUL_ALERTS__NEEDS_YOU_SECONDS="1",
        )
        daemon.up()
        self._door = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(daemon.socket)), base_url="http://wakeful", timeout=60
        )

    def close(self) -> None:
        self._door.close()
        self._holder.kill()
        self._holder.wait()

    def speak(self) -> None:
        """Write every log while the daemon watches, and wait until it has read them all."""
        # After their process started: a log opened earlier belongs to another process.
        now = time.time() + 60
        for number, kind in enumerate(KINDS):
            self._write_events(f"ask-{number}", self._asking(kind, now))
            self._write_events(f"fail-{number}", self._failing(kind, now))
            self._write_transcript(number, kind, now)
        wanted = 3 * len(KINDS)
        wait_for(lambda: (len(self._read_sessions()) >= wanted) or None, "every session", 60)

    def _read_sessions(self) -> list[dict[str, Any]]:
        """The sessions whose log was read to its end."""
        return [each for each in self.sessions() if each["phase_ok"]]

    def sessions(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.get(f"/api/sessions?all=true&include_health=true&limit=500&cursor={cursor}").json()
            listed += page["sessions"]
            if not page["next_cursor"]:
                break
            cursor = page["next_cursor"]
        return [
            {**each, "phase_ok": each["health"] != "unknown" or each["state"] != "unknown"} for each in listed
        ]

    def get(self, path: str) -> httpx.Response:
        return self._door.get(path)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._door.post(path, json=body)

    def ids_of(self, number: int) -> tuple[str, str, str]:
        """The sessions of the kind with this number."""
        return f"ask-{number}", f"fail-{number}", f"claude-{_conversation(number)}"

    def _write_events(self, name: str, lines: list[dict[str, Any]]) -> None:
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (self._logs / f"{name}.jsonl").write_text(text)

    def _opened(self, now: float) -> list[dict[str, Any]]:
        opened = {
            "event": "opened",
            "cwd": str(self.daemon.home),
            "pid": self._holder.pid,
            "project": "leaky",
        }
        return [{"at": now - 60, **opened}, {"at": now - 59, "event": "prompt"}]

    def _asking(self, kind: Kind, now: float) -> list[dict[str, Any]]:
        given = {"command": f"set -e\n{kind.text}", "description": kind.text}
        return [
            *self._opened(now),
            {"at": now - 50, "event": "text", "text": kind.text},
            {"at": now - 40, "event": "call", "call": kind.text, "tool": "Bash", "input": given},
            {"at": now - 30, "event": "result", "call": kind.text, "result": kind.text},
            {"at": now - 20, "event": "call", "call": f"2 {kind.text}", "tool": "Bash", "input": given},
            {"at": now - 10, "event": "asking", "about": f"May I run: {kind.text}"},
        ]

    def _failing(self, kind: Kind, now: float) -> list[dict[str, Any]]:
        failed = {"event": "failed", "reason": "provider", "message": f"refused: {kind.text}"}
        return [*self._opened(now), {"at": now - 30, **failed}]

    def _write_transcript(self, number: int, kind: Kind, now: float) -> None:
        conversation = _conversation(number)
        records = [claude_transcripts.prompt(now - 60, conversation, kind.text)]
        for turn in range(REPEATS):
            call_id, at = f"toolu_{number}x{turn}", now - 50 + turn
            records.append(claude_transcripts.call(at, conversation, f"set -e\n{kind.text}", call_id))
            content = [
                {"type": "tool_result", "tool_use_id": call_id, "content": kind.text, "is_error": True}
            ]
            records.append(
                claude_transcripts.record(
                    "user", at + 0.5, conversation, message={"role": "user", "content": content}
                )
            )
        records.append(
            claude_transcripts.call(now - 30, conversation, kind.text, f"toolu_{number} {kind.text}")
        )
        claude_transcripts.write(self._claude, conversation, *records)


def _conversation(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def files_at_rest(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file as an attacker would search it: its bytes as text, and encoded parts decoded."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()):
        raw = path.read_bytes()
        yield path.name, raw.decode("utf-8", "replace")
        decoded = b"\n".join(_decoded(found) for found in _ENCODED.findall(raw))
        yield path.name, decoded.decode("utf-8", "replace")


def _decoded(encoded: bytes) -> bytes:
    whole = encoded.rstrip(b"=")
    try:
        return base64.b64decode(whole[: len(whole) // 4 * 4] + b"")
    except ValueError:
        return b""
