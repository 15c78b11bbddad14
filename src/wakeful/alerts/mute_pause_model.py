"""Mutes and the pause: values, records and texts. Pure.

A mute stops alerts, never watching or healing, and always expires. A pause stops every action that Wakeful
takes by itself, until a person ends it.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.alerts.model import AlertCode
from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError
from wakeful.core.labels import label
from wakeful.core.text import plain
from wakeful.incidents.critical_event import CriticalEventKind
from wakeful.incidents.model import Cause
from wakeful.judging.findings import FindingCode
from wakeful.judging.session_record import SessionRecord

# Longer than any absence; permanent silence is a setting, not a mute.
MUTE_SECONDS_MAX: Final = 30 * 86_400.0
CLOCK_SLACK_SECONDS: Final = 86_400.0
# Everything that alerts are about: findings, causes of incidents, problems of a project, and the rest.
CODES: Final = frozenset(
    {*FindingCode, *Cause, *AlertCode, CriticalEventKind.QUEUE_STALLED, CriticalEventKind.MESSAGE_UNROUTED}
)


class NoSuchCode(OperatorError):
    """{shown!r} is nothing Wakeful tells about. It knows: {known}."""

    code = "no-such-code"


class NoMuteTarget(OperatorError):
    """A mute needs a {kind} to silence."""

    code = "no-mute-target"


class MuteKind(StrEnum):
    """What is silenced: one session, everything of a project, or one kind of trouble wherever it is."""

    SESSION = "session"
    PROJECT = "project"
    CODE = "code"


class Mute(Struct, frozen=True):
    """No alerts about something until a time, and who set it. `until` is wall time: it passes while the host sleeps."""

    kind: MuteKind
    value: str
    until: float
    by: str
    reason: str = ""

    def is_active(self, now: float) -> bool:
        """Whether it is in force; one with an impossible length was made before the clock was set back."""
        return self.until - MUTE_SECONDS_MAX - CLOCK_SLACK_SECONDS <= now < self.until

    def covers(self, session_id: str | None, project: str | None, codes: Collection[str]) -> bool:
        """Whether it mutes a message about these; None is not a subject of the message.

        `codes` are all codes of the message: the finding, and the cause behind it.
        """
        match self.kind:
            case MuteKind.SESSION:
                return self.value == session_id
            case MuteKind.PROJECT:
                return self.value == project
            case MuteKind.CODE:
                return self.value in codes


class Pause(Struct, frozen=True):
    """Wakeful takes no action by itself; who paused it, since when, and why."""

    by: str
    since: float
    reason: str = ""


class MuteRecord(Struct, frozen=True):
    """A mute as doors show it."""

    kind: MuteKind
    value: str
    until: str
    by: str
    reason: str


class PauseRecord(Struct, frozen=True):
    """A pause as doors show it."""

    by: str
    since: str
    reason: str


class MuteList(Struct, frozen=True):
    """Those in force, the first to end first; `paused` names the person who paused Wakeful, if it is paused."""

    mutes: tuple[MuteRecord, ...]
    paused: PauseRecord | None


def mute_record(mute: Mute) -> MuteRecord:
    return MuteRecord(mute.kind, mute.value, iso(mute.until), mute.by, mute.reason)


def mute_list(mutes: Iterable[Mute], paused: PauseRecord | None, now: float) -> MuteList:
    held = sorted((each for each in mutes if each.is_active(now)), key=lambda each: (each.until, each.value))
    return MuteList(tuple(map(mute_record, held)), paused)


def pause_record(pause: Pause | None) -> PauseRecord | None:
    return PauseRecord(pause.by, iso(pause.since), pause.reason) if pause is not None else None


def parse_target(kind: MuteKind, value: str) -> str:
    """The value that a mute of this kind compares with, as records spell it. Raises NoSuchCode, NoMuteTarget."""
    if kind is MuteKind.CODE and value not in CODES:
        raise NoSuchCode(shown=value[:40], known=", ".join(sorted(CODES)))
    target = project_name(value) if kind is MuteKind.PROJECT else value
    if not target:
        raise NoMuteTarget(kind=kind)
    return target


def project_name(text: str) -> str:
    """A project's name as records show it and people know it."""
    return label(text)


def is_muted(mute: Mute, record: SessionRecord | None, project: str | None, codes: Collection[str]) -> bool:
    """Whether a mute covers a message about a session, or about a project when there is none."""
    if record is not None:
        return mute.covers(record.id, record.project, codes)
    return mute.covers(None, project_name(project) if project is not None else None, codes)


def pause_text(pause: Pause | PauseRecord) -> str:
    """The text of a pause in every interface and alert."""
    since = iso(pause.since) if isinstance(pause, Pause) else pause.since
    return f"PAUSED by {pause.by} since {since}{f': {pause.reason}' if pause.reason else ''}"


def mute_text(mute: Mute | MuteRecord) -> str:
    until = iso(mute.until) if isinstance(mute, Mute) else mute.until
    return f"{mute.kind} {mute.value} is muted until {until} by {mute.by}{f': {mute.reason}' if mute.reason else ''}"


def pause_lines(pause: PauseRecord | None) -> list[str]:
    """The first line of every list while Wakeful is paused."""
    if pause is None:
        return []
    return [plain(f"{pause_text(pause)}; Wakeful does nothing by itself until `wakeful resume`")]
