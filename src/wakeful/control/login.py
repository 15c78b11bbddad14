"""A provider's login: what its own status says, whether a turn works, and whether its credentials changed."""

from typing import Protocol

from wakeful.control.auth_mode import AuthEvent


class Login(Protocol):
    """One provider's. Every call has a deadline of its own, and none raises: what cannot be told is unknown."""

    provider: str

    async def status(self) -> AuthEvent:
        """What its status command says: STATUS_GOOD, STATUS_GONE or STATUS_UNKNOWN."""

    async def probe(self) -> AuthEvent:
        """Try one small turn: TURN_WORKED, PROBE_REFUSED for want of a login, or STATUS_UNKNOWN for any other reason."""

    def credentials(self) -> str:
        """A mark that differs when its credentials do."""
