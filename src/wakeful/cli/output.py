"""Writes the output of commands: answers to stdout, remarks and errors to stderr, all plain text.

Text from a session reaches a terminal only through this module or through `table.py`.
"""

import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wakeful.core.errors import WorldError
from wakeful.core.text import SEQUENCE, plain

if TYPE_CHECKING:
    from wakeful.client.client import DaemonAnswer

INTERRUPTED_EXIT_CODE: Final = 130
# Remarks of a command with `--json`: its error, if there is one, is the only thing on stderr.
_pending_notes: Final[list[str]] = []


class OutputLost(WorldError):
    """standard output: {reason}"""

    code = "output-lost"


def print_line(line: str = "") -> None:
    sys.stdout.write(f"{plain_keeping_indent(line)}\n")


def print_line_now(line: str) -> None:
    """One line that a reader of the log sees at once."""
    print_line(line)
    sys.stdout.flush()


def print_note(line: str) -> None:
    """One line on stderr. With `--json` it comes at the end, or as part of the error."""
    if wants_json(sys.argv[1:]):
        _pending_notes.append(plain(line))
        return
    _write_note(plain(line))


def print_pending_notes() -> None:
    while _pending_notes:
        _write_note(_pending_notes.pop(0))


def _write_note(line: str) -> None:
    sys.stderr.write(f"wakeful: {line}\n")
    sys.stderr.flush()


def print_error(message: str, exit_code: int, code: str, *, retryable: bool = False) -> int:
    """Print why a command failed; its exit code. With `--json` it prints one JSON object to stderr instead."""
    # A list of candidates is aligned with spaces.
    lines = [line if line.isprintable() else plain(line) for line in message.splitlines() or [""]]
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
    """Whether `--json` or `-o json` is among the options; words after `--` belong to another program."""
    options = words[: words.index("--")] if "--" in words else words
    flags = any(each in ("-ojson", "-o=json") or each.partition("=")[0] == "--json" for each in options)
    return flags or ("-o", "json") in pairwise(options)


def print_json(body: bytes) -> None:
    """An answer exactly as the daemon gave it. Raises OutputLost."""
    sys.stdout.flush()
    try:
        # A body larger than the buffer bypasses it: a later flush would report no error.
        sys.stdout.buffer.write(body + b"\n")
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputLost(reason=problem.strerror) from problem


def print_answer(answer: "DaemonAnswer", lines: Callable[[bytes], Iterable[str]], *, as_json: bool) -> int:
    """Print an answer of the daemon, as JSON or as the lines made of it; its exit code."""
    if as_json:
        print_json(answer.body)
    else:
        for line in lines(answer.body):
            print_line(line)
    return answer.exit_code


def print_record(record: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what this command found, as JSON or as these lines."""
    if as_json:
        import msgspec  # noqa: PLC0415 - the help and most errors need none of it

        print_json(msgspec.json.encode(record))
        return
    for line in lines:
        print_line(line)


def wall_now() -> float:
    """Wall time, for ages that people read; nothing is judged by it."""
    return time.clock_gettime(time.CLOCK_REALTIME)


def is_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_choice(question: str) -> str:
    """The typed line in lower case; empty at the end of input."""
    sys.stdout.write(question)
    sys.stdout.flush()
    typed = ""
    try:
        typed = sys.stdin.readline()
    finally:
        if not typed.endswith("\n"):
            # Ctrl-C or Ctrl-D: the next shell prompt begins on a line of its own.
            sys.stdout.write("\n")
    return typed.strip().lower()


def confirm(question: str) -> bool:
    return read_choice(f"{question} [y/N] ") in ("y", "yes")


def plain_keeping_indent(line: str) -> str:
    """Plain text that keeps its leading and aligning spaces."""
    if line.isprintable():
        return line
    return "".join(char if char == " " else plain(char) or " " for char in SEQUENCE.sub("", line))
