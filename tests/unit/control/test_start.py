"""Claims about sessions that are being started, about their names, and about what a crash left unsaid of them."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import pytest

from support.control_helpers import now, request
from support.supervisor_fixture import BOOT, SupervisorFixture, subject
from wakeful.control.controller import NOT_MANAGED_ANY_MORE
from wakeful.control.driver import ActionResult
from wakeful.control.gate import ActionIntent, ActionKind, ActionRecord, reconcile
from wakeful.control.ownership import NothingToRelease
from wakeful.control.start import NameTaken, NoHeadlessDriver, plan_run
from wakeful.core.errors import AmbiguousSession, SessionNotFound, StartFailed, WorldError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.leases import LeaseKey
from wakeful.core.managed_session import INTENT_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.judging.events import LogOpened
from wakeful.judging.evidence import ClientStatus
from wakeful.storage.base import ActionOutcome, Intent

T = TypeVar("T")
_UUID = UUID(int=7)
A = SessionId("claude-a")


async def while_starting(
    house: SupervisorFixture, name: str, act: Coroutine[Any, Any, T]
) -> tuple[ActionRecord, T]:
    """Start a session of this name; the act is asked for while its start is not seen through."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def settle() -> None:
        begun.set()
        await go_on.wait()

    house.driver.settled = settle
    starting = asyncio.create_task(house.hands.run(request(name=name)))
    await begun.wait()
    acting = asyncio.create_task(act)
    await asyncio.sleep(0)
    go_on.set()
    return await starting, await acting


def test_a_stop_while_starting_ends_what_was_started(house: SupervisorFixture) -> None:
    """The session is managed before its start is seen through; the stop waits for that and is final."""
    started, stopped = now(while_starting(house, "docs", house.hands.stop("docs")))
    assert (started.outcome, stopped.outcome) == (ActionOutcome.CONFIRMED, ActionOutcome.CONFIRMED)
    assert house.driver.acts == ["start", "stop"]
    assert house.holdings.get(started.session_id).stopped


def test_a_release_while_starting_stays_one(house: SupervisorFixture) -> None:
    """The agent goes on; its start ends without managing it again."""
    started, _ = now(while_starting(house, "docs", house.hands.release("docs")))
    assert started.outcome is ActionOutcome.CONFIRMED
    assert house.holdings.find(started.session_id) is None
    assert now(house.store.leases()) == []


def test_a_start_that_fails_late_leaves_nothing_and_a_stop_of_it_is_declined(
    house: SupervisorFixture,
) -> None:
    """What was kept while it started is forgotten: no hosting, no claim, no session."""

    async def scenario() -> ActionRecord:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def settle() -> None:
            begun.set()
            await go_on.wait()
            raise StartFailed(program="claude", reason="it ended")

        house.driver.settled = settle
        starting = asyncio.create_task(house.hands.run(request(name="docs")))
        await begun.wait()
        stopping = asyncio.create_task(house.hands.stop("docs"))
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(StartFailed):
            await starting
        return await stopping

    record = now(scenario())
    assert (record.outcome, record.words) == (ActionOutcome.DECLINED, NOT_MANAGED_ANY_MORE)
    assert (house.holdings.all(), now(house.store.leases())) == ([], [])
    with pytest.raises(SessionNotFound):
        house.registry.find("docs")


class Full(WorldError):
    """The disk is full."""

    code = "full"


