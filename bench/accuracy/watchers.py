"""Wakeful as `measure` watches with it: the domain's own fold and judge, one living process, a clock of the log."""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.process import Process, ProcessState
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import AgentProcess, RuntimeState
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy

_PID: Final = 4321


class Look(Struct, frozen=True):
    """What a watcher says now: each thing found with its reason, and when that can change by time alone.

    `guessed`: why it says that a call probably asks for permission, which is no accusation.
    """

    found: Mapping[str, str]
    next_at: float | None = None
    guessed: str = ""


class Watcher(Protocol):
    """A rule or a set of rules that follows one session."""

    def see(self, event: e.Event) -> None:
        """The log says that this happened."""

    def die(self, at: float) -> None:
        """The process is gone."""

    def look(self, now: float) -> Look:
        """What is true now."""


class Wakeful:
    """All of Wakeful's rules."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._activity = Activity()
        self._holder = AgentProcess(
            Process(_PID, 1, "boot"), ProcessState.ALIVE, Instant(0.0, 0.0), "registry"
        )
        self._presence = RuntimeState(holders={_PID: self._holder})

    def see(self, event: e.Event) -> None:
        fold(self._activity, event, Instant(event.at, event.at))

    def die(self, at: float) -> None:
        self._holder.sight, self._holder.ended_at = ProcessState.DEAD, Instant(at, at)

    def look(self, now: float) -> Look:
        verdict = judge(self._activity, self._presence, self._policy, Instant(now, now))
        found = {
            str(finding.code): "; ".join((finding.summary, *finding.evidence)) for finding in verdict.findings
        }
        next_check_at = verdict.next_check_at
        guessed = next((wait.evidence for wait in verdict.waits if wait.probable), "")
        return Look(found, next_check_at.wall if next_check_at is not None else None, guessed)
