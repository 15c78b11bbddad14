"""Drives any command in a tmux session by keys: start, prompt, answer, interrupt, resume and stop.

Each action looks at the pane before and after it and reports what it saw; the gate decided before whether it
may act. If tmux fails, `PaneHand.touched` tells whether a key may have been sent. Only sessions that carry
Wakeful's mark are ended; Wakeful types into a pane that a person opened, but never closes it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from wakeful.control.driver import Begun, Order, Question, Reply, Seen, TypedText, unannounced
from wakeful.core.clock import Clock
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.integrations.claude_code.registry import status_of
from wakeful.integrations.driver_support import absence
from wakeful.integrations.tmux import claude_dialogs, codex_dialogs
from wakeful.integrations.tmux.input_line import (
    ClaudeInput,
    CodexInput,
    Input,
    PlainInput,
    ShellInput,
    digest,
    permission,
    typable,
)
from wakeful.integrations.tmux.pane import PaneHand, shown, until
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS
from wakeful.integrations.tmux.programs import program_of, resuming, unwrapped
from wakeful.integrations.tmux.screen import Screen, last_words, terminal_state
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start import READY_SECONDS_MAX, Starting, resume
from wakeful.integrations.tmux.start_screens import Shown
from wakeful.integrations.tmux.stop import close_session, end_program, program_in_pane, stopped, sweep_tools
from wakeful.integrations.tmux.typed_notes import Stage, TypedNote, TypedNotes
from wakeful.judging.evidence import DialogKind
from wakeful.linux import proc
from wakeful.storage.base import Outcome

# A turn began 0.1 to 0.5 s after Enter, an interrupt took 0.3 s; a busy machine may need many times that.
EFFECT_SECONDS_MAX: Final = 10.0
# A prompt that was cut off before any answer stood in the input line again 0.1 to 0.6 s after Escape.
RESTORED_SECONDS_MAX: Final = 3.0
_INTERRUPTED: Final = "Interrupted ·"


async def deliver(hand: PaneHand, prompt: str) -> Seen:
    """Type the prompt, see it stand in the input line, press Enter, see it taken. Raises PromptRefused."""
    text = hand.reader.prepared(typable(prompt, several_lines=hand.reader.several_lines))
    before = await hand.type_in(text)
    if isinstance(before, Seen):
        return before
    hand.note(Stage.ENTER)
    reach("typing.seen")
    await hand.press("Enter")
    reach("typing.entered")

    async def taken() -> bool | None:
        return _taken(hand, await hand.look(), before, text) or None

    if await until(taken, EFFECT_SECONDS_MAX):
        hand.note(Stage.TAKEN)
        return Seen(Outcome.RECOVERED, "the text stood in the input line and was taken with Enter")
    if proc.sight(hand.process) is not Sight.ALIVE:
        return Seen(Outcome.UNVERIFIED, "the agent ended after Enter was pressed")
    return Seen(Outcome.UNVERIFIED, "Enter was pressed, but nothing shows that the text was taken")


async def answer(hand: PaneHand, question_id: str, reply: Reply) -> Seen:
    """Choose the option by its digit, if the question on the screen is the one that was read."""
    screen = await hand.look()
    asked = permission(screen) if isinstance(hand.reader, ClaudeInput) else None
    if asked is None or asked.id != question_id:
        return Seen(Outcome.DECLINED, "that question is not open any more")
    if (reason := hand.closed(screen)) is not None:
        return Seen(Outcome.DECLINED, reason)
    digit = asked.digit(reply)
    if digit is None:
        return Seen(Outcome.DECLINED, f"it offers no way to {reply} it once", untrusted=shown(asked.text))
    await hand.press("-l", digit)

    async def gone() -> bool | None:
        left = permission(await hand.look())
        return True if left is None or left.id != question_id else None

    if await until(gone, EFFECT_SECONDS_MAX):
        return Seen(Outcome.RECOVERED, f"option {digit} was chosen and the question is gone")
    return Seen(Outcome.UNVERIFIED, f"option {digit} was pressed, but the question still stands there")


async def interrupt(hand: PaneHand, typed: str) -> Seen:
    """Press the key that ends a turn; declined where it could do something else.

    `typed` is the digest of the text that was delivered last.
    """
    before = await hand.look()
    if (reason := hand.closed(before) or _uninterruptible(hand, before)) is not None:
        return Seen(Outcome.DECLINED, reason)
    await hand.press(hand.reader.interrupt_key)

    async def rests() -> Screen | None:
        screen = await hand.look()
        # With prompts in its queue the next turn begins at once: then the mark of the interrupt shows it.
        marked = _interruptions(screen) > _interruptions(before)
        return screen if marked or _rests(hand, screen) or screen.dead else None

    screen = await until(rests, EFFECT_SECONDS_MAX)
    if proc.sight(hand.process) is not Sight.ALIVE:
        return Seen(Outcome.INEFFECTIVE, "it ended instead of stopping its turn")
    if screen is None:
        return Seen(
            Outcome.UNVERIFIED, f"{hand.reader.interrupt_key} was pressed, but nothing shows an effect"
        )
    return await _interrupted(hand, before, typed)


def _taken(hand: PaneHand, screen: Screen, before: Screen, text: str) -> bool:
    if isinstance(hand.reader, ClaudeInput):
        draft = hand.reader.draft(screen)
        # A question may stand where the input line was: then the turn has begun.
        return draft == "" or (draft is None and status_of(hand.process) in ("busy", "waiting"))
    state = terminal_state(screen.tty)
    return not hand.reader.shows(screen, before, text) and state is not None and state.unread == 0


def _uninterruptible(hand: PaneHand, screen: Screen) -> str | None:
    if hand.reader.question(screen) is not None:
        return f"a question is open in its terminal, and {hand.reader.interrupt_key} would refuse it"
    if isinstance(hand.reader, ClaudeInput):
        works = hand.reader.works(screen) or status_of(hand.process) == "busy"
    else:
        # An unknown program that shows its prompt waits for text: the key would end it.
        works = hand.reader.works(screen) or not _prompts(hand, screen)
    return None if works else "no turn runs that could be interrupted"


def _rests(hand: PaneHand, screen: Screen) -> bool:
    if isinstance(hand.reader, ClaudeInput):
        return not hand.reader.works(screen) and status_of(hand.process) != "busy"
    return not hand.reader.works(screen) and _prompts(hand, screen)


def _prompts(hand: PaneHand, screen: Screen) -> bool:
    """Whether the program shows a prompt; an empty row says nothing, nor does what the terminal shows of Ctrl-C."""
    shown = screen.cursor_text.strip().removeprefix("^C").strip()
    return bool(shown) and hand.reader.draft(screen) == ""


async def _interrupted(hand: PaneHand, before: Screen, typed: str) -> Seen:
    """Claude Code gives a prompt back that it cut off before any answer: ours is removed, a person's words never."""
    left = await _given_back(hand, before) if isinstance(hand.reader, ClaudeInput) else ""
    if not left:
        return Seen(Outcome.RECOVERED, "the turn ended and the agent lives")
    if digest(left) == typed and hand.closed(await hand.look()) is None and await hand.clear():
        return Seen(
            Outcome.RECOVERED, "the turn ended before any answer; its prompt was given back and removed"
        )
    return Seen(Outcome.RECOVERED, "the turn ended; something stands in the input line now")


