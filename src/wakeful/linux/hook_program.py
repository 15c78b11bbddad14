"""Runs a program of the operator's with an event on its standard input. Ends by its deadline, and so does what it started."""

import os
from collections.abc import Sequence
from typing import Final

from wakeful.core.redact import redact
from wakeful.core.text import plain
from wakeful.linux.child_environment import hook_environ
from wakeful.linux.inquiry import OUTPUT_BYTES_MAX, ask

DEADLINE_SECONDS: Final = 10.0
WORDS_CHARS_MAX: Final = 200


class HookProgram:
    """One argv list, run for every event."""

    def __init__(self, argv: Sequence[str], deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._argv = tuple(argv)
        self._deadline_seconds = deadline_seconds

    async def run(self, event: bytes) -> str | None:
        """Tell the program; what went wrong, or None."""
        try:
            answer = await ask(
                self._argv,
                self._deadline_seconds,
                environ=hook_environ(os.environ),
                with_children=True,
                given=event,
            )
        except OSError as problem:
            return problem.strerror or str(problem)
        if max(len(answer.output), len(answer.errors)) > OUTPUT_BYTES_MAX:
            return f"ended, for it said more than {OUTPUT_BYTES_MAX} bytes"
        if answer.exit_code is None:
            return f"not done after {self._deadline_seconds:g} s"
        words = plain(redact(answer.errors.decode(errors="replace")), WORDS_CHARS_MAX)
        return None if answer.exit_code == 0 else f"exit {answer.exit_code} {words}".rstrip()
