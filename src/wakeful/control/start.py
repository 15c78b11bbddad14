"""Plans and starts new managed sessions: driver, conversation, environment and name for a command.

The plan is pure. For `wakeful run -- claude …` Wakeful chooses the conversation id before the start; `codex
exec` reports its own afterwards; any other program is known by its name. A session is claimed before its
process runs, and stored as soon as it does. So it is managed while it is still starting, and other actions
wait for the start.
"""

import logging
import re
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Final
from uuid import UUID, uuid4

from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import ActionResult, Driver, HostProcesses, NamedByClient, OnStarted, StartRequest
from wakeful.control.gate import ActionGate, ActionIntent, ActionKind, ActionRecord
from wakeful.control.ownership import ManagedSessions
from wakeful.core.clock import Clock
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.leases import conversation_id_for, prompt_id_for
from wakeful.core.managed_session import EPOCH_VARIABLE, INTENT_VARIABLE, SESSION_VARIABLE, ManagedSession
from wakeful.core.process import ProcessState
from wakeful.judging.available_actions import OBSERVING

NAME_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
# Variables by which a client, tmux or Wakeful marks its children: a session started inside another one must not
# count as a part of it.
INHERITED: Final = frozenset(
    {
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_EFFORT",
        "CODEX_THREAD_ID",
        "CODEX_SESSION_ID",
        "CODEX_TOOL_CALL_ID",
        "TMUX",
        "TMUX_PANE",
        SESSION_VARIABLE,
        EPOCH_VARIABLE,
        INTENT_VARIABLE,
    }
)


class BadName(OperatorError, code="bad-name"):
    """Invalid session name {shown!r}: use letters, digits, _ and -, at most 64 characters."""


class NoCommand(OperatorError, code="no-command"):
    """Name the command to run, like: wakeful run -- claude"""


class CodexNeedsExec(OperatorError, code="codex-needs-exec"):
    """Wakeful runs Codex as `codex exec`: wakeful run -- codex exec "your prompt". Start interactive Codex yourself, then run `wakeful adopt NAME`."""


class NoHeadlessDriver(OperatorError, code="no-headless-driver"):
    """{program} needs a terminal, so --headless is not possible. Use --detach to start it in its own tmux session."""


class RunRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A `wakeful run` request: command, folder, environment, and whether it gets a terminal."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    name: str | None = None
    terminal: bool = True
    prompt: str | None = None


class StartPlan(Struct, frozen=True):
    """A planned start. Without `session_id` the client names its conversation itself."""

    driver: str
    argv: tuple[str, ...]
    session_id: SessionId | None
    conversation_id: ConversationId | None
    name: str | None
    prompt: str | None
    prompt_id: str | None = None
    # Wakeful reads no logs of this client, so it opens an event log for the session.
    unseen: bool = False


def plan_run(request: RunRequest, new_id: UUID, drivers: Collection[str] = ()) -> StartPlan:
    """Decide how a command is hosted. Raises NoCommand, BadName, CodexNeedsExec or NoHeadlessDriver.

    `drivers`: the programs that can run without a terminal.
    """
    if not request.argv or not request.argv[0]:
        raise NoCommand
    if request.name is not None:
        check_name(request.name)
    program = PurePath(request.argv[0]).name
    if program == "claude":
        return _claude(request, new_id)
    if program == "codex":
        return _codex(request)
    if not request.terminal and program in drivers:
        session_id = SessionId(f"{program}-{new_id}")
        conversation = ConversationId(str(new_id))
        return StartPlan(
            program, request.argv, session_id, conversation, request.name, request.prompt, unseen=True
        )
    if not request.terminal:
        raise NoHeadlessDriver(program=program)
    name = request.name or f"{plain_name(program)}-{str(new_id)[:8]}"
    return StartPlan(
        "tmux", request.argv, SessionId(name), ConversationId(name), name, request.prompt, unseen=True
    )


