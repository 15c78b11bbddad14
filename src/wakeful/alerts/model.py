"""Alerts: kinds and texts, about sessions, incidents, queues, the disk and Wakeful itself. Pure.

Texts are plain and redacted line by line, so nothing that an agent wrote can look like a line of Wakeful.
Every alert about a problem has the same lines in the same order: what, where, since when, what Wakeful did,
what happens otherwise, one command. `alerts/pending.py` decides whether an alert is still to be sent.
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
    """Subjects of alerts that are neither a finding, nor a cause, nor a queue problem: the code to mute it by."""

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
    """An alert in three words, for a digest: name, project, finding or cause."""

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
    """What a session needs a person for, since when, and in words; `code` if a finding asks."""

    since: str
    words: str
    code: FindingCode | None = None
    # A guess, which no command of Wakeful can answer.
    probable: bool = False


def question_of(record: SessionRecord) -> AttentionQuestion | None:
    """What a person has to answer or fix, if anything: an open question first, then a finding such as a lost login."""
    for wait in record.expected_waits:
        if wait.kind is WaitKind.PERSON:
            words = _question_text(wait.untrusted) or "a question is open"
            told = f"{PROBABLY_ASKS}: {words}" if wait.probable else words
            return AttentionQuestion(wait.since, told, probable=wait.probable)
    for finding in record.findings:
        if MEANINGS[finding.code, record.state].notice is Notice.NEEDS_YOU:
            return AttentionQuestion(finding.since, _finding_text(finding), finding.code)
    return None


def needs_you_text(record: SessionRecord, question: AttentionQuestion) -> str:
    """Project, question and how to get there; if there is no place to go, how to answer from here."""
    asked = question.code is None and not question.probable
    answers = asked and record.managed and not _has_action(record, "attach")
    return join_lines(
        f"{display_name(record)} needs you",
        _mark_foreign_line(_line(question.words, QUESTION_CHARS_MAX)),
        "Say yes like this, no with `deny`:" if answers else "",
        f"→ wakeful session answer {record.id} allow" if answers else _attach_line(record),
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
    """What, where, since when, what Wakeful did and its outcome, what happens if no person acts, one command.

    `finding` is the session's first one unless another is given. `did` and `otherwise` are the healer's words;
    without them the text says why nothing was done.
    """
    what = finding or next(iter(record.findings), None)
    return format_problem(
        what=f"{display_name(record)}: {_finding_text(what) if what is not None else record.health}",
        where=_where(record),
        since=what.since if what is not None else record.updated_at,
        did=did or _no_action_reason(record, mode, paused_by),
        otherwise=otherwise or "it stays as it is",
        command=command or _session_command(record),
    )


def incident_text(told: Incident) -> str:
    """One text for many sessions with one cause: which are still in it, what was done, how the others ended."""
    inside = [each for each in told.members if each.is_in]
    return format_problem(
        what=f"{headline(told)}: {counts_text(told)}",
        where=format_names(inside or told.members) or told.scope,
        since=iso(told.opened_at),
        did=actions_text(told) or "nothing yet",
        otherwise=_outlook(told, inside),
        command=_incident_command(told, inside),
    )


def format_problem(*, what: str, where: str, since: str, did: str, otherwise: str, command: str) -> str:
    """Every part of a message about a problem in its own line; `command` is empty if no command helps."""
    return join_lines(
        what,
        f"Where: {where}",
        f"Since: {format_time(since)}",
        f"Wakeful did: {did}",
        f"If you do nothing: {otherwise}",
        f"→ {command}" if command else "",
    )


def checkpoint_text(project: str, *, where: str, since: str, doubt: str, number: int) -> str:
    """A program was interrupted inside a step, and a person has to decide."""
    return format_problem(
        what=f"{project} needs you: it was cut off, and what may have happened is not repeated",
        where=where,
        since=since,
        did=f"held it, for this may have happened: {doubt}",
        otherwise="it waits until somebody decides",
        command=f"wakeful checkpoint show {number}",
    )


def resolved_text(what: str, since: str, *, did: str = "", because: str = "", well: bool = True) -> str:
    """The end of a reported problem: what it was, since when, what Wakeful did, and what else ended it.

    Without `well` it did not recover: it is closed, not resolved.
    """
    return join_lines(
        f"{'Resolved' if well else 'Closed'}: {what}",
        f"It began at {format_time(since)}",
        f"Wakeful did: {did}" if did else "",
        f"Over: {because}" if because else "",
    )


def format_time(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def late_text(text: str, owed_at: float) -> str:
    """The text of an alert that comes late, so that it is not taken for news."""
    return f"(from {format_time(iso(owed_at))}, not told before)\n{text}"


def digest_entry_of(record: SessionRecord, what: str) -> DigestEntry:
    """What a digest says of an alert about this session."""
    return DigestEntry(display_name(record), record.project, what)


def join_lines(*lines: str) -> str:
    """A message of these lines, each made plain, redacted and cut; empty ones are left out."""
    told = [shown for line in lines if (shown := _line(line))]
    assert len(told) <= LINES_MAX, "an alert is read at a glance"
    return "\n".join(told)


def _line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    return strip_mentions(plain(redact(text), chars_max))


# The beginnings of Wakeful's own lines.
_OWN_LINE: Final = re.compile(
    r"(Wakeful|Where|Since|If you do nothing|Resolved|Closed|Over|It began|PAUSED|Say yes|→|\(from)\b|→",
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
    """The summary, and the words of the agent or its provider in backquotes."""
    said = next(filter(None, finding.untrusted), "")
    about = f": `{plain(readable_text(said), QUESTION_CHARS_MAX).replace('`', chr(39))}`" if said else ""
    return f"{finding.summary}{about} ({finding.code})"


# A client names what it asks about, and the call with its input: `permission prompt: Bash {"command": "make"}`.
_CALL: Final = re.compile(r"(?:(?P<what>.*?): )?(?P<tool>[^\s{}:]+) (?P<input>\{.*)", re.DOTALL)


def _question_text(said: str) -> str:
    """A question in the client's words, with the tool and what it is about where a call is named."""
    found = _CALL.fullmatch(said)
    about = call_subject(found["input"]) if found is not None else ""
    if found is None or not about:
        return readable_text(said)
    call = f"{found['tool']} `{about.replace('`', chr(39))}`"
    return call if found["what"] in {None, "", about} else f"{found['what']}: {call}"


