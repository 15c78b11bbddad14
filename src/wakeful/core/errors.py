"""Base classes of errors: one base, and three families that say whose fault it is.

The docstring of an error class is its message, and arguments fill its braces. Keywords of the class statement
set its facts: `class NameTaken(OperatorError, code="name-taken", http_status=409)`. A subclass inherits the others.
"""

from typing import ClassVar


class WakefulError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 4
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        code: str | None = None,
        http_status: int | None = None,
        exit_code: int | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if http_status is not None:
            cls.http_status = http_status
        if exit_code is not None:
            cls.exit_code = exit_code
        if retryable is not None:
            cls.retryable = retryable

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__((type(self).__doc__ or "").strip().format(**facts))


class OperatorError(WakefulError, code="bad-request", http_status=400, exit_code=2):
    """The request cannot be carried out."""


class WorldError(WakefulError, code="world", http_status=503, exit_code=3):
    """Something outside Wakeful failed."""


class OwnError(WakefulError, code="bug"):
    """An invariant of Wakeful broke. Please report this."""


class BadSessionId(OperatorError, code="bad-session-id"):
    """Invalid session id {shown!r}: use letters, digits and . _ : @ + -, no . or - first, no .., at most 200 characters."""


class SessionNotFound(OperatorError, code="session-not-found", http_status=404):
    """No session {shown!r}. List them with `wakeful ls --all`."""


class AmbiguousSession(OperatorError, code="ambiguous-session", http_status=409):
    """{shown!r} matches {count} sessions ({examples}). Give more of the id."""


class KeyUsed(OperatorError, code="idempotency-key-reused", http_status=409):
    """This idempotency key was used for another request. Use a new key."""


class AgentMayNotDecide(OperatorError, code="agent-may-not-decide", http_status=403, exit_code=1):
    """This command runs inside {session}, which Wakeful watches. Only people may decide: run it in a terminal that no agent started, or use the chat."""


class ExtraMissing(WorldError, code="extra-missing"):
    """{what} needs {library}, which is not installed: pip install 'wakeful[{extra}]'"""


class ClientMissing(WorldError, code="client-missing"):
    """Program {program!r} not found. Install it, or give its path."""


class WorkingDirectoryGone(OperatorError, code="folder-gone"):
    """The working directory {folder} no longer exists."""


class StartFailed(WorldError, code="start-failed"):
    """{program} could not be started: {reason}"""
