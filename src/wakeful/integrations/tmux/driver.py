"""Drives any command in a tmux session by keys: start, prompt, answer, interrupt, resume and stop.

Each action reads the pane before and after it and reports the effect; the action gate has allowed it before. If
tmux fails, `PaneController.may_have_typed` says whether a key may have been sent. Only sessions with Wakeful's
mark are ended; Wakeful types into a pane that a person opened, but never closes it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from wakeful.control.driver import (
    ActionResult,
    OnStarted,
    PermissionQuestion,
    PermissionReply,
    StartRequest,
    TypedText,
    ignore_start,
)
from wakeful.core.clock import Clock
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.claude_code.registry import status_of
from wakeful.integrations.driver_support import (
    confirmed,
    declined,
    ineffective,
    unreachable_result,
    unverified,
)
from wakeful.integrations.tmux.input_line import (
    ClaudeInput,
    CodexInput,
    InputReader,
    PlainInput,
    ShellInput,
    digest,
    find_permission,
    prepare_prompt,
)
from wakeful.integrations.tmux.pane import PaneController, poll_until, safe_screen_text
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS
from wakeful.integrations.tmux.programs import program_of, resume_argv, without_interpreter
from wakeful.integrations.tmux.screen import Screen, last_output, terminal_state
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start import READY_SECONDS_MAX, TmuxStarter, resume
from wakeful.integrations.tmux.start_screens import StartDialog, claude_dialog_on, codex_dialog_on
from wakeful.integrations.tmux.stop import (
    close_session,
    program_in_pane,
    stop_result,
    sweep_tools,
    terminate_program,
)
from wakeful.integrations.tmux.typed_notes import TypedNote, TypedNotes, TypingStage
from wakeful.judging.evidence import DialogKind
from wakeful.linux import proc
from wakeful.storage.base import ActionOutcome

# A turn began 0.1 to 0.5 s after Enter, an interrupt took 0.3 s; a busy machine may need many times that.
EFFECT_SECONDS_MAX: Final = 10.0
# A prompt that was interrupted before any answer was in the input line again 0.1 to 0.6 s after Escape.
RESTORED_SECONDS_MAX: Final = 3.0
_INTERRUPTED: Final = "Interrupted ·"


async def deliver(controller: PaneController, prompt: str) -> ActionResult:
    """Type the prompt, check the input line, press Enter, check that it is taken. Raises PromptRefused."""
    text = controller.reader.escape(prepare_prompt(prompt, several_lines=controller.reader.several_lines))
    before = await controller.type_text(text)
    if isinstance(before, ActionResult):
        return before
    controller.record_stage(TypingStage.ENTER)
    fault_point("typing.seen")
    await controller.press("Enter")
    fault_point("typing.entered")

    async def is_taken() -> bool | None:
        return _is_taken(controller, await controller.capture(), before, text) or None

    if await poll_until(is_taken, EFFECT_SECONDS_MAX):
        controller.record_stage(TypingStage.TAKEN)
        return confirmed("the client took the prompt")
    if proc.state_of(controller.process) is not ProcessState.ALIVE:
        return unverified("the agent ended after Enter was pressed")
    return unverified("Enter was pressed, but nothing shows that the text was taken")


async def answer(controller: PaneController, question_id: str, reply: PermissionReply) -> ActionResult:
    """Choose the option by its digit, if the question on the screen is the one with this id."""
    screen = await controller.capture()
    dialog = find_permission(screen) if isinstance(controller.reader, ClaudeInput) else None
    if dialog is None or dialog.id != question_id:
        return declined("that question is no longer open")
    if (reason := controller.closed_reason(screen)) is not None:
        return declined(reason)
    digit = dialog.digit(reply)
    if digit is None:
        return declined(f"it has no option to {reply} it once", untrusted=safe_screen_text(dialog.text))
    await controller.press("-l", digit)

    async def is_closed() -> bool | None:
        left = find_permission(await controller.capture())
        return True if left is None or left.id != question_id else None

    if await poll_until(is_closed, EFFECT_SECONDS_MAX):
        return confirmed(f"option {digit} was chosen and the question is gone")
    return unverified(f"option {digit} was pressed, but the question is still there")


async def interrupt(controller: PaneController, typed: str) -> ActionResult:
    """Press the key that ends a turn; declined if it could do something else.

    `typed` is the digest of the text that was delivered last.
    """
    before = await controller.capture()
    reason = controller.closed_reason(before) or _uninterruptible_reason(controller, before)
    if reason is not None:
        return declined(reason)
    await controller.press(controller.reader.interrupt_key)

    async def find_effect() -> Screen | None:
        screen = await controller.capture()
        # With prompts in its queue the next turn begins at once: then only the mark of the interrupt shows it.
        marked = _interruptions(screen) > _interruptions(before)
        return screen if marked or _is_idle(controller, screen) or screen.dead else None

    screen = await poll_until(find_effect, EFFECT_SECONDS_MAX)
    if proc.state_of(controller.process) is not ProcessState.ALIVE:
        return ineffective("it ended instead of stopping its turn")
    if screen is None:
        return unverified(f"{controller.reader.interrupt_key} was pressed, but nothing shows an effect")
    # Claude Code returns a prompt that was interrupted before any answer: Wakeful's is removed, a person's
    # never.
    draft = await _returned_prompt(controller, before) if isinstance(controller.reader, ClaudeInput) else ""
    if not draft:
        return confirmed("the turn ended and the agent is alive")
    is_own = digest(draft) == typed and controller.closed_reason(await controller.capture()) is None
    if is_own and await controller.clear():
        return confirmed(
            "the turn ended before any answer; its prompt returned to the input line and was removed"
        )
    return confirmed("the turn ended; there is text in the input line now")


def _is_taken(controller: PaneController, screen: Screen, before: Screen, text: str) -> bool:
    if isinstance(controller.reader, ClaudeInput):
        draft = controller.reader.draft(screen)
        # If a question replaces the input line, the turn has begun.
        return draft == "" or (draft is None and status_of(controller.process) in ("busy", "waiting"))
    state = terminal_state(screen.tty)
    return not controller.reader.shows(screen, before, text) and state is not None and state.unread == 0


def _uninterruptible_reason(controller: PaneController, screen: Screen) -> str | None:
    if controller.reader.question(screen) is not None:
        return f"a question is open in its terminal, and {controller.reader.interrupt_key} would refuse it"
    if isinstance(controller.reader, ClaudeInput):
        works = controller.reader.is_working(screen) or status_of(controller.process) == "busy"
    else:
        # An unknown program at its prompt waits for text: the key would end it.
        works = controller.reader.is_working(screen) or not _shows_prompt(controller, screen)
    return None if works else "no turn runs that could be interrupted"


def _is_idle(controller: PaneController, screen: Screen) -> bool:
    if isinstance(controller.reader, ClaudeInput):
        return not controller.reader.is_working(screen) and status_of(controller.process) != "busy"
    return not controller.reader.is_working(screen) and _shows_prompt(controller, screen)


def _shows_prompt(controller: PaneController, screen: Screen) -> bool:
    """Whether the program shows a prompt; an empty row or the terminal's echo of Ctrl-C proves nothing."""
    shown = screen.cursor_text.strip().removeprefix("^C").strip()
    return bool(shown) and controller.reader.draft(screen) == ""


