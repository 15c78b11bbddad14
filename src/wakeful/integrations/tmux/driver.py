"""Drives any command in a tmux session by keys: start, prompt, answer, interrupt, resume and stop.

Each action looks at the pane before and after it and reports what it saw; the gate decided before whether it
may act. If tmux fails, `PaneController.touched` tells whether a key may have been sent. Only sessions that carry
Wakeful's mark are ended; Wakeful types into a pane that a person opened, but never closes it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
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
from wakeful.integrations.driver_support import unreachable_result
from wakeful.integrations.tmux import claude_dialogs, codex_dialogs
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
from wakeful.integrations.tmux.start_screens import StartDialog
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
# A prompt that was cut off before any answer stood in the input line again 0.1 to 0.6 s after Escape.
RESTORED_SECONDS_MAX: Final = 3.0
_INTERRUPTED: Final = "Interrupted ·"


async def deliver(controller: PaneController, prompt: str) -> ActionResult:
    """Type the prompt, see it stand in the input line, press Enter, see it taken. Raises PromptRefused."""
    text = controller.reader.escape(prepare_prompt(prompt, several_lines=controller.reader.several_lines))
    before = await controller.type_text(text)
    if isinstance(before, ActionResult):
        return before
    controller.record_stage(TypingStage.ENTER)
    fault_point("typing.seen")
    await controller.press("Enter")
    fault_point("typing.entered")

    async def taken() -> bool | None:
        return _is_taken(controller, await controller.capture(), before, text) or None

    if await poll_until(taken, EFFECT_SECONDS_MAX):
        controller.record_stage(TypingStage.TAKEN)
        return ActionResult(
            ActionOutcome.CONFIRMED, "the text stood in the input line and was taken with Enter"
        )
    if proc.state_of(controller.process) is not ProcessState.ALIVE:
        return ActionResult(ActionOutcome.UNVERIFIED, "the agent ended after Enter was pressed")
    return ActionResult(
        ActionOutcome.UNVERIFIED, "Enter was pressed, but nothing shows that the text was taken"
    )


async def answer(controller: PaneController, question_id: str, reply: PermissionReply) -> ActionResult:
    """Choose the option by its digit, if the question on the screen is the one that was read."""
    screen = await controller.capture()
    asked = find_permission(screen) if isinstance(controller.reader, ClaudeInput) else None
    if asked is None or asked.id != question_id:
        return ActionResult(ActionOutcome.DECLINED, "that question is not open any more")
    if (reason := controller.closed_reason(screen)) is not None:
        return ActionResult(ActionOutcome.DECLINED, reason)
    digit = asked.digit(reply)
    if digit is None:
        return ActionResult(
            ActionOutcome.DECLINED,
            f"it offers no way to {reply} it once",
            untrusted=safe_screen_text(asked.text),
        )
    await controller.press("-l", digit)

    async def gone() -> bool | None:
        left = find_permission(await controller.capture())
        return True if left is None or left.id != question_id else None

    if await poll_until(gone, EFFECT_SECONDS_MAX):
        return ActionResult(ActionOutcome.CONFIRMED, f"option {digit} was chosen and the question is gone")
    return ActionResult(
        ActionOutcome.UNVERIFIED, f"option {digit} was pressed, but the question still stands there"
    )


async def interrupt(controller: PaneController, typed: str) -> ActionResult:
    """Press the key that ends a turn; declined where it could do something else.

    `typed` is the digest of the text that was delivered last.
    """
    before = await controller.capture()
    if (
        reason := controller.closed_reason(before) or _uninterruptible_reason(controller, before)
    ) is not None:
        return ActionResult(ActionOutcome.DECLINED, reason)
    await controller.press(controller.reader.interrupt_key)

    async def rests() -> Screen | None:
        screen = await controller.capture()
        # With prompts in its queue the next turn begins at once: then the mark of the interrupt shows it.
        marked = _interruptions(screen) > _interruptions(before)
        return screen if marked or _is_idle(controller, screen) or screen.dead else None

    screen = await poll_until(rests, EFFECT_SECONDS_MAX)
    if proc.state_of(controller.process) is not ProcessState.ALIVE:
        return ActionResult(ActionOutcome.INEFFECTIVE, "it ended instead of stopping its turn")
    if screen is None:
        return ActionResult(
            ActionOutcome.UNVERIFIED,
            f"{controller.reader.interrupt_key} was pressed, but nothing shows an effect",
        )
    return await _result_of_interrupt(controller, before, typed)


def _is_taken(controller: PaneController, screen: Screen, before: Screen, text: str) -> bool:
    if isinstance(controller.reader, ClaudeInput):
        draft = controller.reader.draft(screen)
        # A question may stand where the input line was: then the turn has begun.
        return draft == "" or (draft is None and status_of(controller.process) in ("busy", "waiting"))
    state = terminal_state(screen.tty)
    return not controller.reader.shows(screen, before, text) and state is not None and state.unread == 0


def _uninterruptible_reason(controller: PaneController, screen: Screen) -> str | None:
    if controller.reader.question(screen) is not None:
        return f"a question is open in its terminal, and {controller.reader.interrupt_key} would refuse it"
    if isinstance(controller.reader, ClaudeInput):
        works = controller.reader.is_working(screen) or status_of(controller.process) == "busy"
    else:
        # An unknown program that shows its prompt waits for text: the key would end it.
        works = controller.reader.is_working(screen) or not _shows_prompt(controller, screen)
    return None if works else "no turn runs that could be interrupted"


def _is_idle(controller: PaneController, screen: Screen) -> bool:
    if isinstance(controller.reader, ClaudeInput):
        return not controller.reader.is_working(screen) and status_of(controller.process) != "busy"
    return not controller.reader.is_working(screen) and _shows_prompt(controller, screen)


def _shows_prompt(controller: PaneController, screen: Screen) -> bool:
    """Whether the program shows a prompt; an empty row says nothing, nor does what the terminal shows of Ctrl-C."""
    shown = screen.cursor_text.strip().removeprefix("^C").strip()
    return bool(shown) and controller.reader.draft(screen) == ""


async def _result_of_interrupt(controller: PaneController, before: Screen, typed: str) -> ActionResult:
    """Claude Code gives a prompt back that it cut off before any answer: ours is removed, a person's words never."""
    left = await _returned_prompt(controller, before) if isinstance(controller.reader, ClaudeInput) else ""
    if not left:
        return ActionResult(ActionOutcome.CONFIRMED, "the turn ended and the agent lives")
    if (
        digest(left) == typed
        and controller.closed_reason(await controller.capture()) is None
        and await controller.clear()
    ):
        return ActionResult(
            ActionOutcome.CONFIRMED, "the turn ended before any answer; its prompt was given back and removed"
        )
    return ActionResult(ActionOutcome.CONFIRMED, "the turn ended; something stands in the input line now")


