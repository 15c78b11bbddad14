"""A driver and processes for tests of control: they act as the test says and record every call."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from wakeful.control.driver import (
    ActionResult,
    OnStarted,
    PermissionQuestion,
    PermissionReply,
    StartRequest,
    ignore_start,
)
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.storage.base import ActionOutcome

BOOT: Final = "a-boot-of-a-test"


async def _at_once() -> None: ...


class ScriptedDriver:
    """Implements control.driver.Driver. `before` runs inside every action; `outcome` is the outcome of each."""

    def __init__(self, name: str = "claude") -> None:
        self.name = name
        self.per_turn = name == "codex"
        self.asked: list[tuple[str, ManagedSession | StartRequest]] = []
        self.outcome = ActionOutcome.CONFIRMED
        self.problem: Exception | None = None
        self.environ: Mapping[str, str] | None = None
        self.names_itself: SessionId | None = None
        self.lost = False
        self.question = PermissionQuestion("q1", "Bash", "touch x")
        self.before: Callable[[], None] = lambda: None
        # Runs between the begin and the end of a start.
        self.settled: Callable[[], Awaitable[None]] = _at_once

    def is_open(self, hosting: ManagedSession) -> bool:
        return hosting.process is not None

    def is_lost(self, hosting: ManagedSession) -> bool:
        del hosting
        return self.lost

    async def start(self, order: StartRequest, begun: OnStarted = ignore_start) -> ActionResult:
        self._do("start", order)
        if self.outcome is not ActionOutcome.CONFIRMED:
            return ActionResult(self.outcome, "not started")
        session_id = self.names_itself or order.session_id
        assert session_id is not None, "a test that starts an unnamed client names it"
        managed = ManagedSession(
            session_id=session_id,
            conversation_id=order.conversation_id or ConversationId(session_id.partition("-")[2]),
            driver=self.name,
            cwd=order.cwd,
            argv=order.argv,
            epoch=order.epoch,
            since=0.0,
            process=Process(900_000 + len(self.asked), 1, BOOT),
            name=order.name,
        )
        await begun(managed)
        await self.settled()
        return ActionResult(ActionOutcome.CONFIRMED, "started", managed)

    async def resume(self, hosting: ManagedSession, order: StartRequest) -> ActionResult:
        del hosting
        return await self.start(order)

    async def deliver(
        self, hosting: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        self.environ = environ
        return self._do(f"deliver {prompt}", hosting)

    async def questions(self, hosting: ManagedSession) -> tuple[PermissionQuestion, ...]:
        self._do("questions", hosting)
        return (self.question,)

    async def answer(self, hosting: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:
        return self._do(f"answer {question_id} {reply}", hosting)

    async def interrupt(self, hosting: ManagedSession) -> ActionResult:
        return self._do("interrupt", hosting)

    async def stop(self, hosting: ManagedSession) -> ActionResult:
        return self._do("stop", hosting)

    def _do(self, act: str, to: ManagedSession | StartRequest) -> ActionResult:
        self.asked.append((act, to))
        self.before()
        if self.problem is not None:
            raise self.problem
        return ActionResult(self.outcome, "as scripted")

    @property
    def acts(self) -> list[str]:
        return [act for act, _ in self.asked]


class ScriptedProcesses:
    """The processes that the controller inspects. They carry the variables that a test gives them."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, str], list[Process]] = {}
        self.dead: set[Process] = set()
        self.registered: list[str] = []

    def processes_with_variable(self, variable: str, value: str) -> list[Process]:
        return list(self.marks.get((variable, value), ()))

    def state_of(self, process: Process) -> ProcessState:
        return ProcessState.DEAD if process in self.dead else ProcessState.ALIVE

    def kept_back(self, process: Process) -> tuple[str, ...]:
        del process
        return ()

    def command(self, process: Process) -> tuple[str, ...]:
        del process
        return ("claude", "--model", "opus")

    def environ(self) -> Mapping[str, str]:
        return {"PATH": "/usr/bin"}

    async def kill(self, managed: ManagedSession) -> list[ProcessState]:
        killed = self.processes_with_variable(SESSION_VARIABLE, managed.session_id)
        known = managed.process
        if known is not None and known not in (*killed, *self.dead):
            killed.append(known)
        self.dead.update(killed)
        return [ProcessState.DEAD for _ in killed]

    def open_event_log(self, name: str, process: Process, cwd: str) -> None:
        del process, cwd
        self.registered.append(name)
