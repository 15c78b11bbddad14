"""What commands write: answers to stdout, remarks to stderr, both plain.

Nothing that came from a session reaches a terminal except through here or through a table of `table.py`.
"""

import sys
import time

from wakeful.domain.errors import WorldError
from wakeful.domain.plaintext import SEQUENCE, plain


class OutputLost(WorldError):
    """standard output: {reason}"""

    code = "output-lost"


def say(line: str = "") -> None:
    """One line of the answer."""
    sys.stdout.write(f"{plain_keeping_indent(line)}\n")


def note(line: str) -> None:
    """One line beside the answer: pipes do not get it."""
    sys.stderr.write(f"wakeful: {plain(line)}\n")
    sys.stderr.flush()


def show_json(body: bytes) -> None:
    """An answer exactly as the daemon gave it. Raises OutputLost."""
    sys.stdout.flush()
    try:
        # What is larger than the buffer goes past it: a later flush would find nothing wrong.
        sys.stdout.buffer.write(body + b"\n")
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputLost(reason=problem.strerror) from problem


def wall_now() -> float:
    """For ages that people read, which is all a command needs the time for; nothing is judged by it."""
    return time.clock_gettime(time.CLOCK_REALTIME)


def plain_keeping_indent(line: str) -> str:
    """Plain text with our own leading and aligning spaces left as they are."""
    return line if line.isprintable() else _aligned(line)


def _aligned(line: str) -> str:
    return "".join(char if char == " " else plain(char) or " " for char in SEQUENCE.sub("", line))
