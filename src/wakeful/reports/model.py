"""The report of a period: sessions that finished, wait, died, were resumed or need a decision. Pure.

It is made from records, counted transitions, incidents, checkpoints and results of git, and includes changes
in the working folders and spending. Text of an agent is only under keys named `untrusted`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.incidents.model import Incident, Member, MemberStatus, member_text
from wakeful.judging.findings import NEEDS_YOU, Attention, Health, State
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.thresholds import Policy
from wakeful.storage.base import FinishedTurns, TransitionCount

SCHEMA: Final = 1
# Enough for a night; the totals count the others.
SESSIONS_MAX: Final = 200


class Commit(Struct, frozen=True):
    """`untrusted` is its subject."""

    id: str
    at: str
    untrusted: str


class GitChanges(Struct, frozen=True):
    """Changes that git shows in a working folder; with a `problem` they are unknown.

    `touched_files` of the `changed_files` were written since the given time. Without a known remote the unpushed
    figures are null.
    """

    root: str
    commits: int = 0
    newest_commits: tuple[Commit, ...] = ()
    changed_files: int = 0
    touched_files: int = 0
    unpushed_commits: int | None = None
    unpushed_files: int | None = None
    problem: str = ""

    @property
    def is_unchanged(self) -> bool:
        return not self.problem and not self.commits and not self.touched_files


class TokenUsage(Struct, frozen=True):
    """Tokens since that time. Not `whole`: at least so many, because only the end of the log was read."""

    input_tokens: int
    output_tokens: int
    whole: bool


class ReportSection(StrEnum):
    """The sections of the report, in order of urgency."""

    WAITING = "waiting"
    CHECKPOINT_OPEN = "held"
    DIED = "died"
    PROBLEM = "trouble"
    REVIVED = "revived"
    FINISHED = "finished"
    WORKING = "working"
    QUIET = "quiet"


class ReportInput(Struct, frozen=True):
    """The facts about one session. `folder` is its working folder on this host, if it has one here."""

    record: SessionRecord
    # The end of its newest turn that ended well.
    turn_ended_at: float | None = None
    folder: str | None = None
    spent: TokenUsage | None = None


class SessionReport(Struct, frozen=True):
    """One session. `finished` turns since then; `unchanged`: it finished, and git shows nothing new in its folder.

    `words` is Wakeful's action or the problem, `untrusted` the question or the work. `shared_with` other sessions of
    this report work in the same folder and have the same figures.
    """

    id: SessionId
    name: str | None
    project: str
    provider: str
    managed: bool
    part: ReportSection
    state: State
    health: Health
    attention: Attention
    since: str | None
    finished: int
    died: int
    revived: bool
    held: int | None
    unchanged: bool
    words: str
    spent: TokenUsage | None
    cost_usd: float | None
    folder: GitChanges | None
    shared_with: int
    untrusted: str
    short_name: str = ""


class ReportTotals(Struct, frozen=True):
    """Each session counts once in every figure that applies to it; each folder counts once."""

    sessions: int
    finished: int
    unchanged: int
    waiting: int
    died: int
    revived: int
    held: int
    turns: int
    commits: int
    changed_files: int
    unpushed_commits: int
    unpushed_files: int
    input_tokens: int
    output_tokens: int
    # By the configured prices; null without prices.
    cost_usd: float | None
    # Open problems that none of the figures above counts.
    trouble: int = 0
    # Sessions that wait, are held, dead or have a problem now, each once: those that `wakeful ls` counts, and the held.
    needs_you: int = 0


class Report(Struct, frozen=True):
    """Since `since`. `left_out` sessions are counted and not listed; `line` fits into a status bar."""

    schema: int
    since: str
    until: str
    line: str
    totals: ReportTotals
    sessions: tuple[SessionReport, ...]
    left_out: int
    notes: tuple[str, ...]
    paused: PauseRecord | None


class ReportHistory(Struct, frozen=True):
    """Stored facts since `since`: transitions and finished turns by session, incidents, and open checkpoints."""

    since: float
    moves: Mapping[SessionId, Sequence[TransitionCount]]
    incidents: Sequence[Incident]
    held: Mapping[str, int]
    finished: Mapping[SessionId, FinishedTurns] = {}


_NEEDS_PERSON: Final = frozenset({Attention.PERSON, Attention.LOGIN})


def belongs_in_report(record: SessionRecord, history: ReportHistory, *, listed: bool = True) -> bool:
    """Whether a session belongs in the report: it was active since, or a person has to act now.

    `listed`: lists show it, so the report counts the same problems.
    """
    if record.attention in _NEEDS_PERSON or record.id in history.held:
        return True
    if listed and record.attention in NEEDS_YOU:
        return True
    last = _wall(record.last_activity_at)
    return last is not None and last >= history.since


def make_report(
    accounts: Sequence[ReportInput],
    history: ReportHistory,
    folders: Mapping[str, GitChanges],
    policy: Policy,
    now_wall: float,
    *,
    paused: PauseRecord | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """The report of these sessions; those that need a person come first."""
    revivals = _revivals(history)
    roots = [folders.get(each.folder) if each.folder is not None else None for each in accounts]
    shared = Counter(folder.root for folder in roots if folder is not None and not folder.problem)
    sessions = [
        _session(facts, history, revivals, folder, shared, policy)
        for facts, folder in zip(accounts, roots, strict=True)
    ]
    order = tuple(ReportSection)
    sessions.sort(
        key=lambda each: (
            order.index(each.part),
            # A question is answered one by one; a refused login concerns all sessions of a provider.
            each.attention is not Attention.PERSON,
            -(_wall(each.since) or 0.0),
            each.id,
        )
    )
    totals = _totals(sessions, {each.root: each for each in roots if each is not None})
    return Report(
        schema=SCHEMA,
        since=iso(history.since),
        until=iso(now_wall),
        line=status_line_of(totals, paused=paused is not None),
        totals=totals,
        sessions=tuple(sessions[:SESSIONS_MAX]),
        left_out=max(0, len(sessions) - SESSIONS_MAX),
        notes=tuple(notes),
        paused=paused,
    )


def status_line_of(totals: ReportTotals, *, paused: bool) -> str:
    """One line for a status bar: sessions that need you first, or that none does."""
    parts = [
        f"{count} {word}"
        for count, word in (
            (totals.died, "died"),
            (totals.revived, "resumed"),
            (totals.finished, "finished"),
        )
        if count
    ]
    needing = [needs_you_text(totals.needs_you)] if totals.needs_you else []
    calm = [] if totals.needs_you or totals.died else ["all well"]
    return " · ".join([*(["PAUSED"] if paused else []), *needing, *calm, *parts])


def needs_you_text(count: int) -> str:
    return f"{count:,} need{'s' if count == 1 else ''} you"


def _session(
    facts: ReportInput,
    history: ReportHistory,
    revivals: Mapping[SessionId, str],
    folder: GitChanges | None,
    shared: Mapping[str, int],
    policy: Policy,
) -> SessionReport:
    record = facts.record
    moves = history.moves.get(record.id, ())
    finished = _count_finished(facts, history.finished.get(record.id), history.since)
    died = _count_deaths(record, moves, history.since)
    held = history.held.get(record.id)
    revived = record.id in revivals
    part = _section_of(record, held=held is not None, revived=revived, finished=finished)
    finding = record.findings[0] if record.findings else None
    wait = record.expected_waits[0] if record.expected_waits else None
    return SessionReport(
        id=record.id,
        name=record.name,
        project=record.project,
        provider=record.provider,
        managed=record.managed,
        part=part,
        state=record.state,
        health=record.health,
        attention=record.attention,
        since=finding.since if finding else wait.since if wait else record.last_activity_at,
        finished=finished,
        died=died,
        revived=revived,
        held=held,
        unchanged=bool(finished) and folder is not None and folder.is_unchanged,
        words=revivals.get(record.id, "") or (finding.summary if finding else ""),
        spent=facts.spent,
        cost_usd=_cost(facts.spent, policy),
        folder=folder,
        shared_with=shared.get(folder.root, 1) - 1 if folder is not None else 0,
        untrusted=next(iter(finding.untrusted), "") if finding else wait.untrusted if wait else "",
        short_name=record.short_name,
    )


def _section_of(record: SessionRecord, *, held: bool, revived: bool, finished: int) -> ReportSection:
    if record.attention in _NEEDS_PERSON:
        return ReportSection.WAITING
    if held:
        return ReportSection.CHECKPOINT_OPEN
    if record.health is Health.DEAD:
        return ReportSection.DIED
    if record.attention is Attention.OPERATOR:
        return ReportSection.PROBLEM
    if revived:
        return ReportSection.REVIVED
    if finished and not record.active_prompt:
        return ReportSection.FINISHED
    return ReportSection.WORKING if record.active_prompt else ReportSection.QUIET


def _count_finished(facts: ReportInput, known: FinishedTurns | None, since: float) -> int:
    """Turns that ended well: the stored ones, and the newest one if no transition has it yet."""
    newest = facts.turn_ended_at
    is_news = newest is not None and newest >= since and (known is None or newest > known.newest_at)
    return (known.count if known is not None else 0) + is_news


def _count_deaths(record: SessionRecord, moves: Sequence[TransitionCount], since: float) -> int:
    deaths = [each for each in moves if each.health == Health.DEAD != each.old_health and each.old_health]
    # A resume that failed is no second death.
    failed_starts = sum(each.count for each in deaths if each.old_state == State.STARTING)
    resumes = sum(
        each.count for each in moves if each.old_health == Health.DEAD and each.state == State.STARTING
    )
    counted = sum(each.count for each in deaths) - min(failed_starts, resumes)
    seen = record.findings[0].since if record.health is Health.DEAD and record.findings else None
    found = _wall(seen)
    return max(counted, int(found is not None and found >= since))


def _revivals(history: ReportHistory) -> dict[SessionId, str]:
    """Sessions that were resumed since then, and the outcome: one may have been given up after that."""
    return {
        member.id: member_text(member)
        for incident in history.incidents
        for member in incident.members
        if _is_revived(member, incident, history.since)
    }


def _is_revived(member: Member, incident: Incident, since: float) -> bool:
    if member.revived_at is not None and member.revived_at >= since:
        return True
    is_recent = incident.updated_at >= since and (member.left_at is None or member.left_at >= since)
    return member.fate is MemberStatus.REVIVED and is_recent


def _cost(spent: TokenUsage | None, policy: Policy) -> float | None:
    prices = (policy.input_usd_per_million, policy.output_usd_per_million)
    if spent is None or not any(prices):
        return None
    return round((spent.input_tokens * prices[0] + spent.output_tokens * prices[1]) / 1e6, 4)


def _totals(sessions: Sequence[SessionReport], folders: Mapping[str, GitChanges]) -> ReportTotals:
    costs = [each.cost_usd for each in sessions if each.cost_usd is not None]
    return ReportTotals(
        sessions=len(sessions),
        finished=sum(each.finished > 0 for each in sessions),
        unchanged=sum(each.unchanged for each in sessions),
        waiting=sum(each.part is ReportSection.WAITING for each in sessions),
        died=sum(each.died > 0 for each in sessions),
        revived=sum(each.revived for each in sessions),
        held=sum(each.held is not None for each in sessions),
        turns=sum(each.finished for each in sessions),
        commits=sum(each.commits for each in folders.values()),
        changed_files=sum(each.changed_files for each in folders.values()),
        unpushed_commits=sum(each.unpushed_commits or 0 for each in folders.values()),
        unpushed_files=sum(each.unpushed_files or 0 for each in folders.values()),
        input_tokens=sum(each.spent.input_tokens for each in sessions if each.spent is not None),
        output_tokens=sum(each.spent.output_tokens for each in sessions if each.spent is not None),
        cost_usd=round(sum(costs), 2) if costs else None,
        trouble=sum(_is_open_problem(each) for each in sessions),
        needs_you=sum(each.attention in NEEDS_YOU or each.held is not None for each in sessions),
    )


def _is_open_problem(session: SessionReport) -> bool:
    """An open problem that is not already counted: it does not wait, is not held, and is not the death since then."""
    is_death = session.died > 0 and session.health is Health.DEAD
    counted = session.part is ReportSection.WAITING or session.held is not None or is_death
    return session.attention in NEEDS_YOU and not counted


def _wall(stamp: str | None) -> float | None:
    return datetime.fromisoformat(stamp).timestamp() if stamp is not None else None
