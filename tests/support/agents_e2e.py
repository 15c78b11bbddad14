"""A daemon with agents in tmux, and a terminal for a person: for tests of the hub from outside."""

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, unix_connect

from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, end_tmux, wait_for
from support.tmux_server import Server
from wakeful.core.process import Process
from wakeful.integrations.tmux.agent_runtime import runs_on_server
from wakeful.linux import proc

CHEAP = '[agents.{name}]\nruntime = "tmux"\ncommand = ["sleep", "100000"]\n'


class AgentsFixture:
    """A daemon whose configuration declares agents. Everything on its tmux server ends with it."""

    def __init__(self, daemon: RunningDaemon, toml: str) -> None:
        self.daemon = daemon
        config = daemon.home / "wakeful.toml"
        config.write_text(toml)
        daemon.environ["WAKEFUL_CONFIG"] = str(config)
        daemon.environ["WAKEFUL_HEAL__CONFIRM_SECONDS"] = "0.2"
        self.server = Server(Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock")
        # The person's own terminal is a pane of another server: no server shows itself.
        self.desk = Server(daemon.home / "desk.sock")

    def agent(self, name: str) -> dict[str, Any]:
        listed = self.daemon.run("agent", "list", "--json").json["agents"]
        return next(each for each in listed if each["name"] == name)

    def wait(self, name: str, timeout_seconds: float = 60, **wanted: object) -> dict[str, Any]:
        """The agent's record as soon as it has all these values."""
        last: dict[str, Any] = {}

        def look() -> dict[str, Any] | None:
            last.update(self.agent(name))
            return last if all(last[key] == value for key, value in wanted.items()) else None

        try:
            return wait_for(look, f"{name}: {wanted}", timeout_seconds)
        except AssertionError as error:
            error.add_note(f"seen last: {json.dumps(last, indent=1)}\n{self.daemon.said()}")
            raise

    def start(self, name: str) -> dict[str, Any]:
        spoken = self.daemon.run("agent", "start", name, "--json")
        assert spoken.exit_code == 0, spoken.err
        record: dict[str, Any] = spoken.json
        return record

    def kill(self, name: str) -> int:
        """End the agent as a crash would; returns its pid."""
        pid: int = self.agent(name)["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def programs(self, name: str) -> list[int]:
        """Every process of this agent, in tmux or in a container of this host.

        A user may run several daemons, and tests of other folders, with agents of this name.
        """
        user = os.getuid()
        in_tmux = proc.processes_with_variable("WAKEFUL_SESSION", f"agent-{name}", user)
        contained = proc.processes_with_variable("WAKEFUL_AGENT", name, user)
        engine = self.daemon.environ.get("DOCKER_HOST", "").removeprefix("unix://")
        return [
            *(each.pid for each in in_tmux if runs_on_server(str(self.server.socket), each.pid)),
            *(each.pid for each in contained if _is_contained(each, engine)),
        ]

    def lives(self, name: str) -> bool:
        return bool(self.programs(name))

    def end_program(self, name: str) -> None:
        """End all its processes, as a crash of its own would."""
        for pid in self.programs(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.lives(name) or None, "end of its program")

    def listen(self) -> ClientConnection:
        return unix_connect(str(self.daemon.socket), "ws://wakeful/api/ws", proxy=None)

    def sit_down(self, *arguments: str) -> None:
        """Type a command in a terminal of its own."""
        self.desk.tmux("new-session", "-d", "-x", "120", "-y", "30", "-s", "desk", f"{self._person()} sh")
        self.desk.tmux("set-option", "-g", "prefix", "C-q")
        self.enter(*arguments)

    def command(self, *arguments: str) -> str:
        """The words of a command for another terminal of the same person."""
        return f"{self._person()} {shlex.join([sys.executable, '-m', 'wakeful', *arguments])}"

    def _person(self) -> str:
        environ = {key: value for key, value in self.daemon.environ.items() if not key.startswith("TMUX")}
        return shlex.join(["env", "-i", "TERM=screen", *(f"{key}={value}" for key, value in environ.items())])

    def enter(self, *arguments: str) -> None:
        """Type a command in the open terminal, which shows its exit code at the end."""
        self.type(f"{shlex.join([sys.executable, '-m', 'wakeful', *arguments])}; echo left with $?")

    def type(self, text: str) -> None:
        self.desk.tmux("send-keys", "-t", "desk", "-l", text)
        self.desk.tmux("send-keys", "-t", "desk", "Enter")

    def press(self, *keys: str) -> None:
        self.desk.tmux("send-keys", "-t", "desk", *keys)

    def screen(self) -> str:
        return self.desk.tmux("capture-pane", "-p", "-t", "desk")

    def wait_for_screen(self, *texts: str, timeout_seconds: float = 60) -> str:
        last = [""]

        def look() -> str | None:
            last[0] = self.screen()
            return last[0] if all(text in last[0] for text in texts) else None

        try:
            return wait_for(look, f"screen with {texts}", timeout_seconds)
        except AssertionError as error:
            error.add_note(last[0])
            raise

    def end(self) -> None:
        self.desk.end()
        end_tmux(self.server.socket)


def _is_contained(process: Process, engine: str) -> bool:
    """Whether it runs in a container of the engine at this socket: its container's shim names a path beside that."""
    beside = f"{Path(engine).parent}/"
    shims = proc.ancestors(process.pid) if engine else []
    return any(word.startswith(beside) for shim in shims for word in proc.command(shim.pid))


def clients_of(server: Server) -> int:
    """The number of terminals attached to a server."""
    done = subprocess.run(
        ("tmux", "-S", str(server.socket), "list-clients"), capture_output=True, text=True, check=False
    )
    return len(done.stdout.splitlines())


AUTO_RESTART: Final = 'ready = "for shortcuts"\nrestart = "auto"'


def hub_with_claude(daemon: RunningDaemon, claude: ClaudeHome, more: str = "") -> AgentsFixture:
    """A hub with one agent: the real client, with the variables of its home."""
    environ = claude.environ()
    names = [name for name in environ if name not in ("HOME", "PATH", "LANG", "SHELL")]
    daemon.environ |= environ
    toml = f"""
[agents.claude]
runtime = "tmux"
command = ["claude"]
workdir = "{claude.project}"
env = {names!r}
{more}
"""
    return AgentsFixture(daemon, toml)
