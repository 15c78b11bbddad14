"""Blocking client of the daemon's Unix socket; turns the daemon's refusals into errors.

It prints nothing and does not interpret answers.
"""

import os
from typing import Final, NamedTuple, cast

from wakeful.client import wire
from wakeful.config.paths import SOCKET_PATH_BYTES_MAX, Places
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


class Declined(OperatorError):
    """{detail}"""

    code = "declined"
    exit_code = 1

    @property
    def problem(self) -> dict[str, object]:
        """The daemon's whole document."""
        return cast("dict[str, object]", self.facts["problem"])


class Refused(OperatorError):
    """{detail}"""

    code = "refused"


class Unable(WorldError):
    """{detail}"""

    code = "unable"


class Failed(OwnError):
    """The daemon failed: {detail}"""

    code = "daemon-failed"


class Answer(NamedTuple):
    """A body as the daemon sent it, the exit code it stands for, and who sent it."""

    body: bytes
    exit_code: int
    server_pid: int


class Client:
    """Asks one question at a time; every call ends by its deadline."""

    def __init__(self, places: Places) -> None:
        self._socket = places.socket

    def get(self, target: str, *, timeout_seconds: float = ANSWER_SECONDS_MAX) -> Answer:
        """Raises DaemonNotRunning, DaemonSilent, or what the daemon answered instead."""
        return self._ask("GET", target, b"", timeout_seconds)

    def post(
        self,
        target: str,
        body: bytes = b"{}",
        *,
        key: str | None = None,
        timeout_seconds: float = ANSWER_SECONDS_MAX,
    ) -> Answer:
        """Raises as `get` does. `key` is an Idempotency-Key: printable ASCII."""
        return self._ask("POST", target, body, timeout_seconds, key)

    def _ask(
        self, method: str, target: str, body: bytes, timeout_seconds: float, key: str | None = None
    ) -> Answer:
        if len(os.fsencode(self._socket)) > SOCKET_PATH_BYTES_MAX:
            raise DaemonNotRunning
        try:
            reply = wire.ask(
                self._socket, target, method=method, body=body, key=key, timeout_seconds=timeout_seconds
            )
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as problem:
            raise DaemonNotRunning from problem
        except TimeoutError as problem:
            raise DaemonSilent(seconds=timeout_seconds) from problem
        except (wire.CutOff, ConnectionResetError, BrokenPipeError) as problem:
            if method == "GET":
                raise DaemonUnreachable(reason="it ended before it had answered") from problem
            raise DaemonEnded(where=_whereabouts(target)) from problem
        except OSError as problem:
            raise DaemonUnreachable(reason=problem.strerror or str(problem)) from problem
        if reply.status >= 400:
            raise _refusal(reply)
        return Answer(reply.body, int(reply.headers.get("x-wakeful-exit", "0")), reply.server_pid)


def _whereabouts(target: str) -> str:
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


def _refusal(reply: wire.Reply) -> WakefulError:
    """The error in the daemon's words, in the family its exit code names."""
    problem = _problem(reply)
    detail = str(problem.get("detail") or problem.get("title") or f"status {reply.status}")
    families: dict[str, type[WakefulError]] = {"1": Declined, "2": Refused, "3": Unable}
    family = families.get(reply.headers.get("x-wakeful-exit", ""), Failed)
    return family(detail=detail, problem=problem)


def _problem(reply: wire.Reply) -> dict[str, object]:
    import msgspec  # noqa: PLC0415 - only refusals are decoded here

    try:
        return decode_json(reply.body, dict[str, object])
    except msgspec.DecodeError:
        return {}
