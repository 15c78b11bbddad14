"""A session's trouble in the words of people: what was done, what came of it, what becomes of it, what to type. Pure.

What happened to the session stands in its finding; how a message looks is decided in `alerts`.
"""

from typing import Final

from wakeful.alerts import alerts
from wakeful.core.moment import iso
from wakeful.healing.plan import ACTS, Decision, Step
from wakeful.healing.trouble import Trouble
from wakeful.incidents.incident import Fate
from wakeful.judging.findings import MEANINGS, State
from wakeful.judging.session_record import FindingRecord, SessionRecord
from wakeful.judging.wording import length

# What came of a revival that was seen at work.
WORKS_AGAIN: Final = "it works again"


def trouble_text(
    trouble: Trouble, record: SessionRecord, decision: Decision, *, mode: str, paused_by: str | None = None
) -> str:
    """The alert about a trouble that is about one session."""
    return alerts.trouble(
        record,
        _finding(trouble, record),
        did=done_words(trouble, decision),
        otherwise=_otherwise(trouble, record, decision),
        mode=mode,
        paused_by=paused_by,
        command=_command(trouble, decision.step),
    )


def fate_of(trouble: Trouble, step: Step) -> Fate:
    """What a step about it amounts to, for its incident."""
    if step is Step.HOLD:
        return Fate.HELD
    if trouble.given_up:
        return Fate.GIVEN_UP
    return Fate.REVIVED if step in ACTS and not trouble.declined else Fate.LEFT_ALONE


def done_words(trouble: Trouble, decision: Decision) -> str:
    """What was done about it and what came of it, or why nothing was."""
    return trouble.did or f"nothing ({decision.reason})"


def _finding(trouble: Trouble, record: SessionRecord) -> FindingRecord | None:
    """What was found; its record may have forgotten it since, because it was healed."""
    found = next((each for each in record.findings if each.code is trouble.code), None)
    if found is not None or trouble.code is None:
        return found
    severity = MEANINGS[trouble.code, record.state].severity
    return FindingRecord(trouble.code, severity, iso(trouble.code_since), trouble.summary, (), ())


def _command(trouble: Trouble, step: Step) -> str | None:
    """The one that helps; None: the one that explains, or hands it over."""
    if step is Step.HOLD and trouble.checkpoint is not None:
        return f"wakeful checkpoint show {trouble.checkpoint}"
    return f"wakeful session revive {trouble.session_id}" if trouble.given_up else None


def _otherwise(trouble: Trouble, record: SessionRecord, decision: Decision) -> str:
    """What becomes of it if nobody does anything."""
    step = decision.step
    if step is Step.HOLD:
        return "it waits until somebody decides"
    if trouble.declined:
        return "Wakeful tries again by itself"
    if step in ACTS:
        goes_on = "it goes on" if trouble.revival_seen else "Wakeful looks again whether that helped"
        return f"{goes_on}; if it fails again, Wakeful gives up"
    if decision.again_seconds is not None and not trouble.given_up:
        return f"Wakeful looks at it again in {length(decision.again_seconds)}"
    if record.session_alive:
        return "it stays as it is, alive but stuck" if trouble.given_up else "it stays as it is"
    return "it stays stopped" if record.state is State.STOPPED else "it stays as it is"
