"""Identity of tool calls and their results, for loop detection: one number each.

Free text beside a call (descriptions, timeouts) is dropped, keys are sorted, spaces are collapsed, and
different spellings of one read-only inspection become equal. Ids, pids, clock times and durations are masked.
Bare numbers are not: a line number or a count that changes is progress.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from wakeful.core.decoding import json_decoder
from wakeful.judging.masking import mask_command, mask_result
from wakeful.judging.plan_items import PlanShape, is_plan, plan_shape

if TYPE_CHECKING:
    from wakeful.effects.rules import EffectRule

# A longer input is not decoded, but hashed without its description.
INPUT_BYTES_DECODED_MAX: Final = 4096
# A longer input is analysed at once, because only this much is stored until the call is repeated.
GIVEN_BYTES_KEPT_MAX: Final = 512
# A secret is recognised by a beginning of this length.
BORDER_BYTES: Final = 64
# Only the beginning and the end of a result are compared, so folding takes constant time.
RESULT_END_BYTES: Final = 256

_IGNORED_KEYS: Final = frozenset(
    {
        "description", "explanation", "justification", "max_output_tokens", "timeout", "timeout_ms",
        "timeout_seconds", "yield_time_ms",
    }
)  # fmt: skip
# For a subagent it is the name of its task: several may be started with the same prompt.
_TASK_NAME_KEY: Final = "description"
# Quotes inside the text are escaped.
_DESCRIPTION: Final = re.compile(rb'"description" ?: ?"(?:[^"\\]|\\.)*"')
_SPAWNING_NAME: Final = re.compile(
    r"^(?:Task|Agent)$|sub_?agent|(?:spawn|launch|dispatch|delegate)_(?:agent|task)", re.IGNORECASE
)
_COMMAND_KEYS: Final = ("command", "cmd")
_WRITING_NAME: Final = re.compile(r"edit|write(?!_stdin)|patch|replace|create|delete|move", re.IGNORECASE)
_READING_TOOLS: Final = frozenset(
    {
        "Glob", "Grep", "LS", "NotebookRead", "Read", "TodoRead", "ToolSearch", "WebFetch", "WebSearch",
        "list_dir", "read_file", "view_image", "web_search",
    }
)  # fmt: skip
_READING_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:describe|fetch|find|get|glob|grep|list|lookup|query|read|search|show|view)(?:[_.-]|$)"
)
# One part of a command line, and the separators of parts.
_READING_COMMAND: Final = re.compile(
    r"(?:ls|cat|head|tail|grep|egrep|rg|ag|find|fd|pwd|wc|which|type|tree|file|stat|nl|jq|echo|sed -n|awk|diff|du|df|cd|sort"
    r"|uniq|cut|tr|column|less|true|test|git (?:status|diff|log|show|ls-files|blame|rev-parse|grep|branch(?=$| -[av]| --)"
    r"|remote(?=$| -v| show)))(?![\w-])"
)
_PARTS: Final = re.compile(r" ?(?:&&|\|\||[;|]) ?")
_WRITING_COMMAND: Final = re.compile(
    r"(?<![<=-])>(?!&\d|>? ?/dev/null)|<<| -(?:delete|exec|execdir|ok|fprint)\b"
)
_POLLING_TOOLS: Final = frozenset({"AgentOutputTool", "BashOutput", "Monitor", "TaskOutput", "write_stdin"})
# Text typed into a running program is no poll: only an empty line requests its output.
_TYPED_INPUT: Final = re.compile(rb'"chars" ?: ?"(?!")')
_POLLING_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:await|poll|sleep|wait|watch)(?:[_.-]|$)"
    r"|(?:build|check|command|deploy\w*|job|pipeline|process|run|task|workflow)s?[_.-]?status",
    re.IGNORECASE,
)
_POLLING_COMMAND: Final = re.compile(
    r"\bsleep [0-9.$]|\bsleep\(|\bwait\(|\bStart-Sleep\b|(?:^|[;&|(] ?|\bdo )(?:wait\b|watch |inotifywait )|--watch\b"
    r"|\btail (?:[^;&|]* )?(?:-\w*[fF]\b|--follow)|\bkubectl [^;&|]*-w\b|\brollout status\b"
    r"|\b(?:docker|kubectl|podman|aws \S+) wait\b|\brun watch\b|\bwait-for|^(?:true|:) ?;?$"
)
# A command that leaves something running is no poll, however long it waits afterwards.
_LAUNCHING_COMMAND: Final = re.compile(r"\s&(?=\s|$|\))|(?:^|[;&|(] ?)(?:nohup|setsid) ")
# Status checks of builds, deployments, containers. They count as work, unless the answer says that it is not over.
_STATUS_COMMAND: Final = re.compile(
    r"(?:gh (?:run|pr|workflow) (?:view|list|checks|status)|glab (?:ci|pipeline|mr)|kubectl (?:get|describe)"
    r"|(?:docker|podman)(?: compose|-compose)? (?:ps|inspect)|aws \S+ (?:describe|get|list)-|gcloud .*\b(?:describe|list)"
    r"|az .*\bshow)\b"
)
# Words for starting something, in a command with an unknown program or in the name of a tool.
_STARTING: Final = re.compile(
    r"(?:^|[^a-z])(?:build|create|daemon|deploy|dev|launch|publish|restart|run|send|serve|server|spawn|start|submit|trigger"
    r"|up)(?![a-z])",
    re.IGNORECASE,
)
# Checks of processes, of the end of a file that may grow, of the output of a background task.
_CHANGING_COMMAND: Final = re.compile(r"(?:ps|pgrep|jobs|squeue|sacct|qstat|tail)\b")
_TASK_OUTPUT: Final = re.compile(rb"/tasks/[\w-]+\.output\b")
# An answer about something unfinished has one of these. Test runners count their skipped tests as pending.
_PENDING: Final = re.compile(
    rb"\b(?:pending|queued|still (?:running|building|waiting)|not (?:yet )?ready|waiting for)\b|in[ _-]progress",
    re.IGNORECASE,
)
_RUNNING: Final = re.compile(
    rb"\b(?:running|working|building|creating|starting|\w*creating)\b", re.IGNORECASE
)
_FINISHED: Final = re.compile(rb"fail|error|pass|\d pending", re.IGNORECASE)
PENDING_BYTES_MAX: Final = 200
_SLEEP_COMMAND: Final = re.compile(rb"\bsleep [0-9.]+[smhd]?")
# Polls inside other calls: a script that checks again, an empty line sent to a running program.
_POLLING_INPUT: Final = re.compile(
    rb'"(?:action|operation)" ?: ?"(?:poll|wait|status)"|"chars" ?: ?""|"(?:command|cmd)" ?: ?"\s*"'
    rb"|\bwait\(|\bsleep [0-9]|\bwrite_stdin\((?![^)]*\bchars[\\\"']*\s*:\s*\\?[\"'`](?!\\?[\"'`]))"
)

# One of these is in every match of that pattern. They are searched first: nearly every call has none of them, and a
# word is found faster than a pattern.
_POLLING_WORDS: Final = (
    *(b"sleep ", b"wait(", b"write_stdin("),
    *(b'"action"', b'"operation"', b'"chars"', b'"command"', b'"cmd"'),
)
# One of these is in every input of a call that waits, or that says how long it may take.
_WAITING_WORDS: Final = (
    *(b"leep", b"wait", b"watch", b"tail -f", b"tail -F", b"--follow", b"kubectl ", b"timeout "),
    *(b"write_stdin(", b'"action"', b'"operation"', b'"chars"'),
    *(b':""', b': ""', b':" ', b': " ', b'"true', b':":', b': ":'),
)

_decode: Final = json_decoder(dict[str, Any])
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class CallIdentity(msgspec.Struct, frozen=True, gc=False):
    """The identity of a call. The effect of its command is computed on demand."""

    key: int
    # A number for the folder and the variables of its command, if any.
    place: str
    command: str
    reads_by_name: bool

    @property
    def reads(self) -> bool:
        return self.reads_by_name or (self.command != "" and _only_reads(self.command))

    def is_same(self, other: "CallIdentity") -> bool:
        """Whether both are the same request; a call without a folder matches any folder."""
        return self.key == other.key and (self.place == other.place or not (self.place and other.place))


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call, and whether it polls. Its identity is computed on demand."""

    tool: str
    # The whole input, or its beginning if it was analysed.
    given: bytes
    polls: bool
    meaning: CallIdentity | None = None
    # If it writes the plan: the number of items and of done ones.
    plan: PlanShape | None = None

    @property
    def text(self) -> str:
        return f"{self.tool} {self.given.decode('utf-8', 'replace')}"


