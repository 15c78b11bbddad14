"""The state of a journal, from which its program can continue, and the events that led to it. Pure.

The state has exactly eight keys; the facts that recovery needs about a step are in its entry of
`process_map`. A file with other keys comes from another program or a newer Wakeful and is refused, because
rewriting it would lose them.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.core.decoding import decode_json, json_decoder
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.process import Process

# Step names become parts of file names.
_STEP_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CHECKPOINT_LINE: Final = re.compile(r"awaiting-approval: CHECKPOINT_([1-9][0-9]{0,5})\.md(?:\n|\Z)")
# A journal without a write for this long is stale.
STALE_SECONDS: Final[Mapping[str, float]] = {"interactive": 300.0, "batch": 1800.0}


class BadStepName(OperatorError):
    """Invalid step name {shown!r}: use letters, digits and . _ -, a letter or digit first, at most 100."""

    code = "bad-step"


class BadTrait(OperatorError):
    """A step's {name} must be {allowed}, not {shown!r}."""

    code = "bad-step-trait"


class StateMissing(OperatorError):
    """{path} does not exist: there is nothing to recover."""

    code = "state-missing"
    http_status = 404


class StateForeign(OperatorError):
    """{path} is not a state that this version can read: {reason}. It was not changed."""

    code = "state-foreign"


class StateOutdated(OperatorError):
    """{path} does not belong to session {later}, which events.ndjson or gaia.db name last. Restore the matching files,
    or start over with fresh=True."""

    code = "state-outdated"


class StateTorn(WorldError):
    """{path} is incomplete: {reason}."""

    code = "state-torn"


class StepEffects(StrEnum):
    """The possible effects of a step. `unknown` is treated as `remote`."""

    NONE = "none"
    LOCAL = "local"
    REMOTE = "remote"
    UNKNOWN = "unknown"


class OnAlive(StrEnum):
    """The treatment of a process that outlived its program: recovery waits for it, or ends it and runs the step again."""

    WAIT = "wait"
    RERUN = "rerun"


class StepStatus(StrEnum):
    """The last known status of a step. `cleared`: it may be run again."""

    STARTED = "started"
    FAILED = "failed"
    COMPLETED = "completed"
    CLEARED = "cleared"
    UNDOING = "undoing"
    ABORTED = "aborted"


class StepEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A started step: the five fields of its process, then the facts that recovery decides by.

    `started` and `boot_id` make the pid an identity. `mark` is in the environment of every process that the
    step started; a step that runs inside the program has none. `undo_of` is the checkpoint whose decision
    started the undo.
    """

    pid: int | None = None
    cmd: str | tuple[str, ...] = ""
    started_at: str = ""
    stdout_path: str | None = None
    stderr_path: str | None = None
    started: int | None = None
    boot_id: str = ""
    mark: str = ""
    effects: StepEffects = StepEffects.UNKNOWN
    key: str | None = None
    undo: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    detachable: bool = False
    orphanable: bool = False
    on_alive: OnAlive = OnAlive.WAIT
    temp: tuple[str, ...] = ()
    then: str | None = None
    attempt: int = 1
    last: StepStatus = StepStatus.STARTED
    undo_of: int | None = None
    # The id of the machine of the process; see `core.process.Process`.
    machine: str = ""

    @property
    def process(self) -> Process | None:
        """The identity behind the pid; None if it was not recorded."""
        if self.pid is None or self.started is None or not self.boot_id:
            return None
        return Process(self.pid, self.started, self.boot_id, self.machine)

    @property
    def is_open(self) -> bool:
        return self.last not in {StepStatus.COMPLETED, StepStatus.CLEARED}


class SessionState(Struct, frozen=True, forbid_unknown_fields=True):
    """`.copilot/session_state.json`, key by key (docs/specs/recovery.md)."""

    current_task_id: str | None
    steps_completed: tuple[str, ...]
    next_immediate_step: str | None
    last_sync: str
    trace_id: str
    process_map: dict[str, StepEntry]
    events_cursor: int
    notes: str | None = None

    @property
    def checkpoint_numbers(self) -> tuple[int, ...]:
        """The numbers of the checkpoints that block this journal."""
        return _split_checkpoints(self.notes or "")[0]

    def with_checkpoints(self, numbers: Iterable[int]) -> "SessionState":
        """The state blocked by these checkpoints, or by none; other notes stay."""
        lines = [f"awaiting-approval: CHECKPOINT_{number}.md" for number in numbers]
        others = _split_checkpoints(self.notes or "")[1]
        return replace(self, notes="\n".join(part for part in (*lines, others) if part) or None)

    def with_entry(self, step: str, entry: StepEntry) -> "SessionState":
        return replace(self, process_map={**self.process_map, step: entry})

    def with_completed(self, step: str) -> "SessionState":
        """The state in which this step is completed and has no process."""
        entry = self.process_map.get(step)
        then = entry.then if entry is not None else None
        left = {name: each for name, each in self.process_map.items() if name != step}
        open_steps = [name for name, each in left.items() if each.is_open]
        return replace(
            self,
            current_task_id=open_steps[-1] if open_steps else None,
            steps_completed=(*(each for each in self.steps_completed if each != step), step),
            next_immediate_step=open_steps[-1] if open_steps else then,
            process_map=left,
        )


def _split_checkpoints(notes: str) -> tuple[tuple[int, ...], str]:
    """The checkpoints at the start of the notes, and the rest of the notes."""
    numbers = []
    while found := _CHECKPOINT_LINE.match(notes):
        numbers.append(int(found[1]))
        notes = notes[found.end() :]
    return tuple(numbers), notes


class Trace(Struct, frozen=True):
    """One line of `events.ndjson`, and one row of `audit`."""

    at: str
    event: str
    trace_id: str
    step: str | None
    id: str
    details: dict[str, Any]


_decode: Final = json_decoder(SessionState)
_decode_trace: Final = json_decoder(Trace)
_encode: Final = msgspec.json.Encoder().encode


def state_bytes(state: SessionState) -> bytes:
    """The content of the state's file, indented for people."""
    return msgspec.json.format(_encode(state), indent=2) + b"\n"


