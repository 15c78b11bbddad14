"""Claims about acting on sessions: the gate, ownership, and what a crash leaves. A scripted driver, virtual time."""

import asyncio
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from support.control_helpers import now, request
from support.supervisor_fixture import BOOT, SupervisorFixture, subject
from wakeful.control.controller import AgentProcessAlive, CannotResume, RemoteCallInterrupted
from wakeful.control.driver import StartRequest
from wakeful.control.gate import ActionIntent, ActionKind, reconcile
from wakeful.control.ownership import HostedByAgent, ManagedSessions, NotManaged
from wakeful.control.person_stops import KIND
from wakeful.control.start import BadName, CodexNeedsExec, NameTaken, NoCommand, RunRequest
from wakeful.core.errors import ClientMissing, WorldError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.leases import ConversationHeld, Lease, LeaseConflict, LeaseKey
from wakeful.core.managed_session import INTENT_VARIABLE, SESSION_VARIABLE, ManagedSession, PaneAddress
from wakeful.core.process import Process, ProcessState
from wakeful.judging.available_actions import ActionName
from wakeful.judging.evidence import SessionIdentity
from wakeful.judging.findings import Health
from wakeful.storage.base import ActionOutcome, Intent

T = TypeVar("T")
A = SessionId("claude-a")


def adopted(house: SupervisorFixture, name: str = "a") -> Process:
    process = house.start(name)
    now(house.hands.adopt(name))
    return process


def test_a_found_session_is_not_touched(house: SupervisorFixture) -> None:
    """No action reaches the driver of a session that is not managed."""
    house.start("a")
    with pytest.raises(NotManaged, match="Adopt it first: `wakeful adopt"):
        now(house.hands.deliver("a", "go on"))
    assert house.driver.asked == []


def test_a_session_that_cannot_be_handed_over_is_not_advised_to_be(house: SupervisorFixture) -> None:
    """The advice would lead to a refusal; both refusals name the reason."""
    program = SessionIdentity(SessionId("job-1"), "events", "h", "event-log")
    house.supervisor.on_process(program, Process(8, 1, "b"), ProcessState.ALIVE, source="a test", cwd="/p")
    house.settle()
    with pytest.raises(NotManaged, match="cannot be adopted: only Claude Code and Codex") as refused:
        now(house.hands.deliver("job-1", "go on"))
    assert "session adopt" not in str(refused.value)
    with pytest.raises(CannotResume, match="cannot be adopted: only Claude Code and Codex"):
        now(house.hands.adopt("job-1"))
    record = house.registry.find("job-1").record
    assert record is not None
    offered = next(each for each in record.actions if each.name is ActionName.ADOPT)
    assert (offered.allowed, "only Claude Code" in offered.reason) == (False, True)


def test_an_adopted_session_is_managed_until_released(house: SupervisorFixture) -> None:
    """Its record says so, and says so no more after it was given back."""
    adopted(house)
    house.settle()
    record = house.registry.find("a").record
    assert record is not None
    assert (record.managed, record.attempt) == (True, 1)
    now(house.hands.release("a"))
    house.settle()
    record = house.registry.find("a").record
    assert record is not None
    assert not record.managed
    with pytest.raises(NotManaged):
        now(house.hands.interrupt("a"))


def test_a_persons_stop_stays_final_after_a_release(house: SupervisorFixture) -> None:
    """A stop had to kill it in the middle of a turn: its end is no problem, also once it is only watched."""
    process = house.start("a")
    now(house.hands.adopt("a"))
    house.work("a")
    now(house.hands.stop("a"))
    house.end(process)
    now(house.hands.release("a"))
    house.settle()
    verdict = house.registry.find("a").verdict
    assert verdict is not None
    assert (verdict.health, verdict.findings) == (Health.HEALTHY, ())
    (stop,) = now(house.store.notes(KIND))
    assert A in stop.body.decode()


@pytest.mark.parametrize("act", ["adopt", "release", "interrupt", "stop"])
def test_what_an_agent_of_the_hub_hosts_is_treated_by_it(house: SupervisorFixture, act: str) -> None:
    """Its conversation cannot be taken away, and the refusal names the agent."""
    house.start("a")
    house.supervisor.set_agent(A, "bot")
    with pytest.raises(HostedByAgent, match="wakeful agent stop bot"):
        now(getattr(house.hands, act)("a"))
    assert house.driver.asked == []


