"""Incidents: problems grouped by cause and scope, and the texts about them. Pure.

A cause has a scope: the provider whose login is missing, the tmux server that died, the host. A problem
without a shared cause is an incident of its session alone. Names come from outside; the code that shows these
texts makes them plain.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.events import Failure
from wakeful.judging.evidence import RuntimeState
from wakeful.judging.findings import FindingCode
from wakeful.judging.outage import is_network

# People recognise an incident by a few of its sessions; the others are counted.
SESSIONS_NAMED_MAX: Final = 5
# After the host wakes, a client notices a lost connection within this time.
WOKE_SECONDS: Final = 300.0


class Cause(StrEnum):
    """The cause of a problem, as far as the evidence shows it."""

    AUTH = "auth"
    USAGE_LIMIT = "usage_limit"
    TMUX_SERVER = "tmux_server"
    ENGINE = "engine"
    REBOOT = "reboot"
    NETWORK = "network"
    PROVIDER_OUTAGE = "provider_outage"
    DISK = "disk"
    MEMORY = "memory"
    SUSPEND = "suspend"
    # Many sessions ended at once, without another known cause.
    MANY_DEATHS = "many_deaths"
    QUEUE = "queue"
    WORKER = "worker"
    SESSION = "session"


class Origin(Struct, frozen=True):
    """A cause and its scope: problems with the same origin are one incident."""

    cause: Cause
    scope: str

    @property
    def key(self) -> str:
        return f"{self.cause}/{self.scope}"


class MemberStatus(StrEnum):
    """The result of Wakeful's treatment of a session of an incident."""

    # It is not visible now.
    UNSEEN = "unseen"
    # Not decided yet.
    OPEN = "open"
    LEFT_ALONE = "left alone"
    REVIVED = "revived"
    HELD = "held"
    GIVEN_UP = "given up"
    # A person decided that nothing more happens.
    ENDED = "ended"


class Member(Struct, frozen=True):
    """A session that is or was in an incident. `words`: the action and its result, or why there was none."""

    id: SessionId
    name: str
    fate: MemberStatus = MemberStatus.OPEN
    words: str = ""
    # When it left the incident.
    left_at: float | None = None
    # How it left, if it did not recover: its process ended, a person stopped it.
    ended: str = ""
    # When it was last resumed, with any result; members of an earlier version do not have it.
    revived_at: float | None = None

    @property
    def is_in(self) -> bool:
        return self.left_at is None

    @property
    def is_well(self) -> bool:
        """Whether it left because it worked again or ended its turn well."""
        return not self.is_in and not self.ended and self.fate is not MemberStatus.ENDED


