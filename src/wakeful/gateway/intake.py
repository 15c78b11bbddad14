"""Receives chat updates and turns them into commands, button presses or turns.

None is lost or taken twice: an update is stored before it is confirmed to the chat service. Unknown users get
no answer; the log names the user and the configuration that would allow them.
"""

import asyncio
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.gateway.ports import Chat, ChatFailed, ChatFlooded, ChatLocked, ChatTaken
from wakeful.gateway.rules.access import stranger_line
from wakeful.gateway.rules.messages import ConversationKey, Ignored, Incoming, Place, Pressed, Update
from wakeful.gateway.rules.turn import Stage, Turn
from wakeful.gateway.turn_queue import Turns
from wakeful.gateway.turn_store import Book

# The Bot API holds a question open for at most 50 s; proxies on the way give up earlier.
POLL_SECONDS: Final = 25.0
PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
# Two programs that read the same bot's updates drive each other away in turns. After so long without it nobody else does.
TAKEN_SECONDS: Final = 600.0
# What is said about a message that cannot be taken is said this often in one conversation.
REMARK_SECONDS: Final = 60.0
STRANGERS_MAX: Final = 1000
ONLY_TEXT: Final = "I can read text only. Please write what you would like me to do."
TOO_MANY: Final = "Too many messages wait here already. Please wait for my answers, or send /stop."
NOT_DONE: Final = "That could not be done now. Please try again in a moment."
NO_SUCH_COMMAND: Final = "I do not know {command}. I know: {known}."

log = logging.getLogger("wakeful.gateway")

Hears = Callable[[Incoming | Pressed], bool]
"""Whether this person is heard there."""

Command = Callable[[Incoming, str], Awaitable[str]]
"""Does what a command with these arguments asks for; what to say, or nothing."""

Press = Callable[[Pressed], Awaitable[bool]]
"""Takes a pressed button; False if it is not one of its own."""


async def nobody(_message: Incoming) -> bool:
    """Strangers cannot introduce themselves."""
    return False


