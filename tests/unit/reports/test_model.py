"""Claims about the morning report: what it counts, its wording and its order. In virtual time."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from support.healing_fixture import HealingFixture, die_in_a_turn, opened
from support.supervisor_claims import come_up, killed_in_a_turn
from support.supervisor_fixture import ScriptedReportSources, SupervisorFixture, subject
from wakeful.checkpoints import service as checkpoints
from wakeful.checkpoints.model import Checkpoint, CheckpointKind
from wakeful.cli.commands.report import heading
from wakeful.cli.format.sessions import counts_text, needs_you
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.incidents.model import Cause, MemberStatus, Origin
from wakeful.judging.events import (
    Event,
    Failure,
    TokensSpent as SpentEvent,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.judging.evidence import ClientStatus
from wakeful.judging.findings import NEEDS_YOU
from wakeful.judging.thresholds import Dollars, Policy
from wakeful.reports.model import (
    SESSIONS_MAX,
    Commit,
    GitChanges,
    Report,
    ReportSection,
    SessionReport,
)
from wakeful.reports.service import ReportService, token_usage_since
from wakeful.reports.text import CHAT_CHARS_MAX, BadMoment, chat_text, parse_moment, report_lines
from wakeful.storage.base import Note
from wakeful.testing.virtual_clock import START_WALL

NIGHT_SECONDS = 9 * 3600.0


class ScriptedFolders:
    """git as a test says it is: by the last part of a folder's path."""

    def __init__(self, **known: GitChanges) -> None:
        self.known = known
        self.asked: list[str] = []

    async def inspect(self, folder: str, since_wall: float) -> GitChanges:
        del since_wall
        self.asked.append(folder)
        return self.known.get(folder.rpartition("/")[2], GitChanges(folder))


def reported(
    house: SupervisorFixture,
    folders: ScriptedFolders | None = None,
    *,
    since: float = START_WALL,
    policy: Policy | None = None,
    events: tuple[Event, ...] = (),
    with_folders: bool = True,
) -> Report:
    reports = ReportService(
        clock=house.clock,
        registry=house.registry,
        store=house.store,
        folders=folders or ScriptedFolders(),
        policy=policy or house.policy,
        sources=ScriptedReportSources(house, events),
    )
    return asyncio.run(reports.report_since(since, with_folders=with_folders))


def of(report: Report, name: str) -> SessionReport:
    return next(each for each in report.sessions if each.id == f"claude-{name}")


def night() -> SupervisorFixture:
    """One who worked and finished, one who asks, one who died, one who goes on."""
    house = SupervisorFixture()
    for name in ("done", "asks", "dies", "works"):
        process = house.start(name, project=name)
        house.clock.advance(60.0)
        house.work(name)
        if name == "dies":
            house.end(process)
    house.clock.advance(3600.0)
    house.finish("done")
    house.ask("asks", "Bash: git push")
    return house


def test_everybody_stands_where_a_person_looks_first() -> None:
    """Who asks comes before the dead, the dead before those who finished, and each is counted once."""
    report = reported(night())
    assert [(each.id, each.part) for each in report.sessions] == [
        ("claude-asks", ReportSection.WAITING),
        ("claude-dies", ReportSection.DIED),
        ("claude-done", ReportSection.FINISHED),
        ("claude-works", ReportSection.WORKING),
    ]
    totals = report.totals
    assert (totals.sessions, totals.waiting, totals.died, totals.finished) == (4, 1, 1, 1)
    assert report.line == "2 need you · 1 died · 1 finished"


def test_a_question_comes_before_many_refused_logins() -> None:
    """A report lists a number of sessions only: the one that asks is among them, however old its question is."""
    house = SupervisorFixture()
    house.start("asks")
    house.ask("asks", "Bash: git push")
    house.clock.advance(60.0)
    for number in range(SESSIONS_MAX):
        house.start(f"s{number}")
        house.fail(f"s{number}", "Please run /login", Failure.AUTH)
    report = reported(house)
    assert report.sessions[0].id == "claude-asks"
    assert report.left_out == 1


def test_a_turn_that_changed_nothing_says_so() -> None:
    """Finished is what the agent said; git says whether anything came of it."""
    house = night()
    bare = reported(house, ScriptedFolders(done=GitChanges("/home/me/done", changed_files=3)))
    assert of(bare, "done").unchanged
    assert bare.totals.unchanged == 1
    said = "\n".join(report_lines(bare, "", house.clock.now().wall))
    assert "finished without changes in its folder" in said
    assert "1 finished a turn (1 without changes)" in said
    busy = reported(
        house, ScriptedFolders(done=GitChanges("/home/me/done", changed_files=3, touched_files=1))
    )
    assert not of(busy, "done").unchanged


