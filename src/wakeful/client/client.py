"""Blocking client of the daemon's Unix socket; turns the daemon's refusals into errors.

It prints nothing and does not interpret answers.
"""

import os
from typing import Final, NamedTuple, cast

from wakeful.client import wire
from wakeful.config.paths import SOCKET_PATH_BYTES_MAX, StatePaths
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, OwnError, WakefulError, WorldError

ANSWER_SECONDS_MAX: Final = 10.0


class DaemonNotRunning(WorldError):
    """Wakeful is not running. Start it with `wakeful up`, or `wakeful up --detach` to keep it behind."""

    code = "daemon-not-running"


class DaemonSilent(WorldError):
    """The daemon did not answer within {seconds:.0f} s. `wakeful doctor` looks why."""

    code = "daemon-silent"
    retryable = True


class DaemonUnreachable(WorldError):
    """The daemon could not be asked: {reason}."""

    code = "daemon-unreachable"
    retryable = True


class DaemonEnded(WorldError):
    """The daemon ended while it was asked. What became of it: {where}"""

    code = "daemon-ended"


class RequestDeclined(OperatorError):
    """{detail}"""

    code = "declined"
    exit_code = 1

    @property
    def problem(self) -> dict[str, object]:
        """The daemon's whole document."""
        return cast("dict[str, object]", self.facts["problem"])


class RequestRefused(OperatorError):
    """{detail}"""

    code = "refused"


class RequestFailed(WorldError):
    """{detail}"""

    code = "unable"


class DaemonFailed(OwnError):
    """The daemon failed: {detail}"""

    code = "daemon-failed"


class DaemonAnswer(NamedTuple):
    """A body as the daemon sent it, the exit code it stands for, and who sent it."""

    body: bytes
    exit_code: int
    server_pid: int


class DaemonClient:
    """Asks one question at a time; every call ends by its deadline."""

    def __init__(self, paths: StatePaths) -> None:
        self._socket = paths.socket

    def get(self, target: str, *, timeout_seconds: float = ANSWER_SECONDS_MAX) -> DaemonAnswer:
        """Raises DaemonNotRunning, DaemonSilent, or what the daemon answered instead."""
        return self._request("GET", target, b"", timeout_seconds)

    def post(
        self,
        target: str,
        body: bytes = b"{}",
        *,
        key: str | None = None,
        timeout_seconds: float = ANSWER_SECONDS_MAX,
    ) -> DaemonAnswer:
        """Raises as `get` does. `key` is an Idempotency-Key: printable ASCII."""
        return self._request("POST", target, body, timeout_seconds, key)

    def _request(
        self, method: str, target: str, body: bytes, timeout_seconds: float, key: str | None = None
    ) -> DaemonAnswer:
        if len(os.fsencode(self._socket)) > SOCKET_PATH_BYTES_MAX:
            raise DaemonNotRunning
        try:
            reply = wire.send_request(
                self._socket, target, method=method, body=body, key=key, timeout_seconds=timeout_seconds
            )
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as problem:
            raise DaemonNotRunning from problem
        except TimeoutError as problem:
            raise DaemonSilent(seconds=timeout_seconds) from problem
        except (wire.TruncatedAnswer, ConnectionResetError, BrokenPipeError) as problem:
            if method == "GET":
                raise DaemonUnreachable(reason="it ended before it had answered") from problem
            raise DaemonEnded(where=_follow_up_command(target)) from problem
        except OSError as problem:
            raise DaemonUnreachable(reason=problem.strerror or str(problem)) from problem
        if reply.status >= 400:
            raise _refusal_error(reply)
        return DaemonAnswer(reply.body, int(reply.headers.get("x-wakeful-exit", "0")), reply.server_pid)


def _follow_up_command(target: str) -> str:
    """The command that shows whether an order was carried out; the next daemon looks at what was left half done."""
    subject, _, rest = target.removeprefix("/api/").partition("/")
    name = rest.partition("/")[0]
    shown = {
        "work": "work list",
        "agents": "agent list",
        "checkpoints": "checkpoint list",
        "sessions": f"session why {name}" if name else "session list",
    }.get(subject, "status")
    return f"`wakeful up`, then `wakeful {shown}`."


def _refusal_error(reply: wire.HttpReply) -> WakefulError:
    """The error in the daemon's words, in the family its exit code names."""
    problem = _problem_document(reply)
    detail = str(problem.get("detail") or problem.get("title") or f"status {reply.status}")
    families: dict[str, type[WakefulError]] = {"1": RequestDeclined, "2": RequestRefused, "3": RequestFailed}
    family = families.get(reply.headers.get("x-wakeful-exit", ""), DaemonFailed)
    return family(detail=detail, problem=problem)


def _problem_document(reply: wire.HttpReply) -> dict[str, object]:
    import msgspec  # noqa: PLC0415 - only refusals are decoded here

    try:
        return decode_json(reply.body, dict[str, object])
    except msgspec.DecodeError:
        return {}
