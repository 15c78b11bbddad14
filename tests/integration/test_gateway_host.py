"""The host as the gateway sees it: real figures, real processes, files, and stand-ins for PM2 and Docker's socket."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_engine import IMAGE, DockerEngine
from support.real_clients import wait_for
from wakeful.client.errors import DaemonNotRunning
from wakeful.core.ids import SessionId
from wakeful.gateway.host import GatewayHost, HostReader, process_usage
from wakeful.gateway.rules.host import HostReading, Unit, wrong_with
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.testing.virtual_clock import VirtualClock

A = ConversationKey("chat:1:thread:main")
DAY = 86_400.0
BURNS = "import subprocess, sys; tool = subprocess.Popen(['sleep', '60']); print('up', flush=True)\nwhile True: pass"


def figures(tmp_path: Path) -> HostReader:
    environ = {"PATH": str(tmp_path), "PM2_HOME": str(tmp_path)}
    return HostReader(str(tmp_path), docker_socket=str(tmp_path / "d.sock"), environ=environ)


def test_the_figures_are_the_hosts(tmp_path: Path) -> None:
    """Shares from 0 to 100; what is not there is None."""
    reading = asyncio.run(figures(tmp_path).read())
    assert reading.disk_percent is not None
    assert reading.memory_percent is not None
    assert 0 < reading.disk_percent <= 100
    assert 0 < reading.memory_percent <= 100
    assert (reading.cores, reading.pm2, reading.docker) == (os.cpu_count(), None, None)


def write_pm2(tmp_path: Path, body: str) -> None:
    program = tmp_path / "pm2"
    program.write_text(
        f"#!/bin/sh\ncase \"$1\" in jlist) printf '%s\\n' '>>>> In-memory PM2 is out of date' '{body}';; esac\n"
    )
    program.chmod(0o755)


@pytest.fixture
def pm2_listens(tmp_path: Path) -> Iterator[socket.socket]:
    """Where PM2's daemon takes orders."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "rpc.sock"))
        listening.listen()
        yield listening


def test_pm2_is_asked_where_it_runs(tmp_path: Path, pm2_listens: socket.socket) -> None:
    """Its greeting is passed over; what was stopped before is no problem, what broke is."""
    asked = figures(tmp_path)
    listed = [("api", "online"), ("old", "stopped"), ("bad", "errored")]
    write_pm2(tmp_path, json.dumps([{"name": name, "pm2_env": {"status": state}} for name, state in listed]))
    assert asyncio.run(asked.read()).pm2 == (Unit("api", "online"), Unit("bad", "errored"))
    write_pm2(tmp_path, json.dumps([{"name": "api", "pm2_env": {"status": "stopped"}}]))
    assert asyncio.run(asked.read()).pm2 == (Unit("api", "stopped"),)
    write_pm2(tmp_path, "no json")
    assert asyncio.run(asked.read()).pm2 is None
    pm2_listens.close()
    assert asyncio.run(asked.read()).pm2 == (Unit("PM2 itself", "stopped"),)


def test_pm2_is_not_started_by_being_looked_at(tmp_path: Path) -> None:
    """Its command starts a daemon where none runs, also beside the socket of one that died."""
    with socket.socket(socket.AF_UNIX) as died:
        died.bind(str(tmp_path / "rpc.sock"))
    (tmp_path / "pm2").write_text(f"#!/bin/sh\necho '[]'; echo run > {tmp_path}/was-run\n")
    (tmp_path / "pm2").chmod(0o755)
    assert asyncio.run(figures(tmp_path).read()).pm2 is None
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"HTTP/1.0 500 x\r\n\r\n[]", None),
        (b"HTTP/1.0 200 OK\r\n\r\n{", None),
        (b"", None),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", ()),
        (
            (
                b'HTTP/1.0 200 OK\r\n\r\n[{"Names":["/db"],"State":"running","Status":"Up 2 hours (unhealthy)"},'
                b'{"Names":["/job"],"State":"exited","Status":"Exited (0) 3 days ago"},'
                b'{"Names":["/old"],"State":"exited","Status":"Exited (137) 3 months ago"},'
                b'{"Names":["/mq"],"State":"restarting","Status":"Restarting (1) 2 seconds ago"}]'
            ),
            (Unit("db", "unhealthy"), Unit("job", "exited"), Unit("mq", "restarting")),
        ),
    ],
)
def test_docker_is_asked_over_its_socket(
    tmp_path: Path, said: bytes, expected: tuple[Unit, ...] | None
) -> None:
    """One plain request; a container that was never seen up is not missed; a bad answer is none."""

    async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readline()).startswith(b"GET /containers/json?all=1 ")
        writer.write(said)
        writer.close()

    async def asked() -> tuple[Unit, ...] | None:
        server = await asyncio.start_unix_server(engine, tmp_path / "d.sock")
        async with server:
            return (await figures(tmp_path).read()).docker

    assert asyncio.run(asked()) == expected