class _ToolTraits(msgspec.Struct, frozen=True, gc=False):
    key: int
    reads: bool
    writes: bool
    polls: bool
    # Only its input says whether it polls.
    may_poll: bool
    # It starts another agent; it writes the plan.
    spawns: bool
    plans: bool
    # Keys of the input that do not belong to the request.
    ignored_keys: frozenset[str]


def kept_prefix(raw: bytes, bytes_max: int) -> bytes:
    """The part that is stored and shown, up to the last blank: half a secret would not be recognised."""
    if len(raw) <= bytes_max:
        return raw
    blank = raw.rfind(b" ", bytes_max - BORDER_BYTES, bytes_max)
    return raw[: blank if blank >= 0 else bytes_max - BORDER_BYTES]


def call_of(tool: str, given: bytes) -> Call:
    """Record a call, in constant time: nearly every call is made once, and its identity is never needed."""
    traits = _tool_traits(tool)
    may_poll = traits.may_poll and max(map(given.find, _WAITING_WORDS)) >= 0
    plan = plan_shape(given) if traits.plans else None
    polls = traits.polls and not (tool == "write_stdin" and _TYPED_INPUT.search(given) is not None)
    if not may_poll and len(given) <= GIVEN_BYTES_KEPT_MAX:
        return Call(tool, given, polls, plan=plan)
    command, place, plain = _normalize(traits, given)
    polls = polls or (may_poll and _has_poll(given[:INPUT_BYTES_DECODED_MAX], command))
    if polls:
        # The length of a sleep is no part of the request.
        plain = _SLEEP_COMMAND.sub(b"sleep", plain)
    return Call(
        tool, kept_prefix(given, GIVEN_BYTES_KEPT_MAX), polls, _identity(traits, command, place, plain), plan
    )


