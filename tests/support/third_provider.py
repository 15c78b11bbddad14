"""A third client in one file: all that Wakeful has to know to answer chats with it. Claimed by test_gateway_providers.py.

Its program, `parrot`, has a process for each turn: it reads a prompt and says it back, a JSON object to a line.
"""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import (
    ActionResult,
    OnStarted,
    PermissionQuestion,
    PermissionReply,
    StartRequest,
    ignore_start,
)
from wakeful.control.login import AuthEvent
from wakeful.control.provider import Provider
from wakeful.control.turn_events import AnswerText, Ended, PromptTaken, Spent, TurnEvent
from wakeful.core.clock import Clock
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import SESSION_VARIABLE, ManagedSession
from wakeful.core.process import ProcessState
from wakeful.integrations.driver_support import (
    RunFolder,
    stop_managed_process,
    unreachable_result,
    with_marks,
)
from wakeful.judging.events import Failure
from wakeful.linux import proc
from wakeful.linux.launch import launch
from wakeful.linux.terminate import has_variable, terminate
from wakeful.storage.base import ActionOutcome


class ParrotDriver:
    """Implements control.driver.Driver."""

    name = "parrot"
    per_turn = True

    def __init__(self, run: Path, clock: Clock, environ: dict[str, str]) -> None:
        self._run = run
        self._clock = clock
        self._environ = environ

    def is_open(self, hosting: ManagedSession) -> bool:
        return hosting.process is None or proc.state_of(hosting.process) is ProcessState.DEAD

    def is_lost(self, hosting: ManagedSession) -> bool:
        del hosting  # the way is open again once its turn is over
        return False

    async def start(self, order: StartRequest, begun: OnStarted = ignore_start) -> ActionResult:
        session_id = order.session_id or SessionId(f"parrot-{order.conversation_id}")
        managed = ManagedSession(
            session_id=session_id,
            conversation_id=order.conversation_id or ConversationId(""),
            driver=self.name,
            cwd=order.cwd,
            argv=order.argv,
            epoch=order.epoch,
            since=self._clock.now().wall,
            name=order.name,
        )
        if order.prompt is None:
            return ActionResult(ActionOutcome.CONFIRMED, "nothing runs until it gets a prompt", managed)
        environ = with_marks(order.environ, session_id, order.epoch, order.intent_id)
        with RunFolder(self._run, session_id).open_prompt_streams(order.prompt) as streams:
            managed = replace(
                managed, process=launch(order.argv, cwd=order.cwd, environ=environ, streams=streams)
            )
        await begun(managed)
        return ActionResult(ActionOutcome.CONFIRMED, "its turn began", managed)

    async def resume(self, hosting: ManagedSession, order: StartRequest) -> ActionResult:
        del hosting
        return await self.start(order)

    async def deliver(
        self, hosting: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        if not self.is_open(hosting):
            return ActionResult(ActionOutcome.DECLINED, "it is still at work")
        request = StartRequest(
            session_id=hosting.session_id,
            conversation_id=hosting.conversation_id,
            epoch=hosting.epoch,
            intent_id="",
            cwd=hosting.cwd,
            argv=hosting.argv,
            environ=self._environ if environ is None else environ,
            resume=True,
            prompt=prompt,
            name=hosting.name,
        )
        return await self.start(request)

    async def questions(self, hosting: ManagedSession) -> tuple[PermissionQuestion, ...]:
        del hosting
        return ()

    async def answer(self, hosting: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:  # noqa: ARG002 - the port's
        return ActionResult(ActionOutcome.DECLINED, "it never asks")

    async def interrupt(self, hosting: ManagedSession) -> ActionResult:
        if hosting.process is None or unreachable_result(hosting) is not None:
            return ActionResult(ActionOutcome.DECLINED, "no turn is running")
        meant = has_variable(SESSION_VARIABLE, hosting.session_id)
        await terminate(hosting.process, ((signal.SIGINT, 5.0),), is_meant=meant)
        return ActionResult(ActionOutcome.CONFIRMED, "its turn was interrupted")

    async def stop(self, hosting: ManagedSession) -> ActionResult:
        return await stop_managed_process(hosting, RunFolder(self._run, hosting.session_id), "PARROT_SESSION")


class _Line(Struct):
    says: str = ""
    failed: str = ""
    ended: bool = False
    tokens: tuple[int, int] = (0, 0)
    cost_usd: float | None = None


class ParrotTurnReader:
    """Implements control.provider.Hearing."""

    def __init__(self, _prompt_id: str) -> None:
        self._text = ""

    def feed(self, line: bytes) -> Sequence[TurnEvent]:
        try:
            said = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            return ()
        if said.failed:
            return (Ended(said.failed, Failure.UNKNOWN),)
        if said.ended:
            spent = Spent(*said.tokens, said.cost_usd)
            return (Ended(self._text, spent=spent, stop_reason="end_turn"),)
        before = () if self._text else (PromptTaken(),)
        self._text += said.says
        return (*before, AnswerText(said.says))

    def on_caught_up(self) -> Sequence[TurnEvent]:
        return ()

    def on_prompt_given(self) -> None:
        pass

    def on_new_process(self) -> bool:
        self._text = ""
        return True


class ParrotLogin:
    """Implements control.login.Login: a bird has none."""

    provider = "parrot"

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        del argv, folder, environ

    async def status(self) -> AuthEvent:
        return AuthEvent.STATUS_GOOD

    async def probe(self) -> AuthEvent:
        return AuthEvent.TURN_WORKED

    def credentials(self) -> str:
        return ""


class ParrotOneShot:
    """Implements control.provider.OneShot: it decides nothing."""

    def __init__(self, argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        del argv, folder, environ

    async def execute(self, prompt: str, seconds_max: float) -> str | None:
        del prompt, seconds_max
        return None


PROVIDER = Provider(
    name="parrot",
    driver=ParrotDriver,
    turn_reader=ParrotTurnReader,
    login=ParrotLogin,
    one_shot=ParrotOneShot,
    flags=lambda mode: ("--mode", mode),
)
