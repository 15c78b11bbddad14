"""Claims about causes: what a client's message about a failed turn says about the fault and its side."""

import pytest
from msgspec.structs import replace

from wakeful.core.clock import Instant
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.incidents.model import Cause, IncidentContext, Origin, origin_of
from wakeful.integrations.claude_code.registry import RegistryEntry
from wakeful.integrations.docker.source import _ContainerPids
from wakeful.judging.activity import Activity
from wakeful.judging.events import Failure
from wakeful.judging.evidence import AgentProcess, RuntimeState, remember_process
from wakeful.judging.findings import FindingCode

ONE = SessionId("claude-a")
AROUND = IncidentContext("claude", ONE, "tower", "boot")
OUTAGE = (
    "API Error: 500 scripted 500. This is a server-side issue, usually temporary — try again in a moment."
)
# As the clients wrote them when their server was ended, cut or silent.
SENTENCES = {
    "API Error: Unable to connect to API (ConnectionRefused)": Cause.NETWORK,
    "API Error: Unable to connect to API (ECONNRESET)": Cause.NETWORK,
    "API Error: Unable to connect to API (FailedToOpenSocket)": Cause.NETWORK,
    "getaddrinfo EAI_AGAIN api.example.com": Cause.NETWORK,
    "stream disconnected before completion: error sending request": Cause.NETWORK,
    "ENOSPC: no space left on device, write": Cause.DISK,
    OUTAGE: Cause.PROVIDER_OUTAGE,
    "We are currently experiencing high demand, which may cause temporary errors.": Cause.PROVIDER_OUTAGE,
}


def failed(message: str) -> Activity:
    return Activity(failure=Failure.PROVIDER, failure_message=message)


@pytest.mark.parametrize("message", SENTENCES)
def test_a_sentence_of_a_client_tells_whose_fault_it_is(message: str) -> None:
    """The network and the disk are this host's, whatever the client calls them; the rest is its provider's."""
    cause = SENTENCES[message]
    scope = "claude" if cause is Cause.PROVIDER_OUTAGE else "tower"
    assert origin_of(FindingCode.TURN_FAILED, failed(message), RuntimeState(), AROUND) == Origin(cause, scope)


def test_what_nobody_else_suffers_from_is_its_own() -> None:
    """A loop during an outage is a loop."""
    assert origin_of(FindingCode.LOOP, failed(OUTAGE), RuntimeState(), AROUND) == Origin(Cause.SESSION, ONE)


def dead(process: Process) -> RuntimeState:
    runtime = RuntimeState()
    remember_process(runtime, AgentProcess(process, ProcessState.DEAD, Instant(0.0, 0.0), "registry"))
    return runtime


def test_a_process_of_another_boot_was_lost_with_its_host() -> None:
    """What was running before a restart of the host is gone with it."""
    lost = dead(Process(7, 1, "the boot before"))
    assert origin_of(FindingCode.SESSION_DEAD, Activity(), lost, AROUND) == Origin(Cause.REBOOT, "tower")


def test_only_the_same_machine_was_rebooted() -> None:
    """Every machine has a boot id of its own: another one is no restart of this machine."""
    around = replace(AROUND, machine_id="one")
    before = dead(Process(7, 1, "the boot before", "one"))
    assert origin_of(FindingCode.SESSION_DEAD, Activity(), before, around) == Origin(Cause.REBOOT, "tower")
    elsewhere = dead(Process(7, 1, "a boot", "two"))
    assert origin_of(FindingCode.SESSION_DEAD, Activity(), elsewhere, around) == Origin(Cause.SESSION, ONE)


def test_a_process_that_is_gone_inside_a_container_is_no_restart_of_the_host() -> None:
    """A daemon that comes later reads of it in there, and this host has no number for it."""
    gone = dead(
        _ContainerPids("4e1f").process_of(RegistryEntry(pid=7, proc_start="1", session_id="a", cwd="/code"))
    )
    assert origin_of(FindingCode.SESSION_DEAD, Activity(), gone, AROUND) == Origin(Cause.SESSION, ONE)
