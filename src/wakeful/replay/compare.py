"""Compares the verdicts of two configurations about the same recordings. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from wakeful.judging.findings import Health
from wakeful.replay.report import EpisodeReport, ReplayReport, ReplaySummary


class Difference(Struct, frozen=True):
    """One session about which they disagree: how it ended, and the episodes only one of them saw."""

    id: str
    health: tuple[Health, Health]
    only_first: tuple[EpisodeReport, ...]
    only_second: tuple[EpisodeReport, ...]


class Comparison(Struct, frozen=True):
    sessions: int
    differences: tuple[Difference, ...]
    first: ReplaySummary
    second: ReplaySummary


def compare(first: ReplayReport, second: ReplayReport) -> Comparison:
    """Both reports are of the same sessions in the same order."""
    pairs = zip(first.sessions, second.sessions, strict=True)
    differences = [
        Difference(
            one.id,
            (one.health, other.health),
            _without(one.episodes, other.episodes),
            _without(other.episodes, one.episodes),
        )
        for one, other in pairs
    ]
    told = [each for each in differences if each.only_first or each.only_second or len(set(each.health)) > 1]
    return Comparison(len(first.sessions), tuple(told), first.summary, second.summary)


def _without(episodes: Sequence[EpisodeReport], others: Sequence[EpisodeReport]) -> tuple[EpisodeReport, ...]:
    known = {(other.code, other.began, other.ended) for other in others}
    return tuple(each for each in episodes if (each.code, each.began, each.ended) not in known)
