"""Types into one pane, and looks at it before and after every key.

Nothing is typed unless the screen shows an empty input line of the intended process, and Enter is pressed
only after the text was seen there. The caller decides what may be typed and why.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from wakeful.control.driver import Seen
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import PaneAddress
from wakeful.core.process import Process, Sight
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.integrations.tmux.input_line import LINE_BYTES_MAX, Input, Standing, squeezed
from wakeful.integrations.tmux.screen import (
    Screen,
    belongs_to,
    in_front,
    is_interactive_shell,
    last_words,
    terminal_state,
)
from wakeful.integrations.tmux.server import TmuxServer
from wakeful.integrations.tmux.typed_notes import Stage, TypedNote, TypedNotes
from wakeful.linux import proc
from wakeful.storage.base import Outcome

# A paste was shown after 0.05 s; while two suites of tests kept both cores busy, once not within 5 s.
ECHO_SECONDS_MAX: Final = 10.0
# A client that takes up a long conversation draws its input line first and reads nothing for a while: on two cores with
# five busy programs more than 5 s.
READ_SECONDS_MAX: Final = 15.0
POLL_SECONDS: Final = 0.03
UNREAD: Final = "it has not read what was typed before"
UNTRUSTED_CHARS_MAX: Final = 300
# Killing a line joins it with the one above: two strokes for each row. No draft is taller than its pane.
CLEAR_ROWS_MAX: Final = 100

# What Enter does is seen within half a second; a daemon that comes back does not wait for a busy client.
SETTLE_SECONDS_MAX: Final = 3.0
NOBODY: Final = SessionId("")
_REMOVED: Final = Seen(
    Outcome.INEFFECTIVE, "the text stood in the input line: it was removed, nothing was sent"
)
_SENT: Final = Seen(Outcome.RECOVERED, "the text was typed and sent")
_ENDED: Final[Mapping[Stage, Seen]] = {Stage.TAKEN: _SENT, Stage.REMOVED: _REMOVED}
_SETTLED: Final[Mapping[tuple[Standing, Stage | None], Seen]] = {
    (Standing.OURS, None): _REMOVED,
    (Standing.PART, None): _REMOVED,
    (Standing.EMPTY, Stage.BEGUN): Seen(Outcome.INEFFECTIVE, "the text was not typed, nothing was sent"),
    (Standing.EMPTY, Stage.ENTER): _SENT,
    (Standing.EMPTY, None): Seen(
        Outcome.UNVERIFIED, "the text was typed and is gone: somebody sent it or removed it"
    ),
    (Standing.OTHER, None): Seen(
        Outcome.UNVERIFIED, "something else stands in the input line, which was left as it is"
    ),
}
"""What a text amounts to whose typing was cut off, by what stands there now and how far it had come."""

T = TypeVar("T")


async def until(look: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
    """The first answer of `look` that is not None, or None when time is up."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (seen := await look()) is None:
        if asyncio.get_running_loop().time() >= deadline:
            return None
        await asyncio.sleep(POLL_SECONDS)
    return seen


def shown(text: str) -> str:
    """A piece of a screen, without secrets and safe to show."""
    return plain(redact(text), UNTRUSTED_CHARS_MAX)


