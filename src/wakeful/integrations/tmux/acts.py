"""The acts on an agent in a pane: deliver, answer, interrupt. Each looks, touches, and looks again.

Errors of tmux pass through; whoever called knows by `hand.touched` whether anything may have happened.
"""

from typing import Final

from wakeful.control.driver import Reply, Seen
from wakeful.core.fault_points import reach
from wakeful.core.process import Sight
from wakeful.integrations.claude_code.claude_status import status_of
from wakeful.integrations.tmux.claude_input import ClaudeInput, permission
from wakeful.integrations.tmux.keys import digest, typable
from wakeful.integrations.tmux.pane import PaneHand, shown, until
from wakeful.integrations.tmux.screen import Screen
from wakeful.integrations.tmux.terminal import terminal_state
from wakeful.integrations.tmux.typed_notes import Stage
from wakeful.linux import proc
from wakeful.storage.store import Outcome

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
