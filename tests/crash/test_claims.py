"""Who runs what, among real processes on one file: races, owners frozen past their lease, owners killed."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash.claim_worker import WORKER
from wakeful.core.ids import parse_session_id
from wakeful.core.leases import AttemptState, Run, WorkId, WorkItem, WorkState
from wakeful.linux.clock import SystemClock
from wakeful.storage.sqlite.store import SqliteStore

WORKS = 2000
PROCESSES = 8
# Fewer than processes: most of them find the conversation they want taken.
CONVERSATIONS = 4
RACE_SECONDS_MAX = 60


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "wakeful.db"


def work(number: int, attempts_max: int = 1) -> WorkItem:
    conversation = parse_session_id(f"claude-{number % CONVERSATIONS}")
    return WorkItem(
        WorkId(f"w-{number}"), "shop", "mend it", conversation, "", 1.0, attempts_max=attempts_max
    )


async def stored(database: Path, *works: WorkItem) -> SqliteStore:
    store = await SqliteStore.open(database)
    await asyncio.gather(*(store.enqueue(each) for each in works))
    return store


async def lease_ended(store: SqliteStore) -> None:
    """Until the one lease there is has ended, by the clock of its store."""
    (lease,) = await store.leases()
    await asyncio.sleep(max(0.0, lease.expires_at - SystemClock().now().wall))


async def expired(store: SqliteStore) -> Run:
    """The one run whose lease ends next, once it has."""
    await lease_ended(store)
    (run,) = await store.expire_runs()
    return run


@contextmanager
def holder(database: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has claimed the only run and waits for the order to complete it."""
    argv = [sys.executable, str(WORKER), "hold", str(database), "holder"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "claimed w-0 1\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_two_thousand_races_have_one_winner_each(database: Path, tmp_path: Path) -> None:
    """Eight processes claim and complete 2,000 works: no conversation has two owners, every late write is fenced."""
    asyncio.run(_fill(database))
    marks = tmp_path / "marks"
    marks.mkdir()
    began = time.monotonic()
    said = _raced(database, marks)
    seconds = time.monotonic() - began
    assert all(said), "every process won some"
    lines = [tuple(line.split()) for each in said for line in each]
    words = Counter(line[0] for line in lines)
    assert words["double"] == 0
    claims = Counter(_epoch_of(line) for line in lines if line[0] == "claimed")
    assert set(claims.values()) == {1}, "an epoch of a conversation was given out twice"
    done = Counter(line[1] for line in lines if line[0] == "done")
    assert done == Counter({f"w-{each}": 1 for each in range(WORKS)})
    assert words["fenced"] >= 1
    assert words["claimed"] == words["done"] + words["fenced"]
    sys.stdout.write(
        f"{words['claimed']} claims by {PROCESSES} processes in {seconds:.1f} s: 0 double owners, "
        f"{words['fenced']} late writes fenced\n"
    )


async def _fill(database: Path) -> None:
    store = await stored(database, *(work(each, attempts_max=100) for each in range(WORKS)))
    await store.close()


def _raced(database: Path, marks: Path) -> list[list[str]]:
    """What each process said until no work was left."""
    argv = [sys.executable, str(WORKER), "race", str(database)]
    racing = [
        subprocess.Popen([*argv, f"racer-{each}", str(marks)], stdout=subprocess.PIPE, text=True)
        for each in range(PROCESSES)
    ]
    said = [each.communicate(timeout=RACE_SECONDS_MAX)[0].splitlines() for each in racing]
    assert [each.returncode for each in racing] == [0] * PROCESSES
    return said


def _epoch_of(line: tuple[str, ...]) -> tuple[int, str]:
    """Which epoch of which conversation was claimed."""
    return int(line[1].removeprefix("w-")) % CONVERSATIONS, line[2]


async def test_an_owner_frozen_past_its_lease_is_fenced(database: Path) -> None:
    """Stopped by SIGSTOP, overtaken and woken, a process changes nothing; the new owner completes."""
    store = await stored(database, work(0, attempts_max=2))
    with holder(database) as frozen:
        frozen.send_signal(signal.SIGSTOP)
        assert (await expired(store)).epoch == 1
        new = await store.claim_next_run("new")
        assert new is not None
        frozen.send_signal(signal.SIGCONT)
        assert frozen.communicate("go\n", timeout=20)[0] == "fenced\n"
    assert await store.complete_run(new.work.id, new.epoch, "in time")
    assert [(each.owner, each.state) for each in await store.attempts(new.work.id)] == [
        ("holder", AttemptState.EXPIRED),
        ("new", AttemptState.DONE),
    ]
    await store.close()


async def test_an_owner_that_is_only_slow_completes(database: Path) -> None:
    """Past its lease, without another worker, a run is still its owner's."""
    store = await stored(database, work(0))
    with holder(database) as slow:
        await lease_ended(store)
        assert slow.communicate("go\n", timeout=20)[0] == "done\n"
    found = await store.work(WorkId("w-0"))
    assert found is not None
    assert found.state is WorkState.DONE
    await store.close()


@pytest.mark.parametrize(("attempts_max", "state"), [(1, WorkState.FAILED), (2, WorkState.PENDING)])
async def test_an_owner_killed_between_claim_and_complete(
    database: Path, attempts_max: int, state: WorkState
) -> None:
    """kill -9 leaves a lease that ends by itself; the work is tried again only if a person approved that."""
    store = await stored(database, work(0, attempts_max))
    with holder(database) as killed:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    (lease,) = await store.leases()
    assert (lease.key, lease.epoch, lease.owner) == ("claude-0", 1, "holder")
    assert (await expired(store)).work.state is state
    again = await store.claim_next_run("next")
    assert (again.epoch if again is not None else None) == (2 if state is WorkState.PENDING else None)
    await store.close()