class Incident(Struct, frozen=True):
    """One episode. `did` is the action of Wakeful and its result."""

    id: str
    cause: Cause
    scope: str
    opened_at: float
    updated_at: float
    resolved_at: float | None
    # Sessions with the problem now, without those that left.
    sessions: tuple[SessionId, ...]
    summary: str
    did: str = ""
    issue_url: str | None = None
    # The number of all sessions it ever had.
    affected: int = 0
    # The same sessions with name and status; incidents of an earlier version have none.
    members: tuple[Member, ...] = ()
    # Its alert is due and not raised yet.
    is_due: bool = False
    # When its cause ends by itself, if that is known.
    until: float | None = None
    # Its cause was observed itself, with or without affected sessions.
    standing: bool = False
    # Why it ended, if that was not an action of Wakeful.
    because: str = ""

    @property
    def is_open(self) -> bool:
        return self.resolved_at is None

    @property
    def is_well(self) -> bool:
        """Whether it is resolved and all its members are well; incidents of an earlier version have no members."""
        return not self.is_open and all(each.is_well for each in self.members)

    def member(self, session_id: SessionId) -> Member | None:
        place = self._index_of(session_id)
        return self.members[place] if place is not None else None

    def with_session(self, session_id: SessionId, now: float, name: str = "") -> "Incident":
        """Add a session, which may have been in it before."""
        if session_id in self.sessions:
            return self
        sessions, known = (*self.sessions, session_id), self.member(session_id)
        if known is not None:
            back = self._with_member(replace(known, left_at=None, ended=""))
            return replace(back, sessions=sessions, updated_at=now)
        return replace(
            self,
            members=(*self.members, Member(session_id, name or session_id)),
            sessions=sessions,
            updated_at=now,
            affected=self.affected + 1,
        )

    def without_session(self, member_id: SessionId) -> "Incident":
        """Remove every trace of this session."""
        members = tuple(each for each in self.members if each.id != member_id)
        sessions = tuple(each for each in self.sessions if each != member_id)
        removed = len(self.members) - len(members)
        return replace(self, members=members, sessions=sessions, affected=self.affected - removed)

    def with_name(self, session_id: SessionId, name: str) -> "Incident":
        known = self.member(session_id)
        if known is None or not name or known.name == name:
            return self
        return self._with_member(replace(known, name=name))

    def with_until(self, until: float | None) -> "Incident":
        """With the latest known end of its cause."""
        ends = [each for each in (self.until, until) if each is not None]
        return replace(self, until=max(ends)) if ends else self

    def with_session_left(self, session_id: SessionId, now: float, ended: str = "") -> "Incident":
        """Remove a session; the last one resolves the incident, unless its cause was observed itself.

        `ended` says how it left, if it did not recover.
        """
        remaining = tuple(each for each in self.sessions if each != session_id)
        if remaining == self.sessions:
            return self
        known = self.member(session_id)
        without = self if known is None else self._with_member(replace(known, left_at=now, ended=ended))
        over = not remaining and not self.standing
        return replace(without, sessions=remaining, updated_at=now, resolved_at=now if over else None)

    def with_cause_ended(self, now: float) -> "Incident":
        """Its cause ended; the incident is resolved unless sessions are still in it."""
        return replace(self, standing=False, updated_at=now, resolved_at=None if self.sessions else now)

    def with_treatment(
        self, session_id: SessionId, status: MemberStatus, words: str, *, revived_at: float | None = None
    ) -> "Incident":
        """Record the action on one of its sessions. `revived_at`: when it was last resumed, if it was."""
        known = self.member(session_id) or Member(session_id, session_id)
        treated = replace(
            known, fate=status, words=words, revived_at=known.revived_at if revived_at is None else revived_at
        )
        return replace(self._with_member(treated), did=words)

    def _with_member(self, member: Member) -> "Incident":
        place = self._index_of(member.id)
        if place is None:
            return replace(self, members=(*self.members, member))
        return replace(self, members=(*self.members[:place], member, *self.members[place + 1 :]))

    def _index_of(self, session_id: SessionId) -> int | None:
        # An incident may have thousands of sessions, each searched several times: `index` runs in C.
        ids = [each.id for each in self.members]
        return ids.index(session_id) if session_id in ids else None


class IncidentContext(Struct, frozen=True):
    """Facts beside the session. `oom_killed`: the kernel recently ended processes for lack of memory."""

    provider: str
    session_id: SessionId
    host: str
    boot_id: str
    machine_id: str = ""
    oom_killed: bool = False


_DISK: Final = re.compile(r"ENOSPC|no space left|disk quota|EDQUOT", re.IGNORECASE)
_CAUSE_OF_FAILURE: Final[Mapping[Failure, Cause]] = {
    Failure.AUTH: Cause.AUTH,
    Failure.LIMIT: Cause.USAGE_LIMIT,
    Failure.PROVIDER: Cause.PROVIDER_OUTAGE,
}
DEATHS: Final = frozenset({FindingCode.SESSION_DEAD, FindingCode.AGENT_EXITED})


def origin_of(
    code: FindingCode, activity: Activity, runtime: RuntimeState, context: IncidentContext
) -> Origin:
    """The cause behind a finding; the most certain evidence comes first."""
    if code in DEATHS and (lost := cause_of_loss(runtime, context)) is not None:
        return lost
    if _DISK.search(activity.failure_message):
        return Origin(Cause.DISK, context.host)
    if _broke_in_sleep(code, activity, runtime):
        return Origin(Cause.SUSPEND, context.host)
    cause = _cause_of_turn(code, activity)
    if cause is not None:
        scope = context.host if cause is Cause.NETWORK else context.provider
        return Origin(cause, scope)
    if code in DEATHS and context.oom_killed:
        return Origin(Cause.MEMORY, context.host)
    return Origin(Cause.SESSION, context.session_id)