def refuse_after(
    monkeypatch: pytest.MonkeyPatch, house: SupervisorFixture, operation: str, times: int
) -> None:
    """The store takes this so many times, and then nothing more."""
    take, taken = getattr(house.store, operation), 0

    async def refusing(*given: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken > times:
            raise Full
        return await take(*given)

    monkeypatch.setattr(house.store, operation, refusing)


@pytest.mark.parametrize("argv", [("claude",), ("codex", "exec", "x")])
def test_what_cannot_be_kept_is_not_left_running(
    house: SupervisorFixture, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    """A disk that is full the moment a program was launched: it is ended again, and nothing was started."""
    house.driver.names_itself = SessionId("codex-1") if argv[0] == "codex" else None
    refuse_after(monkeypatch, house, "save_managed_session", 0)
    with pytest.raises(Full):
        now(house.hands.run(request(*argv)))
    assert house.driver.acts == ["start", "stop"]
    assert (house.holdings.all(), now(house.store.leases())) == ([], [])


@pytest.mark.parametrize(("operation", "times"), [("save_managed_session", 1), ("save_conclusion", 0)])
def test_what_was_kept_stays_managed_when_the_rest_cannot_be_written(
    house: SupervisorFixture, monkeypatch: pytest.MonkeyPatch, operation: str, times: int
) -> None:
    """It runs and is known: whatever the caller gets, it stays managed."""
    refuse_after(monkeypatch, house, operation, times)
    with contextlib.suppress(Full):
        now(house.hands.run(request(name="docs")))
    (kept,) = house.holdings.all()
    assert (house.driver.acts, kept.name, kept.process is not None) == (["start"], "docs", True)
    assert len(now(house.store.leases())) == 1


def test_a_codex_stopped_while_its_turn_begins_stays_stopped(house: SupervisorFixture) -> None:
    """It has its own id as soon as it reported it, and its start does not undo the stop."""
    house.driver.names_itself = SessionId("codex-t")

    async def settle() -> None:
        await house.hands.stop("codex-t")

    house.driver.settled = settle
    now(house.hands.run(request("codex", "exec", "fix it")))
    assert (house.driver.acts, house.holdings.get(SessionId("codex-t")).stopped) == (["start", "stop"], True)


def test_a_name_stands_for_its_session(house: SupervisorFixture) -> None:
    """Every command takes it; of two that live, a person has to say which; one that ended gives way."""
    first = now(house.hands.run(request(name="docs")))
    assert house.registry.resolve("docs") == first.session_id
    house.settle()
    record = house.registry.find("docs").record
    assert record is not None
    assert (record.name, record.managed) == ("docs", True)
    with pytest.raises(NameTaken, match=first.session_id):
        now(house.hands.run(request(name="docs")))
    end(house, first.session_id)
    second = now(house.hands.run(request(name="docs")))
    assert house.registry.resolve("docs") == second.session_id
    end(house, second.session_id)
    with pytest.raises(AmbiguousSession):
        house.registry.resolve("docs")


def end(house: SupervisorFixture, session_id: SessionId) -> None:
    """Its agent ends, as processes and log sources see it."""
    process = house.holdings.get(session_id).process
    assert process is not None
    house.world.dead.add(process)
    house.end(process)


def test_a_name_outlives_a_release(house: SupervisorFixture) -> None:
    """Who gives a session back can take it again by the same name."""
    started = now(house.hands.run(request(name="docs")))
    now(house.hands.release("docs"))
    house.hear(
        str(started.session_id).removeprefix("claude-"), LogOpened(0.0, ConversationId("x"), "/home/me/shop")
    )
    assert now(house.hands.adopt("docs")).name == "docs"


def test_a_program_that_ended_can_be_run_again_by_its_name(house: SupervisorFixture) -> None:
    """It is the same session under the next epoch; one that cannot be started leaves the name free."""
    run = request("make", name="nightly")
    now(house.hands.run(run))
    end(house, SessionId("nightly"))
    now(house.hands.run(run))
    assert house.holdings.get(SessionId("nightly")).epoch == 2
    end(house, SessionId("nightly"))
    house.driver.problem = StartFailed(program="make", reason="it ended")
    with pytest.raises(StartFailed):
        now(house.hands.run(run))
    assert (house.holdings.all(), now(house.store.leases())) == ([], [])


def test_what_is_not_managed_cannot_be_released(house: SupervisorFixture) -> None:
    """The second release says so, and does not offer to adopt it."""
    house.start("a")
    now(house.hands.adopt("a"))
    now(house.hands.release("a"))
    with pytest.raises(NothingToRelease, match="nothing to release"):
        now(house.hands.release("a"))


def test_only_clients_with_a_driver_for_it_run_headless(house: SupervisorFixture) -> None:
    """Anything else is refused before anything is claimed; Codex never has a terminal."""
    with pytest.raises(NoHeadlessDriver, match="--headless is not possible"):
        now(house.hands.run(request("bash", terminal=False)))
    assert (house.driver.asked, now(house.store.leases())) == ([], [])
    named = SessionId("codex-t")
    house.driver.names_itself = named
    assert now(house.hands.run(request("codex", "exec", "x", terminal=False))).session_id == named


def test_a_prompt_brings_the_environment_of_its_sender(house: SupervisorFixture) -> None:
    """For clients that need a new process for it; without what tells a child whose it is."""
    house.start("a")
    now(house.hands.adopt("a"))
    now(house.hands.deliver("a", "go on", {"KEY": "k", "CLAUDECODE": "1"}))
    assert house.driver.environ == {"KEY": "k"}


def test_what_its_client_said_outlives_what_is_kept(house: SupervisorFixture) -> None:
    """An act that writes down where a session lives does not forget that it waits for a person."""
    process = house.start("a")
    managed = now(house.hands.adopt("a"))
    house.supervisor.on_process(
        subject("a"),
        process,
        ProcessState.ALIVE,
        source="registry",
        status=ClientStatus.WAITING,
        waiting_for="Bash",
    )
    now(house.holdings.save(managed))
    (holder,) = house.registry.find("a").presence.living_processes
    assert (holder.status, holder.waiting_for, holder.source) == (ClientStatus.WAITING, "Bash", "registry")


def left_open(house: SupervisorFixture, act: ActionKind, *, prompt_chars: int, planned: bool) -> None:
    """As a daemon leaves it that is killed in the middle of this act."""
    house.start("a")
    managed = now(house.hands.adopt("a"))
    intent = ActionIntent(managed if planned else None, prompt_chars)
    now(house.store.save_intent(Intent("i1", A, act, msgspec.json.encode(intent), 0.0)))
    assert managed.process is not None
    house.world.marks[INTENT_VARIABLE, "i1"] = [managed.process]


@pytest.mark.parametrize(
    ("act", "planned"), [(ActionKind.START, True), (ActionKind.RESUME, True), (ActionKind.DELIVER, False)]
)
def test_a_prompt_nobody_saw_taken_is_said_until_the_next_one(
    house: SupervisorFixture, act: ActionKind, *, planned: bool
) -> None:
    """`status` warns of it and `why` names it; a prompt that is seen taken ends it."""
    left_open(house, act, prompt_chars=24, planned=planned)
    (result,) = now(reconcile(house.store, house.gate, house.holdings, house.world))
    house.settle()
    assert result.outcome is ActionOutcome.UNVERIFIED
    warnings = msgspec.json.decode(house.desk.status("a").body)["supervision"]["warnings"]
    assert ["24 characters" in each for each in warnings] == [True]
    assert "before it saw the prompt" in house.desk.why("a").body.decode()
    now(house.hands.deliver("a", "again"))
    house.settle()
    assert msgspec.json.decode(house.desk.status("a").body)["supervision"]["warnings"] == []


def test_a_start_without_a_prompt_leaves_nothing_to_be_said(house: SupervisorFixture) -> None:
    """It was found running: that is all there was to it."""
    left_open(house, ActionKind.START, prompt_chars=0, planned=True)
    (result,) = now(reconcile(house.store, house.gate, house.holdings, house.world))
    assert (result.outcome, house.holdings.get(A).note) == (ActionOutcome.CONFIRMED, "")


def test_a_client_that_had_not_named_itself_is_not_kept_under_a_made_up_name(
    house: SupervisorFixture,
) -> None:
    """Its process lives and is for a person to hand over; nothing is managed that has no conversation."""
    plan = plan_run(request("codex", "exec", "x"), _UUID)
    planned = house.hands._starter._planned_session(plan, SessionId("start-1"), request("codex"), 1)
    assert planned.conversation_id == ConversationId("")
    intent = Intent(
        "i1", SessionId("start-1"), ActionKind.START, msgspec.json.encode(ActionIntent(planned, 1)), 0.0
    )
    now(house.store.save_intent(intent))
    house.world.marks[INTENT_VARIABLE, "i1"] = [Process(9, 1, BOOT)]
    (result,) = now(reconcile(house.store, house.gate, house.holdings, house.world))
    assert (result.outcome, "adopt" in result.words) == (ActionOutcome.UNVERIFIED, True)
    assert house.holdings.all() == []


@pytest.mark.parametrize("is_held", [False, True])
def test_a_client_that_named_itself_after_the_crash_is_kept_unless_somebody_has_it(
    house: SupervisorFixture, *, is_held: bool
) -> None:
    """Its driver knows its output; a conversation that another owner claimed meanwhile stays theirs."""
    plan = plan_run(request("codex", "exec", "x"), _UUID)
    planned = house.hands._starter._planned_session(plan, SessionId("start-1"), request("codex"), 1)
    begun = msgspec.structs.replace(planned, session_id=A, conversation_id=ConversationId("a"))
    intent = Intent(
        "i1", SessionId("start-1"), ActionKind.START, msgspec.json.encode(ActionIntent(planned, 1)), 0.0
    )
    now(house.store.save_intent(intent))
    if is_held:
        now(house.store.claim_lease(LeaseKey(A), "another one"))

    async def find_begun(
        _planned: ManagedSession, intent_id: str, _carriers: Sequence[Process]
    ) -> ActionResult | None:
        assert intent_id == "i1"
        return ActionResult(ActionOutcome.CONFIRMED, "its turn began", begun)

    (result,) = now(reconcile(house.store, house.gate, house.holdings, house.world, (), find_begun))
    assert result.outcome is (ActionOutcome.UNVERIFIED if is_held else ActionOutcome.CONFIRMED)
    assert [(each.session_id, each.note) for each in house.holdings.all()] == ([] if is_held else [(A, "")])


@pytest.mark.parametrize("final", [True, False])
def test_an_interrupted_stop_is_still_a_stop(house: SupervisorFixture, *, final: bool) -> None:
    """The session is not revived afterwards; one that was to come back may."""
    house.start("a")
    managed = now(house.hands.adopt("a"))
    evidence = msgspec.json.encode(ActionIntent(managed, final=final))
    now(house.store.save_intent(Intent("i1", A, ActionKind.STOP, evidence, 0.0)))
    now(reconcile(house.store, house.gate, house.holdings, house.world))
    assert house.holdings.get(A).stopped is final