class Intake:
    """Reads updates until cancelled. `introduced` is asked about strangers' messages: whether one was a pairing."""

    def __init__(
        self,
        *,
        chat: Chat,
        clock: Clock,
        book: Book,
        turns: Turns,
        hears: Hears,
        prompt_of: Callable[[Incoming], str],
        commands: Mapping[str, Command],
        presses: Sequence[Press],
        introduced: Callable[[Incoming], Awaitable[bool]] = nobody,
        stranger_words: Callable[[int], str] = stranger_line,
        own_name: Callable[[], str] = str,
        tell: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._chat = chat
        self._clock = clock
        self._book = book
        self._turns = turns
        self._hears = hears
        self._prompt_of = prompt_of
        self._commands = commands
        self._presses = presses
        self._introduced = introduced
        self._stranger_line = stranger_words
        self._own_name = own_name
        self._strangers: set[int] = set()
        self._remarked_at: dict[ConversationKey, float] = {}
        # What was asked for in one conversation is done in its order.
        self._lines: dict[ConversationKey, asyncio.Task[None]] = {}
        # The newest of what was read last: the next question confirms it. What came before an empty answer is confirmed, and
        # then the service may begin again with any number.
        self._after = 0
        # Why nothing arrives, for /health; None while all is well. The words of it are told to whoever looks from outside.
        self.trouble: str | None = None
        self._tell = tell
        # Times we were driven away, the newest last.
        self._taken_at: list[float] = []

    async def run(self) -> None:
        """Call after the turns were taken up."""
        failures = 0
        self._tell("")
        presses, self._turns.presses = self._turns.presses, []
        for row in presses:
            self._in_line(row.key, self._press(row))
        try:
            while True:
                try:
                    await self._poll()
                    failures = 0
                    self._recovered()
                except WorldError as problem:
                    await self._pause(problem, failures)
                    failures += 1
        except asyncio.CancelledError:
            # Whatever else ends this loop, orders that are being carried out go on, and so does the next run of it.
            for task in list(self._lines.values()):
                task.cancel()
            await asyncio.gather(*self._lines.values(), return_exceptions=True)
            raise

    async def _poll(self) -> None:
        updates = await self._chat.updates(self._after, POLL_SECONDS)
        await self.take(updates)
        self._after = max((each.update_id for each in updates), default=0)

    async def take(self, updates: Sequence[Update]) -> None:
        """Keep what is to be worked on, all of it or nothing, before anything of it is begun."""
        heard = {each.update_id: each for each in updates if not isinstance(each, Ignored)}
        rows = [row for each in heard.values() if (row := await self._heard(each)) is not None]
        for row in await self._accepted(rows):
            self._in_line(row.key, self._begin(heard[row.update_id], row))

    async def _heard(self, update: Incoming | Pressed) -> Turn | None:
        """Its row; None for what is not heard. One that raises is left out: the service would send it for ever."""
        try:
            return self._row(update) if await self._is_heard(update) else None
        except WorldError:
            raise
        except Exception:
            log.exception("update %d was left out", update.update_id)
            return None

    async def _accepted(self, rows: Sequence[Turn]) -> list[Turn]:
        """Keep all of them or none; if one of them raises in the store, all but that one."""
        try:
            return await self._book.accept(rows)
        except WorldError:
            raise
        except Exception:
            if len(rows) == 1:
                log.exception("update %d was left out", rows[0].update_id)
                return []
            return [kept for row in rows for kept in await self._accepted([row])]

    async def _is_heard(self, update: Incoming | Pressed) -> bool:
        if self._hears(update):
            return True
        if isinstance(update, Incoming) and await self._introduced(update):
            return False
        if update.user_id not in self._strangers and len(self._strangers) < STRANGERS_MAX:
            self._strangers.add(update.user_id)
            log.warning("%s", self._stranger_line(update.user_id))
        return False

    def _row(self, update: Incoming | Pressed) -> Turn:
        """Its row of the book.

        A command is over as soon as it is known: nobody repeats it but whoever gave it. A press may be repeated.
        """
        is_turn = isinstance(update, Incoming) and _is_prompt(update)
        pressed = update if isinstance(update, Pressed) else None
        return Turn(
            update_id=update.update_id,
            place=update.place,
            message_id=update.message_id,
            user_id=update.user_id,
            at=self._clock.now().wall,
            prompt=_prompt(self._prompt_of(update)) if is_turn and isinstance(update, Incoming) else "",
            stage=Stage.ACCEPTED if is_turn or pressed else Stage.DONE,
            pressed=pressed,
        )

    async def _begin(self, update: Incoming | Pressed, turn: Turn) -> None:
        if isinstance(update, Pressed):
            await self._press(turn)
        elif turn.stage is Stage.ACCEPTED:
            await self.queue(turn)
        elif not update.edited and not self._is_for_another(update):
            await self._answer_at_once(update)

    async def queue(self, turn: Turn) -> None:
        """Have a turn done that has a row; where too many wait, whoever asked is told."""
        if not self._turns.add(turn):
            await self._book.keep(replace(turn, stage=Stage.FAILED, fault="queue_full"))
            await self._remark(turn.place, TOO_MANY)

    async def _answer_at_once(self, message: Incoming) -> None:
        """A command, or nothing that can be read."""
        if not _words(message.text).strip():
            await self._remark(message.place, ONLY_TEXT)
            return
        word, _, arguments = message.text.strip().partition(" ")
        name = word[1:].partition("@")[0].lower()
        command = self._commands.get(name)
        if command is None:
            known = " ".join(f"/{each}" for each in sorted(self._commands))
            words = NO_SUCH_COMMAND.format(command=f"/{name[:32]}", known=known)
        else:
            words = await self._done(command, message, arguments.strip())
        if words:
            await self._say(message.place, words)

    def _is_for_another(self, message: Incoming) -> bool:
        """Whether it is a command for another bot of the same chat. Before our own name is known none is."""
        own, named = self._own_name().lower(), _named(message.text)
        return bool(own and named) and named != own

    async def _done(self, command: Command, message: Incoming, arguments: str) -> str:
        try:
            return await command(message, arguments)
        except WorldError as problem:
            log.warning("an order of %s was not carried out: %s", message.place.key, problem)
            return NOT_DONE

    async def _press(self, row: Turn) -> None:
        assert row.pressed is not None, "the row of a press"
        if not await self._is_taken(row.pressed):
            try:
                # A client shows that it waits until somebody says something.
                await self._chat.settle_press(row.pressed.press_id)
            except ChatFailed as problem:
                log.info("a press was not settled: %s", problem)
        await self._book.close_press(row)

    async def _is_taken(self, pressed: Pressed) -> bool:
        for press in self._presses:
            if await press(pressed):
                return True
        return False

    async def _remark(self, place: Place, words: str) -> None:
        now = self._clock.now().awake
        if now - self._remarked_at.get(place.key, now - REMARK_SECONDS) >= REMARK_SECONDS:
            self._remarked_at[place.key] = now
            await self._say(place, words)

    async def _say(self, place: Place, words: str) -> None:
        try:
            await self._chat.send(place, words)
        except ChatFailed as problem:
            # It may have arrived, and is not worth being said twice.
            log.warning("unverified in %s: %s", place.key, problem)

    def _in_line(self, key: ConversationKey, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._after_others(self._lines.get(key), work))
        self._lines[key] = task
        task.add_done_callback(lambda done: self._left_line(key, done))

    async def _after_others(self, before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await work
        except Exception:
            # One order that fails by a bug of ours must not keep the others from being heard.
            log.exception("an order was not carried out")

    def _left_line(self, key: ConversationKey, done: asyncio.Task[None]) -> None:
        if self._lines.get(key) is done:
            del self._lines[key]

    async def _pause(self, problem: WorldError, failures: int) -> None:
        """Say once what is wrong, and wait longer each time."""
        if self.trouble != problem.code:
            self.trouble = problem.code
            severe = isinstance(problem, ChatTaken | ChatLocked)
            log.log(logging.ERROR if severe else logging.WARNING, "no updates arrive: %s", problem)
            self._tell(f"no updates arrive: {problem}")
        if isinstance(problem, ChatTaken):
            # What arrives in between is no sign that the other one has gone.
            self._taken_at = [*self._taken(), self._clock.now().awake]
            failures = len(self._taken_at) - 1
        seconds = PAUSE_SECONDS[min(failures, len(PAUSE_SECONDS) - 1)]
        if isinstance(problem, ChatFlooded):
            seconds = problem.retry_after_seconds
        await self._clock.sleep_until(self._clock.now().awake + seconds)

    def _recovered(self) -> None:
        if self.trouble is not None and not self._taken():
            log.warning("updates arrive again")
            self.trouble = None
            self._tell("")

    def _taken(self) -> list[float]:
        since = self._clock.now().awake - TAKEN_SECONDS
        return [at for at in self._taken_at if at > since]


def _is_prompt(message: Incoming) -> bool:
    """Words for the agent. An edit of one is not asked again; what is forwarded is text, whatever it looks like."""
    text = _words(message.text).strip()
    is_command = text.startswith("/") and not message.forwarded
    return bool(text) and not message.edited and not is_command


def _named(text: str) -> str:
    """The bot that a command is for, as `/stop@its_name` says it; empty if it does not."""
    word = _words(text).split(maxsplit=1)[0] if _words(text).strip() else ""
    return word.partition("@")[2].lower() if word.startswith("/") else ""


def _words(text: str) -> str:
    """Without control characters, which no client takes."""
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cs"))


def _prompt(text: str) -> str:
    """Nothing that a client would take for a command of its own: only what is forwarded begins with a slash here."""
    words = _words(text)
    return f"Forwarded: {words}" if words.lstrip().startswith("/") else words
