"""Claims about coroutines that run beside a body."""

import asyncio
from typing import Any

import pytest

from wakeful.core.waiting import first_of, running


async def run_on(log: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        log.append(f"{name} ended")


async def fail() -> None:
    raise ValueError("broken")


async def test_they_run_until_the_body_ends() -> None:
    """Then they are cancelled, and have ended when the block is left."""
    log: list[str] = []
    async with running(run_on(log, "a"), run_on(log, "b")):
        await asyncio.sleep(0)
        log.append("body ended")
    assert log == ["body ended", "a ended", "b ended"]


async def test_the_first_error_ends_the_body_and_the_others() -> None:
    """It is raised as itself, after the body has cleaned up."""
    log: list[str] = []

    async def work() -> None:
        async with running(run_on(log, "a"), fail()):
            await run_on(log, "body")

    with pytest.raises(ValueError, match="broken"):
        await work()
    assert sorted(log) == ["a ended", "body ended"]


async def test_what_runs_in_an_outer_block_outlives_the_error_of_an_inner_one() -> None:
    """The cleanup of the body may still use it."""
    log: list[str] = []

    async def work() -> None:
        async with running(run_on(log, "writer")), running(fail()):
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                log.append("body ended")

    with pytest.raises(ValueError, match="broken"):
        await work()
    assert log == ["body ended", "writer ended"]


async def test_a_cancelled_body_cancels_them() -> None:
    """As when the whole program is cancelled."""
    log: list[str] = []

    async def work() -> None:
        async with running(run_on(log, "a")):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["a ended"]


@pytest.fixture
async def reported() -> list[dict[str, Any]]:
    """What asyncio's exception handler gets, which logs it."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    return found


async def fail_at_the_end() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("broken")


async def test_an_error_of_the_end_is_reported_and_not_raised(reported: list[dict[str, Any]]) -> None:
    """The body had ended well, but the error must not disappear."""
    async with running(fail_at_the_end()):
        await asyncio.sleep(0)
    [context] = reported
    assert isinstance(context["exception"], ValueError)
    assert context["message"] == "a task failed while it ended"


async def test_the_error_of_the_body_is_raised_and_one_of_the_end_reported(
    reported: list[dict[str, Any]],
) -> None:
    """The body failed first: its caller handles that error, and not one of the cleanup."""

    async def work() -> None:
        async with running(fail_at_the_end()):
            await asyncio.sleep(0)
            raise KeyError("body")

    with pytest.raises(KeyError, match="body"):
        await work()
    assert [type(each["exception"]) for each in reported] == [ValueError]


async def test_the_first_that_ends_gives_the_result_and_the_others_are_cancelled() -> None:
    """The others have ended when the result is returned."""
    log: list[str] = []

    async def answer() -> str:
        await asyncio.sleep(0)
        return "answer"

    assert await first_of(run_on(log, "a"), answer()) == "answer"
    assert log == ["a ended"]


async def test_of_two_that_end_together_the_first_counts() -> None:
    """Also if the second failed."""

    async def answer() -> str:
        return "answer"

    assert await first_of(answer(), fail()) == "answer"
    with pytest.raises(ValueError, match="broken"):
        await first_of(fail(), answer())
