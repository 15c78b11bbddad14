"""`wakeful top` by Textual's pilot against the real doors. WAKEFUL_SCREENS=write keeps new screens: look at them."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from desks import Doors, House, furnish, open_doors, subject
from wakeful.domain.events import Asked, CallStarted, Prompted
from wakeful.interfaces.tui.app import TopApp
from wakeful.interfaces.tui.asking import Question
from wakeful.places import Places

SCREENS = Path(__file__).parent / "top_screens"
SECONDS_MAX = 10.0
Scene = Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def house() -> House:
    house = House()
    furnish(house)
    house.clock.advance(150.0)
    return house


@pytest.fixture
def doors(tmp_path: Path, house: House) -> Iterator[Doors]:
    with open_doors(tmp_path, house) as opened:
        yield opened


def play(doors: Doors, scene: Scene, size: tuple[int, int] = (80, 24)) -> None:
    """The view against these doors, once it is live."""

    async def run() -> None:
        app = TopApp(Places(str(doors.path.parent)), now=lambda: doors.house.clock.now().wall)
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(pilot, lambda: "· live" in screen(app) and "host" in screen(app))
            await scene(app, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not seen():
        assert time.monotonic() < deadline, screen(pilot.app)
        await pilot.pause(0.02)


def screen(app: Any) -> str:
    """What stands on it, without colours."""
    strips = app.screen._compositor.render_strips(app.size)
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def greens(app: Any) -> set[str]:
    """Every colour on it that a person would call green."""
    strips = app.screen._compositor.render_strips(app.size)
    styles = {segment.style for strip in strips for segment in strip if segment.style}
    found = [style.color.get_truecolor() for style in styles if style.color is not None]
    return {each.hex for each in found if each.green > each.red + 20 and each.green > each.blue + 20}


def chosen(app: TopApp) -> str:
    record = app.table.chosen
    return record.id.removeprefix("claude-") if record is not None else ""


def is_kept(name: str, shown: str) -> None:
    path = SCREENS / f"{name}.txt"
    if os.environ.get("WAKEFUL_SCREENS") == "write":
        path.write_text(f"{shown}\n")
    assert shown == path.read_text().removesuffix("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 45), (60, 14)])
def test_the_screen_is_as_it_was_looked_at(doors: Doors, width: int, height: int) -> None:
    """Wide, narrow and low: who needs somebody first, and what is known of the chosen one."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down")
        # Low screens have no room for details.
        await until(pilot, lambda: height < 18 or "died in the middle of `make test`" in screen(app))
        await pilot.pause(0.1)
        is_kept(f"{width}x{height}", screen(app))

    play_small = play if height >= 18 else _play_low
    play_small(doors, scene, (width, height))


def _play_low(doors: Doors, scene: Scene, size: tuple[int, int]) -> None:
    async def run() -> None:
        app = TopApp(Places(str(doors.path.parent)), now=lambda: doors.house.clock.now().wall)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: "· live" in screen(app))
            await scene(app, pilot)

    asyncio.run(run())


def test_changes_come_by_themselves_and_the_cursor_stays(doors: Doors) -> None:
    """A session that asks moves to the top; whoever looked at another one still does."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        assert chosen(app) == "failed"
        doors.call(lambda: doors.house.clock.advance(5.0))
        doors.call(lambda: doors.house.ask("done", "Bash: make deploy"))
        await until(pilot, lambda: "make deploy" in screen(app))
        assert (chosen(app), app.table.place) == ("failed", 2)
        doors.call(lambda: (doors.house.start("new", project="fresh"), None)[1])
        await until(pilot, lambda: "fresh" in screen(app))

    play(doors, scene)


def test_n_jumps_to_the_next_who_needs_somebody(doors: Doors) -> None:
    """And from the last to the first."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        seen = []
        for _ in range(4):
            seen.append(chosen(app))
            await pilot.press("n")
        assert seen == ["asking", "failed", "killed", "asking"]
        await pilot.press("G")
        assert chosen(app) == "done"

    play(doors, scene)


