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

# What a locked telephone shows of a message.
QUESTION_CHARS_MAX: Final = 140
LINE_CHARS_MAX: Final = 300
# A reader decides within a glance whether to get up; more lines are not read.
LINES_MAX: Final = 8


class AlertKind(StrEnum):
    """Why an alert is sent. Each can be switched off."""

    NEEDS_YOU = "needs_you"
    FINISHED = "finished"
    TROUBLE = "trouble"


class AlertCode(StrEnum):
    """What is told about and is neither found in a session, nor a cause, nor in a queue: the code that mutes it."""

    JOURNAL = "journal"
    CHECKPOINT = "checkpoint"
    LEASE_ENDED = "lease_ended"
    ISSUES = "issues"
    GATEWAY = "gateway"
    DOWN = "down"
    DECISION = "decision"


class Topic(Struct, frozen=True):
    """What an alert is about, as people mute it: all it is told under, and its project and session where it has them."""

    codes: tuple[str, ...] = ()
    project: str | None = None
    session_id: str | None = None


class DigestEntry(Struct, frozen=True):
    """An alert in three words, for a message about many: what it is called, its project, the finding or cause."""

    name: str
    project: str
    what: str


class Alert(Struct, frozen=True):
    """One thing to tell, once. Two alerts with the same `episode` are about the same thing."""

    kind: AlertKind
    episode: str
    text: str
    # A user's chat, instead of the operator's channels: rather never than twice.
    chat: str | None = None
    # None where the caller has asked about mutes already.
    topic: Topic | None = None
    # What a digest says of it; without one, the first line of the text.
    gist: DigestEntry | None = None
    # How many alerts this one replaces, for which there was no room; none where it is an alert of its own.
    stands_for: int = 0

    @property
    def ends_by_itself(self) -> bool:
        """Whether it is over once it was told; others wait for `resolve`, and words to a chat are never said again."""
        return (self.kind is AlertKind.FINISHED or self.stands_for > 0) and self.chat is None


class AlertRules(Struct, frozen=True):
    """What the operator wants to hear, and how often."""

    kinds: frozenset[AlertKind] = frozenset({AlertKind.NEEDS_YOU, AlertKind.TROUBLE})
    needs_you_seconds: float = 10.0
    cooldown_seconds: float = 3600.0

    def wants(self, alert: Alert) -> bool:
        return alert.chat is not None or alert.kind in self.kinds


class AttentionQuestion(Struct, frozen=True):
    """What a session waits for a person for, since when, in words; `code` where a finding asks."""

    since: str
    words: str
    code: FindingCode | None = None
    # A guess, which no command of ours can answer.
    probable: bool = False


def question_of(record: SessionRecord) -> AttentionQuestion | None:
    """What a person has to answer or to see to, if anything: an open question first, then a finding like a lost login."""
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
    """Which project, what it asks, how to get there; where there is nowhere to get to, how to answer from here."""
    asked = question.code is None and not question.probable
    answers = asked and record.managed and not _has_action(record, "attach")
    return join_lines(
        f"{display_name(record)} needs you",
        _mark_foreign_line(_line(question.words, QUESTION_CHARS_MAX)),
        "Say yes like this, no with `deny`:" if answers else "",
        f"→ wakeful session answer {record.id} allow" if answers else _attach_line(record),
    )


def finished_text(record: SessionRecord) -> str:
    """A turn ended well."""
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
    """One text for many sessions with one cause: who is still in it, what was done, what became of the others."""
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
    """What every message about trouble says, each thing in its line; `command` is empty where none could be typed."""
    return join_lines(
        what,
        f"Where: {where}",
        f"Since: {format_time(since)}",
        f"Wakeful did: {did}",
        f"If you do nothing: {otherwise}",
        f"→ {command}" if command else "",
    )


def checkpoint_text(project: str, *, where: str, since: str, doubt: str, number: int) -> str:
    """A program was cut off inside a step, and a person has to decide."""
    return format_problem(
        what=f"{project} needs you: it was cut off, and what may have happened is not repeated",
        where=where,
        since=since,
        did=f"held it, for this may have happened: {doubt}",
        otherwise="it waits until somebody decides",
        command=f"wakeful checkpoint show {number}",
    )


