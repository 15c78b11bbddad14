"""`wakeful top` by Textual's pilot against the real doors. WAKEFUL_SCREENS=write keeps new screens: look at them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.supervisor_fixture import (
    HttpFixture,
    SupervisorFixture,
    add_sample_sessions,
    open_http_fixture,
    subject,
)
from support.tui_pilot import LOW, becomes, greens, running_top, screen, until, utc
from wakeful.client.async_client import AsyncDaemonClient
from wakeful.client.errors import RequestDeclined
from wakeful.core.ids import ConversationId
from wakeful.core.managed_session import ManagedSession
from wakeful.judging.events import CallStarted, Prompted, QuestionAsked
from wakeful.tui.app import TopApp
from wakeful.tui.commands import ActionRequest, approved_again
from wakeful.tui.dialogs import ChoiceDialog, ConfirmDialog

pytestmark = pytest.mark.usefixtures(utc.__name__)
__all__ = ["utc"]


@pytest.fixture
def house() -> SupervisorFixture:
    house = SupervisorFixture()
    add_sample_sessions(house)
    house.clock.advance(150.0)
    return house


@pytest.fixture
def doors(tmp_path: Path, house: SupervisorFixture) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path, house) as opened:
        yield opened


def chosen(app: TopApp) -> str:
    record = app.table.selected
    return record.id.removeprefix("claude-") if record is not None else ""


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 45), (60, 14)])
async def test_the_screen_is_as_it_was_looked_at(doors: HttpFixture, width: int, height: int) -> None:
    """Wide, narrow and low: sessions that need you first, and the details of the chosen one."""
    async with running_top(doors, (width, height)) as (app, pilot):
        await pilot.press("down", "down")
        # Low screens have no room for details.
        await until(pilot, lambda: height < LOW or "died in the middle of `make test`" in screen(app))
        await becomes(pilot, f"{width}x{height}")


async def test_the_key_bar_shows_whole_keys_only(doors: HttpFixture) -> None:
    """At 120 columns and at others, also after the terminal changed; the first keys stay."""
    async with running_top(doors, (120, 40)) as (app, pilot):
        for width in (120, 97, 60, 140):
            await pilot.resize_terminal(width, 40)
            await until(pilot, partial(keys_fill, app, width))
            assert screen(app).splitlines()[-1].startswith(" ↵ Attach  s Send  y Answer")


def keys_fill(app: TopApp, width: int) -> bool:
    """Whether the last key ends on the screen, with no room for the longest one, `3 Incidents`."""
    ends = [key.region.right for key in app.query("FooterKey")]
    return bool(ends) and width - 14 < max(ends) <= width


async def test_changes_come_by_themselves_and_the_cursor_stays(doors: HttpFixture) -> None:
    """A session that asks moves to the top; the cursor stays on its session."""
    async with running_top(doors) as (app, pilot):
        await pilot.press("down")
        await until(pilot, lambda: chosen(app) == "failed")
        doors.call(lambda: doors.house.clock.advance(5.0))
        doors.call(lambda: doors.house.ask("done", "Bash: make deploy"))
        await until(pilot, lambda: "make deploy" in screen(app))
        assert (chosen(app), app.table.row_number) == ("failed", 2)
        doors.call(lambda: (doors.house.start("new", project="fresh"), None)[1])
        await until(pilot, lambda: "fresh" in screen(app))


async def test_a_session_whose_log_is_deleted_leaves_at_once(doors: HttpFixture) -> None:
    async with running_top(doors) as (app, pilot):
        await until(pilot, lambda: len(app.session_list) > 1)
        count = len(app.session_list)
        gone = next(each.id for each in app.session_list.rows if not each.session_alive)
        doors.call(partial(doors.house.supervisor.on_log_deleted, gone))
        await until(pilot, lambda: len(app.session_list) == count - 1)
        assert gone not in {each.id for each in app.session_list.rows}


async def test_only_the_selected_session_is_read_and_only_after_a_change(
    doors: HttpFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked about the others, nor while nothing happens."""
    asked: list[str] = []

    async def get(self: AsyncDaemonClient, target: str, seconds: float) -> bytes:
        asked.append(target.split("/")[3])
        return await original(self, target, seconds)

    original = AsyncDaemonClient.get
    monkeypatch.setattr(AsyncDaemonClient, "get", get)
    async with running_top(doors, (160, 45)) as (app, pilot):
        await until(pilot, lambda: bool(asked))
        # The first list and its changes.
        await pilot.pause(0.5)
        asked.clear()
        doors.call(lambda: doors.house.clock.advance(5.0))
        doors.call(lambda: doors.house.ask("done", "Bash: make deploy"))
        await until(pilot, lambda: "make deploy" in screen(app))
        await pilot.pause(0.5)
        assert asked == []
        assert chosen(app) == "asking"
        doors.call(lambda: doors.house.ask("asking", "Bash: make deploy"))
        await until(pilot, lambda: asked == ["claude-asking"])


