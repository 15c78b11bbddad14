"""What people are told: three kinds of alert and the words of each. Pure.

Every text is plain and redacted line by line, so that nothing an agent wrote can look like a line of ours. When an
alert is sent, and whether it still has to be, is decided in `owed`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.domain.findings import MEANINGS, Notice
from wakeful.domain.incident import SESSIONS_NAMED_MAX
from wakeful.domain.moment import iso
from wakeful.domain.plaintext import plain
from wakeful.domain.record import FindingRecord, SessionRecord
from wakeful.domain.redact import redact
from wakeful.domain.verdict import WaitKind

# What a locked telephone shows of a message.
QUESTION_CHARS_MAX: Final = 140
LINE_CHARS_MAX: Final = 300
# A reader decides within a glance whether to get up; more lines are not read.
LINES_MAX: Final = 8


class AlertKind(StrEnum):
    """Why somebody is told. Each can be switched off."""

    NEEDS_YOU = "needs_you"
    FINISHED = "finished"
    TROUBLE = "trouble"


class Alert(Struct, frozen=True):
    """One thing to tell, once. Two alerts with the same `episode` are about the same thing."""

    kind: AlertKind
    episode: str
    text: str
    # Somebody else's chat, instead of the operator's channels: rather never than twice.
    chat: str | None = None

    @property
    def ends_by_itself(self) -> bool:
        """Whether it is over once it was told; others wait for `resolve`, and words to a chat are never said again."""
        return self.kind is AlertKind.FINISHED and self.chat is None


class Rules(Struct, frozen=True):
    """What the operator wants to hear, and how often."""

    kinds: frozenset[AlertKind] = frozenset({AlertKind.NEEDS_YOU, AlertKind.TROUBLE})
    needs_you_seconds: float = 10.0
    cooldown_seconds: float = 3600.0

    def wants(self, alert: Alert) -> bool:
        return alert.chat is not None or alert.kind in self.kinds


class Question(Struct, frozen=True):
    """What a session waits for a person for, since when, in words."""

    since: str
    words: str


def question_of(record: SessionRecord) -> Question | None:
    """What a person has to answer or to see to, if anything: an open question first, then a finding like a lost login."""
    for wait in record.expected_waits:
        if wait.kind is WaitKind.PERSON:
            return Question(wait.since, wait.untrusted or "a question is open")
    for finding in record.findings:
        if MEANINGS[finding.code, record.state].notice is Notice.NEEDS_YOU:
            return Question(finding.since, _said(finding))
    return None


def needs_you(record: SessionRecord, question: Question) -> str:
    """Which project, what it asks, how to get there."""
    return _lines(
        f"{_name(record)} needs you",
        _line(question.words, QUESTION_CHARS_MAX),
        _jump(record),
    )


def finished(record: SessionRecord) -> str:
    """A turn ended well."""
    return _lines(f"{_name(record)} finished", _where(record), _jump(record))


def trouble(
    record: SessionRecord,
    finding: FindingRecord | None = None,
    *,
    did: str = "",
    otherwise: str = "",
    mode: str = "",
    paused_by: str | None = None,
    command: str | None = None,
) -> str:
    """What, where, since when, what Wakeful did and its outcome, what happens if nobody does anything, one command.

    `finding` is the session's first one unless another is given. `did` and `otherwise` are the healer's words;
    without them the text says why nothing was done.
    """
    what = finding or next(iter(record.findings), None)
    return _lines(
        _paused(paused_by),
        f"{_name(record)}: {_said(what) if what is not None else record.health}",
        f"Where: {_where(record)}",
        f"Since: {moment(what.since if what is not None else record.updated_at)}",
        f"Wakeful did: {did or _nothing_because(record, mode, paused_by)}",
        f"If you do nothing: {otherwise or 'it stays as it is'}",
        f"→ {command or _way_out(record)}",
    )


def incident(
    cause: str,
    records: Sequence[SessionRecord],
    *,
    since: str,
    count: int | None = None,
    did: str = "",
    otherwise: str = "",
    paused_by: str | None = None,
    command: str = "wakeful incidents",
) -> str:
    """One text for many sessions with one cause: `records` are some of them, `count` how many there are."""
    total = len(records) if count is None else count
    named = ", ".join(f"{_name(each)} ({each.id})" for each in records[:SESSIONS_NAMED_MAX])
    more = total - min(len(records), SESSIONS_NAMED_MAX)
    return _lines(
        _paused(paused_by),
        f"{cause}: {total} session{'' if total == 1 else 's'}",
        f"Where: {named}{f' and {more} more' if more > 0 else ''}",
        f"Since: {moment(since)}",
        f"Wakeful did: {did or 'nothing yet'}",
        f"If you do nothing: {otherwise or 'they stay as they are'}",
        f"→ {command}",
    )


def checkpoint_opened(project: str, *, where: str, since: str, doubt: str, number: int) -> str:
    """A program was cut off inside a step, and somebody has to decide."""
    return _lines(
        f"{project} needs you: it was cut off, and what may have happened is not repeated",
        f"Where: {where}",
        f"Since: {moment(since)}",
        f"May have happened: {doubt}",
        "If you do nothing: it waits until somebody decides",
        f"→ wakeful checkpoint show {number}",
    )


def resolved(what: str, since: str, *, how: str = "") -> str:
    """The end of something that was told: what it was, since when, and what ended it if that is known."""
    return _lines(f"Resolved: {what}", f"It began at {moment(since)}", how)


def moment(stamp: str) -> str:
    """A record's time in the words of people."""
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def held_back(text: str, owed_at: float) -> str:
    """The text of an alert that comes late, so that nobody takes it for news."""
    return f"(from {moment(iso(owed_at))}, could not be sent before)\n{text}"


def _lines(*lines: str) -> str:
    told = [shown for line in lines if (shown := _line(line))]
    assert len(told) <= LINES_MAX, "an alert is read at a glance"
    return "\n".join(told)


def _line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    return plain(redact(text), chars_max)


def _name(record: SessionRecord) -> str:
    return record.name or record.project or record.id


def _where(record: SessionRecord) -> str:
    folder = f", {record.cwd}" if record.cwd else ""
    return f"{record.provider} session {record.id} on {record.host}{folder}"


def _said(finding: FindingRecord) -> str:
    """Its summary, and what the agent or its provider said, told apart by backquotes."""
    said = next(filter(None, finding.untrusted), "")
    about = f": `{plain(said, QUESTION_CHARS_MAX).replace('`', chr(39))}`" if said else ""
    return f"{finding.summary}{about} ({finding.code})"


def _paused(by: str | None) -> str:
    return f"PAUSED by {by}: Wakeful acts on nothing until `wakeful resume`" if by is not None else ""


def _nothing_because(record: SessionRecord, mode: str, paused_by: str | None) -> str:
    if paused_by is not None:
        return "nothing, it is paused"
    if mode == "observe":
        return "nothing, its mode is observe"
    return "nothing yet" if record.managed or mode == "all" else "nothing, it only watches this session"


def _offers(record: SessionRecord, name: str) -> bool:
    return any(action.name == name and action.allowed for action in record.actions)


def _way_out(record: SessionRecord) -> str:
    """A session that was merely found is handed over first, where it can be."""
    adopts = not record.managed and _offers(record, "adopt")
    return f"wakeful session {'adopt' if adopts else 'why'} {record.id}"


def _jump(record: SessionRecord) -> str:
    """To its pane; a session in no pane can only be looked at from here."""
    return (
        f"→ wakeful attach {record.id}" if _offers(record, "attach") else f"→ wakeful session why {record.id}"
    )
