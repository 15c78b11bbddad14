"""The report of a period: sessions that finished, wait, died, were resumed or need a decision. Pure.

It is made from records, counted transitions, incidents, checkpoints and results of git, and includes changes
in the working folders and spending. Text of an agent is only under keys named `untrusted`.
"""

from collections.abc import Iterable, Mapping, Sequence
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
# What anybody reads of a night; the totals count the others.
SESSIONS_MAX: Final = 200


class Commit(Struct, frozen=True):
    """`untrusted` is its subject."""

    id: str
    at: str
    untrusted: str


class GitChanges(Struct, frozen=True):
    """What git says of a working folder; with a `problem` it says nothing, and nobody knows whether anything changed.

    `touched_files` of the `changed_files` were written since the moment asked about. Nothing is known of what was pushed
    where no remote is known: null.
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
    """Tokens since that moment; not `whole`: at least so many, the log is longer than what was read of it."""

    input_tokens: int
    output_tokens: int
    whole: bool


class ReportSection(StrEnum):
    """Where a session belongs in the report: what a person should see first comes first."""

    WAITING = "waiting"
    CHECKPOINT_OPEN = "held"
    DIED = "died"
    PROBLEM = "trouble"
    REVIVED = "revived"
    FINISHED = "finished"
    WORKING = "working"
    QUIET = "quiet"


class ReportInput(Struct, frozen=True):
    """One session as the report is made from it. `folder` is the place of its work on this host, if it has one here."""

    record: SessionRecord
    # When its newest turn that ended well did, as far as it is known now.
    turn_ended_at: float | None = None
    folder: str | None = None
    spent: TokenUsage | None = None


class SessionReport(Struct, frozen=True):
    """One session. `finished` turns since then; `unchanged`: it finished, and git sees nothing new in its folder.

    `words` is what Wakeful did about it or what is wrong, `untrusted` what it asks or was doing. `shared_with` others of
    this report work in the same folder, so that its figures are theirs, too.
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


class ReportTotals(Struct, frozen=True):
    """Sessions, each counted once in every figure that is true of it; folders count once, whoever works in them."""

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
    # By the prices configured; null where nobody said what a token costs.
    cost_usd: float | None
    # Open problems that none of the figures above counts.
    trouble: int = 0
    # Everybody who waits, is held, is dead or is in trouble now, each once: those whom `wakeful ls` counts, and the held.
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
    """What is remembered of the time since `since`: by session its moves and the turns that ended well, incidents, and who
    is held by which checkpoint."""

    since: float
    moves: Mapping[SessionId, Sequence[TransitionCount]]
    incidents: Sequence[Incident]
    held: Mapping[str, int]
    finished: Mapping[SessionId, FinishedTurns] = {}


_NEEDS_PERSON: Final = frozenset({Attention.PERSON, Attention.LOGIN})


def belongs_in_report(record: SessionRecord, history: ReportHistory, *, listed: bool = True) -> bool:
    """Whether a session belongs into the report: it was heard since, or somebody has to see to it now.

    `listed`: lists show it, so that whatever they count as a problem is counted here.
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
    """The report of these sessions, who needs a person first."""
    revivals = _revivals(history)
    roots = [_folder(each, folders) for each in accounts]
    shared = _count_by_root(folder.root for folder in roots if folder is not None and not folder.problem)
    sessions = [
        _session(facts, history, revivals, folder, shared, policy)
        for facts, folder in zip(accounts, roots, strict=True)
    ]
    sessions.sort(key=_order)
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
    """One line for a status bar: who needs you first, and a word when nobody does."""
    parts = [
        f"{count} {word}"
        for count, word in (
            (totals.died, "died"),
            (totals.revived, "revived"),
            (totals.finished, "finished"),
        )
        if count
    ]
    needing = [needs_you_text(totals.needs_you)] if totals.needs_you else []
    calm = [] if totals.needs_you or totals.died else ["all well"]
    return " · ".join([*(["PAUSED"] if paused else []), *needing, *calm, *parts])


def needs_you_text(count: int) -> str:
    """`2 need you`."""
    return f"{count} need{'s' if count == 1 else ''} you"


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
        untrusted=_question_text(record),
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
    """Turns that ended well: the stored ones, and the newest one where no transition tells of it yet."""
    newest = facts.turn_ended_at
    is_news = newest is not None and newest >= since and (known is None or newest > known.newest_at)
    return (known.count if known is not None else 0) + is_news


def _count_deaths(record: SessionRecord, moves: Sequence[TransitionCount], since: float) -> int:
    counted = sum(
        each.count for each in moves if each.health == Health.DEAD != each.old_health and each.old_health
    )
    seen = record.findings[0].since if record.health is Health.DEAD and record.findings else None
    found = _wall(seen)
    return max(counted, int(found is not None and found >= since))


def _revivals(history: ReportHistory) -> dict[SessionId, str]:
    """Who was brought back since then, and what became of it: it may have been given up after that."""
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


def _question_text(record: SessionRecord) -> str:
    if record.findings:
        return next(iter(record.findings[0].untrusted), "")
    return record.expected_waits[0].untrusted if record.expected_waits else ""


def _folder(facts: ReportInput, folders: Mapping[str, GitChanges]) -> GitChanges | None:
    return folders.get(facts.folder) if facts.folder is not None else None


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


_SECTION_ORDER: Final = tuple(ReportSection)


def _order(session: SessionReport) -> tuple[int, float, str]:
    return _SECTION_ORDER.index(session.part), -(_wall(session.since) or 0.0), session.id


def _count_by_root(roots: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for root in roots:
        counts[root] = counts.get(root, 0) + 1
    return counts


def _wall(stamp: str | None) -> float | None:
    return datetime.fromisoformat(stamp).timestamp() if stamp is not None else None
