"""A person who controls real agents through the real command, for acceptance tests of control."""

import subprocess
import time
from pathlib import Path
from typing import Any

from support.daemon_process import CommandResult, RunningDaemon
from support.real_clients import ClaudeHome, CodexHome, wait_for

DONE = {"text": "All done"}
Record = dict[str, Any]


def bash(command: str) -> Record:
    return {"tool": "Bash", "input": {"command": command}}


class Operator:
    """A person at a terminal in the project's folder, with the agent's environment."""

    def __init__(self, daemon: RunningDaemon, home: ClaudeHome | CodexHome) -> None:
        self.daemon = daemon
        self.home = home

    def type(self, *arguments: str) -> CommandResult:
        """Run a command in the project's folder."""
        return self.daemon.run(*arguments, cwd=self.home.project)

    def pipe(self, said: bytes, *arguments: str) -> CommandResult:
        """Run a command with this on standard input."""
        done = subprocess.run(
            self.daemon.argv(*arguments),
            env=self.daemon.environ,
            input=said,
            capture_output=True,
            timeout=120,
            cwd=self.home.project,
            check=False,
        )
        out, err = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
        return CommandResult(subprocess.CompletedProcess(done.args, done.returncode, out, err))

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command without waiting for it."""
        return subprocess.Popen(
            self.daemon.argv(*arguments),
            env=self.daemon.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home.project,
        )

    def start(self, *arguments: str) -> str:
        """`wakeful run`, which must succeed; returns the session's id."""
        deed = self.type("run", "--json", *arguments)
        assert deed.exit_code == 0, deed.err + deed.out
        session_id: str = deed.json["session_id"]
        return session_id

    def act(self, act: str, session_id: str, *arguments: str) -> Record:
        done = self.type("session", act, session_id, *arguments, "--json")
        assert done.out, done.err
        deed: Record = done.json
        return deed

    def record(self, session_id: str) -> Record | None:
        return next((each for each in self.daemon.sessions() if each["id"] == session_id), None)

    def finished_turns(self, session_id: str) -> int:
        """How many turns `wakeful report` calls finished."""
        told = self.type("report", "--since", "1h", "--json").json["sessions"]
        return sum(int(each["finished"]) for each in told if each["id"] == session_id)

    def wait_until(self, session_id: str, what: str, **fields: object) -> Record:
        def look() -> Record | None:
            record = self.record(session_id)
            fits = record is not None and all(record[name] == value for name, value in fields.items())
            return record if fits else None

        return wait_for(look, f"{what}: {self.record(session_id)}")


def assert_ended_quietly(daemon: RunningDaemon, session_id: str, quiet_seconds: float) -> None:
    """A person ended it: no finding, event or incident, now and after a while. `quiet_seconds`: alarms come sooner."""
    daemon.wait_for_session(
        lambda each: each["id"] == session_id and each["state"] == "stopped", "stopped session"
    )
    time.sleep(quiet_seconds)
    record = next(each for each in daemon.sessions() if each["id"] == session_id)
    assert (record["state"], record["health"], record["findings"]) == ("stopped", "healthy", [])
    assert "stopped by a person" in daemon.run("session", "why", session_id).out
    assert daemon.run("incidents", "--all", "--json").json["incidents"] == []
    assert not Path(daemon.environ["WAKEFUL_HOME"], "logs/critical_events.jsonl").exists()
