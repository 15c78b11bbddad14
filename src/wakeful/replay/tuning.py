"""Learns thresholds from recordings of healthy sessions: for each value tried, its share of false alarms.

Each threshold is tried alone, with all others out of reach, by the rules that judge; nothing is estimated.
The operator states that the recordings are healthy, so every alarm in them counts as false.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.judging.findings import FindingCode
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TurnPhase
from wakeful.replay.cases import Expect
from wakeful.replay.engine import ReplayOutcome
from wakeful.replay.report import ReplayedSession

# One session in a hundred: an alarm this rare still gets a person's attention.
FALSE_ALARM_SHARE_MAX: Final = 0.01
# No alarm among few sessions means little: a limit becomes stricter than its default only with this many.
SESSIONS_TO_TIGHTEN_MIN: Final = 100
# Never in practice, and still valid in a configuration.
_NEVER_SECONDS: Final = 300_000_000.0
_NEVER_COUNT: Final = 1_000_000
ALL_PROJECTS: Final = ""

_SILENCES: Final = (300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0)


class ThresholdTrial(Struct, frozen=True):
    """A limit to learn: the values to try, rising, and the findings it causes, in one phase of the turn or in any."""

    key: str
    values: tuple[float, ...]
    codes: frozenset[FindingCode]
    phase: TurnPhase | None = None


_SILENT: Final = frozenset({FindingCode.SILENT})
# A client that ends its calls by itself is wedged where others are silent.
_STUCK: Final = frozenset({FindingCode.SILENT, FindingCode.TOOL_WEDGED})
_LOOP: Final = frozenset({FindingCode.LOOP})
TRIALS: Final = (
    ThresholdTrial("silence_seconds", _SILENCES, _SILENT, TurnPhase.MODEL),
    ThresholdTrial("tool_seconds", _SILENCES, _STUCK, TurnPhase.TOOL),
    ThresholdTrial("errors_in_a_row_max", (3, 4, 5, 6, 8, 10, 15), frozenset({FindingCode.ERROR_CASCADE})),
    ThresholdTrial("repeats_max", (2, 3, 4, 5, 8, 12), _LOOP),
    ThresholdTrial("cycles_max", (2, 3, 4, 5, 8, 12), _LOOP),
    ThresholdTrial("duplicates_max", (4, 5, 6, 8, 12, 20), _LOOP),
    ThresholdTrial("poll_seconds", (900.0, 1800.0, 3600.0, 7200.0, 14400.0), _LOOP),
    ThresholdTrial("runaway_seconds", (3600.0, 7200.0, 14400.0, 28800.0), frozenset({FindingCode.RUNAWAY})),
)
# Silence while a call is open is judged by both numbers, the larger one decides.
_TRIED_TOGETHER: Final[Mapping[str, tuple[str, ...]]] = {"tool_seconds": ("silence_seconds",)}
_UNCHANGED_KEYS: Final = frozenset({"settle_seconds", "tool_grace_seconds", "drift_records_min"})


class TrialResult(Struct, frozen=True):
    """A value and the share of sessions with a false alarm."""

    value: float
    false_alarm_share: float


class ThresholdProposal(Struct, frozen=True):
    """The value proposed for one key, and all that were tried."""

    key: str
    value: float
    false_alarm_share: float
    tried: tuple[TrialResult, ...]


class TuningProposal(Struct, frozen=True):
    """Proposals from the recordings of one project, or of all projects if the name is empty."""

    project: str
    sessions: int
    lessons: tuple[ThresholdProposal, ...]


def trial_policies() -> list[Policy]:
    """The policies to replay with, in the order in which `propose` expects their outcomes."""
    return [_policy_with_only(trial, value) for trial in TRIALS for value in trial.values]


def propose(replayed: Sequence[ReplayedSession]) -> list[TuningProposal]:
    """One proposal for everything, then one for each project if there are several.

    A labelled case that is not ok is left out: an alarm is right there.
    """
    replayed = [each for each in replayed if each.expect in {None, Expect.OK}]
    projects = sorted({each.project for each in replayed})
    by_project = [_proposal(name, [each for each in replayed if each.project == name]) for name in projects]
    return [_proposal(ALL_PROJECTS, replayed), *(by_project if len(by_project) > 1 else [])]


def _policy_with_only(trial: ThresholdTrial, value: float) -> Policy:
    """A policy in which only this limit can be reached."""
    unreachable = {
        field.name: _NEVER_SECONDS if field.type is float else _NEVER_COUNT
        for field in msgspec.structs.fields(Policy)
        if field.name not in _UNCHANGED_KEYS
    }
    tried = dict.fromkeys((trial.key, *_TRIED_TOGETHER.get(trial.key, ())), value)
    return msgspec.convert({**unreachable, **tried}, Policy)


def _proposal(project: str, replayed: Sequence[ReplayedSession]) -> TuningProposal:
    lessons, index = [], 0
    for trial in TRIALS:
        columns = range(index, index + len(trial.values))
        shares = [
            _false_alarm_share(trial, [each.outcomes[column] for each in replayed]) for column in columns
        ]
        may_tighten = len(replayed) >= SESSIONS_TO_TIGHTEN_MIN
        lessons.append(_threshold_proposal(trial, shares, may_tighten=may_tighten))
        index += len(trial.values)
    return TuningProposal(project, len(replayed), tuple(lessons))


def _false_alarm_share(trial: ThresholdTrial, outcomes: Sequence[ReplayOutcome]) -> float:
    alarms = sum(
        any(each.code in trial.codes and trial.phase in {None, each.waiting_for} for each in outcome.episodes)
        for outcome in outcomes
    )
    return alarms / len(outcomes) if outcomes else 0.0


def _threshold_proposal(
    trial: ThresholdTrial, shares: Sequence[float], *, may_tighten: bool
) -> ThresholdProposal:
    """The smallest value within the allowed share; the largest tried if there is none."""
    tried = tuple(map(TrialResult, trial.values, shares))
    least = 0.0 if may_tighten else getattr(Policy(), trial.key)
    good = (each for each in tried if each.value >= least and each.false_alarm_share <= FALSE_ALARM_SHARE_MAX)
    best = next(good, tried[-1])
    return ThresholdProposal(trial.key, best.value, best.false_alarm_share, tried)