def with_pause_line(text: str, paused_by: str) -> str:
    return f"{_line(f'PAUSED by {paused_by}: Wakeful acts on nothing until `wakeful resume`')}\n{text}"


def _no_action_reason(record: SessionRecord, mode: str, paused_by: str | None) -> str:
    if paused_by is not None:
        return "nothing, it is paused"
    if mode == "observe":
        return "nothing, its mode is observe"
    if record.agent is not None:
        return f"nothing, agent {record.agent} hosts it"
    return "nothing yet" if record.managed or mode == "all" else "nothing, it only watches this session"


def _has_action(record: SessionRecord, name: str) -> bool:
    return any(action.name == name and action.allowed for action in record.actions)


def _session_command(record: SessionRecord) -> str:
    """A session that is only watched is adopted first, if possible; an agent's session is handled at its agent."""
    if record.agent is not None:
        return f"wakeful attach {record.agent}"
    adopts = not record.managed and _has_action(record, "adopt")
    return f"wakeful session {'adopt' if adopts else 'why'} {record.id}"


def _attach_line(record: SessionRecord) -> str:
    """To its agent or its pane; a session without a pane can only be read."""
    if _has_action(record, "attach"):
        return f"→ wakeful attach {record.agent or record.id}"
    return f"→ wakeful session why {record.id}"


def _outlook(told: Incident, inside: Sequence[Member]) -> str:
    """What happens to the sessions that are still in it."""
    fates = {each.fate for each in inside}
    if not inside:
        return "nothing is left to do"
    if MemberStatus.HELD in fates:
        return "what is held waits until somebody decides; the rest goes on"
    if MemberStatus.UNSEEN in fates:
        return "Wakeful looks again by itself"
    if told.cause is Cause.USAGE_LIMIT and told.until is not None:
        return "after its end what Wakeful manages is continued, once; the rest waits for its person"
    if fates <= {MemberStatus.LEFT_ALONE}:
        verb, rest = _LEFT_ALONE_TEXTS.get(told.cause, ("stay", "in trouble"))
        return f"they {verb} {rest}" if len(inside) > 1 else f"it {verb}s {rest}"
    if MemberStatus.GIVEN_UP in fates:
        return "what was given up stays as it is"
    return "Wakeful goes on; what fails again is given up"


_LEFT_ALONE_TEXTS: Final[Mapping[Cause, tuple[str, str]]] = {
    Cause.AUTH: ("wait", "until somebody logs in"),
    Cause.USAGE_LIMIT: ("wait", "for its end; nobody said when that is"),
    Cause.TMUX_SERVER: ("stay", "closed"),
    Cause.REBOOT: ("stay", "closed"),
}
_LOST_CAUSES: Final = frozenset({Cause.TMUX_SERVER, Cause.REBOOT})


def _incident_command(told: Incident, inside: Sequence[Member]) -> str:
    """The one command that helps the sessions that are still in it."""
    fates = {each.fate for each in inside}
    if MemberStatus.HELD in fates:
        return "wakeful checkpoint list"
    if inside and told.cause is Cause.AUTH and told.scope in LOGINS:
        return join(LOGINS[told.scope])
    if MemberStatus.UNSEEN in fates:
        return "wakeful services"
    left = [each for each in inside if each.fate in {MemberStatus.LEFT_ALONE, MemberStatus.GIVEN_UP}]
    if told.cause in _LOST_CAUSES and left:
        return _restore_command(left)
    return "wakeful incidents" if inside else "wakeful incidents --all"


def _restore_command(left: Sequence[Member]) -> str:
    """Sessions are restored together; an agent without one is started where a person attaches to it."""
    agents = [name for each in left if (name := agent_of_member(each.id)) is not None]
    if len(agents) < len(left):
        return "wakeful restore"
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
        said = (self.what, self.where, self.did, self.otherwise)
        assert all(each.strip() for each in said), "an alert about a problem has all its lines"


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


def issue_tracker_alert(words: str, host: str, since: float, *, did: str) -> AlertBody:
    return AlertBody(
        what=f"No issue could be filed: {words}",
        where=f"`gh` on {host}",
        since=since,
        did=did,
        otherwise="no issue tells of it; everything else goes on",
        command="gh auth status",
    )


def refused_decision_alert(asker: str, order: str, reason: str, command: str, since: float) -> AlertBody:
    """`command` is the command line of the asking process."""
    return AlertBody(
        what=f"A decision was refused: {asker} asked for it",
        where=f"`{command}`" if command else "a process that had ended, or cannot be seen",
        since=since,
        did=f"refused {order} ({reason}); tells this once a day for each asker",
        otherwise="nothing of it is done; decide it yourself if you want it",
        command="wakeful status",
    )


def failed_part_alert(name: str, reason: str, host: str, since: float) -> AlertBody:
    return AlertBody(
        what=f"A part of Wakeful is down: {name}",
        where=f"wakeful on {host} ({reason})",
        since=since,
        did="tries it again after 1 to 60 s; everything else goes on",
        otherwise="what it shows or does may be missing",
        command="wakeful doctor",
    )
