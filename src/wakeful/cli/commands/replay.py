"""Command `wakeful replay`: judges recorded logs again, with any thresholds; and its text."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec import UNSET, UnsetType

from wakeful.cli.options import json_option
from wakeful.cli.output import print_note, print_record
from wakeful.cli.settings import load_settings
from wakeful.config.load import Document, combine, read_file
from wakeful.config.schema import KEYS
from wakeful.core.durations import age
from wakeful.core.errors import OperatorError
from wakeful.judging.state_words import health_text, state_text
from wakeful.judging.thresholds import Policy
from wakeful.replay.engine import Replay
from wakeful.replay.report import (
    CasesReport,
    Comparison,
    Difference,
    EpisodeReport,
    ReplayedSession,
    ReplayReport,
    ReplaySessionReport,
    ReplaySummary,
    compare,
    make_replay_report,
)
from wakeful.replay.tuning import ALL_PROJECTS, ThresholdProposal, TuningProposal, propose, trial_policies


def report_lines(report: ReplayReport) -> Iterator[str]:
    for session in report.sessions:
        yield from _session_lines(session)
    yield from _total_lines(report.summary)
    if report.summary.cases is not UNSET:
        yield from _case_lines(report.summary.cases, report.sessions)


def _session_lines(session: ReplaySessionReport) -> Iterator[str]:
    codes = ", ".join(finding.code for finding in session.findings)
    health = health_text(session.health)
    verdict = f"{health}: {codes}" if codes else health
    yield f"{session.id}  {verdict}  ({state_text(session.state)}, {session.project}, {count_text(session.events, 'event')})"
    for episode in session.episodes:
        yield f"  {_episode_line(episode)}"


def _episode_line(episode: EpisodeReport) -> str:
    until = episode.ended or "goes on"
    why = "; ".join((episode.summary, *episode.evidence))
    return f"{episode.code}  {episode.began} - {until} ({age(episode.seconds)})  {why}"


def _total_lines(summary: ReplaySummary) -> Iterator[str]:
    said = _health_counts_text(summary.health) or "nothing to judge"
    yield f"{count_text(summary.sessions, 'session')}, {count_text(summary.events, 'event')}: {said}"
    for code, count in summary.codes.items():
        yield f"{code}: {count_text(count.episodes, 'episode')} in {count_text(count.sessions, 'session')}"
    if not summary.codes:
        yield "no episode"


def count_text(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _health_counts_text(counts: Mapping[str, int]) -> str:
    words: Counter[str] = Counter()
    for health, count in counts.items():
        words[health_text(health)] += count
    return _counts_text(words)


def _case_lines(cases: CasesReport, sessions: Sequence[ReplaySessionReport]) -> Iterator[str]:
    yield f"cases: {cases.right} of {cases.total} right"
    width = max(map(len, cases.labels))
    for label, score in cases.labels.items():
        yield f"  {label.ljust(width)}  precision {_share_text(score.precision)}  recall {_share_text(score.recall)}  ({score.right} right, {score.said} said, {score.expected} expected)"
    wrong = set(cases.wrong)
    for session in sessions:
        if session.id in wrong:
            yield f"  wrong: {session.id}: expected {_label_text(session.expect)}, said {_label_text(session.verdict)}"


def _label_text(label: str | UnsetType) -> str:
    return label if isinstance(label, str) else "nothing"


def _share_text(share: float | None) -> str:
    return "   - " if share is None else f"{share:5.3f}"


def comparison_lines(comparison: Comparison, names: tuple[str, str]) -> Iterator[str]:
    for difference in comparison.differences:
        yield from _difference_lines(difference, names)
    yield f"{len(comparison.differences):,} of {comparison.sessions:,} sessions judged differently"
    for name, summary in zip(names, (comparison.first, comparison.second), strict=True):
        codes = {code: count.episodes for code, count in summary.codes.items()}
        yield f"{name}: {_health_counts_text(summary.health)}; episodes: {_counts_text(codes) or 'none'}"


def _difference_lines(difference: Difference, names: tuple[str, str]) -> Iterator[str]:
    first, second = map(health_text, difference.health)
    yield f"{difference.id}  {first}" if first == second else f"{difference.id}  {first} / {second}"
    for name, episodes in zip(names, (difference.only_first, difference.only_second), strict=True):
        for episode in episodes:
            yield f"  only {name}: {_episode_line(episode)}"


def proposal_lines(proposals: Sequence[TuningProposal]) -> Iterator[str]:
    """A valid configuration; proposals for single projects are comments in it."""
    for proposal in proposals:
        is_own = proposal.project != ALL_PROJECTS
        named = f"project {proposal.project}" if is_own else "all recordings"
        yield f"# {named}: {count_text(proposal.sessions, 'session')}, assumed healthy"
        prefix = "# " if is_own else ""
        yield f"{prefix}[detect]"
        for lesson in proposal.lessons:
            yield f"{prefix}{_lesson_line(lesson)}"
        yield ""


def _lesson_line(lesson: ThresholdProposal) -> str:
    tried = ", ".join(f"{each.value:g}: {each.false_alarm_share:.1%}" for each in lesson.tried)
    setting = f"{lesson.key} = {lesson.value:g}"
    return f"{setting.ljust(28)}  # {lesson.false_alarm_share:.1%} false alarms (tried {tried})"


if TYPE_CHECKING:
    from wakeful.cli.replay_recordings import RecordedSession

FORMATS: Final = ("auto", "claude", "codex", "tool-use", "events", "cases")
_SECTION: Final = "detect."


class BadSetOption(OperatorError):
    """--set {shown!r}: {problem}"""

    code = "bad-setting"


class BadNowOption(OperatorError):
    """Invalid time --now {shown!r}: use 2026-01-31T08:00:00Z or seconds since 1970."""

    code = "bad-time"


@click.command(epilog="Example: wakeful replay ~/.claude/projects --set detect.silence_seconds=900")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--format", "wanted", type=click.Choice(FORMATS), default="auto", help="Format of the logs.")
@click.option(
    "--set", "changes", multiple=True, metavar="detect.KEY=VALUE", help="Set a threshold. Repeatable."
)
@click.option("--now", "now_text", metavar="TIME", help="Judge at this time. Default: the last record.")
@click.option(
    "--process",
    type=click.Choice(["alive", "gone"]),
    default="alive",
    help="Judge as if the process were alive or gone.",
)
@click.option(
    "--compare",
    "pair",
    nargs=2,
    metavar="A.toml B.toml",
    help="Show what two configurations judge differently.",
)
@click.option("--learn", is_flag=True, help="Propose thresholds from recordings of healthy sessions.")
@click.option("--config", "config_file", metavar="FILE", help="Read only this configuration file.")
@json_option
def replay(
    *,
    paths: tuple[Path, ...],
    wanted: str,
    changes: tuple[str, ...],
    now_text: str | None,
    process: str,
    pair: tuple[str, str] | None,
    learn: bool,
    config_file: str | None,
    as_json: bool,
) -> int:
    """Judge recorded logs: each finding with its time and reason. Exit 1: a labelled case is wrong."""
    now = _time_of(now_text) if now_text is not None else None
    if learn and pair is not None:
        raise click.UsageError("Use either --learn or --compare.")

    def step(policies: Sequence[Policy]) -> list[ReplayedSession]:
        return _replay_all(paths, wanted, policies, now, gone=process == "gone")

    if learn:
        proposals = propose(step(trial_policies()))
        print_record({"proposals": proposals}, proposal_lines(proposals), as_json=as_json)
        return 0
    if pair is not None:
        return _compare(step, pair, changes, as_json=as_json)
    report = make_replay_report(step([_with_settings(load_settings(config_file).config.detect, changes)]))
    print_record(report, report_lines(report), as_json=as_json)
    cases = report.summary.cases
    return 1 if cases is not UNSET and cases.wrong else 0


_Replay = Callable[[Sequence[Policy]], list[ReplayedSession]]


def _compare(step: _Replay, pair: tuple[str, str], changes: tuple[str, ...], *, as_json: bool) -> int:
    policies = [_with_settings(_policy_of(path), changes) for path in pair]
    stepped = step(policies)
    comparison = compare(make_replay_report(stepped, 0), make_replay_report(stepped, 1))
    print_record(comparison, comparison_lines(comparison, pair), as_json=as_json)
    return 0


def _replay_all(
    paths: Sequence[Path], wanted: str, policies: Sequence[Policy], now: float | None, *, gone: bool
) -> list[ReplayedSession]:
    from wakeful.cli.replay_recordings import find_recordings, recorded_sessions  # noqa: PLC0415 - wrong options are reported before it

    shelf = find_recordings(paths, wanted)
    if shelf.left_out:
        left_out = count_text(len(shelf.left_out), "file")
        print_note(f"skipped {left_out} with no agent log, such as {shelf.left_out[0]}")
    with _progress_bar(shelf.size_bytes) as on_bytes:
        sessions = recorded_sessions(
            shelf, on_bytes, lambda problem: print_note(f"{problem}: read up to that point")
        )
        return [_replay_session(session, policies, now, gone=gone) for session in sessions]


def _replay_session(
    session: "RecordedSession", policies: Sequence[Policy], now: float | None, *, gone: bool
) -> ReplayedSession:
    # A case has its own time of judgement and the end of its process.
    until = session.now if session.now is not None else now
    stepper = Replay(policies, until=until)
    for events in session.batches:
        stepper.feed(events)
    is_gone = gone if session.gone is None else session.gone
    outcomes = stepper.finish(until, gone=is_gone, written=session.written)
    activity = stepper.activity
    folder = (activity.cwd or "").rstrip("/").rpartition("/")[2]
    project = activity.project or folder or session.project or session.format
    return ReplayedSession(
        session.id,
        session.format,
        project,
        stepper.events,
        stepper.began,
        tuple(outcomes),
        session.expect,
    )


@contextmanager
def _progress_bar(size_bytes: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere; it is removed at the end in every case."""
    if not sys.stderr.isatty():
        yield lambda _size: None
        return
    from rich.console import Console  # noqa: PLC0415 - costs as much as the rest of the command
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    columns = ("replaying", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size_bytes)
        yield lambda size: progress.advance(task, size)


