"""What stands before a resume: somebody looked at what was cut off elsewhere, and the agent is told what was."""

from collections.abc import Callable, Sequence

from wakeful.control.briefs import InterruptedCall, brief
from wakeful.core.errors import OperatorError, WorldError
from wakeful.effects.rules import Effect
from wakeful.judging import interrupted_calls as effects
from wakeful.judging.session_record import safe
from wakeful.judging.wording import quoted
from wakeful.sessions.session import Watched


class CutOffElsewhere(WorldError):
    """{shown} was cut off inside {calls}, which may have happened. Look what is there, then: wakeful session revive {shown} --yes"""

    code = "cut-off-elsewhere"
    exit_code = 1
    http_status = 409


CutOff = Callable[[Watched], Sequence[effects.InterruptedCall]]
"""The calls of a session that had not come back, classed."""


class HolderAlive(WorldError):
    """{shown} is run by process {pid} since {since}: one conversation has one owner. Stop that one first."""

    code = "holder-alive"
    exit_code = 1
    http_status = 409


class CannotResume(OperatorError):
    """{shown} cannot be continued: {reason}."""

    code = "cannot-resume"
    http_status = 409


def by_the_rules(watched: Watched) -> Sequence[effects.InterruptedCall]:
    """Classed without what anybody taught."""
    return effects.interrupted(watched.activity)


def unseen(watched: Watched, cut_off: CutOff) -> list[effects.InterruptedCall]:
    """The calls that were cut off and may have happened elsewhere."""
    return [each for each in cut_off(watched) if each.verdict.effect is not Effect.LOCAL]


def refuse_unseen(watched: Watched, cut_off: CutOff) -> None:
    """Whoever goes on inside a call to the outside may repeat it: somebody has to look first."""
    calls = unseen(watched, cut_off)
    if calls:
        named = "; ".join(f"{each.tool} {quoted(each.verdict.words)}" for each in calls)
        raise CutOffElsewhere(shown=watched.subject.id, calls=named)


def brief_of(watched: Watched, now: float, context: str) -> str | None:
    """What the agent must be told: nothing, if it had finished what it was asked and nobody has more to say."""
    if not watched.activity.in_turn:
        return f"{brief(())} {context}" if context else None
    calls = [
        InterruptedCall(
            call.tool, f"{call.tool} {safe(call.input.decode(errors='replace'))}", now - call.since.wall
        )
        for call in watched.activity.calls.values()
    ]
    told = brief(calls, [safe(orphan.command) for orphan in watched.presence.orphans])
    return f"{told} {context}".strip()