def test_of_two_adopts_by_two_daemons_one_wins(house: SupervisorFixture) -> None:
    """The second gets the owner's name."""
    house.start("a")
    other = ManagedSessions(house.store, house.supervisor, "otherhost", house, house.person_stops)
    now(other.claim(A))
    with pytest.raises(ConversationHeld, match="wakeful on otherhost"):
        now(house.hands.adopt("a"))


def test_adopting_twice_is_adopting_once(house: SupervisorFixture) -> None:
    """The same hosting, no second claim."""
    adopted(house)
    assert now(house.hands.adopt("a")).epoch == 1


def test_a_session_is_adopted_by_a_name(house: SupervisorFixture) -> None:
    """Also one that is managed already; an invalid name, or one of a living session, changes nothing."""
    house.start("b")
    now(house.hands.adopt("b", name="fox"))
    adopted(house)
    for name, refusal in (("fox", NameTaken), ("no name", BadName)):
        with pytest.raises(refusal):
            now(house.hands.adopt("a", name=name))
    assert now(house.hands.adopt("a", name="owl")).name == "owl"
    assert now(house.hands.adopt("a")).name == "owl"
    house.settle()
    record = house.registry.find("owl").record
    assert record is not None
    assert (record.id, record.name, record.managed) == (A, "owl", True)


def test_twins_cannot_be_adopted(house: SupervisorFixture) -> None:
    """Which of two processes is meant is for a person to decide."""
    house.start("a")
    house.start("a")
    with pytest.raises(CannotResume, match="2 processes hold it"):
        now(house.hands.adopt("a"))


def test_an_act_is_intended_before_and_concluded_after(house: SupervisorFixture) -> None:
    """While the driver acts the intent is open; afterwards it is not."""
    adopted(house)
    open_during: list[list[Intent]] = []
    deliver = house.driver.deliver

    async def watched(hosting: ManagedSession, prompt: str, environ: object = None) -> Any:
        del environ
        open_during.append(await house.store.open_intents())
        return await deliver(hosting, prompt)

    house.driver.deliver = watched  # type: ignore[method-assign]
    record = now(house.hands.deliver("a", "go on"))
    assert [each.act for each in open_during[0]] == ["deliver"]
    assert now(house.store.open_intents()) == []
    assert record.outcome is ActionOutcome.CONFIRMED


def test_evidence_is_read_again_after_the_intent(house: SupervisorFixture) -> None:
    """A process that ended while the intent was stored is not spoken to: the act is declined, and that is stored."""
    process = adopted(house)
    reads = 0

    def reread(_session_id: SessionId) -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            house.end(process)

    house.refresh = reread  # type: ignore[method-assign,assignment]
    record = now(house.hands.deliver("a", "go on"))
    assert (record.outcome, house.driver.asked) == (ActionOutcome.DECLINED, [])
    assert now(house.store.open_intents()) == []


def test_a_driver_that_refuses_is_concluded_as_declined(house: SupervisorFixture) -> None:
    """Its error reaches the caller, and no intent stays open."""
    adopted(house)
    house.driver.problem = ClientMissing(program="claude")
    with pytest.raises(ClientMissing):
        now(house.hands.interrupt("a"))
    assert now(house.store.open_intents()) == []


def test_a_resume_inside_a_call_elsewhere_needs_a_persons_yes(house: SupervisorFixture) -> None:
    """Nothing is started, and the calls are named; with a yes it goes on."""
    process = adopted(house)
    house.work("a", "git push origin main")
    house.end(process)
    with pytest.raises(RemoteCallInterrupted, match=r"git push origin main.*wakeful resume shop --yes"):
        now(house.hands.resume("a"))
    assert house.driver.asked == []
    assert now(house.hands.resume("a", approved=True)).outcome is ActionOutcome.CONFIRMED


def test_a_name_that_an_agent_chose_is_quoted_in_the_advised_command(house: SupervisorFixture) -> None:
    """A person copies the line; a project may be called like a command."""
    process = adopted(house)
    house.work("a", "git push origin main")
    house.end(process)
    house.registry.sessions[SessionId("claude-a")].rename("shop; reboot")
    with pytest.raises(RemoteCallInterrupted, match=r"wakeful resume 'shop; reboot' --yes"):
        now(house.hands.resume("a"))


