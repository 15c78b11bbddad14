"""The treatment schedule: a session that cannot be treated is logged once and tried less and less often."""

import asyncio
import logging
from itertools import pairwise

import pytest

from wakeful.core.ids import SessionId
from wakeful.healing.schedule import RETRY_SECONDS, RETRY_SECONDS_MAX, TreatmentScheduler
from wakeful.testing.virtual_clock import VirtualClock

ONE = SessionId("claude-one")


def test_a_bug_is_logged_once_and_tried_again_later_and_later(caplog: pytest.LogCaptureFixture) -> None:
    """Once it works, the next bug is logged again."""
    clock = VirtualClock()
    tried: list[float] = []
    fails = True

    async def treat(session_id: SessionId) -> None:
        tried.append(clock.now().awake)
        if fails:
            raise ValueError(session_id)

    async def scene() -> None:
        nonlocal fails
        rounds = TreatmentScheduler(clock)
        running = asyncio.create_task(rounds.run(treat))
        rounds.schedule(ONE)
        await clock.run_for(6 * RETRY_SECONDS_MAX)
        gaps = [after - before for before, after in pairwise(tried)]
        assert gaps[:3] == [RETRY_SECONDS, 2 * RETRY_SECONDS, 4 * RETRY_SECONDS]
        assert gaps[-1] == RETRY_SECONDS_MAX
        assert len(caplog.records) == 1
        fails = False
        await clock.run_for(RETRY_SECONDS_MAX)
        fails = True
        rounds.schedule(ONE)
        await clock.run_for(1)
        assert len(caplog.records) == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with caplog.at_level(logging.ERROR):
        asyncio.run(scene())
