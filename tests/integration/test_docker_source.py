"""Eyes inside containers: transcripts and registries of a Claude Code that lives there, read from this host."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace

from support.docker_engine import IMAGE, DockerEngine
from support.real_clients import wait_for
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.daemon.observer import SessionObserver
from wakeful.integrations.docker.engine import Container, Engine
from wakeful.integrations.docker.source import find_transcripts
from wakeful.judging.session_record import SessionRecord
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.linux.exit_watch import ExitWatch
from wakeful.sources.folder_watch import FolderWatch

PATIENCE_SECONDS = 30.0
QUIET = ("run", "-d", "--network", "none", "--name", "agent-bot")
# What a client writes: its number and its start, as they are inside.
REGISTER = """\
mkdir -p /root/.claude/sessions; PROGRAM & sleep 0.3; pid=NUMBER
read -r s </proc/$pid/stat; set -- ${s#* (*) }
printf '{"pid":%d,"sessionId":"%s","procStart":"%s","cwd":"/code","status":"busy"}' \
  $pid CONVERSATION ${20} > /root/.claude/sessions/$pid.json
wait
"""


def registering(conversation: str, program: str = "/opt/claude 1000", number: str = "$!") -> str:
    """A script that starts this program and registers the process with this number."""
    text = REGISTER.replace("CONVERSATION", conversation)
    return text.replace("PROGRAM", program).replace("NUMBER", number)


class Inside:
    """A lookout that sees nothing but what containers show."""

    def __init__(self, folder: Path, folders: FolderWatch) -> None:
        self._exits = ExitWatch(self._gone)
        self.lookout = SessionObserver(
            Config(), StatePaths(str(folder)), SystemClock(), self._exits, folders=folders
        )
        self.eyes = self.lookout.open_containers()
        self._folders = folders

    def _gone(self, process: Process) -> None:
        self.lookout.supervisor.on_exit(process)

    async def listen(self) -> None:
        async for told in self._folders:
            for source in self.lookout.sources.all():
                source.on_changes(told)

    async def record(
        self, session_id: str, fits: Callable[[SessionRecord], bool], what: str
    ) -> SessionRecord:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    while self.lookout.supervisor.judge_pending():
                        pass
                    session = self.lookout.registry.sessions.get(SessionId(session_id))
                    if session is not None and session.record is not None and fits(session.record):
                        return session.record
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"no {what}: {self.lookout.registry.sessions}, {self.eyes.skipped_logs}")

    def close(self) -> None:
        self._exits.close()


@asynccontextmanager
async def inside(folder: Path) -> AsyncIterator[Inside]:
    async with FolderWatch() as folders:
        made = Inside(folder, folders)
        listening = asyncio.create_task(made.listen())
        try:
            yield made
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            made.close()


async def inspected(docker: DockerEngine) -> Container:
    engine = Engine(docker.address)
    try:
        container = await engine.inspect("agent-bot")
    finally:
        await engine.close()
    assert container is not None
    return container


@pytest.fixture(autouse=True)
def nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nothing"))


@pytest.fixture(scope="module")
def plain(docker_engine: DockerEngine) -> Container:
    """A container that several tests look into. The first test that needs an engine for itself removes it."""
    docker_engine.clear()
    docker_engine.docker(*QUIET, IMAGE, "sleep", "infinity")
    return asyncio.run(inspected(docker_engine))


def test_a_home_inside_is_read_through_the_containers_root(plain: Container) -> None:
    """Nothing is mounted: the folder lies below the root of the container's first process."""
    Path(f"/proc/{plain.pid}/root/root/.claude/projects/-work").mkdir(parents=True)
    folder = find_transcripts(plain).folder
    assert folder == Path(f"/proc/{plain.pid}/root/root/.claude")
    assert [each.name for each in (folder / "projects").iterdir()] == ["-work"]


def test_a_home_that_is_not_there_yet_is_awaited(plain: Container) -> None:
    """An agent that just started has written nothing."""
    found = find_transcripts(replace(plain, home="/code/new"))
    assert found.folder is not None
    assert not found.folder.exists()
    assert found.passing


def test_a_link_out_of_a_container_is_not_followed(plain: Container) -> None:
    """On this host it would lead wherever the container's owner wants."""
    Path(f"/proc/{plain.pid}/root/code/.claude").symlink_to("/root")
    found = find_transcripts(replace(plain, home="/code"))
    assert found.folder is None
    assert found.reason.startswith("transcript not visible: .claude is a link")
    assert "mount a folder of this host at /code/.claude" in found.reason


def test_a_container_of_another_host_says_what_would_help(plain: Container) -> None:
    """Its numbers mean other processes here, which are not inspected."""
    found = find_transcripts(replace(plain, pid=1))
    assert found.folder is None
    assert "transcript not visible" in found.reason
    assert "eyes.claude_dirs" in found.reason


def test_a_mounted_home_is_read_where_it_lies(docker: DockerEngine, tmp_path: Path) -> None:
    """The folder of the host outlives the container."""
    docker.docker(*QUIET, "-v", f"{tmp_path}:/root", IMAGE, "sleep", "infinity")
    found = find_transcripts(asyncio.run(inspected(docker)))
    assert (found.folder, found.passing) == (tmp_path / ".claude", False)


def test_a_session_inside_is_held_by_the_process_this_host_knows(
    docker: DockerEngine, tmp_path: Path
) -> None:
    """The registry's number is the container's own; the session lives and dies with the host's process."""
    conversation = str(uuid4())
    docker.docker(*QUIET, IMAGE, "sleep", "infinity")

    async def scene() -> tuple[int, SessionRecord]:
        async with inside(tmp_path) as made:
            made.eyes.add_container("bot", await inspected(docker))
            docker.docker("exec", "-d", "agent-bot", "sh", "-c", registering(conversation))
            session = f"claude-{conversation}"
            alive = await made.record(session, lambda record: record.session_alive, "living session")
            process = made.lookout.registry.sessions[alive.id].presence.newest_process
            assert process is not None
            pid = process.process.pid
            docker.docker("rm", "-f", "agent-bot")
            return pid, await made.record(session, lambda record: not record.session_alive, "end of it")

    pid, _ = asyncio.run(scene())
    assert not Path(f"/proc/{pid}").exists()


def test_an_entry_inside_that_names_another_program_is_not_believed(
    docker: DockerEngine, tmp_path: Path
) -> None:
    """Neither the container's first process nor any other that is not the client."""
    forged = {str(uuid4()): ("true", "1"), str(uuid4()): ("sleep 1000", "$!")}
    docker.docker(*QUIET, IMAGE, "sleep", "infinity")

    async def scene() -> tuple[set[str], str | None]:
        async with inside(tmp_path) as made:
            made.eyes.add_container("bot", await inspected(docker))
            for conversation, (program, number) in forged.items():
                text = registering(conversation, program, number)
                docker.docker("exec", "-d", "agent-bot", "sh", "-c", text)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (made.eyes.skipped_logs or "").count("does not run claude") < len(forged):  # noqa: ASYNC110 - no event tells of it
                    await asyncio.sleep(0.05)
            return set(made.lookout.registry.sessions), made.eyes.skipped_logs

    watched, _ = asyncio.run(scene())
    assert watched.isdisjoint(f"claude-{each}" for each in forged)


def test_a_container_shown_again_tells_nothing_twice(docker: DockerEngine, tmp_path: Path) -> None:
    """Its root has another number after a restart; the same turn read again would look like a loop."""
    conversation = str(uuid4())
    line = {
        "type": "user",
        "sessionId": conversation,
        "cwd": "/code",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "uuid": str(uuid4()),
        "message": {"role": "user", "content": "go on"},
    }
    docker.docker(*QUIET, IMAGE, "sleep", "infinity")
    docker.docker("exec", "agent-bot", "mkdir", "-p", "/root/.claude/projects/-work")
    write = f"cat > /root/.claude/projects/-work/{conversation}.jsonl"
    docker.docker("exec", "-i", "agent-bot", "sh", "-c", write, stdin=json.dumps(line).encode() + b"\n")

    async def scene() -> list[int]:
        async with inside(tmp_path) as made:
            prompts = []
            for _ in range(2):
                made.eyes.add_container("bot", await inspected(docker))
                await made.record(f"claude-{conversation}", lambda _: True, "session")
                prompts.append(
                    made.lookout.registry.sessions[SessionId(f"claude-{conversation}")].activity.known
                )
                docker.docker("restart", "-t", "0", "agent-bot")
            return prompts

    assert asyncio.run(scene()) == [1, 1]


def test_a_home_of_this_host_in_a_container_is_no_death(
    docker: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's own eyes read the mounted registry, and believe no number of another namespace."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    conversation = str(uuid4())
    docker.docker(*QUIET, "-v", f"{tmp_path}:/root", IMAGE, "sleep", "infinity")
    docker.docker("exec", "-d", "agent-bot", "sh", "-c", registering(conversation))
    files = tmp_path / ".claude" / "sessions"
    wait_for(lambda: [*files.glob("*.json")] or None, "registry file")

    async def scene() -> tuple[SessionRecord, str]:
        async with inside(tmp_path) as made:
            await made.lookout.scan()
            made.eyes.add_container("bot", await inspected(docker))
            session = f"claude-{conversation}"
            alive = await made.record(session, lambda _: True, "session")
            program = proc.comm(alive.pid or 0)
            docker.docker("rm", "-f", "agent-bot")
            await made.record(session, lambda record: not record.session_alive, "end of it")
            return alive, program

    alive, program = asyncio.run(scene())
    assert (alive.session_alive, program) == (True, "claude")
