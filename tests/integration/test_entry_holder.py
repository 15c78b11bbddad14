"""Registry files that a container wrote into this host's own folder: numbers of another namespace, and of another machine."""

import os
import subprocess
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from clients import wait_for
from wakeful.adapters.claude_code.entry_holder import EntryHolder
from wakeful.adapters.claude_code.registry import Entry
from wakeful.adapters.system import proc
from wakeful.adapters.system.namespaces import inner_pid
from wakeful.domain.process import Process, Sight

HOUR_SECONDS = 3600.0
HOLDER = EntryHolder(time.time)


def entry(pid: int, started: int, *, ago_seconds: float | None = None) -> Entry:
    started_at = None if ago_seconds is None else (time.time() - ago_seconds) * 1000
    return Entry(pid, str(uuid4()), str(started), started_at)


@pytest.fixture
def inside() -> Iterator[Process]:
    """A process that is number 1 in a namespace of its own."""
    outer = subprocess.Popen(("unshare", "--pid", "--fork", "--kill-child", "sleep", "1000"))
    try:
        above = proc.identify(outer.pid)
        assert above is not None
        yield wait_for(lambda: next(iter(proc.children(above)), None), "process in a namespace of its own")
    finally:
        outer.kill()
        outer.wait()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a namespace everywhere")


@needs_root
def test_a_number_from_inside_is_translated(inside: Process) -> None:
    """Number 1 is somebody else here, and taken for him the session would be dead."""
    assert inner_pid(inside.pid) == 1
    assert HOLDER.process_of(entry(1, inside.started, ago_seconds=0)) == inside


@needs_root
def test_one_who_came_after_the_last_pass_is_found(inside: Process) -> None:
    """What was seen before he was started says nothing about him; what was seen after does, and is not sought again."""
    holder = EntryHolder(time.time)
    gone = entry(proc.PID_MAX, 1)
    assert proc.sight(holder.process_of(gone)) is Sight.DEAD
    assert holder.process_of(entry(1, inside.started)) == inside


def test_a_process_of_this_host_stays_itself_and_a_dead_one_dead() -> None:
    """The registry's own claim holds: a file without its process is a death."""
    own = proc.identify(os.getpid())
    assert own is not None
    assert HOLDER.process_of(entry(own.pid, own.started)) == own
    age_seconds = proc.age_seconds(own)
    gone = HOLDER.process_of(entry(proc.PID_MAX, own.started, ago_seconds=age_seconds))
    assert proc.sight(gone) is Sight.DEAD


def test_times_of_another_machine_are_not_believed() -> None:
    """Written just now by somebody who starts, by our clock, in a year: nobody we could call dead."""
    with pytest.raises(ValueError, match="another machine"):
        HOLDER.process_of(entry(proc.PID_MAX, 10**10, ago_seconds=0))


def test_a_file_from_before_the_boot_is_believed() -> None:
    """Whoever ran then is gone, whatever his numbers were."""
    uptime_seconds = proc.age_seconds(Process(1, 0, proc.boot_id()))
    old = entry(proc.PID_MAX, 10**9, ago_seconds=uptime_seconds + HOUR_SECONDS)
    assert proc.sight(HOLDER.process_of(old)) is Sight.DEAD
