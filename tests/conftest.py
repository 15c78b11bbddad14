"""Fixtures of every suite: a Wakeful of one's own, in a home of its own."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support import prerequisites
from support.daemon_process import RunningDaemon
from support.docker_engine import DockerEngine, make_image, require_docker
from support.prerequisites import cache_dir
from support.real_clients import ClaudeHome, CodexHome, end_tmux, require, require_tmux
from support.redis_server import RedisServer, require_redis
from support.telegram_sink import Telegram
from wakeful.testing.scripted_model import ScriptedModel

# How long an example takes says more about the machine's other work than about the rule.
settings.register_profile("wakeful", deadline=None)
settings.load_profile("wakeful")
# A shell that puts `make test` behind lets it ignore Ctrl-C, and every program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Shells keep a history and Chromium its crash reports in HOME: the tests' own folder, not the developer's.
_HOME = tempfile.TemporaryDirectory(prefix="wakeful-home-", ignore_cleanup_errors=True)
os.environ |= {"WAKEFUL_TEST_CACHE": str(cache_dir()), "HOME": _HOME.name}
for _folder in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
    os.environ.pop(_folder, None)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests and fixtures run on asyncio."""
    return "asyncio"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    """A real `wakeful up` in an empty home; ended afterwards, and it must end by itself when asked."""
    running = RunningDaemon(tmp_path / "wakeful")
    try:
        yield running
    finally:
        running.end()
        end_tmux(running.socket.with_name("tmux.sock"))


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
def telegram() -> Iterator[Telegram]:
    telegram = Telegram()
    yield telegram
    telegram.end()


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis of one's own. Its folder has a short name: a socket's path has 107 bytes at most."""
    require_redis()
    server = RedisServer(tmp_path_factory.mktemp("r"))
    yield server
    server.end()


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A container engine of one's own with one small image, for all suites: it takes seconds to start."""
    require_docker()
    engine = DockerEngine()
    try:
        engine.start()
        make_image(engine)
        yield engine
    finally:
        engine.close()


@pytest.fixture
def docker(docker_engine: DockerEngine) -> Iterator[DockerEngine]:
    """The engine without any container, before and after."""
    docker_engine.clear()
    yield docker_engine
    docker_engine.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What measures a crowd wants the machine for itself."""
    for item in items:
        if item.path.parent.name == "scale":
            item.add_marker("alone")
