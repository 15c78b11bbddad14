"""Waits until an event is set, a deadline comes or a task fails, whichever is first."""

import asyncio
from collections.abc import Sequence
from typing import Any

from wakeful.core.clock import Clock


async def wait_for_event_or_deadline(clock: Clock, event: asyncio.Event, due_awake: float | None) -> None:
    """Return once the event is set, or at this awake time; None: only for the event."""
    waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait())]
    if due_awake is not None:
        waiting.append(asyncio.ensure_future(clock.sleep_until(due_awake)))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


async def wait_for_end_or_failure(tasks: Sequence[asyncio.Task[None]], ended: asyncio.Event) -> None:
    """Return once `ended` is set. Only a failure ends one of the tasks early: raises it."""
    waiting = asyncio.create_task(ended.wait())
    try:
        done, _ = await asyncio.wait((*tasks, waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            task.result()
    finally:
        waiting.cancel()