def identity_of(call: Call) -> CallIdentity:
    """The identity of a call, in constant time: long inputs are not decoded."""
    if call.meaning is not None:
        return call.meaning
    traits = _tool_traits(call.tool)
    return _identity(traits, *_normalize(traits, call.given))


def is_write(call: Call) -> bool:
    """Whether the name of its tool says that it writes."""
    return _tool_traits(call.tool).writes


def is_spawn(tool: str) -> bool:
    return _tool_traits(tool).spawns


def writes_nothing(identity: CallIdentity) -> bool:
    """Whether a call only reads: files, a page, an answer of a server."""
    return identity.reads or (identity.command != "" and _changes_nothing(identity.command))


def starts_something(tool: str, identity: CallIdentity) -> bool:
    """Whether a call starts something: by the effect of its command, or by a word in it or in the tool's name."""
    if not identity.command:
        return _STARTING.search(tool) is not None
    if writes_nothing(identity):
        return False
    return not _is_unknown(identity.command) or _STARTING.search(identity.command) is not None


@lru_cache(maxsize=256)
def _changes_nothing(command: str) -> bool:
    from wakeful.effects.rules import MEANINGS  # noqa: PLC0415 - slow to import, see _normalizer

    return MEANINGS[_rule_of(command)].reads_only


@lru_cache(maxsize=256)
def _is_unknown(command: str) -> bool:
    """Whether it runs an unknown program, which may just show a status."""
    return _rule_of(command) in {"project-program", "unknown-program"}


def _rule_of(command: str) -> "EffectRule":
    from wakeful.effects.shell import classify_text  # noqa: PLC0415 - slow to import, see _normalizer

    return classify_text(command).rule


def _identity(traits: _ToolTraits, command: str, place: str, plain: bytes) -> CallIdentity:
    # The effect of a long command is not computed.
    short_command = command if len(command) <= GIVEN_BYTES_KEPT_MAX else ""
    # Its variables may be secret, and are only compared.
    place_key = f"{crc32(place.encode()):08x}" if place else ""
    return CallIdentity(crc32(plain, traits.key), place_key, short_command, traits.reads)


