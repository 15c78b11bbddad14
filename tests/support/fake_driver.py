"""A driver and a world for tests of the hands: they do what the test says and remember what was asked of them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from wakeful.control.driver import Begun, Order, Question, Reply, Seen, unannounced
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.storage.base import Outcome

BOOT: Final = "a-boot-of-a-test"


async def _at_once() -> None: ...


class ScriptedDriver:
    """Implements the Driver port. `before` runs inside every act; `outcome` is what each is said to have had."""

    def __init__(self, name: str = "claude") -> None:
        self.name = name
        self.per_turn = name == "codex"
        self.asked: list[tuple[str, Hosting | Order]] = []
        self.outcome = Outcome.RECOVERED
        self.problem: Exception | None = None
        self.environ: Mapping[str, str] | None = None
        self.names_itself: SessionId | None = None
        self.lost = False
        self.before: Callable[[], None] = lambda: None
        # Runs between the begin of a start and its end.
        self.settled: Callable[[], Awaitable[None]] = _at_once

    def is_open(self, hosting: Hosting) -> bool:
        return hosting.process is not None

    def is_lost(self, hosting: Hosting) -> bool:
        del hosting
        return self.lost

    async def start(self, order: Order, begun: Begun = unannounced) -> Seen:
        self._do("start", order)
        if self.outcome is not Outcome.RECOVERED:
            return Seen(self.outcome, "not started")
        session_id = self.names_itself or order.session_id
        assert session_id is not None, "a test that starts an unnamed client names it"
        hosting = Hosting(
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
        await begun(hosting)
        await self.settled()
        return Seen(Outcome.RECOVERED, "started", hosting)

    async def resume(self, hosting: Hosting, order: Order) -> Seen:
        del hosting
        return await self.start(order)

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        self.environ = environ
        return self._do(f"deliver {prompt}", hosting)

    async def questions(self, hosting: Hosting) -> tuple[Question, ...]:
        self._do("questions", hosting)
        return (Question("q1", "Bash", "touch x"),)

    async def answer(self, hosting: Hosting, question_id: str, reply: Reply) -> Seen:
        return self._do(f"answer {question_id} {reply}", hosting)

    async def interrupt(self, hosting: Hosting) -> Seen:
        return self._do("interrupt", hosting)

    async def stop(self, hosting: Hosting) -> Seen:
        return self._do("stop", hosting)

    def _do(self, act: str, to: Hosting | Order) -> Seen:
        self.asked.append((act, to))
        self.before()
        if self.problem is not None:
            raise self.problem
        return Seen(self.outcome, "as scripted")

    @property
    def acts(self) -> list[str]:
        return [act for act, _ in self.asked]


class ScriptedWorld:
    """Implements the World the hands ask. Processes carry the variables a test gives them."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, str], list[Process]] = {}
        self.dead: set[Process] = set()
        self.registered: list[str] = []

    def carriers(self, variable: str, value: str) -> list[Process]:
        return list(self.marks.get((variable, value), ()))

    def sight(self, process: Process) -> Sight:
        return Sight.DEAD if process in self.dead else Sight.ALIVE

    def kept_back(self, process: Process) -> tuple[str, ...]:
        del process
        return ()

    def command(self, process: Process) -> tuple[str, ...]:
        del process
        return ("claude", "--model", "opus")

    def environ(self) -> Mapping[str, str]:
        return {"PATH": "/usr/bin"}

    def register(self, name: str, process: Process, cwd: str) -> None:
        del process, cwd
        self.registered.append(name)
