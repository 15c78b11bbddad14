"""The views of the page in a real browser: one session and what is done about it, agents, hostile words, a crowd."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from playwright.sync_api import BrowserContext, Locator, Page, expect

from support.agents_fixture import TestHub, agent, with_pid
from support.chromium import WITNESS, is_live, needs_chromium, open_link
from support.healing_fixture import HealingFixture
from support.hostile_fixture import speak, speak_elsewhere
from support.hostile_texts import HOSTILE_TEXTS
from support.supervisor_fixture import BOOT, HttpFixture, open_http_fixture, subject
from wakeful.agents.model import AgentObservation
from wakeful.checkpoints.model import Checkpoint, CheckpointChoice, CheckpointKind, ChoiceName
from wakeful.control.driver import PermissionQuestion
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.healing.plan import HealingRules
from wakeful.incidents.critical_event import critical_event
from wakeful.incidents.critical_log import CriticalLog
from wakeful.judging.available_actions import INTERRUPTED_CALL, OBSERVING
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Failure,
    LogOpened,
    Prompted,
    QuestionAsked,
    Speaker,
    TurnFailed,
)
from wakeful.testing.scripted_runtime import ALIVE, SESSION_DEAD

KEY = "sk-ant-api03-" + "a1B2" * 12
COMMAND = msgspec.json.encode({"command": "make test"})
MANY = 10_000
ANSWER_MS_MAX = 100

pytestmark = needs_chromium


@pytest.fixture
def clinic() -> HealingFixture:
    """No test here waits for a problem to last."""
    return HealingFixture(rules=HealingRules(confirm_seconds=0.0), burst=1_000_000)


@pytest.fixture
def doors(tmp_path: Path, clinic: HealingFixture) -> Iterator[HttpFixture]:
    with open_http_fixture(tmp_path, clinic) as opened:
        yield opened


def rung(page: Page, name: str) -> Locator:
    return page.locator(f'[data-rung="{name}"]')


def act(page: Page, name: str, label: str, *, exact: bool = True) -> Locator:
    """Ask for an act, say yes, and see what came of it."""
    page.locator(f'[data-action="{name}"]').click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=label, exact=exact).click()
    return dialog.get_by_role("status")


def close(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name="Close").click()


def test_a_session_dies_and_is_revived_before_ones_eyes(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Without a reload: green, then a cross at the break with the reason in words, then a person's yes brings it back."""
    process = doors.run(clinic.manage("a"))
    doors.call(lambda: clinic.work("a", "make test"))
    page = open_link(doors, context, "?session=claude-a", hurry=True)
    page.evaluate("window.here = true")
    expect(page.locator("#session-standing")).to_contain_text("running")
    expect(rung(page, "agent_process")).to_have_attribute("data-hold", "alive")
    expect(page.locator("[data-action=revive]")).to_have_attribute("aria-disabled", "true")
    expect(page.locator("[data-action=revive]")).to_have_attribute("title", "nothing is wrong with it")
    doors.call(lambda: clinic.end(process))
    expect(page.locator("#session-standing")).to_contain_text("dead")
    expect(page.locator("#session-sentence")).to_contain_text("died in the middle of")
    expect(rung(page, "agent_process")).to_have_attribute("data-hold", "broken")
    expect(rung(page, "host")).to_have_attribute("data-hold", "alive")
    expect(page.locator(".span-dead, .picture")).not_to_have_count(0)
    expect(page.locator("#announcer")).to_contain_text("died in the middle of a turn")
    said = act(page, "revive", "Resume")
    expect(said).to_have_attribute("data-outcome", "done")
    close(page)
    expect(page.locator("#session-standing")).to_contain_text("running")
    expect(page.locator("#session-standing")).to_contain_text("healthy")
    expect(rung(page, "agent_process")).to_have_attribute("data-hold", "alive")
    assert page.evaluate("window.here"), "the page was never loaded again"


@contextmanager
def healing(doors: HttpFixture, clinic: HealingFixture) -> Iterator[None]:
    """The healer is at work, as in a daemon."""
    opened = clinic.open()
    doors.run(opened.__aenter__())
    try:
        yield
    finally:
        doors.run(opened.__aexit__(None, None, None))


