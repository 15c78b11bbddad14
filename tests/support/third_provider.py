"""A third client in one file: all that Wakeful has to know to answer chats with it. Claimed by test_gateway_providers.py.

Its program, `parrot`, has a process for each turn: it reads a prompt and says it back, a JSON object to a line.
"""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import Begun, Order, Question, Reply, Seen, unannounced
from wakeful.control.login import AuthEvent
from wakeful.control.provider import Provider
from wakeful.control.turn_events import Ended, Heard, Spent, Taken, Words
from wakeful.core.clock import Clock
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import SESSION_VARIABLE, Hosting
from wakeful.core.process import Sight
from wakeful.integrations.driver_support import RunFolder, absence, marked, stop_hosted
from wakeful.judging.events import Failure
from wakeful.linux import proc
from wakeful.linux.launch import launch
from wakeful.linux.terminate import carries, end
from wakeful.storage.base import Outcome


class ParrotDriver:
    """Implements control.driver.Driver."""

    name = "parrot"
    per_turn = True

    def __init__(self, run: Path, clock: Clock, environ: dict[str, str]) -> None:
        self._run = run
        self._clock = clock
        self._environ = environ

    def is_open(self, hosting: Hosting) -> bool:
        return hosting.process is None or proc.sight(hosting.process) is Sight.DEAD

    def is_lost(self, hosting: Hosting) -> bool:
        del hosting  # the way is open again once its turn is over
        return False

    async def start(self, order: Order, begun: Begun = unannounced) -> Seen:
        session_id = order.session_id or SessionId(f"parrot-{order.conversation_id}")
        hosting = Hosting(
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
            return Seen(Outcome.RECOVERED, "nothing of it runs until it gets a prompt", hosting)
        environ = marked(order.environ, session_id, order.epoch, order.intent_id)
        with RunFolder(self._run, session_id).reading(order.prompt) as streams:
            hosting = replace(
                hosting, process=launch(order.argv, cwd=order.cwd, environ=environ, streams=streams)
            )
        await begun(hosting)
        return Seen(Outcome.RECOVERED, "its turn began", hosting)

    async def resume(self, hosting: Hosting, order: Order) -> Seen:
        del hosting
        return await self.start(order)

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        if not self.is_open(hosting):
            return Seen(Outcome.DECLINED, "it is still at work")
        order = Order(
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
        return await self.start(order)

    async def questions(self, hosting: Hosting) -> tuple[Question, ...]:
        del hosting
        return ()

    async def answer(self, hosting: Hosting, question_id: str, reply: Reply) -> Seen:  # noqa: ARG002 - the port's
        return Seen(Outcome.DECLINED, "it never asks")

    async def interrupt(self, hosting: Hosting) -> Seen:
        if hosting.process is None or absence(hosting) is not None:
            return Seen(Outcome.DECLINED, "no turn is running")
        meant = carries(SESSION_VARIABLE, hosting.session_id)
        await end(hosting.process, ((signal.SIGINT, 5.0),), is_meant=meant)
        return Seen(Outcome.RECOVERED, "its turn was interrupted")

    async def stop(self, hosting: Hosting) -> Seen:
        return await stop_hosted(hosting, RunFolder(self._run, hosting.session_id), "PARROT_SESSION")


class _Line(Struct):
    says: str = ""
    failed: str = ""
    ended: bool = False
    tokens: tuple[int, int] = (0, 0)
    cost_usd: float | None = None


class ParrotHearing:
    """Implements control.provider.Hearing."""

    def __init__(self, _prompt_id: str) -> None:
        self._text = ""

    def feed(self, line: bytes) -> Sequence[Heard]:
        try:
            said = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:
            return ()
        if said.failed:
            return (Ended(said.failed, Failure.UNKNOWN),)
        if said.ended:
            spent = Spent(*said.tokens, said.cost_usd)
            return (Ended(self._text, spent=spent, stop_reason="end_turn"),)
        before = () if self._text else (Taken(),)
        self._text += said.says
        return (*before, Words(said.says))

    def caught_up(self) -> Sequence[Heard]:
        return ()

    def given_here(self) -> None:
        pass

    def begin_anew(self) -> bool:
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

    async def ask(self, prompt: str, seconds_max: float) -> str | None:
        del prompt, seconds_max
        return None


PROVIDER = Provider(
    name="parrot",
    driver=ParrotDriver,
    hearing=ParrotHearing,
    login=ParrotLogin,
    one_shot=ParrotOneShot,
    flags=lambda mode: ("--mode", mode),
)
