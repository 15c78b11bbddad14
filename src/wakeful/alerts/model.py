"""Alerts: kinds and texts, about sessions, incidents, queues, the disk and Wakeful itself. Pure.

Texts are plain and redacted line by line, so nothing that an agent wrote can look like a line of Wakeful.
Every alert about a problem has the same lines in the same order: what, where, since when, the action,
what happens until you act, one command. `alerts/pending.py` decides whether an alert is still to be sent.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from shlex import join
from typing import Final

from msgspec import Struct

from wakeful.core.clock import iso
from wakeful.core.ids import agent_of_member
from wakeful.core.labels import strip_mentions
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.incidents.model import (
    NO_ACTION,
    Cause,
    Incident,
    Member,
    MemberStatus,
    actions_text,
    counts_text,
    format_names,
    headline,
)
from wakeful.judging.findings import MEANINGS, FindingCode, Notice, WaitKind
from wakeful.judging.next_step import LOGINS
from wakeful.judging.session_record import FindingRecord, SessionRecord
from wakeful.judging.state_words import health_text
from wakeful.judging.waits import PROBABLY_ASKS
from wakeful.judging.wording import call_subject, readable_text

# The part of a message that a locked phone shows.
QUESTION_CHARS_MAX: Final = 140
LINE_CHARS_MAX: Final = 300
# People decide at a glance whether to get up; they do not read more lines.
LINES_MAX: Final = 8


class AlertKind(StrEnum):
    """Why an alert is sent. Each can be switched off."""

    NEEDS_YOU = "needs_you"
    FINISHED = "finished"
    TROUBLE = "trouble"


class AlertCode(StrEnum):
    """Codes to mute alerts that are about no finding, no cause of an incident and no problem of a queue."""

    JOURNAL = "journal"
    CHECKPOINT = "checkpoint"
    LEASE_ENDED = "lease_ended"
    ISSUES = "issues"
    GATEWAY = "gateway"
    DOWN = "down"
    DECISION = "decision"


class Topic(Struct, frozen=True):
    """The subject of an alert as people mute it: all its codes, and its project and session if it has them."""

    codes: tuple[str, ...] = ()
    project: str | None = None
    session_id: str | None = None


class DigestEntry(Struct, frozen=True):
    """An alert in a digest: name, project, finding or cause."""

    name: str
    project: str
    what: str


class Alert(Struct, frozen=True):
    """One message, sent once. Two alerts with the same `episode` are about the same thing."""

    kind: AlertKind
    episode: str
    text: str
    # A user's chat instead of the operator's channels: rather lost than repeated.
    chat: str | None = None
    # None if the caller has checked the mutes already.
    topic: Topic | None = None
    # Its entry in a digest; without one, the first line of the text.
    gist: DigestEntry | None = None
    # The number of alerts that this one replaces for lack of room; 0 for an alert of its own.
    stands_for: int = 0

    @property
    def ends_by_itself(self) -> bool:
        """Whether it is over after delivery; others wait for `resolve`. A message to a chat is never repeated."""
        return (self.kind is AlertKind.FINISHED or self.stands_for > 0) and self.chat is None


class AlertRules(Struct, frozen=True):
    """Which alerts the operator wants, and how often."""

    kinds: frozenset[AlertKind] = frozenset({AlertKind.NEEDS_YOU, AlertKind.TROUBLE})
    needs_you_seconds: float = 10.0
    cooldown_seconds: float = 3600.0

    def wants(self, alert: Alert) -> bool:
        return alert.chat is not None or alert.kind in self.kinds


class AttentionQuestion(Struct, frozen=True):
    """The reason why a session needs a person, and its time. `code` is set if the reason is a finding."""

    since: str
    words: str
    code: FindingCode | None = None
    # A guess, which no command of Wakeful can answer.
    probable: bool = False


def question_of(record: SessionRecord) -> AttentionQuestion | None:
    """The open question that a person must answer, else a finding that a person must fix, such as a lost login."""
    for wait in record.expected_waits:
        if wait.kind is WaitKind.PERSON:
            text = _question_text(wait.untrusted) or "it asks a question"
            text = f"{PROBABLY_ASKS}: {text}" if wait.probable else text
            return AttentionQuestion(wait.since, text, probable=wait.probable)
    for finding in record.findings:
        if MEANINGS[finding.code, record.state].notice is Notice.NEEDS_YOU:
            return AttentionQuestion(finding.since, _finding_text(finding), finding.code)
    return None


def needs_you_text(record: SessionRecord, question: AttentionQuestion) -> str:
    """The session, the question and the command to attach; without a pane to attach to, the command to answer."""
    is_answerable = question.code is None and not question.probable
    by_command = is_answerable and record.managed and not _has_action(record, "attach")
    return join_lines(
        f"{display_name(record)} needs you",
        _mark_foreign_line(_line(question.words, QUESTION_CHARS_MAX)),
        "Allow it with this command; `deny` refuses it:" if by_command else "",
        f"→ wakeful answer {record.id} allow" if by_command else _attach_line(record),
    )


def finished_text(record: SessionRecord) -> str:
    return join_lines(f"{display_name(record)} finished", _where(record), _attach_line(record))


def problem_text(
    record: SessionRecord,
    finding: FindingRecord | None = None,
    *,
    did: str = "",
    otherwise: str = "",
    mode: str = "",
    paused_by: str | None = None,
    command: str | None = None,
) -> str:
    """What, where, since when, the action and its outcome, what happens if no person acts, one command.

    `finding` is the session's first one unless another is given. `did` and `otherwise` come from the healer;
    without them the text says why nothing was done.
    """
    what = finding or next(iter(record.findings), None)
    return format_problem(
        what=f"{display_name(record)}: {_finding_text(what) if what is not None else health_text(record.health)}",
        where=_where(record),
        since=what.since if what is not None else record.updated_at,
        did=did or _no_action_reason(record, mode, paused_by),
        otherwise=otherwise or "it stays as it is",
        command=command or _session_command(record),
    )


def incident_text(incident: Incident) -> str:
    """One text for many sessions with one cause: which are still in it, what was done, how the others ended."""
    inside = [each for each in incident.members if each.is_in]
    return format_problem(
        what=f"{headline(incident)}: {counts_text(incident)}",
        where=format_names(inside or incident.members) or incident.scope,
        since=iso(incident.opened_at),
        did=actions_text(incident) or "no action: not yet",
        otherwise=_outlook(incident, inside),
        command=_incident_command(incident, inside),
    )


def format_problem(*, what: str, where: str, since: str, did: str, otherwise: str, command: str) -> str:
    """Every part of a message about a problem in its own line; `command` is empty if no command helps."""
    return join_lines(
        what,
        f"Where: {where}",
        f"Since: {format_time(since)}",
        _action_line(did),
        f"Until you act: {otherwise}",
        f"→ {command}" if command else "",
    )


def checkpoint_text(project: str, *, where: str, since: str, doubt: str, number: int) -> str:
    """The text about a program that was interrupted inside a step, which a person has to decide about."""
    return format_problem(
        what=f"{project} needs your decision: the program was interrupted in a step that may have taken effect",
        where=where,
        since=since,
        did=f"{NO_ACTION}this may have taken effect: {doubt}",
        otherwise="the program waits for your decision",
        command=f"wakeful checkpoint show {number}",
    )


def resolved_text(what: str, since: str, *, did: str = "", because: str = "", well: bool = True) -> str:
    """The end of a reported problem: what it was, since when, what Wakeful did, and what else ended it.

    Without `well` it did not recover: it is closed, not resolved.
    """
    return join_lines(
        f"{'Resolved' if well else 'Closed'}: {what}",
        f"Began: {format_time(since)}",
        _action_line(did) if did else "",
        f"Reason: {because}" if because else "",
    )


def _action_line(did: str) -> str:
    """`No action: why`, or the action."""
    return f"N{did[1:]}" if did.startswith(NO_ACTION) else f"Action: {did}"


def format_time(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def late_text(text: str, owed_at: float) -> str:
    """The text of a late alert, which begins with its time."""
    return f"(delayed alert from {format_time(iso(owed_at))})\n{text}"


def digest_entry_of(record: SessionRecord, what: str) -> DigestEntry:
    return DigestEntry(display_name(record), record.project, what)


def join_lines(*lines: str) -> str:
    """A message of these lines, each made plain, redacted and cut; empty ones are left out."""
    shown = [text for line in lines if (text := _line(line))]
    assert len(shown) <= LINES_MAX, "an alert is read at a glance"
    return "\n".join(shown)


def _line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    return strip_mentions(plain(redact(text), chars_max))


# The beginnings of Wakeful's own lines.
_OWN_LINE: Final = re.compile(
    r"(Wakeful|Where|Since|Action|No action|Until you act|Resolved|Closed|Reason|Began|PAUSED|Allow it|→"
    r"|\(delayed alert)\b|→",
    re.IGNORECASE,
)


def _mark_foreign_line(line: str) -> str:
    """Mark a line of an agent's text, so that it cannot pass for a line of Wakeful."""
    return f"It asks: {line}" if _OWN_LINE.match(line) else line