def cause_of_loss(runtime: RuntimeState, context: IncidentContext) -> Origin | None:
    """The cause that ended a session's process: a reboot, or the end of its tmux server.

    None for a session of another machine, which alone sees its processes.
    """
    if runtime.other_machine is not None:
        return None
    newest = runtime.newest_process
    if (
        newest is not None
        and newest.sight is ProcessState.DEAD
        and not newest.process.is_foreign
        and newest.process.boot_id != context.boot_id
        and newest.process.machine == context.machine_id
    ):
        return Origin(Cause.REBOOT, context.host)
    pane = runtime.pane
    if pane is not None and pane.runtime is ProcessState.DEAD:
        return Origin(Cause.TMUX_SERVER, pane.socket)
    return None


def _broke_in_sleep(code: FindingCode, activity: Activity, runtime: RuntimeState) -> bool:
    """Whether a suspend broke its connection: it is silent since, or the network failed just after the host woke."""
    slept, last_at = runtime.slept, activity.last_at
    if slept is None or last_at is None:
        return False
    if code is FindingCode.SILENT:
        return last_at.wall <= slept.woke.wall
    failed = code is FindingCode.TURN_FAILED and is_network(activity)
    return failed and slept.began.wall <= last_at.wall <= slept.woke.wall + WOKE_SECONDS


def _cause_of_turn(code: FindingCode, activity: Activity) -> Cause | None:
    if code is FindingCode.AUTH_REQUIRED:
        return Cause.AUTH
    if code is FindingCode.USAGE_LIMITED:
        return Cause.USAGE_LIMIT
    if code is not FindingCode.TURN_FAILED:
        return None
    if is_network(activity):
        return Cause.NETWORK
    return _CAUSE_OF_FAILURE.get(activity.failure) if activity.failure is not None else None


def cause_text(incident: Incident) -> str:
    """The cause in words, with its end if that is known."""
    text = CAUSE_TEXTS[incident.cause].format(scope=incident.scope)
    if incident.until is None:
        return text
    stamp = iso(incident.until)
    return f"{text} until {stamp[:10]} {stamp[11:16]} UTC"


CAUSE_TEXTS: Final[Mapping[Cause, str]] = {
    Cause.AUTH: "{scope} needs a login",
    Cause.USAGE_LIMIT: "the usage limit of {scope} is reached",
    Cause.TMUX_SERVER: "the tmux server on {scope} ended",
    Cause.ENGINE: "the container engine {scope} ended",
    Cause.REBOOT: "{scope} was restarted",
    Cause.NETWORK: "{scope} cannot reach its providers",
    Cause.PROVIDER_OUTAGE: "{scope} fails to answer",
    Cause.DISK: "the disk of {scope} is full or not writable",
    Cause.MEMORY: "{scope} ran out of memory",
    Cause.SUSPEND: "{scope} was suspended",
    Cause.MANY_DEATHS: "many sessions on {scope} ended at once",
    Cause.QUEUE: "{scope} is unreachable, and its queue is not watched",
    Cause.WORKER: "several sessions of {scope} stopped working at once",
    Cause.SESSION: "a session has a problem",
}

# Above this number, names are counted instead of listed.
COUNTED_MIN: Final = 20
# UUID 7 (Codex): its first eight characters are a time, about a minute.
_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")


def headline(incident: Incident) -> str:
    """The cause in words; for a single session, its name and problem."""
    if incident.cause is Cause.SESSION:
        name = incident.members[0].name if incident.members else incident.scope
        return f"{name}: {incident.summary}"
    return cause_text(incident)


def summary_of(incident: Incident) -> str:
    """One line: the headline, and the counts unless it is about one session or none."""
    if incident.cause is Cause.SESSION or not incident.affected:
        return headline(incident)
    return f"{headline(incident)}: {counts_text(incident)}"


