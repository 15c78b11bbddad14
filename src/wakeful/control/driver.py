"""Driver interface: the actions on an agent process, and the requests, results and errors they share.

Each action has a deadline and reports the effect that was seen. A driver acts and checks; the action gate
(`control/gate.py`) has already decided whether it may. A driver keeps nothing in memory that a restart would
lose: later calls find everything in the Hosting that it returns.
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
"""Told once of whatever was started, as soon as it runs and before anybody saw whether it is well."""


async def ignore_start(_managed: ManagedSession) -> None:
    """For starts of a session that is managed already."""


class StartRequest(Struct, frozen=True):
    """A session to be started. `resume`: its conversation exists and goes on; otherwise it must not exist yet.

    `session_id` and `conversation_id` are None where the client names a new conversation itself.
    """

    session_id: SessionId | None
    conversation_id: ConversationId | None
    epoch: int
    intent_id: str
    cwd: str
    # The person's command, program first. What the driver needs is added, what contradicts it refused.
    argv: tuple[str, ...]
    # The whole environment it will have, but for what the driver adds.
    environ: Mapping[str, str]
    resume: bool = False
    prompt: str | None = None
    # By which the prompt is known again, where the client can be given one.
    prompt_id: str | None = None
    name: str | None = None


class ActionResult(Struct, frozen=True):
    """What was seen of an act: `recovered` its effect, `ineffective` that it had none, `unverified` neither."""

    outcome: ActionOutcome
    words: str
    hosting: ManagedSession | None = None
    # What stood there instead of what was expected, as the agent or its client wrote it.
    untrusted: str = ""
    # A process before the one that lives had the prompt.
    by_earlier: bool = False


class PermissionQuestion(Struct, frozen=True):
    """A permission an agent asks for. What it is about is the agent's own text."""

    id: str
    tool: str
    untrusted: str


class PermissionReply(StrEnum):
    """A person's answer to a permission question."""

    ALLOW = "allow"
    DENY = "deny"


class PromptDriver(Protocol):
    """One way of giving a session a prompt."""

    def is_open(self, managed: ManagedSession) -> bool:
        """Whether a prompt would arrive now, proven by a look that costs next to nothing."""

    def is_lost(self, managed: ManagedSession) -> bool:
        """Whether the agent was seen alive and no way leads to it any more; a way shut for a moment is not lost."""

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        """Give the agent a prompt and see that it took it; `hosting` is set if that changed what must be known later.

        `environ` is for clients that need a new process for it; without it they get the daemon's.
        """


class Driver(PromptDriver, Protocol):
    """One way of hosting a session."""

    @property
    def name(self) -> str: ...

    @property
    def per_turn(self) -> bool:
        """Whether its client has a process for each turn and none between them."""

    async def start(self, request: StartRequest, on_started: OnStarted = ignore_start) -> ActionResult:
        """Start or resume; `hosting` is set unless nothing was started. Raises the errors below: then nothing runs."""

    async def resume(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        """Continue a conversation whose agent is gone, in its own place if that is still there; else as `start`."""

    async def questions(self, managed: ManagedSession) -> tuple[PermissionQuestion, ...]:
        """The permission questions that are open now."""

    async def answer(self, managed: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:
        """Answer the permission question with this id; declined if it is not open any more."""

    async def interrupt(self, managed: ManagedSession) -> ActionResult:
        """Stop the turn and leave the agent alive, where the client can do that."""

    async def stop(self, managed: ManagedSession) -> ActionResult:
        """End the agent, gently first, and the tools it left behind; nothing that is not ours is touched."""


@runtime_checkable
class KnowsPrompts(Protocol):
    """A driver whose client says which prompts it has: there, delivering one twice can be made once."""

    async def deliver_once(
        self,
        managed: ManagedSession,
        prompt: str,
        prompt_id: str,
        *,
        again: bool,
        environ: Mapping[str, str] | None = None,
    ) -> ActionResult:
        """As `deliver`; nothing is delivered if it has the prompt with this id.

        `again`: it may have been delivered before, and nothing is done where nobody can say whether it was.
        """

    def has_prompt(self, managed: ManagedSession, prompt_id: str) -> bool:
        """Whether a process of this session is known to have been started for this prompt."""


@runtime_checkable
class KnowsProcess(Protocol):
    """A driver that writes which process it started before the process says anything."""

    def newest_process(self, managed: ManagedSession) -> Process | None:
        """The newest process that was started for this session; None if that was not written."""


@runtime_checkable
class NamedByClient(Protocol):
    """A driver whose client names its conversation itself, after its start."""

    def conversation_folders(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Where a client with this environment keeps its conversations."""

    async def find_started(
        self, planned: ManagedSession, intent_id: str, carriers: Sequence[Process]
    ) -> ActionResult | None:
        """What a start began that was cut off before the name was known; None: the client has named nothing.

        `carriers`: its processes that live.
        """


class TypedText(Struct, frozen=True):
    """A text that was being typed, since `at`, when Wakeful ended, and what became of it.

    `is_command`: it was to start the agent, and whatever the agent was to be told came after it.
    """

    session_id: SessionId
    at: float
    text: str
    seen: ActionResult
    is_command: bool = False


@runtime_checkable
class TypingDriver(Protocol):
    """A driver that types: what it was typing when Wakeful ended may stand in an input line."""

    async def recover_typed(self) -> list[TypedText]:
        """What became of every text whose typing was cut off. Removed where it stands, never sent."""

    def forget_typed(self, session_id: SessionId) -> None:
        """What became of this session's text is written down: nothing has to be known of it here any more."""


class HostProcesses(Protocol):
    """What must be known about processes to act on the right ones."""

    def processes_with_variable(self, variable: str, value: str) -> list[Process]:
        """The living processes of this user with exactly this variable: agents, not the tools they left behind."""

    def state_of(self, process: Process) -> ProcessState:
        """Whether it lives."""

    def command(self, process: Process) -> tuple[str, ...]:
        """The words a process was started with; none if that cannot be read."""

    def kept_back(self, process: Process) -> tuple[str, ...]:
        """The names of what a process was started with and no program of ours may be given."""

    def environ(self) -> Mapping[str, str]:
        """The daemon's own environment."""

    def open_event_log(self, name: str, process: Process, cwd: str) -> None:
        """Open the event log by which a program without a conversation is watched."""


class ConversationUnknown(OperatorError, code="conversation-unknown"):
    """There is no conversation {conversation} below {folder}. `wakeful ls --all` shows where it was held."""


class PromptRefused(OperatorError, code="prompt-refused"):
    """This prompt cannot be delivered: {reason}."""


class LinesRefused(PromptRefused):
    """This prompt cannot be delivered: this program would take each of its lines for a prompt of its own."""


class ArgumentRefused(OperatorError, code="argument-refused"):
    """{program} is driven by Wakeful here: {argument!r} cannot be given with it. {advice}"""
