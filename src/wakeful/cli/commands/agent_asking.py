"""Questions and orders about agents to the running daemon. Nothing here prints but what a person must decide."""

import os
import sys
from typing import Final, cast

import msgspec
from msgspec import Struct

from wakeful.agents.model import AgentRecord
from wakeful.agents.runtime import Found
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.cli.format.listing import decoded
from wakeful.client.client import Answer, Client, Declined
from wakeful.config.paths import Places
from wakeful.core.errors import OperatorError, WakefulError

# An agent may take ten minutes to become ready, and the hub looks before and after.
ORDER_SECONDS_MAX: Final = 660.0


class Kept(OperatorError):
    """{name} was not stopped."""

    code = "kept"
    exit_code = 1


class Agents(Struct, frozen=True):
    """/api/agents."""

    agents: list[AgentRecord]
    found: list[Found]
    paused: PauseRecord | None = None


def client() -> Client:
    return Client(Places.of(os.environ))


def agents() -> Answer:
    return client().get("/api/agents")


def listed() -> list[AgentRecord]:
    return decoded(agents().body, Agents).agents


def record_of(name: str) -> AgentRecord:
    return decoded(client().get(f"/api/agents/{name}").body, AgentRecord)


def order(name: str, act: str, *, yes: bool = False) -> Answer:
    """Give an order and wait for what came of it."""
    body = msgspec.json.encode({"yes": yes} if act == "stop" else {})
    return client().post(f"/api/agents/{name}/{act}", body, timeout_seconds=ORDER_SECONDS_MAX)


def stop(name: str, *, yes: bool) -> Answer:
    """Stop it; at a terminal a person is asked before a turn is cut off. Raises Declined, Kept."""
    try:
        return order(name, "stop", yes=yes)
    except Declined as refused:
        if code_of(refused) != "agent-busy" or not is_terminal():
            raise
        if not _agreed(f"Agent '{name}' is in the middle of a turn. Stop it all the same? [y/N] "):
            raise Kept(name=name) from refused
        return order(name, "stop", yes=True)


def code_of(refusal: WakefulError) -> object:
    """The code of the daemon's refusal."""
    return cast("dict[str, object]", refusal.facts.get("problem", {})).get("code")


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def choice(question: str) -> str:
    """One line a person typed, in small letters; empty at the end of input."""
    sys.stdout.write(question)
    sys.stdout.flush()
    typed = ""
    try:
        typed = sys.stdin.readline()
    finally:
        if not typed.endswith("\n"):
            # Ctrl-C or Ctrl-D: the person's next prompt begins on a line of its own.
            sys.stdout.write("\n")
    return typed.strip().lower()


def _agreed(question: str) -> bool:
    return choice(question) in ("y", "yes")
