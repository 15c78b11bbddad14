"""Claims about checkpoints: numbers that never return, one decision, one effect, a file that says the same."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from support.healing_fixture import HealingFixture, opened
from wakeful.checkpoints.model import (
    BadCheckpoint,
    Checkpoint,
    CheckpointChoice,
    CheckpointKind,
    CheckpointState,
    ChoiceName,
    from_markdown,
    number_draft,
    to_markdown,
)
from wakeful.checkpoints.service import (
    AlreadyDecided,
    CheckpointNotFound,
    Checkpoints,
    DecisionOutcome,
    NotOffered,
)
from wakeful.checkpoints.session_draft import session_draft
from wakeful.checkpoints.sessions import SessionCheckpoints
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.healing.case import HealingCase
from wakeful.healing.plan import HealerObserves
from wakeful.judging.events import CallEnded, CallStarted, Prompted, TurnEnded
from wakeful.judging.evidence import Orphan
from wakeful.judging.findings import FindingCode
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome, Note
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

A = SessionId("claude-a")
CONTINUE, ROLLBACK, ABORT = ChoiceName.CONTINUE, ChoiceName.ROLLBACK, ChoiceName.ABORT
TEXTS = st.lists(st.text(max_size=400), max_size=25).map(tuple)


class MemoryFiles:
    """Files in memory; `taken` are foreign ones."""

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self.written: dict[int, Checkpoint] = {}

    async def is_free(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.number not in self.taken

    async def write(self, checkpoint: Checkpoint) -> None:
        self.written[checkpoint.number] = checkpoint


class ScriptedExecutor:
    """Counts what it carried out, and can be unable to."""

    def __init__(self) -> None:
        self.done: list[tuple[int, ChoiceName]] = []
        self.unable = False

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        await asyncio.sleep(0)
        if self.unable:
            raise WorldError
        self.done.append((checkpoint.number, choice))
        return DecisionOutcome(ActionOutcome.CONFIRMED, "done")


class BusyStore(MemoryStore):
    """Others get their turn before an answer comes."""

    async def notes(self, kind: str) -> list[Note]:
        found = await super().notes(kind)
        await asyncio.sleep(0)
        return found


class CheckpointsFixture:
    """Checkpoints over one store, which outlives them."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.papers = MemoryFiles()
        self.porter = ScriptedExecutor()
        self.checkpoints = Checkpoints(self.store, VirtualClock(), self.papers)
        self.checkpoints.executors[CheckpointKind.JOURNAL] = self.porter


def draft(subject: str = "/srv/shop", may_have: str = "publish", *, undo: bool = False) -> Checkpoint:
    choices = [
        CheckpointChoice(CONTINUE, "the step is run again"),
        CheckpointChoice(ABORT, "nothing more is run"),
    ]
    if undo:
        choices.append(CheckpointChoice(ROLLBACK, "the steps are undone", ("./unpublish 1.2",)))
    return Checkpoint(
        0,
        CheckpointKind.JOURNAL,
        subject,
        "shop",
        0.0,
        ("build",),
        (may_have,),
        ("announce",),
        tuple(choices),
    )


async def test_numbers_are_never_given_twice() -> None:
    """Two services on one store open at once; a foreign file is skipped; the same question is one."""
    one, two = CheckpointsFixture(), CheckpointsFixture(store := MemoryStore())
    one.checkpoints = Checkpoints(store, VirtualClock(), one.papers)
    opened = await asyncio.gather(
        *(
            desk.checkpoints.open(draft(f"/srv/{at}", name))
            for at in range(5)
            for name, desk in {"one": one, "two": two}.items()
        )
    )
    assert {each.number for each in opened} == set(range(1, 11))
    assert await two.checkpoints.open(draft("/srv/3", "one")) in opened
    two.papers.taken = {11, 12}
    assert (await two.checkpoints.open(draft("/srv/other"))).number == 13


async def test_two_daemons_that_ask_the_same_at_once_ask_it_once() -> None:
    """Of one store; what else is asked at the same moment gets a number of its own."""
    store = BusyStore()
    desks = [CheckpointsFixture(store) for _ in range(3)]
    questions = [draft(), draft(), draft("/srv/bank")]
    opened = [desk.checkpoints.open(each) for desk, each in zip(desks, questions, strict=True)]
    first, second, other = [each.number for each in await asyncio.gather(*opened)]
    assert (first == second, first != other) == (True, True)


