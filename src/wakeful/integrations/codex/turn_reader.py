"""Extracts one turn of a driven Codex from the output of `codex exec --json`. Pure.

Each process is one turn, and its file begins with it. Codex writes a message only when it is complete, so
there are no partial messages.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.control.turn_events import AnswerText, Ended, PromptTaken, Spent, TurnEvent
from wakeful.core.decoding import json_decoder
from wakeful.sources.turn_failure import classify_failure

BREAK: Final = "\n\n"


class _Item(Struct, gc=False):
    type: str = ""
    text: str = ""


class _Error(Struct, gc=False):
    message: str = ""


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0


class _Line(Struct, gc=False):
    type: str = ""
    item: _Item | None = None
    error: _Error | None = None
    usage: _Usage | None = None


_decode: Final = json_decoder(_Line)


class CodexTurnReader:
    """Reads the turn of one process. `codex exec` never asks for permissions."""

    def __init__(self, _prompt_id: str) -> None:
        self._text = ""

    def feed(self, line: bytes) -> Sequence[TurnEvent]:
        """The new events. Lines that are torn, unknown or of another shape have none."""
        try:
            record = _decode(line)
        except msgspec.DecodeError:
            return ()
        match record.type:
            case "turn.started":
                self._text = ""
                return (PromptTaken(),)
            case "item.completed" if record.item is not None and record.item.type == "agent_message":
                part = f"{BREAK}{record.item.text}" if self._text else record.item.text
                self._text += part
                return (AnswerText(part),) if part else ()
            case "turn.completed":
                used = record.usage or _Usage()
                spent = Spent(used.input_tokens, used.output_tokens)
                return (Ended(self._text, spent=spent, stop_reason="end_turn"),)
            case "turn.failed":
                message = record.error.message if record.error is not None else ""
                return (Ended(message, classify_failure(message)),)
        return ()

    def on_caught_up(self) -> Sequence[TurnEvent]:
        return ()

    def on_prompt_given(self) -> None:
        """Does nothing: each process is one turn and has its own file."""

    def on_new_process(self) -> bool:
        # Each process has one prompt, so the turn always goes on in the new file.
        self._text = ""
        return True
