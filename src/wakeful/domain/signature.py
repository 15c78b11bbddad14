"""When two calls are the same call: a number for what was asked, and one for what came back.

Free text beside a call (descriptions, timeouts) is dropped, keys are sorted, spaces collapsed, spellings of one
read-only inspection made equal; ids, pids, clock times and durations are masked. Bare numbers are not: a line
number or a count that moves is progress.
"""

import re
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import msgspec

# A longer input is hashed as it is: what a description changes in it is not worth decoding it.
INPUT_BYTES_DECODED_MAX: Final = 4096
# Of a result its beginning and its end: folding takes the same time for any.
RESULT_END_BYTES: Final = 256

_BESIDE: Final = frozenset(
    {
        "description", "explanation", "justification", "max_output_tokens", "timeout", "timeout_ms",
        "timeout_seconds", "yield_time_ms",
    }
)  # fmt: skip
_COMMAND_KEYS: Final = ("command", "cmd")
_DIGIT: Final = re.compile(rb"[0-9]")
# One word boundary for all, and the digit that most begin with asked for once: four times as fast as plain alternatives.
_VOLATILE: Final = re.compile(
    rb"\b(?:\d(?:"
    rb"\d{3}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"  # a date with its time
    rb"|\d:\d\d:\d\d(?:[.,]\d+)?"  # a time of day
    rb"|(?<=0)x[0-9a-fA-F]+"
    rb"|(?=[0-9a-f-]*[a-f])[0-9a-f]{3,}(?:-[0-9a-f]+)*\b"  # a hexadecimal id
    rb"|\d*(?:\.\d+)? ?(?:ms|s|secs?|seconds)\b)"
    rb"|[a-f](?=[0-9a-f]{3})(?=[0-9a-f-]*\d)[0-9a-f]{3,}(?:-[0-9a-f]+)*\b"
    rb"|(?:p(?:id|rocess)|PID)[ =:#]{1,3}\d+"
    rb"|tmp[._-]\w{6,})"  # a name made by mktemp
)
# What stands before a command without changing what it asks: a folder, a variable, a pager switched off.
_PREFIX: Final = re.compile(r"(?:cd \S+ ?(?:&&|;) ?|(?:env )?[A-Z_]+=\S* )+")
_SUFFIX: Final = re.compile(r"(?: ?2>&1| ?2>/dev/null| ?\| ?(?:cat|head|tail)(?: -n? ?-?\d+)?)+$")
_GIT_NOISE: Final = re.compile(r"^git (?:--no-pager |-C \S+ |-c \S+ )+")
# An overview names no file: whatever has a slash, an extension or a `--` looks at something in particular.
_GIT_OVERVIEW: Final = re.compile(r"^git (?:status|diff|ls-files|log|branch)(?: (?:-{1,2}[\w=-]+|HEAD\S*))*$")
_LISTING: Final = re.compile(r"^ls(?: -\w+)*(?: \.)?$")

_WRITING_NAME: Final = re.compile(r"edit|write(?!_stdin)|patch|replace|create|delete|move", re.IGNORECASE)
_READING_TOOLS: Final = frozenset(
    {
        "Glob", "Grep", "LS", "NotebookRead", "Read", "TodoRead", "ToolSearch", "WebFetch", "WebSearch",
        "list_dir", "read_file", "view_image", "web_search",
    }
)  # fmt: skip
_READING_COMMAND: Final = re.compile(
    r"^(?:ls|cat|head|tail|grep|egrep|rg|ag|find|fd|pwd|wc|which|type|tree|file|stat|nl|jq|echo|sed -n|awk|diff|du|df"
    r"|git (?:status|diff|log|show|ls-files|branch|blame|rev-parse|remote|grep))\b"
)
_POLLING_TOOLS: Final = frozenset(
    {
        "AgentOutputTool",
        "BashOutput",
        "Monitor",
        "TaskOutput",
        "wait",
        "wait_agent",
        "write_stdin",
    }
)
_POLLING_COMMAND: Final = re.compile(r"(?:^|[;&|(] ?|\bdo )(?:sleep \d|wait\b|timeout \d+ tail -f)|--watch\b")
# The same inside other calls: a script that asks again, an empty line sent to a running program.
_POLLING_INPUT: Final = re.compile(
    rb'"(?:action|operation)" ?: ?"(?:poll|wait|status)"|"chars" ?: ?""|\b(?:write_stdin|wait)\(|\bsleep [0-9]'
)

