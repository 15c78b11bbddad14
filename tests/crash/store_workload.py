"""A fixed sequence of store operations, as a program of its own that can be killed at any point of it.

    python store_workload.py steps|crowd|migrate DATABASE

It says `done N` on standard output once operation N was acknowledged, and `failed N CODE` when it was refused.
What a store must then hold is known from the same steps run on a MemoryStore.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import LeaseKey, WorkId, WorkItem
from wakeful.storage.base import ActionOutcome, Bookmark, Conclusion, Intent, Note, Store, Transition
from wakeful.storage.sqlite.database import MIGRATIONS, Migration, open_database
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.testing.memory_store import MemoryStore

Step = Callable[[Store], Awaitable[Any]]
RunWorkload = Callable[..., "CompletedProcess[str]"]
WORKLOAD = Path(__file__)

A, B, C = (parse_session_id(each) for each in "abc")
CROWD = 40
# The store's clock stands still: what it holds can be compared.
CLOCK = 1000.0
# What a later version of Wakeful might bring: one new table, one changed one.
NEXT_MIGRATION = Migration(
    MIGRATIONS[-1].version + 1, "CREATE TABLE later (id TEXT);\nALTER TABLE notes ADD COLUMN later TEXT;\n"
)


def change(session_id: SessionId, at: float, text: str) -> Transition:
    return Transition(session_id, at, "idle", "prompting", "unknown", "healthy", text, text.encode() * 200)


def bookmarks(offset: int) -> list[Bookmark]:
    return [Bookmark(f"/logs/{each}.jsonl", 1, offset, b"h", 1, b"f" * 100) for each in range(3)]


def work(number: int, **rest: Any) -> WorkItem:
    return WorkItem(WorkId(f"w-{number}"), "shop", "mend it " * 200, A, "", CLOCK, **rest)


# Each step changes more than one row where its operation can, so that a half would show.
STEPS: Sequence[Step] = (
    lambda store: store.record([change(A, 1, "1a"), change(B, 1, "1b"), change(A, 2, "1c")]),
    lambda store: store.record([change(A, 3, "2"), change(C, 3, "2")]),
    lambda store: store.save_intent(Intent("i1", A, "stop", b"{}", 4.0)),
    lambda store: store.save_bookmarks(bookmarks(10)),
    lambda store: store.save_conclusion(Conclusion("i1", ActionOutcome.CONFIRMED, "alive", 5.0)),
    lambda store: store.save_intent(Intent("i2", B, "stop", b"{}", 6.0)),
    lambda store: store.save_note(Note("mute", "a", b"1")),
    lambda store: store.record([change(C, 7, f"3-{each}") for each in range(30)]),
    lambda store: store.forget([B, C]),
    lambda store: store.prune(3.0),
    lambda store: store.save_bookmarks(bookmarks(20)),
    lambda store: store.record([change(B, 8, "4")]),
    lambda store: store.enqueue(work(1, attempts_max=3)),
    lambda store: store.claim_next_run("first"),
    lambda store: store.fail_run(WorkId("w-1"), 1, "no network"),
    lambda store: store.claim_next_run("second", ttl_seconds=0.0),
    lambda store: store.expire_runs(),
    lambda store: store.claim_next_run("third"),
    lambda store: store.heartbeat_run_lease(WorkId("w-1"), 3, 120.0),
    lambda store: store.complete_run(WorkId("w-1"), 3, "done"),
    lambda store: store.claim_lease(LeaseKey(A), "fourth"),
    lambda store: store.yield_lease(LeaseKey(A), 4),
)
# Those whose answer says that they also survive power loss.
DURABLE_STEPS: Sequence[int] = (3, 5, 6, 7, 13, 14, 15, 16, 17, 18, 20, 21)


def stopped_clock() -> float:
    return CLOCK


def every(points: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each reach of each point, numbered as a fault wants it."""
    seen: Counter[str] = Counter()
    for point in points:
        seen[point] += 1
        yield point, seen[point]


async def contents(store: Store) -> list[list[Any]]:
    """All a store holds, to be compared."""
    return [
        await store.sessions(),
        await store.transitions(),
        await store.notes("mute"),
        sorted(await store.bookmarks(), key=lambda each: each.path),
        await store.open_intents(),
        await store.works(),
        await store.attempts(WorkId("w-1")),
        await store.leases(),
    ]


def contents_after(numbers: Collection[int]) -> list[list[Any]]:
    """What a store holds when the steps of these numbers were stored and no other."""

    async def run() -> list[list[Any]]:
        store = MemoryStore(now=stopped_clock)
        for number, step in enumerate(STEPS, 1):
            if number in numbers:
                await step(store)
        return await contents(store)

    return asyncio.run(run())


def contents_of(path: Path) -> list[list[Any]]:
    """What the database at `path` holds, opened as the program would and closed again."""

    async def run() -> list[list[Any]]:
        store = await SqliteStore.open(path, now=stopped_clock)
        try:
            return await contents(store)
        finally:
            await store.close()

    return asyncio.run(run())


def crowd_member(number: int) -> list[Transition]:
    """What one of many concurrent callers records: a session of its own."""
    return [change(parse_session_id(f"crowd-{number}"), float(each), f"{number}-{each}") for each in range(3)]


async def _attempt(number: int, operation: Awaitable[Any]) -> None:
    try:
        await operation
        _say(f"done {number}")
    except WorldError as error:
        _say(f"failed {number} {error.code}")


async def run_steps(path: Path) -> None:
    store = await SqliteStore.open(path, now=stopped_clock)
    for number, step in enumerate(STEPS, 1):
        await _attempt(number, step(store))
    await store.close()


async def _crowd(path: Path) -> None:
    store = await SqliteStore.open(path, now=stopped_clock)
    await asyncio.gather(*(_attempt(each, store.record(crowd_member(each))) for each in range(CROWD)))
    await store.close()


async def _migrate(path: Path) -> None:
    for connection in open_database(path, [*MIGRATIONS, NEXT_MIGRATION]):
        with closing(connection):
            _say("done 0")


def _say(line: str) -> None:
    # Not through a buffer: what was said must stand when the process is killed next.
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main(mode: str, database: Path) -> None:
    asyncio.run({"steps": run_steps, "crowd": _crowd, "migrate": _migrate}[mode](database))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
