"""A gateway without a chat service and without a daemon, in virtual time; killed and started again on one store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from support.fake_sessions_and_answers import (
    FakeAnswers,
    FakeAuthGate,
    FakeFinish,
    ScriptedChat,
    ScriptedSessions,
)
from wakeful.client.api import SessionsApi, Workspace
from wakeful.core.clock import Clock
from wakeful.gateway.follow_ups import FollowUpRules, FollowUps
from wakeful.gateway.intake import Intake
from wakeful.gateway.permissions import ChatQuestions
from wakeful.gateway.ports import Chat
from wakeful.gateway.prompt_delivery import PromptDelivery
from wakeful.gateway.provider_guard import ProviderGuard
from wakeful.gateway.rules.access import Role, stranger_line
from wakeful.gateway.rules.breaker import Thresholds
from wakeful.gateway.rules.messages import ButtonPress, ConversationKey, IncomingMessage
from wakeful.gateway.rules.pool import Pool, PoolLimits
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.turn_context import AnswerFactory, TurnLimits
from wakeful.gateway.turn_listener import AnswerJudge
from wakeful.gateway.turn_queue import TurnQueue
from wakeful.gateway.turn_runner import TurnChecks, TurnOutput, TurnRunner
from wakeful.gateway.turn_store import Conversations, TurnStore
from wakeful.gateway.withheld import WithheldAnswers
from wakeful.storage.base import Store
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

BOT = "99"
# The default provider; the fixture `provider` sets it.
PROVIDER = "claude"


class GatewayParts:
    """The parts that outlive a gateway."""

    def __init__(self, *, provider: str = "", limits: TurnLimits | None = None) -> None:
        self.clock = VirtualClock()
        self.store: Store = MemoryStore(now=lambda: self.clock.now().wall)
        self.chat = ScriptedChat()
        self.sessions = ScriptedSessions()
        self.slate = FakeAnswers()
        self.plain = FakeFinish()
        self.door = FakeAuthGate()
        self.provider = provider or PROVIDER
        # Options of new sessions, as in the configuration.
        self.flags: tuple[str, ...] = ()
        self.limits = limits or TurnLimits()
        self.pool_limits = PoolLimits()
        self.heard_users = {42}
        self.admins: set[int] = set()
        self.bot = BOT
        self.bot_name = "our_bot"
        self.paused = False
        # Status reports for outside observers, the newest last.
        self.told: list[str] = []

    async def receive(self, *updates: IncomingMessage | ButtonPress, seconds: float = 1.0) -> None:
        """Updates arrive, and this time passes."""
        self.chat.write(*updates)
        await self.clock.run_for(seconds)

    def key_of(self, update_id: int) -> str:
        return f"tg-{self.bot}-{update_id}"


@asynccontextmanager
async def opened(
    parts: Callable[[], GatewayParts] = GatewayParts,
) -> AsyncIterator[tuple[GatewayParts, "Gateway"]]:
    """One gateway with parts of its own; nothing of it may have failed."""
    world = parts()
    gateway = Gateway(world)
    await gateway.start()
    try:
        yield world, gateway
        assert gateway.failed == []
    finally:
        await gateway.end()


class Gateway:
    """One run of a gateway, with everything that the composition joins."""

    def __init__(
        self,
        parts: GatewayParts,
        *,
        clock: Clock | None = None,
        chat: Chat | None = None,
        sessions: SessionsApi | None = None,
        answers: AnswerFactory | None = None,
        seat: Workspace | None = None,
    ) -> None:
        self.parts = parts
        clock, chat = self._clock, self._chat = clock or parts.clock, chat or parts.chat
        sessions = sessions or parts.sessions
        self._seat = seat
        self.book = TurnStore(parts.store, clock, parts.bot)
        self.conversations = Conversations(parts.store)
        self.questions = ChatQuestions(
            chat=chat,
            answers=answers or parts.slate,
            sessions=sessions,
            store=parts.store,
            clock=clock,
            conversations=self.conversations,
            role_of=self._role_of,
            seconds_max=parts.limits.question,
        )
        prompt_delivery = PromptDelivery(
            sessions=sessions,
            clock=clock,
            turn_store=self.book,
            conversations=self.conversations,
            workspace_for=self.seat_for,
            limits=parts.limits,
        )
        thresholds = {"claude": Thresholds(), "codex": Thresholds()}
        self.guard = ProviderGuard(clock, parts.door, thresholds)
        self.judging = AnswerJudge()
        self.course = TurnRunner(
            clock=clock,
            sessions=sessions,
            turn_store=self.book,
            prompt_delivery=prompt_delivery,
            questions=self.questions,
            checks=TurnChecks(self.guard, self.judging),
            output=TurnOutput(answers or parts.slate, parts.plain, parts.plain),
            limits=parts.limits,
        )
        self.turns = TurnQueue(
            clock=clock,
            pool=Pool[Turn](parts.pool_limits),
            turn_store=self.book,
            conversations=self.conversations,
            questions=self.questions,
            runner=self.course,
            sessions=sessions,
            is_paused=self._is_paused,
        )
        self.intake = Intake(
            chat=chat,
            clock=clock,
            turn_store=self.book,
            turns=self.turns,
            context=self,
            commands={"stop": self._stop, "new": self._new},
            presses=[
                self.questions.on_press,
                self._follow_ups().on_press,
                self._withheld(chat, answers).on_press,
            ],
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def _is_paused(self) -> bool:
        return self.parts.paused

    def seat_for(self, key: ConversationKey) -> Workspace:
        if self._seat is not None:
            return self._seat
        argv = (self.parts.provider, *self.parts.flags)
        return Workspace(self.parts.provider, "/folder", argv, {}, key.replace(":", "-"))

    async def start(self) -> None:
        await self.turns.restore()
        self._tasks = [asyncio.create_task(self.turns.run()), asyncio.create_task(self.intake.run())]

    async def end(self) -> None:
        """End it as a signal does."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    @property
    def failed(self) -> Sequence[BaseException]:
        done = [each for each in self._tasks if each.done() and not each.cancelled()]
        return [error for each in done if (error := each.exception()) is not None]

    def _withheld(self, chat: Chat, answers: AnswerFactory | None) -> WithheldAnswers:
        return WithheldAnswers(
            chat=chat, answers=answers or self.parts.slate, turn_store=self.book, role_of=self._role_of
        )

    def _role_of(self, user_id: int) -> Role:
        return Role.ADMIN if user_id in self.parts.admins else Role.USER

    def _follow_ups(self) -> FollowUps:
        return FollowUps(
            chat=self._chat,
            answers=self.parts.slate,
            clock=self._clock,
            models={},
            rules=FollowUpRules(),
            turns=self,
        )

    # What follow-ups ask.
    async def find(self, update_id: int) -> Turn | None:
        return await self.book.find(update_id)

    async def newest_answer(self, key: ConversationKey) -> Turn | None:
        return await self.book.newest_answer(key)

    async def queue(self, turn: Turn) -> None:
        await self.intake.queue(await self.book.save(turn))

    def describe(self, turn: Turn) -> str:
        return turn.session_id

    # What the intake asks.
    def is_allowed(self, update: IncomingMessage | ButtonPress) -> bool:
        return update.user_id in self.parts.heard_users

    async def try_pairing(self, message: IncomingMessage) -> bool:
        del message
        return False

    def stranger_line(self, user_id: int) -> str:
        return stranger_line(user_id)

    def prompt_of(self, message: IncomingMessage) -> str:
        return message.text

    def own_name(self) -> str:
        return self.parts.bot_name

    def report_problem(self, words: str) -> None:
        self.parts.told.append(words)

    async def _stop(self, incoming: IncomingMessage, _arguments: str) -> str:
        return await self.turns.stop(incoming.place.key)

    async def _new(self, incoming: IncomingMessage, _arguments: str) -> str:
        return await self.turns.start_new_conversation(incoming.place.key)