def display_name(record: SessionRecord) -> str:
    """Its own name or its agent's with its project, else the project."""
    name = record.name or record.agent
    if name and record.project not in {"", name}:
        return f"{name} ({record.project})"
    return name or record.project or record.id


def _where(record: SessionRecord) -> str:
    folder = f", {record.cwd}" if record.cwd else ""
    return f"{record.provider} session {record.id} on {record.host}{folder}"


def _finding_text(finding: FindingRecord) -> str:
    """The summary, and a quotation of the agent or its provider in backquotes."""
    text = next(filter(None, finding.untrusted), "")
    quotation = f": `{plain(readable_text(text), QUESTION_CHARS_MAX).replace('`', chr(39))}`" if text else ""
    return f"{finding.summary}{quotation} ({finding.code})"


# A client's question may name a call with its input: `permission prompt: Bash {"command": "make"}`.
_CALL: Final = re.compile(r"(?:(?P<what>.*?): )?(?P<tool>[^\s{}:]+) (?P<input>\{.*)", re.DOTALL)


def _question_text(text: str) -> str:
    """A client's question; if it names a call, with the tool and the subject of the call."""
    found = _CALL.fullmatch(text)
    subject = call_subject(found["input"]) if found is not None else ""
    if found is None or not subject:
        return readable_text(text)
    call = f"{found['tool']} `{subject.replace('`', chr(39))}`"
    return call if found["what"] in {None, "", subject} else f"{found['what']}: {call}"


