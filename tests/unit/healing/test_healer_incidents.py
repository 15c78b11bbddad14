"""Claims about incidents: their members, their time, their alerts, and when they are resolved. Virtual time."""

import asyncio

import msgspec
import pytest

from support.healing_fixture import (
    OWN_TMUX,
    FakeIssueTracker,
    HealingFixture,
    die_in_a_turn,
    opened,
    written,
)
from support.supervisor_fixture import BOOT, subject
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.model import Cause, Incident, MemberStatus, Origin, counts_text
from wakeful.incidents.service import KIND, REOPEN_SECONDS, Incidents
from wakeful.judging.events import Failure, LogOpened, Prompted, TurnEnded, TurnFailed
from wakeful.judging.evidence import Pane
from wakeful.judging.findings import Health, State
from wakeful.storage.base import ActionOutcome, Note
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock


async def test_an_incident_that_was_claimed_and_never_written_goes_on() -> None:
    """A crash between the two leaves only a claim: the next daemon stores the incident and lists it."""
    store, clock = MemoryStore(), VirtualClock()
    origin = Origin(Cause.MANY_DEATHS, "tower")
    await Incidents(store, clock).join(SessionId("claude-a"), origin, "died")
    (written,) = await store.notes(KIND)
    await store.drop_note(KIND, written.key)
    after = Incidents(store, clock)
    await after.load()
    await after.join(SessionId("claude-b"), origin, "died")
    (listed,) = await after.list_incidents()
    assert listed.id == written.key
    assert SessionId("claude-b") in listed.sessions
    assert [note.key for note in await store.notes(KIND)] == [written.key]


class SlowStore(MemoryStore):
    """Writes take a moment, as on a disk."""

    async def save_note(self, note: Note) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await super().save_note(note)


def test_what_two_do_to_one_incident_at_once_is_kept_of_both() -> None:
    """What became of one is not undone by the other, who made its own of the value it got when it joined."""

    async def scene() -> Incident:
        clock = VirtualClock()
        incidents = Incidents(SlowStore(), clock)
        origin = Origin(Cause.TMUX_SERVER, "/tmp/tmux")

        async def revived(name: str) -> None:
            joined = await incidents.join(SessionId(name), origin, "lost")
            await incidents.update(joined.with_treatment(SessionId(name), MemberStatus.REVIVED, "resumed"))

        await asyncio.gather(*(revived(name) for name in ("a", "b", "c", "d")))
        (incident,) = await incidents.list_incidents()
        return incident

    members = asyncio.run(scene()).members
    assert [(each.id, each.fate) for each in members] == [(name, MemberStatus.REVIVED) for name in "abcd"]


def limit(clinic: HealingFixture, name: str, seconds: float) -> None:
    """Its turn meets the usage limit, which ends so many seconds from now."""
    failed = TurnFailed(clinic.wall(), Failure.LIMIT, "limit reached", until=clinic.wall() + seconds)
    clinic.hear(name, Prompted(clinic.wall()), failed)


async def test_a_usage_limit_with_an_end_is_one_incident_and_one_alert_that_say_it(
    clinic: HealingFixture,
) -> None:
    """One alert while it lasts, with its sessions and the latest end; resolved when they went on."""
    for name, seconds in (("a", 3500.0), ("b", 3600.0)):
        await clinic.manage(name)
        limit(clinic, name, seconds)
    began = clinic.wall()
    await clinic.clock.run_for(60)
    (incident,) = await clinic.incidents.list_incidents()
    assert (incident.cause, incident.affected) == (Cause.USAGE_LIMIT, 2)
    assert incident.until == began + 3600
    (told,) = clinic.recorder.said
    assert "the usage limit of claude is reached until 2027-01-15 09:00 UTC: 2 sessions" in told
    assert "then Wakeful continues it once" in told
    assert clinic.living.acts == []
    assert written(clinic) == [(CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.NONE)] * 2
    await clinic.clock.run_for(3700)
    assert [act.partition(" ")[0] for act in clinic.living.acts] == ["deliver"] * 2
    assert await clinic.incidents.list_incidents() == []
    await clinic.clock.run_for(REOPEN_SECONDS)
    assert [each.partition(":")[0] for each in clinic.recorder.said[1:]] == ["Resolved"]
    assert "Action: resumed 2 sessions, all recovered" in clinic.recorder.said[1]


