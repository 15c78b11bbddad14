"""Drives Claude Code in stream-json: one long-lived process per conversation, through its run folder.

The process reads a FIFO that it holds open itself and appends to a file, so it works on while Wakeful is
down. That file confirms each action by the action's id: a prompt by its replay, a request or interrupt by its
answer.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from msgspec import Raw
from msgspec.structs import replace

from wakeful.control.driver import (
    ActionResult,
    ConversationUnknown,
    OnStarted,
    PermissionQuestion,
    PermissionReply,
    StartRequest,
    ignore_start,
)
from wakeful.core.clock import Clock
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import ConversationId, is_uuid, parse_session_id
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.claude_code.stream_json import PermissionRequest, StreamConnection, StreamState
from wakeful.integrations.driver_support import (
    CHOSEN_BY_WAKEFUL,
    DriverTimeouts,
    PromptFate,
    RunFolder,
    WriteResult,
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
from wakeful.judging.resume_command import project_folder
from wakeful.judging.session_record import safe
from wakeful.judging.wording import subject_first
from wakeful.linux import proc
from wakeful.linux.launch import launch
from wakeful.storage.base import ActionOutcome

TOOL_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
OPTIONS: Final = (
    *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
    # Partial messages show activity, permission questions come on the stream, and each written line is replayed.
    *("--include-partial-messages", "--permission-prompt-tool", "stdio", "--replay-user-messages"),
)
REFUSED_OPTIONS: Final = dict.fromkeys(
    (
        *("-p", "--print", "--input-format", "--output-format", "--permission-prompt-tool"),
        *("-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--from-pr"),
        *("--no-session-persistence", "--bg", "--tmux", "-h", "--help", "-v", "--version"),
    ),
    CHOSEN_BY_WAKEFUL,
)
UNKNOWN_CONVERSATION: Final = "No conversation found"
NOT_LOGGED_IN: Final = "authentication_failed"
DENIAL: Final = "A person refused this."
# A harmless request. The client reads lines in their order: its answer proves that every line before has arrived.
PING: Final = "mcp_status"
# The client shortens longer names in its own way, so whether the conversation exists cannot be checked here.
PROJECT_FOLDER_CHARS_MAX: Final = 200


def permission_question(request: PermissionRequest) -> PermissionQuestion:
    """The call itself: the model also writes a description, which may say anything."""
    return PermissionQuestion(request.id, request.tool, safe(subject_first(request.input)))


class ClaudeDriver:
    """Implements control.driver.Driver. Run folders are below `root`."""

    name = "claude"
    per_turn = False

    def __init__(self, root: Path, clock: Clock, timeouts: DriverTimeouts | None = None) -> None:
        self._root = root
        self._clock = clock
        self._timeouts = timeouts or DriverTimeouts()

    def is_open(self, managed: ManagedSession) -> bool:
        """Whether its process runs and a process has its input open."""
        process = managed.process
        return process is not None and proc.is_running(process) and self._folder(managed).has_reader()

    def is_lost(self, managed: ManagedSession) -> bool:
        """Whether its process is alive and does not read the input: it closed it, or runs in another terminal."""
        return unreachable_result(managed) is None and not self._folder(managed).has_reader()

    async def start(self, request: StartRequest, on_started: OnStarted = ignore_start) -> ActionResult:
        check_arguments(request.argv, REFUSED_OPTIONS)
        if request.prompt is not None:
            check_prompt(request.prompt)
        conversation = request.conversation_id or ConversationId(str(uuid4()))
        # `--resume` looks only below the project of the working directory.
        if not is_uuid(conversation) or (request.resume and not _may_exist(request, conversation)):
            raise ConversationUnknown(conversation=conversation[:40], folder=request.cwd)
        session_id = request.session_id or parse_session_id(f"claude-{conversation}")
        managed = ManagedSession(
            session_id=session_id,
            conversation_id=conversation,
            driver=self.name,
            cwd=request.cwd,
            argv=request.argv,
            epoch=request.epoch,
            since=self._clock.now().wall,
            folder=str(RunFolder(self._root, session_id).path),
            name=request.name,
        )
        return await self._launch(request, managed, on_started)

    def newest_process(self, managed: ManagedSession) -> Process | None:
        return RunFolder(self._root, managed.session_id).process

    async def resume(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        del managed  # `start` creates a run folder, also for a session that ran without one
        return await self.start(request)

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        del environ  # its process has one already
        check_prompt(prompt)
        if (missing := self._unreachable(managed)) is not None:
            return missing
        async with self._connect(managed) as connection:
            self._trim(connection)
            return await self._send_prompt(connection, prompt, str(uuid4()))

    async def deliver_once(
        self,
        managed: ManagedSession,
        prompt: str,
        prompt_id: str,
        *,
        again: bool,
        environ: Mapping[str, str] | None = None,
    ) -> ActionResult:
        del environ  # its process has one already
        check_prompt(prompt)
        if again and (result := self._result_of_earlier_process(managed, prompt_id)) is not None:
            return result
        if (missing := self._unreachable(managed)) is not None:
            # No process took it: a resumed session may get the prompt.
            return replace(missing, outcome=ActionOutcome.DECLINED)
        async with self._connect(managed) as connection:
            if (result := await self._result_if_delivered(connection, prompt_id, again=again)) is not None:
                return result
            self._trim(connection)
            return await self._send_prompt(connection, prompt, prompt_id)

    def has_prompt(self, managed: ManagedSession, prompt_id: str) -> bool:
        """Always False: a start is found by its conversation's id, which is known before it."""
        del managed, prompt_id
        return False

    def _result_of_earlier_process(self, managed: ManagedSession, prompt_id: str) -> ActionResult | None:
        """The prompt's fate in an ended process; None if no such process had it, or if the process is alive."""
        folder = self._folder(managed)
        state = proc.state_of(managed.process) if managed.process is not None else ProcessState.DEAD
        known = folder.prompts
        if state is ProcessState.UNKNOWN:
            return unverified("it is unknown whether its process is alive")
        if known is None:
            if state is ProcessState.ALIVE:
                return None
            return unverified("its earlier prompts were not recorded")
        if state is ProcessState.DEAD:
            _record_prompt_fates(folder)
        fate = (folder.prompts or known).get(prompt_id, PromptFate.LOST)
        if fate is PromptFate.TAKEN:
            return confirmed("it already got this prompt", by_earlier=True)
        if fate is PromptFate.UNKNOWN:
            return unverified("its process ended before it confirmed the prompt")
        return None

    def _trim(self, connection: StreamConnection) -> None:
        _record_fates(connection.folder, connection.stream, lives=True)
        connection.trim()

    async def _result_if_delivered(
        self, connection: StreamConnection, prompt_id: str, *, again: bool
    ) -> ActionResult | None:
        """The result if the client has the prompt; None if it does not.

        The client reads lines in their order: an answer to a later request proves that it read the prompt. A busy
        client may report a prompt only at the end of its first block.
        """
        ping_id, written = await connection.request(PING)
        if written is not WriteResult.WHOLE:
            return declined(written)
        unknown = ActionOutcome.UNVERIFIED if again else ActionOutcome.DECLINED
        if not await connection.wait_until(
            lambda stream: ping_id in stream.answered_requests, self._timeouts.take
        ):
            return ActionResult(unknown, "it does not answer now, so the prompt was not sent")
        if again:
            await connection.wait_until(
                lambda stream: prompt_id in stream.replayed_prompts or not stream.is_busy, self._timeouts.take
            )
        if prompt_id in connection.stream.replayed_prompts:
            return confirmed("it already got this prompt")
        if again and connection.stream.is_busy:
            return ActionResult(unknown, "it is working on an unknown prompt")
        return None

    async def answer(self, managed: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:
        if (missing := self._unreachable(managed)) is not None:
            return missing
        async with self._connect(managed) as connection:
            question = connection.stream.questions.get(question_id)
            if question is None:
                return declined("this question is no longer open")
            written = await connection.send(_permission_response(question, reply))
            if written is not WriteResult.WHOLE:
                return ineffective(written)
            taken = await connection.wait_until(
                lambda stream: question_id in stream.answered_requests, self._timeouts.take
            )
            return _action_result(
                connection, taken, f"its question about {question.tool} was answered: {reply}"
            )

    async def interrupt(self, managed: ManagedSession) -> ActionResult:
        if (missing := self._unreachable(managed)) is not None:
            return missing
        async with self._connect(managed) as connection:
            return await self._interrupt(connection)

    async def stop(self, managed: ManagedSession) -> ActionResult:
        # After an interrupt the client ends its tools itself and records the interruption.
        if self._unreachable(managed) is None:
            await self.interrupt(managed)
            fault_point("stop.interrupted")
        return await stop_managed_process(managed, self._folder(managed), TOOL_VARIABLE)

    async def questions(self, managed: ManagedSession) -> tuple[PermissionQuestion, ...]:
        """The permission questions that are open now, oldest first: the calls, without the model's description of them."""
        if self._unreachable(managed) is not None:
            return ()
        async with self._connect(managed) as connection:
            return tuple(permission_question(each) for each in connection.stream.questions.values())

    async def _launch(
        self, request: StartRequest, managed: ManagedSession, on_started: OnStarted
    ) -> ActionResult:
        folder = self._folder(managed)
        if folder.has_reader():
            return declined("another process of this session still reads its input")
        conversation = ("--resume" if request.resume else "--session-id", managed.conversation_id)
        program, *options = request.argv
        environ = with_marks(request.environ, managed.session_id, request.epoch, request.intent_id)
        _record_prompt_fates(folder)
        with folder.open_streams() as streams:
            process = launch(
                (program, *OPTIONS, *conversation, *options),
                cwd=request.cwd,
                environ={**environ, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"},
                streams=streams,
            )
            folder.record_process(process)
        managed = replace(managed, process=process)
        await on_started(managed)
        async with self._connect(managed) as connection:
            return await self._verify_start(connection, request, managed)

    async def _verify_start(
        self, connection: StreamConnection, request: StartRequest, managed: ManagedSession
    ) -> ActionResult:
        request_id, _ = await connection.request("initialize")
        answered = await connection.wait_until(
            lambda stream: request_id in stream.answered_requests, self._timeouts.start
        )
        if not answered and not connection.is_alive:
            raise start_error(
                request,
                connection.folder,
                managed.conversation_id,
                unknown=UNKNOWN_CONVERSATION,
                last_output=connection.stream.last_result_text,
            )
        if not answered:
            no_prompt = "" if request.prompt is None else "; it was given no prompt"
            return unverified(f"it runs and has not answered yet{no_prompt}", managed)
        if request.prompt is None:
            return confirmed("it runs and answers", managed)
        result = await self._send_prompt(connection, request.prompt, request.prompt_id or str(uuid4()))
        return replace(await self._check_first_reply(connection, result), hosting=managed)

    async def _send_prompt(self, connection: StreamConnection, prompt: str, prompt_id: str) -> ActionResult:
        was_busy = connection.stream.is_busy
        connection.folder.record_prompt(prompt_id)
        written = await connection.send(
            {"type": "user", "uuid": prompt_id, "message": {"role": "user", "content": prompt}}
        )
        if written is not WriteResult.WHOLE:
            return ActionResult(
                ActionOutcome.DECLINED if written is WriteResult.NO_READER else ActionOutcome.INEFFECTIVE,
                written,
            )
        ping_id, _ = await connection.request(PING)

        def is_taken(stream: StreamState) -> bool:
            return prompt_id in stream.replayed_prompts or (
                ping_id in stream.answered_requests and stream.is_busy
            )

        taken = await connection.wait_until(is_taken, self._timeouts.take)
        if not taken and not was_busy and not connection.is_alive and not connection.stream.is_busy:
            # It ended between two turns, and no turn began: the prompt was lost with its input.
            return declined("its process ended before it took the prompt")
        return _action_result(
            connection, taken, "it has the prompt and works on" if was_busy else "its turn began"
        )

    async def _check_first_reply(self, connection: StreamConnection, result: ActionResult) -> ActionResult:
        """Check whether the first turn fails at once without a login; log sources report other failures."""
        stream = connection.stream
        before = stream.model_messages
        await connection.wait_until(
            lambda stream: stream.model_messages > before or stream.results > 0, self._timeouts.first_word
        )
        if stream.failure != NOT_LOGGED_IN:
            return result
        await connection.wait_until(lambda stream: stream.results > 0, self._timeouts.first_word)
        return ineffective(f"it runs, but it is not logged in: {stream.last_result_text}")

    async def _interrupt(self, connection: StreamConnection) -> ActionResult:
        if not connection.stream.is_busy:
            return declined("no turn is running")
        results = connection.stream.results
        request_id, written = await connection.request("interrupt")
        if written is not WriteResult.WHOLE:
            return ineffective(written)

        def is_over(stream: StreamState) -> bool:
            # A turn that was just ending has written its result before, and only becomes idle.
            return request_id in stream.answered_requests and (stream.results > results or not stream.is_busy)

        over = await connection.wait_until(is_over, self._timeouts.interrupt)
        return _action_result(connection, over, "its turn was interrupted")

    def _connect(self, managed: ManagedSession) -> StreamConnection:
        assert managed.process is not None, "checked before"
        return StreamConnection(self._folder(managed), managed.process, self._timeouts.write)

    def _folder(self, managed: ManagedSession) -> RunFolder:
        return RunFolder(self._root, managed.session_id)

    def _unreachable(self, managed: ManagedSession) -> ActionResult | None:
        """Why no process can be reached; None if one can."""
        if (absent := unreachable_result(managed)) is not None:
            return absent
        if not self._folder(managed).output.is_file():
            return declined(_not_listening_reason(managed))
        return None


def _record_prompt_fates(folder: RunFolder) -> None:
    """Record the fates of a dead process's prompts before the next process begins another file."""
    if folder.prompts and folder.output.is_file():
        stream = StreamState()
        for line in folder.output.read_bytes().splitlines():
            stream.feed(line)
        _record_fates(folder, stream, lives=False)


def _record_fates(folder: RunFolder, stream: StreamState, *, lives: bool) -> None:
    """A replayed prompt is taken. If the client died in a turn, it may not have replayed it yet."""
    for prompt_id, fate in (folder.prompts or {}).items():
        if fate is not PromptFate.OPEN:
            continue
        if prompt_id in stream.replayed_prompts:
            folder.record_prompt(prompt_id, PromptFate.TAKEN)
        elif not lives:
            folder.record_prompt(prompt_id, PromptFate.UNKNOWN if stream.is_busy else PromptFate.LOST)


def _not_listening_reason(managed: ManagedSession) -> str:
    """Why a process that Wakeful did not start takes no prompts, from its command line."""
    argv = proc.command(managed.process.pid) if managed.process is not None else ()
    if not {"-p", "--print"} & set(argv):
        return "it runs in a terminal that Wakeful cannot type into; Wakeful can type only in tmux"
    resume = f"`wakeful resume {managed.name or managed.session_id}` continues its conversation"
    return f"it was started for one prompt (claude -p) and accepts no more; once it has ended, {resume}"


def _may_exist(request: StartRequest, conversation: ConversationId) -> bool:
    project = project_folder(os.path.realpath(request.cwd))
    config = request.environ.get("CLAUDE_CONFIG_DIR") or f"{request.environ.get('HOME', '~')}/.claude"
    transcript = Path(config).expanduser() / "projects" / project / f"{conversation}.jsonl"
    return len(project) > PROJECT_FOLDER_CHARS_MAX or transcript.is_file()


def _permission_response(question: PermissionRequest, reply: PermissionReply) -> dict[str, object]:
    decision = (
        {"behavior": "allow", "updatedInput": Raw(question.input)}
        if reply is PermissionReply.ALLOW
        else {"behavior": "deny", "message": DENIAL}
    )
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": question.id, "response": decision},
    }


def _action_result(connection: StreamConnection, reached: bool, success: str) -> ActionResult:
    if reached:
        return confirmed(success)
    if connection.is_alive:
        return unverified("it is alive and has not reacted yet")
    return ineffective(
        f"its process ended before: {connection.folder.last_error_output() or 'it said nothing'}"
    )
