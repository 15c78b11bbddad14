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

# Longer than any absence. To switch alerts off for good is a setting, not a mute.
MUTE_SECONDS_MAX: Final = 30 * 86_400.0
CLOCK_SLACK_SECONDS: Final = 86_400.0
# The codes of all alerts: findings, causes of incidents, problems of a queue, and the rest.
CODES: Final = frozenset(
    {*FindingCode, *Cause, *AlertCode, CriticalEventKind.QUEUE_STALLED, CriticalEventKind.MESSAGE_UNROUTED}
)


class NoSuchCode(OperatorError):
    """Unknown code {shown!r}. Known codes: {known}."""

    code = "no-such-code"


class NoMuteTarget(OperatorError):
    """Nothing to mute: name a {kind}."""

    code = "no-mute-target"


class MuteKind(StrEnum):
    """The muted subject: one session, everything of a project, or one code in all sessions and projects."""

    SESSION = "session"
    PROJECT = "project"
    CODE = "code"


class Mute(Struct, frozen=True):
    """No alerts about a subject until a time. `until` is wall time, which includes suspend; `by` is its author."""

    kind: MuteKind
    value: str
    until: float
    by: str
    reason: str = ""

    def is_active(self, now: float) -> bool:
        """Whether it applies now. A mute that ends impossibly late was made before the clock was set back."""
        return self.until - MUTE_SECONDS_MAX - CLOCK_SLACK_SECONDS <= now < self.until

    def covers(self, session_id: str | None, project: str | None, codes: Collection[str]) -> bool:
        """Whether it mutes a message about these; None if the message is about no session or no project.

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
    """A pause of all automatic actions: its author, its time and its reason. `until`: when it ends by itself."""

    by: str
    since: float
    reason: str = ""
    until: float | None = None

    def has_ended(self, now: float) -> bool:
        """Whether its time is over at this wall time."""
        return self.until is not None and now >= self.until


class MuteRecord(Struct, frozen=True):
    """A mute, as every interface shows it."""

    kind: MuteKind
    value: str
    until: str
    by: str
    reason: str


class PauseRecord(Struct, frozen=True):
    """A pause, as every interface shows it."""

    by: str
    since: str
    reason: str
    until: str | None = None


class MuteList(Struct, frozen=True):
    """The active mutes, the first to end first; `paused` is the pause of all automatic actions, if there is one."""

    mutes: tuple[MuteRecord, ...]
    paused: PauseRecord | None


def mute_record(mute: Mute) -> MuteRecord:
    return MuteRecord(mute.kind, mute.value, iso(mute.until), mute.by, mute.reason)


def active_mutes(mutes: Iterable[Mute], now: float) -> tuple[Mute, ...]:
    """Those that apply at this wall time, the first to end first."""
    active = [each for each in mutes if each.is_active(now)]
    return tuple(sorted(active, key=lambda each: (each.until, each.value)))


def mute_list(mutes: Iterable[Mute], paused: PauseRecord | None, now: float) -> MuteList:
    return MuteList(tuple(map(mute_record, active_mutes(mutes, now))), paused)


def pause_record(pause: Pause | None) -> PauseRecord | None:
    if pause is None:
        return None
    until = iso(pause.until) if pause.until is not None else None
    return PauseRecord(pause.by, iso(pause.since), pause.reason, until)


def parse_target(kind: MuteKind, value: str) -> str:
    """The value that a mute of this kind compares with, as records spell it. Raises NoSuchCode, NoMuteTarget."""
    if kind is MuteKind.CODE and value not in CODES:
        raise NoSuchCode(shown=value[:40], known=", ".join(sorted(CODES)))
    target = project_name(value) if kind is MuteKind.PROJECT else value
    if not target:
        raise NoMuteTarget(kind=kind)
    return target


def project_name(text: str) -> str:
    """A project's name, as records show it."""
    return label(text)


def pause_text(pause: Pause | PauseRecord) -> str:
    """The text of a pause in every interface and alert."""
    record = pause_record(pause) if isinstance(pause, Pause) else pause
    assert record is not None, "a pause has a record"
    until = f" until {record.until}" if record.until is not None else ""
    return f"PAUSED by {record.by} since {record.since}{until}{f': {record.reason}' if record.reason else ''}"


def mute_text(mute: Mute | MuteRecord) -> str:
    until = iso(mute.until) if isinstance(mute, Mute) else mute.until
    return f"{mute.kind} {mute.value} is muted until {until} by {mute.by}{f': {mute.reason}' if mute.reason else ''}"


def pause_lines(pause: PauseRecord | None) -> list[str]:
    """The first line of every list while Wakeful is paused."""
    if pause is None:
        return []
    end = "then, or until `wakeful unpause`" if pause.until is not None else "`wakeful unpause`"
    return [plain(f"{pause_text(pause)}; Wakeful takes no action by itself until {end}")]
