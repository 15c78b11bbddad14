"""One daemon, a scripted model and clients in a home of their own; whatever is started is ended with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_user import Operator
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, CodexHome, end_tmux
from support.telegram_server import BotApi, own_token


@pytest.fixture
def operator(claude: ClaudeHome, daemon: RunningDaemon) -> Operator:
    daemon.watch(**claude.environ())
    daemon.up()
    return Operator(daemon, claude)


@pytest.fixture
def operator_apart(codex: CodexHome, daemon: RunningDaemon) -> Operator:
    """Its daemon watches Codex and has none of its variables but the place of its logs."""
    daemon.watch(CODEX_HOME=codex.home / ".codex")
    daemon.up()
    return Operator(daemon, codex)


@pytest.fixture
def codex_operator(codex: CodexHome, daemon: RunningDaemon) -> Operator:
    # Later turns of Codex are processes of their own, in the daemon's environment.
    daemon.watch(**codex.environ())
    daemon.up()
    return Operator(daemon, codex)


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi(own_token()) as api:
        yield api


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Path]:
    """The socket of a person's own tmux server."""
    socket = tmp_path / "tmux.sock"
    yield socket
    end_tmux(socket)
