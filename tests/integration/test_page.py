"""The web page in a real browser, against the real doors."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from clinics import Clinic
from desks import Doors, House, furnish, open_doors
from wakeful.domain.checkpoint import Checkpoint, CheckpointKind, Choice, ChoiceName

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

pytestmark = pytest.mark.skipif(
    shutil.which(CHROMIUM) is None and os.environ.get("CI") != "true", reason="needs Debian's chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with open_doors(tmp_path) as opened:
        yield opened


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context()
    yield opened
    opened.close()


@pytest.fixture
def page(doors: Doors, context: BrowserContext) -> Page:
    """A page that is logged in and shows the furnished house."""
    opened = open_link(doors, context)
    expect(row(opened, "working")).to_be_visible()
    return opened


def open_link(doors: Doors, context: BrowserContext, query: str = "") -> Page:
    code = doors.call(doors.access.logins.new_code)
    opened = context.new_page()
    opened.goto(f"{doors.url}/{query}#code={code}")
    return opened


def row(page: Page, name: str) -> Locator:
    return page.locator(f'tr[data-id="claude-{name}"]')


def detail(page: Page, name: str) -> Locator:
    return row(page, name).locator("xpath=following-sibling::tr[1]")


def test_a_link_logs_in_once_and_leaves_no_trace(doors: Doors, context: BrowserContext) -> None:
    """The code is gone from the address at once, and the cookie serves the next visit."""
    page = open_link(doors, context)
    expect(row(page, "working")).to_be_visible()
    assert page.url == f"{doors.url}/"
    assert page.evaluate("document.cookie") == "", "no script can read the login"
    page.go_back()
    assert "code" not in page.url
    again = context.new_page()
    again.goto(doors.url)
    expect(row(again, "working")).to_be_visible()


def test_without_a_login_the_page_says_what_to_do(doors: Doors, context: BrowserContext) -> None:
    """A stranger sees an empty shell; whoever uses a link twice is told so."""
    page = context.new_page()
    page.goto(doors.url)
    expect(page.locator("#door")).to_contain_text("wakeful open")
    assert page.locator("#board").is_hidden()
    page.goto(f"{doors.url}/?again#code=used")
    expect(page.locator("#door-text")).to_contain_text("used already")


def test_who_needs_you_comes_first(page: Page) -> None:
    """Sessions are ordered by need, and state and health are words, not colours alone."""
    ids = page.locator("tr[data-id]").evaluate_all("rows => rows.map(row => row.dataset.id)")
    assert ids == ["claude-asking", "claude-failed", "claude-killed", "claude-working", "claude-done"]
    expect(row(page, "killed")).to_contain_text("dead")
    expect(row(page, "killed")).to_contain_text("in the middle of a turn")
    expect(row(page, "asking")).to_contain_text("asks you")
    expect(page.locator("#tally")).to_contain_text("3 need you")
    expect(page.locator("#standing")).to_contain_text("Mode mine")
    assert page.title() == "(3) Wakeful"


def test_a_change_is_shown_without_asking(doors: Doors, page: Page) -> None:
    """A row changes, moves, appears and disappears as the daemon tells it."""
    expect(row(page, "working").locator(".state")).to_have_text("prompting")
    doors.call(lambda: doors.house.ask("working", "Edit: main.py"))
    expect(row(page, "working").locator(".state")).to_have_text("waiting")
    expect(row(page, "working")).to_contain_text("asks you · Edit: main.py")
    expect(page.locator("#tally")).to_contain_text("4 need you")
    doors.call(lambda: doors.house.start("newcomer"))
    expect(row(page, "newcomer")).to_contain_text("ready for a prompt")


def test_hostile_text_is_text(doors: Doors, page: Page) -> None:
    """What an agent, a folder or a question says is shown letter by letter and runs nowhere."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def attack() -> None:
        doors.house.start("hostile", project=HOSTILE.replace("/", ""))
        doors.house.ask("hostile", HOSTILE)

    doors.call(attack)
    expect(row(page, "hostile")).to_contain_text("<img src=x onerror=")
    row(page, "hostile").locator(".doing").click()
    expect(detail(page, "hostile").locator(".untrusted")).to_contain_text("<script>")
    assert page.locator("img[src=x], script:not([src])").count() == 0
    assert "owned" not in page.title()
    assert not errors


