"""A model server that plays the script its prompt carries, so that real agent clients run without a model.

One loopback port speaks both protocols. The step to play is the number of answers since the scripted prompt:
the server remembers no conversation, so kill, resume, fork and many clients at once all work. It keeps one
memory, how often each step was asked for; two conversations with one and the same script share it.
"""

import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from wakeful.testing.scripted_server import Ledger, Request, Server
from wakeful.testing.scripted_steps import script

__all__ = ["Request", "ScriptedModel", "script"]

_STOP_POLL_SECONDS: Final = 0.05


class ScriptedModel:
    """The server as a context manager; `requests` grows while it runs and stays readable afterwards."""

    def __init__(self, port: int = 0) -> None:
        self._ledger = Ledger()
        self._server = Server(self._ledger, port)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_POLL_SECONDS,), name="scripted-model", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def requests(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._ledger.requests

    @property
    def hanging(self) -> int:
        """How many clients wait for an answer that will not come."""
        return self._ledger.hanging

    def wait_until(self, reached: Callable[[], bool], timeout_seconds: float) -> bool:
        """Whether `reached` came true in time; it is asked after every request and every change of `hanging`."""
        return self._ledger.wait_until(reached, timeout_seconds)

    def stop(self) -> None:
        """End the server and every answer it still gives, hung ones too. May be called twice."""
        if self._ledger.stopping.is_set():
            return
        self._ledger.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.cut_all()


def main(arguments: list[str]) -> int:
    """Serve until interrupted; the first line of output is the url."""
    if len(arguments) > 1 or not all(each.isdecimal() for each in arguments):
        sys.stderr.write("usage: python -m wakeful.testing.scripted_model [PORT]\n")
        return 2
    try:
        with ScriptedModel(int(arguments[0]) if arguments else 0) as model:
            sys.stdout.write(f"{model.url}\n")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"cannot listen: {error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