async def test_n_jumps_to_the_next_who_needs_somebody(doors: HttpFixture) -> None:
    """And from the last to the first."""
    async with running_top(doors) as (app, pilot):
        seen = []
        for _ in range(4):
            seen.append(chosen(app))
            await pilot.press("n")
        assert seen == ["asking", "failed", "killed", "asking"]
        await pilot.press("G")
        assert chosen(app) == "done"


async def test_who_has_a_name_is_called_by_it(doors: HttpFixture) -> None:
    """Six agents of one project would else be six equal rows where there is no room for both."""
    working = subject("working").id
    managed = ManagedSession(
        working, ConversationId("working"), "tmux", "/home/me/shop", ("claude",), 1, 0.0, name="fox"
    )
    doors.call(lambda: doors.house.supervisor.manage(working, managed))
    async with running_top(doors) as (app, pilot):
        await until(pilot, lambda: "● fox " in screen(app))
        await pilot.resize_terminal(200, 45)
        await until(pilot, lambda: "2m shop" in screen(app))


async def test_a_filter_narrows_and_escape_ends_it(doors: HttpFixture) -> None:
    """What fits is counted; what does not is a keystroke away."""
    async with running_top(doors) as (app, pilot):
        await pilot.press("slash", *"bank")
        await until(pilot, lambda: "filter: bank (2 match)" in screen(app))
        assert screen(app).splitlines()[-1].split() == ["↵", "Keep", "Esc", "Show", "all"]
        await pilot.press("enter", "down")
        await until(pilot, lambda: chosen(app) == "failed")
        await pilot.press("slash", *"xyz")
        await until(pilot, lambda: "No session matches the filter. Escape shows all 5." in screen(app))
        await pilot.press("escape")
        await until(pilot, lambda: (len(app.session_list.rows), "filter" in screen(app)) == (5, False))


async def test_a_lost_link_is_said_and_nothing_stays_green(tmp_path: Path, house: SupervisorFixture) -> None:
    """The words, then grey everywhere; the same link comes back by itself."""
    with open_http_fixture(tmp_path, house) as doors:
        async with running_top(doors) as (app, pilot):
            assert greens(app)
            doors.stop()
            await until(pilot, lambda: "Connection lost" in screen(app))
            await becomes(pilot, "lost")
            assert not greens(app)
            with open_http_fixture(tmp_path, house):
                await until(pilot, lambda: "· live" in screen(app))
                assert greens(app)


async def test_an_order_is_asked_about_first(doors: HttpFixture) -> None:
    """`n` does nothing, Enter says neither; `y` does it, and top reports the result."""
    async with running_top(doors) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await becomes(pilot, "question")
        await pilot.press("enter")
        assert isinstance(app.screen, ConfirmDialog)
        await pilot.press("n")
        await until(pilot, lambda: not isinstance(app.screen, ConfirmDialog))
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert doors.house.calm.mutes(doors.house.clock.now().wall) == ()
        await pilot.press("y")
        await until(pilot, lambda: "muted until" in screen(app))
        (mute,) = doors.house.calm.mutes(doors.house.clock.now().wall)
        assert mute.value == subject("asking").id