def resolved_text(what: str, since: str, *, did: str = "", because: str = "", well: bool = True) -> str:
    """The end of something that was told: what it was, since when, what Wakeful did, and what else ended it.

    Not `well`: it was not seen well again, so it is closed and not resolved.
    """
    return join_lines(
        f"{'Resolved' if well else 'Closed'}: {what}",
        f"It began at {format_time(since)}",
        f"Wakeful did: {did}" if did else "",
        f"Over: {because}" if because else "",
    )


def format_time(stamp: str) -> str:
    """A record's time in the words of people."""
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


# How lines of Wakeful begin.
_OWN_LINE: Final = re.compile(
    r"(Wakeful|Where|Since|If you do nothing|Resolved|Closed|Over|It began|PAUSED|Say yes|→|\(from)\b|→",
    re.IGNORECASE,
)


def _mark_foreign_line(line: str) -> str:
    """A line of an agent's words, which cannot be taken for one of Wakeful's."""
    return f"It asks: {line}" if _OWN_LINE.match(line) else line


def display_name(record: SessionRecord) -> str:
    """What people call it: its own name, or its agent's, with its project, else the project."""
    name = record.name or record.agent
    if name and record.project not in {"", name}:
        return f"{name} ({record.project})"
    return name or record.project or record.id


def _where(record: SessionRecord) -> str:
    folder = f", {record.cwd}" if record.cwd else ""
    return f"{record.provider} session {record.id} on {record.host}{folder}"


def _finding_text(finding: FindingRecord) -> str:
    """Its summary, and what the agent or its provider said, told apart by backquotes."""
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
    """With the pause as its first line, for alerts that are sent during one."""
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
    """A session that was merely found is handed over first, where it can be; an agent's is seen to at its agent."""
    if record.agent is not None:
        return f"wakeful attach {record.agent}"
    adopts = not record.managed and _has_action(record, "adopt")
    return f"wakeful session {'adopt' if adopts else 'why'} {record.id}"


def _attach_line(record: SessionRecord) -> str:
    """To its agent or its pane; a session in no pane can only be looked at from here."""
    if _has_action(record, "attach"):
        return f"→ wakeful attach {record.agent or record.id}"
    return f"→ wakeful session why {record.id}"


def _outlook(told: Incident, inside: Sequence[Member]) -> str:
    """What happens to those that are still in it."""
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
    """The one command that helps those that are still in it."""
    fates = {each.fate for each in inside}
    if MemberStatus.HELD in fates:
        return "wakeful checkpoint list"
    if inside and told.cause is Cause.AUTH and told.scope in LOGINS:
        return join(LOGINS[told.scope])
    if MemberStatus.UNSEEN in fates:
        return "wakeful services"
    if told.cause in _LOST_CAUSES and fates & {MemberStatus.LEFT_ALONE, MemberStatus.GIVEN_UP}:
        return "wakeful restore"
    return "wakeful incidents" if inside else "wakeful incidents --all"


class AlertBody(Struct, frozen=True, kw_only=True):
    """One thing to tell. Without a `command` there is nothing a person could type."""

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
    """As it is sent: plain and redacted line by line, so that nothing from outside looks like a line of ours."""
    return format_problem(
        what=body.what,
        where=body.where,
        since=iso(body.since),
        did=body.did,
        otherwise=body.otherwise,
        command=body.command,
    )


def issue_tracker_alert(words: str, host: str, since: float, *, did: str) -> AlertBody:
    """That issues cannot be filed."""
    return AlertBody(
        what=f"No issue could be filed: {words}",
        where=f"`gh` on {host}",
        since=since,
        did=did,
        otherwise="no issue tells of it; everything else goes on",
        command="gh auth status",
    )


def refused_decision_alert(asker: str, order: str, reason: str, command: str, since: float) -> AlertBody:
    """That a decision was refused. `command` are the words that the asking process was started with."""
    return AlertBody(
        what=f"A decision was refused: {asker} asked for it",
        where=f"`{command}`" if command else "a process that had ended, or cannot be seen",
        since=since,
        did=f"refused {order} ({reason}); tells this once a day for each asker",
        otherwise="nothing of it is done; decide it yourself if you want it",
        command="wakeful status",
    )


def failed_part_alert(name: str, reason: str, host: str, since: float) -> AlertBody:
    """That a source or a service of Wakeful raised an error."""
    return AlertBody(
        what=f"A part of Wakeful is down: {name}",
        where=f"wakeful on {host} ({reason})",
        since=since,
        did="tries it again after 1 to 60 s; everything else goes on",
        otherwise="what it shows or does may be missing",
        command="wakeful doctor",
    )
