"""Writes the output of commands: answers to stdout, remarks and errors to stderr, all plain text.

Text from a session reaches a terminal only through this module or through `table.py`.
"""

import sys
import time
from itertools import pairwise
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.core.text import SEQUENCE, plain

INTERRUPTED_EXIT_CODE: Final = 130
# Remarks of a command that was asked for JSON: its error, if there is one, is the only thing on stderr.
_pending_notes: Final[list[str]] = []


class OutputLost(WorldError):
    """standard output: {reason}"""

    code = "output-lost"


def print_line(line: str = "") -> None:
    """One line of the answer."""
    sys.stdout.write(f"{plain_keeping_indent(line)}\n")


def print_note(line: str) -> None:
    """One line beside the answer: pipes do not get it. With `--json` it comes at the end, or as part of the error."""
    if wants_json(sys.argv[1:]):
        _pending_notes.append(plain(line))
        return
    _write_note(plain(line))


def print_pending_notes() -> None:
    """Write what was held back."""
    while _pending_notes:
        _write_note(_pending_notes.pop(0))


def _write_note(line: str) -> None:
    sys.stderr.write(f"wakeful: {line}\n")
    sys.stderr.flush()


def print_error(message: str, exit_code: int, code: str, *, retryable: bool = False) -> int:
    """Say why nothing came of it; the exit code. Each line of a message is on a line of its own.

    A command that was asked for JSON writes one object instead, on standard error as well.
    """
    lines = [plain(line) for line in message.splitlines() or [""]]
    if not wants_json(sys.argv[1:]):
        for line in lines:
            _write_note(line)
        return exit_code
    import json  # noqa: PLC0415 - only where something failed

    said: dict[str, object] = {
        "code": code,
        "detail": "\n".join(lines),
        "exit_code": exit_code,
        "retryable": retryable,
    }
    if _pending_notes:
        said["notes"] = list(_pending_notes)
        _pending_notes.clear()
    sys.stderr.write(f"{json.dumps(said, ensure_ascii=False)}\n")
    return exit_code


def wants_json(words: list[str]) -> bool:
    """Whether `--json` or `-o json` is among the options; what stands behind `--` is another program's."""
    options = words[: words.index("--")] if "--" in words else words
    flags = any(each in ("-ojson", "-o=json") or each.partition("=")[0] == "--json" for each in options)
    return flags or ("-o", "json") in pairwise(options)


def print_json(body: bytes) -> None:
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
    return line if line.isprintable() else _plain_aligned(line)


def _plain_aligned(line: str) -> str:
    return "".join(char if char == " " else plain(char) or " " for char in SEQUENCE.sub("", line))