def counts_text(incident: Incident) -> str:
    """How many sessions are in it, how many recovered, and how the others ended."""
    inside = len(incident.sessions)
    ended = [each for each in incident.members if not each.is_in and not each.is_well]
    well = max(incident.affected - inside - len(ended), 0)
    if not inside and not ended:
        return f"{_count_sessions(well)}, {'all ' if well > 1 else ''}recovered"
    counted = f"{_count_sessions(inside)} affected" if inside else _count_sessions(incident.affected)
    endings = Counter(_ending_text(each) for each in ended)
    return ", ".join(
        (
            counted,
            *([f"{well} recovered"] if well else []),
            *(f"{count}: {text}" for text, count in endings.items()),
        )
    )


def _ending_text(member: Member) -> str:
    return member.ended or member.words


def format_names(members: Sequence[Member]) -> str:
    """A few names, the rest counted. Equal names get the beginning of their id; if there are many members, a count."""
    names = Counter(each.name for each in members)
    if len(members) > COUNTED_MIN:
        most = names.most_common(SESSIONS_NAMED_MAX)
        more = len(members) - sum(count for _, count in most)
        return ", ".join(f"{name} ({count})" for name, count in most) + (f" and {more} more" if more else "")
    shown = [
        each.name if names[each.name] == 1 else f"{each.name} {short_id(each.id)}"
        for each in members[:SESSIONS_NAMED_MAX]
    ]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def short_id(session_id: SessionId) -> str:
    """The part of an id that people compare and commands accept. It is longer if the id begins with a time."""
    head, _, tail = session_id.partition("-")
    return tail[: 13 if _UUID7.match(tail) else 8] or head


def member_text(member: Member) -> str:
    if member.is_in:
        words = member.words.removeprefix(NO_ACTION)
        return f"{_STATUS_TEXTS[member.fate]}{f': {words}' if words else ''}"
    if not member.is_well:
        return f"closed: {_ending_text(member)}"
    return f"recovered: {member.words}" if member.fate is MemberStatus.REVIVED else "recovered"


def actions_text(incident: Incident) -> str:
    """The actions of Wakeful on all members and their results, counted."""
    if len(incident.members) <= 1:
        return incident.did
    return "; ".join(_action_texts(incident.members))


def _action_texts(members: tuple[Member, ...]) -> Iterator[str]:
    revived = [each for each in members if each.fate is MemberStatus.REVIVED]
    if revived:
        back = sum(each.is_well for each in revived)
        seen = "all recovered" if back == len(revived) else f"{back} recovered so far"
        yield f"resumed {_count_sessions(len(revived))}, {seen}"
    for status, verb in _VERBS.items():
        alike = [each for each in members if each.fate is status and each.is_in]
        if alike:
            yield f"{verb.format(count=_count_sessions(len(alike)))}: {_common_reason(alike)}"
    waiting = sum(each.fate is MemberStatus.OPEN and each.is_in for each in members)
    if waiting:
        yield (
            f"{_count_sessions(waiting)} wait for their turn"
            if waiting > 1
            else "1 session waits for its turn"
        )


def _common_reason(members: list[Member]) -> str:
    (reason, _), *others = Counter(each.words for each in members).most_common()
    reason = reason.removeprefix(NO_ACTION)
    return f"{reason}, and others" if others else reason


def _count_sessions(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'}"


# The beginning of a member's text if Wakeful did nothing; the reason follows.
NO_ACTION: Final = "no action: "
_STATUS_TEXTS: Final[Mapping[MemberStatus, str]] = {
    MemberStatus.OPEN: "not resolved yet",
    MemberStatus.UNSEEN: "state unknown",
    MemberStatus.LEFT_ALONE: "no action",
    MemberStatus.REVIVED: "resumed, not confirmed yet",
    MemberStatus.HELD: "needs your decision",
    MemberStatus.GIVEN_UP: "given up",
    MemberStatus.ENDED: "ended",
}
_VERBS: Final[Mapping[MemberStatus, str]] = {
    MemberStatus.UNSEEN: "waits for {count}",
    MemberStatus.HELD: "asks you about {count}",
    MemberStatus.GIVEN_UP: "gave up {count}",
    MemberStatus.LEFT_ALONE: "skipped {count}",
}