def test_observe_acts_on_nothing(house: SupervisorFixture) -> None:
    """In that mode every act is declined before anything is intended."""
    adopted(house)
    observing = house.hands_in("observe")
    deeds = [
        now(observing.deliver("a", "x")),
        now(observing.interrupt("a")),
        now(observing.stop("a")),
        now(observing.run(request())),
    ]
    assert {record.outcome for record in deeds} == {ActionOutcome.DECLINED}
    assert house.driver.asked == []


def test_a_session_claimed_by_somebody_else_is_let_go(house: SupervisorFixture) -> None:
    """A late owner is fenced: its act is declined and the session is not managed here any more."""
    adopted(house)
    house.clock.advance(61)
    taken = now(house.store.claim_lease(LeaseKey(A), "another tool"))
    assert isinstance(taken, Lease)
    record = now(house.hands.deliver("a", "go on"))
    assert (record.outcome, house.driver.asked) == (ActionOutcome.DECLINED, [])
    with pytest.raises(NotManaged):
        now(house.hands.deliver("a", "go on"))


def test_a_restarted_daemon_finds_its_sessions_with_their_epoch(house: SupervisorFixture) -> None:
    """Managed sessions and claims outlive the daemon."""
    adopted(house)
    again = ManagedSessions(house.store, house.supervisor, "testhost", house, house.person_stops)
    now(again.load())
    assert again.get(A).epoch == 1


@pytest.mark.parametrize("also_server", [True, False])
def test_a_restarted_daemon_knows_what_its_server_took_along(
    house: SupervisorFixture, *, also_server: bool
) -> None:
    """Pane and server gone: it was lost. The pane alone: a person closed it."""
    process, server = adopted(house), Process(60, 1, BOOT)
    pane = PaneAddress("/run/tmux", "%0", "work", process, server)
    now(house.holdings.save(replace(house.holdings.get(A), pane=pane)))
    after = SupervisorFixture(store=house.store)
    for gone in (process, *((server,) if also_server else ())):
        after.end(gone)
    now(after.holdings.load())
    seen = after.registry.sessions[A].presence.pane
    assert (seen.runtime if seen is not None else None) is (ProcessState.DEAD if also_server else None)


def test_a_live_holder_is_not_joined_by_a_second(house: SupervisorFixture) -> None:
    """Resuming is refused while a process holds the conversation, and says which."""
    process = adopted(house)
    with pytest.raises(AgentProcessAlive, match=f"process {process.pid}"):
        now(house.hands.resume("a"))
    assert house.driver.asked == []


def test_a_resumed_session_has_the_next_epoch_and_learns_what_was_cut_off(house: SupervisorFixture) -> None:
    """The old owner is fenced, and the agent learns of the call that never returned."""
    process = adopted(house)
    house.work("a", "git push")
    house.end(process)
    record = now(house.hands.resume("a", approved=True))
    ((_, order),) = house.driver.asked
    assert isinstance(order, StartRequest)
    assert (record.outcome, order.epoch, order.resume) == (ActionOutcome.CONFIRMED, 2, True)
    assert order.prompt is not None
    assert "git push" in order.prompt


def test_a_session_that_had_finished_is_told_nothing(house: SupervisorFixture) -> None:
    """Between two turns nothing was interrupted."""
    process = adopted(house)
    house.finish("a")
    house.end(process)
    now(house.hands.resume("a"))
    ((_, order),) = house.driver.asked
    assert isinstance(order, StartRequest)
    assert order.prompt is None


def test_a_process_that_has_not_registered_yet_is_a_holder(house: SupervisorFixture) -> None:
    """A process with the session's mark is alive, so nothing is started beside it."""
    process = adopted(house)
    house.end(process)
    house.world.marks[SESSION_VARIABLE, A] = [Process(4, 1, BOOT)]
    record = now(house.hands.resume("a"))
    assert (record.outcome, house.driver.asked) == (ActionOutcome.DECLINED, [])


def test_of_two_resumes_at_once_one_wins_and_ownership_stays(house: SupervisorFixture) -> None:
    """The second finds a living holder and is declined; it takes no epoch from the first."""
    process = adopted(house)
    house.end(process)

    async def both() -> list[ActionOutcome]:
        deeds = await asyncio.gather(house.hands.resume("a"), house.hands.resume("a"))
        return sorted(record.outcome for record in deeds)

    assert now(both()) == [ActionOutcome.DECLINED, ActionOutcome.CONFIRMED]
    assert now(house.holdings.confirm_lease(house.holdings.get(A)))
    assert house.holdings.get(A).epoch == 2


