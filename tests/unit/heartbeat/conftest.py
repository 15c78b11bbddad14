"""What tests of heartbeats share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.heartbeat_fixture import HeartbeatFixture, opened


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[HeartbeatFixture]:
    async with opened(tmp_path) as house:
        yield house
