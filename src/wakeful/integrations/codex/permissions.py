"""Reads from a Codex call its own time limit, and whether it asks to run outside the sandbox. Pure."""

import re
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder

# A call returns after this time although its command goes on; 1,207 of 1,419 recorded calls returned sooner.
_YIELD_SECONDS: Final = 10.0
# A patch takes no time: the longest of 100 recorded ones took 0.15 s.
_PATCH_SECONDS_MAX: Final = 5.0
# The tools that start commands. Reading more from a running command needs no permission.
_COMMANDS: Final = frozenset({"exec_command", "shell", "shell_command", "local_shell"})
# In a script that calls tools the key has no quotes.
_ESCALATED: Final = re.compile(rb'sandbox_permissions"?\s*:\s*"require_escalated"')


class _YieldArguments(Struct, gc=False):
    yield_time_ms: float | None = None


_decode_yielding: Final = json_decoder(_YieldArguments)


def own_limit_seconds(tool: str, given: bytes, declared_seconds: float | None) -> float | None:
    """After what time Codex ends a call although its command goes on; None for tools without such a limit."""
    if tool == "apply_patch":
        return _PATCH_SECONDS_MAX
    if tool not in _COMMANDS:
        return None
    return declared_seconds or _yield_seconds(given) or _YIELD_SECONDS


def _yield_seconds(given: bytes) -> float | None:
    if b"yield_time_ms" not in given:
        return None
    try:
        milliseconds = _decode_yielding(given).yield_time_ms
    except msgspec.DecodeError:  # only the tool itself knows what such a number means
        return None
    return milliseconds / 1000 if milliseconds is not None else None


def is_escalated(given: bytes) -> bool:
    return _ESCALATED.search(given) is not None
