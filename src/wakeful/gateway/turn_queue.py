"""Runs queued turns: one at a time per conversation, many conversations side by side.

The pool decides which turn is next and which session is evicted; this module carries it out. Sessions are
ended through the daemon, never directly.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from wakeful.client.api import SessionsApi
from wakeful.client.errors import DaemonRefused
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.waiting import wait_for_event_or_deadline
from wakeful.gateway.permissions import ChatQuestions
from wakeful.gateway.prompt_delivery import CANNOT_CONTINUE
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.pool import STOPS, Evicted, EvictionReason, Next, Pool
from wakeful.gateway.rules.turn import StopScope, Turn, TurnStage
from wakeful.gateway.turn_context import TurnContext
from wakeful.gateway.turn_listener import STOPPED_TEXT
from wakeful.gateway.turn_runner import STOPPED, TurnRunner
from wakeful.gateway.turn_store import Conversations, TurnStore

# How often turns older than a day are dropped.
DROP_SECONDS: Final = 3600.0
# How soon after the end of a pause idle sessions are ended.
PAUSE_CHECK_SECONDS: Final = 10.0
# Wait before a turn that a full disk or a bug interrupted runs again. After TRIES_MAX retries of a bug only the next
# start tries again.
RETRY_SECONDS: Final = 30.0
TRIES_MAX: Final = 5
# How often, and for how long, ending a session is tried again. The next user of its place waits for that, so it lasts
# no longer than a turn waits for a missing daemon (TurnLimits.away).
END_RETRY_SECONDS: Final = 2.0
AWAY_SECONDS_MAX: Final = 600.0

log = logging.getLogger("wakeful.gateway")


class _EndingSession:
    """A session that is being ended. The person who asked for that waits for the first try only."""

    def __init__(self) -> None:
        self.first_try = asyncio.Event()
        self.task: asyncio.Task[None]


class TurnQueue:
    """Call `restore` once, then `run` until cancelled; `add` what arrives."""

    def __init__(
        self,
        *,
        clock: Clock,
        pool: Pool[Turn],
        turn_store: TurnStore,
        conversations: Conversations,
        questions: ChatQuestions,
        runner: TurnRunner,
        sessions: SessionsApi,
        is_paused: Callable[[], Awaitable[bool]],
    ) -> None:
        self._clock = clock
        self.pool = pool
        self._turn_store = turn_store
        self._conversations = conversations
        self._questions = questions
        self._runner = runner
        self._sessions = sessions
        self._is_paused = is_paused
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        # Sessions that are being ended, by their conversations.
        self._ending_sessions: dict[ConversationKey, _EndingSession] = {}
        # Conversations whose session was starting when all were stopped: it is ended with its turn.
        self._ended_with_turn: set[ConversationKey] = set()
        self._restored_ids: set[int] = set()
        # Presses that an earlier gateway stored and did not handle; the intake does.
        self.presses: list[Turn] = []

    async def restore(self) -> int:
        """Continue where an earlier gateway stopped; returns how many turns were open."""
        await self._conversations.restore()
        await self._questions.restore()
        now = self._clock.now().awake
        for key, conversation in self._conversations.all().items():
            if conversation.seated and conversation.session_id:
                self.pool.hold(key, conversation.session_id, now)
        rows = await self._turn_store.restore()
        self.presses = [row for row in rows if row.pressed is not None]
        turns = [row for row in rows if row.pressed is None]
        self._restored_ids = {turn.update_id for turn in turns}
        for turn in turns:
            self.pool.add(turn.key, turn, is_known=True)
        return len(turns)

    def add(self, turn: Turn) -> bool:
        """Queue a turn that was accepted. False: too many wait in its conversation, and it is not queued."""
        queued = self.pool.add(turn.key, turn)
        self._wake.set()
        return queued

    def session_of(self, key: ConversationKey) -> str:
        """The session of a key, also the one that its first turn has just started; empty if it has none."""
        return self.pool.session_of(key) or self._runner.session_of(key)

    def sessions(self) -> dict[str, ConversationKey]:
        """The keys of the pool, by their sessions."""
        keys = self.pool.keys()
        return {session_id: key for key in keys if (session_id := self.session_of(key))}

    async def run(self) -> None:
        """Run turns until cancelled; those that this interrupts go on with the next gateway."""
        drop_at = self._clock.now().awake
        try:
            while True:
                self._wake.clear()
                now = self._clock.now().awake
                due_at = self.pool.next_check_at
                paused = due_at is not None and due_at <= now and await self._is_paused()
                for evicted in self.pool.expired(now, keeps_idle=paused):
                    self._end_session(evicted)
                while (following := self.pool.next(now)) is not None:
                    self._begin(following)
                if now >= drop_at:
                    drop_at = now + DROP_SECONDS
                    await self._drop_old()
                check_at = now + PAUSE_CHECK_SECONDS if paused else self.pool.next_check_at
                until = min(drop_at, check_at or drop_at)
                await wait_for_event_or_deadline(self._clock, self._wake, until)
        except asyncio.CancelledError:
            # Only a cancellation ends the turns: after any other end they go on, and `run` is called again.
            self._questions.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise

    async def stop(self, key: ConversationKey, cut: StopScope = StopScope.TURN) -> str:
        """/stop: interrupt the running turn and drop those that wait; returns the reply."""
        evicted = self.pool.evict(key, EvictionReason.STOP, self._clock.now().awake)
        dropped = evicted.dropped if evicted is not None else ()
        if evicted is not None and evicted.session_id:
            # Only its turn ends: the session stays, unless it is being ended anyway.
            is_ending = key in self._ending_sessions
            self.pool.hold(key, evicted.session_id, self._clock.now().awake, is_leaving=is_ending)
        await self._drop(dropped)
        running = self.pool.is_busy(key)
        if running:
            await self._runner.stop(key, cut)
        return STOPPED_TEXT if running or dropped else "Nothing is running."

    async def stop_all(self) -> tuple[int, int]:
        """End every session with its running and waiting turns. The next message resumes each.

        Returns how many were ended, and how many are still starting and are ended as soon as they have.
        """
        sessions = {key: self.session_of(key) for key in self.pool.keys()}  # noqa: SIM118 - it is no dict
        starting = {
            key for key, session_id in sessions.items() if not session_id and self._runner.is_starting(key)
        }
        self._ended_with_turn |= starting
        for evicted in self.pool.evict_all(EvictionReason.STOP_ALL, self._clock.now().awake):
            await self._drop(evicted.dropped)
        for key in sessions:
            if self.pool.is_busy(key):
                await self._runner.stop(key)
        ending = [
            self._end_session(Evicted[Turn](key, session_id, EvictionReason.STOP_ALL))
            for key, session_id in sessions.items()
            if session_id
        ]
        await asyncio.gather(*(each.first_try.wait() for each in ending))
        return len(ending), len(starting)

    async def start_new_conversation(self, key: ConversationKey) -> str:
        """/new: end the conversation, so that the next message begins another one; returns the reply."""
        await self.stop(key, StopScope.CONVERSATION)
        evicted = self.pool.evict(key, EvictionReason.STOP, self._clock.now().awake)
        await self._forget(key, evicted.session_id if evicted is not None else "")
        return "Your next message starts a new conversation."

    async def restart(self, key: ConversationKey, *, even_busy: bool = False) -> bool:
        """End the session of a key; its next message resumes the conversation. False: none was ended.

        `even_busy`: also in the middle of a turn, which goes on in a new process. Else a busy one is left alone.
        """
        if self.pool.is_busy(key):
            return even_busy and await self._runner.replace_process(key)
        evicted = self.pool.evict(key, EvictionReason.RESTART, self._clock.now().awake)
        if evicted is None or not evicted.session_id:
            return False
        await self._end_session(evicted).first_try.wait()
        return True

    async def restart_all(self) -> int:
        """Restart every key, busy or not; returns how many. One that fails does not stop the others."""
        keys = self.pool.keys()
        return sum([await self._try_restart(key) for key in keys])

    async def _try_restart(self, key: ConversationKey) -> bool:
        try:
            return await self.restart(key, even_busy=True)
        except WakefulError as problem:
            log.warning("%s was not restarted: %s", key, problem)
            return False

    async def adopt_replacements(self) -> None:
        """Put sessions that the healer started between messages into the places of those they replace."""
        keys = self.pool.keys()
        for key in keys:
            session_id = self.pool.session_of(key)
            replacement = await self._replacement_of(key, session_id) if session_id else None
            # A message may have arrived meanwhile.
            if replacement is None or self.pool.is_busy(key) or self.pool.session_of(key) != session_id:
                continue
            log.warning("%s continues with %s; %s was replaced", key, replacement, session_id)
            await self._conversations.replace_session(key, replacement)
            self._assign_session(key)

    async def _replacement_of(self, key: ConversationKey, session_id: str) -> SessionId | None:
        try:
            return await self._runner.replacement_of(key, session_id)
        except WakefulError as problem:
            log.info("unknown whether %s was replaced: %s", session_id, problem)
            return None

    def progressing_keys(self, seconds: float) -> frozenset[ConversationKey]:
        """The keys whose turn had an event within so many seconds."""
        keys = self.pool.keys()
        return frozenset(key for key in keys if self._runner.is_active_within(key, seconds))

    def _begin(self, following: Next[Turn]) -> None:
        """Start a turn. A stop finds it from now on, also while it waits for sessions that end."""
        before = [self._ending_sessions[following.key].task] if following.key in self._ending_sessions else []
        if following.evicted is not None:
            before.append(self._end_session(following.evicted).task)
        self._spawn(self._run_turn(following.key, self._runner.begin(following.item), before))

    def _end_session(self, evicted: Evicted[Turn]) -> _EndingSession:
        """End a session in the background. Only its own conversation and the next user of its place wait for it."""
        if evicted.key in self._ending_sessions:
            return self._ending_sessions[evicted.key]
        ending = self._ending_sessions[evicted.key] = _EndingSession()
        ending.task = self._spawn(self._stop_evicted(evicted, ending.first_try))
        ending.task.add_done_callback(lambda _: self._on_session_ended(evicted.key, ending))
        return ending

    def _on_session_ended(self, key: ConversationKey, ending: _EndingSession) -> None:
        self._ending_sessions.pop(key, None)
        ending.first_try.set()
        # The next waiting conversation may have the place.
        self._wake.set()

    async def _run_turn(
        self, key: ConversationKey, context: TurnContext, before: Sequence[asyncio.Task[None]]
    ) -> None:
        try:
            if before:
                await asyncio.wait(before)
            await self._run_with_retries(context)
            self._assign_session(key)
        finally:
            self._restored_ids.discard(context.turn.update_id)
            self._runner.finish(key)
            self.pool.done(key, self._clock.now().awake)
            self._end_if_stopped(key)
            self._wake.set()

    def _end_if_stopped(self, key: ConversationKey) -> None:
        """End the session of a turn that was starting it when all were stopped. What was asked since then waits."""
        if key not in self._ended_with_turn:
            return
        self._ended_with_turn.discard(key)
        evicted = self.pool.evict(key, EvictionReason.RESTART, self._clock.now().awake)
        if evicted is not None and evicted.session_id:
            self._end_session(Evicted[Turn](key, evicted.session_id, EvictionReason.STOP_ALL))

    async def _run_with_retries(self, context: TurnContext) -> None:
        """Run a turn; after a failure it goes on from its stored state. Its conversation waits for it."""
        turn = context.turn
        for tries in count(1):
            try:
                if tries > 1:
                    context = self._runner.begin(await self._turn_store.reread(turn))
                is_begun = tries > 1 or turn.update_id in self._restored_ids
                if not context.turn.is_over:
                    await self._runner.run(context, self._forget, is_begun=is_begun)
            except (WorldError, DaemonRefused) as problem:
                log.warning("turn %d of %s waits: %s", turn.update_id, turn.key, problem)
            except Exception:
                # A bug in one turn must not block the others.
                log.exception("turn %d of %s stopped with an error", turn.update_id, turn.key)
                if tries > TRIES_MAX:
                    return
            else:
                return
            await self._clock.sleep(RETRY_SECONDS)

    async def _forget(self, key: ConversationKey, session_id: str) -> None:
        await self._conversations.forget(key)
        self._runner.forget(key)
        if session_id:
            await self._end_session(Evicted[Turn](key, session_id, EvictionReason.STOP)).first_try.wait()

    async def _drop_old(self) -> None:
        try:
            await self._turn_store.drop_old()
        except WorldError as problem:
            log.warning("old turns not deleted yet: %s", problem)

    async def _drop(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            await self._turn_store.save(replace(turn, stage=TurnStage.FAILED, fault=STOPPED))

    def _assign_session(self, key: ConversationKey) -> None:
        conversation = self._conversations.get(key)
        if conversation is not None and conversation.seated and conversation.session_id:
            self.pool.hold(key, conversation.session_id, self._clock.now().awake)

    async def _stop_evicted(self, evicted: Evicted[Turn], first_try: asyncio.Event) -> None:
        """End a session that left the pool, also when the daemon is away for a while. Its conversation stays."""
        log.info(
            "session evicted conversationKey=%s sessionId=%s evictionReason=%s",
            evicted.key,
            evicted.session_id,
            evicted.reason,
        )
        until = self._clock.now().awake + AWAY_SECONDS_MAX
        while not await self._try_stop(evicted):
            # A session that was not ended still runs: it keeps its place in the pool, and counts.
            now = self._clock.now().awake
            self.pool.hold(evicted.key, evicted.session_id, now, is_leaving=now < until)
            if now >= until:
                return
            first_try.set()
            await self._clock.sleep(END_RETRY_SECONDS)
        if self.pool.session_of(evicted.key) == evicted.session_id:
            self.pool.evict(evicted.key, EvictionReason.RESTART, self._clock.now().awake)

    async def _try_stop(self, evicted: Evicted[Turn]) -> bool:
        try:
            if evicted.session_id:
                replacement = await self._replacement_of(evicted.key, evicted.session_id)
                session_id = replacement or SessionId(evicted.session_id)
                await self._sessions.stop(session_id, by_itself=evicted.reason not in STOPS)
            await self._conversations.release_session(evicted.key)
        except DaemonRefused as refused:
            log.warning("%s could not be ended: %s", evicted.session_id, refused)
            return refused.reason in CANNOT_CONTINUE
        except WakefulError as problem:
            log.warning("%s could not be ended: %s", evicted.session_id, problem)
            return False
        return True

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
