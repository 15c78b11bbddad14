"""Real parts for the integration tests: each fixture gives one, and leaves nothing running behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from support import prerequisites
from support.chromium import chromium
from support.real_clients import ClaudeHome, CodexHome, end_tmux, require, require_tmux
from support.redis_server import RedisServer, require_redis
from support.tmux_server import Server
from wakeful.testing.scripted_model import ScriptedModel


@pytest.fixture
def scripted_model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def claude_home(tmp_path: Path, scripted_model: ScriptedModel) -> Iterator[ClaudeHome]:
    require(prerequisites.CLAUDE)
    with ClaudeHome(tmp_path, scripted_model) as home:
        yield home


@pytest.fixture
def codex_home(tmp_path: Path, scripted_model: ScriptedModel) -> Iterator[CodexHome]:
    require(prerequisites.CODEX)
    with CodexHome(tmp_path, scripted_model) as home:
        yield home


@pytest.fixture
def tmux_socket(tmp_path: Path) -> Iterator[Path]:
    """Where a private tmux server will listen; it starts with the first session."""
    require_tmux()
    socket = tmp_path / "tmux.sock"
    yield socket
    end_tmux(socket)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A tmux server that starts with its first session."""
    require_tmux()
    server = Server(tmp_path / "socket")
    yield server
    server.end()


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of one's own. Its folder has a short name: a socket's path has 107 bytes at most."""
    require_redis()
    server = RedisServer(tmp_path_factory.mktemp("r"))
    yield server
    server.end()


@pytest.fixture
def quick_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of tests either run or say at once that they cannot."""
    monkeypatch.setattr("wakeful.integrations.docker.launch.STABLE_SECONDS", 0.05)
    monkeypatch.setattr("wakeful.integrations.docker.launch.SCREEN_POLL_SECONDS", 0.1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module: while it is open its loop is this thread's, and nobody else can have one."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that knows nobody."""
    opened = browser.new_context(locale="en-GB")
    yield opened
    opened.close()
