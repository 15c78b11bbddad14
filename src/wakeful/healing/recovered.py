"""Decides whether a session without a finding recovered, or only ended. Pure.

A finding also disappears when its session is stopped, vanishes, or is no longer seen. None of these is a
recovery.
"""

from typing import Final

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.process import Sight
from wakeful.healing.plan import REVIVED_SECONDS
from wakeful.healing.trouble import Trouble
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import Presence, ended_by, has_only_come_up
from wakeful.judging.findings import Code, Health, Verdict

GONE: Final = "its process is gone"
UNSEEN: Final = "nobody knows whether it still runs"
STALE: Final = "nothing was heard of it any more"
OPENED_AGAIN: Final = "it was opened again, and nothing has run in it since"
# What says nothing about a turn: that the turn before it ended well says nothing about it either.
_BESIDE_TURNS: Final = frozenset({None, Code.RUNTIME_LOST, Code.READER_DRIFT, Code.TWIN_PROCESSES})
_DEATHS: Final = frozenset({Code.SESSION_DEAD, Code.AGENT_EXITED})


class Ending(Struct, frozen=True):
    """How a problem ended. `words` are empty if it was seen well again; `in_seconds`: not sure before then."""

    words: str = ""
    in_seconds: float = 0.0


WELL: Final = Ending()


def ending_of(
    trouble: Trouble, verdict: Verdict, activity: Activity, presence: Presence, now: Instant
) -> Ending:
    """How the problem of a session without a finding ended."""
    if presence.stopped:
        return Ending(ended_by(presence.heir, by_gateway=presence.by_gateway))
    if verdict.agent is Sight.ALIVE:
        return _of_living(trouble, verdict, activity, presence, now)
    if activity.ended_well and trouble.code not in _BESIDE_TURNS:
        return WELL
    return Ending(GONE if verdict.agent is Sight.DEAD else UNSEEN)


def _of_living(
    trouble: Trouble, verdict: Verdict, activity: Activity, presence: Presence, now: Instant
) -> Ending:
    """A process that only came up proves nothing by itself: a `--resume` that fails lives for a moment, too."""
    if verdict.health is Health.STALE:
        return Ending(STALE)
    worked = activity.progress_at is not None and activity.progress_at.wall > trouble.code_since
    came_up = activity.in_turn and has_only_come_up(presence, activity.last_at)
    if not came_up and (trouble.code not in _DEATHS or worked or activity.ended_well):
        return WELL
    holder = presence.newest
    lived_seconds = now.seconds_since(holder.seen_at) if holder is not None else 0.0
    return Ending(OPENED_AGAIN, max(0.0, REVIVED_SECONDS - lived_seconds))
