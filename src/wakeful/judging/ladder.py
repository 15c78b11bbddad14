"""The ladder of liveness for one verdict: every rung with what is known about it.

The verdict has decided where the break is; here it is only drawn, beside what was seen of the other rungs.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.moment import Instant
from wakeful.core.process import Sight
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import Pane, Presence, Rung
from wakeful.judging.findings import State
from wakeful.judging.thresholds import Policy
from wakeful.judging.verdict import Verdict


class Hold(StrEnum):
    """Whether a rung holds."""

    ALIVE = "alive"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class RungRecord(Struct, frozen=True, gc=False):
    rung: Rung
    hold: Hold


_HOLDS: Final[Mapping[Sight, Hold]] = {
    Sight.ALIVE: Hold.ALIVE,
    Sight.DEAD: Hold.BROKEN,
    Sight.UNKNOWN: Hold.UNKNOWN,
}


def ladder(
    activity: Activity, presence: Presence, verdict: Verdict, policy: Policy, now: Instant
) -> tuple[RungRecord, ...]:
    """Every rung from the ground up."""
    holds = {
        # Whoever judges runs on it.
        Rung.HOST: Hold.ALIVE,
        Rung.CONTAINER: Hold.NOT_APPLICABLE,
        **_pane_rungs(presence.pane),
        Rung.AGENT_PROCESS: _HOLDS[verdict.agent],
        Rung.TURN: _turn(activity, verdict),
        Rung.TOOL: _tool(activity, presence, verdict),
        Rung.PROGRESS: _progress(activity, verdict, policy, now),
    }
    if verdict.broken_at is not None:
        holds[verdict.broken_at] = Hold.BROKEN
    return tuple(RungRecord(rung, holds[rung]) for rung in Rung)


def _pane_rungs(pane: Pane | None) -> dict[Rung, Hold]:
    if pane is None:
        return dict.fromkeys((Rung.RUNTIME, Rung.TMUX_SESSION, Rung.PANE_PROCESS), Hold.NOT_APPLICABLE)
    runtime, process = _HOLDS[pane.runtime], _HOLDS[pane.sight]
    # A server that lives says nothing about a session of which only a dead pane is known.
    session = Hold.UNKNOWN if runtime is Hold.ALIVE and process is not Hold.ALIVE else runtime
    return {Rung.RUNTIME: runtime, Rung.TMUX_SESSION: session, Rung.PANE_PROCESS: process}


def _turn(activity: Activity, verdict: Verdict) -> Hold:
    if verdict.active_prompt:
        return Hold.ALIVE
    is_over = not activity.in_turn or verdict.agent is Sight.ALIVE
    return Hold.NOT_APPLICABLE if is_over else Hold.UNKNOWN


def _tool(activity: Activity, presence: Presence, verdict: Verdict) -> Hold:
    if presence.orphans:
        return Hold.ALIVE
    if not activity.calls or _turn(activity, verdict) is Hold.NOT_APPLICABLE:
        return Hold.NOT_APPLICABLE
    return Hold.ALIVE if verdict.alive_to is Rung.TOOL else Hold.UNKNOWN


def _progress(activity: Activity, verdict: Verdict, policy: Policy, now: Instant) -> Hold:
    """Seen within the time that counts as silence; nobody expects it from a session that waits for a person."""
    if verdict.state is State.WAITING or _turn(activity, verdict) is Hold.NOT_APPLICABLE:
        return Hold.NOT_APPLICABLE
    since = activity.progress_at
    is_fresh = since is not None and now.seconds_since(since) <= policy.silence_seconds
    return Hold.ALIVE if is_fresh and verdict.active_prompt else Hold.UNKNOWN
