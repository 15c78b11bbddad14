"""Writes the files of the scripted agent: Claude Code's transcript and registry file, record by record.

The records have the shape that an interactive Claude Code 2.1.197 wrote, field by field. It knows no script
and no process. Imports stay few, because a scripted agent starts as often as a test does.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

VERSION: Final = "2.1.197"
# Failures by the client's names: the HTTP status, and the text that the client shows.
FAILURES: Final[Mapping[str, tuple[int, str]]] = {
    "authentication_failed": (401, "Invalid API key · Fix external API key"),
    "oauth_org_not_allowed": (403, "Please run /login · API Error: 403 no"),
    "billing_error": (400, "Credit balance is too low"),
    "rate_limit": (429, "API Error: Request rejected (429) · slow down"),
    "overloaded": (529, "API Error: 529 Overloaded"),
    "invalid_request": (400, "API Error: 400 no"),
    "model_not_found": (404, "There's an issue with the selected model"),
    "server_error": (500, "API Error: 500 · try again in a moment"),
}
_USAGE: Final[Mapping[str, Any]] = {
    "input_tokens": 5,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 7,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": "standard",
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
    "inference_geo": "",
    "iterations": [],
    "speed": "standard",
}
_REJECTED: Final = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you "
    "how to proceed."
)


def transcript_path(home: Path, cwd: Path, conversation: str) -> Path:
    """Claude Code's file of a conversation: dashes replace all but letters and digits of the working directory."""
    folder = re.sub("[^a-zA-Z0-9]", "-", str(cwd))
    return home / "projects" / folder / f"{conversation}.jsonl"


def registry_path(home: Path, pid: int) -> Path:
    return home / "sessions" / f"{pid}.json"


