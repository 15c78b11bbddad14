"""Fixtures of every suite: a Wakeful of one's own, in a home of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons import RunningDaemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningDaemon]:
    """A real `wakeful up` in an empty home; ended afterwards, and it must end by itself when asked."""
    running = RunningDaemon(tmp_path / "wakeful")
    try:
        yield running
    finally:
        running.end()
