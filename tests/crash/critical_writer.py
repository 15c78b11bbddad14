"""A process of its own that uses the log of critical events: `write NAME COUNT`, or `archive BEFORE` again and again.

Prints its arguments: one line a call.
"""

import sys
from pathlib import Path

from wakeful.core.errors import WorldError
from wakeful.critical_events import archive_events, log_critical_event


def write(log: str, name: str, count: int) -> None:
    for number in range(count):
        log_critical_event(
            "session_unhealthy",
            f"{name}-{number}",
            "p",
            "silent",
            # Longer than a page, so that a write is not one by accident.
            details={"text": name * 3000},
            timestamp=f"2026-02-0{1 + number % 9}T00:00:00Z",
            path=log,
        )


def main(log: str, act: str, *words: str) -> None:
    try:
        if act == "write":
            write(log, words[0], int(words[1]))
        else:
            for _ in range(int(words[1])):
                archive_events(words[0], path=log)
    except WorldError as error:
        print(error.code, Path(log).stat().st_size)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