async def _returned_prompt(controller: PaneController, before: Screen) -> str:
    """The text in the input line after the turn: the turn is marked as interrupted, or its prompt comes back."""

    async def find_prompt() -> str | None:
        screen = await controller.capture()
        draft = controller.reader.draft(screen)
        return draft or ("" if _interruptions(screen) > _interruptions(before) else None)

    return await poll_until(find_prompt, RESTORED_SECONDS_MAX) or ""


def _interruptions(screen: Screen) -> int:
    return sum(_INTERRUPTED in row for row in screen.rows)


_READERS: Final[Mapping[str, type[InputReader]]] = {
    each.__name__: each for each in (ClaudeInput, CodexInput, PlainInput, ShellInput)
}
_DIALOGS: Final[Mapping[type[InputReader], Callable[[Screen], StartDialog | None]]] = {
    ClaudeInput: claude_dialog_on,
    CodexInput: codex_dialog_on,
}
_NO_PANE: Final = declined("it is unknown in which pane it runs")
# The daemon starts after this. A note that was not reconciled stays until something is typed into its pane.
RECOVERY_SECONDS_MAX: Final = 10.0
_NOT_CHECKED: Final = unverified("it is unknown whether the text was taken: too much text to check")


class TmuxDriver:
    """Runs sessions on Wakeful's own tmux server, and types into panes of other servers."""

    name = "tmux"
    per_turn = False

    def __init__(
        self,
        socket: str,
        folder: str,
        clock: Clock,
        *,
        config: str | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """`folder` is for short-lived files: scripts and texts. `config` replaces the user's tmux.conf."""
        self._socket = socket
        self._folder = folder
        self._deadline_seconds = deadline_seconds
        self._starter = TmuxStarter(TmuxServer(socket, deadline_seconds, config), folder, clock)
        # Panes with a typed text of which the outcome is not stored yet.
        self._typed_panes: dict[SessionId, PaneController] = {}

    def is_open(self, managed: ManagedSession) -> bool:
        """Whether its agent runs, the first process of its pane is alive, and the server's socket exists."""
        pane, process = managed.pane, managed.process
        if pane is None or pane.process is None or process is None or not Path(pane.socket).is_socket():
            return False
        return proc.is_running(process) and proc.state_of(pane.process) is ProcessState.ALIVE

    def is_lost(self, managed: ManagedSession) -> bool:
        """Whether its agent is alive, and its pane or its server's socket does not exist any more."""
        pane = managed.pane
        if pane is None or pane.process is None or unreachable_result(managed) is not None:
            return False
        return proc.state_of(pane.process) is ProcessState.DEAD or not Path(pane.socket).is_socket()

    async def start(self, request: StartRequest, on_started: OnStarted = ignore_start) -> ActionResult:
        """Start or resume in a new tmux session. Raises as Driver.start, and BadTmuxName and TmuxFailed."""
        reader = _checked_reader(request)
        started = await self._starter.begin(request)
        managed = started.hosting
        await on_started(managed)
        try:
            ready = await self._starter.wait_until_ready(
                started, lambda screen: _is_ready(reader, screen, managed.process)
            )
            result = await self._send_first_prompt(managed, request.prompt, ready=ready)
        except TmuxFailed as problem:
            return unverified(f"started, and then: {problem}", managed)
        return replace(result, hosting=result.hosting or managed)

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        """Raises PromptRefused."""
        del environ  # its process has one already
        controller = self._pane_controller(managed)
        if controller is None:
            return _NO_PANE
        self._typed_panes[managed.session_id] = controller
        result = await run_action(controller, deliver(controller, prompt))
        if result.outcome not in (ActionOutcome.CONFIRMED, ActionOutcome.UNVERIFIED):
            return result
        return replace(result, hosting=replace(managed, typed=digest(prompt)))

    async def recover_typed(self) -> list[TypedText]:
        """The outcomes of texts of which the end of a daemon interrupted the typing. It stops at RECOVERY_SECONDS_MAX."""
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        return [
            TypedText(
                note.session_id,
                note.at,
                note.text,
                await self._reconcile_note(note) if time.monotonic() < deadline else _NOT_CHECKED,
                is_command=note.reader == ShellInput.__name__,
            )
            for note in TypedNotes(self._folder).all()
        ]

    async def _reconcile_note(self, note: TypedNote) -> ActionResult:
        server = TmuxServer(note.pane.socket, self._deadline_seconds)
        if (reader := _READERS.get(note.reader)) is None:
            # Written by another version.
            TypedNotes(self._folder).drop(note.pane)
            return unverified("it is unknown whether the text was taken")
        controller = PaneController(server, note.pane, note.process, reader(), self._folder, note.session_id)
        self._typed_panes[note.session_id] = controller
        try:
            return await controller.reconcile(note)
        except TmuxFailed as problem:
            return unverified(f"it is unknown whether the text was taken: {problem}")

    def forget_typed(self, session_id: SessionId) -> None:
        """The outcome is stored: drop its note, if that is final."""
        if (controller := self._typed_panes.pop(session_id, None)) is not None:
            controller.drop_final_note()

    async def questions(self, managed: ManagedSession) -> tuple[PermissionQuestion, ...]:
        """The permission question on the screen of Claude Code; none for other programs. Raises TmuxFailed."""
        controller = self._pane_controller(managed)
        if controller is None or not isinstance(controller.reader, ClaudeInput):
            return ()
        dialog = find_permission(await controller.capture())
        if dialog is None:
            return ()
        return (PermissionQuestion(dialog.id, safe_screen_text(dialog.tool), safe_screen_text(dialog.text)),)

    async def answer(self, managed: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:
        controller = self._pane_controller(managed)
        if controller is None:
            return _NO_PANE
        return await run_action(controller, answer(controller, question_id, reply))

    async def interrupt(self, managed: ManagedSession) -> ActionResult:
        """Press the key that ends a turn of its client: Escape or Ctrl-C. Declined while a question is open."""
        controller = self._pane_controller(managed)
        if controller is None:
            return _NO_PANE
        return await run_action(controller, interrupt(controller, managed.typed))

    async def resume(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        """Resume it in its old pane if a shell waits there, else in a new tmux session."""
        if managed.pane is not None:
            try:
                result = await self.resume_in_pane(managed, request)
            except TmuxFailed:
                # The pane or its server has ended.
                return await self.start(request)
            if result.outcome is not ActionOutcome.DECLINED:
                return result
        return await self.start(request)

    async def resume_in_pane(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        """Type the command that continues the conversation into the shell of its agent's pane.

        The agent gets the shell's environment, not the request's. `hosting` in the result is set once a new agent
        runs. Raises ArgumentRefused, ConversationUnknown, PromptRefused and TmuxFailed.
        """
        reader = _checked_reader(request)
        command = resume_argv(request.argv, request.conversation_id, request.cwd)
        if managed.pane is None:
            return _NO_PANE
        server = TmuxServer(managed.pane.socket, self._deadline_seconds)
        shell = proc.identify_or_none((await server.capture(managed.pane.target)).pane_pid)
        if shell is None:
            return declined("the shell of its pane is gone")
        controller = PaneController(
            server, managed.pane, shell, ShellInput(), self._folder, managed.session_id
        )
        self._typed_panes[managed.session_id] = controller
        result = await run_action(controller, resume(controller, managed, request, command))
        if result.hosting is None:
            return result
        prompted = await run_action(
            controller, self._wait_and_send_first_prompt(controller, reader, result.hosting, request.prompt)
        )
        managed = prompted.hosting or result.hosting
        return replace(prompted, words=f"{result.words}; {prompted.words}", hosting=managed)

    async def stop(self, managed: ManagedSession) -> ActionResult:
        """End the agent, its tmux session if Wakeful made it, and its leftover tools."""
        if managed.process is None:
            return declined("its process is unknown")
        if proc.state_of(managed.process) is ProcessState.ALIVE and status_of(managed.process) == "busy":
            # An interrupted agent ends its own tools. One that cannot be interrupted is ended anyway.
            with suppress(TmuxFailed):
                await self.interrupt(managed)
            fault_point("stop.interrupted")
        result = await terminate_program(managed.process, program_in_pane(managed, self._socket))
        close_problem = await close_session(managed, self._deadline_seconds)
        return stop_result(result, await sweep_tools(managed), close_problem)

    async def _send_first_prompt(
        self, managed: ManagedSession, prompt: str | None, *, ready: bool
    ) -> ActionResult:
        controller = self._pane_controller(managed)
        if not ready or controller is None:
            return unverified(f"started, but not ready after {READY_SECONDS_MAX:g} s")
        if (dialog := await _dialog_at(controller)) is not None:
            return _blocked_by_dialog(managed, dialog, prompt)
        if prompt is None:
            return confirmed(f"started in the tmux session {controller.address.session}")
        result = await self.deliver(managed, prompt)
        if result.outcome is ActionOutcome.INEFFECTIVE:
            # A client that has just started may lose a paste. Enter was not pressed, and a draft would be refused.
            result = await self.deliver(managed, prompt)
        outcome = result.outcome if result.outcome is ActionOutcome.CONFIRMED else ActionOutcome.UNVERIFIED
        return replace(result, outcome=outcome, words=f"started; its prompt: {result.words}")

    async def _wait_and_send_first_prompt(
        self, controller: PaneController, reader: InputReader, managed: ManagedSession, prompt: str | None
    ) -> ActionResult:
        """Wait until the program below a shell is ready, then send its prompt."""
        process = managed.process
        assert process is not None, "it was found below the shell"

        async def is_ready_or_dead() -> bool | None:
            is_ready = _is_ready(reader, await controller.capture(), process)
            return is_ready or proc.state_of(process) is ProcessState.DEAD or None

        ready = await poll_until(is_ready_or_dead, READY_SECONDS_MAX) is not None
        if proc.state_of(process) is ProcessState.DEAD:
            output = safe_screen_text(last_output((await controller.capture()).rows))
            return ineffective("it ended again", untrusted=output)
        return await self._send_first_prompt(managed, prompt, ready=ready)

    def _pane_controller(self, managed: ManagedSession) -> PaneController | None:
        if managed.pane is None or managed.process is None:
            return None
        server = TmuxServer(managed.pane.socket, self._deadline_seconds)
        reader = reader_of(managed.argv)
        return PaneController(server, managed.pane, managed.process, reader, self._folder, managed.session_id)


async def run_action(controller: PaneController, action: Awaitable[ActionResult]) -> ActionResult:
    """The action's result. If tmux fails after a key, the result is unverified; before that, TmuxFailed is raised."""
    try:
        return await action
    except TmuxFailed as problem:
        if not controller.may_have_typed:
            raise
        return unverified(f"keys were sent, but their effect could not be seen: {problem}")


def _checked_reader(request: StartRequest) -> InputReader:
    """The reader for its program. Raises PromptRefused before anything runs."""
    reader = reader_of(request.argv)
    if request.prompt is not None:
        prepare_prompt(request.prompt, several_lines=reader.several_lines)
    return reader


def _is_ready(reader: InputReader, screen: Screen, process: Process | None) -> bool:
    """Claude Code and Codex are ready with their first question, or with their input line once they read keys.

    Claude Code must also have reported its status: it draws its input line before it reads, and loses text that was
    typed in between. Any other program is ready when it runs.
    """
    if not isinstance(reader, (ClaudeInput, CodexInput)):
        return True
    if reader.draft(screen) is None:
        return reader.question(screen) is not None
    state = terminal_state(screen.tty)
    reads = state is not None and not state.canonical and not state.unread
    has_status = isinstance(reader, CodexInput) or (process is not None and status_of(process) is not None)
    return reads and has_status


async def _dialog_at(controller: PaneController) -> StartDialog | None:
    dialog_on = _DIALOGS.get(type(controller.reader))
    dialog = dialog_on(await controller.capture()) if dialog_on is not None else None
    return dialog if dialog is not None and dialog.kind is not DialogKind.UNKNOWN else None


def _blocked_by_dialog(managed: ManagedSession, dialog: StartDialog, prompt: str | None) -> ActionResult:
    """The result of a start that ends at a dialog, which a person must answer. Nothing is typed there."""
    attach, at = (
        f"`wakeful attach {managed.name or managed.session_id}`",
        f"a dialog of its client is open ({dialog.kind})",
    )
    screen_text = safe_screen_text(dialog.words)
    if prompt is None:
        return confirmed(f"started; {at}: {attach} and answer it", untrusted=screen_text)
    note = f"its first prompt was not typed, because {at}: {attach}, answer it, then send the prompt again"
    return unverified(f"started; {note}", replace(managed, note=note), untrusted=screen_text)


def reader_of(argv: tuple[str, ...]) -> InputReader:
    match program_of(without_interpreter(argv)):
        case "claude":
            return ClaudeInput()
        case "codex":
            return CodexInput()
        case _:
            return PlainInput()