def read_state(content: bytes, path: str) -> SessionState:
    """The state in a file's content. Raises StateTorn if the content is not JSON, StateForeign if it is other JSON."""
    try:
        return _decode(content)
    except msgspec.ValidationError as problem:
        # The decoder reports the first wrong type, even in a text that is torn after it.
        if _is_json(content):
            raise StateForeign(path=path, reason=_reason(problem)) from problem
        raise StateTorn(path=path, reason="it ends in the middle") from problem
    except msgspec.DecodeError as problem:
        reason = "it is empty" if not content.strip(b"\0 \n") else "it is not JSON"
        raise StateTorn(path=path, reason=reason) from problem


def _is_json(content: bytes) -> bool:
    try:
        decode_json(content)
    except msgspec.DecodeError:
        return False
    return True


def _reason(problem: msgspec.ValidationError) -> str:
    text = str(problem)
    return f"{text}; a newer Wakeful or another program wrote it" if "unknown field" in text else text


def trace_line(trace: Trace) -> bytes:
    return _encode(trace) + b"\n"


def read_trace(line: bytes) -> Trace | None:
    """The event of a line; None if the line is torn or another program's."""
    try:
        return _decode_trace(line)
    except msgspec.DecodeError:
        return None


def start_details(entry: StepEntry) -> dict[str, Any]:
    """Details of a started event: enough to decide about the step without the state.

    Commands are left out: they may contain secrets, and owners show event logs to other people.
    """
    defaults = replace(StepEntry(), undo=entry.undo, query=entry.query)
    changed = {name: value for name, value in asdict(entry).items() if value != getattr(defaults, name)}
    return {"attempt": entry.attempt, "effects": str(entry.effects), **changed}


def without_completed(state: SessionState) -> SessionState:
    """The state without processes of completed steps, which other programs may leave there."""
    left = {step: each for step, each in state.process_map.items() if step not in state.steps_completed}
    return replace(state, process_map=left)


def reconcile(state: SessionState, traces: Iterable[Trace]) -> SessionState:
    """Apply traces to the state: a step that they report as started or completed counts as such.

    Traces may come in any order, twice, and from before the state. A state can be older than its events (a
    restored backup, a git checkout), and then only the events have the later changes. A trace without an
    attempt, as earlier versions wrote it, belongs to the attempt of the trace before it.
    """
    attempts: dict[str, int] = {}
    for trace in traces:
        if trace.step is None or trace.trace_id != state.trace_id:
            continue
        attempt = trace.details.get("attempt", attempts.get(trace.step))
        if isinstance(attempt, int):
            attempts[trace.step] = attempt
            state = _with_trace(state, trace, trace.step, attempt)
    return state


# The status that each event sets. Within one attempt a status only moves down this list.
_LAST_OF: Final[Mapping[str, StepStatus]] = {
    "action.started": StepStatus.STARTED,
    "action.failed": StepStatus.FAILED,
    "recovery.undo_started": StepStatus.UNDOING,
    "checkpoint.aborted": StepStatus.ABORTED,
    "recovery.cleared": StepStatus.CLEARED,
    "action.completed": StepStatus.COMPLETED,
}
_STATUS_ORDER: Final = tuple(_LAST_OF.values())


def _with_trace(state: SessionState, trace: Trace, step: str, attempt: int) -> SessionState:
    last = _LAST_OF.get(trace.event)
    if last is None or step in state.steps_completed:
        return state
    before = state.process_map.get(step)
    if last is StepStatus.COMPLETED:
        return state.with_completed(step)
    if before is not None and (before.attempt, _STATUS_ORDER.index(before.last)) >= (
        attempt,
        _STATUS_ORDER.index(last),
    ):
        return state
    same = before if before is not None and before.attempt == attempt else _entry_of(trace, attempt)
    undo_of = trace.details.get("checkpoint")
    decided = undo_of if isinstance(undo_of, int) else same.undo_of
    return state.with_entry(step, replace(same, last=last, undo_of=decided))


def _entry_of(trace: Trace, attempt: int) -> StepEntry:
    if trace.event == "action.started":
        with suppress(msgspec.ValidationError):
            return msgspec.convert(trace.details, StepEntry)
    # Nothing else about this attempt is known.
    return StepEntry(started_at=trace.at, attempt=attempt)


def parse_step(name: str) -> str:
    """Raises BadStepName."""
    if _STEP_NAME.fullmatch(name) is None:
        raise BadStepName(shown=name[:40])
    return name