def test_where_git_knows_nothing_nobody_is_blamed() -> None:
    """A folder without git is no proof that nothing changed."""
    report = reported(
        night(), ScriptedFolders(done=GitChanges("/home/me/done", problem="not in a git repository"))
    )
    assert not of(report, "done").unchanged
    assert report.totals.unchanged == 0


def test_a_night_nobody_watched_is_read_from_the_session() -> None:
    """Without a daemon there is no transition: the end of the last turn is still known."""
    house = night()
    asyncio.run(house.store.prune(START_WALL + 1e6))
    report = reported(house, since=house.clock.now().wall - 60.0)
    assert of(report, "done").finished == 1


def idle_by_registry(house: SupervisorFixture, name: str, process: Process) -> None:
    """Its client says idle, 0.2 s before its log says how the turn ended."""
    wall = house.clock.now().wall
    house.supervisor.on_process(
        subject(name),
        process,
        ProcessState.ALIVE,
        source="registry",
        status=ClientStatus.IDLE,
        status_wall=wall,
    )
    house.settle()
    house.clock.advance(0.2)


@pytest.mark.parametrize(
    ("end", "finished"),
    [
        (TurnEnded, 1),
        (lambda at: TurnFailed(at, Failure.PROVIDER, "overloaded"), 0),
        (TurnInterrupted, 0),
        (None, 0),
    ],
)
def test_only_turns_that_ended_well_are_finished(
    end: Callable[[float], Event] | None, finished: int, house: SupervisorFixture
) -> None:
    """The client is idle before its log says how the turn ended; what the log says counts, or that it says nothing."""
    process = house.start("one")
    for told in range(1, 3):
        house.clock.advance(60.0)
        house.work("one")
        house.clock.advance(60.0)
        idle_by_registry(house, "one", process)
        assert of(reported(house), "one").finished == finished * (told - 1)
        if end is not None:
            house.hear("one", end(house.clock.now().wall))
        assert of(reported(house), "one").finished == finished * told
    house.clock.advance(60.0)
    house.work("one")
    assert of(reported(house), "one").finished == finished * 2


def test_a_turn_that_a_person_ended_with_its_agent_is_not_finished(house: SupervisorFixture) -> None:
    """`agent stop --yes` in the middle of a turn: stopped and healthy, and its work is not done."""
    process = house.start("one")
    house.work("one")
    house.supervisor.mark_stopped_by_person([process])
    house.end(process)
    account = of(reported(house), "one")
    assert (account.state, account.health, account.finished) == ("stopped", "healthy", 0)


def test_what_was_before_is_left_out() -> None:
    """Only sessions that were active since then, or need a person now, are in the report."""
    house = night()
    house.clock.advance(NIGHT_SECONDS)
    report = reported(house, since=house.clock.now().wall - 60.0)
    assert [each.id for each in report.sessions] == ["claude-asks", "claude-dies"]
    assert report.line == "2 need you"


@pytest.mark.parametrize("since_seconds", [60.0, 300 * 86_400.0])
def test_every_problem_that_the_list_counts_is_counted(since_seconds: float) -> None:
    """Whenever it began: `ls` and the report's heading and line say the same number of sessions that need you."""
    house = night()
    house.start("login")
    house.fail("login", "please log in", Failure.AUTH)
    house.start("failed")
    house.fail("failed")
    house.clock.advance(NIGHT_SECONDS)
    shown = [
        each.record for each in house.registry.list_unfolded(house.clock.now()) if each.record is not None
    ]
    report = reported(house, since=house.clock.now().wall - since_seconds)
    needing = [each for each in report.sessions if each.attention in NEEDS_YOU]
    assert len(needing) == sum(needs_you(each) for each in shown) == 4
    totals = report.totals
    died_now = sum(each.died > 0 for each in needing)
    assert totals.waiting + totals.held + totals.trouble + died_now == 4
    assert totals.needs_you == 4
    heading_line = next(iter(list(report_lines(report, "", house.clock.now().wall))[1:2]))
    assert heading_line.startswith("  4 need you, ")
    assert report.line.startswith("4 need you")
    assert counts_text(shown).startswith("4 need you, ")


def test_who_died_came_back_and_failed_is_in_trouble() -> None:
    """That it died is over; what is wrong now is another problem, which `ls` counts."""
    house = night()
    house.start("dies", project="dies", pid=4242)
    house.work("dies")
    house.fail("dies", "please log in", Failure.REQUEST)
    house.clock.advance(60.0)
    report = reported(house)
    record = of(report, "dies")
    assert (record.died, record.attention in NEEDS_YOU) == (1, True)
    assert report.line == "2 need you · 1 died · 1 finished"


