"""Run folders of hosted programs, and the checks, marks and stop procedure that drivers share.

The drivers of Claude Code and Codex use both. A run folder holds a program's input, its append-only output
and its error output; it knows no protocol. The program itself holds its input FIFO open both ways, and an
appended file needs no reader, so the program outlives the daemon and the next daemon continues with it. A
start creates the folder; a stop that saw every process end removes it. After a crash it stays until then.
"""

import asyncio
import fcntl
import os
import shutil
import stat
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from errno import ENOENT, ENXIO
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.control.briefs import prompt_problem
from wakeful.control.driver import (
    PROMPT_BYTES_MAX,
    ActionResult,
    ArgumentRefused,
    ConversationUnknown,
    PromptRefused,
    StartRequest,
)
from wakeful.core.decoding import decode_json
from wakeful.core.errors import StartFailed, WakefulError
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import EPOCH_VARIABLE, INTENT_VARIABLE, SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.claude_code.registry import entry_of
from wakeful.linux import proc
from wakeful.linux.client_processes import is_client
from wakeful.linux.files import owner_only, read_small
from wakeful.linux.launch import Streams
from wakeful.linux.terminate import IsMeant, SweepResult, TerminationResult, terminate, terminate_marked
from wakeful.storage.base import ActionOutcome

ERROR_TAIL_BYTES: Final = 4096
ERROR_TAIL_CHARS_MAX: Final = 300
# The most that the kernel gives an ordinary user (fs.pipe-max-size). A line that fits is written whole or not at all.
PIPE_BYTES_MAX: Final = 1024 * 1024
# A pipe is filled page by page: its first and its last page may be nearly empty.
PIPE_SLACK_BYTES: Final = 2 * 4096
DRAIN_POLL_SECONDS: Final = 0.01
# Only the fates of the last prompts are needed: the gateway sends one at a time.
PROMPTS_KEPT_MAX: Final = 50
PROCESS_BYTES_MAX: Final = 4096
# Ten times as much as so many prompts with names of 200 characters need.
PROMPTS_BYTES_MAX: Final = 256 * 1024

_WRITE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class WriteResult(StrEnum):
    WHOLE = "whole"
    NO_READER = "its input is no longer read"
    FULL = "its input is full: it has not read for a while"
    BUSY = "another process is writing to it"
    # The next line would be appended to half of this one, so the input is removed.
    TORN = "it took half of the text and stopped reading: it can only be stopped and resumed"


class PromptFate(StrEnum):
    """The fate of a prompt for a process of this folder."""

    # The newest process may still take it.
    OPEN = ""
    TAKEN = "taken"
    # The process ended before it read the prompt.
    LOST = "lost"
    UNKNOWN = "unknown"


