"""Parses the script that a prompt carries to the scripted model, and selects the next step. Pure.

Text in, steps out; it knows no protocol and no socket.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from wakeful.core.errors import OperatorError

_SCRIPT: Final = re.compile(r"@@(\[.*?\])@@", re.DOTALL)
# More than any client retries, so that "no limit" needs no special case.
_TIMES_UNLIMITED: Final = 10**9


class BadScript(OperatorError):
    """This is not a script for the scripted model: {why}."""

    code = "bad-script"


class Point(StrEnum):
    """Where in an answer a hang or a close happens."""

    ACCEPT = "accept"
    HEADERS = "headers"
    START = "start"
    MID = "mid"


class Garbage(StrEnum):
    """What the server sends with status 200 instead of the protocol."""

    BODY = "body"
    JSON = "json"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class ScriptedToolCall:
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A command line for the client's own shell tool, which has another name in each client."""

    command: str


Call = ScriptedToolCall | ShellCall


@dataclass(frozen=True, slots=True)
class ModelStep:
    """One answer of the model."""

    text: str | None = None
    calls: tuple[Call, ...] = ()
    status: int | None = None
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    hang: Point | None = None
    close: Point | None = None
    garbage: Garbage | None = None
    sse_error: Mapping[str, Any] | None = None
    delay_seconds: float = 0.0
    times: int = _TIMES_UNLIMITED
    loop: bool = False

    @classmethod
    def parse(cls, raw: object) -> "ModelStep":
        """Parse a step from a JSON object. Raises BadScript."""
        row = _row(raw, _STEP_KEYS)
        try:
            return cls(
                text=row.get("text"),
                calls=_calls(row),
                status=row.get("status"),
                body=row.get("body"),
                headers=row.get("headers"),
                hang=Point(row["hang"]) if "hang" in row else None,
                close=Point(row["close"]) if "close" in row else None,
                garbage=Garbage(row["garbage"]) if "garbage" in row else None,
                sse_error=row.get("sse_error"),
                delay_seconds=float(row.get("delay", 0.0)),
                times=row.get("times", _TIMES_UNLIMITED),
                loop=row.get("loop", False),
            )
        except ValueError as error:
            raise BadScript(why=error) from error

    def on_attempt(self, attempt: int) -> "ModelStep":
        """This step, or the step without its fault if the fault is for fewer attempts."""
        if attempt <= self.times:
            return self
        if self.text is None and not self.calls:
            return ModelStep(text="Recovered.")
        return ModelStep(text=self.text, calls=self.calls)

    def breaks_at(self, point: Point) -> bool:
        return point in (self.hang, self.close)


DONE: Final = ModelStep(text="Done.")

_Keys = Mapping[str, type | tuple[type, ...]]

_CALL_KEYS: Final[_Keys] = {"tool": str, "input": dict, "run": str}
_STEP_KEYS: Final[_Keys] = {
    **_CALL_KEYS,
    "text": str,
    "tools": list,
    "status": int,
    "body": dict,
    "headers": dict,
    "hang": str,
    "close": str,
    "garbage": str,
    "sse_error": dict,
    "delay": (int, float),
    "times": int,
    "loop": bool,
}


def script(*steps: Mapping[str, Any]) -> str:
    """The text to put into a prompt. A step's tool input may hold the script of a subagent."""
    for step in steps:
        ModelStep.parse(dict(step))
    # The end mark of a nested script must not end this one, so it is escaped as JSON allows.
    return f"@@{json.dumps(steps).replace('@@', chr(92) + 'u0040@')}@@"


def find_script(prompt: str) -> Sequence[ModelStep] | None:
    """The last script in a prompt, or None. Raises BadScript."""
    found = _SCRIPT.findall(prompt)
    if not found:
        return None
    try:
        rows = json.loads(found[-1])
    except ValueError as error:
        raise BadScript(why=error) from error
    return tuple(ModelStep.parse(row) for row in rows)


def step_at(steps: Sequence[ModelStep], index: int) -> ModelStep:
    """The step to play after `index` answers; after the last one DONE, or the last one again if it loops."""
    if index < len(steps):
        return steps[index]
    return steps[-1] if steps and steps[-1].loop else DONE


def _calls(row: Mapping[str, Any]) -> tuple[Call, ...]:
    rows = row.get("tools") or ([row] if "tool" in row or "run" in row else [])
    return tuple(_call(each if each is row else _row(each, _CALL_KEYS)) for each in rows)


def _call(row: Mapping[str, Any]) -> Call:
    if "run" in row:
        return ShellCall(row["run"])
    if "tool" not in row:
        raise BadScript(why=f"a call names a tool or a command to run, not {sorted(row)}")
    return ScriptedToolCall(row["tool"], row.get("input", {}))


def _row(raw: object, keys: _Keys) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise BadScript(why=f"{raw!r} is not an object")
    for key, value in raw.items():
        if key not in keys:
            raise BadScript(why=f"{key!r} is none of {', '.join(keys)}")
        if not isinstance(value, keys[key]):
            raise BadScript(why=f"{key!r} cannot be {value!r}")
    return raw
