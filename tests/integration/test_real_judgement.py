"""Verdicts about the real Claude Code and Codex, driven by a scripted model: every trouble named, every wait spared.

One daemon for all, with limits of seconds in place of minutes. Each conversation has an id of its own, so that no
test sees another's.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from support import prerequisites
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, CodexHome, end_tmux, require, require_tmux, wait_for
from wakeful.testing.scripted_model import ScriptedModel, script

# Well above what a scripted answer takes on a busy machine of two cores, well below what a test may take.
SILENCE_SECONDS = 4
LIMITS = {"SILENCE_SECONDS": SILENCE_SECONDS, "TOOL_SECONDS": SILENCE_SECONDS, "TOOL_GRACE_SECONDS": 1}
RESET_SECONDS = 7200
DONE = {"text": "All done"}
Record = dict[str, Any]


class Subscriber(ClaudeHome):
    """A subscriber who pays by the month: only those have a usage limit with an end."""

    subscribed = False

    def environ(self) -> dict[str, str]:
        environ = super().environ() | {"BASH_MAX_TIMEOUT_MS": "1200000"}
        if self.subscribed:
            environ["CLAUDE_CODE_OAUTH_TOKEN"] = environ.pop("ANTHROPIC_API_KEY")
        return environ


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[Subscriber]:
    require(prerequisites.CLAUDE)
    with Subscriber(tmp_path_factory.mktemp("claude"), model) as home:
        yield home


@pytest.fixture(scope="module")
def codex(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[CodexHome]:
    require(prerequisites.CODEX)
    with CodexHome(tmp_path_factory.mktemp("codex"), model) as home:
        yield home


@pytest.fixture(scope="module")
def watching(
    tmp_path_factory: pytest.TempPathFactory, claude: Subscriber, codex: CodexHome
) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(tmp_path_factory.mktemp("daemon") / "wakeful")
    daemon.watch(CLAUDE_CONFIG_DIR=claude.home / ".claude", CODEX_HOME=codex.home / ".codex")
    daemon.watch(**{f"WAKEFUL_DETECT__{name}": str(value) for name, value in LIMITS.items()})
    daemon.up()
    yield daemon
    daemon.end()


@pytest.fixture(autouse=True)
def _nothing_left_running(claude: Subscriber, codex: CodexHome) -> Iterator[None]:
    yield
    claude.end()
    codex.end()


class Judged:
    """One conversation, as every door of the daemon shows it."""

    def __init__(self, daemon: RunningDaemon, session_id: str) -> None:
        self.daemon = daemon
        self.id = session_id

    def record(self) -> Record | None:
        return next((each for each in self.daemon.sessions() if each["id"] == self.id), None)

    def why(self) -> Record:
        answer: Record = self.daemon.run("session", "why", self.id, "--json").json
        return answer

    def wait(self, fits: Callable[[Record], bool], what: str) -> Record:
        def look() -> Record | None:
            record = self.record()
            return record if record is not None and fits(record) else None

        return wait_for(look, what)

    def wait_for_finding(self, code: str) -> Record:
        return self.wait(lambda record: code in codes(record), f"finding {code!r}")

    def wait_until_held_back(self, code: str) -> Record:
        """The limit has passed by the clock, and a wait spares the session: the record at that moment."""

        def look() -> Record | None:
            if self.record() is None:
                return None
            return next((rule for rule in self.why()["held_back"] if rule["code"] == code), None)

        return wait_for(look, f"rule {code!r} held back")


def codes(record: Record) -> list[str]:
    return [finding["code"] for finding in record["findings"]]


def ask_claude(watching: RunningDaemon, home: Subscriber, *steps: Record) -> Judged:
    conversation = str(uuid4())
    home.run_print(script(*steps), "--session-id", conversation, "--allowedTools", "Bash", "Read")
    return Judged(watching, f"claude-{conversation}")


def ask_codex(watching: RunningDaemon, home: CodexHome, *steps: Record) -> Judged:
    process = home.exec(script(*steps))
    assert process.stdout is not None
    started = next(record for record in map(json.loads, process.stdout) if record["type"] == "thread.started")
    return Judged(watching, f"codex-{started['thread_id']}")


def bash(command: str, **more: Any) -> Record:
    return {"tool": "Bash", "input": {"command": command, **more}}


def seconds_until(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp() - time.time()


def test_claude_in_a_loop(watching: RunningDaemon, claude: Subscriber) -> None:
    """The model asks for the same call again and again and gets the same answer."""
    session = ask_claude(watching, claude, {**bash("cat missing"), "loop": True})
    looping = session.wait_for_finding("loop")
    assert (looping["health"], looping["broken_at"]) == ("degraded", "progress")
    fired = session.why()["fired"]
    assert fired[0]["code"] == "loop"
    assert "the same call with the same result" in fired[0]["summary"]
    assert "times: `cat missing`, since" in session.why()["sentence"]


def test_codex_in_a_loop(watching: RunningDaemon, codex: CodexHome) -> None:
    """Another client, another tool, the same rule."""
    session = ask_codex(watching, codex, {"run": "echo again", "loop": True})
    assert session.wait_for_finding("loop")["provider"] == "codex"
    assert session.why()["fired"][0]["code"] == "loop"


def test_claude_in_an_error_cascade(watching: RunningDaemon, claude: Subscriber) -> None:
    """Six different calls failed one after the other, and a seventh runs."""
    failing = [bash(f"ls nothing-{number}; exit {number}") for number in range(1, 7)]
    session = ask_claude(watching, claude, *failing, bash("sleep 60"))
    record = session.wait_for_finding("error_cascade")
    assert codes(record) == ["error_cascade"]
    assert record["findings"][0]["summary"] == "6 failed calls in a row"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(watching.socket))) as door:
        answer = door.get(f"http://wakeful/api/sessions/{session.id}/why").json()
    assert answer["fired"] == session.why()["fired"]


def test_a_stream_that_hangs_in_the_middle_is_silent(watching: RunningDaemon, claude: Subscriber) -> None:
    """No line, no error, no end: silent, and it is the model that is awaited."""
    session = ask_claude(watching, claude, {"hang": "mid", "loop": True})
    silent = session.wait_for_finding("silent")
    assert (codes(silent), silent["session_alive"], silent["active_prompt"]) == (["silent"], True, True)
    assert silent["findings"][0]["evidence"] == ["the model's answer is pending"]
    assert "the model's answer is pending" in session.why()["sentence"]


def test_a_tool_that_never_returns_is_wedged(watching: RunningDaemon, claude: Subscriber) -> None:
    """A file tool waits for a pipe without a writer: the verdict names the call, and that no question explains it."""
    pipe = claude.project / "pipe"
    os.mkfifo(pipe)
    session = ask_claude(watching, claude, {"tool": "Read", "input": {"file_path": str(pipe)}}, DONE)
    wedged = session.wait_for_finding("tool_wedged")
    assert codes(wedged) == ["tool_wedged"]
    assert str(pipe) in wedged["findings"][0]["untrusted"][0]
    why = session.why()
    assert why["fired"][0]["evidence"] == [
        "such a call returns within 5 s",
        "its permission mode is headless: it never asks",
    ]
    assert {rung["rung"]: rung["hold"] for rung in why["ladder"]}["progress"] == "broken"


def test_a_long_sleep_with_its_own_timeout_is_expected(watching: RunningDaemon, claude: Subscriber) -> None:
    """Silent for longer than the limit, and spared: the wait names the call and its end."""
    session = ask_claude(watching, claude, bash("sleep 900", timeout=960_000), DONE)
    held = session.wait_until_held_back("silent")
    assert (held["by"], "sleep 900" in held["untrusted"]) == ("tool", True)
    assert 900 < seconds_until(held["until"]) < 1000
    record = session.record()
    assert record is not None
    assert (record["health"], codes(record)) == ("healthy", [])
    assert [wait["kind"] for wait in record["expected_waits"]] == ["tool"]


def test_a_permission_prompt_is_waited_for(
    watching: RunningDaemon, claude: Subscriber, tmp_path: Path
) -> None:
    """A question in a terminal: the session waits for a person and is not accused, however long."""
    require_tmux()
    socket = tmp_path / "tmux.sock"
    try:
        claude.in_tmux(socket, script(bash("touch made; sleep 60"), DONE), "a")
        asking = watching.wait_for_session(lambda record: record["state"] == "waiting", "session that waits")
        session = Judged(watching, asking["id"])
        assert session.wait_until_held_back("silent")["by"] == "person"
        record = session.record()
        assert record is not None
        assert (record["state"], record["attention"], codes(record)) == ("waiting", "person", [])
    finally:
        end_tmux(socket)


def test_a_task_left_running_is_named_until_it_ends(
    watching: RunningDaemon, claude: Subscriber, tmp_path: Path
) -> None:
    """The turn is over and its command goes on behind it; its end begins the next turn, and nothing is left."""
    require_tmux()
    socket = tmp_path / "tmux.sock"
    try:
        task = bash("sleep 5; true", run_in_background=True)
        claude.in_tmux(socket, script(task, DONE, DONE), "a")
        idle = watching.wait_for_session(
            lambda record: waits(record) == ["background"], "session with a task behind its turn"
        )
        session = Judged(watching, idle["id"])
        assert (idle["state"], idle["health"]) == ("idle", "healthy")
        assert "sleep 5" in session.why()["sentence"]
        over = session.wait(lambda record: record["state"] == "idle" and not waits(record), "its end")
        assert codes(over) == []
    finally:
        end_tmux(socket)


def waits(record: Record) -> list[str]:
    return [wait["kind"] for wait in record["expected_waits"]]


def test_claude_at_its_usage_limit(watching: RunningDaemon, claude: Subscriber) -> None:
    """Named, with the end the client gives in its own words; only time helps."""
    reset = int(time.time()) + RESET_SECONDS
    refused = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(reset),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    claude.subscribed = True
    try:
        session = ask_claude(watching, claude, {"status": 429, "headers": refused})
    finally:
        claude.subscribed = False
    assert_limited(session, reset)


def test_codex_at_its_usage_limit(watching: RunningDaemon, codex: CodexHome) -> None:
    """The same of another provider."""
    reset = int(time.time()) + RESET_SECONDS
    body = {"error": {"type": "usage_limit_reached", "message": "no", "resets_at": reset, "plan_type": "pro"}}
    assert_limited(ask_codex(watching, codex, {"status": 429, "body": body}), reset)


def assert_limited(session: Judged, reset: int) -> None:
    limited = session.wait_for_finding("usage_limited")
    assert (codes(limited), limited["attention"]) == (["usage_limited"], "time")
    (wait,) = limited["expected_waits"]
    # The clients say it to the minute.
    assert wait["kind"] == "limit"
    assert reset - 60 <= datetime.fromisoformat(wait["until"]).timestamp() <= reset
    assert "it ends at" in session.why()["sentence"]


@pytest.mark.parametrize("status", [401, 403])
def test_claude_without_a_login(watching: RunningDaemon, claude: Subscriber, status: int) -> None:
    """A refused login is no crash: it is named, and a person has to log in."""
    refused = ask_claude(watching, claude, {"status": status}).wait_for_finding("auth_required")
    assert (codes(refused), refused["attention"], refused["health"]) == (
        ["auth_required"],
        "login",
        "degraded",
    )


def test_codex_without_a_login(watching: RunningDaemon, codex: CodexHome) -> None:
    """Codex says it in a sentence only."""
    session = ask_codex(watching, codex, {"status": 401})
    refused = session.wait_for_finding("auth_required")
    assert (codes(refused), refused["attention"]) == (["auth_required"], "login")
    assert session.why()["command"] == ["codex", "login"]