def with_pause_line(text: str, paused_by: str) -> str:
    return f"{_line(f'PAUSED by {paused_by}: Wakeful takes no action until `wakeful unpause`')}\n{text}"


def _no_action_reason(record: SessionRecord, mode: str, paused_by: str | None) -> str:
    if paused_by is not None:
        return "no action: Wakeful is paused"
    if mode == "observe":
        return "no action: the mode is observe"
    if record.agent is not None:
        return f"no action: agent {record.agent} hosts it"
    return "no action: not yet" if record.managed or mode == "all" else "no action: not managed by Wakeful"


def _has_action(record: SessionRecord, name: str) -> bool:
    return any(action.name == name and action.allowed for action in record.actions)


def _session_command(record: SessionRecord) -> str:
    """The command for one session: attach to its agent, adopt it if it can be adopted, else show why."""
    if record.agent is not None:
        return f"wakeful attach {record.agent}"
    adopts = not record.managed and _has_action(record, "adopt")
    return f"wakeful {'adopt' if adopts else 'why'} {record.id}"


def _attach_line(record: SessionRecord) -> str:
    """The command that attaches to its agent or its pane; a session without a pane can only be shown."""
    if _has_action(record, "attach"):
        return f"→ wakeful attach {record.agent or record.id}"
    return f"→ wakeful why {record.id}"


