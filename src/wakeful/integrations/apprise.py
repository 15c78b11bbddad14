"""Sends alerts through any address that apprise supports.

Addresses contain passwords: only their scheme is ever shown. apprise blocks and cannot be cancelled, so it
runs in a daemon thread that shutdown does not wait for. It answers only yes or no; its log entries tell
whether a failure came before or after the message left.
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
# How its plugins note that a connection failed, and what says that it was never made.
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
    """One address. `name` is its scheme."""

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
        """Nothing is held open between two messages."""

    def _send(self, text: str) -> None:
        try:
            self._notify(text)
        except NotDelivered:
            raise
        except Exception as problem:  # noqa: BLE001 - a hundred plugins by as many people; none may end the daemon
            kind = type(problem).__name__
            raise NotDelivered(channel=self.name, reason=f"apprise failed with {kind}") from None
        finally:
            self._busy = False

    def _notify(self, text: str) -> None:
        """Raises Refused and NotDelivered."""
        if self._sender is None:
            self._sender = self._open()
        noted: list[str] = []
        result = self._sender.notify(
            text,
            title=TITLE,
            body_format="text",
            log_callback=lambda entry, _service: noted.append(entry.message),
            log_level=logging.DEBUG,
        )
        if result:
            return
        broken = next((each for each in noted if each.startswith(_BROKEN)), None)
        if broken is None:
            raise Refused(channel=self.name, reason=_status(noted) or "apprise was told no")
        if any(mark in broken for mark in _NEVER_SENT):
            raise Refused(channel=self.name, reason="no connection")
        raise NotDelivered(channel=self.name, reason="the connection broke")

    def _open(self) -> Any:
        try:
            import apprise  # noqa: PLC0415 - only where alerts go this way
        except ImportError:
            raise Refused(
                channel=self.name, reason="apprise is not installed: pip install 'wakeful[alerts]'"
            ) from None
        silence_libraries()
        # It notes addresses. What it notes is ours to read, and nobody else's.
        noting = logging.getLogger("apprise")
        noting.propagate = False
        noting.setLevel(logging.DEBUG)
        sender = apprise.Apprise()
        if not sender.add(self._url):
            raise Refused(channel=self.name, reason="apprise does not understand this address")
        return sender


def _status(noted: list[str]) -> str:
    """The status a plugin was answered with, which nearly all of them note alike."""
    for note in noted:
        _, found, rest = note.rpartition("error=")
        if found and (number := rest.strip(" .\n")).isdigit():
            return f"it was answered with status {number}"
    return ""


def scheme(url: str) -> str:
    """How people know an address, without anything secret."""
    name, found, _ = url.partition("://")
    return name.lower() if found and name.isascii() and name.isalnum() else "apprise"


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking work in a thread of its own that may outlive us; whoever stops waiting leaves it behind."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(problem: BaseException | None) -> None:
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
        except Exception as raised:  # noqa: BLE001 - carried over to whoever waits
            problem = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, problem)

    threading.Thread(target=run, name="wakeful-apprise", daemon=True).start()
    await done