async def _given_back(hand: PaneHand, before: Screen) -> str:
    """What stands in the input line once the turn has ended: it is either marked as interrupted or its prompt comes back."""

    async def told() -> str | None:
        screen = await hand.look()
        draft = hand.reader.draft(screen)
        return draft or ("" if _interruptions(screen) > _interruptions(before) else None)

    return await until(told, RESTORED_SECONDS_MAX) or ""


def _interruptions(screen: Screen) -> int:
    return sum(_INTERRUPTED in row for row in screen.rows)


_READERS: Final[Mapping[str, type[Input]]] = {
    each.__name__: each for each in (ClaudeInput, CodexInput, PlainInput, ShellInput)
}
_DIALOGS: Final[Mapping[type[Input], Callable[[Screen], Shown | None]]] = {
    ClaudeInput: claude_dialogs.dialog_on,
    CodexInput: codex_dialogs.dialog_on,
}
_NO_PANE: Final = Seen(Outcome.DECLINED, "nobody knows in which pane it runs")
# The daemon starts after this. A note that was not looked at stays until something is typed into its pane.
SETTLING_SECONDS_MAX: Final = 10.0
_NOT_LOOKED_AT: Final = Seen(
    Outcome.UNVERIFIED, "it is unknown whether the text was taken: too much was left to look at"
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
        self._starting = Starting(TmuxServer(socket, deadline_seconds, config), folder, clock)
        # Where something was typed whose outcome is not written down yet.
        self._typed_in: dict[SessionId, PaneHand] = {}

    def is_open(self, hosting: Hosting) -> bool:
        """Its agent runs, the first process of its pane lives, and the server's socket is there."""
        pane, process = hosting.pane, hosting.process
        if pane is None or pane.process is None or process is None or not Path(pane.socket).is_socket():
            return False
        return proc.runs(process) and proc.sight(pane.process) is Sight.ALIVE

    def is_lost(self, hosting: Hosting) -> bool:
        """Its agent outlived its pane, or nobody can call its server any more."""
        pane = hosting.pane
        if pane is None or pane.process is None or absence(hosting) is not None:
            return False
        return proc.sight(pane.process) is Sight.DEAD or not Path(pane.socket).is_socket()

    async def start(self, order: Order, begun: Begun = unannounced) -> Seen:
        """Start or resume in a new tmux session. Raises what the port names, BadTmuxName and TmuxFailed."""
        reader = _checked(order)
        given = await self._starting.begin(order)
        hosting = given.hosting
        await begun(hosting)
        try:
            ready = await self._starting.settle(
                given, lambda screen: _is_ready(reader, screen, hosting.process)
            )
            seen = await self._greet(hosting, order.prompt, ready=ready)
        except TmuxFailed as problem:
            return Seen(Outcome.UNVERIFIED, f"started, and then: {problem}", hosting)
        return replace(seen, hosting=seen.hosting or hosting)

    async def deliver(self, hosting: Hosting, prompt: str, environ: Mapping[str, str] | None = None) -> Seen:
        """Type the prompt, see it stand in the input line, press Enter, see it taken. Raises PromptRefused."""
        del environ  # its process lives already
        hand = self._hand(hosting)
        if hand is None:
            return _NO_PANE
        self._typed_in[hosting.session_id] = hand
        seen = await seen_through(hand, deliver(hand, prompt))
        if seen.outcome not in (Outcome.RECOVERED, Outcome.UNVERIFIED):
            return seen
        return replace(seen, hosting=replace(hosting, typed=digest(prompt)))

    async def settle_typed(self) -> list[TypedText]:
        """What became of every text whose typing was cut off by our end. Nothing is looked at after SETTLING_SECONDS_MAX."""
        over_at = time.monotonic() + SETTLING_SECONDS_MAX
        return [
            TypedText(
                note.session_id,
                note.at,
                note.text,
                await self._settled(note) if time.monotonic() < over_at else _NOT_LOOKED_AT,
                is_command=note.reader == ShellInput.__name__,
            )
            for note in TypedNotes(self._folder).all()
        ]

    async def _settled(self, note: TypedNote) -> Seen:
        server = TmuxServer(note.pane.socket, self._deadline_seconds)
        if (reader := _READERS.get(note.reader)) is None:
            # Written by another version.
            TypedNotes(self._folder).drop(note.pane)
            return Seen(Outcome.UNVERIFIED, "it is unknown whether the text was taken")
        hand = PaneHand(server, note.pane, note.process, reader(), self._folder, note.session_id)
        self._typed_in[note.session_id] = hand
        try:
            return await hand.settle(note)
        except TmuxFailed as problem:
            return Seen(Outcome.UNVERIFIED, f"it is unknown whether the text was taken: {problem}")

    def forget_typed(self, session_id: SessionId) -> None:
        """Its outcome is written down: a note whose end was seen has done its work."""
        if (hand := self._typed_in.pop(session_id, None)) is not None:
            hand.forget()

    async def questions(self, hosting: Hosting) -> tuple[Question, ...]:
        """The permission question on the screen of Claude Code; none for other programs. Raises TmuxFailed."""
        hand = self._hand(hosting)
        if hand is None or not isinstance(hand.reader, ClaudeInput):
            return ()
        asked = permission(await hand.look())
        return () if asked is None else (Question(asked.id, shown(asked.tool), shown(asked.text)),)

    async def answer(self, hosting: Hosting, question_id: str, reply: Reply) -> Seen:
        """Choose the option by its digit, if the question on the screen is still the one that was read."""
        hand = self._hand(hosting)
        return _NO_PANE if hand is None else await seen_through(hand, answer(hand, question_id, reply))

    async def interrupt(self, hosting: Hosting) -> Seen:
        """Escape where the client knows it, else Ctrl-C; declined while a question is open."""
        hand = self._hand(hosting)
        return _NO_PANE if hand is None else await seen_through(hand, interrupt(hand, hosting.typed))

    async def resume(self, hosting: Hosting, order: Order) -> Seen:
        """In the pane it was in, if a shell waits there; else in a tmux session of its own."""
        if hosting.pane is not None:
            try:
                seen = await self.resume_in_pane(hosting, order)
            except TmuxFailed:
                # The pane, or its whole server, is gone.
                return await self.start(order)
            if seen.outcome is not Outcome.DECLINED:
                return seen
        return await self.start(order)

    async def resume_in_pane(self, hosting: Hosting, order: Order) -> Seen:
        """Type the command that continues the conversation into the shell its agent left behind.

        The order is the one `start` would get; its environment is the shell's own instead. `hosting` in the answer is
        set once a new agent was seen. Raises ArgumentRefused, ConversationUnknown, PromptRefused and TmuxFailed.
        """
        reader = _checked(order)
        command = resuming(order.argv, order.conversation_id, order.cwd)
        if hosting.pane is None:
            return _NO_PANE
        server = TmuxServer(hosting.pane.socket, self._deadline_seconds)
        shell = proc.identify_if_seen((await server.look(hosting.pane.target)).pane_pid)
        if shell is None:
            return Seen(Outcome.DECLINED, "the shell of its pane is gone")
        hand = PaneHand(server, hosting.pane, shell, ShellInput(), self._folder, hosting.session_id)
        self._typed_in[hosting.session_id] = hand
        seen = await seen_through(hand, resume(hand, hosting, order, command))
        if seen.hosting is None:
            return seen
        greeted = await seen_through(hand, self._await_and_greet(hand, reader, seen.hosting, order.prompt))
        hosting = greeted.hosting or seen.hosting
        return replace(greeted, words=f"{seen.words}; {greeted.words}", hosting=hosting)

    async def stop(self, hosting: Hosting) -> Seen:
        """End the agent, its tmux session if that is ours, and the tools it left behind."""
        if hosting.process is None:
            return Seen(Outcome.DECLINED, "nobody knows its process")
        if proc.sight(hosting.process) is Sight.ALIVE and status_of(hosting.process) == "busy":
            await self._calm(hosting)
        ending = await end_program(hosting.process, program_in_pane(hosting, self._socket))
        left = await close_session(hosting, self._deadline_seconds)
        return stopped(ending, await sweep_tools(hosting), left)

    async def _calm(self, hosting: Hosting) -> None:
        """An interrupted agent ends its own tools. One that cannot be interrupted is ended all the same."""
        try:
            await self.interrupt(hosting)
        except TmuxFailed:
            return

    async def _greet(self, hosting: Hosting, prompt: str | None, *, ready: bool) -> Seen:
        """Give a started program its first prompt."""
        hand = self._hand(hosting)
        if not ready or hand is None:
            return Seen(Outcome.UNVERIFIED, f"started, but not ready after {READY_SECONDS_MAX:g} s")
        if (asked := await _dialog_at(hand)) is not None:
            return _kept_waiting(hosting, asked, prompt)
        if prompt is None:
            return Seen(Outcome.RECOVERED, f"started in the tmux session {hand.address.session}")
        seen = await self.deliver(hosting, prompt)
        if seen.outcome is Outcome.INEFFECTIVE:
            # A client that has just come up may lose a paste. Enter was not pressed, and a draft would refuse it.
            seen = await self.deliver(hosting, prompt)
        outcome = seen.outcome if seen.outcome is Outcome.RECOVERED else Outcome.UNVERIFIED
        return replace(seen, outcome=outcome, words=f"started; its prompt: {seen.words}")

    async def _await_and_greet(
        self, hand: PaneHand, reader: Input, hosting: Hosting, prompt: str | None
    ) -> Seen:
        """Wait until the program that came up below a shell is ready, then give it its prompt."""
        process = hosting.process
        assert process is not None, "it was seen below the shell"

        async def settled() -> bool | None:
            return _is_ready(reader, await hand.look(), process) or proc.sight(process) is Sight.DEAD or None

        ready = await until(settled, READY_SECONDS_MAX) is not None
        if proc.sight(process) is Sight.DEAD:
            said = shown(last_words((await hand.look()).rows))
            return Seen(Outcome.INEFFECTIVE, "it ended again", untrusted=said)
        return await self._greet(hosting, prompt, ready=ready)

    def _hand(self, hosting: Hosting) -> PaneHand | None:
        if hosting.pane is None or hosting.process is None:
            return None
        server = TmuxServer(hosting.pane.socket, self._deadline_seconds)
        reader = reader_of(hosting.argv)
        return PaneHand(server, hosting.pane, hosting.process, reader, self._folder, hosting.session_id)


async def seen_through(hand: PaneHand, act: Awaitable[Seen]) -> Seen:
    """The act's own report. When tmux fails in its middle, keys may have been pressed; before that, it is an error."""
    try:
        return await act
    except TmuxFailed as problem:
        if not hand.touched:
            raise
        return Seen(Outcome.UNVERIFIED, f"keys were sent, and then nobody could see what they did: {problem}")


def _checked(order: Order) -> Input:
    """How its program shows its input; its prompt is refused before anything runs. Raises PromptRefused."""
    reader = reader_of(order.argv)
    if order.prompt is not None:
        typable(order.prompt, several_lines=reader.several_lines)
    return reader


def _is_ready(reader: Input, screen: Screen, process: Process | None) -> bool:
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


async def _dialog_at(hand: PaneHand) -> Shown | None:
    """The dialog that the program waits at, if it is one that is known."""
    dialog_on = _DIALOGS.get(type(hand.reader))
    seen = dialog_on(await hand.look()) if dialog_on is not None else None
    return seen if seen is not None and seen.kind is not DialogKind.UNKNOWN else None


def _kept_waiting(hosting: Hosting, asked: Shown, prompt: str | None) -> Seen:
    """It runs, and a person has to answer it before it takes a prompt. Nothing is typed there."""
    attach, at = f"`wakeful attach {hosting.session_id}`", f"a dialog of its client is open ({asked.kind})"
    if prompt is None:
        words = f"started; {at}: {attach} and answer it"
        return Seen(Outcome.RECOVERED, words, untrusted=shown(asked.words))
    untyped = f"its first prompt was not typed, because {at}: {attach}, answer it, then send the prompt again"
    kept = replace(hosting, note=untyped)
    return Seen(Outcome.UNVERIFIED, f"started; {untyped}", kept, untrusted=shown(asked.words))


def reader_of(argv: tuple[str, ...]) -> Input:
    match program_of(unwrapped(argv)):
        case "claude":
            return ClaudeInput()
        case "codex":
            return CodexInput()
        case _:
            return PlainInput()
