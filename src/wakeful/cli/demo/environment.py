"""Starts the daemon and the agents of the demo in one temporary folder, and ends all of them.

The daemon is the real command in a process of its own; the agents are scripted. None of them sees the user's
home, sessions or tmux. `close` ends every process and removes the folder, whatever happened.
"""

import os
import select
import shlex
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from wakeful.cli.demo.scripts import SILENCE_SECONDS, DemoAgent
from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
from wakeful.core.errors import WorldError
from wakeful.linux.child_environment import helper_environ, own_environ
from wakeful.testing.scripted_agent import RunningAgent, ScriptedAgent, terminate_tools

UP_SECONDS_MAX: Final = 40.0
END_SECONDS_MAX: Final = 5.0
TMUX_SECONDS_MAX: Final = 10.0
_POLL_SECONDS: Final = 0.05
_LOG_LINES_SHOWN_MAX: Final = 3
# Variables by which the clients, Wakeful, tmux and XDG would find places outside the demo.
_FOREIGN_PREFIXES: Final = ("CLAUDE", "CODEX_", "WAKEFUL_", "TMUX", "XDG_")


class DaemonDidNotStart(WorldError):
    """The demo's daemon did not start: {words}"""

    code = "demo-daemon-down"


class DemoEnvironment:
    """The temporary home with its daemon and agents. Make it in a `try` whose `finally` closes it."""

    def __init__(self, pace: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wakeful-demo-")).resolve()
        self.paths = StatePaths(str(self.folder / "state"))
        self._claude = self.folder / ".claude"
        self._tmux_socket = self.folder / "tmux.sock"
        self._environ = self._own_environ(pace)
        self._daemon: subprocess.Popen[bytes] | None = None
        self._agents: dict[str, RunningAgent] = {}
        self._conversations: list[str] = []
        self._tmux_server: int | None = None
        self.tmux_problem: str | None = None

    def start_daemon(self, gave_up: Callable[[], bool]) -> None:
        """Start `wakeful up` and return once it answers, or once `gave_up`. Raises DaemonDidNotStart."""
        log = self.folder / "up.log"
        # -P: never a `wakeful` folder in the working directory.
        argv = [sys.executable, "-P", "-m", "wakeful", "up", "--no-tcp"]
        with log.open("wb") as output:
            self._daemon = subprocess.Popen(
                argv,
                cwd=self.folder,
                env=own_environ(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C reaches only the demo, which ends the others itself.
                start_new_session=True,
            )
        deadline = time.monotonic() + UP_SECONDS_MAX
        while DaemonClient(self.paths).running_pid() is None and not gave_up():
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN_MAX:]
                raise DaemonDidNotStart(words=" / ".join(words) or "no output")
            time.sleep(_POLL_SECONDS)

    def start_agent(self, demo_agent: DemoAgent) -> str:
        """Start one agent; the id of its session."""
        agent = ScriptedAgent(self._claude, self.folder / demo_agent.name)
        self._conversations.append(agent.conversation)
        if not (demo_agent.in_tmux and self._start_in_tmux(agent, demo_agent)):
            self._agents[demo_agent.name] = agent.start(*demo_agent.steps, environ=self._environ)
        return f"claude-{agent.conversation}"

    def answer(self, name: str) -> None:
        self._agents[name].answer()

    def close(self) -> None:
        """End every process and remove the folder; a failure does not stop the rest."""
        with ExitStack() as last_first:
            last_first.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for conversation in self._conversations:
                last_first.callback(terminate_tools, conversation)
            last_first.callback(self._stop_tmux)
            for agent in self._agents.values():
                last_first.callback(agent.close)
            if self._daemon is not None:
                last_first.callback(_stop_daemon, self._daemon)

    def _own_environ(self, pace: float) -> dict[str, str]:
        inherited = {
            key: value
            for key, value in own_environ(os.environ).items()
            if not key.startswith(_FOREIGN_PREFIXES)
        }
        return inherited | {
            "HOME": str(self.folder),
            # With another HOME Python would miss packages of `pip install --user`.
            "PYTHONUSERBASE": site.getuserbase(),
            "CLAUDE_CONFIG_DIR": str(self._claude),
            "CODEX_HOME": str(self.folder / ".codex"),
            "TMUX_TMPDIR": str(self.folder),
            "WAKEFUL_HOME": self.paths.state_dir,
            "WAKEFUL_DETECT__SILENCE_SECONDS": str(SILENCE_SECONDS * pace),
            "WAKEFUL_EYES__TMUX_SOCKETS": str(self._tmux_socket),
        }

    def _start_in_tmux(self, agent: ScriptedAgent, demo_agent: DemoAgent) -> bool:
        """In a pane whose shell outlives it, as if a person typed the command. False without tmux."""
        if shutil.which("tmux") is None:
            self.tmux_problem = "tmux is not installed"
            return False
        agent.cwd.mkdir()
        command = f"{shlex.join(agent.argv(*demo_agent.steps))}; exec sh"
        place = ["-d", "-s", demo_agent.name, "-x", "100", "-y", "30", "-c", str(agent.cwd)]
        try:
            self._tmux("new-session", *place, "--", "sh", "-c", command)
            self._tmux_server = os.pidfd_open(int(self._tmux("display-message", "-p", "#{pid}")))
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            self.tmux_problem = f"tmux did not start: {_error_text(problem)}"
            # A failed start may have left an agent with the same conversation as the next one.
            self._stop_tmux()
            return False
        return True

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self._tmux_socket), "-f", os.devnull, *arguments],
            env=helper_environ(self._environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TMUX_SECONDS_MAX,
            check=True,
        )
        return done.stdout

    def _stop_tmux(self) -> None:
        """The server ends its panes."""
        if self._tmux_socket.exists():
            with suppress(OSError, subprocess.SubprocessError):
                self._tmux("kill-server")
        if self._tmux_server is None:
            return
        ended, _, _ = select.select([self._tmux_server], [], [], END_SECONDS_MAX)
        if not ended:
            signal.pidfd_send_signal(self._tmux_server, signal.SIGKILL)
        os.close(self._tmux_server)
        self._tmux_server = None


def _stop_daemon(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _error_text(problem: Exception) -> str:
    said = getattr(problem, "stderr", None)
    return said.strip() if isinstance(said, str) and said.strip() else str(problem)