def test_containers_of_a_real_engine(tmp_path: Path, docker_engine: DockerEngine) -> None:
    """One that ran and was killed is reported, one that is unhealthy too; one that had failed before the first look is not."""
    docker_engine.clear()
    rest = ("--network", "none", IMAGE)
    ill = ("--health-cmd", "false", "--health-interval", "1s", "--health-retries", "1")
    docker_engine.docker("run", "-d", "--name", "old", *rest, "sh", "-c", "exit 3")
    docker_engine.docker("wait", "old")
    docker_engine.docker("run", "-d", "--name", "db", *rest, "sleep", "300")
    docker_engine.docker("run", "-d", "--name", "ill", *ill, *rest, "sleep", "300")
    asked = HostReader(str(tmp_path), pm2=False, docker_socket=docker_engine.address.removeprefix("unix://"))

    def seen() -> dict[str, str]:
        return {unit.name: unit.state for unit in asyncio.run(asked.read()).docker or ()}

    try:
        wait_for(lambda: seen() == {"db": "running", "ill": "unhealthy"} or None, "an unhealthy container")
        docker_engine.docker("kill", "db")
        wait_for(lambda: seen() == {"db": "failed", "ill": "unhealthy"} or None, "a failed container")
        told = [alert.text for alert in wrong_with(HostReading(docker=asyncio.run(asked.read()).docker))]
        assert told == ["Docker says: ill is unhealthy.", "Docker says: db is failed."]
    finally:
        docker_engine.clear()


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.clock = VirtualClock()
        self.temporary = tmp_path / "tmp"
        self.log = tmp_path / "logs" / "gateway.log"
        self.temporary.mkdir()
        self.log.parent.mkdir()
        # What the daemon knows of sessions.
        self.pids: dict[str, int] = {}
        self.host = GatewayHost(
            self.clock, figures(tmp_path), self._pid, temporary=self.temporary, log=self.log
        )

    async def _pid(self, session_id: SessionId) -> int | None:
        if session_id == "s-refused":
            raise DaemonNotRunning
        return self.pids.get(session_id)

    def file(self, path: Path, age_seconds: float) -> Path:
        path.write_text("x")
        wall = self.clock.now().wall - age_seconds
        os.utime(path, (wall, wall))
        return path


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_only_the_gateways_own_old_files_are_removed(scene: Scene, tmp_path: Path) -> None:
    """Temporary ones after a day, rotated logs after three; no folder, no link, no file of another user."""
    old = scene.file(scene.temporary / "old", DAY + 60)
    rotated = scene.file(scene.log.with_name("gateway.log.3"), 3 * DAY + 60)
    elsewhere = scene.file(tmp_path / "precious", 100 * DAY)
    kept = [
        scene.file(scene.temporary / "new", DAY - 60),
        scene.file(scene.log.with_name("gateway.log.1"), 3 * DAY - 60),
        scene.file(scene.log, 100 * DAY),
        scene.file(scene.log.with_name("critical_events.jsonl"), 100 * DAY),
        elsewhere,
    ]
    (scene.temporary / "folder").mkdir()
    scene.file(scene.temporary / "folder" / "inside", 100 * DAY)
    link = scene.temporary / "link"
    link.symlink_to(elsewhere)
    assert asyncio.run(scene.host.clean_files()) == 2
    assert not old.exists()
    assert not rotated.exists()
    assert all(path.exists() for path in (*kept, link, scene.temporary / "folder" / "inside"))


@pytest.fixture
def burning() -> Iterator[subprocess.Popen[str]]:
    """A provider's process that takes a whole processor, with a tool of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", BURNS], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    os.killpg(process.pid, 9)
    process.wait()
    process.stdout.close()


def cpu_seconds(pid: int) -> float:
    taken = process_usage(pid)
    assert taken is not None
    return taken.cpu_seconds


async def test_a_process_of_ours_is_measured_between_two_looks(
    scene: Scene, burning: subprocess.Popen[str]
) -> None:
    """The process that the daemon knows, with or without a mark; above the limit since the look before."""
    b = ConversationKey("chat:2:thread:main")
    sessions = {"s-refused": b, "s-1": A, "s-of-nobody": b}
    scene.pids["s-1"] = burning.pid
    (first,) = await scene.host.hogs(sessions, 90.0)
    began = cpu_seconds(burning.pid)
    assert (first.key, first.process, first.busy_seconds) == (A, f"pid {burning.pid}", 0.0)
    # It burns real time while the clock of the test stands, as much as it gets on a busy machine.
    await asyncio.to_thread(
        wait_for, lambda: cpu_seconds(burning.pid) > began + 0.3 or None, "0.3 s of processor"
    )
    scene.clock.advance(0.1)
    (second,) = await scene.host.hogs(sessions, 90.0)
    assert second.cpu_percent > 90
    assert second.busy_seconds == pytest.approx(0.1)
    scene.clock.advance(1000.0)
    (third,) = await scene.host.hogs(sessions, 90.0)
    assert (third.cpu_percent < 90, third.busy_seconds) == (True, 0.0)


class Knot:
    """Holds on to itself: only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_memory_is_collected(scene: Scene) -> None:
    """What is out of reach is gone afterwards."""
    gone = weakref.ref(Knot())
    asyncio.run(scene.host.collect_memory())
    assert gone() is None