def _outlook(incident: Incident, inside: Sequence[Member]) -> str:
    """The future of the sessions that are still in it if no person acts."""
    fates = {each.fate for each in inside}
    if not inside:
        return "nothing to do"
    if MemberStatus.HELD in fates:
        return "sessions that need your decision wait; the others continue"
    if MemberStatus.UNSEEN in fates:
        return "Wakeful checks again by itself"
    if incident.cause is Cause.USAGE_LIMIT and incident.until is not None:
        return "after the limit ends, Wakeful continues managed sessions once; the others wait for you"
    if fates <= {MemberStatus.LEFT_ALONE}:
        verb, rest = _LEFT_ALONE_TEXTS.get(incident.cause, ("need", "your attention"))
        return f"they {verb} {rest}" if len(inside) > 1 else f"it {verb}s {rest}"
    if MemberStatus.GIVEN_UP in fates:
        return "sessions that Wakeful gave up stay as they are"
    return "Wakeful continues; it gives up sessions that fail again"


_LEFT_ALONE_TEXTS: Final[Mapping[Cause, tuple[str, str]]] = {
    Cause.AUTH: ("wait", "until you log in"),
    Cause.USAGE_LIMIT: ("wait", "until the limit ends; the time is unknown"),
    Cause.TMUX_SERVER: ("stay", "closed"),
    Cause.REBOOT: ("stay", "closed"),
}
_LOST_CAUSES: Final = frozenset({Cause.TMUX_SERVER, Cause.REBOOT})


def _incident_command(incident: Incident, inside: Sequence[Member]) -> str:
    """The one command that helps the sessions that are still in it."""
    fates = {each.fate for each in inside}
    if MemberStatus.HELD in fates:
        return "wakeful checkpoint list"
    if inside and incident.cause is Cause.AUTH and incident.scope in LOGINS:
        return join(LOGINS[incident.scope])
    if MemberStatus.UNSEEN in fates:
        return "wakeful services"
    left = [each for each in inside if each.fate in {MemberStatus.LEFT_ALONE, MemberStatus.GIVEN_UP}]
    if incident.cause in _LOST_CAUSES and left:
        return _restore_command(left)
    return "wakeful incidents" if inside else "wakeful incidents --all"


def _restore_command(left: Sequence[Member]) -> str:
    """One command restores all sessions; attaching to an agent without a session starts one."""
    agents = [name for each in left if (name := agent_of_member(each.id)) is not None]
    if len(agents) < len(left):
        return "wakeful resume --all"
    return f"wakeful attach {agents[0]}" if len(agents) == 1 else "wakeful services"


class AlertBody(Struct, frozen=True, kw_only=True):
    """The parts of an alert. Without a `command` there is nothing to type."""

    what: str
    where: str
    since: float
    did: str
    otherwise: str
    command: str = ""

    def __post_init__(self) -> None:
        lines = (self.what, self.where, self.did, self.otherwise)
        assert all(each.strip() for each in lines), "an alert about a problem has all its lines"


def format_alert(body: AlertBody) -> str:
    """The text as sent: plain and redacted line by line, so that no outside text looks like a line of Wakeful."""
    return format_problem(
        what=body.what,
        where=body.where,
        since=iso(body.since),
        did=body.did,
        otherwise=body.otherwise,
        command=body.command,
    )


def issue_tracker_alert(problem: str, host: str, since: float, *, did: str) -> AlertBody:
    return AlertBody(
        what=f"Issue not filed: {problem}",
        where=f"`gh` on {host}",
        since=since,
        did=did,
        otherwise="problems are not filed as issues; everything else continues",
        command="gh auth status",
    )


def refused_decision_alert(asker: str, order: str, reason: str, command: str, since: float) -> AlertBody:
    """`command` is the command line of the process that asked."""
    return AlertBody(
        what=f"Decision refused: requested by {asker}",
        where=f"`{command}`" if command else "a process that has ended or is not visible",
        since=since,
        did=f"refused {order} ({reason}); this alert comes once a day per requester",
        otherwise="nothing happens; if you want it, decide it yourself",
        command="wakeful status",
    )


def failed_part_alert(name: str, reason: str, host: str, since: float) -> AlertBody:
    return AlertBody(
        what=f"Part of Wakeful is down: {name}",
        where=f"wakeful on {host} ({reason})",
        since=since,
        did="retries after 1 to 60 s; everything else continues",
        otherwise="its data or actions may be missing",
        command="wakeful doctor",
    )
