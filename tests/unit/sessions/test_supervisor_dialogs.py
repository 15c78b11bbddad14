"""Claims about clients that show a dialog before their session begins."""

import pytest
from msgspec.structs import replace

from support.supervisor_claims import HOUR, codes, come_up, killed_in_a_turn, pass_time, record
from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.process import Process, ProcessState
from wakeful.judging.events import Prompted
from wakeful.judging.evidence import ClientStatus, DialogKind
from wakeful.judging.findings import Attention, FindingCode, Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.feed import SessionChange
from wakeful.storage.base import Transition

AWAITED = replace(subject("start-7"), conversation_id=None, awaited=True)


AGENT = Process(4711, 1, "a-boot-of-a-test")


def ask(house: SupervisorFixture, kind: DialogKind, words: str = "Do you trust it?") -> SessionRecord:
    house.supervisor.on_dialog(AWAITED, AGENT, kind, words, cwd="/work")
    house.settle()
    return record(house, "start-7")


def test_a_client_at_a_dialog_waits_for_a_person_and_takes_no_prompt(house: SupervisorFixture) -> None:
    """Its words are the screen's, its turn has not begun, and only a login asks for a login."""
    asked = ask(house, DialogKind.TRUST)
    assert (asked.state, asked.health, asked.attention) == (State.WAITING, Health.HEALTHY, Attention.PERSON)
    assert (asked.active_prompt, asked.attachable, asked.eligible_for_wake) == (False, False, False)
    assert [each.untrusted for each in asked.expected_waits] == ["Do you trust it?"]
    assert ask(house, DialogKind.LOGIN).attention is Attention.LOGIN


def test_a_screen_that_is_not_understood_is_unknown_and_said(house: SupervisorFixture) -> None:
    """It is called neither idle nor waiting, but unknown."""
    seen = ask(house, DialogKind.UNKNOWN, "Brand new")
    assert (seen.state, seen.health, seen.attention) == (State.STARTING, Health.UNKNOWN, Attention.OPERATOR)
    assert [(each.code, each.untrusted) for each in seen.findings] == [
        (FindingCode.READER_DRIFT, ("Brand new",))
    ]


def test_the_same_dialog_keeps_its_time_and_another_one_has_its_own(house: SupervisorFixture) -> None:
    """A read without news changes nothing, so no second alert is sent."""
    first = ask(house, DialogKind.TRUST).expected_waits[0].since
    house.clock.advance(10)
    assert ask(house, DialogKind.TRUST).expected_waits[0].since == first
    house.clock.advance(10)
    assert ask(house, DialogKind.BYPASS).expected_waits[0].since > first


def test_its_conversation_takes_the_place_of_what_stood_for_it(
    house: SupervisorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subscribers get its end before it is gone, and one session is left."""
    ask(house, DialogKind.TRUST)
    told: dict[str, str] = {}

    def changed(transitions: list[Transition], changes: list[SessionChange]) -> None:
        assert transitions
        told.update({each.session_id: each.state for each in changes})

    monkeypatch.setattr(house, "on_judged", changed)
    house.supervisor.on_process(
        subject("real"), AGENT, ProcessState.ALIVE, source="registry", status=ClientStatus.IDLE
    )
    house.settle()
    assert sorted(house.registry.sessions) == [subject("real").id]
    assert told == {AWAITED.id: State.STOPPED, subject("real").id: State.IDLE}


def test_a_client_that_ended_at_its_dialog_was_no_session(house: SupervisorFixture) -> None:
    """Nothing of it is listed, and a managed one is simply stopped."""
    ask(house, DialogKind.TRUST)
    house.supervisor.on_exit(AGENT)
    house.settle()
    assert AWAITED.id not in house.registry.sessions
    house.supervisor.on_process(subject("mine"), AGENT, ProcessState.ALIVE, source="hands")
    house.supervisor.on_dialog(subject("mine"), AGENT, DialogKind.TRUST, "?", cwd=None)
    house.supervisor.on_exit(AGENT)
    house.settle()
    ended = record(house, "mine")
    assert (ended.state, ended.expected_waits) == (State.STOPPED, ())


def test_what_stood_for_a_conversation_goes_with_its_last_dialog(house: SupervisorFixture) -> None:
    """A client that takes prompts and has no conversation is no session; one that asks again is listed again."""
    ask(house, DialogKind.LOGIN)
    house.supervisor.on_dialog_closed(AGENT)
    house.supervisor.on_dialog(AWAITED, AGENT, DialogKind.TRUST, "?", cwd=None)
    house.settle()
    assert record(house, "start-7").state is State.WAITING
    house.supervisor.on_dialog_closed(AGENT)
    house.settle()
    assert AWAITED.id not in house.registry.sessions


def test_an_earlier_turn_says_nothing_while_its_client_stands_at_a_dialog(house: SupervisorFixture) -> None:
    """Resumed after it was killed in a turn: until the dialog is answered it is neither at work nor silent."""
    house.hear("a", Prompted(house.clock.now().wall))
    house.supervisor.on_dialog(subject("a"), AGENT, DialogKind.TRUST, "?", cwd=None)
    pass_time(house, HOUR)
    seen = record(house, "a")
    assert (seen.state, seen.active_prompt, seen.findings) == (State.WAITING, False, ())
    house.supervisor.on_process(
        subject("a"), AGENT, ProcessState.ALIVE, source="registry", status=ClientStatus.IDLE
    )
    house.settle()
    assert record(house, "a").expected_waits == ()


def test_a_dialog_ends_with_its_own_client_only(house: SupervisorFixture) -> None:
    """Another process of the same conversation comes and goes; the first one still waits at its dialog."""
    killed_in_a_turn(house)
    first = Process(9000, 9000, "boot")
    house.supervisor.on_dialog(subject("a"), first, DialogKind.TRUST, "Do you trust this folder?", cwd=None)
    house.settle()
    assert record(house, "a").state is State.WAITING
    house.end(come_up(house, 9001, status=ClientStatus.BUSY, status_wall=house.clock.now().wall))
    assert record(house, "a").state is State.WAITING
    house.end(first)
    assert record(house, "a").health is Health.DEAD


def test_a_client_at_a_dialog_beside_a_living_one_changes_nothing(house: SupervisorFixture) -> None:
    """The conversation is held; where the second one waits says nothing about it."""
    house.start("a")
    house.work("a")
    second = Process(9000, 9000, "boot")
    house.supervisor.on_dialog(subject("a"), second, DialogKind.TRUST, "Do you trust this folder?", cwd=None)
    house.settle()
    assert (record(house, "a").state, codes(house, "a")) == (State.PROMPTING, [])