def test_a_filter_narrows_and_escape_ends_it(doors: Doors) -> None:
    """What fits is counted; what does not is a keystroke away."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"bank")
        assert "filter: bank (2 fit)" in screen(app)
        await pilot.press("enter", "down")
        assert chosen(app) == "failed"
        await pilot.press("slash", *"xyz")
        assert "No session fits. 5 do not; Escape shows them." in screen(app)
        await pilot.press("escape")
        assert (len(app.board.rows), "filter" in screen(app)) == (5, False)

    play(doors, scene)


def test_a_lost_link_is_said_and_nothing_stays_green(tmp_path: Path, house: House) -> None:
    """The words, then grey everywhere; the same link comes back by itself."""
    with open_doors(tmp_path, house) as doors:

        async def scene(app: TopApp, pilot: Pilot[None]) -> None:
            assert greens(app)
            doors.stop()
            await until(pilot, lambda: "Connection lost" in screen(app))
            await pilot.pause(0.1)
            is_kept("lost", screen(app))
            assert not greens(app)
            with open_doors(tmp_path, house):
                await until(pilot, lambda: "· live" in screen(app))
                assert greens(app)

        play(doors, scene)


def test_an_order_is_asked_about_first(doors: Doors) -> None:
    """`n` does nothing, Enter says neither; `y` does it, and what came of it is said."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, Question))
        is_kept("question", screen(app))
        await pilot.press("enter")
        assert isinstance(app.screen, Question)
        await pilot.press("n")
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, Question))
        assert doors.house.calm.mutes(doors.house.clock.now().wall) == ()
        await pilot.press("y")
        await until(pilot, lambda: "muted until" in screen(app))
        (mute,) = doors.house.calm.mutes(doors.house.clock.now().wall)
        assert mute.value == subject("asking").id

    play(doors, scene)


def test_a_refusal_is_said_in_the_daemons_words(doors: Doors) -> None:
    """A session that was only found is not ours to stop."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("s", "y")
        await until(pilot, lambda: "adopt" in screen(app))

    play(doors, scene)


def test_a_held_session_is_revived_after_a_second_yes() -> None:
    """The daemon refuses without approval; the view asks for it, once."""
    from wakeful.interfaces.cli.client import Declined
    from wakeful.interfaces.tui.orders import Order, approval_of, needs_approval

    refused = Declined(detail="held", problem={"code": "held-for-person"})
    assert needs_approval(refused)
    assert not needs_approval(Declined(detail="no", problem={"code": "not-managed"}))
    order = Order("revive", "?", "", {"approved": False, "by": "me"})
    assert approval_of(order, "why").body == {"approved": True, "by": "me"}


def test_what_agents_write_stays_text(doors: Doors) -> None:
    """Neither commands to terminals nor markup of ours come through, in rows and details."""
    hostile = "\x1b]0;owned\x07[red]x[/red] \x1b[2J\u202e[/]\n\x9b31m$accent"
    at = doors.house.clock.now().wall
    call = CallStarted(at, "c", f"Bash{hostile}", input=b'{"command": "[bold]\\u001b[31m y"}')
    doors.call(lambda: doors.house.hear("done", Prompted(at), call, Asked(at, hostile)))

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "[red]x[/red]" in screen(app))
        await pilot.press("end", "home", "n")
        await pilot.pause(0.3)
        shown = screen(app).replace("\n", "")
        assert shown.isprintable()
        assert "\u202e" not in shown

    play(doors, scene)


def test_it_resizes(doors: Doors) -> None:
    """From narrow to wide and down to almost nothing, with the cursor in sight."""

    async def scene(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        for width, height in ((160, 45), (40, 10), (20, 6), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.pause(0.05)
            assert app.size == (width, height)
        await until(pilot, lambda: "q Quit" in screen(app))
        assert chosen(app) == "done"

    play(doors, scene)
