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
    """The request cannot be done as asked."""


class WorldError(WakefulError, code="world", http_status=503, exit_code=3):
    """Something outside Wakeful failed."""


class OwnError(WakefulError, code="bug"):
    """An invariant of Wakeful broke. Please report this."""


class BadSessionId(OperatorError, code="bad-session-id"):
    """{shown!r} is not a session id: letters, digits and . _ : @ + - only, no . or - first, no .. and 200 at most."""


class SessionNotFound(OperatorError, code="session-not-found", http_status=404):
    """No session {shown!r}. `wakeful ls --all` lists every one."""


class AmbiguousSession(OperatorError, code="ambiguous-session", http_status=409):
    """{shown!r} fits {count} sessions ({examples}). Give more of the id."""


class KeyUsed(OperatorError, code="idempotency-key-reused", http_status=409):
    """This idempotency key was used for another order. Use a new key for a new one."""


class AgentMayNotDecide(OperatorError, code="agent-may-not-decide", http_status=403, exit_code=1):
    """This asks from inside {session}, which is supervised. Decisions are for people: ask in a terminal that no agent started, or in the chat."""


class ExtraMissing(WorldError, code="extra-missing"):
    """{what} needs {library}, which is not installed: pip install 'wakeful[{extra}]'"""


class ClientMissing(WorldError, code="client-missing"):
    """There is no program {program!r} to run. Install it, or give its path."""


class WorkingDirectoryGone(OperatorError, code="folder-gone"):
    """The working directory {folder} is not there any more."""


class StartFailed(WorldError, code="start-failed"):
    """{program} could not be started: {reason}"""
