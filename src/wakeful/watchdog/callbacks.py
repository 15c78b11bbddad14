"""Calls the watched program's callbacks with a deadline; sends chat messages, files issues, writes events.

A callback can be missing, plain or async; it may raise or never return. A plain function runs in a thread of
its own, so that it cannot block the loop. A chat message is sent once, and again only after a definite
refusal. An owed event is stored in the queue until it is written.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.delivery import Refused
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.incidents.critical_event import ActionTaken, CriticalEvent, CriticalEventKind, critical_event
from wakeful.incidents.issue_tracker import FilingResult, IssueReport, IssueTracker
from wakeful.watchdog.queue import JobQueue, PendingMessage, QueueRevival, claimed

# Longer than a slow network needs, and short enough for the next session.
CALL_SECONDS_MAX: Final = 20.0
# Once per cycle: two hours by default. A chat that refuses for so long will not take it.
SEND_TRIES_MAX: Final = 24

Callback = Callable[..., Any]
log = logging.getLogger("wakeful.watchdog")


class CallbackOutcome(StrEnum):
    """How a call ended. `late`: it may still have its effect."""

    DONE = "done"
    ABSENT = "absent"
    RAISED = "raised"
    LATE = "late"


class CallbackResult(Struct, frozen=True):
    """The result of a call, also in words."""

    outcome: CallbackOutcome
    words: str
    value: Any = None
    error: BaseException | None = None


class CallbackRunner:
    """Calls with a deadline."""

    def __init__(self, clock: Clock, seconds_max: float = CALL_SECONDS_MAX) -> None:
        self._clock = clock
        self._seconds_max = seconds_max

    async def call(
        self, name: str, callback: Callback | None, *arguments: object, seconds_max: float | None = None
    ) -> CallbackResult:
        """Never raises the callback's exceptions; a cancellation cancels the callback too."""
        if callback is None:
            return CallbackResult(CallbackOutcome.ABSENT, f"no {name} was given")
        seconds = self._seconds_max if seconds_max is None else seconds_max
        task = asyncio.ensure_future(_invoke(callback, arguments))
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            if not task.done():
                # Not awaited: a callback that ignores its deadline ignores this, too.
                task.add_done_callback(_consume_exception)
                task.cancel()
        if not task.done():
            return CallbackResult(CallbackOutcome.LATE, f"{name} did not return within {seconds:g} s")
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            return CallbackResult(CallbackOutcome.DONE, f"{name} was called", task.result())
        message = plain(redact(str(error)), 200)
        words = f"{name} raised {type(error).__name__}{f': {message}' if message else ''}"
        return CallbackResult(CallbackOutcome.RAISED, words, error=error)


def _consume_exception(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _invoke(callback: Callback, arguments: tuple[object, ...]) -> Any:
    is_async = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004 - an object whose call is async
    )
    value = callback(*arguments) if is_async else await _in_thread(callback, arguments)
    return await value if inspect.isawaitable(value) else value