async def test_how_many_wait_is_known_whoever_opened_them() -> None:
    """Counted when one is opened or decided here, and with every look for those of other programs."""
    one = CheckpointsFixture()
    two = CheckpointsFixture(one.store)
    number = (await one.checkpoints.open(draft("/srv/one"))).number
    await two.checkpoints.open(draft("/srv/two"))
    assert (one.checkpoints.open_count, two.checkpoints.open_count) == (1, 2)
    await one.checkpoints.list_checkpoints()
    assert one.checkpoints.open_count == 2
    await one.checkpoints.decide(number, CONTINUE, "ann@host")
    assert one.checkpoints.open_count == 1


def test_what_follows_from_a_choice_is_said_before_a_line_is_cut() -> None:
    """However many tools live on, and however long their commands are."""
    orphans = [Orphan(Process(pid, 1, "boot"), "x" * 400) for pid in range(9)]
    case = HealingCase(
        session_id=A, work="w", project="shop", code=FindingCode.SESSION_DEAD, opened_at=0.0, code_since=0.0
    )
    asked = number_draft(session_draft(case, (), (), orphans), 1, 0.0)
    told = [choice.consequence for choice in asked.choices]
    assert [" is ended first: `" in each for each in told] == [True, True, False]
    assert " What still runs is ended: `" in told[2]
    assert all(each.endswith("(process 0) and 8 more.") for each in told)


async def test_the_first_decision_stays() -> None:
    """The same answer twice counts once; a different second answer gets the first decision, its person and time."""
    desk = CheckpointsFixture()
    number = (await desk.checkpoints.open(draft())).number
    first = await desk.checkpoints.decide(number, CONTINUE, "ann@host")
    assert (first.changed, first.checkpoint.state) == (True, CheckpointState.CONTINUED)
    second = await desk.checkpoints.decide(number, CONTINUE, "bob@host")
    assert (second.changed, second.checkpoint.decided_by) == (False, "ann@host")
    with pytest.raises(AlreadyDecided, match=r"is already continued by ann@host at 2\d{3}-"):
        await desk.checkpoints.decide(number, ABORT, "bob@host")
    assert desk.porter.done == [(number, CONTINUE)]
    assert desk.papers.written[number].decided_by == "ann@host"