@lru_cache(maxsize=256)
def _only_reads(command: str) -> bool:
    """Whether all parts of a command line read and no output goes into a file."""
    if _WRITING_COMMAND.search(command) is not None:
        return False
    return all(map(_READING_COMMAND.match, filter(None, _PARTS.split(command))))


@lru_cache(maxsize=256)
def _tool_traits(tool: str) -> _ToolTraits:
    writes = _WRITING_NAME.search(tool) is not None
    reads = tool in _READING_TOOLS or (not writes and _READING_NAME.search(tool) is not None)
    polls = tool in _POLLING_TOOLS or _POLLING_NAME.search(tool) is not None
    # The text that a call writes into a file may contain words of a poll.
    may_poll = not (reads or writes or polls)
    has_spawning_name = _SPAWNING_NAME.search(tool) is not None
    ignored = _IGNORED_KEYS - {_TASK_NAME_KEY} if has_spawning_name else _IGNORED_KEYS
    spawns = has_spawning_name and not (reads or polls)
    return _ToolTraits(crc32(tool.encode()), reads, writes, polls, may_poll, spawns, is_plan(tool), ignored)


def _has_poll(given: bytes, command: str) -> bool:
    """Whether the command waits; without one, whether anything in the input does."""
    if command:
        waits = _POLLING_COMMAND.search(command) is not None
        return waits and _LAUNCHING_COMMAND.search(command) is None
    # Not `in`, which is slower: for bytes it first tries to take its operand as a number.
    return max(map(given.find, _POLLING_WORDS)) >= 0 and bool(_POLLING_INPUT.search(given))


def reports_in_progress(call: Call, identity: CallIdentity, result: bytes) -> bool:
    """Whether the result of a check says that something outside goes on. A call that starts it is no check."""
    if starts_something(call.tool, identity):
        return False
    text = result.replace(b"\\n", b"\n").replace(b"\\t", b"\t")
    if len(text) > PENDING_BYTES_MAX or _FINISHED.search(text) is not None:
        return False
    is_status = _STATUS_COMMAND.match(identity.command) is not None
    return _PENDING.search(text) is not None or (is_status and _RUNNING.search(text) is not None)


def may_change(call: Call, identity: CallIdentity) -> bool:
    """Whether a call checks something that may change by itself."""
    return (
        _CHANGING_COMMAND.match(identity.command) is not None or _TASK_OUTPUT.search(call.given) is not None
    )


def result_digest(result: bytes) -> bytes:
    """The compared part of a result: its beginning, its end and its length."""
    if len(result) <= 2 * RESULT_END_BYTES:
        return result
    return b"%b ... %b / %d" % (result[:RESULT_END_BYTES], result[-RESULT_END_BYTES:], len(result))


def result_key(result: bytes, seed: int) -> int:
    """A number for a result, with everything volatile masked."""
    return crc32(mask_result(result_digest(result)), seed)


# Mostly the folder, which is the same for most commands of a session.
_mask_other_input: Final = lru_cache(maxsize=64)(mask_command)


@cache
def _normalizer() -> Callable[[object], tuple[str, str]]:
    from wakeful.judging.command_normalization import normalize_command  # noqa: PLC0415 - its patterns double the import time

    return normalize_command


def _normalize(traits: _ToolTraits, given: bytes) -> tuple[str, str, bytes]:
    """The command in an input, its folder and variables, and the compared form of the input."""
    if not given.startswith(b"{"):  # a patch, a script
        return "", "", given
    if len(given) > INPUT_BYTES_DECODED_MAX:
        drops_description = _TASK_NAME_KEY in traits.ignored_keys
        return "", "", _DESCRIPTION.sub(b"", given, count=1) if drops_description else given
    try:
        arguments = _decode(given)
    except msgspec.DecodeError:
        return "", "", given
    for key in traits.ignored_keys.intersection(arguments):
        del arguments[key]
    command = place = ""
    for key in _COMMAND_KEYS:
        if key in arguments:
            normalized, place = _normalizer()(arguments.pop(key))
            command += normalized
    rest = _encode(arguments) if arguments else b""
    if not command:
        # Only commands are masked: a file written with another date in it is another file.
        return command, place, rest
    # For git an id is a commit, the subject of the command.
    masked = command.encode() if command.startswith("git ") else mask_command(command.encode())
    return command, place, masked + _mask_other_input(rest)