def test_a_row_opens_to_its_reasons_and_commands(page: Page) -> None:
    """Evidence and the exact command are one key press away, and say whether they are open."""
    button = row(page, "killed").locator(".doing")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(detail(page, "killed")).to_contain_text("calls left open: 1")
    expect(detail(page, "killed").locator("code", has_text="claude --resume killed")).to_be_visible()


def test_a_filter_lives_in_the_address(doors: Doors, page: Page) -> None:
    """Typing narrows the table, the address can be shared, Escape shows everybody again."""
    page.keyboard.press("/")
    page.keyboard.type("bank waiting")
    expect(page.locator("tr[data-id]")).to_have_count(1)
    assert page.url == f"{doors.url}/?q=bank%20waiting"
    page.reload()
    expect(page.locator("tr[data-id]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("tr[data-id]")).to_have_count(5)
    page.locator("#filter").fill("nobody is called this")
    expect(page.locator("#empty")).to_contain_text("Nothing fits")


def test_an_empty_house_helps(tmp_path: Path, context: BrowserContext) -> None:
    """Where nothing runs the page says how something would appear."""
    with open_doors(tmp_path, House()) as doors:
        page = open_link(doors, context)
        expect(page.locator("#empty")).to_contain_text("Start Claude Code or Codex")


def test_a_lost_connection_is_never_green(tmp_path: Path, browser: Browser) -> None:
    """When the daemon goes the table greys and says from when it is; when it is back, so is the page."""
    house = House()
    furnish(house)
    with browser.new_context() as context:
        with open_doors(tmp_path, house) as doors:
            page = open_link(doors, context)
            expect(page.locator("#link-text")).to_have_text("live")
            expect(page.locator("body.lost")).to_have_count(0)
        expect(page.locator("#banner")).to_contain_text("Connection lost. What you see is from")
        expect(page.locator("body.lost")).to_have_count(1)
        grey = page.locator("table").evaluate("table => getComputedStyle(table).filter")
        assert grey == "grayscale(1)"


def test_a_pause_is_said_above_everything(doors: Doors, context: BrowserContext) -> None:
    """Who, since when and why, as text; it goes with the pause, without a new visit."""
    context.add_init_script(HURRY)
    with doors.socket() as owner:
        owner.post("/api/pause", json={"by": "ada@host", "reason": HOSTILE}).raise_for_status()
        page = open_link(doors, context)
        expect(page.locator("#paused")).to_contain_text("PAUSED by ada@host since Jan")
        expect(page.locator("#paused")).to_contain_text("<script>")
        expect(page).to_have_title("(3) Wakeful")
        owner.post("/api/resume", json={}).raise_for_status()
    expect(page.locator("#paused")).to_be_hidden(timeout=15_000)


def checkpoint_draft(subject: str) -> Checkpoint:
    choices = (
        Choice(ChoiceName.CONTINUE, "publish is run again from its start"),
        Choice(ChoiceName.DONE, "publish counts as completed"),
        Choice(ChoiceName.ROLLBACK, "these commands undo it", ("./unpublish 1.2",)),
        Choice(ChoiceName.ABORT, "nothing is run"),
    )
    may_have = (f"step publish {HOSTILE}",)
    return Checkpoint(0, CheckpointKind.JOURNAL, subject, "shop", 0.0, (), may_have, (), choices)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Doors]:
    """A house in which three things wait for a decision."""
    clinic = Clinic()

    async def opened() -> None:
        for name in ("one", "two", "three"):
            await clinic.checkpoints.open(checkpoint_draft(f"/srv/{name}"))

    # Playwright has a loop in this thread.
    with ThreadPoolExecutor(1) as aside:
        aside.submit(asyncio.run, opened()).result()
    # Its locks belong to the loop that first used them.
    clinic.build()
    with open_doors(tmp_path, clinic) as doors:
        yield doors


def decided(doors: Doors) -> dict[int, tuple[str, str]]:
    with doors.socket() as person:
        found = person.get("/api/checkpoints?all=true").json()["checkpoints"]
    return {each["number"]: (each["state"], each["decided_by"]) for each in found if each["decided_by"]}


def test_what_waits_for_a_decision_is_decided_with_two_clicks(asking: Doors, context: BrowserContext) -> None:
    """The first shows what follows and the command, the second does it; Back does nothing; words are only words."""
    context.add_init_script(HURRY)
    page = open_link(asking, context)
    one, two = (page.locator(f'[data-checkpoint="{number}"]') for number in (1, 2))
    expect(one).to_contain_text("<img src=x onerror=")
    assert page.locator("img[src=x]").count() == 0
    one.get_by_role("button", name="Roll back").click()
    expect(one).to_contain_text("these commands undo it")
    expect(one.locator("code")).to_have_text(["./unpublish 1.2", "wakeful checkpoint rollback 1"])
    one.get_by_role("button", name="Back", exact=True).click()
    one.get_by_role("button", name="It has happened").click()
    expect(one).to_contain_text("publish counts as completed")
    assert decided(asking) == {}
    one.get_by_role("button", name="Yes: it has happened").click()
    expect(one).to_have_count(0)
    two.get_by_role("button", name="Abort").click()
    two.get_by_role("button", name="Yes: abort").click()
    expect(two).to_have_count(0)
    assert decided(asking) == {1: ("counted_done", "web page"), 2: ("aborted", "web page")}


def test_a_tab_without_its_own_login_shows_commands_only(asking: Doors, context: BrowserContext) -> None:
    """The cookie alone decides nothing; and whoever was slower than another is told so."""
    page = open_link(asking, context)
    page.locator('[data-checkpoint="3"]').get_by_role("button", name="Continue").click()
    other = context.new_page()
    other.goto(asking.url)
    choices = other.locator('[data-checkpoint="3"] .choices')
    expect(choices.locator("code").first).to_have_text("wakeful checkpoint continue 3")
    expect(choices.locator("code").nth(1)).to_have_text("wakeful checkpoint continue 3 --done")
    expect(choices.get_by_role("button")).to_have_count(0)
    with asking.socket() as person:
        person.post("/api/checkpoints/3/abort", json={"by": "ann@host"}).raise_for_status()
    page.get_by_role("button", name="Yes: continue").click()
    expect(page.locator('[data-checkpoint="3"]')).to_contain_text("was aborted by ann@host")


HURRY = "const real = setTimeout; window.setTimeout = (act, ms) => real(act, Math.min(ms, 200));"


def test_a_daemon_that_hangs_is_noticed(doors: Doors, context: BrowserContext) -> None:
    """Open sockets prove nothing: without an answer the page stops saying live."""
    context.add_init_script(HURRY)
    page = open_link(doors, context)
    expect(page.locator("#link-text")).to_have_text("live")
    page.route("**/api/status", lambda _route: None)
    expect(page.locator("#link-text")).to_have_text("connection lost", timeout=15_000)


def test_a_login_that_ended_is_noticed(doors: Doors, context: BrowserContext) -> None:
    """Whoever is logged out elsewhere sees the door, not yesterday's table."""
    context.add_init_script(HURRY)
    page = open_link(doors, context)
    expect(page.locator("#link-text")).to_have_text("live")
    doors.call(doors.access.logins._open._kept.clear)
    expect(page.locator("#door")).to_be_visible(timeout=15_000)
    assert page.locator("#board").is_hidden()


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)]
)
def test_nothing_is_cut_off(doors: Doors, browser: Browser, scheme: str, width: int) -> None:
    """No sideways scrolling on a phone or a desk, in either light, and no request leaves the machine."""
    with browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 800}
    ) as context:
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        page = open_link(doors, context)
        expect(row(page, "working")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert all(url.startswith(doors.url) for url in asked)
