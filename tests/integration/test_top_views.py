"""The other views of `wakeful top` by Textual's pilot: decisions, incidents, agents, events, and what is ordered there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from support.healing_fixture import HealingFixture
from support.page_fixture import MorningFixture, hub_of_three, play as play_morning
from support.supervisor_fixture import HttpFixture, open_http_fixture
from support.tui_pilot import becomes, greens, running_top, screen, until, utc
from wakeful.tui.dialogs import ConfirmDialog, KeysDialog

pytestmark = pytest.mark.usefixtures(utc.__name__)
__all__ = ["utc"]
SIZE = (100, 30)
VIEWS = {"2": "decisions", "3": "incidents", "4": "agents", "5": "events"}


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[HttpFixture]:
    clinic = HealingFixture(burst=1_000_000)
    hub = hub_of_three(clinic)
    with open_http_fixture(tmp_path, clinic) as opened:
        play_morning(opened, MorningFixture(clinic, tmp_path), hub)
        yield opened


async def shows(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: text in screen(pilot.app))


async def test_every_view_is_as_it_was_looked_at(doors: HttpFixture) -> None:
    """A number opens each, another one the next; `1` is back at the sessions, and `?` has all keys."""
    async with running_top(doors, SIZE) as (app, pilot):
        for key, name in VIEWS.items():
            await pilot.press(key)
            await shows(pilot, f" {name.capitalize()}  ")
            await becomes(pilot, name)
        await pilot.press("1")
        await until(pilot, lambda: "STATE" in screen(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, KeysDialog))
        await shows(pilot, "STATE")
        await becomes(pilot, "keys")


async def test_a_checkpoint_is_answered(doors: HttpFixture) -> None:
    """What each choice leads to is read first; after a yes it is gone from the list, and top reports the result."""
    async with running_top(doors, SIZE) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: " Decisions  2" in screen(app))
        await pilot.press("down", "x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("n")
        await until(pilot, lambda: not isinstance(app.screen, ConfirmDialog))
        assert " Decisions  2" in screen(app)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: " Decisions  1" in screen(app))


async def test_a_view_loses_its_colours_with_the_link(doors: HttpFixture) -> None:
    """It says from when it is, and orders of the hidden list are out of reach behind it."""
    async with running_top(doors, SIZE) as (app, pilot):
        await pilot.press("4")
        await until(pilot, lambda: "docs" in screen(app))
        assert greens(app)
        await pilot.press("m")
        assert not isinstance(app.screen, ConfirmDialog)
        doors.stop()
        await until(pilot, lambda: "Connection lost. Last update" in screen(app))
        assert not greens(app)