async def test_what_turns_out_to_be_managed_is_told_as_that(clinic: HealingFixture) -> None:
    """A client that fails at once is seen before its start is recorded."""
    for name in "ab":
        clinic.start(name)
        clinic.fail(name, "please log in", Failure.AUTH)
    await clinic.clock.run_for(1)
    for name in "ab":
        await clinic.hands.adopt(name, name=f"name-{name}")
        clinic.settle()
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    assert told.splitlines()[1] == "Where: name-a (shop), name-b (shop)"
    assert told.splitlines()[3] == "Action: skipped 2 sessions: auth_required needs a person"


async def test_a_found_session_leaves_the_incident_when_its_limit_is_lifted(clinic: HealingFixture) -> None:
    """Its owner continues it; the cause is over, and the end is sent."""
    clinic.start("a")
    limit(clinic, "a", 600.0)
    await clinic.clock.run_for(590)
    assert len(await clinic.incidents.list_incidents()) == 1
    await clinic.clock.run_for(30)
    assert await clinic.incidents.list_incidents() == []
    await clinic.clock.run_for(REOPEN_SECONDS)
    assert [each.partition(":")[0] for each in clinic.recorder.said[1:]] == ["Resolved"]


async def test_a_session_that_was_given_up_stays_in_its_incident(clinic: HealingFixture) -> None:
    """Its hung turn fails after all: no second alert, nothing is over, and its end is sent under the alert people have."""
    await clinic.manage("a")
    clinic.prompted("a", "Fix the tests")
    await clinic.clock.run_for(1400)
    (incident,) = await clinic.incidents.list_incidents()
    assert [each.fate for each in incident.members] == [MemberStatus.GIVEN_UP]
    clinic.hear("a", TurnFailed(clinic.wall(), Failure.PROVIDER, "idle timeout"))
    await clinic.clock.run_for(REOPEN_SECONDS + 60)
    assert [each.id for each in await clinic.incidents.list_incidents()] == [incident.id]
    assert len(clinic.recorder.said) == 1
    await clinic.hands.stop("a")
    clinic.settle()
    await clinic.clock.run_for(REOPEN_SECONDS + 60)
    problem, end = clinic.recorder.said
    assert "gave up" in problem
    assert end.startswith("Closed: ")
    assert end.endswith("Reason: a person stopped it")


async def test_the_end_of_an_incident_whose_cause_was_another_is_sent(clinic: HealingFixture) -> None:
    """It is over when its session moved to the other one, not at the next start of the daemon."""
    clinic.start("a")
    clinic.hear("a", Prompted(clinic.wall()))
    await clinic.clock.run_for(700)
    clinic.fail("a", "please log in", Failure.AUTH)
    await clinic.clock.run_for(REOPEN_SECONDS + 60)
    (incident,) = await clinic.incidents.list_incidents()
    assert incident.cause is Cause.AUTH
    said = clinic.recorder.said
    assert [each.splitlines()[0].partition(":")[0] for each in said][2:] == ["Closed"]
    assert said[2].endswith("Reason: another cause was found")