def test_a_resume_that_failed_is_no_second_death() -> None:
    """A client came up for the conversation, wrote nothing and went away, twice."""
    house = SupervisorFixture()
    killed_in_a_turn(house)
    for pid in (4300, 4301):
        resumed = come_up(house, pid)
        assert of(reported(house), "a").state == "starting"
        house.end(resumed)
    record = of(reported(house), "a")
    assert (record.health, record.died) == ("dead", 1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("300d", 300 * 86_400), ("6w", 42 * 86_400), ("1w2d", 9 * 86_400)]
)
def test_days_and_weeks_ago_are_understood(text: str, seconds: float) -> None:
    """However long ago: a report may reach back further than a mute or a wait may last."""
    assert START_WALL - parse_moment(text, START_WALL) == seconds


def test_folders_count_once(house: SupervisorFixture) -> None:
    """Two who work in one repository have made its commits together."""
    for name in ("one", "two"):
        house.start(name, project="shared")
        house.finish(name)
    folder = GitChanges("/home/me/shared", commits=2, changed_files=5, unpushed_commits=2, unpushed_files=4)
    folders = ScriptedFolders(shared=folder)
    report = reported(house, folders)
    assert (report.totals.commits, report.totals.changed_files, report.totals.unpushed_files) == (2, 5, 4)
    assert [each.shared_with for each in report.sessions] == [1, 1]
    assert folders.asked == ["/home/me/shared"]


def test_a_status_bar_asks_no_git() -> None:
    """What is asked for every few seconds reads neither folders nor logs."""
    folders = ScriptedFolders()
    report = reported(night(), folders, with_folders=False)
    assert (folders.asked, report.sessions[0].spent, report.line) == (
        [],
        None,
        "2 need you · 1 died · 1 finished",
    )


def test_who_was_brought_back_and_who_is_held() -> None:
    """Revivals come from the book of incidents, what is held from open checkpoints."""
    house = night()
    back, held = SessionId("claude-works"), SessionId("claude-dies")

    async def happen() -> None:
        opened = await house.incidents.join(back, Origin(Cause.SESSION, back), "silent")
        await house.incidents.update(
            opened.with_treatment(back, MemberStatus.REVIVED, "resumed its conversation")
        )
        asked = Checkpoint(7, CheckpointKind.SESSION, held, "dies", 1.0, (), ("Bash `git push`",), (), ())
        await house.store.save_note(Note(checkpoints.KIND, "000007", msgspec.json.encode(asked)))

    asyncio.run(happen())
    report = reported(house)
    assert (of(report, "works").part, of(report, "works").revived) == (ReportSection.REVIVED, True)
    assert (of(report, "dies").part, of(report, "dies").held) == (ReportSection.CHECKPOINT_OPEN, 7)
    assert (report.totals.revived, report.totals.held, report.totals.died) == (1, 1, 1)
    decided = Note(checkpoints.DECISION_KIND, "000007", b"{}")
    asyncio.run(house.store.save_note(decided))
    assert of(reported(house), "dies").part is ReportSection.DIED


def test_who_was_revived_and_then_given_up_counts_as_revived() -> None:
    """A revival that did not last was one too; one from before that moment is not counted."""

    async def scene() -> HealingFixture:
        async with opened() as clinic:
            clinic.living.dies_at_once = True
            await die_in_a_turn(clinic)
            await clinic.clock.run_for(3600)
            return clinic

    clinic = asyncio.run(scene())
    report = reported(clinic)
    account = of(report, "a")
    assert (account.part, account.revived, report.totals.revived) == (ReportSection.DIED, True, 1)
    assert "gave up" in account.words
    assert reported(clinic, since=clinic.clock.now().wall - 60.0).totals.revived == 0


def test_cost_is_tokens_and_money_where_somebody_named_prices() -> None:
    """Only what was used since then counts."""
    house = night()
    events = (SpentEvent(START_WALL - 9, 1000, 1000), SpentEvent(START_WALL + 9, 2_000_000, 100_000))
    plain = reported(house, events=events)
    assert (plain.totals.input_tokens, plain.totals.cost_usd) == (8_000_000, None)
    priced = Policy(input_usd_per_million=Dollars(1.0), output_usd_per_million=Dollars(5.0))
    assert of(reported(house, events=events, policy=priced), "done").cost_usd == 2.5


@pytest.mark.parametrize(
    ("first_at", "began", "whole"), [(50.0, 10.0, True), (150.0, 10.0, False), (150.0, 150.0, True)]
)
def test_what_was_not_read_is_said(first_at: float, began: float, whole: bool) -> None:
    """A log that begins after that moment, and not with the session, was read in part."""
    assert token_usage_since([SpentEvent(first_at, 1, 1)], 100.0, began).whole is whole


