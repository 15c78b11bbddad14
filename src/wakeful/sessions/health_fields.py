"""Table of the triggers that may write each health field of a session. Pure.

There are five kinds of evidence, and the verdict over them. `build_record` makes a record from them, and
records are immutable. One occurrence is often several triggers: the end of an agent process is a stop, an end
of presence and a verdict. `docs/reference/health-writers.md` is generated from WRITERS, and the tests check
every trigger against it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class HealthTrigger(StrEnum):
    """Five kinds of evidence, and the verdict over all of them."""

    SESSION = "a start, resume or stop, or its delivery path opened, closed or lost"
    ACTIVITY = "prompt activity in its log or its client's events"
    PRESENCE = "proof that its process lives, or has ended"
    AGE = "idle, and no person present for `session_health_stale_after`"
    RESTART = "a daemon that starts, from evidence alone, before any wake"
    VERDICT = "`judge()` over evidence of any kind"


_T = HealthTrigger
WRITERS: Final[Mapping[str, frozenset[HealthTrigger]]] = {
    "state": frozenset({_T.SESSION, _T.ACTIVITY, _T.RESTART}),
    "health": frozenset({_T.ACTIVITY, _T.AGE, _T.RESTART, _T.VERDICT}),
    # A prompt ends with an agent that ends inside its turn.
    "active_prompt": frozenset({_T.SESSION, _T.ACTIVITY, _T.RESTART}),
    "attachable": frozenset({_T.SESSION, _T.RESTART}),
    "last_activity_at": frozenset({_T.ACTIVITY, _T.RESTART}),
    "last_presence_at": frozenset({_T.PRESENCE, _T.RESTART}),
    "last_error": frozenset({_T.RESTART, _T.VERDICT}),
    "findings": frozenset({_T.RESTART, _T.VERDICT}),
    "expected_waits": frozenset({_T.RESTART, _T.VERDICT}),
    "alive_to": frozenset({_T.RESTART, _T.VERDICT}),
    "broken_at": frozenset({_T.RESTART, _T.VERDICT}),
}
"""One function derives `eligible_for_wake` and `ineligibility_reason` from these; every write sets `updated_at`."""