def test_what_somebody_brings_back_is_not_begun_anew_beside_it(house: SupervisorFixture) -> None:
    """A healer that gave a conversation up waits for a resume that is under way, and finds it held."""
    process = adopted(house)
    house.end(process)

    async def both() -> tuple[Any, Any]:
        starting, anew = asyncio.Event(), asyncio.Event()

        async def registered() -> None:
            starting.set()
            await anew.wait()
            house.world.marks[SESSION_VARIABLE, A] = [Process(4, 1, BOOT)]

        house.driver.settled = registered
        resumed = asyncio.create_task(house.hands.resume("a"))
        await starting.wait()
        begun = asyncio.create_task(house.hands.start_replacement("a", "", "a key"))
        await asyncio.sleep(0)
        anew.set()
        return await asyncio.gather(resumed, begun, return_exceptions=True)

    _, refused = now(both())
    assert isinstance(refused, CannotResume)
    assert [act for act, _ in house.driver.asked] == ["start"]
    assert not house.holdings.get(A).is_ended


def test_a_stop_is_kept_as_final(house: SupervisorFixture) -> None:
    """A stopped session stays managed and is marked, so that nothing brings it back by itself."""
    adopted(house)
    now(house.hands.stop("a"))
    assert house.driver.acts == ["stop"]
    assert house.holdings.get(A).stopped


def test_a_new_session_is_claimed_before_it_starts(house: SupervisorFixture) -> None:
    """It is known, managed and held from its first moment, under a conversation Wakeful named."""
    record = now(house.hands.run(request("claude", "--model", "opus")))
    ((_, order),) = house.driver.asked
    assert isinstance(order, StartRequest)
    held = now(house.store.claim_lease(LeaseKey(record.session_id), "another tool"))
    assert isinstance(held, LeaseConflict)
    assert record.session_id == f"claude-{order.conversation_id}"
    assert house.registry.find(record.session_id).presence.living_processes


def test_a_start_that_failed_leaves_no_claim(house: SupervisorFixture) -> None:
    """Neither an error nor an outcome that is not a start keeps the lease."""
    house.driver.problem = ClientMissing(program="claude")
    with pytest.raises(ClientMissing):
        now(house.hands.run(request()))
    house.driver.problem, house.driver.outcome = None, ActionOutcome.INEFFECTIVE
    now(house.hands.run(request()))
    assert now(house.store.leases()) == []


def test_a_client_that_names_itself_is_claimed_by_that_name(house: SupervisorFixture) -> None:
    """Codex tells its thread only after it has started."""
    house.driver.names_itself = SessionId("codex-t")
    record = now(house.hands.run(request("codex", "exec", "fix it")))
    assert record.session_id == "codex-t"
    assert [lease.key for lease in now(house.store.leases())] == ["codex-t"]


def test_any_program_is_watched_by_the_name_it_was_given(house: SupervisorFixture) -> None:
    """Its event log is opened with its process."""
    record = now(house.hands.run(request("make", "nightly", name="nightly")))
    assert (record.session_id, house.world.registered) == ("nightly", ["nightly"])


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (RunRequest(argv=(), cwd="/", environ={}), NoCommand),
        (request("claude", name="../x"), BadName),
        (request("claude", name="-x"), BadName),
        (request("claude", name="x" * 65), BadName),
        (request("codex"), CodexNeedsExec),
        (request("codex", "exec"), CodexNeedsExec),
        (request("codex", "exec", "--json"), CodexNeedsExec),
    ],
)
def test_what_cannot_be_run_is_refused(
    house: SupervisorFixture, asked: RunRequest, refusal: type[Exception]
) -> None:
    """Nothing is claimed, intended or started for it."""
    with pytest.raises(refusal):
        now(house.hands.run(asked))
    assert house.driver.asked == []
    assert now(house.store.leases()) == []


def test_the_environment_does_not_tell_whose_child_it_is(house: SupervisorFixture) -> None:
    """A session started from inside another one is not taken for a part of it."""
    inside = {"PATH": "/bin", "CLAUDE_CODE_SESSION_ID": "x", "TMUX": "y", SESSION_VARIABLE: "z"}
    now(house.hands.run(RunRequest(argv=("claude",), cwd="/", environ=inside)))
    ((_, order),) = house.driver.asked
    assert isinstance(order, StartRequest)
    assert dict(order.environ) == {"PATH": "/bin"}


