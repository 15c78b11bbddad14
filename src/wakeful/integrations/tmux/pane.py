"""Types into one pane, and reads its screen before and after every key.

It types only if the screen shows an empty input line of the intended process, and presses Enter only after the
text has appeared there. The caller decides what may be typed and why.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from wakeful.control.driver import ActionResult
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import PaneAddress
from wakeful.core.process import Process, ProcessState
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.driver_support import confirmed, declined, ineffective, unverified
from wakeful.integrations.tmux.input_line import LINE_BYTES_MAX, InputLineState, InputReader, squeeze
from wakeful.integrations.tmux.screen import (
    Screen,
    belongs_to,
    is_in_front,
    is_interactive_shell,
    last_output,
    terminal_state,
)
from wakeful.integrations.tmux.server import TmuxServer
from wakeful.integrations.tmux.typed_notes import TypedNote, TypedNotes, TypingStage
from wakeful.linux import proc

# A paste was shown after 0.05 s; once, with two test suites on both cores, not within 5 s.
ECHO_SECONDS_MAX: Final = 10.0
# A client that resumes a long conversation draws its input line first and reads nothing for a while: on two cores with
# five busy programs more than 5 s.
READ_SECONDS_MAX: Final = 15.0
POLL_SECONDS: Final = 0.03
UNREAD: Final = "it has not read what was typed before"
UNTRUSTED_CHARS_MAX: Final = 300
# Killing a line joins it with the one above: two strokes for each row. No draft is taller than its pane.
CLEAR_ROWS_MAX: Final = 100

# The effect of Enter shows within half a second; a restarted daemon does not wait for a busy client.
RECONCILE_SECONDS_MAX: Final = 3.0
NO_SESSION: Final = SessionId("")
_REMOVED: Final = ineffective("the text was in the input line: it was removed, and nothing was sent")
_SENT: Final = confirmed("the text was typed and sent")
_RESULT_BY_STAGE: Final[Mapping[TypingStage, ActionResult]] = {
    TypingStage.TAKEN: _SENT,
    TypingStage.REMOVED: _REMOVED,
}
_RESULT_BY_STATE: Final[Mapping[tuple[InputLineState, TypingStage | None], ActionResult]] = {
    (InputLineState.WHOLE, None): _REMOVED,
    (InputLineState.PART, None): _REMOVED,
    (InputLineState.EMPTY, TypingStage.BEGUN): ineffective("the text was not typed, nothing was sent"),
    (InputLineState.EMPTY, TypingStage.ENTER): _SENT,
    (InputLineState.EMPTY, None): unverified(
        "the text was typed and is gone: a person sent it or removed it"
    ),
    (InputLineState.OTHER, None): unverified("other text is in the input line, which was left as it is"),
}
"""The result of an interrupted typing, by the state of the input line and the stage that the typing had reached."""

T = TypeVar("T")


async def poll_until(check: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
    """The first result of `check` that is not None, or None when time is up."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (result := await check()) is None:
        if asyncio.get_running_loop().time() >= deadline:
            return None
        await asyncio.sleep(POLL_SECONDS)
    return result


def safe_screen_text(text: str) -> str:
    """A piece of a screen, redacted and safe to show."""
    return plain(redact(text), UNTRUSTED_CHARS_MAX)


