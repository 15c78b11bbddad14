"""Claims about what a record offers: a closed list, each act with its command, and why not where it may not be done."""

from pathlib import Path

import pytest
from msgspec.json import decode
from msgspec.structs import replace

import wakeful
from support.healing_fixture import HealingFixture, die_in_a_turn
from support.judging_helpers import POLICY, at, folded, held
from support.supervisor_fixture import subject
from wakeful.control.controller import RemoteCallInterrupted
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import ProcessState
from wakeful.healing.healer import ApprovalRequired
from wakeful.judging import events as e
from wakeful.judging.available_actions import (
    INTERRUPTED_CALL,
    OBSERVING,
    ActionName,
    AvailableAction,
    possible_actions,
    restrict_actions,
)
from wakeful.judging.evidence import RuntimeState, SessionIdentity
from wakeful.judging.explanation import Explanation
from wakeful.judging.judge import judge

FOUND = SessionIdentity(SessionId("claude-x"), "claude", "box", "claude-transcripts", ConversationId("x"))
MANAGED = replace(FOUND, managed=True)
PROMPT = e.Prompted(1.0)
PAGE = Path(wakeful.__file__).parent / "web"


def offered(
    subject: SessionIdentity,
    *events: e.Event,
    now: float = 9.0,
    presence: RuntimeState | None = None,
    path_open: bool = False,
) -> dict[ActionName, AvailableAction]:
    presence = presence if presence is not None else held()
    activity = folded([PROMPT, *events])
    verdict = judge(activity, presence, POLICY, at(now))
    possible = possible_actions(subject, activity, presence, verdict, verdict.state, path_open=path_open)
    return {each.name: each for each in possible}


def gone() -> RuntimeState:
    return held(ProcessState.DEAD, ended_at=at(8.0))


def test_a_client_with_a_process_for_each_turn_takes_a_prompt_between_them() -> None:
    """Codex is stopped when its turn is over, and attachable; one whose way went with its process is not."""
    ended = offered(MANAGED, e.TurnEnded(2.0), presence=gone(), path_open=True)[ActionName.SEND]
    assert (ended.allowed, ended.reason) == (True, "it waits for a prompt")
    lost = offered(MANAGED, e.TurnEnded(2.0), presence=gone())[ActionName.SEND]
    assert (lost.allowed, lost.reason) == (False, "its process is gone")


def test_a_dead_managed_session_may_be_revived() -> None:
    """With the command that does it."""
    revive = offered(MANAGED, presence=gone())[ActionName.REVIVE]
    assert revive.allowed
    assert revive.argv == ("wakeful", "resume", "claude-x")
    assert not revive.reversible


def test_what_a_revival_does_not_help_says_what_does() -> None:
    """A limit needs time, a login a person, a session that is well nothing at all, and a stop is final."""
    limited = offered(MANAGED, e.TurnFailed(2.0, e.Failure.LIMIT, "limit"))[ActionName.REVIVE]
    login = offered(MANAGED, e.TurnFailed(2.0, e.Failure.AUTH, "login"))[ActionName.REVIVE]
    well = offered(MANAGED)[ActionName.REVIVE]
    stopped = gone()
    stopped.stopped = True
    final = offered(MANAGED, presence=stopped)[ActionName.REVIVE]
    assert [(each.allowed, each.reason) for each in (limited, login, well, final)] == [
        (False, "only time helps"),
        (False, "it needs a login"),
        (False, "nothing is wrong with it"),
        (False, "a person stopped it, which is final"),
    ]


def test_nobody_is_offered_what_is_not_theirs_to_act_on() -> None:
    """A found session is handed over first; one of the hub is restarted by its agent."""
    left = gone()
    left.cwd = "/home/me/shop"
    found = offered(FOUND, presence=left)
    hosted = offered(replace(FOUND, agent="bot"), presence=gone())
    assert ActionName.REVIVE not in found.keys() | hosted.keys()
    assert found[ActionName.ADOPT].allowed
    assert hosted[ActionName.RESTART].argv == ("wakeful", "agent", "restart-session", "bot")


def test_what_cannot_be_handed_over_is_refused_with_the_reason() -> None:
    """A living program that is no known client, or a client whose folder is not known; a dead one is not named."""
    program = replace(FOUND, provider="events", conversation_id=None)
    refused = [offered(each)[ActionName.ADOPT] for each in (program, FOUND)]
    assert [(each.allowed, each.reason) for each in refused] == [
        (False, "only Claude Code and Codex sessions can be adopted"),
        (False, "its folder is not known"),
    ]
    assert ActionName.ADOPT not in offered(program, presence=gone())


