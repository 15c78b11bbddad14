"""Wrong credentials cost growing time, paid by the source that sent them. A right credential never waits here.

A source pays one failure after the other, on one connection and on many at once: the rate of wrong answers does not depend on
how many connections it opens.
"""

import asyncio
from ipaddress import ip_address
from typing import Final

from msgspec import Struct

from wakeful.http.refusals import TooManyFailures

FIRST_SECONDS: Final = 0.1
SECONDS_MAX: Final = 5.0
# After a minute without a failure the next one is a first one again.
FORGIVEN_AFTER_SECONDS: Final = 60.0
SOURCES_MAX: Final = 256
# An answer that waits holds a connection. A source that owes more than this is refused at once, and its connection ends.
DEBT_SECONDS_MAX: Final = 10.0
LOOPBACK: Final = "loopback"
SOCKET: Final = "socket"


def source_of(address: str | None) -> str:
    """Whom failures are counted for. A program chooses among 16 million loopback addresses, so all of them are one."""
    if address is None:
        return SOCKET
    try:
        return LOOPBACK if ip_address(address).is_loopback else address
    except ValueError:
        return address


class _Account(Struct):
    failures: int
    last_at: float
    paid_at: float


class Penalties:
    """What each source owes: bounded, the one that failed longest ago is forgotten first."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def charge(self, source: str, now: float) -> float:
        """Count one more failure; the seconds until it is paid. Each costs twice the one before, up to the cap."""
        account = self._accounts.pop(source, None)
        if account is None or now - account.last_at > FORGIVEN_AFTER_SECONDS:
            account = _Account(0, now, now)
        # The exponent is bounded too: a million failures must not become a number of a million bits.
        cost = min(SECONDS_MAX, FIRST_SECONDS * 2.0 ** min(account.failures, 16))
        account.failures += 1
        account.last_at = now
        debt = max(account.paid_at - now, 0.0) + cost
        if debt <= DEBT_SECONDS_MAX:
            account.paid_at = now + debt
        self._accounts[source] = account
        if len(self._accounts) > SOURCES_MAX:
            del self._accounts[next(iter(self._accounts))]
        return debt

    async def pay(self, source: str) -> None:
        """Wait until this failure is paid. Raises TooManyFailures at once where that would take too long."""
        seconds = self.charge(source, asyncio.get_running_loop().time())
        if seconds > DEBT_SECONDS_MAX:
            raise TooManyFailures
        await asyncio.sleep(seconds)