async def test_what_a_person_stopped_leaves_its_incident_and_is_healthy(clinic: HealingFixture) -> None:
    """Said to be stopped and never called recovered; the incident goes on for the others."""
    for name in "ab":
        await clinic.manage(name)
        clinic.fail(name, "please log in", Failure.AUTH)
    await clinic.clock.run_for(10)
    await clinic.hands.stop("a")
    clinic.settle()
    await clinic.clock.run_for(10)
    (incident,) = await clinic.incidents.list_incidents()
    assert (incident.sessions, incident.affected) == (("claude-b",), 2)
    assert counts_text(incident) == "1 session affected, 1: a person stopped it"
    record = clinic.registry.find("a").record
    assert record is not None
    assert (record.state, record.health, record.findings) == (State.STOPPED, Health.HEALTHY, ())
    assert clinic.healer.case_of(SessionId("claude-a")) is None
    deed = await clinic.healer.revive("a", approved=True)
    assert "`wakeful resume claude-a`" in deed.words
    assert CriticalEventKind.SESSION_RECOVERED not in [each.event for each in clinic.events]


async def test_stopping_a_held_session_answers_its_checkpoint(clinic: HealingFixture) -> None:
    """Nothing is left to decide, and its incident is over because a person stopped it."""
    await die_in_a_turn(clinic, command="git push origin main")
    await clinic.clock.run_for(10)
    assert len(await clinic.checkpoints.list_checkpoints(everything=False)) == 1
    await clinic.hands.stop("a")
    clinic.settle()
    await clinic.clock.run_for(10)
    assert await clinic.checkpoints.list_checkpoints(everything=False) == []
    assert await clinic.incidents.list_incidents() == []
    await clinic.clock.run_for(REOPEN_SECONDS)
    assert "a person stopped it" in clinic.recorder.said[-1]


async def test_a_found_session_that_somebody_closed_leaves_its_incident(clinic: HealingFixture) -> None:
    """A client that gives up by itself does so at once, and is still reported; one closed later is no problem."""
    closed, gave_up = clinic.start("a"), clinic.start("b")
    for name in "ab":
        clinic.fail(name, "please log in", Failure.AUTH)
    clinic.end(gave_up)
    await clinic.clock.run_for(100)
    clinic.end(closed)
    await clinic.clock.run_for(10)
    (incident,) = await clinic.incidents.list_incidents()
    assert incident.sessions == ("claude-b",)


async def test_a_session_whose_log_is_gone_keeps_no_incident_open(clinic: HealingFixture) -> None:
    """What was forgotten is looked at once more and let go."""
    process = clinic.start("a")
    clinic.fail("a")
    await clinic.clock.run_for(10)
    assert len(await clinic.incidents.list_incidents()) == 1
    clinic.forget("a", process)
    await clinic.clock.run_for(3700)
    assert await clinic.incidents.list_incidents() == []


async def test_two_daemons_on_one_store_open_one_incident_and_tell_it_once() -> None:
    """What the first manages is not found by the second, however late that hears of it; one of them revives it."""
    first = HealingFixture()
    second = HealingFixture(store=first.store, clock=first.clock)
    async with first.open(), second.open():
        process = second.start("a")
        first.come_up("a", process)
        first.hear("a", LogOpened(first.wall(), ConversationId("a"), "/home/me/shop"))
        await first.hands.adopt("a")
        for clinic in (second, first):
            clinic.work("a")
            clinic.end(process)
        await first.clock.run_for(30)
        assert len(await first.incidents.list_incidents(include_resolved=True)) == 1
        for clinic in (second, first):
            clinic.finish("a")
        await first.clock.run_for(30 + REOPEN_SECONDS)
        (incident,) = await second.incidents.list_incidents(include_resolved=True)
        assert not incident.is_open
    assert first.living.acts + second.living.acts == ["start"]
    told, over = first.recorder.said + second.recorder.said
    assert "Action: resumed its conversation" in told, told
    assert over.startswith("Resolved")


async def test_what_another_daemon_lets_go_or_stops_is_heard() -> None:
    """Managed, stopped and released are the same for every daemon on a store."""
    first = HealingFixture()
    second = HealingFixture(store=first.store, clock=first.clock)
    a = SessionId("claude-a")
    await first.manage("a")
    second.start("a")
    await second.holdings.reload()
    assert second.holdings.get(a).epoch == first.holdings.get(a).epoch
    await first.hands.stop("a")
    await second.holdings.reload()
    assert second.holdings.get(a).stopped
    await first.hands.release("a")
    await second.holdings.reload()
    assert second.holdings.find(a) is None


