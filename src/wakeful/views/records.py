"""Records in the daemon's answers: the HTTP interface encodes them, every client decodes them.

A command imports this module at its start, so it imports models only, never a service. Fields that earlier
daemons did not send have defaults; without any other field an answer is refused as one of another version.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from wakeful.agents.model import AgentChange, AgentRecord, AgentsSummary
from wakeful.agents.runtime import UndeclaredAgent
from wakeful.alerts.mute_pause_model import MuteKind, PauseRecord
from wakeful.checkpoints.model import CheckpointRecord
from wakeful.control.driver import PermissionQuestion
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import PaneAddress
from wakeful.judging.events import Speaker
from wakeful.judging.session_record import SessionRecord
from wakeful.storage.base import ActionOutcome


class SessionList(Struct, frozen=True):
    """A page of sessions in order of id. Pass `next_cursor` as `cursor` for the next page; `older` ones were folded.

    `paused` is the pause of all automatic actions, if there is one.
    """

    sessions: list[SessionRecord]
    older: int
    next_cursor: str | None
    paused: PauseRecord | None = None


class SessionMatchList(Struct, frozen=True):
    """The sessions that a name stands for: at most 20 of `total`, living ones first.

    `match` is the rule that found them: id, name, tmux, prefix, project, part or none.
    """

    match: str
    total: int
    sessions: list[SessionRecord]


class PaneRecord(Struct, frozen=True):
    """The pane of a session, if it is in one."""

    pane: PaneAddress | None


class EventRecord(Struct, frozen=True):
    """One transition of a session. `left_out`: how many changes between it and the one before were not stored."""

    seq: int
    at: str
    old_state: str | None
    state: str
    old_health: str | None
    health: str
    reason: str
    left_out: int = 0


class EventList(Struct, frozen=True):
    """Transitions, oldest first. Pass `next_cursor` as `after` to go on."""

    events: tuple[EventRecord, ...]
    next_cursor: int | None


class CallEnd(StrEnum):
    """How a call ended. `cut_off`: its turn or its agent ended first. `waiting`: for a person."""

    OK = "ok"
    ERROR = "error"
    REFUSED = "refused"
    OPEN = "open"
    WAITING = "waiting"
    CUT_OFF = "cut_off"


class CallText(Struct, frozen=True):
    """Text of an agent and its tool."""

    tool: str
    input: str
    result: str


class CallRecord(Struct, frozen=True):
    """One call. Without `ended_at` its end was not seen."""

    at: str
    ended_at: str | None
    end: CallEnd
    untrusted: CallText


class CallList(Struct, frozen=True):
    """The newest calls, oldest first. `since` is the beginning of the part of the log that was read."""

    calls: tuple[CallRecord, ...]
    since: str | None


class MessageText(Struct, frozen=True):
    text: str


class MessageRecord(Struct, frozen=True):
    """A text, or a call of the agent.

    A call with an empty tool began before: its end belongs to the call of the same `call_id`, an id of Wakeful's.
    """

    at: str
    by: Speaker
    untrusted: MessageText
    call_id: str = ""
    call: CallRecord | None = None


class ConversationPart(Struct, frozen=True):
    """What was said and called, oldest first. Pass `cursor` as `after` to go on.

    `continued`: it follows the part that ended at the given cursor; otherwise it replaces everything read before.
    """

    messages: tuple[MessageRecord, ...]
    cursor: str
    continued: bool


class SourceRecord(Struct, frozen=True):
    """A log source: why it is slow, and which logs it does not read."""

    name: str
    slow: str | None
    left_out: str | None = None


MODES: Final = {
    "observe": "observe (takes no action)",
    "mine": "managed-only (acts on sessions you started or adopted through Wakeful)",
    "all": "all (acts on every session)",
}
"""What people read of each mode."""


class DaemonRecord(Struct, frozen=True):
    """The daemon itself. A single look without a daemon has no pid and no start."""

    mode: str
    version: str
    host: str
    pid: int | None
    started_at: str | None
    listening: tuple[str, ...]
    eyes: tuple[SourceRecord, ...]
    notes: tuple[str, ...]
    paused: PauseRecord | None = None
    # The configuration files it has read; null where there is no daemon.
    config_files: tuple[str, ...] | None = None
    # Why the daemon does not use what is in them now.
    config_notes: tuple[str, ...] = ()


class Overview(Struct, frozen=True):
    """The mode, the daemon, and counts of sessions by state and health."""

    schema: int
    mode: str
    paused: bool
    daemon: DaemonRecord
    sessions: dict[str, dict[str, int]]
    agents: AgentsSummary = AgentsSummary({}, ())


# The push feed on the daemon's socket.
FEED_URL: Final = "ws://localhost/api/ws"


class RecordChange(Struct, frozen=True):
    """What a client reads of `sessions.feed.SessionChange`."""

    record: SessionRecord


class FeedMessage(Struct, frozen=True):
    """A message of the push feed; messages of other kinds have none of these."""

    hello: Overview | None = None
    # The overview again: the number of open incidents or checkpoints changed.
    status: Overview | None = None
    changes: tuple[RecordChange, ...] = ()
    agent: AgentChange | None = None
    # The id of a session that is not known any more.
    gone: SessionId | None = None


class AgentList(Struct, frozen=True):
    """Every declared agent; `found` are others that look like agents: reported, never touched.

    `paused` is the pause of all automatic actions, if there is one.
    """

    agents: tuple[AgentRecord, ...]
    found: tuple[UndeclaredAgent, ...]
    paused: PauseRecord | None = None


class AttachCommand(Struct, frozen=True):
    """The command that attaches a terminal to an agent's tmux session, and the program that runs there."""

    argv: tuple[str, ...]
    program: str


class DecisionRecord(Struct, frozen=True):
    """`changed`: it was carried out now. `outcome` is null for a dry run, whose `steps` are the commands to run."""

    checkpoint: CheckpointRecord
    outcome: ActionOutcome | None
    words: str
    changed: bool
    steps: tuple[str, ...] = ()


class LessonRecord(Struct, frozen=True):
    project: str
    prefix: str
    even_remote: bool
    by: str
    at: str


class LessonList(Struct, frozen=True):
    """The taught rules; `paused` is the pause of all automatic actions, if there is one."""

    lessons: tuple[LessonRecord, ...]
    paused: PauseRecord | None = None


class PauseAnswer(Struct, frozen=True):
    """Whether Wakeful is paused now, and whether this request changed it."""

    paused: PauseRecord | None
    changed: bool


class UnmuteAnswer(Struct, frozen=True):
    """The target that is no longer muted; `changed` is false if it was not muted."""

    kind: MuteKind
    value: str
    changed: bool


class ArchiveAnswer(Struct, frozen=True):
    """How many lines were moved out of the log."""

    archived: int
    path: str


class CriticalEventList(Struct, frozen=True):
    """Critical events, oldest first. `left_out` older ones did not fit; `path` is the log.

    `paused` is the pause of all automatic actions, if there is one.
    """

    path: str
    events: list[dict[str, Any]]
    left_out: int
    paused: PauseRecord | None = None


class ManagedRecord(Struct, frozen=True):
    """A session that is, or was, managed."""

    session_id: SessionId
    managed: bool
    driver: str
    epoch: int
    pid: int | None


class QuestionList(Struct, frozen=True):
    questions: tuple[PermissionQuestion, ...]
