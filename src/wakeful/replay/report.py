"""Report of a replay: final verdict and episodes for each session, totals, and the comparison of two reports.

These structs are the JSON of `wakeful replay --json`. Text of an agent is only under `untrusted`.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from wakeful.core.clock import iso
from wakeful.judging.findings import FindingCode, Health, State
from wakeful.judging.session_record import safe
from wakeful.replay.cases import label_of
from wakeful.replay.engine import Episode, ReplayOutcome


class FindingReport(Struct, frozen=True):
    code: FindingCode
    at: str
    since: str
    summary: str
    evidence: tuple[str, ...]
    untrusted: tuple[str, ...]


class EpisodeReport(Struct, frozen=True, rename={"began": "from", "ended": "to"}):
    """`from`: when its alert would have been sent. `to`: when it ended; null while it goes on."""

    code: FindingCode
    began: str
    ended: str | None
    since: str
    seconds: float
    waiting_for: str
    summary: str
    evidence: tuple[str, ...]
    untrusted: tuple[str, ...]


class ReplaySessionReport(Struct, frozen=True):
    id: str
    format: str
    project: str
    state: State
    health: Health
    findings: tuple[FindingReport, ...]
    episodes: tuple[EpisodeReport, ...]
    events: int
    started_at: str | None
    now: str
    expect: str | UnsetType = UNSET
    verdict: str | UnsetType = UNSET
    right: bool | UnsetType = UNSET


class Score(Struct, frozen=True):
    """How often a label was given when it should be. None if there was nothing to be right about."""

    precision: float | None
    recall: float | None
    right: int
    expected: int
    said: int


class CasesReport(Struct, frozen=True):
    total: int
    right: int
    wrong: tuple[str, ...]
    labels: dict[str, Score]


class CodeCount(Struct, frozen=True):
    episodes: int
    sessions: int


class ReplaySummary(Struct, frozen=True):
    sessions: int
    events: int
    health: dict[str, int]
    codes: dict[str, CodeCount]
    cases: CasesReport | UnsetType = UNSET


class ReplayReport(Struct, frozen=True):
    sessions: tuple[ReplaySessionReport, ...]
    summary: ReplaySummary


class ReplayedSession(Struct, frozen=True):
    """A replayed session, with one outcome for each policy."""

    id: str
    format: str
    project: str
    events: int
    began: float | None
    outcomes: tuple[ReplayOutcome, ...]
    expect: str | None = None


def make_replay_report(replayed: Sequence[ReplayedSession], index: int = 0) -> ReplayReport:
    sessions = tuple(_session(each, each.outcomes[index]) for each in replayed)
    return ReplayReport(sessions, _summary(sessions))


def _session(replayed: ReplayedSession, outcome: ReplayOutcome) -> ReplaySessionReport:
    label = label_of(outcome.verdict)
    expect = replayed.expect
    return ReplaySessionReport(
        id=replayed.id,
        format=replayed.format,
        project=replayed.project,
        state=outcome.verdict.state,
        health=outcome.verdict.health,
        findings=_findings(outcome),
        episodes=tuple(_episode(each, outcome.now.wall) for each in outcome.episodes),
        events=replayed.events,
        started_at=iso(replayed.began) if replayed.began is not None else None,
        now=iso(outcome.now.wall),
        expect=expect if expect is not None else UNSET,
        verdict=label if expect is not None else UNSET,
        right=label == expect if expect is not None else UNSET,
    )


def _findings(outcome: ReplayOutcome) -> tuple[FindingReport, ...]:
    began = {episode.code: episode.began for episode in outcome.episodes if episode.ended is None}
    return tuple(
        FindingReport(
            finding.code,
            iso(began[finding.code].wall),
            iso(finding.since.wall),
            finding.summary,
            tuple(map(safe, finding.evidence)),
            tuple(map(safe, finding.untrusted)),
        )
        for finding in outcome.verdict.findings
    )


def _episode(episode: Episode, now: float) -> EpisodeReport:
    ended = episode.ended.wall if episode.ended is not None else None
    return EpisodeReport(
        code=episode.code,
        began=iso(episode.began.wall),
        ended=iso(ended) if ended is not None else None,
        since=iso(episode.found.since.wall),
        seconds=round((now if ended is None else ended) - episode.began.wall, 3),
        waiting_for=episode.waiting_for,
        summary=episode.found.summary,
        evidence=tuple(map(safe, episode.found.evidence)),
        untrusted=tuple(map(safe, episode.found.untrusted)),
    )


def _summary(sessions: Sequence[ReplaySessionReport]) -> ReplaySummary:
    counts = Counter(episode.code for session in sessions for episode in session.episodes)
    touched = Counter(code for session in sessions for code in {episode.code for episode in session.episodes})
    codes = {code.value: CodeCount(counts[code], touched[code]) for code in FindingCode if counts[code]}
    health = Counter(session.health for session in sessions)
    labelled = [session for session in sessions if session.expect is not UNSET]
    return ReplaySummary(
        sessions=len(sessions),
        events=sum(session.events for session in sessions),
        health={each.value: health[each] for each in Health if health[each]},
        codes=codes,
        cases=_cases(labelled) if labelled else UNSET,
    )


def _cases(sessions: Sequence[ReplaySessionReport]) -> CasesReport:
    pairs = [(str(session.expect), str(session.verdict)) for session in sessions]
    labels = sorted({label for pair in pairs for label in pair})
    return CasesReport(
        total=len(sessions),
        right=sum(expect == said for expect, said in pairs),
        wrong=tuple(session.id for session in sessions if session.right is False),
        labels={label: _score(label, pairs) for label in labels},
    )


def _score(label: str, pairs: Sequence[tuple[str, str]]) -> Score:
    right = sum(expect == said == label for expect, said in pairs)
    expected = sum(expect == label for expect, _ in pairs)
    said = sum(given == label for _, given in pairs)
    return Score(
        right / said if said else None, right / expected if expected else None, right, expected, said
    )


class Difference(Struct, frozen=True):
    """A session with different verdicts: both final healths, and the episodes that only one report has."""

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
    differing = [
        each for each in differences if each.only_first or each.only_second or len(set(each.health)) > 1
    ]
    return Comparison(len(first.sessions), tuple(differing), first.summary, second.summary)


def _without(episodes: Sequence[EpisodeReport], others: Sequence[EpisodeReport]) -> tuple[EpisodeReport, ...]:
    known = {(other.code, other.began, other.ended) for other in others}
    return tuple(each for each in episodes if (each.code, each.began, each.ended) not in known)
