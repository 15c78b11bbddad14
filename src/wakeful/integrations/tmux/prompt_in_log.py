"""Checks whether the log of a conversation shows that its client took a text. Pure.

Claude Code and Codex log a prompt as soon as they take it. That proves that the prompt was sent; a log
without it proves nothing.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.integrations.tmux.input_line import squeeze
from wakeful.sources.parsing import wall_of


class _Block(Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Message(Struct, frozen=True):
    content: str | list[_Block] = ""


class _Payload(Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Line(Struct, frozen=True):
    """A line of either client: a prompt, one in a busy Claude Code's queue, or something else."""

    type: str
    timestamp: str
    message: _Message = _Message()
    operation: str = ""
    content: str = ""
    payload: _Payload = _Payload()

    @property
    def prompt(self) -> str:
        match self.type, self.operation or self.payload.type:
            case "queue-operation", "enqueue":
                return self.content
            case "event_msg", "user_message":
                return self.payload.message
            case "user", _:
                content = self.message.content
                if isinstance(content, str):
                    return content
                return "".join(each.text for each in content if each.type == "text")
            case _:
                return ""


_decode: Final = json_decoder(_Line)


def has_prompt(lines: Iterable[bytes], text: str, since: float) -> bool:
    """Whether one of these lines is a prompt with this text that the client took at `since` or later."""
    wanted = squeeze(text)
    return any(squeeze(prompt) == wanted for line in lines if (prompt := _prompt(line, since)))


def _prompt(line: bytes, since: float) -> str:
    try:
        record = _decode(line)
    except msgspec.DecodeError:
        # Another kind of line, or a torn one.
        return ""
    at = wall_of(record.timestamp)
    return record.prompt if at is not None and at >= since else ""
