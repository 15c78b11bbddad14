"""The tool calls inside a script: Codex lets its model write JavaScript that calls tools instead of calling them.

Read by its signs, never run. A script that reaches its tools in another way than `tools.name(...)`, or whose texts
are put together while it runs, is not `whole`.
"""

import re
from typing import Final

from msgspec import Struct, field

# Four times the longest recorded script.
SCRIPT_CHARS_MAX: Final = 65_536

_SIGN: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`"
    r"|\.\.\.|[A-Za-z_$][\w$]*|[^\s\w]",
    re.DOTALL,
)
_MIGHTY: Final = frozenset(
    {
        "Deno", "Function", "Reflect", "Worker", "XMLHttpRequest", "WebSocket", "constructor", "eval", "fetch", "global",
        "globalThis", "import", "process", "require", "this", "with",
    }
)  # fmt: skip
# The argument of a call that says what it does.
_DECIDES: Final = {"cmd", "command", "chars"}
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


class ToolCall(Struct, frozen=True):
    """A call of a tool. `argument`: its command or the text it types, if that stands there as it is."""

    tool: str
    argument: str | None = None


class ToolScript(Struct):
    """The calls of a script, all its texts, and whether it was understood."""

    calls: list[ToolCall] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    whole: bool = True


def read_tool_script(code: str) -> ToolScript:
    """The tool calls of a script. Never raises; linear time."""
    signs = [sign for sign in _SIGN.findall(code[:SCRIPT_CHARS_MAX]) if not sign.startswith(("//", "/*"))]
    script = ToolScript(whole=len(code) <= SCRIPT_CHARS_MAX)
    for at, sign in enumerate(signs):
        if sign[0] in "\"'`":
            script.whole = script.whole and len(sign) > 1
            script.texts.append(_text(sign) or "")
        elif sign == "tools" and signs[at - 1 : at] != ["."]:
            _take(script, signs, at)
        elif sign in _MIGHTY or "\\" in sign:
            script.whole = False
    return script


def _take(script: ToolScript, signs: list[str], at: int) -> None:
    dot, name, opening = (*signs[at + 1 : at + 4], "", "", "")[:3]
    if dot != "." or opening != "(":
        script.whole = False
        return
    literal, is_whole = _argument(signs, at + 4)
    script.calls.append(ToolCall(name, literal))
    script.whole = script.whole and is_whole


def _argument(signs: list[str], at: int) -> tuple[str | None, bool]:
    """The deciding argument of a call, and whether nothing is added to it while the script runs."""
    depth = 1
    while at < len(signs) and depth:
        sign = signs[at]
        depth += (sign in _OPEN) - (sign in _CLOSE)
        key = sign.strip("\"'")
        if key in _DECIDES and depth == 2:
            colon, value, following = (*signs[at + 1 : at + 4], "", "", "")[:3]
            text = _text(value) if colon == ":" else None
            plain = text is not None and following in {",", "}"} and not (value[0] == "`" and "${" in value)
            return text, plain
        if sign == "...":
            return None, False
        at += 1
    return None, True


_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "\n": ""}


def _text(sign: str) -> str | None:
    """The text of a literal; what a template would fill in becomes a variable of the shell."""
    if not sign or sign[0] not in "\"'`" or len(sign) < 2:
        return None
    body = sign[1:-1]
    if sign[0] == "`":
        body = re.sub(r"(?<!\\)\$\{[^}`]*\}", "$filled", body)
    return _ESCAPE.sub(_unescaped, body)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)
