"""Claims about `attachable`: a prompt's way is called open only where a look proves that it would arrive now."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import Process
from wakeful.integrations.claude_code.driver import ClaudeDriver
from wakeful.integrations.codex.driver import CodexDriver
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.linux import proc
from wakeful.testing.virtual_clock import VirtualClock


@pytest.fixture
def agent() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that waits."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def identity(process: "subprocess.Popen[bytes]") -> Process:
    found = proc.identify_or_none(process.pid)
    assert found is not None
    return found


def hosting(cwd: Path, process: Process | None, **fields: object) -> ManagedSession:
    plain = ManagedSession(
        SessionId("claude-x"), ConversationId("x"), "claude", str(cwd), ("claude",), 1, 0.0, process
    )
    return replace(plain, **fields)


@contextmanager
def stopped(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """As by Ctrl-Z; the kernel tells when it is."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    yield
    process.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def test_claude_code_needs_its_process_and_a_reader_of_its_input(
    agent: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """A process without a FIFO, a FIFO without a reader, a reader whose agent is gone: none of them is open."""
    driver = ClaudeDriver(tmp_path, VirtualClock())
    managed = hosting(tmp_path, identity(agent))
    assert not driver.is_open(managed)
    assert driver.is_lost(managed)
    fifo = tmp_path / managed.session_id / "in"
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    assert not driver.is_open(managed)
    reader = os.open(fifo, os.O_RDWR)
    assert driver.is_open(managed)
    assert not driver.is_lost(managed)
    assert not driver.is_open(replace(managed, process=None))
    with stopped(agent):
        assert not driver.is_open(managed), "whoever is stopped reads nothing"
        assert not driver.is_lost(managed), "until somebody lets it go on"
    assert driver.is_open(managed)
    end(agent)
    assert not driver.is_open(managed)
    assert not driver.is_lost(managed), "whoever is dead has not lost its way"
    os.close(reader)


def test_codex_takes_a_prompt_between_its_turns(agent: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    """Nothing of it runs, its folder is there, and so is its program."""
    program = tmp_path / "codex"
    program.touch(0o700)
    driver = CodexDriver(tmp_path, VirtualClock(), {"PATH": str(tmp_path)})
    managed = hosting(tmp_path, None, argv=("codex",), driver="codex")
    assert driver.is_open(managed)
    running = replace(managed, process=identity(agent))
    assert not driver.is_open(running)
    assert not driver.is_lost(replace(running, folder=str(tmp_path))), (
        "its turn ends, and with it its process"
    )
    assert driver.is_lost(running), "it was handed over in a person's terminal"
    end(agent)
    assert driver.is_open(running)
    assert not driver.is_open(replace(managed, cwd=str(tmp_path / "gone")))
    program.unlink()
    assert not driver.is_open(managed)


def test_a_pane_needs_its_first_process_its_agent_and_its_server(
    agent: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """An address alone proves nothing."""
    path = tmp_path / "s"
    driver = TmuxDriver(str(path), str(tmp_path), VirtualClock())
    pane = PaneAddress(str(path), "%1", "agent", identity(agent))
    managed = hosting(tmp_path, identity(agent), pane=pane, driver="tmux")
    assert not driver.is_open(managed)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert driver.is_open(managed)
        assert not driver.is_open(replace(managed, pane=None))
        assert not driver.is_open(replace(managed, pane=replace(pane, process=None)))
        with stopped(agent):
            assert not driver.is_open(managed)
        assert driver.is_open(managed)
        end(agent)
        assert not driver.is_open(managed)


def test_a_pane_is_lost_with_its_first_process_or_its_socket(
    agent: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """An agent that outlived its pane, an unreachable server; a pane that was not checked yet is neither."""
    path = tmp_path / "s"
    driver = TmuxDriver(str(path), str(tmp_path), VirtualClock())
    ended = replace(identity(agent), pid=4_000_000)
    pane = PaneAddress(str(path), "%1", "agent", identity(agent))
    managed = hosting(tmp_path, identity(agent), pane=pane, driver="tmux")
    assert driver.is_lost(managed)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not driver.is_lost(managed)
        assert driver.is_lost(replace(managed, pane=replace(pane, process=ended)))
        assert not driver.is_lost(replace(managed, pane=None))
        assert not driver.is_lost(replace(managed, pane=replace(pane, process=None)))
    end(agent)
    assert not driver.is_lost(managed)