class ScriptedTranscript:
    """Appends records to one conversation. The file appears with the first prompt; an older one is continued."""

    def __init__(self, home: Path, cwd: Path, conversation: str) -> None:
        self.path = transcript_path(home, cwd, conversation)
        self._conversation = conversation
        self._common = {
            "userType": "external",
            "entrypoint": "cli",
            "cwd": str(cwd),
            "sessionId": conversation,
            "version": VERSION,
            "gitBranch": "HEAD",
        }
        # The record from which a resumed client continues: the last one that is no call; a kill can leave
        # one open.
        last = None
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            record = json.loads(line)
            content = record.get("message", {}).get("content")
            called = isinstance(content, list) and content[0]["type"] == "tool_use"
            last = last if called else record.get("uuid", last)
        self._parent = last
        self._prompt_id = self._last_prompt = ""
        self._message_id = ""
        self._turn_records = 0
        self._turn_began = 0.0

    def prompt(self, text: str) -> None:
        """A turn begins with a typed prompt."""
        if not self.path.exists():
            self._open()
        self._prompt_id, self._last_prompt = str(uuid4()), text
        self._turn_records, self._turn_began = 0, time.monotonic()
        typed = {"permissionMode": "default", "origin": {"kind": "human"}, "promptSource": "typed"}
        self._user(text, after=typed)

    def text(self, text: str) -> None:
        self._assistant({"type": "text", "text": text}, "tool_use")

    def call(self, tool: str, given: Mapping[str, Any]) -> str:
        """A call begins; returns its id."""
        call = f"toolu_{uuid4().hex[:20]}"
        self._assistant({"type": "tool_use", "id": call, "name": tool, "input": given}, "tool_use")
        return call

    def result(self, call: str, tool: str, output: str, *, is_error: bool) -> None:
        after: dict[str, Any] = {}
        if is_error:
            after["toolUseResult"] = f"Error: {output}"
        elif tool == "Bash":
            flags = {"interrupted": False, "isImage": False, "noOutputExpected": False}
            after["toolUseResult"] = {"stdout": output, "stderr": "", **flags}
        self._call_result(call, output or f"({tool} completed with no output)", is_error, after)

    def interrupt(self, call: str | None) -> None:
        """A person interrupts the turn; no end mark follows."""
        text = "[Request interrupted by user]"
        if call is not None:
            text = "[Request interrupted by user for tool use]"
            self._call_result(call, _REJECTED, True, {"toolUseResult": "User rejected tool use"})
        self._user([{"type": "text", "text": text}])

    def end(self, text: str) -> None:
        """The turn ends: the model's last text, then the client's end mark."""
        self._assistant({"type": "text", "text": text}, "end_turn")
        self._mark()

    def fail(self, failure: str) -> None:
        """The turn fails by the provider or the login; the client ends it like any other."""
        status, text = FAILURES[failure]
        message = _message(str(uuid4()), {"type": "text", "text": text}, "stop_sequence")
        message |= {"model": "<synthetic>", "stop_sequence": ""}
        message |= {"container": None, "context_management": None}
        fields = {"error": failure, "isApiErrorMessage": True, "apiErrorStatus": status}
        self._record("assistant", {"message": message}, after=fields)
        self._mark()

    def close(self) -> None:
        """The record that the client writes when it exits, if it had a prompt."""
        if self._last_prompt:
            last = self._last_prompt[:200]
            self._append({"type": "last-prompt", "lastPrompt": last, "leafUuid": self._parent})

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._append({"type": "mode", "mode": "normal"})
        self._append({"type": "permission-mode", "permissionMode": "default"})
        message = str(uuid4())
        snapshot = {"messageId": message, "trackedFileBackups": {}, "timestamp": stamp()}
        record = {"type": "file-history-snapshot", "messageId": message, "snapshot": snapshot}
        self._write(record | {"isSnapshotUpdate": False})

    def _user(self, content: object, after: Mapping[str, Any] | None = None) -> None:
        self._message_id = ""
        fields = {"promptId": self._prompt_id, "message": {"role": "user", "content": content}}
        self._record("user", fields, after=after)

    def _call_result(self, call: str, content: str, is_error: bool, after: dict[str, Any]) -> None:
        block = {"tool_use_id": call, "type": "tool_result", "content": content, "is_error": is_error}
        self._user([block], after | {"sourceToolAssistantUUID": self._parent})

    def _assistant(self, block: Mapping[str, Any], stop_reason: str) -> None:
        # Each block of a message has its own record, which repeats the message's id and usage.
        self._message_id = self._message_id or f"msg_{uuid4().hex[:20]}"
        self._record("assistant", {"message": _message(self._message_id, block, stop_reason)})

    def _mark(self) -> None:
        self._message_id = ""
        took_ms = int((time.monotonic() - self._turn_began) * 1000)
        fields = {"subtype": "turn_duration", "durationMs": took_ms, "messageCount": self._turn_records}
        self._record("system", fields, after={"isMeta": False})

    def _record(self, kind: str, fields: Mapping[str, Any], after: Mapping[str, Any] | None = None) -> None:
        uuid = str(uuid4())
        head = {"parentUuid": self._parent, "isSidechain": False, "type": kind}
        self._write({**head, **fields, "uuid": uuid, "timestamp": stamp(), **(after or {}), **self._common})
        self._parent = uuid
        self._turn_records += 1

    def _append(self, fields: Mapping[str, Any]) -> None:
        self._write({**fields, "sessionId": self._conversation})

    def _write(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


class ScriptedRegistryFile:
    """The file with a running process's identity and status."""

    def __init__(self, home: Path, cwd: Path, conversation: str) -> None:
        pid = os.getpid()
        self.path = registry_path(home, pid)
        self._entry: dict[str, Any] = {
            "pid": pid,
            "sessionId": conversation,
            "cwd": str(cwd),
            "startedAt": _now_ms(),
            "procStart": _start_ticks(),
            "version": VERSION,
            "peerProtocol": 1,
            "kind": "interactive",
            "entrypoint": "cli",
            "name": f"{cwd.name}-{os.urandom(1).hex()}",
            "nameSource": "derived",
        }
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write_status(self, status: str, waiting_for: str | None = None) -> None:
        """Rewrite the file: busy, idle, or waiting and for what."""
        now_ms = _now_ms()
        fields: dict[str, Any] = {"status": status, "updatedAt": now_ms, "statusUpdatedAt": now_ms}
        if waiting_for is not None:
            fields["waitingFor"] = waiting_for
        # In place, as the client does: a reader may see an empty file in between.
        self.path.write_text(json.dumps(self._entry | fields, separators=(",", ":")))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def stamp() -> str:
    """The time as in the records: ISO 8601 in UTC with milliseconds."""
    now_ms = _now_ms()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ms // 1000)) + f".{now_ms % 1000:03d}Z"


def _message(message_id: str, block: Mapping[str, Any], stop_reason: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [block],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _USAGE,
        "stop_details": None,
    }


def _start_ticks() -> str:
    """Field 22 of proc(5). A process chooses the name in the line, so it may hold anything."""
    line = Path("/proc/self/stat").read_bytes()
    return line[line.rindex(b")") + 2 :].split()[19].decode()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