class RunFolder:
    def __init__(self, root: Path, session_id: SessionId) -> None:
        self.path = root / session_id
        self.input = self.path / "in"
        self.output = self.path / "out.jsonl"
        self._errors = self.path / "err"
        self._prompts = self.path / "prompt"
        self._process = self.path / "process"

    def has_reader(self) -> bool:
        descriptor = self._open_input()
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    @contextmanager
    def open_streams(self) -> Iterator[Streams]:
        """New input (a FIFO), output and errors for a process that the block starts.

        The end of the block closes Wakeful's descriptors; if the start failed, it removes the folder.
        """
        with self._make_folder() as opened:
            self.input.unlink(missing_ok=True)
            os.mkfifo(self.input, 0o600)
            yield self._streams(opened, _open(opened, self.input, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))

    @contextmanager
    def open_prompt_streams(self, prompt: str, prompt_id: str = "") -> Iterator[Streams]:
        """Streams for a process that reads one prompt to its end. The prompt's id is recorded before the start."""
        # The file has no name, so no other process can read it later, and nothing remains to clean up.
        with self._make_folder() as opened, TemporaryFile(dir=self.path) as source:
            source.write(prompt.encode())
            source.seek(0)
            streams = self._streams(opened, source.fileno())
            self.record_prompt(prompt_id)
            yield streams

    @property
    def prompts(self) -> dict[str, PromptFate] | None:
        """The last prompts of this session's processes, the newest last; None: not recorded.

        A prompt without an id has an empty name.
        """
        content = read_small(self._prompts, PROMPTS_BYTES_MAX)
        if content is None:
            return None
        lines = content.decode("utf-8", "replace").split("\n")
        # A later version may have written a fate that does not exist in this one.
        return {
            name: PromptFate(fate) if fate in set(PromptFate) else PromptFate.UNKNOWN
            for name, _, fate in (line.partition(" ") for line in lines)
        }

    def record_prompt(self, prompt_id: str, fate: PromptFate = PromptFate.OPEN) -> None:
        """Record a prompt before the process gets it, or its fate later."""
        prompts = self.prompts or {}
        if fate is PromptFate.OPEN:
            # A prompt that is sent again becomes the newest.
            prompts.pop(prompt_id, None)
        prompts[prompt_id] = fate
        lines = [f"{name} {each}".rstrip() for name, each in prompts.items()][-PROMPTS_KEPT_MAX:]
        # Replaced as a whole: half a file would say that a prompt was never sent.
        new_file = self._prompts.with_suffix(".new")
        with open(new_file, "w", encoding="utf-8", opener=owner_only) as file:
            file.write("\n".join(lines))
        new_file.replace(self._prompts)

    @property
    def process(self) -> Process | None:
        """The newest process that was started for this session; None if that was not recorded."""
        content = read_small(self._process, PROCESS_BYTES_MAX)
        try:
            return proc.with_machine(decode_json(content, Process)) if content is not None else None
        except msgspec.DecodeError:
            return None

    def record_process(self, process: Process) -> None:
        """Record the started process before its conversation is known."""
        new_file = self._process.with_suffix(".new")
        with open(new_file, "wb", opener=owner_only) as file:
            file.write(msgspec.json.encode(process))
        new_file.replace(self._process)

    def trim(self) -> None:
        """Drop the output so far; the process goes on appending."""
        os.truncate(self.output, 0)

    def last_error_output(self) -> str:
        """The end of the error output, safe to show; empty if there is none."""
        try:
            with self._errors.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - ERROR_TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        # Redact before cutting: redaction does not recognize half a secret.
        shown = plain(redact(text), ERROR_TAIL_BYTES)
        return shown if len(shown) <= ERROR_TAIL_CHARS_MAX else f"…{shown[-ERROR_TAIL_CHARS_MAX:]}"

    def rename(self, root: Path, session_id: SessionId) -> "RunFolder":
        """Move the folder to another session; open descriptors stay valid."""
        renamed = RunFolder(root, session_id)
        self.path.rename(renamed.path)
        return renamed

    def remove(self) -> None:
        if self.path.exists():
            shutil.rmtree(self.path)

    async def write_line(self, line: bytes, deadline_seconds: float) -> WriteResult:
        """Write one line to the input. Never waits beyond the deadline and never mixes with another writer's bytes."""
        descriptor = self._open_input()
        if descriptor is None:
            return WriteResult.NO_READER
        try:
            written = await _write_locked(descriptor, line + b"\n", deadline_seconds)
        finally:
            os.close(descriptor)
        if written is WriteResult.TORN:
            self.input.unlink(missing_ok=True)
        return written

    def _open_input(self) -> int | None:
        try:
            descriptor = os.open(self.input, _WRITE | os.O_NONBLOCK)
        except OSError as problem:
            if problem.errno in (ENOENT, ENXIO):
                return None
            raise
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        return None

    @contextmanager
    def _make_folder(self) -> Iterator[ExitStack]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        try:
            with ExitStack() as opened:
                yield opened
        except WakefulError:
            self.remove()
            raise

    def _streams(self, opened: ExitStack, source: int) -> Streams:
        appending = _WRITE | os.O_CREAT | os.O_APPEND | os.O_TRUNC
        return Streams(source, _open(opened, self.output, appending), _open(opened, self._errors, appending))


