"""Drives `wakeful top` with Textual's pilot: the content of its screen, and approved screens.

WAKEFUL_SCREENS=write stores new ones: look at them.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from support.supervisor_fixture import HttpFixture
from wakeful.config.paths import StatePaths
from wakeful.tui.app import TopApp

SCREENS = Path(__file__).parents[1] / "integration" / "top_screens"
SECONDS_MAX = 30.0
# With fewer lines than this, only the list is shown.
LOW = 18


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stored screens show times in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@asynccontextmanager
async def running_top(
    doors: HttpFixture, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[TopApp, Pilot[None]]]:
    """The app against these servers, once it is live; a low screen shows the list only."""
    app = TopApp(StatePaths(str(doors.path.parent)), now=lambda: doors.house.clock.now().wall)
    async with app.run_test(size=size, notifications=True) as pilot:
        is_low = size[1] < LOW
        await until(pilot, lambda: "· live" in screen(app) and (is_low or "→ " in screen(app)))
        yield app, pilot


async def until(pilot: Pilot[None], seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not seen():
        assert time.monotonic() < deadline, screen(pilot.app)
        await pilot.pause(0.02)


def screen(app: Any) -> str:
    """The screen's text, without colours."""
    strips = app.screen._compositor.render_strips(app.size)
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def greens(app: Any) -> set[str]:
    """Every colour on it that a person would call green."""
    strips = app.screen._compositor.render_strips(app.size)
    styles = {segment.style for strip in strips for segment in strip if segment.style}
    found = [style.color.get_truecolor() for style in styles if style.color is not None]
    return {each.hex for each in found if each.green > each.red + 20 and each.green > each.blue + 20}


async def becomes(pilot: Pilot[None], name: str) -> None:
    """Wait until the screen equals the approved one."""
    path = SCREENS / f"{name}.txt"
    if os.environ.get("WAKEFUL_SCREENS") == "write":
        await pilot.pause(0.5)
        path.write_text(f"{screen(pilot.app)}\n")
    kept = path.read_text().removesuffix("\n")
    await until(pilot, lambda: screen(pilot.app) == kept)