async def test_a_held_session_has_one_issue() -> None:
    """It needs a person like any other problem; its log line names the issue, which is filed once."""
    notary = FakeIssueTracker()
    async with opened(forge=notary) as clinic:
        await die_in_a_turn(clinic, command="git push origin main")
        await clinic.clock.run_for(3600)
    assert len(notary.reports) == 1
    assert [(each.action_taken, each.github_issue) for each in clinic.events] == [
        (ActionTaken.HELD_FOR_APPROVAL, "https://forge.example/shop/1")
    ]


async def test_why_of_an_idle_session_says_that_it_is_done(clinic: HealingFixture) -> None:
    """It does not advise to wait for a past end; a managed one can be prompted, a watched one inspected."""
    clinic.start("found")
    await clinic.manage("managed")
    await clinic.manage("stopped")
    await clinic.manage("evicted")
    for name in ("found", "managed"):
        clinic.finish(name)
    clinic.work("stopped")
    await clinic.hands.stop("stopped")
    clinic.work("evicted")
    await clinic.hands.stop("evicted", by_gateway=True)
    clinic.settle()

    def why(name: str) -> dict[str, object]:
        told: dict[str, object] = msgspec.json.decode(clinic.desk.why(name).body)
        return told

    assert why("found")["command"] == ["wakeful", "session", "inspect", "claude-found"]
    assert why("managed")["command"] == ["wakeful", "send", "claude-managed"]
    for name in ("found", "managed"):
        assert str(why(name)["command_text"]).startswith("nothing is wrong: it is done")
    assert why("stopped")["sentence"] == "stopped by a person, which is final"
    assert why("evicted")["sentence"] == "stopped: the chat gateway stopped it"
    declined = await clinic.healer.revive("evicted", approved=True)
    resume = "`wakeful resume claude-evicted` continues it"
    assert declined.words == f"the chat gateway stopped it: {resume}"


async def test_what_broke_in_the_hosts_sleep_is_one_incident() -> None:
    """Three hang since it slept: one alert. A fourth lost its connection as it woke, and was well before they were found."""
    async with opened() as clinic:
        for name in "abcd":
            await clinic.manage(name)
            clinic.hear(name, Prompted(clinic.wall()))
        await clinic.clock.run_for(30)
        clinic.clock.suspend(8 * 3600.0)
        clinic.clock.now()
        await clinic.clock.run_for(20)
        clinic.hear("d", TurnFailed(clinic.wall(), Failure.PROVIDER, "ECONNRESET"))
        await clinic.clock.run_for(60)
        clinic.finish("d")
        await clinic.clock.run_for(840)
        incidents = await clinic.incidents.list_incidents(include_resolved=True)
        assert [(each.cause, len(each.members)) for each in incidents] == [
            (Cause.SUSPEND, 1),
            (Cause.SUSPEND, 3),
        ]
    assert len(clinic.living.prompts) == 4
    told = [each.splitlines()[0] for each in clinic.recorder.said if not each.startswith("Resolved")]
    assert [each.partition(":")[0] for each in told] == ["testhost was suspended"] * 2


