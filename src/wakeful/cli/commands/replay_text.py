"""What a replay says to a person. Pure: reports in, lines out."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET, UnsetType

from wakeful.core.durations import age
from wakeful.replay.compare import Comparison, Difference
from wakeful.replay.report import (
    CasesReport,
    EpisodeReport,
    ReplayReport,
    Score,
    SessionReport,
    Summary,
)
from wakeful.replay.tuning import EVERYTHING, Lesson, Proposal


def report_lines(report: ReplayReport) -> Iterator[str]:
    for session in report.sessions:
        yield from _session(session)
    yield from _totals(report.summary)
    if report.summary.cases is not UNSET:
        yield from _cases(report.summary.cases, report.sessions)


def _session(session: SessionReport) -> Iterator[str]:
    codes = ", ".join(finding.code for finding in session.findings)
    verdict = f"{session.health}: {codes}" if codes else session.health
    yield f"{session.id}  {verdict}  ({session.state}, {session.project}, {number(session.events, 'event')})"
    for episode in session.episodes:
        yield f"  {_episode(episode)}"


def _episode(episode: EpisodeReport) -> str:
    until = episode.ended or "goes on"
    why = "; ".join((episode.summary, *episode.evidence))
    return f"{episode.code}  {episode.began} - {until} ({age(episode.seconds)})  {why}"


def _totals(summary: Summary) -> Iterator[str]:
    said = _counts(summary.health) or "nothing to judge"
    yield f"{number(summary.sessions, 'session')}, {number(summary.events, 'event')}: {said}"
    for code, count in summary.codes.items():
        yield f"{code}: {number(count.episodes, 'episode')} in {number(count.sessions, 'session')}"
    if not summary.codes:
        yield "no episode"


def number(count: int, word: str) -> str:
    """So many of them, in words."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _cases(cases: CasesReport, sessions: Sequence[SessionReport]) -> Iterator[str]:
    yield f"cases: {cases.right} of {cases.total} right"
    width = max(map(len, cases.labels))
    for label, score in cases.labels.items():
        yield f"  {label.ljust(width)}  precision {_figure(score.precision)}  recall {_figure(score.recall)}  {_of(score)}"
    wrong = set(cases.wrong)
    for session in sessions:
        if session.id in wrong:
            yield f"  wrong: {session.id}: expected {_word(session.expect)}, said {_word(session.verdict)}"


def _word(label: str | UnsetType) -> str:
    return label if isinstance(label, str) else "nothing"


def _figure(share: float | None) -> str:
    return "   - " if share is None else f"{share:5.3f}"


def _of(score: Score) -> str:
    return f"({score.right} right, {score.said} said, {score.expected} expected)"


def comparison_lines(comparison: Comparison, names: tuple[str, str]) -> Iterator[str]:
    for difference in comparison.differences:
        yield from _difference(difference, names)
    yield f"{len(comparison.differences):,} of {comparison.sessions:,} sessions judged differently"
    for name, summary in zip(names, (comparison.first, comparison.second), strict=True):
        codes = {code: count.episodes for code, count in summary.codes.items()}
        yield f"{name}: {_counts(summary.health)}; episodes: {_counts(codes) or 'none'}"


def _difference(difference: Difference, names: tuple[str, str]) -> Iterator[str]:
    first, second = difference.health
    yield f"{difference.id}  {first}" if first == second else f"{difference.id}  {first} / {second}"
    for name, episodes in zip(names, (difference.only_first, difference.only_second), strict=True):
        for episode in episodes:
            yield f"  only {name}: {_episode(episode)}"


def proposal_lines(proposals: Sequence[Proposal]) -> Iterator[str]:
    """A configuration that can be used as it is; what single projects would need stands in it as comments."""
    for proposal in proposals:
        is_own = proposal.project != EVERYTHING
        named = f"project {proposal.project}" if is_own else "all recordings"
        yield f"# {named}: {number(proposal.sessions, 'session')}, taken for healthy"
        prefix = "# " if is_own else ""
        yield f"{prefix}[detect]"
        for lesson in proposal.lessons:
            yield f"{prefix}{_lesson(lesson)}"
        yield ""


def _lesson(lesson: Lesson) -> str:
    tried = ", ".join(f"{each.value:g}: {each.false_alarm_share:.1%}" for each in lesson.tried)
    setting = f"{lesson.key} = {lesson.value:g}"
    return f"{setting.ljust(28)}  # {lesson.false_alarm_share:.1%} false alarms (tried {tried})"
