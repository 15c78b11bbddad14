"""The web page in a real browser, against the real doors: logging in, the list, its connection, its looks."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.chromium import is_live, needs_chromium, open_link, row
from support.healing_fixture import HealingFixture
from support.supervisor_fixture import HttpFixture, SupervisorFixture, add_sample_sessions, open_http_fixture
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.judging.events import FormatDrifted, Prompted, QuestionAnswered

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
# A WebSocket that closes before it opens.
BLOCKED = """
window.WebSocket = class {
  constructor() { queueMicrotask(() => this.onclose()); }
  close() {}
};
"""
VIEWS = (
    "",
    "?session=claude-killed",
    "?view=decisions",
    "?view=incidents",
    "?view=agents",
    "?view=events",
    "?view=timeline",
    "?view=report",
    "?by=project",
)

pytestmark = needs_chromium


@pytest.fixture
def page(doors: HttpFixture, context: BrowserContext) -> Page:
    """A page that is logged in and shows the furnished house."""
    opened = open_link(doors, context)
    expect(row(opened, "working")).to_be_visible()
    return opened


def test_a_link_logs_in_once_and_leaves_no_trace(doors: HttpFixture, context: BrowserContext) -> None:
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


def test_without_a_login_the_page_says_what_to_do(doors: HttpFixture, context: BrowserContext) -> None:
    """Without a login the page is an empty shell; a link that is used twice says so."""
    page = context.new_page()
    page.goto(doors.url)
    expect(page.locator("#door")).to_contain_text("wakeful open")
    assert page.locator("#sessions").is_hidden()
    assert page.evaluate(FADED, "#door-text") == [], "what is to be read first is not grey"
    page.goto(f"{doors.url}/?again#code=used")
    expect(page.locator("#door-text")).to_contain_text("already used")


def test_safari_shows_it_too(doors: HttpFixture, context: BrowserContext) -> None:
    """WebKit has no requestIdleCallback: a page that calls it there never shows a session."""
    context.add_init_script("delete window.requestIdleCallback")
    page = open_link(doors, context)
    expect(row(page, "working")).to_be_visible()
    is_live(page)


def test_who_needs_you_comes_first(page: Page) -> None:
    """Sessions are ordered by need, and state and health are words, not colours alone."""
    ids = page.locator("tr[data-id]").evaluate_all("rows => rows.map(row => row.dataset.id)")
    assert ids == ["claude-asking", "claude-failed", "claude-killed", "claude-working", "claude-done"]
    expect(row(page, "killed")).to_contain_text("dead")
    expect(row(page, "killed")).to_contain_text("in the middle of a turn")
    expect(row(page, "asking")).to_contain_text("asks you")
    expect(page.locator("#tally")).to_contain_text("3 need you")
    expect(page.locator("#standing")).to_contain_text("Acts on managed sessions")
    expect(page.locator("#standing")).to_contain_text("mode managed-only")
    assert page.title() == "(3) Wakeful"


def test_a_change_is_shown_and_said_without_asking(doors: HttpFixture, page: Page) -> None:
    """A row changes, moves and appears as the daemon tells it; a screen reader hears which sessions need you."""
    expect(row(page, "working").locator(".state")).to_have_text("running")
    doors.call(lambda: doors.house.ask("working", "Edit: main.py"))
    expect(row(page, "working").locator(".state")).to_have_text("waiting")
    expect(row(page, "working")).to_contain_text("asks you · Edit: main.py")
    expect(page.locator("#announcer")).to_have_text("claude-working: asks you · Edit: main.py")
    expect(page.locator("#tally")).to_contain_text("4 need you")
    doors.call(lambda: doors.house.start("newcomer"))
    expect(row(page, "newcomer")).to_contain_text("ready for a prompt")


def test_whoever_reads_a_row_keeps_it(doors: HttpFixture, page: Page) -> None:
    """Rows above it go elsewhere, it goes elsewhere itself: the focus stays where it was, and Enter opens that one."""
    page.locator("body").press("n")
    page.keyboard.press("n")
    link = row(page, "failed").locator("a")
    expect(link).to_be_focused()
    doors.call(lambda: doors.house.hear("asking", QuestionAnswered(doors.house.clock.now().wall)))
    expect(row(page, "asking").locator(".state")).to_have_text("running")
    expect(link).to_be_focused()
    doors.call(lambda: doors.house.hear("failed", Prompted(doors.house.clock.now().wall)))
    expect(row(page, "failed").locator(".state")).to_have_text("running")
    expect(link).to_be_focused()


def test_search_and_choices_live_in_the_address(doors: HttpFixture, page: Page) -> None:
    """Words, states, project and management narrow the table, the address can be shared, Escape shows all again."""
    rows = page.locator("tr[data-id]")
    page.keyboard.press("/")
    page.keyboard.type("bank waiting")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(f"{doors.url}/?q=bank+waiting")
    page.reload()
    expect(rows).to_have_count(1)
    page.locator("#filter").focus()
    page.keyboard.press("Escape")
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="3 need you").click()
    expect(rows).to_have_count(3)
    expect(page.get_by_role("button", name="3 need you")).to_be_focused()
    page.locator("#project").select_option("bank")
    expect(rows).to_have_count(2)
    page.goto(f"{doors.url}/?is=idle,stopped&project=shop&hands=found")
    expect(rows).to_have_count(1)
    page.goto(f"{doors.url}/?hands=managed")
    expect(page.locator("#empty")).to_contain_text("None of the 5 sessions matches these filters")
    page.get_by_role("button", name="Show all").click()
    expect(rows).to_have_count(5)
    expect(page).to_have_url(f"{doors.url}/")


def test_the_keyboard_goes_everywhere(page: Page) -> None:
    """j and k walk, n finds the sessions that need you, Enter opens, Escape comes back to the same row, ? tells the keys."""
    page.locator("body").press("j")
    page.keyboard.press("j")
    expect(row(page, "failed").locator("a")).to_be_focused()
    page.keyboard.press("k")
    expect(row(page, "asking").locator("a")).to_be_focused()
    for name in ("failed", "killed", "asking"):
        page.keyboard.press("n")
        expect(row(page, name).locator("a")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#session-title")).to_be_focused()
    expect(page).to_have_url(re.compile(r"\?session=claude-asking$"))
    page.keyboard.press("Escape")
    expect(row(page, "asking").locator("a")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    for key, heading in (("2", "Needs a decision"), ("3", "Incidents"), ("5", "Critical events")):
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()


def test_an_address_that_asks_for_nonsense_gives_the_plain_view(
    doors: HttpFixture, context: BrowserContext
) -> None:
    """No address leaves the page empty."""
    page = open_link(doors, context, "?view=events&since=forever")
    expect(page.locator("#since")).to_have_value("24h")
    expect(page.locator("#events-empty")).to_be_visible()
    page.goto(f"{doors.url}/?view=nowhere&hands=many")
    expect(row(page, "working")).to_be_visible()


def test_an_empty_house_helps(tmp_path: Path, context: BrowserContext) -> None:
    """Where nothing runs the page says how something would appear."""
    with open_http_fixture(tmp_path, SupervisorFixture()) as doors:
        page = open_link(doors, context)
        expect(page.locator("#empty")).to_contain_text("Start Claude Code or Codex")


def test_sessions_that_were_only_found_can_be_handed_over(tmp_path: Path, context: BrowserContext) -> None:
    """Without a managed session the page says what that means and asks; the hint goes with the answer."""
    clinic = HealingFixture()
    clinic.start("one")
    clinic.start("two")
    with open_http_fixture(tmp_path, clinic) as doors:
        page = open_link(doors, context, hurry=True)
        expect(page.locator("#hint-text")).to_have_text(
            "2 watched only, 0 managed: Wakeful sends alerts but does not act. Adopt?"
        )
        page.get_by_role("button", name="Adopt…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Adopt 2 sessions?")
        dialog.get_by_role("button", name="Adopt", exact=True).click()
        expect(dialog).to_contain_text("2 of 2 are managed now.")
        doors.call(clinic.settle)
        dialog.get_by_role("button", name="Close").click()
        expect(page.locator("#hint")).to_be_hidden()
        expect(row(page, "one")).to_contain_text("managed")


def test_a_lost_connection_is_never_green_and_comes_back(doors: HttpFixture, context: BrowserContext) -> None:
    """The page greys and says from when it is; when the daemon answers again, what happened meanwhile is there."""
    page = open_link(doors, context, hurry=True)
    is_live(page)
    page.route("**/api/status", lambda route: route.abort())
    expect(page.locator("#banner")).to_contain_text("Connection lost. Last update")
    expect(page.locator("body.lost")).to_have_count(1)
    for place in ("#sessions", "nav", "header img"):
        assert (
            page.locator(place).first.evaluate("each => getComputedStyle(each).filter") == "grayscale(1)"
        ), place
    assert page.title().startswith("✕")
    doors.call(lambda: doors.house.ask("done", "Edit: main.py"))
    page.unroute("**/api/status")
    is_live(page)
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("body.lost")).to_have_count(0)
    expect(row(page, "done").locator(".state")).to_have_text("waiting")


def test_a_daemon_that_went_is_not_shown_as_alive(tmp_path: Path, context: BrowserContext) -> None:
    """Its sockets close: at once nothing on the page is green."""
    house = SupervisorFixture()
    add_sample_sessions(house)
    with open_http_fixture(tmp_path, house) as doors:
        page = open_link(doors, context)
        is_live(page)
    expect(page.locator("#banner")).to_contain_text("Connection lost. Last update")
    expect(page.locator("body.lost")).to_have_count(1)


def test_a_daemon_that_hangs_is_noticed(doors: HttpFixture, context: BrowserContext) -> None:
    """Open sockets prove nothing: without an answer the page stops saying live."""
    page = open_link(doors, context, hurry=True)
    is_live(page)
    page.route("**/api/status", lambda _route: None)
    expect(page.locator("#link-text")).to_have_text("connection lost", timeout=15_000)


@pytest.mark.parametrize("how", ["delete window.WebSocket", BLOCKED])
def test_without_a_websocket_the_page_says_so_and_goes_on(
    doors: HttpFixture, context: BrowserContext, how: str
) -> None:
    """It asks for the list instead, in a browser that has none and where something between refuses it."""
    context.add_init_script(how)
    page = open_link(doors, context, hurry=True)
    expect(page.locator("#notices")).to_contain_text("This browser has no WebSocket to Wakeful")
    expect(page.locator("#link-text")).to_have_text("every 10 s")
    expect(row(page, "working").locator(".state")).to_have_text("running")
    doors.call(lambda: doors.house.ask("working", "Edit: main.py"))
    expect(row(page, "working").locator(".state")).to_have_text("waiting")
    row(page, "working").locator("a").click()
    expect(page.locator("#session-standing")).to_contain_text("waiting")
    doors.call(lambda: doors.house.hear("working", QuestionAnswered(doors.house.clock.now().wall)))
    expect(page.locator("#session-standing")).to_contain_text("running")


def test_a_login_that_ended_is_noticed(doors: HttpFixture, context: BrowserContext) -> None:
    """A page that is logged out elsewhere shows the login, not yesterday's table."""
    page = open_link(doors, context, hurry=True)
    is_live(page)
    doors.run(doors.access.logins.revoke_all())
    expect(page.locator("#door-text")).to_contain_text("Session expired")
    assert page.locator("#sessions").is_hidden()