def _open(opened: ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    opened.callback(os.close, descriptor)
    return descriptor


async def _write_locked(descriptor: int, line: bytes, deadline_seconds: float) -> WriteResult:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return WriteResult.BUSY
    rest = memoryview(line)
    try:
        async with asyncio.timeout(deadline_seconds):
            while not _fits_in_pipe(descriptor, len(line)):  # noqa: ASYNC110 - a drained pipe raises no event
                await asyncio.sleep(DRAIN_POLL_SECONDS)
            while rest:
                rest = rest[_write_some(descriptor, rest) :]
                if rest:
                    await _wait_writable(descriptor)
    except BrokenPipeError:
        return WriteResult.NO_READER
    except TimeoutError:
        return WriteResult.FULL if len(rest) == len(line) else WriteResult.TORN
    return WriteResult.WHOLE


def _fits_in_pipe(descriptor: int, wanted_bytes: int) -> bool:
    """Whether the line fits at once. A line longer than any pipe needs an empty pipe and a reader that keeps reading."""
    room_bytes = _widen(descriptor, wanted_bytes + PIPE_SLACK_BYTES)
    used_bytes = int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    return used_bytes == 0 or used_bytes + wanted_bytes + PIPE_SLACK_BYTES <= room_bytes


def _widen(descriptor: int, wanted_bytes: int) -> int:
    """Make room for the whole line if the kernel allows it; it may not, if a user has many wide pipes."""
    room_bytes = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    if room_bytes >= wanted_bytes:
        return room_bytes
    try:
        return fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, min(wanted_bytes, PIPE_BYTES_MAX))
    except OSError:
        return room_bytes


def _write_some(descriptor: int, rest: memoryview) -> int:
    try:
        return os.write(descriptor, rest)
    except BlockingIOError:
        return 0


async def _wait_writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)


confirmed: Final = partial(ActionResult, ActionOutcome.CONFIRMED)
declined: Final = partial(ActionResult, ActionOutcome.DECLINED)
ineffective: Final = partial(ActionResult, ActionOutcome.INEFFECTIVE)
unverified: Final = partial(ActionResult, ActionOutcome.UNVERIFIED)

CHOSEN_BY_WAKEFUL: Final = "Wakeful chooses this one itself."
NOT_A_COMMAND: Final = "Only options are allowed here; give the prompt separately."
NOT_AN_ARGUMENT: Final = "No argument can hold a NUL."


class DriverTimeouts(Struct, frozen=True):
    """How long a driver waits for each step, in seconds."""

    # Sixteen starts at once took 45 s on two cores.
    start: float = 60.0
    write: float = 5.0
    take: float = 20.0
    # A refused login came 0.2 s after the prompt; the model's first token comes about as fast.
    first_word: float = 1.0
    interrupt: float = 10.0


def check_prompt(prompt: str) -> None:
    """Raises PromptRefused."""
    reason = prompt_problem(prompt, PROMPT_BYTES_MAX)
    if reason is not None:
        raise PromptRefused(reason=reason)


def check_arguments(argv: Sequence[str], refused: Mapping[str, str]) -> None:
    """Raises ArgumentRefused for an option that contradicts the driver, and for a first word that is no option.

    A later word may belong to the option before it; only the client knows.
    """
    program, *arguments = argv
    for index, word in enumerate(arguments):
        option = word.partition("=")[0]
        advice = refused.get(option)
        if word == "--" or (index == 0 and not word.startswith("-")):
            advice = NOT_A_COMMAND
        if "\0" in word:
            advice = NOT_AN_ARGUMENT
        if advice is not None:
            raise ArgumentRefused(program=program, argument=option, advice=advice)


