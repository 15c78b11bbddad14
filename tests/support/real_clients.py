"""Runs the real Claude Code and Codex in a home of their own, against a scripted model on loopback.

A home has its own HOME, configuration and dummy key and inherits nothing of the caller's environment, so that no
client ever sees a person's login or asks for anything beyond loopback. Whatever was started in it is ended with
it: clients, terminals and orphaned tools, recognised by that HOME in their environment.
"""

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

import pytest

from support import prerequisites
from wakeful.testing.scripted_model import ScriptedModel

T = TypeVar("T")

# A start of Claude Code costs two seconds of CPU: more at once, and timings on two cores mean nothing.
CLIENTS_AT_ONCE_MAX: Final = 2
_KEY: Final = "sk-ant-of-the-tests-and-nobody-else"
# A tool that runs until `ClientHome.let_tool_end`, so that a test can see it at work.
UNTIL_TOLD: Final = "until [ -e told ]; do sleep 0.2; done"
_POLL_SECONDS: Final = 0.02
_END_SECONDS_MAX: Final = 30.0
# A tool may start another while we end it; a home still not empty after this many rounds is a bug.
_END_ROUNDS_MAX: Final = 20
# Ink reads a pasted line as one key; Enter in the same read would become part of the text.
_TYPING_SECONDS: Final = 0.5


def require(client: prerequisites.Client) -> None:
    """Skip the test if the client is missing; fail it in CI."""
    _require(
        client.present(), f"{client.requirement} is missing: run `python tests/support/prerequisites.py`"
    )


def require_tmux() -> None:
    """Skip the test if tmux is missing; fail it in CI."""
    require_programs("tmux")


def require_programs(*names: str) -> None:
    """Skip the test if one of these commands is missing; fail it in CI."""
    missing = [name for name in names if shutil.which(name) is None]
    _require(not missing, f"{', '.join(missing)} is missing: run `python tests/support/prerequisites.py`")


def _require(present: bool, otherwise: str) -> None:
    if present:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(otherwise)
    pytest.skip(otherwise)


def wait_for(look: Callable[[], T | None], what: str, timeout_seconds: float = 60.0) -> T:
    """The first answer of `look` that is not None; AssertionError, naming what was awaited, when time is up."""
    deadline = time.monotonic() + timeout_seconds
    while (seen := look()) is None:
        assert time.monotonic() < deadline, f"no {what} within {timeout_seconds} s"
        time.sleep(_POLL_SECONDS)
    return seen


@dataclass(frozen=True)
class TmuxSession:
    """A session of a private tmux server, seen and typed into as a person would."""

    socket: Path
    name: str

    def tmux(self, command: str, *arguments: str) -> str:
        """Run one tmux command on this session's pane."""
        return tmux(self.socket, command, "-t", f"={self.name}:", *arguments)

    def shown(self, variable: str) -> str:
        """A tmux variable of the pane: pane_pid, pane_title, pane_current_command …"""
        return self.tmux("display-message", "-p", f"#{{{variable}}}").strip()

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def type_line(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)
        time.sleep(_TYPING_SECONDS)
        self.press("Enter")


def tmux(socket: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Run tmux on a private socket, without any user's configuration. A server may end with its last session."""

    def look() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(
            ["tmux", "-S", str(socket), "-f", os.devnull, *arguments],
            env=environ,
            capture_output=True,
            text=True,
            timeout=_END_SECONDS_MAX,
            check=False,
        )
        return None if "server exited unexpectedly" in done.stderr else done

    done = wait_for(look, "a tmux server that stays")
    assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr.strip()}"
    return done.stdout


def end_tmux(socket: Path) -> None:
    """End the private server and all in it; it may have ended by itself with its last session."""
    subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, timeout=10, check=False)


