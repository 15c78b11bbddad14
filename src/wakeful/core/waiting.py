"""Waits for an event or a deadline, and runs coroutines beside a body."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from wakeful.core.clock import Clock

T = TypeVar("T")


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


async def first_of(*coroutines: Coroutine[Any, Any, T]) -> T:
    """Run these until one of them ends, and cancel the others; its result. If two end together, the first counts."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these beside the body, and cancel them at its end.

    If one of them fails, the body and the others are cancelled, and its error is raised. The error of a body is raised
    as it is. All other errors go to the loop's exception handler, which logs them.
    """
    raised: BaseException | None = None
    is_over = False
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            try:
                yield
            except Exception as error:
                raised = error
                raise
            is_over = True
            for task in tasks:
                task.cancel()
    except ExceptionGroup as errors:
        if raised is None and not is_over:
            raised = errors.exceptions[0]
        loop = asyncio.get_running_loop()
        for other in errors.exceptions:
            if other is not raised:
                loop.call_exception_handler({"message": "a task failed while it ended", "exception": other})
    # Outside the handler, so that the error keeps its own cause.
    if raised is not None:
        raise raised
