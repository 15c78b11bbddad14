"""Callbacks of the program we watch for: left out, plain or async, raising or never returning; nobody waits for ever.

A plain function runs in a thread of its own, so that one that blocks does not hold the loop. What is told to a chat
goes through here too: once, and again only after a definite refusal.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.messenger import Refused
from wakeful.core.clock import Clock
from wakeful.core.redact import redact
from wakeful.core.text import plain
from wakeful.watchdog.queue import Jobs, Owed

# Longer than a slow network needs, and short enough for the next session to have its turn.
CALL_SECONDS_MAX: Final = 20.0
# Once per cycle: two hours by default. Who refuses for that long will not take it.
SEND_TRIES_MAX: Final = 24

Callback = Callable[..., Any]
log = logging.getLogger("wakeful.watchdog")


class Ending(StrEnum):
    """How a call ended. `late`: it may still do what it was asked for."""

    DONE = "done"
    ABSENT = "absent"
    RAISED = "raised"
    LATE = "late"


class Answer(Struct, frozen=True):
    """What became of a call, in words too."""

    ending: Ending
    words: str
    value: Any = None
    error: BaseException | None = None


class Calls:
    """Calls with a deadline, on the clock of the loop they are made in."""

    def __init__(self, clock: Clock, seconds_max: float = CALL_SECONDS_MAX) -> None:
        self._clock = clock
        self._seconds_max = seconds_max

    async def call(
        self, name: str, callback: Callback | None, *arguments: object, seconds_max: float | None = None
    ) -> Answer:
        """Never raises what the callback raises; being cancelled cancels the callback too."""
        if callback is None:
            return Answer(Ending.ABSENT, f"no {name} was given")
        seconds = self._seconds_max if seconds_max is None else seconds_max
        task = asyncio.ensure_future(_called(callback, arguments))
        timer = asyncio.ensure_future(self._clock.sleep_until(self._clock.now().awake + seconds))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            if not task.done():
                # Not waited for: whoever ignores the end of a deadline ignores this, too.
                task.add_done_callback(_forget)
                task.cancel()
        if not task.done():
            return Answer(Ending.LATE, f"{name} did not return within {seconds:g} s")
        return _answer(name, task)


def _answer(name: str, task: asyncio.Future[Any]) -> Answer:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None:
        return Answer(Ending.DONE, f"{name} was called", task.result())
    said = plain(redact(str(error)), 200)
    return Answer(
        Ending.RAISED, f"{name} raised {type(error).__name__}{f': {said}' if said else ''}", error=error
    )


def _forget(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _called(callback: Callback, arguments: tuple[object, ...]) -> Any:
    is_async = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004 - an object whose call is async
    )
    value = callback(*arguments) if is_async else await _in_thread(callback, arguments)
    return await value if inspect.isawaitable(value) else value


def _in_thread(callback: Callback, arguments: tuple[object, ...]) -> Awaitable[Any]:
    """Its result. The thread ends with the program: a callback that never returns must not keep it from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = callback(*arguments)
        except Exception as problem:  # noqa: BLE001 - given to whoever waits for it
            error = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="wakeful-callback", daemon=True).start()
    return future


class Said(StrEnum):
    """What became of a message to a chat."""

    SENT = "sent"
    ALREADY = "already said"
    OWED = "refused, will be sent again"
    UNKNOWN = "nobody knows whether it arrived"
    NOBODY = "nobody to tell"


class Chats:
    """Messages to the chats that work came from: each once, whoever sends it and however often it restarts."""

    def __init__(self, jobs: Jobs, calls: Calls, send_message: Callback | None) -> None:
        self._jobs = jobs
        self._calls = calls
        self._send_message = send_message

    async def tell(self, name: str, chat_id: str | None, text: str) -> Said:
        """Say it, unless something under this name was said before."""
        if self._send_message is None or chat_id is None:
            return Said.NOBODY
        if not await self._jobs.once(f"told:{name}"):
            return Said.ALREADY
        return await self._send(Owed(name, chat_id, text, 0))

    async def try_again(self) -> None:
        """Send what was refused before."""
        if self._send_message is None:
            return
        for owed in await self._jobs.take_owed():
            said = await self._send(owed)
            log.info("watchdog: message to chat %s: %s", plain(owed.chat_id, 40), said)

    async def _send(self, owed: Owed) -> Said:
        answer = await self._calls.call("send_message", self._send_message, owed.chat_id, owed.text)
        if answer.ending is Ending.DONE:
            return Said.SENT
        log.warning("watchdog: %s", answer.words)
        if not isinstance(answer.error, Refused):
            return Said.UNKNOWN
        if owed.tries + 1 >= SEND_TRIES_MAX:
            log.error("watchdog: chat %s refused a message %d times", plain(owed.chat_id, 40), SEND_TRIES_MAX)
            return Said.UNKNOWN
        await self._jobs.owe(replace(owed, tries=owed.tries + 1))
        return Said.OWED
