"""A terminal lent to an agent in a container. Closing it does not end what the engine began in there: that is done here.

The engine's client gets the terminal and everything that is typed; this command only waits, and cleans up where the
client was cut off. It never speaks: the terminal may be gone.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from wakeful.cli.commands.run import NeedsTerminal, TmuxMissing, has_terminal
from wakeful.control.attaching import Visit
from wakeful.linux.child_environment import helper_environ

LEAVE_SECONDS_MAX: Final = 10.0
# A terminal that was closed, and whoever ends this command politely.
_ENDINGS: Final = (signal.SIGHUP, signal.SIGTERM)


def lend_terminal(visit: Visit, shown: str) -> int:
    """Hand this terminal over until the visit ends; the exit code of that. `shown` is what a script is told to run instead.

    Raises NeedsTerminal, TmuxMissing.
    """
    if not has_terminal():
        raise NeedsTerminal(command=shown)
    try:
        visitor = subprocess.Popen(visit.argv, env=helper_environ(os.environ))
    except FileNotFoundError as error:
        raise TmuxMissing(program=visit.argv[0]) from error
    with _told_of_endings(visitor) as endings:
        code = visitor.wait()
    if endings:
        _leave(visit.leave)
    return code if code >= 0 else 128 - code


@contextmanager
def _told_of_endings(visitor: "subprocess.Popen[bytes]") -> Iterator[list[int]]:
    """Whatever ends this command ends the visitor first, and is noted; an interrupt is the visitor's to understand."""
    endings: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        endings.append(number)
        visitor.terminate()

    before = {number: signal.signal(number, note) for number in _ENDINGS}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield endings
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(argv: Sequence[str]) -> None:
    """Best effort: nobody is there any more who could be told, and the client goes with the container anyway."""
    with subprocess.Popen(
        argv,
        env=helper_environ(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as leaving:
        try:
            leaving.wait(LEAVE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            leaving.kill()
