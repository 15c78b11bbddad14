"""Real parts for the integration tests: each fixture gives one, and leaves nothing running behind it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext

from support import prerequisites
from support.chromium import chromium
from support.queue_app import QueueAppFixture
from support.real_clients import ClaudeHome, CodexHome, end_tmux, require, require_tmux
from support.redis_server import RedisServer
from support.supervisor_fixture import HttpFixture, open_http_fixture
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
def bridge(redis_server: RedisServer, tmp_path: Path) -> QueueAppFixture:
    """An application that keeps its queue in Redis."""
    return QueueAppFixture(redis_server, tmp_path)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a journal, and a home of its own for checkpoints."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "home"))
    return tmp_path / "root"


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path) as opened:
        yield opened


@pytest.fixture
def owner(doors: HttpFixture) -> Iterator[httpx.Client]:
    with doors.socket() as client:
        yield client


@pytest.fixture
def quick_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of tests either run or say at once that they cannot."""
    monkeypatch.setattr("wakeful.integrations.docker.launch.STABLE_SECONDS", 0.05)
    monkeypatch.setattr("wakeful.integrations.docker.launch.SCREEN_POLL_SECONDS", 0.1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module: while it is open its loop is this thread's, and no other loop can run in it."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without any login."""
    opened = browser.new_context(locale="en-GB")
    yield opened
    opened.close()
