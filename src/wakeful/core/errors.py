"""Base classes of errors: one base, and three families that say whose fault it is.

The docstring of an error class is its message, and arguments fill its braces: a class is one sentence and its
facts.
"""

from typing import ClassVar


class WakefulError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 4
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__((type(self).__doc__ or "").strip().format(**facts))


class OperatorError(WakefulError):
    """The request cannot be done as asked."""

    code = "bad-request"
    exit_code = 2
    http_status = 400


class WorldError(WakefulError):
    """Something outside Wakeful failed."""

    code = "world"
    exit_code = 3
    http_status = 503


class OwnError(WakefulError):
    """An invariant of Wakeful broke. Please report this."""

    code = "bug"


class BadSessionId(OperatorError):
    """{shown!r} is not a session id: letters, digits and . _ : @ + - only, no . or - first, no .. and 200 at most."""

    code = "bad-session-id"


class SessionNotFound(OperatorError):
    """No session {shown!r}. `wakeful ls --all` lists every one."""

    code = "session-not-found"
    http_status = 404


class AmbiguousSession(OperatorError):
    """{shown!r} fits {count} sessions ({examples}). Give more of the id."""

    code = "ambiguous-session"
    http_status = 409


class KeyUsed(OperatorError):
    """This idempotency key was used for another order. Use a new key for a new one."""

    code = "idempotency-key-reused"
    http_status = 409


class AgentMayNotDecide(OperatorError):
    """This asks from inside {session}, which is supervised. Decisions are for people: ask in a terminal that no agent started, or in the chat."""

    code = "agent-may-not-decide"
    http_status = 403
    exit_code = 1


class ExtraMissing(WorldError):
    """{what} needs {library}, which is not installed: pip install 'wakeful[{extra}]'"""

    code = "extra-missing"


class ClientMissing(WorldError):
    """There is no program {program!r} to run. Install it, or give its path."""

    code = "client-missing"


class WorkingDirectoryGone(OperatorError):
    """The working directory {folder} is not there any more."""

    code = "folder-gone"


class StartFailed(WorldError):
    """{program} could not be started: {reason}"""

    code = "start-failed"
