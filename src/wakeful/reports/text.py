"""Formats the report for terminals and chats, and parses times such as `24h`, `22:00` or ISO 8601.

Figures come first, then sessions, those that need a person at the top. The terminal version has columns; the
chat version fits one message.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.core.durations import BadDuration, age, parse_duration
from wakeful.core.errors import OperatorError
from wakeful.core.ids import abbreviate_ids
from wakeful.core.text import plain
from wakeful.incidents.critical_event import wall_of_stamp
from wakeful.judging.state_words import state_health_text
from wakeful.judging.wording import call_text, format_length
from wakeful.reports.model import (
    GitChanges,
    Report,
    ReportSection,
    ReportTotals,
    SessionReport,
    needs_you_text,
)

# A message has 4,096 of Telegram's units, and a character has two at most in ours.
CHAT_CHARS_MAX: Final = 2000
NO_SESSIONS: Final = "No sessions were active."
# The same marks as in the list of sessions.
MARKS: Final = {
    ReportSection.WAITING: "◆",
    ReportSection.CHECKPOINT_OPEN: "◆",
    ReportSection.DIED: "✗",
    ReportSection.PROBLEM: "✗",
    ReportSection.REVIVED: "↻",
    ReportSection.FINISHED: "✓",
    ReportSection.WORKING: "●",
    ReportSection.QUIET: "○",
}
# The other sections are called as in JSON.
HEADINGS: Final = {
    ReportSection.WAITING: "waiting for you",
    ReportSection.CHECKPOINT_OPEN: "needs your decision",
    ReportSection.PROBLEM: "problem",
    ReportSection.REVIVED: "resumed",
    ReportSection.WORKING: "running",
}
_PROJECT_CHARS_MAX: Final = 24
_NAME_CHARS_MAX: Final = 40


def chat_text(report: Report) -> str:
    """One message, sessions that need you first; it says what did not fit."""
    since_wall, now_wall = (datetime.fromisoformat(each).timestamp() for each in (report.since, report.until))
    heading = f"The last {format_length(now_wall - since_wall)}"
    lines = [line.strip() for line in report_lines(report, heading, now_wall, in_columns=False)]
    kept: list[str] = []
    chars_left = CHAT_CHARS_MAX
    for number, line in enumerate(lines):
        chars_left -= len(line) + 1
        if chars_left < 0:
            return "\n".join([*kept, f"… {len(lines) - number} more lines: `wakeful report` on the host"])
        kept.append(line)
    return "\n".join(kept)


def report_lines(report: Report, heading: str, now_wall: float, *, in_columns: bool = True) -> Iterator[str]:
    yield from pause_lines(report.paused)
    yield heading
    if not report.sessions:
        yield NO_SESSIONS
        return
    yield f"  {sessions_text(report)}"
    yield f"  {work_text(report.totals)}"
    ids = abbreviate_ids(str(each.id) for each in report.sessions)
    called = {each.id: _called(each, ids[each.id]) for each in report.sessions}
    width = max(map(len, called.values())) if in_columns else 0
    for part in ReportSection:
        alike = [each for each in report.sessions if each.part is part]
        if alike:
            yield ""
            yield f"{MARKS[part]} {HEADINGS.get(part, part)}"
        for each in alike:
            yield from _session(each, called[each.id], width, now_wall)
    if report.left_out:
        yield f"and {report.left_out:,} more, included in the totals above"


def sessions_text(report: Report) -> str:
    """`3 need you, 5 finished a turn (1 without changes, 2 under other headings), 4 died, 1 resumed`."""
    totals = report.totals
    notes = [f"{totals.unchanged:,} without changes"] if totals.unchanged else []
    # A session has one heading: one that finished a turn and runs again, waits or died is not under `finished`.
    listed = (each for each in report.sessions if each.part is not ReportSection.FINISHED)
    if elsewhere := sum(each.finished > 0 for each in listed):
        notes.append(f"{elsewhere:,} under other headings")
    about = f" ({', '.join(notes)})" if notes else ""
    needing = [needs_you_text(totals.needs_you)] if totals.needs_you else []
    return ", ".join(
        [
            *needing,
            f"{totals.finished:,} finished a turn{about}",
            f"{totals.died:,} died",
            f"{totals.revived:,} resumed",
        ]
    )


def work_text(totals: ReportTotals) -> str:
    """`7 commits, 12 changed files, 3 commits not pushed · 4.1M tokens, $12.40 at your prices`."""
    left = f", {_count(totals.unpushed_commits, 'commit')} not pushed" if totals.unpushed_commits else ""
    money = f", ${totals.cost_usd:,.2f} at your prices" if totals.cost_usd is not None else ""
    tokens = totals.input_tokens + totals.output_tokens
    return (
        f"{_count(totals.commits, 'commit')}, {_count(totals.changed_files, 'changed file')}{left}"
        f" · {_short_count(tokens)} tokens{money}"
    )


def _session(session: SessionReport, called: str, width: int, now_wall: float) -> Iterator[str]:
    yield f"  {called:<{width}}  {_status_text(session, now_wall)}"
    did = _results_text(session)
    if did:
        yield f"  {'':<{width}}  {did}"
    if session.folder is not None:
        for commit in session.folder.newest_commits:
            yield f"  {'':<{width}}    {commit.id} {plain(commit.untrusted, 80)}"
    if session.held is not None:
        yield f"  {'':<{width}}  → wakeful checkpoint show {session.held}"


def _status_text(session: SessionReport, now_wall: float) -> str:
    about = plain(call_text(session.untrusted), 100) if session.untrusted else ""
    since = session.since
    ago = age(now_wall - datetime.fromisoformat(since).timestamp()) if since is not None else ""
    if session.part is ReportSection.WAITING:
        words = session.words or "asks you"
        return " · ".join(each for each in (words, about, f"for {ago}" if ago else "") if each)
    if session.part in {
        ReportSection.DIED,
        ReportSection.PROBLEM,
        ReportSection.CHECKPOINT_OPEN,
        ReportSection.REVIVED,
    }:
        said = session.words or state_health_text(session.state, session.health)
        return " · ".join(each for each in (plain(said), about, f"{ago} ago" if ago else "") if each)
    if session.part is ReportSection.WORKING:
        return f"running{f' · {about}' if about else ''}"
    turns = _count(session.finished, "turn") if session.finished else "no turn finished"
    return f"{turns}, the last {ago} ago" if session.finished and ago else turns


def _results_text(session: SessionReport) -> str:
    """The results in git, and the usage."""
    parts = [*_folder_parts(session.folder, unchanged=session.unchanged)]
    if session.shared_with:
        parts.append(f"shared with {_count(session.shared_with, 'other session')}")
    spent = session.spent
    if spent is not None and spent.input_tokens + spent.output_tokens:
        least = "" if spent.whole else "at least "
        money = f" (${session.cost_usd:,.2f})" if session.cost_usd is not None else ""
        parts.append(f"{least}{_short_count(spent.input_tokens + spent.output_tokens)} tokens{money}")
    return " · ".join(parts)


def _folder_parts(folder: GitChanges | None, *, unchanged: bool) -> Iterator[str]:
    if folder is None:
        return
    if folder.problem:
        yield folder.problem
        return
    if unchanged:
        yield "finished without changes in its folder"
    elif folder.commits or folder.touched_files:
        yield f"{_count(folder.commits, 'commit')}, {_count(folder.changed_files, 'changed file')}"
    elif folder.changed_files:
        yield f"nothing new, {_count(folder.changed_files, 'changed file')} from before"
    if folder.unpushed_commits:
        files = f" ({_count(folder.unpushed_files or 0, 'file')})"
        yield f"{_count(folder.unpushed_commits, 'commit')} not pushed{files}"


def _called(session: SessionReport, short_id: str) -> str:
    """Its name as in lists, and its project where that is another word."""
    name = plain(session.short_name or session.name or session.project, _NAME_CHARS_MAX) or short_id
    project = plain(session.project, _PROJECT_CHARS_MAX)
    return f"{name} ({project})" if project and not name.startswith(project) else name


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _short_count(tokens: int) -> str:
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1000:,.0f}k" if tokens < 1_000_000 else f"{tokens / 1e6:,.1f}M"


# Forty years: no log is older, and the moment is still one after 1970.
AGO_SECONDS_MAX: Final = 40 * 365 * 86_400.0
_TIME_OF_DAY: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
# As the heading of a report says it.
_DAY: Final = re.compile(rf"(today|yesterday)(?: {_TIME_OF_DAY.pattern})?")


class BadMoment(OperatorError, code="bad-moment"):
    """Invalid time {shown!r}: use 30m, 24h, 7d, 22:00, today, yesterday or ISO 8601 like 2026-02-05T10:00:00Z."""


def parse_moment(text: str, now_wall: float) -> float:
    """The epoch seconds of such a moment; a time of day is the last one of this host's clock. Raises BadMoment."""
    if (found := _TIME_OF_DAY.fullmatch(text)) is not None:
        return _last_time_of_day(int(found[1]), int(found[2]), now_wall)
    if (found := _DAY.fullmatch(text)) is not None:
        days_ago = 1 if found[1] == "yesterday" else 0
        return _time_of_day(int(found[2] or 0), int(found[3] or 0), now_wall, days_ago=days_ago)
    try:
        return now_wall - parse_duration(text, AGO_SECONDS_MAX)
    except BadDuration as problem:
        wall = wall_of_stamp(text)
        if wall is None:
            raise BadMoment(shown=text[:40]) from problem
        return wall


def _last_time_of_day(hour: int, minute: int, now_wall: float) -> float:
    today = _time_of_day(hour, minute, now_wall)
    return today if today <= now_wall else _time_of_day(hour, minute, now_wall, days_ago=1)


def _time_of_day(hour: int, minute: int, now_wall: float, *, days_ago: int = 0) -> float:
    """By the clock on the wall, also over the night in which it is set."""
    here = datetime.fromtimestamp(now_wall, UTC).astimezone().replace(tzinfo=None)
    then = here.replace(hour=hour, minute=minute, second=0, microsecond=0) - timedelta(days=days_ago)
    return then.timestamp()
