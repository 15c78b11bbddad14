"""Drives Codex by `codex exec` and `codex exec resume`: one process per turn, which ends by itself.

`CodexTurn` parses the output of `codex exec --json`; it is pure. A prompt is passed in an unnamed file, never as
an argument: arguments are limited in length, and every user of the host can read them. Wakeful tracks the
native process below npm's wrapper: it does the work, holds the writer lock and survives the wrapper's death.
"""

import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import (
    ActionResult,
    ConversationUnknown,
    OnStarted,
    PermissionQuestion,
    PermissionReply,
    PromptRefused,
    StartRequest,
    ignore_start,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import ConversationId, SessionId, is_uuid, parse_session_id
from wakeful.core.managed_session import SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.driver_support import (
    CHOSEN_BY_WAKEFUL,
    DriverTimeouts,
    PromptFate,
    RunFolder,
    agent_of,
    check_arguments,
    check_prompt,
    confirmed,
    declined,
    ineffective,
    start_error,
    stop_managed_process,
    unreachable_result,
    unverified,
    with_marks,
)
from wakeful.linux import proc
from wakeful.linux.launch import launch
from wakeful.linux.terminate import terminate, terminate_marked
from wakeful.sources.follow import FileFollower

TEXT_CHARS_MAX: Final = 300
# The texts of version 0.166 about a refused key, and about a key that the configuration names and is missing.
_LOGIN_FAILURE: Final = re.compile(
    r"status 40[13]\b|Missing environment variable|not logged in", re.IGNORECASE
)


class _Failure(Struct, gc=False):
    message: str = ""


class _Line(Struct, gc=False):
    type: str = ""
    thread_id: str | None = None
    error: _Failure | None = None


_decode: Final = json_decoder(_Line)


class CodexTurn:
    def __init__(self) -> None:
        self.thread_id: str | None = None
        self.has_begun = False
        self.is_over = False
        # Whether there was output of the model or of a tool.
        self.has_answered = False
        self.failure: str | None = None

    @property
    def needs_login(self) -> bool:
        return self.failure is not None and _LOGIN_FAILURE.search(self.failure) is not None

    def feed(self, line: bytes) -> None:
        """Lines that are torn, unknown or of another shape change nothing."""
        try:
            record = _decode(line)
        except msgspec.DecodeError:
            return
        match record.type:
            case "thread.started":
                self.thread_id = record.thread_id
            case "turn.started":
                self.has_begun = True
            case "turn.completed":
                self.is_over = True
            case "turn.failed":
                self.is_over = True
                self.failure = plain(redact(record.error.message if record.error else ""), TEXT_CHARS_MAX)
            case "item.started" | "item.completed":
                # A warning may come before the turn begins; it is not from the model.
                self.has_answered = self.has_begun


TOOL_VARIABLE: Final = "CODEX_THREAD_ID"
# They define where conversations are stored: with other values a later turn would not find its conversation.
HOME_VARIABLES: Final = ("HOME", "CODEX_HOME")
REFUSED_OPTIONS: Final = dict.fromkeys(
    (
        *("resume", "fork", "review", "-", "--last", "--all", "--ephemeral", "--color", "-C", "--cd"),
        *("-h", "--help", "-V", "--version"),
    ),
    CHOSEN_BY_WAKEFUL,
)
UNKNOWN_CONVERSATION: Final = "no rollout found for thread id"
# After its last line a process took 0.1 to 0.3 s to end, unless a command in the background keeps it.
EXIT_SECONDS: Final = 3.0
# A process writes its thread id within a second of its start; a busy machine may take longer, and a daemon waits for it.
NAMING_SECONDS: Final = 10.0


class CodexDriver:
    """Implements control.driver.Driver. `environ` is for prompts that come without an environment."""

    name = "codex"
    per_turn = True

    def __init__(
        self, root: Path, clock: Clock, environ: dict[str, str], timeouts: DriverTimeouts | None = None
    ) -> None:
        self._root = root
        self._clock = clock
        self._environ = environ
        self._timeouts = timeouts or DriverTimeouts()

    def is_open(self, managed: ManagedSession) -> bool:
        """Whether a prompt can start a process: none runs, and its folder and program exist."""
        if managed.process is not None and proc.state_of(managed.process) is not ProcessState.DEAD:
            return False
        path = _with_session_home(self._environ, managed).get("PATH", "")
        # Path.is_dir raises for a name that is too long.
        return os.path.isdir(managed.cwd) and shutil.which(managed.argv[0], path=path) is not None  # noqa: PTH112

    def is_lost(self, managed: ManagedSession) -> bool:
        """Whether it runs in a person's terminal, where its process does not end with the turn."""
        return managed.folder is None and unreachable_result(managed) is None

    async def start(self, request: StartRequest, on_started: OnStarted = ignore_start) -> ActionResult:
        program, *arguments = request.argv
        arguments = arguments[1:] if arguments[:1] == ["exec"] else arguments
        flags = [argument for argument in arguments if argument != "--json"]
        check_arguments((program, *flags), REFUSED_OPTIONS)
        if request.resume and not is_uuid(request.conversation_id or ""):
            # Codex would take it for a name, not find it and silently begin another conversation.
            raise ConversationUnknown(conversation=(request.conversation_id or "")[:40], folder=request.cwd)
        if request.prompt is None:
            # Adopt a conversation without a prompt: between two turns no process of it runs.
            if not request.resume or request.conversation_id is None:
                raise PromptRefused(reason="Codex starts a conversation with a prompt, and none was given")
            sessions = _codex_home(request.environ) / "sessions"
            if not any(sessions.glob(f"*/*/*/rollout-*-{request.conversation_id}.jsonl")):
                raise ConversationUnknown(conversation=request.conversation_id, folder=request.cwd)
            managed = self._managed_session(request, request.conversation_id)
            return confirmed("nothing runs until it gets a prompt", managed)
        check_prompt(request.prompt)
        return await self._run(request, (program, *flags), request.prompt, on_started)

    def conversation_folders(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {name: environ[name] for name in HOME_VARIABLES if name in environ}

    async def find_started(
        self, planned: ManagedSession, intent_id: str, carriers: Sequence[Process]
    ) -> ActionResult | None:
        folder = RunFolder(self._root, _provisional_id(intent_id))
        if not folder.output.is_file():
            return None
        launched = min(carriers, key=lambda process: process.started, default=None)
        # The newest process of this folder names the conversation; while it is alive, wait for that.
        turn = _recorded_turn(folder) if launched is None else CodexTurn()
        if launched is not None:
            async with FileFollower(folder.output, launched) as following:
                await following.feed_until(turn.feed, lambda: turn.thread_id is not None, NAMING_SECONDS)
        thread_id = turn.thread_id if turn.thread_id is not None and is_uuid(turn.thread_id) else None
        if thread_id is None:
            return None
        session_id = SessionId(f"codex-{thread_id}")
        folder = folder.rename(self._root, session_id)
        native = None
        if launched is not None:
            native = _native_process(launched, _codex_home(planned.places), thread_id)
        managed = replace(
            planned,
            session_id=session_id,
            conversation_id=ConversationId(thread_id),
            process=native or folder.process,
            folder=str(folder.path),
        )
        if _has_begun(folder):
            return confirmed("its turn began", managed)
        state = "it runs, but its turn has not begun yet" if carriers else "it ended before its turn began"
        return unverified(state, managed)

    def newest_process(self, managed: ManagedSession) -> Process | None:
        return RunFolder(self._root, managed.session_id).process

    async def resume(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        return await self.start(replace(request, environ=_with_session_home(request.environ, managed)))

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        """Start a process for the prompt, with the folders of the first one; declined while one is alive."""
        return await self._deliver(managed, prompt, environ, "")

    async def deliver_once(
        self,
        managed: ManagedSession,
        prompt: str,
        prompt_id: str,
        *,
        again: bool,
        environ: Mapping[str, str] | None = None,
    ) -> ActionResult:
        if again and (result := self._result_if_delivered(managed, prompt_id)) is not None:
            return result
        return await self._deliver(managed, prompt, environ, prompt_id)

    def has_prompt(self, managed: ManagedSession, prompt_id: str) -> bool:
        return prompt_id in (RunFolder(self._root, managed.session_id).prompts or {})

    def _result_if_delivered(self, managed: ManagedSession, prompt_id: str) -> ActionResult | None:
        """Whether a process was started for this prompt, by its output; None: no turn for it ever began."""
        folder = RunFolder(self._root, managed.session_id)
        known = folder.prompts
        if known is None:
            return unverified("the last prompt of its process was not recorded")
        if known.get(prompt_id, PromptFate.LOST) is PromptFate.LOST:
            return None
        if known[prompt_id] is PromptFate.TAKEN or _has_begun(folder):
            return confirmed("it already got this prompt")
        if not proc.processes_with_variable(SESSION_VARIABLE, managed.session_id, os.getuid()):
            return None
        return unverified("it runs, but its turn has not begun yet")

    async def _deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None, prompt_id: str
    ) -> ActionResult:
        check_prompt(prompt)
        if not await self._has_exited(managed):
            return declined("it is still at work: Codex accepts a prompt only between turns")
        request = StartRequest(
            session_id=managed.session_id,
            conversation_id=managed.conversation_id,
            epoch=managed.epoch,
            intent_id="",
            cwd=managed.cwd,
            argv=managed.argv,
            environ=_with_session_home(self._environ if environ is None else environ, managed),
            resume=True,
            prompt=prompt,
            prompt_id=prompt_id or None,
        )
        result = await self.start(request)
        if result.hosting is None:
            return result
        return replace(
            result, hosting=replace(managed, process=result.hosting.process, folder=result.hosting.folder)
        )

    async def questions(self, managed: ManagedSession) -> tuple[PermissionQuestion, ...]:
        del managed  # `codex exec` never asks
        return ()

    async def answer(self, managed: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:  # noqa: ARG002 - Driver's
        return declined("`codex exec` never asks")

    async def interrupt(self, managed: ManagedSession) -> ActionResult:
        """Ends the process, which records the turn as interrupted; the next prompt continues from there."""
        if managed.process is None or unreachable_result(managed) is not None:
            return declined("no turn is running")
        is_agent = agent_of(managed.session_id, managed.conversation_id)
        result = await terminate(
            managed.process, ((signal.SIGINT, self._timeouts.interrupt),), is_meant=is_agent
        )
        if result.sight is ProcessState.DEAD:
            return confirmed(f"its turn was interrupted within {result.seconds:.1f} s")
        return ineffective(f"process {result.process.pid} did not react to SIGINT")

    async def stop(self, managed: ManagedSession) -> ActionResult:
        return await stop_managed_process(managed, RunFolder(self._root, managed.session_id), TOOL_VARIABLE)

    async def _run(
        self, request: StartRequest, command: tuple[str, ...], prompt: str, on_started: OnStarted
    ) -> ActionResult:
        program, *flags = command
        folder = RunFolder(self._root, request.session_id or _provisional_id(request.intent_id))
        # Record the fate of the last process's prompt before the next process begins another file.
        newest = next(reversed(folder.prompts or {}), "")
        if newest:
            folder.record_prompt(newest, PromptFate.TAKEN if _has_begun(folder) else PromptFate.LOST)
        resume = ("resume", request.conversation_id) if request.resume and request.conversation_id else ()
        with folder.open_prompt_streams(prompt, request.prompt_id or "") as streams:
            process = launch(
                (program, "exec", "--json", *flags, *resume, "-"),
                cwd=request.cwd,
                environ=with_marks(request.environ, request.session_id, request.epoch, request.intent_id),
                streams=streams,
            )
            folder.record_process(process)
        async with FileFollower(folder.output, process) as following:
            return await self._verify_start(request, folder, following, process, on_started)

    async def _verify_start(
        self,
        request: StartRequest,
        folder: RunFolder,
        following: FileFollower,
        process: Process,
        on_started: OnStarted,
    ) -> ActionResult:
        turn = CodexTurn()
        named = await following.feed_until(
            turn.feed, lambda: turn.thread_id is not None, self._timeouts.start
        )
        if not named and not following.is_alive:
            raise start_error(request, folder, request.conversation_id, unknown=UNKNOWN_CONVERSATION)
        if turn.thread_id is None or not is_uuid(turn.thread_id):
            return await self._abort_start(folder, process, "it did not report its conversation")
        if request.resume and turn.thread_id != request.conversation_id:
            result = await self._abort_start(
                folder, process, f"it began another conversation, {turn.thread_id}"
            )
            await terminate_marked(TOOL_VARIABLE, turn.thread_id)
            return result
        native = _native_process(process, _codex_home(request.environ), turn.thread_id)
        managed = replace(self._managed_session(request, ConversationId(turn.thread_id)), process=native)
        if request.session_id is None:
            folder = folder.rename(self._root, managed.session_id)
        await on_started(managed)
        return replace(await self._verify_turn(folder, following, turn), hosting=managed)

    async def _verify_turn(self, folder: RunFolder, following: FileFollower, turn: CodexTurn) -> ActionResult:
        await following.feed_until(turn.feed, lambda: turn.has_begun or turn.is_over, self._timeouts.take)
        await following.feed_until(
            turn.feed, lambda: turn.has_answered or turn.is_over, self._timeouts.first_word
        )
        if turn.needs_login:
            return ineffective(f"it is not logged in: {turn.failure}")
        if turn.has_begun or turn.is_over:
            return confirmed("its turn began")
        if following.is_alive:
            return unverified("it runs, but its turn has not begun yet")
        return ineffective(f"it ended before its turn began: {folder.last_error_output()}")

    async def _abort_start(self, folder: RunFolder, process: Process, reason: str) -> ActionResult:
        """End an unwanted start, the native process first, so that no untracked process goes on."""
        for each in (*reversed(proc.descendants(process)), process):
            await terminate(each, is_meant=lambda _process: True)
        folder.remove()
        return ineffective(f"{reason}; it was ended")

    async def _has_exited(self, managed: ManagedSession) -> bool:
        """Whether its process has ended; waits a moment for a process that has ended its turn."""
        folder = RunFolder(self._root, managed.session_id)
        if managed.process is None or proc.state_of(managed.process) is ProcessState.DEAD:
            return True
        if not folder.output.is_file():
            return False
        turn = CodexTurn()
        async with FileFollower(folder.output, managed.process) as following:
            await following.feed_until(turn.feed, lambda: turn.is_over, 0)
            if turn.is_over:
                await following.feed_until(turn.feed, lambda: False, EXIT_SECONDS)
            return not following.is_alive

    def _managed_session(self, request: StartRequest, conversation: ConversationId) -> ManagedSession:
        session_id = request.session_id or SessionId(f"codex-{conversation}")
        return ManagedSession(
            session_id=session_id,
            conversation_id=conversation,
            driver=self.name,
            cwd=request.cwd,
            argv=request.argv,
            epoch=request.epoch,
            since=self._clock.now().wall,
            folder=str(RunFolder(self._root, session_id).path),
            name=request.name,
            places=self.conversation_folders(request.environ),
        )


def _provisional_id(intent_id: str) -> SessionId:
    """The name of a start's folder until the client has named its conversation."""
    return parse_session_id(f"new-{intent_id}")


def _has_begun(folder: RunFolder) -> bool:
    turn = _recorded_turn(folder)
    return turn.has_begun or turn.is_over


def _recorded_turn(folder: RunFolder) -> CodexTurn:
    """The turn of the newest process, from its output."""
    turn = CodexTurn()
    for line in folder.output.read_bytes().splitlines() if folder.output.is_file() else ():
        turn.feed(line)
    return turn


def _with_session_home(environ: Mapping[str, str], managed: ManagedSession) -> Mapping[str, str]:
    """The environment with the folders of the session's first process; unchanged for an adopted session."""
    if not managed.places:
        return environ
    return {name: value for name, value in environ.items() if name not in HOME_VARIABLES} | managed.places


def _codex_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("CODEX_HOME") or f"{environ.get('HOME', '~')}/.codex").expanduser()


def _native_process(launched: Process, home: Path, thread_id: str) -> Process:
    """The process that does the work and holds the thread's lock; the launched process if it cannot be seen."""
    family = {each.pid: each for each in (launched, *proc.descendants(launched))}
    lock = home / "thread-writer-locks" / f"{thread_id}.lock"
    try:
        status = lock.lstat()
    except OSError:
        return launched
    key = (status.st_dev, status.st_ino)
    holder = proc.flock_holders([key]).get(key)
    return launched if holder is None else family.get(holder, launched)
