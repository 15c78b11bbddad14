"""A program that speaks stream-json as Claude Code 2.1.197 does, and thinks nothing: thousands of turns cost seconds.

The first word of a prompt says what its turn does; any other prompt is answered with its own words:
`ask TOOL` asks for permission, `hang` says half and waits, `die` says half and ends, `fail` and `login` fail,
`slow SECONDS` takes so long. A session that is resumed by the
healer says so; one whose first prompt was `stuck` hangs again. Only the standard library: it starts in 20 ms. Lines come
in the order of the real client: a prompt is replayed behind the first words.
"""

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

Record = dict[str, Any]
STAMP = "%Y-%m-%dT%H:%M:%S"


def install(folder: Path) -> str:
    """An executable `claude` in this folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -SI\n{Path(__file__).read_text()}")
    program.chmod(0o755)
    return str(program)


class Interrupted(Exception):
    """The turn was interrupted."""


class CheapClaude:
    """One conversation."""

    def __init__(self, conversation: str) -> None:
        self._id = conversation
        folder = "".join(each if each.isalnum() and each.isascii() else "-" for each in os.path.realpath("."))
        self._transcript = Path.home() / ".claude" / "projects" / folder / f"{conversation}.jsonl"
        self._transcript.parent.mkdir(parents=True, exist_ok=True)
        self._read = b""
        self._waiting: list[Record] = []
        self._cost_usd = 0.0

    def run(self) -> None:
        while True:
            said = self._waiting.pop(0) if self._waiting else self._next(None)
            if said is None:
                return
            if said["type"] == "user":
                self._turn(said)
            elif said["type"] == "control_request":
                self._control(said)

    def _turn(self, said: Record) -> None:
        prompt = said["message"]["content"]
        self._record("user", {"role": "user", "content": prompt})
        self._say(type="system", subtype="session_state_changed", state="running")
        verb, _, rest = prompt.partition(" ")
        replayed = {"message": said["message"], "uuid": said.get("uuid", ""), "isReplay": True}
        ending = {}
        try:
            text = self._play(verb, rest, prompt, replayed)
            if text is None:
                ending = self._fail(verb)
            else:
                self._record("assistant", _message(text, "end_turn"))
        except Interrupted:
            self._record(
                "user",
                {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
            )
            text, ending = (
                None,
                {
                    "subtype": "error_during_execution",
                    "is_error": True,
                    "terminal_reason": "aborted_streaming",
                },
            )
        self._cost_usd += 0.001
        result = {"subtype": "success", "is_error": False, "result": text, "stop_reason": "end_turn"}
        result |= {"total_cost_usd": self._cost_usd, "usage": {"input_tokens": 5, "output_tokens": 7}}
        self._say(type="result", **(result | {"terminal_reason": "completed"} | ending))
        self._say(type="system", subtype="session_state_changed", state="idle")

    def _play(self, verb: str, rest: str, prompt: str, replayed: Record) -> str | None:
        if verb == "stuck" or (prompt.startswith("Wakeful: ") and self._is_stuck()):
            verb = "hang"
        elif prompt.startswith("Wakeful: "):
            return self._speak("Brought back, and done after all.", replayed)
        if verb in ("fail", "login"):
            self._say(type="user", parent_tool_use_id=None, **replayed)
            return None
        if verb == "ask":
            self._stream("May I? ")
            self._say(type="user", parent_tool_use_id=None, **replayed)
            allowed = self._ask(rest or "Bash")
            return self._speak(f"It was {'allowed' if allowed else 'denied'}.", None)
        if verb in ("hang", "die"):
            self._stream("Half of ")
            self._say(type="user", parent_tool_use_id=None, **replayed)
            if verb == "die":
                os._exit(9)
            self._wait(86_400)
        if verb == "slow":
            self._stream("Slowly. ")
            self._wait(float(rest.split(maxsplit=1)[0]))
        return self._speak(f"Answer to: {prompt}.", replayed)

    def _is_stuck(self) -> bool:
        with self._transcript.open("rb") as file:
            return b'"content": "stuck' in file.readline()

    def _speak(self, text: str, replayed: Record | None) -> str:
        half = len(text) // 2
        self._stream(text[:half])
        if replayed is not None:
            self._say(type="user", parent_tool_use_id=None, **replayed)
        self._stream(text[half:], begin=False)
        self._say(type="assistant", parent_tool_use_id=None, message=_message(text, None))
        return text

    def _stream(self, text: str, *, begin: bool = True) -> None:
        if begin:
            self._event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        self._event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    def _event(self, **event: object) -> None:
        self._say(type="stream_event", event=event, parent_tool_use_id=None)

    def _fail(self, verb: str) -> Record:
        words, error, status = (
            ("Invalid API key · Fix external API key", "authentication_failed", 401)
            if verb == "login"
            else ("API Error: 500 scripted", "server_error", 500)
        )
        said = _message(words, "stop_sequence", "<synthetic>")
        self._say(type="assistant", parent_tool_use_id=None, message=said, error=error)
        self._record("assistant", said, error=error, isApiErrorMessage=True, apiErrorStatus=status)
        return {"is_error": True, "api_error_status": status, "result": words}

    def _ask(self, tool: str) -> bool:
        """Whether a person allowed it."""
        request_id = str(uuid4())
        self._say(type="system", subtype="session_state_changed", state="requires_action")
        request = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "description": "d",
            "input": {"command": "x"},
        }
        self._say(type="control_request", request_id=request_id, request=request)
        while True:
            said = self._next(None)
            if said is None:
                sys.exit(0)
            if said["type"] == "control_response" and said["response"]["request_id"] == request_id:
                self._say(type="system", subtype="session_state_changed", state="running")
                self._say(**said)
                return bool(said["response"]["response"]["behavior"] == "allow")
            self._meanwhile(said)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            said = self._next(left)
            if said is not None:
                self._meanwhile(said)

    def _meanwhile(self, said: Record) -> None:
        if said["type"] == "user":
            self._waiting.append(said)
        elif said["type"] == "control_request" and self._control(said):
            raise Interrupted

    def _control(self, said: Record) -> bool:
        """Answer it; whether it was an interrupt."""
        response = {"subtype": "success", "request_id": said["request_id"], "response": {}}
        self._say(type="control_response", response=response)
        return bool(said["request"]["subtype"] == "interrupt")

    def _next(self, seconds: float | None) -> Record | None:
        while b"\n" not in self._read:
            ready, _, _ = select.select([0], [], [], seconds)
            chunk = os.read(0, 1 << 16) if ready else b""
            if not chunk:
                return None
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        said: Record = json.loads(line)
        return said

    def _say(self, **record: object) -> None:
        os.write(1, json.dumps({**record, "session_id": self._id}).encode() + b"\n")

    def _record(self, kind: str, message: Record, **fields: Any) -> None:
        now = time.time()
        stamp = f"{time.strftime(STAMP, time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
        record = {
            "parentUuid": None,
            "isSidechain": False,
            "type": kind,
            "message": message,
            "uuid": str(uuid4()),
        }
        record |= {
            "timestamp": stamp,
            "sessionId": self._id,
            "cwd": str(Path.cwd()),
            "version": "2.1.197",
            **fields,
        }
        with self._transcript.open("ab") as file:
            file.write(json.dumps(record).encode() + b"\n")


def _message(text: str, stop_reason: str | None, model: str = "scripted") -> Record:
    content = [{"type": "text", "text": text}]
    usage = {"input_tokens": 5, "output_tokens": 7}
    return {
        "id": str(uuid4()),
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "usage": usage,
    }


if __name__ == "__main__":
    names = [each for each in ("--session-id", "--resume") if each in sys.argv]
    CheapClaude(sys.argv[sys.argv.index(names[0]) + 1]).run()