class PaneController:
    """Types into one pane. `may_have_typed`: a key may have reached it."""

    def __init__(
        self,
        server: TmuxServer,
        address: PaneAddress,
        process: Process,
        reader: InputReader,
        folder: str,
        session_id: SessionId = NO_SESSION,
    ) -> None:
        self.address = address
        self.process = process
        self.reader = reader
        self.may_have_typed = False
        self._server = server
        self._folder = folder
        self._session_id = session_id
        self._notes = TypedNotes(folder)
        self._note: TypedNote | None = None

    async def capture(self) -> Screen:
        """Raises TmuxFailed."""
        return await self._server.capture(self.address.target)

    async def press(self, *keys: str) -> None:
        """Raises TmuxFailed."""
        self.may_have_typed = True
        await self._server.press(self.address.target, *keys)

    def closed_reason(self, screen: Screen) -> str | None:
        """Why no key may be pressed; None if keys may be pressed."""
        if screen.dead:
            return "its pane is dead"
        first = self.address.process
        if first is not None and (
            first.pid != screen.pane_pid or proc.state_of(first) is not ProcessState.ALIVE
        ):
            return "another pane has its address now"
        is_alive = proc.state_of(self.process) is ProcessState.ALIVE
        if not is_alive or not belongs_to(self.process, screen.pane_pid):
            return "its agent no longer runs in this pane"
        if not is_in_front(self.process):
            return "something else is in front of the agent in its pane"
        if screen.in_mode:
            return "a person scrolls in its pane (copy mode)"
        if screen.synchronized:
            return "its pane is synchronized with others, which would get the keys too"
        return "its pane takes no input" if screen.input_off else None

    def typing_obstacle(self, screen: Screen, text: str) -> str | None:
        """Why this text must not be typed now; None if it may be typed."""
        return (
            self.closed_reason(screen)
            or self._not_reading_reason(screen, text)
            or self._occupied_reason(screen)
        )

    async def type_text(self, text: str) -> ActionResult | Screen:
        """Put the text into the empty input line and check it; returns the screen before, or the failure."""

        async def capture_when_read() -> Screen | None:
            screen = await self.capture()
            return None if self.typing_obstacle(screen, text) == UNREAD else screen

        if (note := self._notes.find(self.address)) is not None:
            await self.reconcile(note)
            self.drop_final_note()
        # A terminal's answers to its program go into the same queue: the program reads them in a moment.
        before = await poll_until(capture_when_read, READ_SECONDS_MAX) or await self.capture()
        if (reason := self.typing_obstacle(before, text)) is not None:
            return declined(reason, untrusted=safe_screen_text(self._visible_text(before)))
        self.may_have_typed = True
        reader, prompt = type(self.reader).__name__, before.before_cursor
        self._note = TypedNote(
            self._session_id, self.address, self.process, reader, text, prompt, at=time.time()
        )
        self._notes.save(self._note)
        fault_point("typing.begun")
        await self._server.paste(self.address.target, text, self._folder)
        self.record_stage(TypingStage.PASTED)
        fault_point("typing.pasted")

        async def shows_text() -> bool | None:
            return self.reader.shows(await self.capture(), before, text) or None

        if await poll_until(shows_text, ECHO_SECONDS_MAX):
            return before
        # A program cannot show unread text yet, but will show it later.
        is_unread = self._not_reading_reason(await self.capture(), text) == UNREAD
        if is_unread and await poll_until(shows_text, READ_SECONDS_MAX):
            return before
        return await self._remove_partial_text(text)

    def record_stage(self, stage: TypingStage) -> None:
        """Record the stage that the typing has reached. Raises TmuxFailed."""
        assert self._note is not None, "a text was typed"
        self._notes.save(replace(self._note, stage=stage))

    def drop_final_note(self) -> None:
        note = self._notes.find(self.address)
        if note is not None and note.is_final:
            self._notes.drop(self.address)

    async def reconcile(self, note: TypedNote) -> ActionResult:
        """The outcome of an interrupted typing. The text is removed from the input line, never sent."""

        async def final_state() -> InputLineState | None:
            screen = await self.capture()
            state = self._input_state(screen, note)
            # Enter may have been pressed just before, or the text pasted: the effect shows in a moment.
            is_fresh = 0 <= time.time() - note.at < RECONCILE_SECONDS_MAX
            may_change = InputLineState.WHOLE if note.stage is TypingStage.ENTER else InputLineState.EMPTY
            is_unread = self._not_reading_reason(screen, "") == UNREAD
            return None if (state is may_change and is_fresh) or is_unread else state

        if note.is_final:
            return _RESULT_BY_STAGE[note.stage]
        if note.process != self.process or proc.state_of(self.process) is not ProcessState.ALIVE:
            self._notes.drop(self.address)
            return unverified("the agent ended, and it is unknown whether it took the text")
        screen = await self.capture()
        if (reason := self.closed_reason(screen)) is not None:
            return unverified(f"it is unknown whether the text was taken: {reason}")
        state = await poll_until(final_state, RECONCILE_SECONDS_MAX)
        if state is None:
            # Unread text will show later, so the note stays.
            return unverified(f"it is unknown whether the text was taken: {UNREAD}")
        return await self._reconcile_state(state, note)

    def _input_state(self, screen: Screen, note: TypedNote) -> InputLineState:
        state = self.reader.input_state(screen, note.prompt, note.text)
        # Before Enter the whole text was there: if only a part is there now, a person typed it.
        is_other = state is InputLineState.PART and note.stage is TypingStage.ENTER
        return InputLineState.OTHER if is_other else state

    async def _reconcile_state(self, state: InputLineState, note: TypedNote) -> ActionResult:
        if state is InputLineState.HIDDEN:
            return unverified("no input line is shown: it is unknown whether the text was taken")
        if state in (InputLineState.WHOLE, InputLineState.PART) and not await self.clear():
            return unverified("the text is in the input line and could not be removed")
        result = _RESULT_BY_STATE.get((state, note.stage)) or _RESULT_BY_STATE[state, None]
        stage = next((stage for stage, each in _RESULT_BY_STAGE.items() if each is result), None)
        if stage is None:
            self._notes.drop(self.address)
        else:
            # The result must survive a second crash.
            self._notes.save(replace(note, stage=stage))
        return result

    async def clear(self) -> bool:
        """Empty the input line; returns whether it is empty now. Raises TmuxFailed."""
        for _ in range(CLEAR_ROWS_MAX):
            draft = self.reader.draft(await self.capture())
            if draft == "":
                return True
            # Without an input line the keys would do something else.
            if draft is not None:
                await self.press("C-u", "C-u")
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _not_reading_reason(self, screen: Screen, text: str) -> str | None:
        """Why typed text would not go into an input line; None if it would."""
        if not self.reader.shell and is_interactive_shell(proc.command(self.process.pid)):
            return "its program is a shell, which would run the text as a command"
        state = terminal_state(screen.tty)
        if state is None:
            return "its terminal cannot be read"
        if state.hides_input:
            return "it asks for something that is not shown, like a password"
        if state.unread:
            return UNREAD
        if state.canonical and len(text.encode()) > LINE_BYTES_MAX:
            return f"its terminal takes {LINE_BYTES_MAX:,} bytes in one line and would drop the rest"
        return None

    def _occupied_reason(self, screen: Screen) -> str | None:
        if self.reader.question(screen) is not None:
            return (
                "a question is open in its terminal, and text could answer it: attach and answer that first"
            )
        draft = self.reader.draft(screen)
        if draft is None:
            return "no input line is shown in its terminal"
        return "a person's draft is in its input line" if draft else None

    async def _remove_partial_text(self, text: str) -> ActionResult:
        """The result for a text that did not appear: no Enter. A draft is removed only if it is a part of the text."""
        screen = await self.capture()
        draft = squeeze(self.reader.draft(screen) or "")
        prompt = self._note.prompt if self._note is not None else ""
        state = self.reader.input_state(screen, prompt, text)
        is_typed = state in (InputLineState.WHOLE, InputLineState.PART) or draft in squeeze(text)
        if draft and is_typed and self.closed_reason(screen) is None and await self.clear():
            self.record_stage(TypingStage.REMOVED)
            reason = "the text did not arrive completely: it was removed again, and Enter was not pressed"
        else:
            reason = "the text was not seen in the input line: Enter was not pressed"
        return ineffective(reason, untrusted=safe_screen_text(self._visible_text(screen)))

    def _visible_text(self, screen: Screen) -> str:
        return self.reader.question(screen) or screen.cursor_text or last_output(screen.rows)