def _in_thread(callback: Callback, arguments: tuple[object, ...]) -> Awaitable[Any]:
    """Run it in a daemon thread: a callback that never returns must not keep the program running."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def set_result(value: Any, error: BaseException | None) -> None:
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
        except Exception as problem:  # noqa: BLE001 - given to the caller that waits for it
            error = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(set_result, value, error)

    threading.Thread(target=run, name="wakeful-callback", daemon=True).start()
    return future


class ChatSendResult(StrEnum):
    SENT = "sent"
    ALREADY_SENT = "already sent"
    WILL_RETRY = "refused, will be sent again"
    UNKNOWN = "unknown whether it arrived"
    NO_RECIPIENT = "no recipient"


class ChatSender:
    """Messages to the chats that asked for the work: each once, over restarts and several watchdogs."""

    def __init__(self, jobs: JobQueue, calls: CallbackRunner, send_message: Callback | None) -> None:
        self._jobs = jobs
        self._callback_runner = calls
        self._send_message = send_message

    async def send_once(self, name: str, chat_id: str | None, text: str) -> ChatSendResult:
        """Send it, unless a message under this name was sent before."""
        if self._send_message is None or chat_id is None:
            return ChatSendResult.NO_RECIPIENT
        if not await self._jobs.mark_once(f"told:{name}"):
            return ChatSendResult.ALREADY_SENT
        return await self._send(PendingMessage(name, chat_id, text, 0))

    async def retry_refused(self) -> None:
        if self._send_message is None:
            return
        for message in await self._jobs.take_messages():
            result = await self._send(message)
            log.info("watchdog: message to chat %s: %s", plain(message.chat_id, 40), result)

    async def _send(self, message: PendingMessage) -> ChatSendResult:
        answer = await self._callback_runner.call(
            "send_message", self._send_message, message.chat_id, message.text
        )
        if answer.outcome is CallbackOutcome.DONE:
            return ChatSendResult.SENT
        log.warning("watchdog: %s", answer.words)
        if not isinstance(answer.error, Refused):
            return ChatSendResult.UNKNOWN
        if message.tries + 1 >= SEND_TRIES_MAX:
            log.error(
                "watchdog: chat %s refused a message %d times", plain(message.chat_id, 40), SEND_TRIES_MAX
            )
            return ChatSendResult.UNKNOWN
        await self._jobs.store_message(replace(message, tries=message.tries + 1))
        return ChatSendResult.WILL_RETRY


# A tracker ends by itself after 20 s; this limits one that does not.
ISSUE_SECONDS_MAX: Final = 21.0

# One watchdog at a time writes pending events: for this long, and then one more write within its deadline.
PENDING_WRITE_SECONDS_MAX: Final = CALL_SECONDS_MAX
PENDING_CLAIM_SECONDS: Final = 3 * CALL_SECONDS_MAX
_PENDING_CLAIM: Final = "owed-events"

_encode_event: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(CriticalEvent)


class Callbacks(Struct, frozen=True, kw_only=True):
    """Functions of the watched program; each may be left out."""

    enqueue_job: Callback | None = None
    send_message: Callback | None = None
    stop_session: Callback | None = None
    start_worker: Callback | None = None
    alert: Callback | None = None
    write: Callback | None = None
    # Asks a person about a held attempt; returns the number of the checkpoint.
    hold: Callback | None = None
    # Gets the id of a session that needs no decision any more.
    gone_on: Callback | None = None


class EventRecorder:
    """Files issues and writes events. A failure here is reported and stops nothing."""

    def __init__(
        self,
        jobs: JobQueue,
        clock: Clock,
        calls: CallbackRunner,
        tracker: IssueTracker | None,
        write: Callback | None,
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._callback_runner = calls
        self._issue_tracker = tracker
        self._write = write

    async def file(self, report: IssueReport) -> FilingResult:
        if self._issue_tracker is None:
            return FilingResult(None, "no repository is configured for issues")
        answer = await self._callback_runner.call(
            "the issue", self._issue_tracker.file, report, seconds_max=ISSUE_SECONDS_MAX
        )
        if answer.outcome is CallbackOutcome.DONE and isinstance(answer.value, FilingResult):
            return answer.value
        return FilingResult(None, answer.words)

    async def record_event(
        self,
        kind: CriticalEventKind,
        session_id: str,
        project_key: str,
        reason: str,
        action: ActionTaken,
        issue_url: str | None,
        details: Mapping[str, Any],
        *,
        owed: bool = False,
    ) -> bool:
        """Whether it is written, or there is no log. `owed`: if it cannot be written now, it is stored for later: True, too."""
        at_wall = self._clock.now().wall
        event = critical_event(
            kind, session_id, project_key, reason, action, issue_url, details, at_wall=at_wall
        )
        if await self._write_event(event):
            return True
        if owed:
            await self._jobs.store_event(_encode_event(event))
        return owed

    def encode_revival_events(
        self, kind: CriticalEventKind, revival: QueueRevival, outcome: str
    ) -> list[bytes]:
        """The events of a revival, one line for each finding, as stored until they are written."""
        about, at_wall = (revival.session_id, revival.project_key), self._clock.now().wall
        details = {"outcome": outcome}
        return [
            _encode_event(
                critical_event(
                    kind, *about, reason, ActionTaken.NONE, revival.issue_url, details, at_wall=at_wall
                )
            )
            for reason in revival.reasons
        ]

    async def retry_pending(self) -> None:
        """Write pending events in order; those that the log still refuses are kept.

        An event is kept until it is written: after a kill in between, the next watchdog may write it twice.
        """
        if not await self._jobs.stored_events():
            return
        async with claimed(self._jobs, _PENDING_CLAIM, PENDING_CLAIM_SECONDS) as has_claim:
            until = self._clock.now().awake + PENDING_WRITE_SECONDS_MAX
            for body in await self._jobs.stored_events() if has_claim else ():
                if self._clock.now().awake > until or not await self._write_pending(body):
                    return
                await self._jobs.drop_event(body)

    async def _write_pending(self, body: bytes) -> bool:
        try:
            event = _decode(body)
        except msgspec.DecodeError as problem:
            log.error("watchdog: an event from another version is not written: %s", problem)  # noqa: TRY400 - another version wrote it
            return True
        return await self._write_event(event)

    async def _write_event(self, event: CriticalEvent) -> bool:
        answer = await self._callback_runner.call("the log of critical events", self._write, event)
        if answer.outcome in {CallbackOutcome.DONE, CallbackOutcome.ABSENT}:
            return True
        log.error("watchdog: an event about %s was not written: %s", event.session_id, answer.words)
        return False


def action_of(result: ChatSendResult) -> ActionTaken:
    """The action as a critical event has it."""
    return ActionTaken.FAILURE_MESSAGE_SENT if result is ChatSendResult.SENT else ActionTaken.NONE
