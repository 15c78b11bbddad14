"""Receives chat updates and turns them into commands, button presses or turns.

None is lost or taken twice: an update is stored before it is confirmed to the chat service. Unknown users get
no answer; the log names the user and the configuration that would allow them.
"""

import asyncio
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from wakeful.client.errors import DaemonRefused
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.gateway.ports import (
    BotInUse,
    BotRejected,
    Chat,
    ChatFlooded,
    send_notice,
    try_answer_press,
)
from wakeful.gateway.rules.messages import (
    ButtonPress,
    ConversationKey,
    IgnoredUpdate,
    IncomingMessage,
    Place,
    Update,
)
from wakeful.gateway.rules.turn import Turn, TurnStage
from wakeful.gateway.turn_queue import TurnQueue
from wakeful.gateway.turn_store import TurnStore

# The Bot API keeps a long poll open for at most 50 s; proxies on the way give up earlier.
POLL_SECONDS: Final = 25.0
PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
# Two programs that read the same bot's updates displace each other in turns. After so long without that, no other
# program reads.
CONFLICT_SECONDS: Final = 600.0
# The shortest time between two notices in one conversation about messages that cannot be taken.
REMARK_SECONDS: Final = 60.0
STRANGERS_MAX: Final = 1000
ONLY_TEXT: Final = "I can read text only. Please write what you would like me to do."
TOO_MANY: Final = "Too many messages are waiting. Please wait for the answers, or send /stop."
NOT_DONE: Final = "This did not work. Please try again in a moment."
NO_SUCH_COMMAND: Final = "Unknown command {command}. Commands: {known}."

log = logging.getLogger("wakeful.gateway")

Command = Callable[[IncomingMessage, str], Awaitable[str]]
"""Runs a command with these arguments; returns the reply, empty for none."""

PressHandler = Callable[[ButtonPress], Awaitable[bool]]
"""Handles a press; False if the button belongs to another part."""


class IntakeContext(Protocol):
    """Answers the intake's questions about people and prompts, and takes its problems."""

    def is_allowed(self, update: IncomingMessage | ButtonPress) -> bool:
        """Whether its user may write."""

    async def try_pairing(self, message: IncomingMessage) -> bool:
        """Whether the message of an unknown user was the pairing code."""

    def stranger_line(self, user_id: int) -> str:
        """The log line about an unknown user."""

    def prompt_of(self, message: IncomingMessage) -> str:
        """The prompt that a message becomes."""

    def own_name(self) -> str:
        """The name of the bot; empty while it is not known."""

    def report_problem(self, words: str) -> None:
        """No updates arrive, for this reason; empty: they arrive again."""


