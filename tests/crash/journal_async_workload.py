"""The same in a loop: every word of the journal is written by one other thread, which can be killed at any point.

    python journal_async_workload.py ROOT PORT

It writes `opened` and `finished` as `journal_workload` does. Its steps are of the kinds that differ in a loop.
"""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crash.journal_workload import asked, client
from wakeful.journal.api import Journal, JournalHeld

ASYNC_WORKLOAD = Path(__file__)
ASYNC_STEPS = ("draft", "build", "reserve", "notify", "deploy")
ASYNC_EFFECTS = ("reserve", "notify", "deploy")


async def work_async(root: Path, port: int) -> None:
    """The program. Raises JournalHeld while a person has to decide."""
    # One thread: its calls are counted one after the other.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with await Journal.open(root, kind="batch", steps=ASYNC_STEPS) as journal:
        os.write(2, b"opened\n")
        for name in ASYNC_STEPS:
            if not journal.is_completed(name):
                await _run(journal, name, port)
        os.write(2, b"finished\n")


async def _run(journal: Journal, name: str, port: int) -> None:
    key = f"{name}-{journal.trace_id}"
    if name == "draft":
        async with journal.step(name, effects="local", temp=["page.tmp"]):
            (journal.root / "page.tmp").write_text("page")
            (journal.root / "page.tmp").rename(journal.root / "page")
    elif name == "build":
        argv = ["sh", "-c", "echo a >>b.tmp; echo b >>b.tmp; mv b.tmp b"]
        await journal.run_async(argv, step=name, effects="local", temp=["b.tmp"])
    elif name == "reserve":
        async with journal.step(name, effects="remote", key=key):
            assert await asyncio.to_thread(asked, port, "POST", name, key) == 200
    elif name == "notify":
        async with journal.step(name, effects="remote"):
            assert await asyncio.to_thread(asked, port, "POST", name) == 200
    else:
        await journal.run_async(client(port, "POST", name, key), step=name, effects="remote", key=key)


if __name__ == "__main__":
    try:
        asyncio.run(work_async(Path(sys.argv[1]), int(sys.argv[2])))
    except JournalHeld as held:
        sys.stderr.write(f"{held}\n")
        sys.exit(1)
