"""The words for people of each state and health of a session. Pure.

Texts, lists, alerts and pages use them. JSON, HTTP, metrics, exit codes and stored rows keep the values;
`web/rows.js` has the same words.
"""

from collections.abc import Mapping
from typing import Final

from wakeful.judging.findings import Health, State

STATE_WORDS: Final[Mapping[str, str]] = {
    State.IDLE: "idle",
    State.PROMPTING: "running",
    State.WAITING: "waiting for you",
    State.STARTING: "starting",
    State.STOPPING: "stopping",
    State.STOPPED: "stopped",
    State.DETACHED: "detached",
}
HEALTH_WORDS: Final[Mapping[str, str]] = {
    Health.HEALTHY: "healthy",
    # Idle, and not proven present: the sentence of `why` says for how long.
    Health.STALE: "unknown",
    Health.UNKNOWN: "unknown",
    Health.DEGRADED: "stuck",
    Health.DEAD: "dead",
}


def state_text(state: str) -> str:
    """A state for people; one of a newer daemon as it is."""
    return STATE_WORDS.get(state, state)


def state_column_text(state: str) -> str:
    """The same where it has to be one word: in narrow columns and on the command line."""
    return state_text(state).partition(" ")[0]


def health_text(health: str) -> str:
    """A health for people; one of a newer daemon as it is."""
    return HEALTH_WORDS.get(health, health)


def state_health_text(state: str, health: str) -> str:
    """`running, healthy`."""
    return f"{state_text(state)}, {health_text(health)}"
