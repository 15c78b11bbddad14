"""When two calls are the same call: a number for what was asked, and one for what came back.

Free text beside a call (descriptions, timeouts) is dropped, keys are sorted, spaces collapsed, spellings of one
read-only inspection made equal; ids, pids, clock times and durations are masked. Bare numbers are not: a line
number or a count that moves is progress.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final
from zlib import crc32

import msgspec

from wakeful.domain.masking import masked, masked_command

# A longer input is hashed as it is: what a description changes in it is not worth decoding it.
INPUT_BYTES_DECODED_MAX: Final = 4096
# A longer one is looked at at once: what is kept of a call until it is made again has no more room.
GIVEN_BYTES_KEPT_MAX: Final = 512
# Of a result its beginning and its end: folding takes the same time for any.
RESULT_END_BYTES: Final = 256

_BESIDE: Final = frozenset(
    {
        "description", "explanation", "justification", "max_output_tokens", "timeout", "timeout_ms",
        "timeout_seconds", "yield_time_ms",
    }
)  # fmt: skip
_COMMAND_KEYS: Final = ("command", "cmd")
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
_POLLING_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:await|poll|sleep|wait|watch)(?:[_.-]|$)"
    r"|(?:build|check|command|deploy\w*|job|pipeline|process|run|task|workflow)s?[_.-]?status",
    re.IGNORECASE,
)
_POLLING_COMMAND: Final = re.compile(
    r"\bsleep [0-9.$]|\bsleep\(|\bwait\(|(?:^|[;&|(] ?|\bdo )(?:wait\b|watch |inotifywait )|--watch\b"
    r"|\btail -f|\b(?:docker|kubectl|podman) wait\b|\brun watch\b|\bwait-for"
)
# The same inside other calls: a script that asks again, an empty line sent to a running program.
_POLLING_INPUT: Final = re.compile(
    rb'"(?:action|operation)" ?: ?"(?:poll|wait|status)"|"chars" ?: ?""|\b(?:write_stdin|wait)\(|\bsleep [0-9]'
)

# What it needs, looked for first: nearly every call has none of it, and a word is found faster than a pattern.
_POLLING_WORDS: Final = (
    b"sleep ",
    b"wait(",
    b"write_stdin(",
    b'"action"',
    b'"operation"',
    b'"chars"',
)

# One of these stands in every input of a call that waits, or says how long it may take.
_WAITING_WORDS: Final = (
    b"sleep",
    b"wait",
    b"--watch",
    b"watch ",
    b"tail -f",
    b"timeout ",
    b"write_stdin(",
    b'"action"',
    b'"operation"',
    b'"chars"',
)

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Meaning(msgspec.Struct, frozen=True, gc=False):
    """Which call it is, and whether it only reads."""

    key: int
    reads: bool


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call as it was made, and whether it waits. What else it means is worked out when somebody asks."""

    tool: str
    # All of it, or its beginning if it was looked at.
    given: bytes
    polls: bool
    meaning: Meaning | None = None

    @property
    def text(self) -> str:
        """What it asked for; the agent's words."""
        return f"{self.tool} {self.given.decode('utf-8', 'replace')}"


class _Manner(msgspec.Struct, frozen=True, gc=False):
    """What the name of a tool says by itself."""

    key: int
    reads: bool
    writes: bool
    polls: bool
    # Whether it waits is for its input to say.
    may_poll: bool


def call_of(tool: str, given: bytes) -> Call:
    """Take a call down. Constant time: nearly every one is made once, and nobody asks what it means."""
    manner = _manner(tool)
    may_poll = manner.may_poll and max(map(given.find, _WAITING_WORDS)) >= 0
    if not may_poll and len(given) <= GIVEN_BYTES_KEPT_MAX:
        return Call(tool, given, manner.polls)
    command, plain = _normalised(given)
    polls = manner.polls or (may_poll and _polls_inside(given[:INPUT_BYTES_DECODED_MAX], command))
    return Call(tool, given[:GIVEN_BYTES_KEPT_MAX], polls, _meaning(manner, command, plain))


def meaning_of(call: Call) -> Meaning:
    """Look at a call. Constant time: long inputs are not decoded."""
    return call.meaning or _meaning(_manner(call.tool), *_normalised(call.given))


def is_write(call: Call) -> bool:
    """Whether its name alone says that something is written."""
    return _manner(call.tool).writes


def _meaning(manner: _Manner, command: str, plain: bytes) -> Meaning:
    reads = manner.reads or (command != "" and _READING_COMMAND.match(command) is not None)
    return Meaning(crc32(plain, manner.key), reads)


@lru_cache(maxsize=256)
def _manner(tool: str) -> _Manner:
    reads, polls = tool in _READING_TOOLS, tool in _POLLING_TOOLS or _POLLING_NAME.search(tool) is not None
    writes = _WRITING_NAME.search(tool) is not None
    # What is written into a file may speak of waiting; that is no poll.
    return _Manner(crc32(tool.encode()), reads, writes, polls, may_poll=not (reads or writes or polls))


def _polls_inside(given: bytes, command: str) -> bool:
    """Whether the command waits; without one, whether anything in the input does."""
    if command:
        return _POLLING_COMMAND.search(command) is not None
    # The last place of any of them. Not `in`: bytes take what is looked for as a number first, and fail.
    return max(map(given.find, _POLLING_WORDS)) >= 0 and bool(_POLLING_INPUT.search(given))


def essence(result: bytes) -> bytes:
    """All of a result that is ever compared: its beginning, its end and its length."""
    if len(result) <= 2 * RESULT_END_BYTES:
        return result
    return b"%b ... %b / %d" % (result[:RESULT_END_BYTES], result[-RESULT_END_BYTES:], len(result))


def result_key(result: bytes, seed: int) -> int:
    """A number for what came back, with everything volatile masked."""
    return crc32(masked(essence(result)), seed)


# The folder that most commands of a session are run in, over and over.
_masked_beside: Final = lru_cache(maxsize=64)(masked_command)


@cache
def _speller() -> Callable[[object], str]:
    from wakeful.domain.spelling import plain_command  # noqa: PLC0415 - its patterns take as long as all else here

    return plain_command


def _normalised(given: bytes) -> tuple[str, bytes]:
    """The command inside an input, if there is one, and the input as it is compared."""
    if len(given) > INPUT_BYTES_DECODED_MAX or not given.startswith(b"{"):  # a patch, a script
        return "", given
    try:
        asked = _decode(given)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "", given
    for key in _BESIDE.intersection(asked):
        del asked[key]
    command = ""
    for key in _COMMAND_KEYS:
        if key in asked:
            command += _speller()(asked.pop(key))
    beside = _encode(asked) if asked else b""
    # Only commands name pids and locks; a file written with another date in it is another file.
    return command, masked_command(command.encode()) + _masked_beside(beside) if command else beside