def test_what_may_have_happened_elsewhere_needs_a_second_yes(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """What is held asks under Decisions; reviving it is refused with the reason, and only a click of its own goes on."""
    with healing(doors, clinic):
        process = doors.run(clinic.manage("a"))
        doors.call(lambda: clinic.work("a", "git push origin main"))
        page = open_link(doors, context, "?session=claude-a", hurry=True)
        doors.call(lambda: clinic.end(process))
        expect(page.locator('#views [data-view="decisions"] .count')).to_have_text("1")
        expect(page.locator("[data-action=revive]")).to_have_attribute("title", INTERRUPTED_CALL)
        expect(page.locator("#session-actions .refusal").filter(has_text="Resume")).to_contain_text(
            INTERRUPTED_CALL
        )
        expect(page.get_by_role("link", name="Decide here")).to_have_attribute("href", "/?view=decisions")
        page.locator("[data-action=revive]").dispatch_event("click")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(act(page, "looked", "I checked: resume")).to_have_attribute("data-outcome", "done")
        close(page)
        expect(page.locator('#views [data-view="decisions"] .count')).to_be_hidden()


def test_a_session_is_adopted_muted_called_wrong_stopped_and_released(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Each asks first and says what came of it; what the record does not allow says why."""
    doors.call(lambda: clinic.start("a"))
    page = open_link(doors, context, "?session=claude-a", hurry=True)
    for name in ("revive", "stop"):
        expect(page.locator(f"[data-action={name}]")).to_have_attribute(
            "title", "not managed by Wakeful; adopt it first"
        )
    page.locator("[data-action=stop]").dispatch_event("click")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(act(page, "adopt", "Adopt")).to_have_text("The session is managed now.")
    doors.call(clinic.settle)
    close(page)
    page.locator("[data-action=mute]").click()
    expect(page.get_by_role("dialog")).to_contain_text("wakeful mute shop --for 2h")
    page.get_by_role("combobox", name="For").select_option("8 hours")
    expect(page.get_by_role("dialog")).to_contain_text("wakeful mute shop --for 8h")
    page.get_by_role("dialog").get_by_role("button", name="Mute", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Muted.")
    close(page)
    expect(page.locator("#session-actions")).to_contain_text("Muted by web page until")
    expect(act(page, "unmute", "Unmute")).to_have_text("Unmuted.")
    close(page)
    expect(act(page, "wrong", "Save")).to_contain_text("Saving a case needs the daemon.")
    close(page)
    expect(act(page, "stop", "Stop")).to_have_attribute("data-outcome", "done")
    close(page)
    expect(page.locator("#session-standing")).to_contain_text("stopped")
    expect(act(page, "release", "Release")).to_have_text("The session is watched only now.")


def test_what_a_managed_session_asks_is_answered(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Allow and deny stand first while it asks, each asks once more, and the answer names the question."""
    doors.run(clinic.manage("a"))
    page = open_link(doors, context, "?session=claude-a", hurry=True)
    expect(page.locator("[data-action=stop]")).to_be_visible()
    assert page.locator("[data-action=allow]").count() == 0
    doors.call(lambda: clinic.ask("a", "Bash: touch x"))
    expect(page.locator("#session-actions button").first).to_have_text("Allow")
    page.locator("[data-action=allow]").click()
    expect(page.get_by_role("dialog").locator("pre.untrusted")).to_have_text("Bash: touch x")
    expect(page.get_by_role("dialog")).to_contain_text("The agent makes this call once.")
    expect(page.get_by_role("dialog")).to_contain_text("wakeful answer shop allow --question q1")
    page.keyboard.press("Escape")
    expect(act(page, "deny", "Deny")).to_have_attribute("data-outcome", "done")
    assert [each for each, _ in clinic.living.asked if each.startswith("answer")] == ["answer q1 deny"]


def test_last_calls_are_listed_without_their_secrets(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """What each was about and how it ended, the newest last; a key is nowhere in the document."""
    at = clinic.wall()

    def calls() -> None:
        clinic.start("a")
        clinic.hear(
            "a",
            Prompted(at),
            CallStarted(at, "1", "Bash", input=msgspec.json.encode({"command": f"curl -H {KEY} shop"})),
            CallEnded(at + 1, "1", is_error=True, result=f"token {KEY} refused".encode()),
            CallStarted(at + 2, "2", "Read", input=b'{"file_path": "src/cart.py"}'),
        )

    doors.call(calls)
    page = open_link(doors, context, "?session=claude-a")
    lines = page.locator("#session-log li")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).to_contain_text("failed, 1 s")
    expect(lines.nth(1)).to_contain_text("Read: src/cart.py")
    expect(lines.nth(1)).to_contain_text("running")
    assert KEY not in page.content()


def test_what_a_session_does_is_followed(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Texts and calls appear as the log grows, each part is read once, and what was opened stays open."""
    read: list[str] = []

    def begun() -> None:
        clinic.start("a")
        clinic.say("a", "make the tests green", Speaker.PERSON)
        clinic.hear("a", Prompted(clinic.wall()), CallStarted(clinic.wall(), "1", "Bash", input=COMMAND))

    doors.call(begun)
    context.on("request", lambda request: read.append(request.url) if "/messages" in request.url else None)
    page = open_link(doors, context, "?session=claude-a")
    lines = page.locator("#session-log li")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).to_contain_text("Youmake the tests green")
    expect(lines.nth(1)).to_contain_text("running")
    doors.call(lambda: clinic.hear("a", CallEnded(clinic.wall(), "1", is_error=True, result=b"no rule")))
    expect(lines.nth(1)).to_contain_text("failed")
    lines.nth(1).locator("summary").click()
    page.evaluate("document.querySelector('#session-log details').kept = true")
    doors.call(lambda: clinic.say("a", "The rule is missing, I add it."))
    expect(lines.nth(2)).to_contain_text("AgentThe rule is missing, I add it.")
    assert page.evaluate("document.querySelector('#session-log details[open]').kept"), (
        "it was not drawn again"
    )
    page.wait_for_load_state("networkidle")
    assert len([url for url in read if url.endswith("after=")]) == 1, "the beginning was read once"


def test_a_running_call_that_begins_to_wait_or_is_cut_off_says_so(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Its line changes although its log says nothing more of it."""
    process = doors.run(clinic.manage("a"))
    doors.call(lambda: clinic.work("a", "git push"))
    page = open_link(doors, context, "?session=claude-a")
    call = page.locator("#session-log .call")
    expect(call).to_contain_text("running")
    doors.call(lambda: clinic.hear("a", QuestionAsked(clinic.wall(), "Bash: git push")))
    expect(call).to_contain_text("waiting for you")
    doors.call(lambda: clinic.end(process))
    expect(call).to_contain_text("interrupted")


def test_a_prompt_is_sent_to_a_managed_session(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Once for each click; while a turn runs the reason stands there, and what was typed stays with its session."""
    doors.run(clinic.manage("a"))
    doors.call(lambda: clinic.start("b"))
    page = open_link(doors, context, "?session=claude-a")
    page.locator("#prompt").fill("continue with the tests")
    page.locator("#prompt").press("Control+Enter")
    expect(page.locator("#prompt-said")).to_have_attribute("data-outcome", "done")
    expect(page.locator("#prompt")).to_have_value("")
    assert clinic.living.prompts == ["continue with the tests"]
    expect(page.locator("#session-standing")).to_contain_text("running")
    expect(page.locator("#prompt-why")).to_contain_text("Not now: a turn runs")
    page.locator("#prompt").fill("and then the docs")
    page.locator("#prompt-send").dispatch_event("click")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.locator('tr[data-id="claude-b"] a').click()
    expect(page.locator("#prompt-why")).to_contain_text("Adopt it first")
    expect(page.locator("#prompt")).to_be_hidden()
    page.go_back()
    page.locator('tr[data-id="claude-a"] a').click()
    expect(page.locator("#prompt")).to_have_value("and then the docs")
    assert clinic.living.prompts == ["continue with the tests"]


def test_a_call_that_waits_for_a_permission_is_shown_as_waiting(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Asked for or only guessed, it waits for you; where no agent is seen the page does not call it interrupted."""
    at, given = clinic.wall(), b'{"command": "git push"}'
    escalated = CallStarted(at, "1", "exec_command", input=given, enforced=True, escalated=True)

    def calls() -> None:
        clinic.start("guessed")
        clinic.hear("guessed", Prompted(at), escalated)
        clinic.start("asked")
        clinic.work("asked", "git push")
        clinic.hear("asked", QuestionAsked(at, "permission prompt"))
        clinic.hear("unseen", Prompted(at), escalated)
        clinic.clock.advance(3600)
        clinic.supervisor.on_growth(subject("asked").id)
        clinic.supervisor.unfold(subject("unseen").id, read=False)

    doors.call(calls)
    page = open_link(doors, context, "?session=claude-guessed")
    expect(page.locator("#session-log li")).to_contain_text("waiting for you")
    expect(page.locator("#session-sentence")).to_contain_text("probably asks for permission: git push")
    page.goto(f"{doors.url}/?session=claude-asked")
    expect(page.locator("#session-log li")).to_contain_text("waiting for you")
    page.goto(f"{doors.url}/?session=claude-unseen")
    expect(page.locator("#session-log li")).to_contain_text("result unknown")


def test_a_tab_with_a_cookie_only_shows_commands(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Orders need the login of the tab itself; every other tab can read, and says what to type."""
    doors.run(clinic.manage("a"))
    is_live(open_link(doors, context))
    other = context.new_page()
    other.goto(f"{doors.url}/?session=claude-a")
    expect(other.locator("#session-actions")).to_contain_text("wakeful stop shop")
    expect(other.locator("#prompt-why")).to_contain_text("wakeful send shop 'your prompt'")
    expect(other.locator("#prompt")).to_be_hidden()
    assert other.locator("[data-action]").count() == 0


def test_the_timeline_has_a_lane_for_every_session(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """One request for all of them; later changes are pushed. An idle session costs no request."""
    asked: list[str] = []

    def day() -> None:
        for name in ("a", "b"):
            clinic.start(name)
        clinic.work("a")
        clinic.clock.advance(3600)
        clinic.ask("a", "Bash: make")
        clinic.clock.advance(600)

    doors.call(day)
    context.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    page = context.new_page()
    page.clock.set_fixed_time(clinic.wall())
    page.goto(f"{doors.url}/?view=timeline#code={doors.call(doors.access.logins.new_code)}")
    lanes = page.locator("#table .lane")
    expect(lanes).to_have_count(2)
    # The picture is in words, too.
    named = page.get_by_role("img", name=re.compile("Last 24 h: running 1 h 0 min, waiting for you 10 min"))
    expect(named).to_have_count(1)
    expect(named.locator(".span-person")).to_have_count(1)
    expect(page.get_by_role("img", name="Last 24 h: idle 1 h 10 min")).to_have_count(1)
    page.clock.set_fixed_time(clinic.wall() + 120)
    doors.call(lambda: clinic.work("b"))
    expect(lanes.nth(1).locator(".span-working")).to_have_count(1)
    assert sum("/api/timeline" in url for url in asked) == 1
    assert not [url for url in asked if "/events?after" in url]
    page.get_by_role("link", name=re.compile("^claude-a")).first.click()
    expect(page.locator("#session-title")).to_be_focused()
    page.keyboard.press("1")
    expect(page.locator("#sessions")).to_have_attribute("aria-label", "Sessions")
    page.keyboard.press("6")
    expect(page.locator("#sessions")).to_have_attribute("aria-label", "Timeline")


def test_many_sessions_with_one_cause_are_one_card(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Two thousand refused logins are one line, which opens; the one that asks is not hidden among them."""

    def crowd() -> None:
        clinic.ask("other", "Bash: make")
        for number in range(2000):
            name = f"s{number:04}"
            at = clinic.wall()
            process = Process(500_000 + number, 1, BOOT)
            clinic.supervisor.on_process(subject(name), process, ProcessState.ALIVE, source="a test")
            opened = LogOpened(at, ConversationId(name), f"/home/me/p{number % 50}")
            failed = TurnFailed(at, Failure.AUTH, "Please run /login")
            clinic.supervisor.on_events(subject(name), [opened, Prompted(at), failed], live=True)
        clinic.settle()

    doors.call(crowd)
    page = open_link(doors, context)
    card = page.get_by_role("button", name=re.compile("2,000 sessions"))
    expect(card).to_contain_text("the provider refused the login")
    expect(card).to_have_attribute("aria-expanded", "false")
    expect(page.locator("tr[data-id]")).to_have_count(1)
    page.locator("body").press("n")
    page.keyboard.press("n")
    expect(card).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#table")).to_have_attribute("aria-rowcount", "2003")
    expect(card).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("End")
    expect(page.locator('tr[aria-rowindex="2003"]')).to_be_in_viewport()
    page.locator("#by-project").check()
    expect(page).to_have_url(re.compile(r"by=project"))
    expect(page.get_by_role("button", name="p0 40 sessions 40 need you")).to_be_visible()


def test_projects_with_one_session_each_get_no_heads(doors: HttpFixture, context: BrowserContext) -> None:
    """A head before every row would double the list; with two in a project the groups are back."""
    doors.call(lambda: [doors.house.start(name, project=f"alone-{name}") for name in ("one", "two")])
    page = open_link(doors, context, "?by=project&q=alone-")
    expect(page.locator("tr[data-id]")).to_have_count(2)
    expect(page.locator(".group-words")).to_have_count(0)
    doors.call(lambda: doors.house.start("three", project="alone-two"))
    expect(page.locator("tr[data-id]")).to_have_count(3)
    expect(page.locator(".group-words")).to_have_text(["alone-one", "alone-two"])


def test_the_report_is_a_view_with_links(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """What `wakeful report` says, read once and again when asked; a session in it opens."""
    asked: list[str] = []

    def night() -> None:
        clinic.start("done")
        clinic.finish("done")
        process = clinic.start("gone", project="bank")
        clinic.work("gone", HOSTILE_TEXTS[0])
        clinic.end(process)
        clinic.ask("asking", "Bash: make")

    doors.call(night)
    context.on("request", lambda request: asked.append(request.url) if "/api/report" in request.url else None)
    page = open_link(doors, context, "?view=report")
    body = page.locator("#report-body")
    expect(body.locator(".totals-line")).to_have_text("2 need you, 1 finished a turn, 1 died, 0 resumed")
    expect(body.locator("h3")).to_have_text(["◆waiting for you 1", "✕died 1", "✓finished 1"])
    expect(body.locator('[data-part="died"]')).to_contain_text("died in the middle of a turn")
    doors.call(lambda: clinic.work("done"))
    page.locator("#report-since").select_option("7d")
    expect(page).to_have_url(re.compile(r"period=7d"))
    expect(body.locator('[data-part="working"]')).to_contain_text("running")
    page.get_by_role("button", name="Refresh").click()
    page.wait_for_load_state("networkidle")
    assert [url.rpartition("=")[2] for url in asked] == ["12h", "7d", "7d"]
    body.get_by_role("link", name="bank").click()
    expect(page.locator("#session-title")).to_have_text("bank")


# The widths of the cells in the first row of events, and which is the widest.
WIDEST = """() => [...document.querySelectorAll("#event-rows tr:first-child td")]
  .map((cell) => [cell.clientWidth, cell.className]).sort((one, other) => other[0] - one[0])[0][1]"""
# Session names that are cut off.
CUT_NAMES = """() => [...document.querySelectorAll("tr[data-id] td.session")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""


def test_events_name_the_session_and_say_what_happened(
    tmp_path: Path, doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """The session by its short name, the widest column says what happened, and the time in details has seconds."""
    doors.call(lambda: clinic.start("a"))
    event = critical_event(
        "queue_stalled",
        subject("a").id,
        "shop",
        "no worker took `job 7`",
        "none",
        None,
        {"waiting": 7},
        at_wall=clinic.wall() - 61,
    )
    over = critical_event(
        "session_recovered", "", "", "session_dead", "none", None, {}, at_wall=clinic.wall() - 90
    )
    log = CriticalLog(tmp_path / "critical_events.jsonl")
    log.append(over)
    log.append(event)
    page = open_link(doors, context, "?view=events")
    rows = page.locator("#event-rows tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).locator(".what")).to_contain_text("recovered from session dead")
    rows = rows.nth(0)
    expect(rows.get_by_role("link")).to_have_text("shop")
    expect(rows.locator(".what")).to_contain_text("queue stalled: no worker took job 7")
    assert page.evaluate(WIDEST) == "what"
    rows.locator("summary").click()
    expect(rows.locator("dl")).to_contain_text(re.compile(r"\d\d:\d\d:59"))
    expect(rows.locator("dl")).to_contain_text("waiting7")


def test_sessions_of_one_project_can_be_told_apart_on_a_phone(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Each row begins with another name, which is not cut off."""
    ids = [f"{number:08x}-5bd4-4e7f-8f39-0c1a2b3c4d5e" for number in (0xA1, 0xB2C3D4E5, 0xB2C3D4E6)]
    doors.call(lambda: [clinic.start(each, project="shop-checkout") for each in ids])
    page = open_link(doors, context)
    page.set_viewport_size({"width": 390, "height": 844})
    names = page.locator("tr[data-id] .name")
    expect(names).to_have_count(3)
    assert len(set(names.all_text_contents())) == 3
    assert page.evaluate(CUT_NAMES) == []


def test_a_session_nobody_knows_is_said_to_be_unknown(doors: HttpFixture, context: BrowserContext) -> None:
    """An old address is no error, and shows nothing of anybody else."""
    page = open_link(doors, context, "?session=claude-nobody")
    expect(page.locator("#session-missing")).to_contain_text("has no record of this session")


class HubDoors:
    """Listeners of a daemon with a hub; a change is looked at when a test says so."""

    def __init__(self, doors: HttpFixture, hub: TestHub) -> None:
        self.doors = doors
        self.hub = hub

    def happens(self, name: str, glimpse: AgentObservation) -> None:
        self.hub.runtime.observations[name] = glimpse
        self.doors.run(self.hub.hub.inspect(tuple(self.hub.book.agents.values())))


@pytest.fixture
def hub(tmp_path: Path, clinic: HealingFixture) -> Iterator[HubDoors]:
    scripted = TestHub(agent("fox"), agent("owl"))
    scripted.feed = clinic.feed
    clinic.hub = scripted.hub
    with open_http_fixture(tmp_path, clinic) as opened:
        yield HubDoors(opened, scripted)


def test_whom_an_agent_hosts_is_brought_back_by_its_agent(
    hub: HubDoors, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Its record offers restart instead of revive, and neither handing over nor taking back."""

    def hosted() -> None:
        process = clinic.start("a")
        clinic.work("a", "make")
        clinic.supervisor.set_agent(subject("a").id, "fox")
        clinic.end(process)

    hub.doors.call(hosted)
    hub.happens("fox", SESSION_DEAD)
    page = open_link(hub.doors, context, "?session=claude-a", hurry=True)
    expect(page.locator("[data-action=restart]")).to_be_visible()
    assert page.locator("[data-action=revive], [data-action=adopt], [data-action=release]").count() == 0
    page.locator("[data-action=restart]").click()
    expect(page.get_by_role("dialog")).to_contain_text("wakeful agent restart-session fox")
    page.get_by_role("dialog").get_by_role("button", name="Restart session").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("The session is restarted.")


def test_observing_everything_is_refused_with_the_reason(
    hub: HubDoors, clinic: HealingFixture, context: BrowserContext
) -> None:
    """For all to read, and a click does nothing: of a session and of an agent."""
    clinic.mode = "observe"
    process = hub.doors.run(clinic.manage("a"))
    hub.doors.call(lambda: clinic.work("a", "make test"))
    hub.doors.call(lambda: clinic.end(process))
    page = open_link(hub.doors, context, "?session=claude-a")
    expect(page.locator("#session-actions .refusal").filter(has_text="Resume")).to_contain_text(OBSERVING)
    expect(page.locator("#session-standing")).to_contain_text("managed, but the mode is observe")
    page.locator("[data-action=revive]").dispatch_event("click")
    page.get_by_role("link", name="Agents").click()
    fox = page.locator('[data-agent="fox"]')
    expect(fox.locator(".refusal")).to_have_text(f"Start unavailable {OBSERVING}")
    fox.locator('[data-order="start"]').dispatch_event("click")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_sessions_have_the_name_of_the_list_everywhere(
    hub: HubDoors, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Decisions and agents link to a session by the name that the list shows; a command takes it, too."""
    conversation = "5a74ada3-1f0e-4a59-8c53-0f3a5f6f2b11"
    session_id = subject(conversation).id
    choices = (CheckpointChoice(ChoiceName.CONTINUE, "it is run again"),)
    draft = Checkpoint(
        0, CheckpointKind.SESSION, session_id, "shop", 0.0, (), ("Bash: git push",), (), choices
    )
    hub.doors.call(lambda: clinic.start(conversation))
    hub.doors.run(clinic.checkpoints.open(draft))
    hub.hub.sessions.by_pid[41] = session_id
    hub.happens("fox", with_pid(ALIVE, 41))
    page = open_link(hub.doors, context, "?view=decisions")
    head = page.locator(".checkpoint-head")
    expect(head.get_by_role("link")).to_have_text("shop")
    expect(head.locator(".badge")).to_be_hidden()
    page.get_by_role("link", name="Agents").click()
    expect(page.locator('[data-agent="fox"]').get_by_role("link")).to_have_text("shop")
    page.locator('[data-agent="fox"]').get_by_role("link").click()
    page.locator("[data-action=mute]").click()
    expect(page.get_by_role("dialog")).to_contain_text("wakeful mute shop --for 2h")


def test_agents_are_started_stopped_and_brought_back(hub: HubDoors, context: BrowserContext) -> None:
    """A badge each as they change, stale with its own; in the middle of a turn a stop needs a second yes."""
    page = open_link(hub.doors, context, "?view=agents", hurry=True)
    fox = page.locator('[data-agent="fox"]')
    badge = fox.locator(".agent-state")
    dialog = page.get_by_role("dialog")

    def order(name: str, label: str) -> None:
        fox.locator(f'[data-order="{name}"]').click()
        dialog.get_by_role("button", name=label, exact=True).click()

    expect(badge).to_have_text("stopped")
    order("start", "Start")
    expect(dialog.get_by_role("status")).to_have_text("The agent is running.")
    close(page)
    expect(badge).to_have_text("running")
    hub.happens("fox", replace(SESSION_DEAD, reason=HOSTILE_TEXTS[2]))
    expect(badge).to_have_text("stale")
    expect(fox.locator(".agent-why")).to_contain_text("<script>")
    expect(page.locator('#views [data-view="agents"] .count')).to_have_text("1")
    order("restart-session", "Restart session")
    expect(dialog.get_by_role("status")).to_have_text("The agent is running.")
    close(page)
    busy = SessionId("claude-busy")
    hub.hub.sessions.by_pid[41] = busy
    hub.hub.sessions.busy.add(busy)
    hub.happens("fox", with_pid(ALIVE, 41))
    order("stop", "Stop")
    expect(dialog.get_by_role("status")).to_contain_text("turn")
    dialog.get_by_role("button", name="Stop during the turn").click()
    expect(dialog.get_by_role("status")).to_have_text("The agent is stopped.")
    close(page)
    hub.happens("fox", SESSION_DEAD)
    order("teardown", "Tear down")
    expect(dialog.get_by_role("status")).to_have_text("The agent is stopped.")
    acts = [act for act, _ in hub.hub.runtime.actions]
    assert acts == ["start fox", "restart-session fox", "stop fox", "stop fox"]


def test_the_focus_stays_while_agents_change(hub: HubDoors, context: BrowserContext) -> None:
    """The cards are drawn again and in another order: the focused button keeps the keyboard."""
    page = open_link(hub.doors, context, "?view=agents")
    at = page.locator('[data-agent="fox"] [data-order="start"]')
    at.focus()
    hub.happens("owl", SESSION_DEAD)
    expect(page.locator('[data-agent="owl"] .agent-state')).to_have_text("stale")
    expect(at).to_be_focused()


# Whatever a text could have become, had it been taken for more than text.
INTRUDERS = """() => {
  const strange = "img[src=x], iframe, object, embed, video, marquee, math, form, base, use, script:not([src]), style, template";
  const found = [...document.querySelectorAll(strange)].map((node) => node.outerHTML);
  for (const node of document.querySelectorAll("*")) {
    for (const { name, value } of node.attributes) {
      if (name.startsWith("on") || /^\\s*(javascript|data):/i.test(name === "href" || name === "src" ? value : "")) found.push(node.outerHTML);
    }
  }
  return found;
}"""


def test_two_hundred_hostile_texts_stay_text(
    tmp_path: Path, doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """In every field an agent can set and in every view: shown letter by letter, nothing runs, CSP has nothing to report."""
    troubles: list[str] = []
    asked: list[str] = []

    def attack() -> None:
        for number, text in enumerate(HOSTILE_TEXTS):
            speak(clinic, number, text)
        clinic.settle()

    doors.call(attack)
    doors.run(speak_elsewhere(clinic, tmp_path))
    context.add_init_script(WITNESS)
    context.on("request", lambda request: asked.append(request.url))
    context.on("weberror", lambda error: troubles.append(str(error.error)))
    context.on("dialog", lambda dialog: troubles.append(dialog.message))
    context.on("console", lambda message: troubles.extend([message.text] * (message.type == "error")))
    # A house without a hub has no such route, which is no trouble of the page.
    context.route("**/api/agents", lambda route: route.fulfill(json={"agents": [], "found": []}))
    page = open_link(doors, context)
    expect(page.locator("tr[data-id]").first).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 12_000})
    page.get_by_role("button", name="100 sessions").click()
    expect(page.locator("tr[data-id]")).to_have_count(200)
    shown = page.locator("tr[data-id] .doing").all_text_contents()
    assert sum("owned" in text or "<" in text for text in shown) > 150, "they are there to be read"
    assert page.evaluate(INTRUDERS) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    for view in ("decisions", "incidents", "events", "agents", "timeline", "report"):
        page.locator(f'#views [data-view="{view}"]').click()
        expect(page.locator("#table" if view == "timeline" else f"#{view}")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.evaluate(INTRUDERS) == [], view
    page.locator("#views [data-view=decisions]").click()
    page.locator("[data-checkpoint]").first.get_by_role("button", name="Continue").click()
    for number in (0, 101, 178):
        page.goto(f"{doors.url}/?session=claude-h{number:03}")
        expect(page.locator("#session-log li")).not_to_have_count(0)
        page.locator("[data-action=mute]").click()
        assert page.evaluate(INTRUDERS) == [], HOSTILE_TEXTS[number]
        page.keyboard.press("Escape")
        if number == 0:
            page.get_by_role("button", name="Show 143 older").click()
            expect(page.locator("#session-log .call")).to_have_count(202)
            assert page.evaluate(INTRUDERS) == []
    _try_conversation(doors, clinic, page)
    assert page.evaluate("[window.owned, document.title.includes('owned'), window.broken]") == [
        None,
        False,
        [],
    ]
    assert not troubles
    assert all(url.startswith(doors.url) for url in asked)


def _try_conversation(doors: HttpFixture, clinic: HealingFixture, page: Page) -> None:
    """One of nothing else, its dialogs and its prompt box; no text answers or sends anything."""
    doors.run(clinic.hands.adopt("h001"))
    doors.call(clinic.settle)
    for text in HOSTILE_TEXTS[::10]:
        clinic.living.question = PermissionQuestion("q1", text, text)
        page.goto(f"{doors.url}/?session=claude-h001")
        page.locator("[data-action=allow]").click()
        expect(page.get_by_role("dialog").locator("pre.untrusted")).to_contain_text("owned")
        assert page.evaluate(INTRUDERS) == [], text
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show 142 older").click()
    expect(page.locator("#session-log .text")).to_have_count(200)
    assert page.evaluate(INTRUDERS) == []
    expect(page.locator("#prompt")).to_be_visible()
    assert {act for act, _ in clinic.living.asked} == {"questions"}
    assert clinic.living.prompts == []


@pytest.mark.parametrize("may_act", [True, False])
@pytest.mark.parametrize("width", [320, 820, 1280])
def test_long_words_push_nothing_off_the_screen(
    tmp_path: Path,
    doors: HttpFixture,
    clinic: HealingFixture,
    context: BrowserContext,
    width: int,
    may_act: bool,
) -> None:
    """Words without an end, of any author, stay within every view: it never scrolls sideways."""
    for number, text in enumerate(("x" * 2000, "\u05e9" * 400, "W" * 119)):
        doors.call(partial(speak, clinic, number, text))
    doors.run(speak_elsewhere(clinic, tmp_path))
    page = open_link(doors, context)
    is_live(page)
    if not may_act:
        # A page that may only read spells commands where others have buttons.
        page.evaluate("sessionStorage.clear()")
    page.set_viewport_size({"width": width, "height": 800})
    others = ("decisions", "incidents", "agents", "events", "timeline", "report")
    views = ("", "?by=project", *(f"?view={each}" for each in others))
    for view in (*views, "?session=claude-h000"):
        page.goto(f"{doors.url}/{view}")
        is_live(page)
        page.wait_for_load_state("networkidle")
        if view == "?view=decisions":
            expect(page.locator(".choices button" if may_act else ".spelled").first).to_be_visible()
            page.evaluate(
                "for (const each of document.querySelectorAll('.choices button:first-child')) each.click()"
            )
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view


SLOW = """
window.slow = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (each.interactionId) window.slow.push([each.name, each.duration]);
}).observe({ type: "event", durationThreshold: 16 });
"""


@pytest.mark.alone
def test_ten_thousand_sessions_stay_smooth(
    doors: HttpFixture, clinic: HealingFixture, context: BrowserContext
) -> None:
    """Searching, choosing, walking and opening each answer within 100 ms, while sessions go on changing."""

    def crowd() -> None:
        for number in range(MANY):
            name = f"s{number:05}"
            clinic.supervisor.on_process(
                subject(name), Process(500_000 + number, 1, BOOT), ProcessState.ALIVE, source="a test"
            )
            opened = LogOpened(clinic.wall(), ConversationId(name), f"/home/me/p{number % 50}")
            clinic.supervisor.on_events(
                subject(name), [opened, *([Prompted(clinic.wall())] * (number % 3 == 0))], live=True
            )
        clinic.settle()

    doors.call(crowd)
    context.add_init_script(SLOW)
    page = open_link(doors, context)
    expect(page.locator("#tally")).to_contain_text("6,666 idle", timeout=20_000)
    assert page.locator("tr[data-id]").count() < 100, "only what is in sight is drawn"
    page.wait_for_load_state("networkidle")
    worst = [one_round(page, doors, clinic, number) for number in range(3)]
    # Another's work on the same machine is not the page's: one whole round must be free of it.
    assert min(worst) < ANSWER_MS_MAX, worst


def one_round(page: Page, doors: HttpFixture, clinic: HealingFixture, number: int) -> float:
    """Everything a person does with a list; how long the slowest of it took, in milliseconds."""
    table, idle = page.locator("#table"), page.locator('[data-word="idle"]')
    page.evaluate("window.slow.length = 0")
    doors.call(partial(clinic.ask, f"s{number * 3:05}", "Edit: main.py"))
    page.keyboard.press("/")
    page.keyboard.type("p7 idle")
    expect(table).to_have_attribute("aria-rowcount", "134")
    page.keyboard.press("Escape")
    idle.click()
    expect(table).to_have_attribute("aria-rowcount", "6667")
    idle.click()
    for key in "jjjjkn":
        page.keyboard.press(key)
    page.mouse.wheel(0, 200_000)
    expect(page.locator("tr[aria-rowindex]").nth(20)).to_be_in_viewport()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#session-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(table).to_be_visible()
    return max((duration for _, duration in page.evaluate("window.slow")), default=0.0)