async def _returned_prompt(controller: PaneController, before: Screen) -> str:
    """What stands in the input line once the turn has ended: it is either marked as interrupted or its prompt comes back."""

    async def told() -> str | None:
        screen = await controller.capture()
        draft = controller.reader.draft(screen)
        return draft or ("" if _interruptions(screen) > _interruptions(before) else None)

    return await poll_until(told, RESTORED_SECONDS_MAX) or ""


def _interruptions(screen: Screen) -> int:
    return sum(_INTERRUPTED in row for row in screen.rows)


_READERS: Final[Mapping[str, type[InputReader]]] = {
    each.__name__: each for each in (ClaudeInput, CodexInput, PlainInput, ShellInput)
}
_DIALOGS: Final[Mapping[type[InputReader], Callable[[Screen], StartDialog | None]]] = {
    ClaudeInput: claude_dialogs.dialog_on,
    CodexInput: codex_dialogs.dialog_on,
}
_NO_PANE: Final = ActionResult(ActionOutcome.DECLINED, "nobody knows in which pane it runs")
# The daemon starts after this. A note that was not looked at stays until something is typed into its pane.
SETTLING_SECONDS_MAX: Final = 10.0
_NOT_LOOKED_AT: Final = ActionResult(
    ActionOutcome.UNVERIFIED, "it is unknown whether the text was taken: too much was left to look at"
)