def test_acts_on_one_session_wait_for_each_other(house: SupervisorFixture) -> None:
    """A stop that comes while a prompt is delivered begins after that has ended."""
    adopted(house)
    order: list[str] = []
    delivering = house.driver.deliver

    async def slow(hosting: ManagedSession, prompt: str, environ: object = None) -> Any:
        del environ
        order.append("deliver begins")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        order.append("deliver ends")
        return await delivering(hosting, prompt)

    async def stop(hosting: ManagedSession) -> Any:
        order.append("stop")
        return await type(house.driver).interrupt(house.driver, hosting)

    house.driver.deliver, house.driver.stop = slow, stop  # type: ignore[method-assign]

    async def both() -> None:
        await asyncio.gather(house.hands.deliver("a", "x"), house.hands.stop("a"))

    now(both())
    assert order == ["deliver begins", "deliver ends", "stop"]


def planned(name: str = "a") -> ManagedSession:
    return ManagedSession(
        session_id=subject(name).id,
        conversation_id=ConversationId(name),
        driver="claude",
        cwd="/home/me/shop",
        argv=("claude",),
        epoch=1,
        since=0.0,
        process=Process(5, 1, BOOT),
    )


def left_open(house: SupervisorFixture, act: ActionKind, purpose: ActionIntent) -> None:
    intent = Intent("i1", A, act, msgspec.json.encode(purpose), 0.0)
    now(house.store.save_intent(intent))


def settled(house: SupervisorFixture) -> ActionOutcome:
    (result,) = now(reconcile(house.store, house.gate, house.holdings, house.world))
    assert now(house.store.open_intents()) == []
    return result.outcome


def test_a_start_whose_process_lives_is_taken_up(house: SupervisorFixture) -> None:
    """The daemon died between starting and writing it down: the process is found by its intent, not started again."""
    left_open(house, ActionKind.START, ActionIntent(planned=planned()))
    house.world.marks[INTENT_VARIABLE, "i1"] = [Process(9, 1, BOOT)]
    assert settled(house) is ActionOutcome.CONFIRMED
    assert house.holdings.get(A).process == Process(9, 1, BOOT)
    assert house.driver.asked == []


def test_a_start_nobody_can_find_is_unverified(house: SupervisorFixture) -> None:
    """It may have come and gone: the outcome is unverified, and nothing is started."""
    left_open(house, ActionKind.START, ActionIntent(planned=planned()))
    assert settled(house) is ActionOutcome.UNVERIFIED
    assert house.driver.asked == []


def test_a_prompt_of_which_nobody_saw_the_end_is_not_sent_again(house: SupervisorFixture) -> None:
    """It is unverified for ever."""
    left_open(house, ActionKind.DELIVER, ActionIntent(prompt_chars=3))
    assert settled(house) is ActionOutcome.UNVERIFIED
    assert house.driver.asked == []


@pytest.mark.parametrize(
    ("dead", "outcome"), [(True, ActionOutcome.CONFIRMED), (False, ActionOutcome.INEFFECTIVE)]
)
def test_a_stop_is_judged_by_who_still_runs(
    house: SupervisorFixture, *, dead: bool, outcome: ActionOutcome
) -> None:
    """The processes to stop are checked by identity."""
    left_open(house, ActionKind.STOP, ActionIntent(planned=planned()))
    if dead:
        house.world.dead.add(Process(5, 1, BOOT))
    assert settled(house) is outcome


def test_an_intent_of_another_version_is_concluded_too(house: SupervisorFixture) -> None:
    """What cannot be read cannot be looked for, and must not stay open for ever."""
    now(house.store.save_intent(Intent("i1", A, "start", b'{"planned": 7}', 0.0)))
    house.world.marks[INTENT_VARIABLE, "i1"] = [Process(9, 1, BOOT)]
    assert settled(house) is ActionOutcome.UNVERIFIED


def test_a_refusal_names_the_world(house: SupervisorFixture) -> None:
    """Another owner is no mistake of the operator."""
    adopted(house)
    with pytest.raises(WorldError) as refused:
        now(house.hands.resume("a"))
    assert refused.value.http_status == 409
