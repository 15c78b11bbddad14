"""Errors of every client of the daemon: it is away, it refuses, or it runs another version."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import msgspec

from wakeful.client import wire
from wakeful.config.paths import SOCKET_PATH_BYTES_MAX
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, OwnError, WakefulError, WorldError


class DaemonAway(WorldError, code="daemon-away"):
    """The daemon did not answer."""

    # A request that was sent may have been carried out; with an idempotency key it is safe to repeat.


class DaemonNotRunning(DaemonAway, code="daemon-not-running"):
    """Wakeful is not running. Start it with `wakeful up`, or `wakeful up --detach` to run it in the background."""


class DaemonSilent(DaemonAway, code="daemon-silent", retryable=True):
    """The daemon did not answer within {seconds:.0f} s. Run `wakeful doctor` to find out why."""


class DaemonUnreachable(DaemonAway, code="daemon-unreachable", retryable=True):
    """Cannot connect to the daemon: {reason}."""


class DaemonEnded(DaemonAway, code="daemon-ended"):
    """The daemon stopped during the request. To see the result: {where}"""


class DaemonRefused(WakefulError):
    """{detail}"""

    # Nothing was done. The subclasses are the families of the daemon's exit codes.

    @property
    def problem(self) -> dict[str, object]:
        return cast("dict[str, object]", self.facts["problem"])

    @property
    def reason(self) -> str:
        return str(self.problem.get("code", "unknown"))


class RequestDeclined(DaemonRefused, OperatorError, code="declined", exit_code=1):
    """{detail}"""


class RequestRefused(DaemonRefused, OperatorError, code="refused"):
    """{detail}"""


class RequestFailed(DaemonRefused, WorldError, code="unable"):
    """{detail}"""


class DaemonFailed(DaemonRefused, OwnError, code="daemon-failed"):
    """The daemon failed: {detail}"""


class DaemonVersionMismatch(WorldError, code="other-version"):
    """The daemon runs another version. Restart it: `wakeful down`, then `wakeful up`."""


@contextmanager
def transport_errors(socket: str, method: str, target: str, timeout_seconds: float) -> Iterator[None]:
    """Raise DaemonAway for an exchange over this socket that fails with an OSError."""
    if len(os.fsencode(socket)) > SOCKET_PATH_BYTES_MAX:
        raise DaemonNotRunning
    try:
        yield
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


def _follow_up_command(target: str) -> str:
    """The command that shows whether a request was carried out; the next daemon concludes unfinished actions."""
    subject, _, rest = target.removeprefix("/api/").partition("/")
    name = rest.partition("/")[0]
    command = {
        "work": "work list",
        "agents": "agent list",
        "checkpoints": "checkpoint list",
        "sessions": f"session why {name}" if name else "session list",
    }.get(subject, "status")
    return f"`wakeful up`, then `wakeful {command}`."


def refusal_error(reply: wire.HttpReply) -> DaemonRefused:
    """The error in the daemon's words, in the family that its exit code names."""
    try:
        problem = decode_json(reply.body, dict[str, object])
    except msgspec.DecodeError:
        problem = {}
    detail = str(problem.get("detail") or problem.get("title") or f"status {reply.status}")
    families: dict[str, type[DaemonRefused]] = {"1": RequestDeclined, "2": RequestRefused, "3": RequestFailed}
    family = families.get(reply.headers.get("x-wakeful-exit", ""), DaemonFailed)
    return family(detail=detail, problem=problem)