def test_what_limits_wakeful_is_said_above_everything(doors: HttpFixture, context: BrowserContext) -> None:
    """A pause with who, when and why, as text, ended from the page; logs that cannot be read any more."""
    with doors.socket() as owner:
        owner.post("/api/pause", json={"by": "ada@host", "reason": HOSTILE}).raise_for_status()
    page = open_link(doors, context, hurry=True)
    expect(page.locator("#paused")).to_contain_text("PAUSED by ada@host since")
    expect(page.locator("#paused")).to_contain_text("<script>")
    expect(page).to_have_title("(3) Wakeful")
    doors.call(lambda: doors.house.hear("done", FormatDrifted(doors.house.clock.now().wall, "type")))
    expect(page.locator("[data-notice=drift]")).to_contain_text(
        "1 session writes a log format that Wakeful does not know"
    )
    page.get_by_role("button", name="Unpause").click()
    page.get_by_role("dialog").get_by_role("button", name="Unpause", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Wakeful acts by itself again.")
    expect(page.locator("#paused")).to_have_count(0)


def checkpoint_draft(subject: str) -> Checkpoint:
    choices = (
        CheckpointChoice(ChoiceName.CONTINUE, "publish is run again from its start"),
        CheckpointChoice(ChoiceName.DONE, "publish counts as completed"),
        CheckpointChoice(ChoiceName.ROLLBACK, "these commands undo it", ("./unpublish 1.2",)),
        CheckpointChoice(ChoiceName.ABORT, "nothing is run"),
    )
    may_have = (f"step publish {HOSTILE}",)
    return Checkpoint(0, CheckpointKind.JOURNAL, subject, "shop", 0.0, (), may_have, (), choices)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[HttpFixture]:
    """A house in which three things wait for a decision."""
    clinic = HealingFixture()

    async def opened() -> None:
        for name in ("one", "two", "three"):
            await clinic.checkpoints.open(checkpoint_draft(f"/srv/{name}"))

    # Playwright has a loop in this thread.
    with ThreadPoolExecutor(1) as aside:
        aside.submit(asyncio.run, opened()).result()
    # Its locks belong to the loop that first used them.
    clinic.build()
    with open_http_fixture(tmp_path, clinic) as doors:
        yield doors


def decided(doors: HttpFixture) -> dict[int, tuple[str, str]]:
    with doors.socket() as person:
        found = person.get("/api/checkpoints?all=true").json()["checkpoints"]
    return {each["number"]: (each["state"], each["decided_by"]) for each in found if each["decided_by"]}


def test_what_waits_for_a_decision_is_decided_with_two_clicks(
    asking: HttpFixture, context: BrowserContext
) -> None:
    """The first shows what follows and the command, the second does it; Back does nothing; words are only words."""
    page = open_link(asking, context, hurry=True)
    page.get_by_role("link", name="Decisions 3").click()
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


def test_a_tab_without_its_own_login_shows_commands_only(
    asking: HttpFixture, context: BrowserContext
) -> None:
    """The cookie alone decides nothing; and a decision that came second says so."""
    page = open_link(asking, context, "?view=decisions")
    page.locator('[data-checkpoint="3"]').get_by_role("button", name="Continue").click()
    other = context.new_page()
    other.goto(f"{asking.url}/?view=decisions")
    choices = other.locator('[data-checkpoint="3"] .choices')
    expect(choices.locator("code").first).to_have_text("wakeful checkpoint continue 3")
    expect(choices.locator("code").nth(1)).to_have_text("wakeful checkpoint continue 3 --done")
    expect(choices).to_contain_text("publish counts as completed")
    expect(choices.get_by_role("button")).to_have_count(0)
    expect(other.locator("#notices")).to_contain_text("Read-only tab")
    expect(page.locator("#notices")).not_to_contain_text("Read-only tab")
    with asking.socket() as person:
        person.post("/api/checkpoints/3/abort", json={"by": "ann@host"}).raise_for_status()
    page.get_by_role("button", name="Yes: continue").click()
    expect(page.locator('[data-checkpoint="3"]')).to_contain_text("is already aborted by ann@host")


# Every text against what is painted behind it; a large or a bold one may have less, and is not let off here.
FAINT = """() => {
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([red, green, blue]) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || node.closest("svg, .unseen, .skip")) continue;
    const [one, other] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < 4.5) faint.push(`${node.tagName}.${node.className} ${node.textContent.slice(0, 30)} ${contrast.toFixed(2)}`);
  }
  return faint;
}"""
NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, textarea, table, nav, svg[role=img], dialog[open]")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.[0]?.textContent.trim()))
  .map((node) => node.outerHTML)"""


# Whatever is less than fully painted, with all that it stands in.
FADED = """(place) => {
  const found = [];
  for (let node = document.querySelector(place); node; node = node.parentElement) {
    const { opacity, filter } = getComputedStyle(node);
    if (opacity !== "1" || filter !== "none") found.push(node.id || node.tagName);
  }
  return found;
}"""


# How much of the table's width no cell of a row has; and the badges that are cut off.
UNUSED = """() => {
  const cells = [...document.querySelector("tr[data-id]").cells].map((cell) => cell.getBoundingClientRect().right);
  return document.getElementById("table").getBoundingClientRect().right - Math.max(...cells);
}"""
# How far the search and the choices begin to the right of the table, where they have a line of their own.
INDENT = """() => {
  const [choices, tally, table] = ["choosers", "tally", "table"].map((id) => document.getElementById(id).getBoundingClientRect());
  return choices.top < tally.bottom ? 0 : choices.left - table.left;
}"""
CUT = """() => [...document.querySelectorAll("tr[data-id] .badges")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""


@pytest.mark.parametrize("width", [390, 720, 820, 960, 1280])
def test_the_list_has_all_of_the_width(doors: HttpFixture, context: BrowserContext, width: int) -> None:
    """A column that a narrow screen leaves out leaves no room behind, and state and health are whole words."""
    page = open_link(doors, context)
    page.set_viewport_size({"width": width, "height": 800})
    expect(row(page, "working")).to_be_visible()
    assert page.evaluate(UNUSED) < 20
    assert page.evaluate(INDENT) == 0
    assert page.evaluate(CUT) == []


def test_every_view_can_be_read(doors: HttpFixture, context: BrowserContext) -> None:
    """On a phone and a desk, by day and by night: no sideways scrolling, no faint text, no control without a name."""
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = open_link(doors, context)
    is_live(page)
    for view in VIEWS:
        page.goto(f"{doors.url}/{view}")
        is_live(page)
        page.wait_for_load_state("networkidle")
        for is_dark, width in product((False, True), (1280, 390)):
            page.emulate_media(color_scheme="dark" if is_dark else "light", reduced_motion="reduce")
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            assert page.evaluate(FAINT) == [], (view, is_dark)
            assert page.evaluate(NAMELESS) == [], view
    assert all(url.startswith(doors.url) for url in asked), "nothing leaves the machine"
