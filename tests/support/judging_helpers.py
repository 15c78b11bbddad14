"""What the tests of readers, fold and judge share: events in, one comparable verdict out."""

from collections.abc import Iterable

from wakeful.core.clock import Instant
from wakeful.core.process import Process, Sight
from wakeful.judging import events as e
from wakeful.judging.activity import Activity, fold
from wakeful.judging.evidence import Holder, Presence, Status
from wakeful.judging.findings import Code, Verdict
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy

POLICY = Policy()


def at(seconds: float) -> Instant:
    """A moment on a host that never slept."""
    return Instant(seconds, seconds)


def folded(events: Iterable[e.Event], activity: Activity | None = None) -> Activity:
    activity = activity if activity is not None else Activity()
    for event in events:
        fold(activity, event, at(event.at))
    return activity


def held(sight: Sight = Sight.ALIVE, pid: int = 100, **facts: object) -> Presence:
    """Seen with one process."""
    presence = Presence()
    hold_by(presence, sight, pid, **facts)
    return presence


def hold_by(presence: Presence, sight: Sight, pid: int, **facts: object) -> None:
    holder = Holder(Process(pid, 1, "boot"), sight, at(0.0), "registry")
    for name, fact in facts.items():
        setattr(holder, name, fact)
    presence.holders[pid] = holder


def told(status: Status, seconds: float, waiting_for: str | None = None) -> Presence:
    """Alive, and its client says what it is doing."""
    return held(status=status, status_at=at(seconds), waiting_for=waiting_for)


def judged(events: Iterable[e.Event], now: float, presence: Presence | None = None) -> Verdict:
    return judge(folded(events), presence if presence is not None else held(), POLICY, at(now))


def codes(verdict: Verdict) -> list[Code]:
    return [finding.code for finding in verdict.findings]


def outline(verdict: Verdict) -> tuple[object, ...]:
    """Everything of a verdict that anybody acts on."""
    return (
        verdict.state,
        verdict.health,
        verdict.active_prompt,
        verdict.attention,
        verdict.waits,
        verdict.next_check_at,
        [(finding.code, finding.since, finding.summary) for finding in verdict.findings],
    )