def check_name(name: str) -> None:
    """Raises BadName."""
    if len(name) > NAME_CHARS_MAX or _NAME.match(name) is None:
        raise BadName(shown=name[:NAME_CHARS_MAX])


def environment(caller: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without INHERITED."""
    return {name: value for name, value in caller.items() if name not in INHERITED}


def _claude(request: RunRequest, new_id: UUID) -> StartPlan:
    conversation = ConversationId(str(new_id))
    driver = "tmux" if request.terminal else "claude"
    return StartPlan(
        driver, request.argv, SessionId(f"claude-{new_id}"), conversation, request.name, request.prompt
    )


def _codex(request: RunRequest) -> StartPlan:
    """`codex exec FLAGS PROMPT`: the last word is the prompt, unless the request has one."""
    program, *words = request.argv
    if not words or words[0] != "exec":
        raise CodexNeedsExec
    flags, prompt = words[1:], request.prompt
    if prompt is None and flags and not flags[-1].startswith("-"):
        prompt = flags.pop()
    if prompt is None:
        raise CodexNeedsExec
    return StartPlan("codex", (program, *flags), None, None, request.name, prompt)


def plain_name(program: str) -> str:
    """The program's name with only the characters of a session's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", program)[: NAME_CHARS_MAX // 2].strip("-") or "run"


log = logging.getLogger("wakeful")


class NameTaken(OperatorError, code="name-taken", http_status=409):
    """The name {shown} is in use by {session}, which is still running. Choose another name, or stop that session."""


class Starter:
    def __init__(
        self,
        *,
        clock: Clock,
        managed_sessions: ManagedSessions,
        drivers: Mapping[str, Driver],
        gate: ActionGate,
        processes: HostProcesses,
        mode: str,
        by_itself: bool = False,
    ) -> None:
        self._clock = clock
        self._managed_sessions = managed_sessions
        self._drivers = drivers
        self._gate = gate
        self._processes = processes
        self._mode = mode
        self._automatic = by_itself

    async def run(self, request: RunRequest, key: str | None = None) -> ActionRecord:
        """Start a new managed session. Raises NameTaken and the errors of plan and driver; then nothing was started."""
        new_id = uuid4() if key is None else conversation_id_for(key)
        plan = plan_run(request, new_id, self._drivers)
        if key is not None:
            plan = replace(plan, prompt_id=str(prompt_id_for(key)))
        self.require_free(plan.name)
        if plan.session_id is None:
            return await self._run_unnamed(plan, request)
        epoch = await self._claim(plan.session_id)
        planned = self._planned_session(plan, plan.session_id, request, epoch)
        try:
            record, managed = await self._start(plan, planned, request, self._managed_sessions.save)
        except BaseException:
            # A session that runs and is stored stays, even if a later write failed.
            known = self._managed_sessions.find(planned.session_id)
            if known is None or not self._is_alive(known):
                await self._managed_sessions.abandon(planned)
            raise
        if managed is None:
            await self._managed_sessions.abandon(planned)
        elif plan.unseen and managed.process is not None:
            self._processes.open_event_log(managed.session_id, managed.process, managed.cwd)
        return record

    def require_free(self, name: str | None, session_id: SessionId | None = None) -> None:
        """Raises BadName, and NameTaken if a living session other than this one has the name."""
        if name is not None:
            check_name(name)
        for known in self._managed_sessions.all() if name is not None else ():
            if known.name == name and known.session_id != session_id and self._is_alive(known):
                raise NameTaken(shown=name, session=known.session_id)

    def _is_alive(self, managed: ManagedSession) -> bool:
        return (
            managed.process is not None and self._processes.state_of(managed.process) is not ProcessState.DEAD
        )

    async def _claim(self, session_id: SessionId) -> int:
        """Claim the new session; returns its epoch. The name of a managed program that has ended can be used again."""
        known = self._managed_sessions.find(session_id)
        if known is not None:
            return (await self._managed_sessions.advance_epoch(known)).epoch
        return (await self._managed_sessions.claim(session_id)).epoch

    async def _run_unnamed(self, plan: StartPlan, request: RunRequest) -> ActionRecord:
        """Start a client that names its own conversation: it is claimed once the name is known."""

        async def on_started(managed: ManagedSession) -> None:
            lease = await self._managed_sessions.claim(managed.session_id, managed.process)
            try:
                await self._managed_sessions.save(replace(managed, epoch=lease.epoch))
            except BaseException:
                await self._managed_sessions.release_lease(lease)
                raise

        planned = self._planned_session(plan, SessionId(f"start-{uuid4().hex}"), request, epoch=1)
        driver: object = self._drivers[plan.driver]
        if isinstance(driver, NamedByClient):
            # If this start is interrupted, the conversation is found in these folders.
            planned = replace(planned, places=driver.conversation_folders(request.environ))
        record, managed = await self._start(plan, planned, request, on_started)
        return record if managed is None else replace(record, session_id=managed.session_id)

    async def _start(
        self, plan: StartPlan, planned: ManagedSession, request: RunRequest, on_started: OnStarted
    ) -> tuple[ActionRecord, ManagedSession | None]:
        async def perform(intent_id: str) -> ActionResult:
            start_request = self._start_request(plan, request, planned.epoch, intent_id)
            result = await self._start_process(planned, start_request, on_started)
            if result.hosting is not None:
                # Inside the gate: the next action must find the whole result.
                try:
                    await self._managed_sessions.save_result(result.hosting)
                except WorldError as error:
                    log.warning("%s is kept as it began: %s", result.hosting.session_id, error)
            return result

        def refusal_reason() -> str | None:
            if self._mode == "observe":
                return OBSERVING
            return running_process_reason(self._processes, planned.session_id)

        intent = ActionIntent(planned, len(plan.prompt or ""))
        return await self._gate.execute(
            ActionKind.START, planned.session_id, intent, refusal_reason, perform, by_itself=self._automatic
        )

    async def _start_process(
        self, planned: ManagedSession, request: StartRequest, on_started: OnStarted
    ) -> ActionResult:
        driver = self._drivers[planned.driver]

        async def start_or_stop(managed: ManagedSession) -> None:
            try:
                await on_started(managed)
            except BaseException:
                # A process that is not stored could not be found again, so it must not run.
                await driver.stop(managed)
                raise

        try:
            return await driver.start(request, start_or_stop)
        except BaseException:
            # Inside the gate: a waiting action must not find a session that never started.
            await self._managed_sessions.abandon(planned)
            raise

    def _planned_session(
        self, plan: StartPlan, session_id: SessionId, request: RunRequest, epoch: int
    ) -> ManagedSession:
        return ManagedSession(
            session_id=session_id,
            conversation_id=plan.conversation_id or ConversationId(""),
            driver=plan.driver,
            cwd=request.cwd,
            argv=plan.argv,
            epoch=epoch,
            since=self._clock.now().wall,
            name=plan.name,
        )

    def _start_request(
        self, plan: StartPlan, request: RunRequest, epoch: int, intent_id: str
    ) -> StartRequest:
        return StartRequest(
            session_id=plan.session_id,
            conversation_id=plan.conversation_id,
            epoch=epoch,
            intent_id=intent_id,
            cwd=request.cwd,
            argv=plan.argv,
            environ=environment(request.environ),
            prompt=plan.prompt,
            prompt_id=plan.prompt_id,
            name=plan.name,
        )


def running_process_reason(processes: HostProcesses, session_id: SessionId) -> str | None:
    """Why a session must not be started: a process has Wakeful's variable for it, before its client registers."""
    carriers = processes.processes_with_variable(SESSION_VARIABLE, session_id)
    return f"process {carriers[0].pid} was started for it and is alive" if carriers else None