async def test_many_who_answer_at_once_do_it_once() -> None:
    """Of eight different answers one counts, and its effect happens once."""
    desk = CheckpointsFixture(BusyStore())
    number = (await desk.checkpoints.open(draft())).number
    answers = [desk.checkpoints.decide(number, (CONTINUE, ABORT)[at % 2], f"p{at}") for at in range(8)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert len(desk.porter.done) == 1
    assert sum(isinstance(each, AlreadyDecided) for each in outcomes) == 4


async def test_what_was_decided_is_carried_out_by_the_next_one() -> None:
    """A decision whose effect failed is stored, and done once at the next start or the next request."""
    desk = CheckpointsFixture()
    number = (await desk.checkpoints.open(draft())).number
    desk.porter.unable = True
    with pytest.raises(WorldError):
        await desk.checkpoints.decide(number, ABORT, "ann")
    assert (await desk.checkpoints.get(number)).state is CheckpointState.ABORTED
    following = CheckpointsFixture(desk.store)
    for _ in range(2):
        await following.checkpoints.restore()
        await asyncio.sleep(0.05)
    assert following.porter.done == [(number, ABORT)]


async def test_only_what_is_offered_can_be_chosen() -> None:
    """No rollback without an undo, and nothing about a checkpoint that is not there."""
    desk = CheckpointsFixture()
    number = (await desk.checkpoints.open(draft())).number
    with pytest.raises(NotOffered, match="no way to undo this is known"):
        await desk.checkpoints.decide(number, ROLLBACK, "ann")
    with pytest.raises(CheckpointNotFound):
        await desk.checkpoints.decide(99, CONTINUE, "ann")
    undoable = await desk.checkpoints.open(draft("/srv/2", undo=True))
    choice = undoable.choice(ROLLBACK)
    assert choice is not None
    assert choice.commands == (f"wakeful checkpoint rollback {undoable.number}", "./unpublish 1.2")


@given(TEXTS, TEXTS, TEXTS, st.text(max_size=50))
def test_the_file_says_what_the_value_says(
    happened: tuple[str, ...], may_have: tuple[str, ...], did_not: tuple[str, ...], consequence: str
) -> None:
    """Whatever an agent wrote, the file is read back unchanged, and every heading in it is Wakeful's."""
    choices = (CheckpointChoice(CONTINUE, consequence, happened), CheckpointChoice(ABORT, ""))
    whole = Checkpoint(
        0, CheckpointKind.SESSION, A, "shop", 0.0, happened, may_have, did_not, choices, trace_id="t"
    )
    checkpoint = number_draft(whole, 7, 1_800_000_000.125)
    text = to_markdown(checkpoint)
    assert from_markdown(text) == checkpoint
    headings = [line for line in text.split("\n") if line.startswith("#")]
    assert len(headings) == 7
    decided = checkpoint.with_decision(ABORT, "ann@host", 1_800_000_001.5)
    assert from_markdown(to_markdown(decided)) == decided


@given(st.text(max_size=300) | st.text(max_size=200).map(lambda text: f"# Checkpoint 1: x\n{text}"))
def test_any_text_is_a_checkpoint_or_refused(text: str) -> None:
    """A foreign file raises nothing but BadCheckpoint."""
    with pytest.raises(BadCheckpoint):
        from_markdown(text)


Scene = Callable[[HealingFixture], Awaitable[None]]


async def held(clinic: HealingFixture, command: str = "git push origin main") -> None:
    """A session cut off inside this command, after it had opened a pull request."""
    process = await clinic.manage("a")
    at = clinic.wall()
    opened = CallStarted(at, "c1", "Bash", input=b'{"command": "gh pr create --fill"}')
    clinic.hear("a", Prompted(at), opened, CallEnded(at, "c1"))
    clinic.work("a", command)
    clinic.end(process)
    await clinic.clock.run_for(10)


async def test_a_held_session_is_a_checkpoint_a_person_can_read() -> None:
    """Done, perhaps done and not done are distinct; the alert names it; a second request opens no second one."""
    async with opened() as clinic:
        await held(clinic)
        clinic.healer.recheck_all()
        await clinic.clock.run_for(600)
        (checkpoint,) = await clinic.checkpoints.list_checkpoints()
        assert checkpoint.happened == ("Bash `gh pr create --fill`",)
        (cut_off,) = checkpoint.may_have
        assert cut_off.startswith("Bash `git push origin main`, begun ")
        assert "remote" in cut_off
        assert [each.name for each in checkpoint.choices] == [CONTINUE, ChoiceName.DONE, ABORT]
        assert [each.commands[0] for each in checkpoint.choices] == [
            "wakeful checkpoint continue 1",
            "wakeful checkpoint continue 1 --done",
            "wakeful checkpoint abort 1",
        ]
        assert clinic.papers.written[1] == checkpoint
    assert [each for each in clinic.recorder.said if "wakeful checkpoint show 1" in each] == [
        clinic.recorder.said[0]
    ]
    assert clinic.living.acts == []


async def test_continue_revives_it_once(clinic: HealingFixture) -> None:
    """The decision names who; a second yes, and `revive --yes`, change nothing."""
    await held(clinic)
    decided = await clinic.checkpoints.decide(1, CONTINUE, "ann@host")
    assert decided.outcome is ActionOutcome.CONFIRMED
    assert (await clinic.checkpoints.decide(1, CONTINUE, "bob")).changed is False
    clinic.hear("a", TurnEnded(clinic.wall()))
    await clinic.clock.run_for(150)
    assert clinic.living.acts == ["start"]
    assert clinic.recorder.said[-1].startswith("Resolved")


async def test_what_somebody_saw_done_is_not_repeated_by_its_agent(clinic: HealingFixture) -> None:
    """It goes on once, with the note that its calls have happened; a plain continue after that is another answer."""
    await held(clinic)
    decided = await clinic.checkpoints.decide(1, ChoiceName.DONE, "ann@host")
    assert (decided.outcome, decided.checkpoint.state) == (
        ActionOutcome.CONFIRMED,
        CheckpointState.COUNTED_DONE,
    )
    assert (await clinic.checkpoints.decide(1, ChoiceName.DONE, "bob")).changed is False
    with pytest.raises(AlreadyDecided, match="is already counted done by ann@host"):
        await clinic.checkpoints.decide(1, CONTINUE, "bob")
    await clinic.clock.run_for(60)
    assert clinic.living.acts == ["start"]
    (prompt,) = clinic.living.prompts
    assert "every call named above has happened. Do not repeat" in prompt


async def test_abort_stops_it_for_good(clinic: HealingFixture) -> None:
    """Nothing is started, now or later, no further alert is sent, and its incident is over."""
    await held(clinic)
    decided = await clinic.checkpoints.decide(1, ABORT, "ann@host")
    assert decided.checkpoint.state is CheckpointState.ABORTED
    await clinic.clock.run_for(7200)
    assert clinic.healer.case_of(A) is None
    assert clinic.holdings.get(A).stopped
    assert await clinic.incidents.list_incidents() == []
    with pytest.raises(AlreadyDecided):
        await clinic.checkpoints.decide(1, CONTINUE, "bob")
    assert "start" not in clinic.living.acts


@pytest.mark.parametrize(("choice", "acts"), [(CONTINUE, ["start"]), (ABORT, ["stop"])])
async def test_an_answer_at_once_is_carried_out(
    choice: ChoiceName, acts: list[str], clinic: HealingFixture
) -> None:
    """Decided before the healer stored its number, it is still carried out, and no second question is asked."""
    answers: list[asyncio.Task[object]] = []

    class Hasty(SessionCheckpoints):
        async def open_checkpoint(self, watched: TrackedSession, trouble: HealingCase) -> int:
            number = await super().open_checkpoint(watched, trouble)
            answers.append(asyncio.create_task(self._checkpoints.decide(number, choice, "ann")))
            for _ in range(50):
                await asyncio.sleep(0)
            return number

    around = clinic.healer._situations
    clinic.cases._checkpoints = Hasty(clinic.checkpoints, around, clinic)
    await held(clinic)
    await clinic.clock.run_for(60)
    await asyncio.gather(*answers)
    (checkpoint,) = await clinic.checkpoints.list_checkpoints()
    assert checkpoint.decided_by == "ann"
    assert clinic.living.acts == acts


async def test_what_is_decided_while_observing_is_done_once_it_may_be(clinic: HealingFixture) -> None:
    """Nothing happens and nothing is forgotten: a yes to the session answers no checkpoint, a decision waits."""
    await held(clinic)
    rules, clinic.rules = clinic.rules, replace(clinic.rules, mode="observe")
    with pytest.raises(HealerObserves):
        await clinic.healer.revive("a", approved=True, by="ann")
    assert len(await clinic.checkpoints.list_checkpoints(everything=False)) == 1
    with pytest.raises(HealerObserves):
        await clinic.checkpoints.decide(1, CONTINUE, "ann")
    assert clinic.living.acts == []
    clinic.rules = rules
    await clinic.checkpoints.restore()
    await clinic.clock.run_for(10)
    assert clinic.living.acts == ["start"]


async def test_revive_yes_answers_the_checkpoint(clinic: HealingFixture) -> None:
    """With the person's name; an abort after that is refused."""
    await held(clinic)
    await clinic.healer.revive("a", approved=True, by="ann@host")
    (checkpoint,) = await clinic.checkpoints.list_checkpoints()
    assert (checkpoint.state, checkpoint.decided_by) == (CheckpointState.CONTINUED, "ann@host")
    assert clinic.living.acts == ["start"]


async def test_a_yes_is_for_what_was_cut_off_then(clinic: HealingFixture) -> None:
    """Revived and killed inside another push of the same turn, it is held again, with a new number."""
    await held(clinic)
    await clinic.checkpoints.decide(1, CONTINUE, "ann")
    clinic.work("a", "git push origin other")
    await clinic.clock.run_for(60)
    (process,) = clinic.registry.find("a").presence.living_processes
    clinic.end(process.process)
    await clinic.clock.run_for(60)
    (second,) = await clinic.checkpoints.list_checkpoints(everything=False)
    assert second.number == 2
    assert "other" in second.may_have[-1]
    assert clinic.living.acts == ["start"]


async def test_whoever_goes_on_with_it_elsewhere_answers_it(clinic: HealingFixture) -> None:
    """A session that works again needs no decision."""
    await held(clinic)
    clinic.start("a")
    clinic.hear("a", Prompted(clinic.wall()), TurnEnded(clinic.wall()))
    await clinic.clock.run_for(60)
    assert await clinic.checkpoints.list_checkpoints(everything=False) == []
    assert "start" not in clinic.living.acts


async def test_a_lesson_lets_go_what_was_held_for_it(clinic: HealingFixture) -> None:
    """Unknown becomes local in this project: it is resumed at once, and the next time no question is asked."""
    await held(clinic, "./sync-fixtures.sh --all")
    assert len(await clinic.checkpoints.list_checkpoints(everything=False)) == 1
    await clinic.lessons.teach("shop", "./sync-fixtures.sh", "ann")
    await clinic.clock.run_for(10)
    assert await clinic.checkpoints.list_checkpoints(everything=False) == []
    assert clinic.living.acts == ["start"]


async def test_a_pause_does_not_lose_what_must_be_held(clinic: HealingFixture) -> None:
    """The alert during the pause says that nothing is done; after the pause it waits for a person with
    another alert."""
    await clinic.calm.pause("ann")
    await held(clinic)
    assert await clinic.checkpoints.list_checkpoints() == []
    await clinic.calm.resume()
    clinic.healer.recheck_all()
    await clinic.clock.run_for(10)
    assert len(await clinic.checkpoints.list_checkpoints()) == 1
    assert "wakeful checkpoint show 1" in clinic.recorder.said[-1]
