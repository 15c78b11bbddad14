"""What tests of the supervisor ask of a session."""

from typing import Any

from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.process import Process, ProcessState
from wakeful.judging.findings import FindingCode
from wakeful.judging.session_record import SessionRecord

HOUR = 3600.0


def record(house: SupervisorFixture, name: str) -> SessionRecord:
    found = house.registry.sessions[subject(name).id].record
    assert found is not None
    return found


def codes(house: SupervisorFixture, name: str) -> list[FindingCode]:
    return [finding.code for finding in record(house, name).findings]


def pass_time(house: SupervisorFixture, seconds: float) -> None:
    house.clock.advance(seconds)
    house.supervisor.on_timer()
    house.settle()


def killed_in_a_turn(house: SupervisorFixture, name: str = "a") -> None:
    process = house.start(name)
    house.work(name)
    house.clock.advance(1)
    house.end(process)
    house.clock.advance(60)


def come_up(house: SupervisorFixture, pid: int, name: str = "a", **said: Any) -> Process:
    """A process that holds the conversation, and has written nothing."""
    process = Process(pid, pid, "boot")
    house.supervisor.on_process(subject(name), process, ProcessState.ALIVE, source="registry", **said)
    house.settle()
    return process
