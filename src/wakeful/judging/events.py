"""Events that the readers of all logs produce: facts in the past tense, without judgement.

`at` is the wall time in the log. If a record has no time, its reader reports no event but a mark about the
record itself, whose `at` is 0. Inputs and results of calls are raw bytes, so that no code shows them by
accident.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.ids import ConversationId

HEADLESS: Final = "headless"
"""The permission mode of a client that runs without a terminal: it refuses instead of asking."""


class CallKind(StrEnum):
    """What an open call makes the session wait for."""

    TOOL = "tool"
    SUBAGENT = "subagent"
    PERSON = "person"


class Failure(StrEnum):
    """Why a turn failed, as far as the client said."""

    AUTH = "auth"
    LIMIT = "limit"
    PROVIDER = "provider"
    REQUEST = "request"
    UNKNOWN = "unknown"


class Event(Struct, frozen=True, gc=False):
    """Anything a log told us, at the wall time it states."""

    at: float


class LogOpened(Event, frozen=True, gc=False):
    """The log says whose it is."""

    conversation_id: ConversationId | None = None
    cwd: str | None = None
    version: str | None = None
    pid: int | None = None
    project: str | None = None


class PermissionModeSet(Event, frozen=True, gc=False):
    """Which calls the client asks a person about, in its own word; `HEADLESS` where it has nobody to ask."""

    mode: str


class Prompted(Event, frozen=True, gc=False):
    """Somebody asked for something: a turn begins, or goes on with new orders.

    `by_wakeful`: Wakeful's own words, so that what a person asked for before goes on; else it is folded like theirs.
    `unasked`: the client opened a turn and has not said what for. Nothing follows where a person typed a command of
    their own into it.
    """

    by_person: bool = True
    by_wakeful: bool = False
    unasked: bool = False


class Progressed(Event, frozen=True, gc=False):
    """The agent is at work: thinking, text before more to come, a subagent's line, a tool's progress mark.

    `words` is a number for the text, 0 if there is none: a monologue is told by it. `echoes`: how often the text
    repeats its own end.
    """

    words: int = 0
    echoes: int = 0


class TextWritten(Event, frozen=True, gc=False):
    """The agent wrote text and the log does not say whether more follows (dialects without stop reason).

    `asks` is the question it ends with, if it does.
    """

    words: int = 0
    echoes: int = 0
    asks: bytes = b""


class CallStarted(Event, frozen=True, gc=False):
    """A tool call began."""

    call: str
    tool: str
    kind: CallKind = CallKind.TOOL
    input: bytes = b"{}"
    timeout_seconds: float | None = None
    # The client itself ends its calls, or asks a person first: one that stays open is a wedge, not silence.
    enforced: bool = False
    # The client's own limit: by then such a call has come back, unless the client asks for a permission first.
    limit_seconds: float | None = None
    # The call itself asks for more than its client allows.
    escalated: bool = False
    # The id of the message that made it, where the log has one: equal calls of one message are one step.
    message: str = ""


class CallEnded(Event, frozen=True, gc=False):
    """A tool call came back. `refused`: it never ran, for a person said no or a sibling failed; no error.

    Logs without call ids leave `call` empty: the newest open call of `tool` is meant. `background` names the task
    that goes on behind the turn although its call came back.
    """

    call: str
    is_error: bool = False
    refused: bool = False
    result: bytes = b""
    tool: str = ""
    background: str = ""


class TaskEnded(Event, frozen=True, gc=False):
    """A task that ran behind the turn is over."""

    task: str


class QuestionAsked(Event, frozen=True, gc=False):
    """The session waits for a person: a permission, a question. Empty `about`: nobody said for what."""

    about: str


class QuestionAnswered(Event, frozen=True, gc=False):
    """The person answered and the turn goes on; with `about`, only if that is what was asked about."""

    about: str | None = None


class PlanProposed(Event, frozen=True, gc=False):
    """A plan was put before the person: the turn that ends with it waits for their yes."""


class TurnEnded(Event, frozen=True, gc=False):
    """The turn is over. `by_mark`: its books were closed, whichever way it ended; a failure stays one."""

    by_mark: bool = False
    words: int = 0
    asks: bytes = b""


class TurnFailed(Event, frozen=True, gc=False):
    """The turn ended with an error of the provider or the login; the process usually lives on."""

    failure: Failure
    message: str = ""
    status: int | None = None
    until: float | None = None


class RequestRetried(Event, frozen=True, gc=False):
    """The provider refused a request and the client tries again: life, but no progress."""


class TurnInterrupted(Event, frozen=True, gc=False):
    """A person or a signal cut the turn short."""


class CompactionStarted(Event, frozen=True, gc=False):
    """The client began to summarise the conversation: a model's work that leaves no line before its end."""


class CompactionEnded(Event, frozen=True, gc=False):
    """The conversation was summarised to make room."""


class ClientClosed(Event, frozen=True, gc=False):
    """The program said goodbye: its exit was meant."""


class LogClosed(Event, frozen=True, gc=False):
    """The client wrote the line that it ends its log with: it ended in order, whatever ended it."""


class TokensSpent(Event, frozen=True, gc=False):
    """Tokens of one model message, already counted once per message.

    `weight`: all of them, weighted by what they cost beside each other, where a budget is told in money.
    """

    input_tokens: int
    output_tokens: int
    weight: float = 0.0


class BudgetReported(Event, frozen=True, gc=False):
    """What a run has spent, and what it may: said before each request."""

    used_usd: float
    total_usd: float


class RecordSkipped(Event, frozen=True, gc=False):
    """A record of a type this reader does not know: skipped and counted, as formats grow."""

    kind: str


class LineMalformed(Event, frozen=True, gc=False):
    """Bytes that are no record."""

    reason: str


class FormatDrifted(Event, frozen=True, gc=False):
    """A known record without a field we need: the format changed under us."""

    field: str
