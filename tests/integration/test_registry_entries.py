"""Registry files that a container wrote into this host's own folder: numbers of another namespace, and of another machine."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest

from support import stub_clients
from support.real_clients import wait_for
from support.stub_clients import stand_in
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.claude_code.registry import EntryProcessResolver, RegistryEntry
from wakeful.linux import proc
from wakeful.linux.client_processes import is_client, user_of
from wakeful.linux.machine import boot_id
from wakeful.linux.proc import inner_pid

HOUR_SECONDS = 3600.0
HOLDER = EntryProcessResolver(time.time)


def entry(pid: int, started: int, *, ago_seconds: float | None = None) -> RegistryEntry:
    started_at = None if ago_seconds is None else (time.time() - ago_seconds) * 1000
    return RegistryEntry(pid, str(uuid4()), str(started), started_at)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Process]:
    """A client that is number 1 in a namespace of its own."""
    client = stub_clients.program(tmp_path, "import time; time.sleep(1000)")
    outer = subprocess.Popen(("unshare", "--pid", "--fork", "--kill-child", *client))
    try:
        above = proc.identify(outer.pid)
        assert above is not None
        yield wait_for(
            lambda: next((each for each in proc.children(above) if is_client(each.pid, "claude")), None),
            "client in a namespace of its own",
        )
    finally:
        outer.kill()
        outer.wait()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a namespace everywhere")


@needs_root
def test_a_number_from_inside_is_translated(inside: Process) -> None:
    """Number 1 is another process here; taken for that one the session would be dead."""
    assert inner_pid(inside.pid) == 1
    assert HOLDER.process_of(entry(1, inside.started, ago_seconds=0)) == inside


@needs_root
def test_one_who_came_after_the_last_pass_is_found(inside: Process) -> None:
    """What was seen before he was started says nothing about him; what was seen after does, and is not sought again."""
    holder = EntryProcessResolver(time.time)
    gone = entry(proc.PID_MAX, 1)
    assert proc.state_of(holder.process_of(gone)) is ProcessState.DEAD
    assert holder.process_of(entry(1, inside.started)) == inside


def test_a_process_of_this_host_stays_itself_and_a_dead_one_dead(tmp_path: Path) -> None:
    """The registry's own claim holds: a file without its process is a death."""
    with stand_in(tmp_path) as child:
        client = proc.identify(child.pid)
        assert client is not None
        assert HOLDER.process_of(entry(client.pid, client.started)) == client
    age_seconds = proc.age_seconds(client)
    gone = HOLDER.process_of(entry(proc.PID_MAX, client.started, ago_seconds=age_seconds))
    assert proc.state_of(gone) is ProcessState.DEAD


def test_a_process_that_is_not_the_client_is_not_believed() -> None:
    """The first process, this one, one that started it, and any other program: each is refused by its reason."""
    refused = {1: "first process", os.getpid(): "is Wakeful", os.getppid(): "started Wakeful"}
    with subprocess.Popen(("sleep", "1000")) as other:
        refused[other.pid] = "does not run claude"
        try:
            for pid, words in refused.items():
                process = proc.identify(pid)
                assert process is not None
                with pytest.raises(ValueError, match=words):
                    HOLDER.process_of(entry(pid, process.started))
        finally:
            other.kill()


@needs_root
def test_another_users_client_is_not_believed() -> None:
    """Its files may name it; it is not ours to watch or to end."""
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen((_sleeping_claude(Path(folder)), "1000"), user=65534) as other,
    ):
        try:
            process = wait_for(lambda: proc.identify(other.pid), "process")
            wait_for(lambda: user_of(other.pid) == 65534 or None, "other user")
            with pytest.raises(ValueError, match="another user"):
                HOLDER.process_of(entry(process.pid, process.started))
        finally:
            other.kill()


def _sleeping_claude(folder: Path) -> str:
    """A program that every user may run, with the client's name."""
    folder.chmod(0o755)
    return shutil.copy("/bin/sleep", str(folder / "claude"))


def test_a_client_with_another_conversation_in_its_arguments_is_not_believed(tmp_path: Path) -> None:
    """Without a terminal it keeps the conversation it was started with; in a terminal a person can change it."""
    conversation = str(uuid4())
    for words, held in (
        (("-p", "--session-id", conversation), False),
        (("--session-id", conversation), True),
    ):
        with stand_in(tmp_path, *words) as child:
            process = proc.identify(child.pid)
            assert process is not None
            own = RegistryEntry(process.pid, conversation, str(process.started))
            assert HOLDER.process_of(own) == process
            if held:
                assert HOLDER.process_of(entry(process.pid, process.started)) == process
                continue
            with pytest.raises(ValueError, match="another conversation"):
                HOLDER.process_of(entry(process.pid, process.started))


def test_times_of_another_machine_are_not_believed() -> None:
    """Written just now by a process that starts, by this clock, in a year: not one to call dead."""
    with pytest.raises(ValueError, match="another machine"):
        HOLDER.process_of(entry(proc.PID_MAX, 10**10, ago_seconds=0))


def test_a_file_from_before_the_boot_is_believed() -> None:
    """The process of that time is gone, whatever its numbers were."""
    uptime_seconds = proc.age_seconds(Process(1, 0, boot_id()))
    old = entry(proc.PID_MAX, 10**9, ago_seconds=uptime_seconds + HOUR_SECONDS)
    assert proc.state_of(HOLDER.process_of(old)) is ProcessState.DEAD
