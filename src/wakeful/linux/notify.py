"""What a service tells systemd: one datagram for each word (sd_notify(3)). Without a systemd nobody is told anything.

The address is taken out of the environment: it is ours, and no agent may speak in our name.
"""

import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Final, Self

TELL_SECONDS_MAX: Final = 0.5
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

log = logging.getLogger("wakeful")


class Notifier:
    """Tells whoever started us. `watchdog_seconds` is how long it waits for a word; None if it does not wait."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        self._address = address
        self.watchdog_seconds = watchdog_seconds

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> Self:
        """The one of our environment, which does not have it afterwards."""
        address, usec, pid = (environ.pop(name, "") for name in _VARIABLES)
        meant = pid in {"", str(os.getpid())}
        waits = float(usec) / 1e6 if usec.isdecimal() and meant and int(usec) else None
        return cls(address if address[:1] in {"/", "@"} else "", waits)

    def tell(self, word: str) -> None:
        """One word, such as READY=1. That it could not be told is logged: what we do does not depend on it."""
        if not self._address:
            return
        # A leading @ is the kernel's own space of names, which begins with a NUL there.
        where = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaker:
            # It reads at once, unless the machine is in trouble: then one word is lost, and the next one comes.
            speaker.settimeout(TELL_SECONDS_MAX)
            try:
                speaker.sendto(word.encode(), where)
            except OSError as problem:
                log.warning("systemd was not told %s: %s", word, problem)