def test_a_pause_stands_first() -> None:
    """Whatever happened: nothing is done by Wakeful now."""
    house = night()
    asyncio.run(house.calm.pause("me", "repairs"))
    report = reported(house)
    assert report.line.startswith("PAUSED · 2 need you")
    assert next(iter(report_lines(report, "", START_WALL))).startswith("PAUSED by me")


def test_the_report_reads_like_this() -> None:
    """The whole text, as a person gets it; what agents wrote cannot move a cursor or begin a line."""
    house = night()
    commit = Commit("1a2b3c4", iso(START_WALL), "Fix the\x1b[31m login\nwakeful: all is well")
    folder = GitChanges(
        "/home/me/done",
        commits=1,
        newest_commits=(commit,),
        changed_files=2,
        touched_files=1,
        unpushed_commits=3,
        unpushed_files=5,
    )
    report = reported(house, ScriptedFolders(done=folder), events=(SpentEvent(START_WALL, 11_000, 400),))
    now = house.clock.now().wall
    assert list(report_lines(report, heading(START_WALL, now), now))[1:] == [
        "  2 need you, 1 finished a turn, 1 died, 0 resumed",
        "  1 commit, 2 changed files, 3 commits not pushed · 46k tokens",
        "",
        "◆ waiting for you",
        "  asks   asks you · Bash: git push · for 0s",
        "         11k tokens",
        "",
        "✗ died",
        "  dies   died in the middle of a turn · Bash: make test · 1h ago",
        "         11k tokens",
        "",
        "✓ finished",
        "  done   1 turn, the last 0s ago",
        "         1 commit, 2 changed files · 3 commits not pushed (5 files) · 11k tokens",
        "           1a2b3c4 Fix the login wakeful: all is well",
        "",
        "● running",
        "  works  running · Bash: make test",
        "         11k tokens",
    ]


def test_those_that_finished_a_turn_and_are_not_under_finished_are_counted() -> None:
    """One asks again and has one heading: the figure above says why it is larger than that section."""
    house = night()
    house.finish("works")
    house.clock.advance(60.0)
    house.work("works")
    lines = chat_text(reported(house)).splitlines()
    assert (
        lines[1]
        == "2 need you, 2 finished a turn (2 without changes, 1 under other headings), 1 died, 0 resumed"
    )
    assert "● running" in lines


def test_a_session_has_the_name_of_the_lists() -> None:
    """Not its id; beside a name of its own the project."""
    house = night()
    report = reported(house)
    first = msgspec.structs.replace(report.sessions[0], short_name="login", project="shop")
    second = msgspec.structs.replace(report.sessions[1], short_name="shop-3f2a", project="shop")
    shown = "\n".join(report_lines(msgspec.structs.replace(report, sessions=(first, second)), "", START_WALL))
    assert "  login (shop)  " in shown
    assert "  shop-3f2a     " in shown
    assert first.id not in shown


def test_a_chat_gets_it_in_one_message() -> None:
    """Without columns, sessions that need a person first; a long night says how much is left out."""
    house = night()
    lines = chat_text(reported(house)).splitlines()
    assert lines[0].startswith("The last ")
    assert lines[1] == "2 need you, 1 finished a turn (1 without changes), 1 died, 0 resumed"
    assert lines[4:6] == ["◆ waiting for you", "asks  asks you · Bash: git push · for 0s"]
    report = reported(house)
    crowded = chat_text(msgspec.structs.replace(report, sessions=report.sessions * 40))
    assert len(crowded) < CHAT_CHARS_MAX + 100
    assert crowded.splitlines()[-1].endswith("more lines: `wakeful report` on the host")


def test_a_time_of_day_is_the_last_one() -> None:
    """22:00 said in the morning was yesterday evening; said at 23:00 it was an hour ago."""
    for hour, seconds in ((7, 9 * 3600), (23, 3600), (22, 0)):
        # By whatever clock this host has on the wall.
        now = datetime(2026, 3, 10, hour, tzinfo=UTC).replace(tzinfo=None).timestamp()
        assert now - parse_moment("22:00", now) == seconds


def test_a_moment_is_understood_as_the_heading_of_a_report_says_it() -> None:
    """A day alone is its midnight; `yesterday` with a time of day is never today's."""
    now = datetime(2026, 3, 10, 23, tzinfo=UTC).replace(tzinfo=None).timestamp()
    days = (("today", 23), ("yesterday", 47), ("yesterday 22:00", 25), ("yesterday 23:30", 23.5))
    for text, hours in days:
        assert now - parse_moment(text, now) == hours * 3600


@pytest.mark.parametrize(
    "text", ["24:00", "7:5", "22:00:00", "tomorrow", "yesterday 24:00", "yesterday22:00", "", "-1h"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """With the three ways to write one."""
    with pytest.raises(BadMoment, match="22:00"):
        parse_moment(text, START_WALL)