def _time_of(text: str) -> float:
    try:
        if (seconds := _number_of(text)) is not None:
            return seconds
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError as problem:
        raise BadNowOption(shown=text[:40]) from problem


def _number_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _policy_of(path: str) -> Policy:
    """The policy of this file alone: the environment would make two files equal."""
    return combine([Document(path, read_file(path))], {"HOME": os.environ.get("HOME", "")}).config.detect


def _with_settings(policy: Policy, changes: Sequence[str]) -> Policy:
    """The policy with every `--set`, checked like a configuration."""
    values = dict(_parse_setting(change) for change in changes)
    return msgspec.structs.replace(policy, **values)


def _parse_setting(change: str) -> tuple[str, Any]:
    name, assigned, text = change.partition("=")
    shown = change[:60]
    if not assigned:
        raise BadSetOption(shown=shown, problem="write it as detect.silence_seconds=900")
    key = KEYS.get(name.strip())
    if key is None or not key.name.startswith(_SECTION):
        known = [each for each in KEYS if each.startswith(_SECTION)]
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."
        raise BadSetOption(shown=shown, problem=f"no such threshold. {hint}")
    try:
        value = msgspec.convert(text.strip(), key.kind, strict=False)
    except msgspec.ValidationError as problem:
        raise BadSetOption(shown=shown, problem=f"not {key.allowed}") from problem
    return key.name.removeprefix(_SECTION), value
