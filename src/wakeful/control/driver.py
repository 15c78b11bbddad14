"""Driver interface: the actions on an agent process, and the requests, results and errors they share.

Each action has a deadline and reports the effect that was seen. A driver acts and checks; the action gate
(`control/gate.py`) has already decided whether it may. A driver keeps nothing in memory that a restart would
lose: later calls find everything in the ManagedSession that it returns.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from wakeful.core.errors import OperatorError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.storage.base import ActionOutcome

PROMPT_BYTES_MAX = 1024 * 1024

OnStarted = Callable[[ManagedSession], Awaitable[None]]
"""Called once with the started session, as soon as it runs and before it is checked."""


async def ignore_start(_managed: ManagedSession) -> None:
    """For starts of a session that is managed already."""


class StartRequest(Struct, frozen=True):
    """A start. `resume`: its conversation exists and goes on; otherwise it must not exist yet.

    `session_id` and `conversation_id` are None if the client names a new conversation itself.
    """

    session_id: SessionId | None
    conversation_id: ConversationId | None
    epoch: int
    intent_id: str
    cwd: str
    # The person's command, program first. The driver adds what it needs and refuses what contradicts it.
    argv: tuple[str, ...]
    # The whole environment, except for the driver's additions.
    environ: Mapping[str, str]
    resume: bool = False
    prompt: str | None = None
    # The id of the prompt, if the client accepts one.
    prompt_id: str | None = None
    name: str | None = None


class ActionResult(Struct, frozen=True):
    """The outcome of an action, as it was observed."""

    outcome: ActionOutcome
    words: str
    hosting: ManagedSession | None = None
    # Unexpected text of the agent or its client.
    untrusted: str = ""
    # An earlier process had the prompt.
    by_earlier: bool = False


class PermissionQuestion(Struct, frozen=True):
    """A permission that an agent asks for. `untrusted` is the agent's own text."""

    id: str
    tool: str
    untrusted: str


class PermissionReply(StrEnum):
    """A person's answer to a permission question."""

    ALLOW = "allow"
    DENY = "deny"


class PromptDriver(Protocol):
    """Delivers prompts to sessions of one kind."""

    def is_open(self, managed: ManagedSession) -> bool:
        """Whether a prompt would arrive now, by a cheap check."""

    def is_lost(self, managed: ManagedSession) -> bool:
        """Whether the agent lives and can never be reached again; a short interruption does not count."""

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        """Give the agent a prompt and verify it; `hosting` is set if the managed session changed.

        `environ` is for clients that need a new process for it; default: the daemon's own.
        """


class Driver(PromptDriver, Protocol):
    """Performs all actions on sessions of one kind."""

    @property
    def name(self) -> str: ...

    @property
    def per_turn(self) -> bool:
        """Whether its client has a process for each turn and none between them."""

    async def start(self, request: StartRequest, on_started: OnStarted = ignore_start) -> ActionResult:
        """Start or resume; `hosting` is set unless nothing was started. After an error nothing runs."""

    async def resume(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        """Continue a conversation whose agent is gone, in its pane if that exists; else as `start`."""

    async def questions(self, managed: ManagedSession) -> tuple[PermissionQuestion, ...]:
        """The open permission questions."""

    async def answer(self, managed: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:
        """Answer this permission question; declined if it is no longer open."""

    async def interrupt(self, managed: ManagedSession) -> ActionResult:
        """Stop the turn and leave the agent alive, if the client can do that."""

    async def stop(self, managed: ManagedSession) -> ActionResult:
        """End the agent, gently first, and its remaining tools; other processes are not touched."""


@runtime_checkable
class KnowsPrompts(Protocol):
    """A driver whose client knows its prompts by id, so that a repeated delivery has no effect."""

    async def deliver_once(
        self,
        managed: ManagedSession,
        prompt: str,
        prompt_id: str,
        *,
        again: bool,
        environ: Mapping[str, str] | None = None,
    ) -> ActionResult:
        """As `deliver`; nothing is delivered if the client has the prompt with this id.

        `again`: it may have been delivered before; nothing is done if the client cannot tell.
        """

    def has_prompt(self, managed: ManagedSession, prompt_id: str) -> bool:
        """Whether a process of this session was started for this prompt."""


@runtime_checkable
class KnowsProcess(Protocol):
    """A driver that stores which process it started, before any output."""

    def newest_process(self, managed: ManagedSession) -> Process | None:
        """The newest process that was started for this session; None if that was not stored."""


@runtime_checkable
class NamedByClient(Protocol):
    """A driver whose client names its conversation itself, after its start."""

    def conversation_folders(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The folders in which a client with this environment keeps its conversations."""

    async def find_started(
        self, planned: ManagedSession, intent_id: str, carriers: Sequence[Process]
    ) -> ActionResult | None:
        """The result of a start that was interrupted before the name was known; None: the client has no name yet.

        `carriers`: its living processes.
        """


class TypedText(Struct, frozen=True):
    """A text that was being typed, since `at`, when Wakeful ended, and what became of it.

    `is_command`: the command to start the agent; a prompt would follow it.
    """

    session_id: SessionId
    at: float
    text: str
    seen: ActionResult
    is_command: bool = False


@runtime_checkable
class TypingDriver(Protocol):
    """A driver that types: unfinished text may be in an input line after Wakeful ended."""

    async def recover_typed(self) -> list[TypedText]:
        """Remove every unfinished text from its input line; it is never sent. Returns what became of each."""

    def forget_typed(self, session_id: SessionId) -> None:
        """Forget this session's text: the outcome is stored."""


class HostProcesses(Protocol):
    def processes_with_variable(self, variable: str, value: str) -> list[Process]:
        """The living processes of this user with exactly this variable: agents, not their remaining tools."""

    def state_of(self, process: Process) -> ProcessState: ...

    def command(self, process: Process) -> tuple[str, ...]:
        """The command line of a process; empty if it cannot be read."""

    def kept_back(self, process: Process) -> tuple[str, ...]:
        """The names of the variables of a process that Wakeful never passes to a program."""

    def environ(self) -> Mapping[str, str]:
        """The daemon's own environment."""

    async def kill(self, managed: ManagedSession) -> Sequence[ProcessState]:
        """Kill the agents of this session, and none of their tools; returns the state of each afterwards.

        They have its mark. The first process of a client that names its own conversation has none: it is known by `process`.
        """

    def open_event_log(self, name: str, process: Process, cwd: str) -> None:
        """Open the event log by which a program without a conversation is watched."""


class ConversationUnknown(OperatorError, code="conversation-unknown"):
    """No conversation {conversation} in {folder}. Find its folder with `wakeful ls --all`."""


class PromptRefused(OperatorError, code="prompt-refused"):
    """This prompt cannot be sent: {reason}."""


class LinesRefused(PromptRefused):
    """This prompt cannot be sent: the program would read each line as a separate prompt."""


class ArgumentRefused(OperatorError, code="argument-refused"):
    """{argument!r} cannot be used when Wakeful runs {program}. {advice}"""