# What either needs, looked for first: nearly every call has none of it, and a word is found faster than a pattern.
_POLLING_WORDS: Final = (
    b"sleep ",
    b"wait(",
    b"write_stdin(",
    b'"poll"',
    b'"wait"',
    b'"status"',
    b'"chars"',
)
_POLLING_COMMANDS: Final = ("sleep ", "wait", "--watch", "tail -f")

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Call(msgspec.Struct, frozen=True, gc=False):
    """What is known of a call once it was looked at: which one it is, and whether it reads, writes or waits."""

    key: int
    reads: bool
    writes: bool
    polls: bool


def call_of(tool: str, given: bytes) -> Call:
    """Look at a call. Constant time: long inputs are not decoded."""
    command, plain = "", given
    if len(given) <= INPUT_BYTES_DECODED_MAX:
        command, plain = _normalised(given)
    writes = _writes(tool)
    # What is written into a file may speak of waiting; that is no poll.
    files = writes or tool in _READING_TOOLS
    return Call(
        key=crc32(plain, crc32(tool.encode())),
        reads=tool in _READING_TOOLS or _READING_COMMAND.match(command) is not None,
        writes=writes,
        polls=tool in _POLLING_TOOLS
        or (not files and _polls_inside(given[:INPUT_BYTES_DECODED_MAX], command)),
    )


@lru_cache(maxsize=256)
def _writes(tool: str) -> bool:
    return _WRITING_NAME.search(tool) is not None


def _polls_inside(given: bytes, command: str) -> bool:
    if any(map(given.__contains__, _POLLING_WORDS)) and _POLLING_INPUT.search(given) is not None:
        return True
    return any(map(command.__contains__, _POLLING_COMMANDS)) and _POLLING_COMMAND.search(command) is not None


def result_key(result: bytes, seed: int) -> int:
    """A number for what came back, with everything volatile masked."""
    if len(result) > 2 * RESULT_END_BYTES:
        seed ^= len(result)
        result = result[:RESULT_END_BYTES] + b" ... " + result[-RESULT_END_BYTES:]
    return crc32(_masked(result), seed)


def _masked(text: bytes) -> bytes:
    """JSON with everything volatile masked; an escaped line break is no letter of the word behind it."""
    if _DIGIT.search(text) is None and b"tmp" not in text:
        return text
    return _VOLATILE.sub(b"~", text.replace(b"\\n", b"\n"))


def _normalised(given: bytes) -> tuple[str, bytes]:
    """The command inside an input, if there is one, and the input as it is compared."""
    try:
        asked = _decode(given)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "", given
    asked = {key: value for key, value in asked.items() if key not in _BESIDE}
    command = ""
    for key in _COMMAND_KEYS:
        if key in asked:
            command = asked[key] = _plain_command(asked[key])
    # Only commands name pids and locks; a file written with another date in it is another file.
    return command, _masked(_encode(asked)) if command else _encode(asked)


def _plain_command(value: object) -> str:
    """One spelling of a command line."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    prefix = _PREFIX.match(text)
    if prefix is not None:
        text = text[prefix.end() :] or text
    if "|" in text or "2>" in text:
        text = _SUFFIX.sub("", text) or text
    if text.startswith("git "):
        text = _GIT_NOISE.sub("git ", text)
    if _GIT_OVERVIEW.match(text):
        return "git status"
    return "ls" if _LISTING.match(text) else text
