"""What `codex exec --json` says, folded into the little a driver must know. Pure: lines in, state out."""

import re
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.redact import redact
from wakeful.core.text import plain

WORDS_CHARS_MAX: Final = 300
# As version 0.166 words it: a refused key, or none where the provider's configuration names one.
_LOGIN_WORDS: Final = re.compile(r"status 40[13]\b|Missing environment variable|not logged in", re.IGNORECASE)


class _Failure(Struct, gc=False):
    message: str = ""


class _Line(Struct, gc=False):
    """Only what is read."""

    type: str = ""
    thread_id: str | None = None
    error: _Failure | None = None


_decode: Final = json_decoder(_Line)


class Turn:
    """One process's turn."""

    def __init__(self) -> None:
        self.thread_id: str | None = None
        self.begun = False
        self.over = False
        # Whether the model, or a tool it called, was heard.
        self.heard = False
        self.failure: str | None = None

    @property
    def needs_login(self) -> bool:
        return self.failure is not None and _LOGIN_WORDS.search(self.failure) is not None

    def feed(self, line: bytes) -> None:
        """Lines that are torn, unknown or of another shape change nothing."""
        try:
            said = _decode(line)
        except msgspec.DecodeError:
            return
        match said.type:
            case "thread.started":
                self.thread_id = said.thread_id
            case "turn.started":
                self.begun = True
            case "turn.completed":
                self.over = True
            case "turn.failed":
                self.over = True
                self.failure = plain(redact(said.error.message if said.error else ""), WORDS_CHARS_MAX)
            case "item.started" | "item.completed":
                # A warning may come before the turn begins: that is not the model.
                self.heard = self.begun