async def test_what_a_record_does_not_offer_is_refused_at_once(doors: HttpFixture) -> None:
    """A session that was only found is not for Wakeful to stop: top says why, and asks nothing."""
    async with running_top(doors) as (app, pilot):
        for key in ("x", "r", "s"):
            await pilot.press(key)
            await until(pilot, lambda: "not managed by Wakeful" in screen(app))
            assert not isinstance(app.screen, ConfirmDialog)


async def test_a_session_is_handed_over_and_taken_back(doors: HttpFixture) -> None:
    """One key for both, each asked about first; what can be done about it follows its record."""
    async with running_top(doors) as (app, pilot):
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: "the session is managed now" in screen(app))
        doors.call(doors.house.settle)
        await until(pilot, lambda: bool(app.table.selected and app.table.selected.managed))
        await pilot.press("r")
        await until(pilot, lambda: "nothing is wrong" in screen(app))
        await pilot.press("a")
        await until(pilot, lambda: "Release" in screen(app))
        await pilot.press("y")
        await until(pilot, lambda: "the session is watched only now" in screen(app))


async def test_a_wrong_verdict_is_told_by_its_number(doors: HttpFixture) -> None:
    """Escape tells nothing; a number says what should have been said, and what came of it is shown."""
    async with running_top(doors) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, ChoiceDialog))
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.press("3")
        # This house keeps none.
        await until(pilot, lambda: "Saving a case needs the daemon" in screen(app))


async def test_what_is_held_says_so_and_asks_whether_somebody_looked(
    doors: HttpFixture, house: SupervisorFixture
) -> None:
    """The reason stands with the session; `r` asks a question of its own, and only its yes goes on."""

    process = doors.call(lambda: house.start("pushed"))
    doors.run(house.hands.adopt("pushed"))
    doors.call(lambda: house.work("pushed", "git push origin main"))
    doors.call(lambda: house.end(process))
    async with running_top(doors, (160, 45)) as (app, pilot):
        await pilot.press("slash", *"pushed", "enter")
        await until(pilot, lambda: "resume: an interrupted call" in screen(app))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert "Did you check the interrupted call? Resume the session?" in screen(app)
        await pilot.press("escape")


def test_a_held_session_is_revived_after_a_second_yes() -> None:
    """The daemon refuses without approval; the view asks for it, once."""
    order = ActionRequest("/api/sessions/x/revive", "?", "", {"approved": False, "by": "me"})
    held = RequestDeclined(detail="held", problem={"code": "held-for-person"})
    again = approved_again(order, held)
    assert again is not None
    assert again.body == {"approved": True, "by": "me"}
    assert approved_again(again, held) is None
    assert approved_again(order, RequestDeclined(detail="no", problem={"code": "not-managed"})) is None


async def test_what_agents_write_stays_text(doors: HttpFixture) -> None:
    """Neither commands to terminals nor Wakeful's markup come through, in rows and details."""
    hostile = "\x1b]0;owned\x07[red]x[/red] \x1b[2J\u202e[/]\n\x9b31m$accent"
    at = doors.house.clock.now().wall
    call = CallStarted(at, "c", f"Bash{hostile}", input=b'{"command": "[bold]\\u001b[31m y"}')
    doors.call(lambda: doors.house.hear("done", Prompted(at), call, QuestionAsked(at, hostile)))
    async with running_top(doors, (160, 45)) as (app, pilot):
        await until(pilot, lambda: "[red]x[/red]" in screen(app))
        await pilot.press("slash", *"done", "enter")
        await until(pilot, lambda: "[bold]" in screen(app))
        shown = screen(app).replace("\n", "")
        assert shown.isprintable()
        assert "\u202e" not in shown


def has_size(app: TopApp, width: int, height: int) -> bool:
    return app.size == (width, height)


async def test_it_resizes(doors: HttpFixture) -> None:
    """From narrow to wide and down to almost nothing, with the cursor in sight."""
    async with running_top(doors) as (app, pilot):
        await pilot.press("G")
        for width, height in ((160, 45), (40, 10), (20, 6), (80, 24)):
            await pilot.resize_terminal(width, height)
            await until(pilot, partial(has_size, app, width, height))
        await until(pilot, lambda: "? Keys" in screen(app))
        assert chosen(app) == "done"