class TmuxDriver:
    """Hosts sessions on a tmux server of our own, and speaks to those in panes of other servers."""

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
        """`folder` is for what lives a moment: scripts and texts. `config` replaces the user's tmux.conf."""
        self._socket = socket
        self._folder = folder
        self._deadline_seconds = deadline_seconds
        self._starter = TmuxStarter(TmuxServer(socket, deadline_seconds, config), folder, clock)
        # Where something was typed whose outcome is not written down yet.
        self._typed_panes: dict[SessionId, PaneController] = {}

    def is_open(self, managed: ManagedSession) -> bool:
        """Its agent runs, the first process of its pane lives, and the server's socket is there."""
        pane, process = managed.pane, managed.process
        if pane is None or pane.process is None or process is None or not Path(pane.socket).is_socket():
            return False
        return proc.is_running(process) and proc.state_of(pane.process) is ProcessState.ALIVE

    def is_lost(self, managed: ManagedSession) -> bool:
        """Its agent outlived its pane, or nobody can call its server any more."""
        pane = managed.pane
        if pane is None or pane.process is None or unreachable_result(managed) is not None:
            return False
        return proc.state_of(pane.process) is ProcessState.DEAD or not Path(pane.socket).is_socket()

    async def start(self, request: StartRequest, on_started: OnStarted = ignore_start) -> ActionResult:
        """Start or resume in a new tmux session. Raises what the port names, BadTmuxName and TmuxFailed."""
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
            return ActionResult(ActionOutcome.UNVERIFIED, f"started, and then: {problem}", managed)
        return replace(result, hosting=result.hosting or managed)

    async def deliver(
        self, managed: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        """Type the prompt, see it stand in the input line, press Enter, see it taken. Raises PromptRefused."""
        del environ  # its process lives already
        controller = self._pane_controller(managed)
        if controller is None:
            return _NO_PANE
        self._typed_panes[managed.session_id] = controller
        result = await run_action(controller, deliver(controller, prompt))
        if result.outcome not in (ActionOutcome.CONFIRMED, ActionOutcome.UNVERIFIED):
            return result
        return replace(result, hosting=replace(managed, typed=digest(prompt)))

    async def recover_typed(self) -> list[TypedText]:
        """What became of every text whose typing was cut off by our end. Nothing is looked at after SETTLING_SECONDS_MAX."""
        over_at = time.monotonic() + SETTLING_SECONDS_MAX
        return [
            TypedText(
                note.session_id,
                note.at,
                note.text,
                await self._reconcile_note(note) if time.monotonic() < over_at else _NOT_LOOKED_AT,
                is_command=note.reader == ShellInput.__name__,
            )
            for note in TypedNotes(self._folder).all()
        ]

    async def _reconcile_note(self, note: TypedNote) -> ActionResult:
        server = TmuxServer(note.pane.socket, self._deadline_seconds)
        if (reader := _READERS.get(note.reader)) is None:
            # Written by another version.
            TypedNotes(self._folder).drop(note.pane)
            return ActionResult(ActionOutcome.UNVERIFIED, "it is unknown whether the text was taken")
        controller = PaneController(server, note.pane, note.process, reader(), self._folder, note.session_id)
        self._typed_panes[note.session_id] = controller
        try:
            return await controller.reconcile(note)
        except TmuxFailed as problem:
            return ActionResult(
                ActionOutcome.UNVERIFIED, f"it is unknown whether the text was taken: {problem}"
            )

    def forget_typed(self, session_id: SessionId) -> None:
        """Its outcome is written down: a note whose end was seen has done its work."""
        if (controller := self._typed_panes.pop(session_id, None)) is not None:
            controller.drop_final_note()

    async def questions(self, managed: ManagedSession) -> tuple[PermissionQuestion, ...]:
        """The permission question on the screen of Claude Code; none for other programs. Raises TmuxFailed."""
        controller = self._pane_controller(managed)
        if controller is None or not isinstance(controller.reader, ClaudeInput):
            return ()
        asked = find_permission(await controller.capture())
        return (
            ()
            if asked is None
            else (PermissionQuestion(asked.id, safe_screen_text(asked.tool), safe_screen_text(asked.text)),)
        )

    async def answer(self, managed: ManagedSession, question_id: str, reply: PermissionReply) -> ActionResult:
        """Choose the option by its digit, if the question on the screen is still the one that was read."""
        controller = self._pane_controller(managed)
        return (
            _NO_PANE
            if controller is None
            else await run_action(controller, answer(controller, question_id, reply))
        )

    async def interrupt(self, managed: ManagedSession) -> ActionResult:
        """Escape where the client knows it, else Ctrl-C; declined while a question is open."""
        controller = self._pane_controller(managed)
        return (
            _NO_PANE
            if controller is None
            else await run_action(controller, interrupt(controller, managed.typed))
        )

    async def resume(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        """In the pane it was in, if a shell waits there; else in a tmux session of its own."""
        if managed.pane is not None:
            try:
                result = await self.resume_in_pane(managed, request)
            except TmuxFailed:
                # The pane, or its whole server, is gone.
                return await self.start(request)
            if result.outcome is not ActionOutcome.DECLINED:
                return result
        return await self.start(request)

    async def resume_in_pane(self, managed: ManagedSession, request: StartRequest) -> ActionResult:
        """Type the command that continues the conversation into the shell its agent left behind.

        The order is the one `start` would get; its environment is the shell's own instead. `hosting` in the answer is
        set once a new agent was seen. Raises ArgumentRefused, ConversationUnknown, PromptRefused and TmuxFailed.
        """
        reader = _checked_reader(request)
        command = resume_argv(request.argv, request.conversation_id, request.cwd)
        if managed.pane is None:
            return _NO_PANE
        server = TmuxServer(managed.pane.socket, self._deadline_seconds)
        shell = proc.identify_or_none((await server.capture(managed.pane.target)).pane_pid)
        if shell is None:
            return ActionResult(ActionOutcome.DECLINED, "the shell of its pane is gone")
        controller = PaneController(
            server, managed.pane, shell, ShellInput(), self._folder, managed.session_id
        )
        self._typed_panes[managed.session_id] = controller
        result = await run_action(controller, resume(controller, managed, request, command))
        if result.hosting is None:
            return result
        greeted = await run_action(
            controller, self._wait_and_send_first_prompt(controller, reader, result.hosting, request.prompt)
        )
        managed = greeted.hosting or result.hosting
        return replace(greeted, words=f"{result.words}; {greeted.words}", hosting=managed)

    async def stop(self, managed: ManagedSession) -> ActionResult:
        """End the agent, its tmux session if that is ours, and the tools it left behind."""
        if managed.process is None:
            return ActionResult(ActionOutcome.DECLINED, "nobody knows its process")
        if proc.state_of(managed.process) is ProcessState.ALIVE and status_of(managed.process) == "busy":
            await self._interrupt_before_stop(managed)
        result = await terminate_program(managed.process, program_in_pane(managed, self._socket))
        left = await close_session(managed, self._deadline_seconds)
        return stop_result(result, await sweep_tools(managed), left)

    async def _interrupt_before_stop(self, managed: ManagedSession) -> None:
        """An interrupted agent ends its own tools. One that cannot be interrupted is ended all the same."""
        try:
            await self.interrupt(managed)
        except TmuxFailed:
            return

    async def _send_first_prompt(
        self, managed: ManagedSession, prompt: str | None, *, ready: bool
    ) -> ActionResult:
        """Give a started program its first prompt."""
        controller = self._pane_controller(managed)
        if not ready or controller is None:
            return ActionResult(
                ActionOutcome.UNVERIFIED, f"started, but not ready after {READY_SECONDS_MAX:g} s"
            )
        if (asked := await _dialog_at(controller)) is not None:
            return _blocked_by_dialog(managed, asked, prompt)
        if prompt is None:
            return ActionResult(
                ActionOutcome.CONFIRMED, f"started in the tmux session {controller.address.session}"
            )
        result = await self.deliver(managed, prompt)
        if result.outcome is ActionOutcome.INEFFECTIVE:
            # A client that has just come up may lose a paste. Enter was not pressed, and a draft would refuse it.
            result = await self.deliver(managed, prompt)
        outcome = result.outcome if result.outcome is ActionOutcome.CONFIRMED else ActionOutcome.UNVERIFIED
        return replace(result, outcome=outcome, words=f"started; its prompt: {result.words}")

    async def _wait_and_send_first_prompt(
        self, controller: PaneController, reader: InputReader, managed: ManagedSession, prompt: str | None
    ) -> ActionResult:
        """Wait until the program that came up below a shell is ready, then give it its prompt."""
        process = managed.process
        assert process is not None, "it was seen below the shell"

        async def settled() -> bool | None:
            return (
                _is_ready(reader, await controller.capture(), process)
                or proc.state_of(process) is ProcessState.DEAD
                or None
            )

        ready = await poll_until(settled, READY_SECONDS_MAX) is not None
        if proc.state_of(process) is ProcessState.DEAD:
            said = safe_screen_text(last_output((await controller.capture()).rows))
            return ActionResult(ActionOutcome.INEFFECTIVE, "it ended again", untrusted=said)
        return await self._send_first_prompt(managed, prompt, ready=ready)

    def _pane_controller(self, managed: ManagedSession) -> PaneController | None:
        if managed.pane is None or managed.process is None:
            return None
        server = TmuxServer(managed.pane.socket, self._deadline_seconds)
        reader = reader_of(managed.argv)
        return PaneController(server, managed.pane, managed.process, reader, self._folder, managed.session_id)


async def run_action(controller: PaneController, act: Awaitable[ActionResult]) -> ActionResult:
    """The act's own report. When tmux fails in its middle, keys may have been pressed; before that, it is an error."""
    try:
        return await act
    except TmuxFailed as problem:
        if not controller.may_have_typed:
            raise
        return ActionResult(
            ActionOutcome.UNVERIFIED, f"keys were sent, and then nobody could see what they did: {problem}"
        )


def _checked_reader(request: StartRequest) -> InputReader:
    """How its program shows its input; its prompt is refused before anything runs. Raises PromptRefused."""
    reader = reader_of(request.argv)
    if request.prompt is not None:
        prepare_prompt(request.prompt, several_lines=reader.several_lines)
    return reader


def _is_ready(reader: InputReader, screen: Screen, process: Process | None) -> bool:
    """Claude Code and Codex are ready with their first question, or with their input line once they read keys; Claude
    Code also says how it is.

    It draws its input line before it reads, and what is typed in between is lost. Another program is ready when it runs.
    """
    if not isinstance(reader, (ClaudeInput, CodexInput)):
        return True
    if reader.draft(screen) is None:
        return reader.question(screen) is not None
    state = terminal_state(screen.tty)
    reads = state is not None and not state.canonical and not state.unread
    told = isinstance(reader, CodexInput) or (process is not None and status_of(process) is not None)
    return reads and told


async def _dialog_at(controller: PaneController) -> StartDialog | None:
    """The dialog that the program waits at, if it is one that is known."""
    dialog_on = _DIALOGS.get(type(controller.reader))
    seen = dialog_on(await controller.capture()) if dialog_on is not None else None
    return seen if seen is not None and seen.kind is not DialogKind.UNKNOWN else None


def _blocked_by_dialog(managed: ManagedSession, asked: StartDialog, prompt: str | None) -> ActionResult:
    """It runs, and a person has to answer it before it takes a prompt. Nothing is typed there."""
    attach, at = f"`wakeful attach {managed.session_id}`", f"a dialog of its client is open ({asked.kind})"
    if prompt is None:
        words = f"started; {at}: {attach} and answer it"
        return ActionResult(ActionOutcome.CONFIRMED, words, untrusted=safe_screen_text(asked.words))
    untyped = f"its first prompt was not typed, because {at}: {attach}, answer it, then send the prompt again"
    kept = replace(managed, note=untyped)
    return ActionResult(
        ActionOutcome.UNVERIFIED, f"started; {untyped}", kept, untrusted=safe_screen_text(asked.words)
    )


def reader_of(argv: tuple[str, ...]) -> InputReader:
    match program_of(without_interpreter(argv)):
        case "claude":
            return ClaudeInput()
        case "codex":
            return CodexInput()
        case _:
            return PlainInput()
