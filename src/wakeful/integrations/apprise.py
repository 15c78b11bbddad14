"""Sends alerts through any address that apprise supports.

Addresses contain passwords: only their scheme is ever shown. apprise blocks and cannot be cancelled, so it
runs in a daemon thread that shutdown does not wait for. It returns only success or failure; its log entries
show whether it failed before or after it sent the message.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from wakeful.alerts.delivery import NotDelivered, Refused
from wakeful.linux.logging import silence_libraries

# apprise itself waits 4 s for a connection, 4 s for an answer, and up to 5.5 s between two messages.
SEND_SECONDS_MAX: Final = 20.0
TITLE: Final = "Wakeful"
# The plugins' log text for a failed connection, and the texts that say it was never made.
_BROKEN: Final = "Socket Exception"
_NEVER_SENT: Final = (
    "Max retries exceeded",
    "Connection refused",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "No route to host",
)


class AppriseMessenger:
    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._sender: Any = None
        self._busy = False

    async def send(self, text: str, *, chat: str | None = None) -> None:
        if chat is not None:
            raise Refused(channel=self.name, reason="it knows no chats")
        if self._busy:
            raise Refused(channel=self.name, reason="it is still busy with the last message")
        self._busy = True
        try:
            async with asyncio.timeout(SEND_SECONDS_MAX):
                await in_thread(lambda: self._send(text))
        except TimeoutError:
            raise NotDelivered(channel=self.name, reason=f"no answer within {SEND_SECONDS_MAX:g} s") from None

    async def close(self) -> None:
        """Nothing is open between two messages."""

    def _send(self, text: str) -> None:
        try:
            self._notify(text)
        except NotDelivered:
            raise
        except Exception as problem:  # noqa: BLE001 - a plugin's error must not end the daemon
            kind = type(problem).__name__
            raise NotDelivered(channel=self.name, reason=f"apprise failed with {kind}") from None
        finally:
            self._busy = False

    def _notify(self, text: str) -> None:
        """Raises Refused and NotDelivered."""
        if self._sender is None:
            self._sender = self._open()
        entries: list[str] = []
        if self._sender.notify(
            text,
            title=TITLE,
            body_format="text",
            log_callback=lambda entry, _service: entries.append(entry.message),
            log_level=logging.DEBUG,
        ):
            return
        broken = next((each for each in entries if each.startswith(_BROKEN)), None)
        if broken is None:
            raise Refused(channel=self.name, reason=_status(entries) or "apprise was told no")
        if any(mark in broken for mark in _NEVER_SENT):
            raise Refused(channel=self.name, reason="no connection")
        raise NotDelivered(channel=self.name, reason="the connection broke")

    def _open(self) -> Any:
        try:
            import apprise  # noqa: PLC0415 - only if this channel is used
        except ImportError:
            raise Refused(
                channel=self.name, reason="apprise is not installed: pip install 'wakeful[alerts]'"
            ) from None
        silence_libraries()
        # Its log contains addresses, so only this module reads it.
        logger = logging.getLogger("apprise")
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        sender = apprise.Apprise()
        if not sender.add(self._url):
            raise Refused(channel=self.name, reason="apprise does not understand this address")
        return sender


def _status(entries: list[str]) -> str:
    """The status of the service's answer; nearly all plugins log it in the same way."""
    for entry in entries:
        _, found, rest = entry.rpartition("error=")
        if found and (number := rest.strip(" .\n")).isdigit():
            return f"it was answered with status {number}"
    return ""


def scheme(url: str) -> str:
    """The part of an address that may be shown."""
    name, found, _ = url.partition("://")
    return name.lower() if found and name.isascii() and name.isalnum() else "apprise"


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking work in its own thread, which continues after a cancellation and may outlive the loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def set_result(problem: BaseException | None) -> None:
        if done.done():
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    def run() -> None:
        problem: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001 - raised again in the waiting task
            problem = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(set_result, problem)

    threading.Thread(target=run, name="wakeful-apprise", daemon=True).start()
    await done
