"""The demo as a newcomer meets it: the real command in an empty home, what it shows, and that nothing is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from support.real_clients import TmuxSession, end_tmux, require_tmux, tmux, wait_for
from wakeful.cli.format.sessions import decode_sessions
from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
from wakeful.testing.scripted_agent import ScriptedAgent

# A fifth of the real length: silence counts after four seconds.
SECONDS: Final = "12"
PATIENCE_SECONDS: Final = 40.0
VERDICTS: Final = {
    "works": "running healthy",
    "asks-you": "waiting healthy · needs you",
    "long-build": "running healthy",
    "goes-silent": "running stuck · silent",
    "in-circles": "running stuck · loop",
    "gets-killed": "stopped dead · agent_exited",
}
EXPECTED_WAIT: Final = "A call with a timeout of 300 s"


class Guest:
    """A person with an empty home, and a folder for temporary files that the demo is to leave empty."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.temporary = folder / "t"
        for each in (self.home, self.temporary):
            each.mkdir(parents=True)

    def environ(self, **more: str) -> dict[str, str]:
        kept = ("PATH", "LANG", "VIRTUAL_ENV")
        inherited = {name: os.environ[name] for name in kept if name in os.environ}
        return inherited | {"HOME": str(self.home), "TMPDIR": str(self.temporary)} | more

    @contextmanager
    def demo(self, *arguments: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
        """The command in a pipe; afterwards it has ended, and nothing of it is left."""
        process = subprocess.Popen(
            [*demo_argv(), *arguments],
            env=self.environ(**environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with process:
                yield process
        finally:
            process.kill()
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        """No process that knows the folder, no folder, and a home as empty as before."""
        assert [*self.temporary.iterdir()] == []
        assert [*self.home.iterdir()] == []
        assert self.processes() == {}

    def processes(self) -> dict[int, str]:
        """Every process that was started with the demo's folder in its environment, and its command."""
        mark = os.fsencode(f"{self.temporary}/wakeful-demo-")
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        return {pid: _read(pid, "cmdline").decode() for pid in pids if mark in _read(pid, "environ")}


def demo_argv() -> list[str]:
    return [sys.executable, "-m", "wakeful", "demo"]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


@pytest.fixture
def guest() -> Iterator[Guest]:
    """In a folder of few letters: the demo's sockets have a path of 107 at most."""
    with TemporaryDirectory(prefix="guest-") as folder:
        yield Guest(Path(folder))


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Everything said up to these words; the demo ends by itself, so this does too."""
    assert process.stdout is not None
    said = ""
    while words not in said:
        chunk = process.stdout.read(1)
        assert chunk, f"ended without {words!r}: {said}"
        said += chunk
    return said


@pytest.mark.alone
def test_a_pipe_gets_all_six_verdicts(guest: Guest) -> None:
    """Every agent's verdict comes, each with its sentence, in plain text; then it ends by itself with what next."""
    require_tmux()
    with guest.demo("--seconds", SECONDS) as process:
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, errors) == (0, "")
    changes = [line.split(" s  ", 1)[1].split("  (was ")[0] for line in output.splitlines() if " s  " in line]
    assert {" ".join(change.split(maxsplit=1)) for change in changes} >= {
        f"{name} {standing}" for name, standing in VERDICTS.items()
    }, output
    assert {change.split(maxsplit=1)[1] for change in changes if change.startswith("works")} == {
        "running healthy"
    }, "work that gets on is no loop"
    assert EXPECTED_WAIT in output
    assert "its tool still runs as process" in output
    assert "reports silence after 4 s" in output
    assert output.rstrip().endswith("list your sessions and their state")
    assert "wakeful up" in output
    assert "\x1b" not in output


@pytest.mark.alone
def test_a_terminal_shows_them_live_and_is_clean_afterwards(guest: Guest, tmp_path: Path) -> None:
    """At 80 by 24 nothing is cut off, a key answers the question, `q` ends it, and the terminal reads lines again."""
    require_tmux()
    socket = tmp_path / "person.sock"
    variables = [f"-e{name}={value}" for name, value in guest.environ().items()]
    place = ["-d", "-s", "person", "-x", "80", "-y", "24"]
    tmux(socket, "new-session", *place, *variables, "--", "sh", environ=guest.environ())
    try:
        terminal = TmuxSession(socket, "person")
        terminal.type_line("PS1='ready> '")
        terminal.type_line(f"{' '.join(demo_argv())} --seconds {SECONDS}")
        _watch_verdicts(terminal)
        terminal.press("y")
        wait_for(lambda: _shows(terminal, "asks-you", "idle") or None, "answer")
        terminal.press("q")
        last = wait_for(lambda: _ended(terminal), "end")
        assert "Now your own agents:" in last
        terminal.type_line("stty -a")
        wait_for(lambda: {"icanon", "echo"} <= set(terminal.screen().split()) or None, "cooked mode")
        assert terminal.shown("cursor_flag") == "1"
    finally:
        end_tmux(socket)
    guest.assert_nothing_left()


def _watch_verdicts(terminal: TmuxSession) -> None:
    unseen = dict(VERDICTS)

    def look() -> bool | None:
        screen = terminal.screen()
        table = screen.partition("AGENT")[2]
        assert "…" not in table, f"something is cut off:\n{screen}"
        for name, standing in VERDICTS.items():
            if _shows(terminal, name, *standing.split(" ", 1)):
                unseen.pop(name, None)
        return True if not unseen and EXPECTED_WAIT in screen else None

    wait_for(look, "all six verdicts", PATIENCE_SECONDS)


def _shows(terminal: TmuxSession, name: str, *words: str) -> bool:
    rows = [line for line in terminal.screen().splitlines() if f" {name} " in line]
    return any(all(word in row for word in words) for row in rows)


def _ended(terminal: TmuxSession) -> str | None:
    screen = terminal.screen()
    return screen if screen.rstrip().endswith("ready>") else None


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("words", ["starting a daemon", "in-circles"])
def test_a_signal_cleans_up_too(guest: Guest, number: signal.Signals, code: int, words: str) -> None:
    """Ctrl-C and its kin, before the daemon is up and in the middle of it all, leave nothing either."""
    with guest.demo() as process:
        read_until(process, words)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, errors) == (code, "")


def test_sessions_of_the_person_are_not_looked_at(guest: Guest, tmp_path: Path) -> None:
    """While other agents run, the demo's daemon knows its six and no others."""
    own = ScriptedAgent(tmp_path / "own", tmp_path / "project").start({"prompt": "Mine"}, {"hang": True})
    with own, guest.demo(CLAUDE_CONFIG_DIR=str(tmp_path / "own")) as process:
        own.wait_for_status("busy")
        read_until(process, "in-circles")
        (folder,) = guest.temporary.iterdir()
        client = DaemonClient(StatePaths(str(folder / "state")))

        def known() -> list[str] | None:
            listed = decode_sessions(client.get("/api/sessions?all=true").body)
            names = sorted(record.project for record in listed.sessions)
            return names if len(names) >= len(VERDICTS) else None

        assert wait_for(known, "all six") == sorted(VERDICTS)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
        assert own.process.poll() is None


def test_a_daemon_that_cannot_start_is_one_line(guest: Guest) -> None:
    """Where a socket's path would be too long the daemon refuses; the demo says so, exits 3 and is gone."""
    deep = guest.temporary / ("d" * 100)
    deep.mkdir()
    with guest.demo(TMPDIR=str(deep)) as process:
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert [*deep.iterdir()] == []
        deep.rmdir()
    assert process.returncode == 3
    assert errors.startswith("wakeful: The demo's daemon did not start:")
    assert errors.count("\n") == 1


def test_without_tmux_it_says_so_and_goes_on(guest: Guest, tmp_path: Path) -> None:
    """The killed agent then has no terminal: its death is still found."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sleep").symlink_to("/bin/sleep")
    with guest.demo("--seconds", "10", PATH=str(programs)) as process:
        said = read_until(process, "session_dead")
        assert "tmux is not installed: gets-killed runs without a terminal" in said
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
