"""Row "store": ten thousand transitions stored and read back, against a bare loop over the same rows."""

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from bench.peers import BareRow, bare_loop
from bench.room import Room
from wakeful.core.ids import SessionId
from wakeful.sessions.transition_writer import BATCH_MAX
from wakeful.storage.base import Transition
from wakeful.storage.sqlite.store import SqliteStore

ROW: Final = "store"
TRANSITIONS: Final = 10_000
# What a record of a working session has.
RECORD_BYTES: Final = 1_200


def measure(stage: Stage) -> list[Figure]:
    transitions = [_transition(number) for number in range(TRANSITIONS)]
    rows = [_bare(each) for each in transitions]
    ours, bare = [], []
    with Room() as room:
        for number in range(stage.scale.repeats + 2):
            bare.append(_seconds_of_bare(room.path / f"bare-{number}.db", rows))
            ours.append(asyncio.run(_seconds_of_store(room.path / f"store-{number}.db", transitions)))
    measured = (
        f"{TRANSITIONS:,} transitions stored and readable: {milliseconds(median(ours))}; "
        f"a bare loop, 1,000 rows per commit: {milliseconds(median(bare))}"
    )
    return [Figure(ROW, measured, median(ours) / median(bare), 4.0)]


async def _seconds_of_store(path: Path, transitions: list[Transition]) -> float:
    store = await SqliteStore.open(path)
    try:
        began = time.perf_counter()
        for at in range(0, TRANSITIONS, BATCH_MAX):
            await store.record(transitions[at : at + BATCH_MAX])
        last = await store.transitions(after=TRANSITIONS - 1)
        seconds = time.perf_counter() - began
    finally:
        await store.close()
    assert [each.seq for each in last] == [TRANSITIONS], "what was stored is readable"
    return seconds


def _seconds_of_bare(path: Path, rows: list[BareRow]) -> float:
    began = time.perf_counter()
    bare_loop(path, rows, per_commit=BATCH_MAX)
    return time.perf_counter() - began


def _transition(number: int) -> Transition:
    record = msgspec.json.encode({"filler": "x" * RECORD_BYTES})
    # Each session changes a few times.
    session_id = SessionId(f"claude-{number % 2500:032d}")
    return Transition(
        session_id, float(number), "idle", "prompting", "healthy", "healthy", "prompting", record
    )


def _bare(each: Transition) -> BareRow:
    return (
        str(each.session_id),
        each.at,
        each.old_state,
        each.new_state,
        each.old_health,
        each.new_health,
        each.reason,
        each.record,
    )