class Intake:
    def __init__(
        self,
        *,
        chat: Chat,
        clock: Clock,
        turn_store: TurnStore,
        turns: TurnQueue,
        context: IntakeContext,
        commands: Mapping[str, Command],
        presses: Sequence[PressHandler],
    ) -> None:
        self._chat = chat
        self._clock = clock
        self._turn_store = turn_store
        self._turns = turns
        self._context = context
        self._commands = commands
        self._press_handlers = presses
        self._strangers: set[int] = set()
        self._remarked_at: dict[ConversationKey, float] = {}
        # The last task of each conversation: its updates are handled in their order.
        self._order_tasks: dict[ConversationKey, asyncio.Task[None]] = {}
        # The newest update of the last poll, which the next poll confirms; 0 after an empty poll. Then everything is
        # confirmed, and the service may begin with any number again.
        self._last_update_id = 0
        # The code of the error that keeps updates from arriving, for /health; None while they arrive.
        self.problem: str | None = None
        # When another program was seen reading this bot's updates, the newest last.
        self._conflicts_at: list[float] = []

    async def run(self) -> None:
        """Call after the turns were restored."""
        failures = 0
        self._context.report_problem("")
        presses, self._turns.presses = self._turns.presses, []
        for row in presses:
            self._enqueue(row.key, self._handle_press(row))
        try:
            while True:
                try:
                    await self._poll()
                    failures = 0
                    self._on_poll_success()
                except WorldError as problem:
                    await self._pause(problem, failures)
                    failures += 1
        except asyncio.CancelledError:
            # Only a cancellation ends the tasks: after any other end they go on, and `run` is called again.
            for task in list(self._order_tasks.values()):
                task.cancel()
            await asyncio.gather(*self._order_tasks.values(), return_exceptions=True)
            raise

    async def _poll(self) -> None:
        updates = await self._chat.updates(self._last_update_id, POLL_SECONDS)
        await self.accept(updates)
        self._last_update_id = max((each.update_id for each in updates), default=0)

    async def accept(self, updates: Sequence[Update]) -> None:
        """Store the updates to handle, all or none, before any of them is handled."""
        by_id = {each.update_id: each for each in updates if not isinstance(each, IgnoredUpdate)}
        rows = [row for each in by_id.values() if (row := await self._row_if_allowed(each)) is not None]
        for row in await self._accept_rows(rows):
            self._enqueue(row.key, self._begin(by_id[row.update_id], row))

    async def _row_if_allowed(self, update: IncomingMessage | ButtonPress) -> Turn | None:
        """The row of an update; None: ignored. One that raises is ignored too: else the service sends it for ever."""
        try:
            return self._row(update) if await self._is_from_allowed_user(update) else None
        except WorldError:
            raise
        except Exception:
            log.exception("update %d was skipped", update.update_id)
            return None

    async def _accept_rows(self, rows: Sequence[Turn]) -> list[Turn]:
        """Store all of them or none; if one of them raises in the store, all but that one."""
        try:
            return await self._turn_store.accept(rows)
        except WorldError:
            raise
        except Exception:
            if len(rows) == 1:
                log.exception("update %d was skipped", rows[0].update_id)
                return []
            return [stored for row in rows for stored in await self._accept_rows([row])]

    async def _is_from_allowed_user(self, update: IncomingMessage | ButtonPress) -> bool:
        if self._context.is_allowed(update):
            return True
        if isinstance(update, IncomingMessage) and await self._context.try_pairing(update):
            return False
        if update.user_id not in self._strangers and len(self._strangers) < STRANGERS_MAX:
            self._strangers.add(update.user_id)
            log.warning("%s", self._context.stranger_line(update.user_id))
        return False

    def _row(self, update: IncomingMessage | ButtonPress) -> Turn:
        """The row of an update in the store.

        A command is stored as done: after a crash it is not run again. A press is handled again.
        """
        prompt = ""
        if isinstance(update, IncomingMessage) and _is_prompt(update):
            prompt = _prompt(self._context.prompt_of(update))
        press = update if isinstance(update, ButtonPress) else None
        return Turn(
            update_id=update.update_id,
            place=update.place,
            message_id=update.message_id,
            user_id=update.user_id,
            at=self._clock.now().wall,
            prompt=prompt,
            stage=TurnStage.ACCEPTED if prompt or press else TurnStage.DONE,
            pressed=press,
        )

    async def _begin(self, update: IncomingMessage | ButtonPress, turn: Turn) -> None:
        if isinstance(update, ButtonPress):
            await self._handle_press(turn)
        elif turn.stage is TurnStage.ACCEPTED:
            await self.queue(turn)
        elif not update.edited and not self._is_for_another(update):
            await self._answer_at_once(update)

    async def queue(self, turn: Turn) -> None:
        """Run a turn that has a row; if too many wait, its user gets a notice."""
        if not self._turns.add(turn):
            await self._turn_store.save(replace(turn, stage=TurnStage.FAILED, fault="queue_full"))
            await self._send_limited(turn.place, TOO_MANY)

    async def _answer_at_once(self, message: IncomingMessage) -> None:
        """Answer a command, or a message without text that can be read."""
        if not _printable(message.text).strip():
            await self._send_limited(message.place, ONLY_TEXT)
            return
        word, _, arguments = message.text.strip().partition(" ")
        name = word[1:].partition("@")[0].lower()
        command = self._commands.get(name)
        if command is None:
            known = " ".join(f"/{each}" for each in sorted(self._commands))
            words = NO_SUCH_COMMAND.format(command=f"/{name[:32]}", known=known)
        else:
            words = await self._run_command(command, message, arguments.strip())
        if words:
            await send_notice(self._chat, message.place, words)

    def _is_for_another(self, message: IncomingMessage) -> bool:
        """Whether it is a command for another bot of the same chat. False until the own name is known."""
        own, named = self._context.own_name().lower(), _addressed_bot(message.text)
        return bool(own and named) and named != own

    async def _run_command(self, command: Command, message: IncomingMessage, arguments: str) -> str:
        try:
            return await command(message, arguments)
        except (WorldError, DaemonRefused) as problem:
            log.warning("a command of %s failed: %s", message.place.key, problem)
            return NOT_DONE

    async def _handle_press(self, row: Turn) -> None:
        assert row.pressed is not None, "the row of a press"
        if not await self._dispatch_press(row.pressed):
            await try_answer_press(self._chat, row.pressed.press_id)
        await self._turn_store.close_press(row)

    async def _dispatch_press(self, pressed: ButtonPress) -> bool:
        for press in self._press_handlers:
            if await press(pressed):
                return True
        return False

    async def _send_limited(self, place: Place, words: str) -> None:
        now = self._clock.now().awake
        if now - self._remarked_at.get(place.key, now - REMARK_SECONDS) >= REMARK_SECONDS:
            self._remarked_at[place.key] = now
            await send_notice(self._chat, place, words)

    def _enqueue(self, key: ConversationKey, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._run_in_order(self._order_tasks.get(key), work))
        self._order_tasks[key] = task
        task.add_done_callback(lambda done: self._on_order_done(key, done))

    async def _run_in_order(self, before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await work
        except Exception:
            # A bug in one command must not block the others.
            log.exception("a command failed")

    def _on_order_done(self, key: ConversationKey, done: asyncio.Task[None]) -> None:
        if self._order_tasks.get(key) is done:
            del self._order_tasks[key]

    async def _pause(self, problem: WorldError, failures: int) -> None:
        """Log and report each problem once, and wait longer each time."""
        if self.problem != problem.code:
            self.problem = problem.code
            severe = isinstance(problem, BotInUse | BotRejected)
            log.log(logging.ERROR if severe else logging.WARNING, "no updates arrive: %s", problem)
            self._context.report_problem(f"no updates arrive: {problem}")
        if isinstance(problem, BotInUse):
            # Updates that arrive in between do not prove that the other program is gone.
            self._conflicts_at = [*self._recent_conflicts(), self._clock.now().awake]
            failures = len(self._conflicts_at) - 1
        seconds = PAUSE_SECONDS[min(failures, len(PAUSE_SECONDS) - 1)]
        if isinstance(problem, ChatFlooded):
            seconds = problem.retry_after_seconds
        await self._clock.sleep(seconds)

    def _on_poll_success(self) -> None:
        if self.problem is not None and not self._recent_conflicts():
            log.warning("updates arrive again")
            self.problem = None
            self._context.report_problem("")

    def _recent_conflicts(self) -> list[float]:
        since = self._clock.now().awake - CONFLICT_SECONDS
        return [at for at in self._conflicts_at if at > since]


def _is_prompt(message: IncomingMessage) -> bool:
    """Whether it is text for the agent: no command, unless forwarded, and no edit of an earlier message."""
    text = _printable(message.text).strip()
    is_command = text.startswith("/") and not message.forwarded
    return bool(text) and not message.edited and not is_command


def _addressed_bot(text: str) -> str:
    """The bot that a command names, as in `/stop@its_name`; empty if it names none."""
    word = next(iter(_printable(text).split(maxsplit=1)), "")
    return word.partition("@")[2].lower() if word.startswith("/") else ""


def _printable(text: str) -> str:
    """The text without control characters, which no client accepts."""
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cs"))


def _prompt(text: str) -> str:
    """The prompt, marked if a client would take it for its own command. Only forwarded text begins with a slash."""
    words = _printable(text)
    return f"Forwarded: {words}" if words.lstrip().startswith("/") else words