class Outage:
    """A provider that gives no answers for a while: every turn that begins fails, after the client's own retries."""

    RETRIES_SECONDS = 180.0
    NAMES = tuple(f"s{number}" for number in range(12))

    def __init__(self, clinic: HealingFixture) -> None:
        self._clinic = clinic
        self._asked_at: dict[str, float] = {}

    async def last_for(self, seconds: float) -> None:
        """All sessions work and fail, for this long."""
        for name in self.NAMES:
            await self._clinic.manage(name)
            self._clinic.fail(name)
        for _ in range(int(seconds // 10)):
            await self._clinic.clock.run_for(10)
            for name in self.waiting():
                if self._clinic.wall() - self._asked_at[name] >= self.RETRIES_SECONDS:
                    self._clinic.hear(name, TurnFailed(self._clinic.wall(), Failure.PROVIDER, "overloaded"))

    async def is_over_for(self, seconds: float) -> None:
        """The provider answers this session."""
        for _ in range(int(seconds // 10)):
            await self._clinic.clock.run_for(10)
            for name in self.waiting():
                self._clinic.hear(name, TurnEnded(self._clinic.wall()))

    def waiting(self) -> list[str]:
        """Those in a turn; since when is noted."""
        inside = [name for name in self.NAMES if self._clinic.registry.find(name).activity.in_turn]
        self._asked_at = {name: self._asked_at.get(name, self._clinic.wall()) for name in inside}
        return inside


async def test_in_an_outage_one_goes_ahead_and_the_others_keep_their_revival() -> None:
    """Half an hour without an answer costs a few of twelve their only revival; the rest return when it is over."""
    async with opened() as clinic:
        outage = Outage(clinic)
        await outage.last_for(1800)
        assert len(clinic.living.acts) == 3
        assert clinic.recorder.said[0].splitlines()[3].startswith("Action: resumed 1 session, 0 recovered")
        await outage.is_over_for(1200)
        assert len(clinic.living.acts) == len(outage.NAMES)
        healths = [clinic.registry.find(name).verdict for name in outage.NAMES]
        assert [each.health for each in healths if each is not None].count(Health.HEALTHY) == 9
        (incident,) = await clinic.incidents.list_incidents()
        assert [each.fate for each in incident.members if each.is_in] == [MemberStatus.GIVEN_UP] * 3
    told = [each for each in clinic.recorder.said if "fails to answer" in each.splitlines()[0]]
    assert len(told) == len(clinic.recorder.said) == 1


async def test_a_person_may_go_at_once_whoever_went_ahead(clinic: HealingFixture) -> None:
    """A person's request does not wait for the probe, nor for the limiter after too many failures."""
    await Outage(clinic).last_for(30)
    assert len(clinic.living.acts) == 1
    waiting = [name for name in Outage.NAMES if not clinic.registry.find(name).activity.in_turn]
    assert (await clinic.healer.revive(waiting[0], approved=True)).outcome is ActionOutcome.CONFIRMED


async def test_who_went_ahead_and_was_stopped_holds_nobody_back(clinic: HealingFixture) -> None:
    """Another one goes."""
    outage = Outage(clinic)
    await outage.last_for(30)
    await clinic.hands.stop(outage.waiting()[0])
    clinic.settle()
    await clinic.clock.run_for(60)
    assert [each.partition(" ")[0] for each in clinic.living.acts] == ["deliver", "stop", "deliver"]


@pytest.mark.parametrize("server", [ProcessState.ALIVE, ProcessState.DEAD])
async def test_a_pane_that_is_closed_after_its_agents_death_is_no_news(
    clinic: HealingFixture, server: ProcessState
) -> None:
    """Killed below a shell, its terminal closed a minute later: one event, one incident of its own, one alert."""
    process, shell = clinic.start("a"), Process(7, 1, BOOT)
    clinic.show("a", shell)
    clinic.work("a")
    clinic.end(process)
    await clinic.clock.run_for(60)
    (first,) = await clinic.incidents.list_incidents()
    closed = Pane(OWN_TMUX, "a", "%1", shell, sight=ProcessState.DEAD, runtime=server)
    clinic.supervisor.on_pane(subject("a").id, closed)
    clinic.settle()
    await clinic.clock.run_for(60)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert (incident.id, incident.cause, incident.is_open) == (first.id, Cause.SESSION, True)
    assert written(clinic) == [(CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.NONE)]
    assert len(clinic.recorder.said) == 1
