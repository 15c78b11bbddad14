"""One daemon, a scripted model and clients in a home of their own; whatever is started is ended with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import prerequisites
from support.cli_user import Operator
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, CodexHome, end_tmux, require, require_tmux
from support.telegram_server import BotApi, own_token
from support.telegram_sink import Telegram
from wakeful.testing.scripted_model import ScriptedModel


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def claude(tmp_path: Path, model: ScriptedModel) -> Iterator[ClaudeHome]:
    require(prerequisites.CLAUDE)
    require_tmux()
    with ClaudeHome(tmp_path, model) as home:
        yield home


@pytest.fixture
def codex(tmp_path: Path, model: ScriptedModel) -> Iterator[CodexHome]:
    require(prerequisites.CODEX)
    with CodexHome(tmp_path, model) as home:
        yield home


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(tmp_path / "wakeful")
    yield daemon
    daemon.end()
    end_tmux(Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock")


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
def telegram() -> Iterator[Telegram]:
    telegram = Telegram()
    yield telegram
    telegram.end()
