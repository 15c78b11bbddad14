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

# What is thrown away after a day is looked for this often.
DROP_SECONDS: Final = 3600.0
# How soon after the end of a pause idle sessions are ended.
PAUSE_CHECK_SECONDS: Final = 10.0
# A turn that a full disk or a bug interrupted. After a bug only the next start tries again.
RETRY_SECONDS: Final = 30.0
TRIES_MAX: Final = 5
# The gateway waits for a missing daemon as long as a turn does (TurnLimits); users of the place wait, too.
END_RETRY_SECONDS: Final = 2.0
AWAY_SECONDS_MAX: Final = 600.0

log = logging.getLogger("wakeful.gateway")


class _EndingSession:
    """A session that is being ended. A person who asked for that waits for the first try only."""

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
        course: TurnRunner,
        sessions: SessionsApi,
        is_paused: Callable[[], Awaitable[bool]],
    ) -> None:
        self._clock = clock
        self.pool = pool
        self._turn_store = turn_store
        self._conversations = conversations
        self._questions = questions
        self._runner = course
        self._sessions = sessions
        self._is_paused = is_paused
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        # Sessions that are being ended, by their conversations.
        self._ending_sessions: dict[ConversationKey, _EndingSession] = {}
        self._restored_ids: set[int] = set()
        # Pressed buttons that an earlier gateway did not see to; the intake does.
        self.presses: list[Turn] = []

    async def restore(self) -> int:
        """Go on where an earlier gateway stopped; how many turns of it were open."""
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
        """Its session, empty if it has none; also the one that its first turn has just begun."""
        return self.pool.session_of(key) or self._runner.session_of(key)

    def sessions(self) -> dict[str, ConversationKey]:
        """The sessions of the pool, and whose each is."""
        keys = self.pool.keys()
        held = {self.session_of(key): key for key in keys}
        return {session_id: key for session_id, key in held.items() if session_id}

    async def run(self) -> None:
        """Work until cancelled; what is cut off goes on with the next gateway."""
        dropping_at = self._clock.now().awake
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
                if now >= dropping_at:
                    dropping_at = now + DROP_SECONDS
                    await self._drop_old()
                check_at = now + PAUSE_CHECK_SECONDS if paused else self.pool.next_check_at
                until = min(dropping_at, check_at or dropping_at)
                await wait_for_event_or_deadline(self._clock, self._wake, until)
        except asyncio.CancelledError:
            # Whatever else ends this loop, the turns that run go on, and so does the next run of it.
            self._questions.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise

    async def stop(self, key: ConversationKey, cut: StopScope = StopScope.TURN) -> str:
        """/stop: the turn that runs is cut short, what waits behind it is not done. What to say."""
        evicted = self.pool.evict(key, EvictionReason.STOP, self._clock.now().awake)
        dropped = evicted.dropped if evicted is not None else ()
        if evicted is not None and evicted.session_id:
            # Only its turn ends: the session stays, unless it is being ended anyway.
            is_leaving = key in self._ending_sessions
            self.pool.hold(key, evicted.session_id, self._clock.now().awake, is_leaving=is_leaving)
        await self._drop(dropped)
        running = self.pool.is_busy(key)
        if running:
            await self._runner.stop(key, cut)
        return STOPPED_TEXT if running or dropped else "Nothing is running."

    async def stop_all(self) -> int:
        """End every session, what runs and waits in it included; conversations go on with their next message. How many."""
        sessions = {key: self.session_of(key) for key in self.pool.keys()}  # noqa: SIM118 - it is no dict
        for evicted in self.pool.evict_all(EvictionReason.STOP_ALL, self._clock.now().awake):
            await self._drop(evicted.dropped)
        for key in sessions:
            if self.pool.is_busy(key):
                await self._runner.stop(key)
        leaving = [
            self._end_session(Evicted[Turn](key, session_id, EvictionReason.STOP_ALL))
            for key, session_id in sessions.items()
            if session_id
        ]
        await asyncio.gather(*(each.first_try.wait() for each in leaving))
        return len(leaving)

    async def start_new_conversation(self, key: ConversationKey) -> str:
        """/new: the conversation is over, and the next message begins another one. What to say."""
        await self.stop(key, StopScope.CONVERSATION)
        evicted = self.pool.evict(key, EvictionReason.STOP, self._clock.now().awake)
        await self._forget(key, evicted.session_id if evicted is not None else "")
        return "A new conversation begins with your next message."

    async def restart(self, key: ConversationKey, *, even_busy: bool = False) -> bool:
        """End the session of a key, whose conversation its next message resumes. False: it has none, or is at work.

        `even_busy`: in the middle of a turn too, which goes on in the process that is started then.
        """
        if self.pool.is_busy(key):
            return even_busy and await self._runner.replace_process(key)
        evicted = self.pool.evict(key, EvictionReason.RESTART, self._clock.now().awake)
        if evicted is None or not evicted.session_id:
            return False
        await self._end_session(evicted).first_try.wait()
        return True

    async def restart_all(self) -> int:
        """The same for every key, at work or not; how many. One that cannot be is left, and the others are not."""
        keys = self.pool.keys()
        return sum([await self._try_restart(key) for key in keys])

    async def _try_restart(self, key: ConversationKey) -> bool:
        try:
            return await self.restart(key, even_busy=True)
        except WakefulError as problem:
            log.warning("%s was not restarted: %s", key, problem)
            return False

    async def adopt_replacements(self) -> None:
        """Give replacements that a healer started between messages the places of the sessions they replaced."""
        keys = self.pool.keys()
        for key in keys:
            session_id = self.pool.session_of(key)
            heir = await self._replacement_of(key, session_id) if session_id else None
            # A message may have arrived meanwhile.
            if heir is None or self.pool.is_busy(key) or self.pool.session_of(key) != session_id:
                continue
            log.warning("%s goes on with %s: %s was given up", key, heir, session_id)
            await self._conversations.replace_session(key, heir)
            self._assign_session(key)

    async def _replacement_of(self, key: ConversationKey, session_id: str) -> SessionId | None:
        try:
            return await self._runner.replacement_of(key, session_id)
        except WakefulError as problem:
            log.info("whether %s was replaced is not known: %s", session_id, problem)
            return None

    def progressing_keys(self, seconds: float) -> frozenset[ConversationKey]:
        """The keys whose turn had an event within so many seconds."""
        keys = self.pool.keys()
        return frozenset(key for key in keys if self._runner.is_active_within(key, seconds))

    def _begin(self, following: Next[Turn]) -> None:
        """Before any other turn: a stop from now on finds it."""
        before = [self._ending_sessions[following.key].task] if following.key in self._ending_sessions else []
        if following.evicted is not None:
            before.append(self._end_session(following.evicted).task)
        self._spawn(self._run_turn(following.key, self._runner.begin(following.item), before))

    def _end_session(self, evicted: Evicted[Turn]) -> _EndingSession:
        """End a session while others continue; only its own conversation waits for that, and the next user of
        its place.
        """
        if evicted.key in self._ending_sessions:
            return self._ending_sessions[evicted.key]
        leaving = self._ending_sessions[evicted.key] = _EndingSession()
        leaving.task = self._spawn(self._stop_evicted(evicted, leaving.first_try))
        leaving.task.add_done_callback(lambda _: self._on_session_ended(evicted.key, leaving))
        return leaving

    def _on_session_ended(self, key: ConversationKey, leaving: _EndingSession) -> None:
        self._ending_sessions.pop(key, None)
        leaving.first_try.set()
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
            self._wake.set()

    async def _run_with_retries(self, context: TurnContext) -> None:
        """What is left in its middle goes on where it was kept last; nothing of its conversation goes before it."""
        turn = context.turn
        for tries in count(1):
            try:
                if tries > 1:
                    context = self._runner.begin(await self._turn_store.reread(turn))
                found = tries > 1 or turn.update_id in self._restored_ids
                if not context.turn.is_over:
                    await self._runner.run(context, self._forget, found=found)
            except (WorldError, DaemonRefused) as problem:
                log.warning("turn %d of %s waits: %s", turn.update_id, turn.key, problem)
            except Exception:
                # A bug in one turn must not block the others.
                log.exception("turn %d of %s was left in its middle", turn.update_id, turn.key)
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
            log.warning("old turns are kept for now: %s", problem)

    async def _drop(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            await self._turn_store.save(replace(turn, stage=TurnStage.FAILED, fault=STOPPED))

    def _assign_session(self, key: ConversationKey) -> None:
        conversation = self._conversations.get(key)
        if conversation is not None and conversation.seated and conversation.session_id:
            self.pool.hold(key, conversation.session_id, self._clock.now().awake)

    async def _stop_evicted(self, evicted: Evicted[Turn], tried: asyncio.Event) -> None:
        """End a session that left the pool, also when the daemon is away for a while. Its conversation stays."""
        log.info(
            "session evicted conversationKey=%s sessionId=%s evictionReason=%s",
            evicted.key,
            evicted.session_id,
            evicted.reason,
        )
        until = self._clock.now().awake + AWAY_SECONDS_MAX
        while not await self._try_stop(evicted):
            # What was not ended still runs: it has its place in the pool, and is counted.
            now = self._clock.now().awake
            self.pool.hold(evicted.key, evicted.session_id, now, is_leaving=now < until)
            if now >= until:
                return
            tried.set()
            await self._clock.sleep_until(now + END_RETRY_SECONDS)
        if self.pool.session_of(evicted.key) == evicted.session_id:
            self.pool.evict(evicted.key, EvictionReason.RESTART, self._clock.now().awake)

    async def _try_stop(self, evicted: Evicted[Turn]) -> bool:
        try:
            if evicted.session_id:
                heir = await self._replacement_of(evicted.key, evicted.session_id)
                leaving = heir or SessionId(evicted.session_id)
                await self._sessions.stop(leaving, by_itself=evicted.reason not in STOPS)
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
