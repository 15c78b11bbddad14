"""How Codex says that a call or a turn went wrong: mostly in words. Pure.

A call's output opens with header lines up to `Output:`; what the program wrote stands behind them and is
never taken for an outcome.
"""

import re
from typing import Final

from wakeful.judging import events as e
from wakeful.sources.failure_words import status_in, turn_failed as failed_turn

# The longest header seen has 130 bytes; a list of parts begins with some more around its first text.
_HEADER_BYTES_MAX: Final = 400
_OUTPUT: Final = b"Output:"
# `Process exited with code 3` or `Exit code: 3`; one literal to look for, as every output is searched.
_EXIT: Final = re.compile(rb"code:? (-?\d+)")
# The command goes on as a terminal of its own; its call came back.
_GOES_ON: Final = re.compile(rb"Process running with session ID (\d{1,20})")
# Sentences of Codex itself; what a tool of somebody else calls failed is for the model to judge.
_BROKEN: Final = re.compile(
    rb"(?:Script failed|[a-z]+_[a-z_]+ (?:verification )?failed|failed to parse|unsupported )"
)
_REFUSED: Final = re.compile(
    rb"(?:(?:exec command|patch) rejected by user|(?:Wall time: [\d.]+ seconds\\n)?aborted by user)"
)
# Older dialects put JSON into the string; its quotes are escaped there.
_JSON_FAILED: Final = re.compile(
    rb'\\?"(?:exit_code\\?":\s*-?0*[1-9]|is_?[eE]rror\\?":\s*true|success\\?":\s*false)'
)
_JSON_STARTS: Final = (b'"{', b"{")


def call_ended(call: str, output: bytes, at: float) -> e.CallEnded:
    """The end of a call by the JSON of its output. The result leaves out what differs every time."""
    head, separator, _ = output[:_HEADER_BYTES_MAX].partition(_OUTPUT)
    result = output[len(head) :] if separator else output
    exited = _EXIT.search(head) if separator else None
    if exited is not None:
        return e.CallEnded(at, call, int(exited[1]) != 0, result=exited[1] + result)
    goes_on = _GOES_ON.search(head) if separator else None
    if goes_on is not None:
        return e.CallEnded(at, call, result=result, background=goes_on[1].decode())
    opening = _opening(head)
    refused = _REFUSED.match(opening) is not None
    is_error = not refused and (_BROKEN.match(opening) is not None or _failed_in_json(output))
    return e.CallEnded(at, call, is_error, refused, result)


def _opening(head: bytes) -> bytes:
    """The first words, whether the output is a text or a list of parts."""
    return head.partition(b'"text":')[2].lstrip(b' "') if head.startswith(b"[") else head.lstrip(b'"')


def _failed_in_json(output: bytes) -> bool:
    if not output.startswith(_JSON_STARTS):
        return False
    edges = output[:_HEADER_BYTES_MAX] + output[-_HEADER_BYTES_MAX:]
    return _JSON_FAILED.search(edges) is not None


def turn_failed(message: str, cause: bytes, at: float) -> e.TurnFailed:
    """The failure of a turn by the sentence shown to the person and the client's own cause beside it."""
    code = cause.decode("utf-8", "replace")
    return failed_turn(message, at, status=status_in(f"{message} {code}"), code=code)