def test_whom_nobody_saw_is_not_revived() -> None:
    """Unknown never authorises anything that cannot be undone."""
    silent = offered(MANAGED, now=9_000.0, presence=RuntimeState())
    assert not silent[ActionName.REVIVE].allowed


def test_observing_nothing_of_wakefuls_own_is_offered() -> None:
    """Waiting, going there and handing over stay; what is refused for another reason keeps it."""
    dead = tuple(offered(MANAGED, presence=gone()).values())
    seen = {each.name: each for each in restrict_actions(dead, observing=True, held=False)}
    assert {name for name, each in seen.items() if each.allowed} == {ActionName.WAIT, ActionName.RELEASE}
    assert seen[ActionName.REVIVE].reason == seen[ActionName.RESUME].reason == OBSERVING
    assert seen[ActionName.STOP].reason == "its process is gone"


def test_nobody_goes_on_inside_a_call_that_may_have_happened() -> None:
    """Neither by a revival nor by a resume, before a person looked."""
    dead = tuple(offered(MANAGED, presence=gone()).values())
    seen = {each.name: each for each in restrict_actions(dead, observing=False, held=True)}
    assert {name for name, each in seen.items() if each.reason == INTERRUPTED_CALL} == {
        ActionName.REVIVE,
        ActionName.RESUME,
    }
    assert not seen[ActionName.REVIVE].allowed


def test_the_page_knows_the_reason_by_its_words() -> None:
    """Actions that a person may still take are offered."""
    assert f'const HELD = "{INTERRUPTED_CALL}";' in (PAGE / "actions.js").read_text()
    assert f'const OBSERVING = "{OBSERVING}";' in (PAGE / "actions.js").read_text()


def told_by(clinic: HealingFixture) -> tuple[dict[ActionName, AvailableAction], Explanation]:
    """What the record offers, and what `why` says."""
    session = clinic.registry.find("a")
    assert session.record is not None
    return {each.name: each for each in session.record.actions}, decode(
        clinic.desk.why("a").body, type=Explanation
    )


async def test_a_record_does_not_offer_what_is_refused_for_a_call_elsewhere(clinic: HealingFixture) -> None:
    """Also before a checkpoint is opened, in a pause: the same calls forbid the action and its offer."""
    await clinic.calm.pause("ann")
    await die_in_a_turn(clinic, command="git push origin main")
    await clinic.clock.run_for(3600)
    acts, explanation = told_by(clinic)
    assert acts[ActionName.REVIVE].reason == acts[ActionName.RESUME].reason == INTERRUPTED_CALL
    assert [(each.name, each.reason) for each in explanation.refused] == [
        (ActionName.RESUME, INTERRUPTED_CALL),
        (ActionName.REVIVE, INTERRUPTED_CALL),
    ]
    assert explanation.command == ("wakeful", "resume", "claude-a", "--yes")
    for refused in (clinic.healer.revive("a", approved=False), clinic.hands.resume("a")):
        with pytest.raises((ApprovalRequired, RemoteCallInterrupted)):
            await refused


async def test_what_was_taught_to_be_harmless_is_offered(clinic: HealingFixture) -> None:
    """The offer knows the same lessons as the refusal, from the first look on."""
    clinic.rules = replace(clinic.rules, confirm_seconds=86_400.0)
    await die_in_a_turn(clinic, command="./sync.sh")
    assert not told_by(clinic)[0][ActionName.REVIVE].allowed
    project = told_by_project(clinic)
    await clinic.lessons.teach(project, "./sync.sh", "ann")
    clinic.supervisor.on_action(subject("a").id)
    clinic.settle()
    assert told_by(clinic)[0][ActionName.REVIVE].allowed
    assert not told_by(clinic)[1].refused


def told_by_project(clinic: HealingFixture) -> str:
    record = clinic.registry.find("a").record
    assert record is not None
    return record.project


async def test_a_record_offers_nothing_that_observing_forbids(clinic: HealingFixture) -> None:
    """The record has the reason, and `why` advises no command that would be declined."""
    clinic.mode = "observe"
    clinic.rules = replace(clinic.rules, mode="observe")
    await die_in_a_turn(clinic)
    acts, explanation = told_by(clinic)
    assert acts[ActionName.REVIVE].reason == acts[ActionName.RESUME].reason == OBSERVING
    assert explanation.command == ("wakeful", "session", "inspect", "claude-a")
    assert "the mode is observe" in explanation.command_text