class ClientHome:
    """What the homes of both clients share: an environment, a project to work in, and an end."""

    client: ClassVar[prerequisites.Client]
    # What distinguishes a line of its log with a tool call from the others.
    call_mark: ClassVar[bytes]
    _open: ClassVar[list["ClientHome"]] = []

    def __init__(self, tmp_path: Path, model: ScriptedModel) -> None:
        self.home = tmp_path / f"{self.client.name}-home"
        self.project = tmp_path / f"{self.client.name}-project"
        self.model = model
        self._started: list[subprocess.Popen[str]] = []
        self.home.mkdir()
        self.project.mkdir()

    def __enter__(self) -> Self:
        self._open.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.remove(self)
        self.end()

    def environ(self) -> dict[str, str]:
        """All a client gets to see; nothing is inherited."""
        return {
            "HOME": str(self.home),
            "PATH": f"{prerequisites.bin_dir()}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
        }

    def pids(self) -> list[int]:
        """Every live process of this home, orphaned tools included."""
        mark = f"HOME={self.home}".encode()
        return [pid for pid in _all_pids() if mark in _environ_of(pid)]

    def tool_pids(self) -> list[int]:
        """Those processes that the client started as tools, by the conversation id it gives them."""
        marks = (b"CLAUDE_CODE_SESSION_ID=", b"CODEX_THREAD_ID=")
        return [pid for pid in self.pids() if any(entry.startswith(marks) for entry in _environ_of(pid))]

    def let_tool_end(self) -> None:
        """End a tool that runs UNTIL_TOLD in the project."""
        (self.project / "told").touch()

    def wait_for_tool(self, command: str) -> int:
        """The pid of the tool process that runs the command; shells and what they start first do not count.

        A client starts its tool before its log is on disk: killed between the two it leaves nothing to return to.
        """

        def look() -> int | None:
            return next((pid for pid in self.tool_pids() if _comm_of(pid) == command), None)

        pid = wait_for(look, f"tool process {command!r}")
        wait_for(self._has_noted_a_call, "the call in a log")
        return pid

    def logs(self) -> list[Path]:
        """The logs of this home's conversations."""
        raise NotImplementedError

    def _has_noted_a_call(self) -> bool | None:
        return any(self.call_mark in log.read_bytes() for log in self.logs()) or None

    def end(self) -> None:
        """End all that lives in this home. Raises AssertionError when something resists."""
        for _ in range(_END_ROUNDS_MAX):
            # A process in the middle of exec shows no environment for a moment: an empty home is looked at twice.
            pids = self.pids() or self.pids()
            if not pids:
                break
            for pid in pids:
                self._end_process(pid)
        else:
            pytest.fail(f"{self.home} never gets empty: {self.pids()}")
        for process in self._started:
            process.wait(_END_SECONDS_MAX)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _start(self, *argv: str) -> subprocess.Popen[str]:
        self._make_room()
        process = subprocess.Popen(
            argv,
            cwd=self.project,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def _make_room(self, at_once_max: int = CLIENTS_AT_ONCE_MAX) -> None:
        running = [pid for home in self._open for pid in home.pids() if _comm_of(pid) == home.client.name]
        assert len(running) < at_once_max, f"{len(running)} clients run already: end one first"

    def _end_process(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            # The pidfd holds the process; looking again shows that it is still the one we meant.
            if f"HOME={self.home}".encode() in _environ_of(pid):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                ended, _, _ = select.select([pidfd], [], [], _END_SECONDS_MAX)
                assert ended, f"process {pid} survived SIGKILL for {_END_SECONDS_MAX} s"
        finally:
            os.close(pidfd)


class ClaudeHome(ClientHome):
    """A home in which Claude Code starts without asking anything."""

    client = prerequisites.CLAUDE
    call_mark = b'"type":"tool_use"'

    def __init__(self, tmp_path: Path, model: ScriptedModel) -> None:
        super().__init__(tmp_path, model)
        # Each entry answers a dialog of the first start: welcome, the key of the environment, trust in the folder.
        answers = {
            "hasCompletedOnboarding": True,
            "customApiKeyResponses": {"approved": [_KEY[-20:]], "rejected": []},
            "projects": {str(self.project): {"hasTrustDialogAccepted": True}},
        }
        (self.home / ".claude.json").write_text(json.dumps(answers))

    def environ(self) -> dict[str, str]:
        return super().environ() | {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": _KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
            # Ten retries take three minutes; a test of a failure wants the failure.
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            # Root may skip permissions only where this says that nothing can be harmed.
            "IS_SANDBOX": "1",
        }

    def run_print(self, prompt: str, *arguments: str) -> subprocess.Popen[str]:
        """`claude -p`, which works through one prompt and exits."""
        return self._start("claude", "-p", prompt, *arguments)

    def in_tmux(
        self,
        socket: Path,
        prompt: str,
        session_name: str,
        *,
        shell_wrapped: bool = False,
        at_once_max: int = CLIENTS_AT_ONCE_MAX,
        more: Mapping[str, str] | None = None,
    ) -> TmuxSession:
        """Interactive Claude Code in a new session; wrapped, a shell outlives it, as when a person typed it.

        `more` are variables that the session has beside those of this home.
        """
        self._make_room(at_once_max)
        # A new session gets the environment of the tmux server, not ours: name each variable.
        variables = [f"-e{name}={value}" for name, value in {**self.environ(), **(more or {})}.items()]
        place = ["-d", "-s", session_name, "-x", "160", "-y", "50", "-c", str(self.project)]
        command = ["bash", "--norc", "--noprofile"] if shell_wrapped else ["claude", prompt]
        tmux(socket, "new-session", *place, *variables, "--", *command, environ=self.environ())
        session = TmuxSession(socket, session_name)
        if shell_wrapped:
            session.type_line(shlex.join(["claude", prompt]))
        return session

    def tmux_command(self, socket: Path, session_name: str, *command: str) -> None:
        """Any command in a new session, with this home's environment."""
        self._make_room()
        variables = [f"-e{name}={value}" for name, value in self.environ().items()]
        place = ["-d", "-s", session_name, "-c", str(self.project)]
        tmux(socket, "new-session", *place, *variables, "--", *command, environ=self.environ())

    def registry(self) -> list[dict[str, Any]]:
        """What the running processes say about themselves."""
        files = sorted((self.home / ".claude" / "sessions").glob("*.json"))
        return [entry for entry in map(_json_or_none, files) if entry is not None]

    def wait_for_status(self, status: str, timeout_seconds: float = 60.0) -> dict[str, Any]:
        """The first registry entry that says `status`."""

        def look() -> dict[str, Any] | None:
            return next((entry for entry in self.registry() if entry.get("status") == status), None)

        return wait_for(look, f"registry entry with status {status!r}", timeout_seconds)

    def logs(self) -> list[Path]:
        """The main transcripts, without those of subagents."""
        return sorted((self.home / ".claude" / "projects").glob("*/*.jsonl"))


class CodexHome(ClientHome):
    """A home in which Codex knows one provider: the scripted model."""

    client = prerequisites.CODEX
    call_mark = b'"type":"function_call"'

    def __init__(self, tmp_path: Path, model: ScriptedModel) -> None:
        super().__init__(tmp_path, model)
        config = self.home / ".codex" / "config.toml"
        config.parent.mkdir()
        config.write_text(
            f"""\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[projects."{self.project}"]
trust_level = "trusted"
"""
        )

    def environ(self) -> dict[str, str]:
        # An agent that the daemon starts gets no variable of this name unless the configuration lets it.
        return super().environ() | {"SCRIPTED_KEY": _KEY, "WAKEFUL_DAEMON__PASS_ENVIRONMENT": "SCRIPTED_KEY"}

    def exec(self, prompt: str, *arguments: str) -> subprocess.Popen[str]:
        """`codex exec`, which works through one prompt, reports JSON lines and exits."""
        free = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return self._start("codex", "exec", *free, *arguments, prompt)

    def logs(self) -> list[Path]:
        """The rollouts."""
        return sorted((self.home / ".codex" / "sessions").glob("*/*/*/*.jsonl"))


def _json_or_none(file: Path) -> dict[str, Any] | None:
    """A registry file is truncated and written in place: between the two, and after its end, it says nothing."""
    try:
        return dict(json.loads(file.read_bytes()))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _environ_of(pid: int) -> list[bytes]:
    """The environment a process started with; empty for one that is gone, a zombie or not ours to read."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _comm_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
