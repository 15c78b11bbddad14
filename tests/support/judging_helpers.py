"""Shared by tests of readers, fold and judge: events in, one comparable verdict out."""

from collections.abc import Iterable

from wakeful.core.clock import Instant
from wakeful.core.process import Process, ProcessState
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import AgentProcess, ClientStatus, RuntimeState
from wakeful.judging.findings import FindingCode, Verdict
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy

POLICY = Policy()


def at(seconds: float) -> Instant:
    """A time on a host that never slept."""
    return Instant(seconds, seconds)


def folded(events: Iterable[e.Event], activity: Activity | None = None) -> Activity:
    activity = activity if activity is not None else Activity()
    for event in events:
        fold(activity, event, at(event.at))
    return activity


def held(sight: ProcessState = ProcessState.ALIVE, pid: int = 100, **facts: object) -> RuntimeState:
    """With one live process."""
    runtime = RuntimeState()
    hold_by(runtime, sight, pid, **facts)
    return runtime


def hold_by(presence: RuntimeState, sight: ProcessState, pid: int, **facts: object) -> None:
    process = AgentProcess(Process(pid, 1, "boot"), sight, at(0.0), "registry")
    for name, fact in facts.items():
        setattr(process, name, fact)
    presence.holders[pid] = process


def told(status: ClientStatus, seconds: float, waiting_for: str | None = None) -> RuntimeState:
    """Alive, with the status that its client reports."""
    return held(status=status, status_at=at(seconds), waiting_for=waiting_for)


def judged(events: Iterable[e.Event], now: float, presence: RuntimeState | None = None) -> Verdict:
    return judge(folded(events), presence if presence is not None else held(), POLICY, at(now))


def codes(verdict: Verdict) -> list[FindingCode]:
    return [finding.code for finding in verdict.findings]


def outline(verdict: Verdict) -> tuple[object, ...]:
    """All parts of a verdict that have consequences."""
    return (
        verdict.state,
        verdict.health,
        verdict.active_prompt,
        verdict.attention,
        verdict.waits,
        verdict.next_check_at,
        [(finding.code, finding.since, finding.summary) for finding in verdict.findings],
    )