class PaneHand:
    """Types into one pane. `touched` says whether a key may have reached it."""

    def __init__(
        self,
        server: TmuxServer,
        address: PaneAddress,
        process: Process,
        reader: Input,
        folder: str,
        session_id: SessionId = NOBODY,
    ) -> None:
        self.address = address
        self.process = process
        self.reader = reader
        self.touched = False
        self._server = server
        self._folder = folder
        self._session_id = session_id
        self._notes = TypedNotes(folder)
        self._note: TypedNote | None = None

    async def look(self) -> Screen:
        """The pane now. Raises TmuxFailed."""
        return await self._server.look(self.address.target)

    async def press(self, *keys: str) -> None:
        """Press keys. Raises TmuxFailed."""
        self.touched = True
        await self._server.press(self.address.target, *keys)

    def closed(self, screen: Screen) -> str | None:
        """Why no key may be pressed at all."""
        if screen.dead:
            return "its pane is dead"
        first = self.address.process
        if first is not None and (first.pid != screen.pane_pid or proc.sight(first) is not Sight.ALIVE):
            return "another pane has its address now"
        if proc.sight(self.process) is not Sight.ALIVE or not belongs_to(self.process, screen.pane_pid):
            return "its agent does not run in this pane any more"
        if not in_front(self.process):
            return "something else is in front of the agent in its pane"
        if screen.in_mode:
            return "somebody scrolls in its pane (copy mode)"
        if screen.synchronized:
            return "its pane is synchronized with others, which would get the keys too"
        return "its pane takes no input" if screen.input_off else None

    def obstacle(self, screen: Screen, text: str) -> str | None:
        """Why this text must not be typed now."""
        return self.closed(screen) or self._deaf(screen, text) or self._occupied(screen)

    async def type_in(self, text: str) -> Seen | Screen:
        """Put the text into the empty input line and see it there; the screen before, or why it is not there."""

        async def read_up() -> Screen | None:
            screen = await self.look()
            return None if self.obstacle(screen, text) == UNREAD else screen

        if (left := self._notes.find(self.address)) is not None:
            await self.settle(left)
            self.forget()
        # A terminal answers questions of its program into the same queue: that is read in a moment.
        before = await until(read_up, READ_SECONDS_MAX) or await self.look()
        if (reason := self.obstacle(before, text)) is not None:
            return Seen(Outcome.DECLINED, reason, untrusted=shown(self._seen(before)))
        self.touched = True
        self._take_note(text, before)
        reach("typing.begun")
        await self._server.paste(self.address.target, text, self._folder)
        self.note(Stage.PASTED)
        reach("typing.pasted")

        async def stands() -> bool | None:
            return self.reader.shows(await self.look(), before, text) or None

        if await until(stands, ECHO_SECONDS_MAX):
            return before
        # What it has not read yet it cannot show, and it would stand there later.
        if self._deaf(await self.look(), text) == UNREAD and await until(stands, READ_SECONDS_MAX):
            return before
        return await self._take_back(text)

    def _take_note(self, text: str, before: Screen) -> None:
        reader = type(self.reader).__name__
        self._note = TypedNote(
            self._session_id,
            self.address,
            self.process,
            reader,
            text,
            before.before_cursor,
            at=time.time(),
        )
        self._notes.keep(self._note)

    def note(self, stage: Stage) -> None:
        """The text that was typed in came so far. Raises TmuxFailed."""
        assert self._note is not None, "something was typed in"
        self._notes.keep(replace(self._note, stage=stage))

    def forget(self) -> None:
        """Drop the note of a text if what became of it was seen."""
        note = self._notes.find(self.address)
        if note is not None and note.is_settled:
            self._notes.drop(self.address)

    async def settle(self, note: TypedNote) -> Seen:
        """What became of a text whose typing was cut off. It is removed where it stands; it is never sent here."""

        async def told() -> Standing | None:
            screen = await self.look()
            standing = self._standing(screen, note)
            # Enter may have been pressed just before, or the text put there: what that does is seen in a moment.
            is_fresh = 0 <= time.time() - note.at < SETTLE_SECONDS_MAX
            unsure = standing is (Standing.OURS if note.stage is Stage.ENTER else Standing.EMPTY)
            return None if (unsure and is_fresh) or self._deaf(screen, "") == UNREAD else standing

        if note.is_settled:
            return _ENDED[note.stage]
        if note.process != self.process or proc.sight(self.process) is not Sight.ALIVE:
            self._notes.drop(self.address)
            return Seen(Outcome.UNVERIFIED, "the agent ended, and it is unknown whether it took the text")
        screen = await self.look()
        if (reason := self.closed(screen)) is not None:
            return Seen(Outcome.UNVERIFIED, f"it is unknown whether the text was taken: {reason}")
        standing = await until(told, SETTLE_SECONDS_MAX)
        if standing is None:
            # What it has not read yet it will show later: the note stays.
            return Seen(Outcome.UNVERIFIED, f"it is unknown whether the text was taken: {UNREAD}")
        return await self._settled(standing, note)

    def _standing(self, screen: Screen, note: TypedNote) -> Standing:
        standing = self.reader.standing(screen, note.prompt, note.text)
        # The whole text stood there before Enter: a part of it that stands there now was typed by a person.
        is_other = standing is Standing.PART and note.stage is Stage.ENTER
        return Standing.OTHER if is_other else standing

    async def _settled(self, standing: Standing, note: TypedNote) -> Seen:
        if standing is Standing.HIDDEN:
            return Seen(
                Outcome.UNVERIFIED, "no input line is shown: it is unknown whether the text was taken"
            )
        if standing in (Standing.OURS, Standing.PART) and not await self.clear():
            return Seen(Outcome.UNVERIFIED, "the text stands in the input line and could not be removed")
        seen = _SETTLED.get((standing, note.stage)) or _SETTLED[standing, None]
        ended = next((stage for stage, each in _ENDED.items() if each is seen), None)
        if ended is None:
            self._notes.drop(self.address)
        else:
            # A second crash must not make it a riddle again.
            self._notes.keep(replace(note, stage=ended))
        return seen

    async def clear(self) -> bool:
        """Remove what stands in the input line; whether it is empty now. Raises TmuxFailed."""
        for _ in range(CLEAR_ROWS_MAX):
            draft = self.reader.draft(await self.look())
            if draft == "":
                return True
            # Without an input line the keys would go somewhere else.
            if draft is not None:
                await self.press("C-u", "C-u")
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _deaf(self, screen: Screen, text: str) -> str | None:
        """Why what is typed would go somewhere else than into an input line."""
        if not self.reader.shell and is_interactive_shell(proc.command(self.process.pid)):
            return "its program is a shell, and text is no command"
        state = terminal_state(screen.tty)
        if state is None:
            return "its terminal cannot be looked at"
        if state.hides:
            return "it asks for something that is not shown, like a password"
        if state.unread:
            return UNREAD
        if state.canonical and len(text.encode()) > LINE_BYTES_MAX:
            return f"its terminal keeps {LINE_BYTES_MAX:,} bytes of a line and would drop the rest"
        return None

    def _occupied(self, screen: Screen) -> str | None:
        if self.reader.question(screen) is not None:
            return (
                "a question is open in its terminal, and text could answer it: attach and answer that first"
            )
        draft = self.reader.draft(screen)
        if draft is None:
            return "no input line is shown in its terminal"
        return "somebody's draft stands in its input line" if draft else None

    async def _take_back(self, text: str) -> Seen:
        """The text is not seen standing: no Enter. What stands there is removed only if it is a part of ours."""
        screen = await self.look()
        draft = squeezed(self.reader.draft(screen) or "")
        prompt = self._note.prompt if self._note is not None else ""
        is_ours = self.reader.standing(screen, prompt, text) in (Standing.OURS, Standing.PART)
        if (
            draft
            and (is_ours or draft in squeezed(text))
            and self.closed(screen) is None
            and await self.clear()
        ):
            self.note(Stage.REMOVED)
            words = "the text did not arrive whole: it was removed again, and Enter was not pressed"
        else:
            words = "the text was not seen in the input line: Enter was not pressed"
        return Seen(Outcome.INEFFECTIVE, words, untrusted=shown(self._seen(screen)))

    def _seen(self, screen: Screen) -> str:
        return self.reader.question(screen) or screen.cursor_text or last_words(screen.rows)
