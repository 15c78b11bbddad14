"""Claims about causes: what a client's own sentence about a failed turn says about what is wrong, and with whom."""

import pytest

from wakeful.domain.activity import Activity
from wakeful.domain.events import Failure
from wakeful.domain.evidence import Presence
from wakeful.domain.findings import Code
from wakeful.domain.ids import SessionId
from wakeful.domain.incident import Cause, Origin, Surroundings, origin_of

ONE = SessionId("claude-a")
AROUND = Surroundings("claude", ONE, "tower", "boot")
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
    assert origin_of(Code.TURN_FAILED, failed(message), Presence(), AROUND) == Origin(cause, scope)


def test_what_nobody_else_suffers_from_is_its_own() -> None:
    """A loop during an outage is a loop."""
    assert origin_of(Code.LOOP, failed(OUTAGE), Presence(), AROUND) == Origin(Cause.SESSION, ONE)