def with_marks(
    environ: Mapping[str, str], session_id: SessionId | None, epoch: int, intent_id: str
) -> dict[str, str]:
    """The environment with the marks of the new process, and without the marks of any other."""
    marks = {SESSION_VARIABLE: session_id, EPOCH_VARIABLE: str(epoch), INTENT_VARIABLE: intent_id}
    unmarked = {name: value for name, value in environ.items() if name not in marks}
    return unmarked | {name: value for name, value in marks.items() if value}


def unreachable_result(managed: ManagedSession) -> ActionResult | None:
    """Why this session's process cannot be reached; None if it is alive."""
    process = managed.process
    match proc.state_of(process) if process is not None else ProcessState.DEAD:
        case ProcessState.ALIVE:
            return None
        case ProcessState.DEAD:
            return ineffective("its process is gone")
        case ProcessState.UNKNOWN:
            return ineffective("it is unknown whether its process is alive")


def start_error(
    request: StartRequest,
    folder: RunFolder,
    conversation: ConversationId | None,
    *,
    unknown: str,
    last_output: str = "",
) -> ConversationUnknown | StartFailed:
    """The error of a start that ended at once, from its output; `unknown` is the client's text. Removes the folder."""
    reason = folder.last_error_output() or last_output or "it said nothing"
    folder.remove()
    if unknown in reason:
        return ConversationUnknown(conversation=conversation, folder=request.cwd)
    return StartFailed(program=request.argv[0], reason=reason)


def agent_of(session_id: SessionId, conversation: str) -> IsMeant:
    """A check for the process of this session: it has Wakeful's variable, or is the client that holds the conversation.

    A stored pid alone proves nothing: records and files can name any process.
    """
    provider = session_id.partition("-")[0]

    def is_meant(process: Process) -> bool:
        if proc.environ_value(process.pid, SESSION_VARIABLE) == session_id:
            return True
        if not is_client(process.pid, provider):
            return False
        # A client without an entry may hold any conversation.
        entry = entry_of(process) if provider == "claude" else None
        return entry is None or entry.session_id == conversation

    return is_meant


async def stop_managed_process(
    managed: ManagedSession, folder: RunFolder, tool_variable: str
) -> ActionResult:
    """End the agent, then its leftover processes; remove the folder once all of them have ended."""
    is_agent = agent_of(managed.session_id, managed.conversation_id)
    result = await terminate(managed.process, is_meant=is_agent) if managed.process is not None else None
    if result is not None and result.sight is not ProcessState.DEAD:
        is_alive = result.sight is ProcessState.ALIVE
        outcome = ActionOutcome.INEFFECTIVE if is_alive else ActionOutcome.UNVERIFIED
        did = "got no signal" if result.signal is None else "was signalled"
        return ActionResult(outcome, f"process {result.process.pid} {did}, and its end was not confirmed")
    # Wakeful's variable is missing if Wakeful did not start the process, the client's if it is no tool.
    by_client = await terminate_marked(tool_variable, managed.conversation_id, epoch_max=managed.epoch)
    by_wakeful = await terminate_marked(SESSION_VARIABLE, managed.session_id, epoch_max=managed.epoch)
    left_alone = {*by_client.spared, *by_wakeful.spared}
    swept = SweepResult((*by_client.endings, *by_wakeful.endings), tuple(left_alone))
    if swept.survivors:
        pids = _pids(swept.survivors)
        return ineffective(f"{_ending_text(result)}, but these still run: {pids}")
    folder.remove()
    return confirmed(f"{_ending_text(result)}{_swept_text(swept)}")


def _ending_text(result: TerminationResult | None) -> str:
    if result is None or result.signal is None:
        return "its process had ended already"
    return f"process {result.process.pid} ended after {result.signal.name} within {result.seconds:.1f} s"


def _swept_text(swept: SweepResult) -> str:
    ended = f", {len(swept.endings)} processes it left behind were ended" if swept.endings else ""
    spared = (
        f", left alone because a terminal or a newer claim has them: {_pids(swept.spared)}"
        if swept.spared
        else ""
    )
    return ended + spared


def _pids(processes: Sequence[Process]) -> str:
    return ", ".join(str(each.pid) for each in processes)
