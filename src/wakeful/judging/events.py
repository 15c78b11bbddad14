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
    """The thing that the session waits for during an open call."""

    TOOL = "tool"
    SUBAGENT = "subagent"
    PERSON = "person"


class Failure(StrEnum):
    """The cause of a failed turn, as the client reports it."""

    AUTH = "auth"
    LIMIT = "limit"
    PROVIDER = "provider"
    REQUEST = "request"
    UNKNOWN = "unknown"


class Speaker(StrEnum):
    """Who wrote a text of a conversation. `CLIENT`: the program around the model, about itself."""

    PERSON = "person"
    AGENT = "agent"
    CLIENT = "client"
    WAKEFUL = "wakeful"


class Event(Struct, frozen=True, gc=False):
    """Any record of a log, at the wall time it states."""

    at: float


class LogOpened(Event, frozen=True, gc=False):
    """The log identifies its session."""

    conversation_id: ConversationId | None = None
    cwd: str | None = None
    version: str | None = None
    pid: int | None = None
    project: str | None = None


class PermissionModeSet(Event, frozen=True, gc=False):
    """The client's permission mode, in its own term; `HEADLESS` if there is no person to ask."""

    mode: str


class Prompted(Event, frozen=True, gc=False):
    """A prompt: a turn begins, or goes on with a new request.

    `by_wakeful`: Wakeful wrote it, so the earlier request of a person goes on; otherwise it is folded like a person's.
    `unasked`: the client opened a turn without a prompt so far. No prompt follows if a person typed a command into the
    client.
    """

    by_person: bool = True
    by_wakeful: bool = False
    unasked: bool = False


class Progressed(Event, frozen=True, gc=False):
    """The agent is at work: thinking, text with more to follow, a subagent's line, a tool's progress mark.

    `words` is a number for the text, 0 without one: it reveals repeated messages. `echoes`: how often the text repeats
    its own end.
    """

    words: int = 0
    echoes: int = 0


class TextWritten(Event, frozen=True, gc=False):
    """The agent wrote text and the log does not say whether more follows (dialects without stop reason).

    `asks` is the question at its end, if there is one.
    """

    words: int = 0
    echoes: int = 0
    asks: bytes = b""


class CallStarted(Event, frozen=True, gc=False):
    call: str
    tool: str
    kind: CallKind = CallKind.TOOL
    input: bytes = b"{}"
    timeout_seconds: float | None = None
    # The client ends its calls itself, or asks a person first: a call that stays open is stuck, not silent.
    enforced: bool = False
    # The client's own limit: by then such a call has returned, unless the client asks for a permission first.
    limit_seconds: float | None = None
    # The call itself asks for more than its client allows.
    escalated: bool = False
    # The id of its message, if the log has one: equal calls of one message are one step.
    message: str = ""


class CallEnded(Event, frozen=True, gc=False):
    """A tool call returned. `refused`: it never ran, because a person refused it or a parallel call failed; no error.

    Logs without call ids leave `call` empty: the newest open call of `tool` is meant. `background` names the task that
    goes on although its call returned.
    """

    call: str
    is_error: bool = False
    refused: bool = False
    result: bytes = b""
    tool: str = ""
    background: str = ""


class TaskEnded(Event, frozen=True, gc=False):
    task: str


class QuestionAsked(Event, frozen=True, gc=False):
    """The session waits for a person: a permission, a question.

    `about` is the tool or the call, as `Bash {"command": "make"}`, that needs a permission; empty: unknown.
    """

    about: str


class QuestionAnswered(Event, frozen=True, gc=False):
    """The person answered and the turn goes on; with `about`, only if it matches the question."""

    about: str | None = None


class PlanProposed(Event, frozen=True, gc=False):
    """The agent proposed a plan: the turn that ends with it waits for approval."""


class TurnEnded(Event, frozen=True, gc=False):
    """The turn is over. `by_mark`: a mark closes it, however it ended; a failure stays a failure."""

    by_mark: bool = False
    words: int = 0
    asks: bytes = b""


class TurnFailed(Event, frozen=True, gc=False):
    """The turn ended with an error of the provider or the login; the process usually goes on."""

    failure: Failure
    message: str = ""
    status: int | None = None
    until: float | None = None


class RequestRetried(Event, frozen=True, gc=False):
    """The provider refused a request and the client tries again: life, but no progress."""


class TurnInterrupted(Event, frozen=True, gc=False):
    """A person or a signal interrupted the turn."""


class CompactionStarted(Event, frozen=True, gc=False):
    """The client began to summarise the conversation: the model works without any line until the end."""


class CompactionEnded(Event, frozen=True, gc=False):
    """The conversation was summarised to make room."""


class ClientClosed(Event, frozen=True, gc=False):
    """The program announced its exit, which is intended."""


class LogClosed(Event, frozen=True, gc=False):
    """The client wrote the last line of its log: it ended regularly, for any cause."""


class TokensSpent(Event, frozen=True, gc=False):
    """Tokens of one model message, counted once per message.

    `weight`: all of them, weighted by their relative price, if a budget in money is known.
    """

    input_tokens: int
    output_tokens: int
    weight: float = 0.0


class BudgetReported(Event, frozen=True, gc=False):
    """The amount a run has spent, and its budget: reported before each request."""

    used_usd: float
    total_usd: float


class Said(Event, frozen=True, gc=False):
    """A text of the conversation, for people to read: verdicts never depend on it."""

    by: Speaker
    text: bytes


class RecordSkipped(Event, frozen=True, gc=False):
    """A record of an unknown type: skipped and counted, because formats grow."""

    kind: str


class LineMalformed(Event, frozen=True, gc=False):
    """Bytes that are no record."""

    reason: str


class FormatDrifted(Event, frozen=True, gc=False):
    """A known record without a required field: the format has changed."""

    field: str
