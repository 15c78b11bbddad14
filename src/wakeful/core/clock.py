"""The only way services learn the time."""

from typing import Protocol

from wakeful.core.moment import Instant, Sleep


class Clock(Protocol):
    @property
    def slept(self) -> Sleep | None:
        """The host's last sleep since this clock was made, if it slept."""

    def now(self) -> Instant:
        """This moment; also notices that the host slept or that its wall clock was set."""

    def instant(self, wall: float) -> Instant:
        """The moment a log record stamped with wall time stands for."""

    async def sleep_until(self, awake: float) -> None:
        """Return once `now().awake` has reached `awake`."""
