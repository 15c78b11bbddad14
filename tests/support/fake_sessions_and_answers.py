"""Sessions, answers and a chat for tests of gateway turns: they act as the test says and record every call."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wakeful.client.api import ActionReply, SessionSummary, Workspace
from wakeful.client.errors import DaemonRefused
from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import AnswerText, Ended, PromptTaken, TurnEvent
from wakeful.core.ids import SessionId
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.messages import ButtonPress, Buttons, IncomingMessage, Place, Update
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.turn_context import SavePart
from wakeful.storage.base import ActionOutcome

RECOVERED = ActionOutcome.CONFIRMED


def plainly(prompt: str) -> Sequence[TurnEvent]:
    """A turn with one text."""
    text = f"Answer to: {prompt}."
    return (PromptTaken(), AnswerText(text), Ended(text, stop_reason="end_turn"))


def silent(_prompt: str) -> Sequence[TurnEvent]:
    """A turn that begins and produces no text."""
    return (PromptTaken(),)


class ScriptedSessions:
    """Implements client.api.SessionsApi. Outlives gateways: the next one finds what was sent under a key."""

    def __init__(self) -> None:
        self.reply: Callable[[str], Sequence[TurnEvent]] = plainly
        # Deliveries: session, prompt and key, in order; and every other action by name.
        self.delivered: list[tuple[str, str, str]] = []
        self.acts: list[tuple[str, str]] = []
        # Outcomes of the next answers; by default they arrive.
        self.answer_outcomes: list[ActionOutcome] = []
        self.answers: list[tuple[str, PermissionReply]] = []
        self.alive: set[str] = set()
        # Sessions that the gateway ended without a request.
        self.evicted: list[str] = []
        # Sessions whose failed turn is left to its user.
        self.left_to_users: list[str] = []
        self.known: set[str] = set()
        # Sessions that replaced another one after a fresh start by the healer.
        self.heirs: dict[str, str] = {}
        # Raised by the next calls of a name, one each.
        self.problems: dict[str, list[Exception]] = defaultdict(list)
        self.outcomes: dict[str, ActionReply] = {}
        self._started = 0
        self._by_key: dict[str, ActionReply] = {}
        self._said: dict[str, list[TurnEvent]] = defaultdict(list)
        self._stirred = asyncio.Event()

    def say(self, key: str, *heard: TurnEvent) -> None:
        """Add this to the turn of this key."""
        self._said[key].extend(heard)
        self._stirred.set()

    async def start(self, seat: Workspace, prompt: str, key: str) -> ActionReply:
        self._raise("start")
        if key in self._by_key:
            return self._by_key[key]
        self._started += 1
        session_id = f"{seat.provider}-{self._started}"
        self.known.add(session_id)
        self.alive.add(session_id)
        return self._deliver(session_id, prompt, key)

    async def send(self, session_id: SessionId, prompt: str, key: str) -> ActionReply:
        self._raise("send")
        if key in self._by_key:
            return self._by_key[key]
        if session_id not in self.known:
            raise DaemonRefused(detail="no such session", problem={"code": "session-not-found"})
        if session_id not in self.alive:
            return ActionReply(ActionOutcome.DECLINED, "its process is gone", session_id)
        return self._deliver(session_id, prompt, key)

    async def resume(self, session_id: SessionId, environ: Mapping[str, str]) -> ActionReply:
        del environ
        self._raise("resume")
        self.acts.append(("resume", session_id))
        self.alive.add(session_id)
        return ActionReply(RECOVERED, "it runs and answers", session_id)

    async def answer(self, session_id: SessionId, question_id: str, reply: PermissionReply) -> ActionReply:
        self._raise("answer")
        self.answers.append((question_id, reply))
        outcome = self.answer_outcomes.pop(0) if self.answer_outcomes else RECOVERED
        return ActionReply(outcome, "answered", session_id)

    async def interrupt(self, session_id: SessionId) -> ActionReply:
        return self._act("interrupt", session_id)

    async def stop(self, session_id: SessionId, *, by_itself: bool = False) -> ActionReply:
        answered = self._act("stop", session_id)
        self.evicted += [session_id] if by_itself else []
        self.alive.discard(session_id)
        return answered

    async def end_runaway(self, session_id: SessionId) -> ActionReply:
        reply = self._act("end_process", session_id)
        return (
            reply
            if session_id in self.alive
            else ActionReply(ActionOutcome.DECLINED, "it has no process", session_id)
        )

    async def leave_to_user(self, session_id: SessionId) -> ActionReply:
        self._raise("leave_to_user")
        self.left_to_users.append(session_id)
        return self.outcomes.get("leave_to_user", ActionReply(RECOVERED, "left to its user", session_id))

    async def revive(self, session_id: SessionId) -> ActionReply:
        return self._act("revive", session_id)

    async def summary(self, session_id: SessionId) -> SessionSummary | None:
        if session_id not in self.known:
            return None
        return SessionSummary("idle" if session_id in self.alive else "stopped", "healthy", is_managed=True)

    async def pid(self, session_id: SessionId) -> int | None:
        del session_id
        return None

    async def find_by_name(self, name: str) -> SessionId | None:
        heir = self.heirs.get(name)
        return SessionId(heir) if heir in self.alive else None

    async def stream_turn(
        self, provider: str, session_id: SessionId, key: str, epoch: int = 0
    ) -> AsyncIterator[TurnEvent]:
        del provider, session_id, epoch
        told = 0
        while True:
            self._stirred.clear()
            while told < len(self._said[key]):
                told += 1
                heard = self._said[key][told - 1]
                yield heard
                if isinstance(heard, Ended) and heard.is_final:
                    return
            await self._stirred.wait()

    def _deliver(self, session_id: str, prompt: str, key: str) -> ActionReply:
        self.delivered.append((session_id, prompt, key))
        self.say(key, *self.reply(prompt))
        scripted = self.outcomes.pop(prompt, None)
        self._by_key[key] = scripted or ActionReply(RECOVERED, "its turn began", session_id)
        return self._by_key[key]

    def _act(self, name: str, session_id: str) -> ActionReply:
        self._raise(name)
        self.acts.append((name, session_id))
        return self.outcomes.get(name, ActionReply(RECOVERED, f"{name} done", session_id))

    def _raise(self, name: str) -> None:
        if self.problems[name]:
            raise self.problems[name].pop(0)


def held_up(sessions: ScriptedSessions, act: str) -> asyncio.Event:
    """Let this action of the daemon finish only once the event is set."""
    done, free = getattr(sessions, act), asyncio.Event()

    async def slowly(*given: Any, **named: Any) -> Any:
        await free.wait()
        return await done(*given, **named)

    setattr(sessions, act, slowly)
    return free


class FakeAnswers:
    """Implements Answers in memory: messages by number, each with every text it had."""

    def __init__(self) -> None:
        self.messages: dict[int, list[str]] = {}
        self.places: dict[int, Place] = {}
        self.grown: list[str] = []
        # The current buttons of every message.
        self.buttons: dict[int, Buttons] = {}
        self.refusing: Exception | None = None

    def answer_for(
        self, place: Place, keep: SavePart, parts: Mapping[int, int] | None = None
    ) -> "FakeAnswer":
        return FakeAnswer(self, place, keep, dict(parts or {}))

    @property
    def shown(self) -> list[str]:
        """The final text of every message."""
        return [texts[-1] for texts in self.messages.values()]

    def answers(self) -> list[str]:
        """Without leftover placeholders and without questions."""
        return [text for text in self.shown if text != "…" and not text.startswith("May the agent")]

    def questions(self) -> list[str]:
        return [text for text in self.shown if text.startswith("May the agent")]

    def asked(self) -> list[Buttons]:
        """The buttons that can be pressed."""
        return [buttons for buttons in self.buttons.values() if buttons]


class FakeAnswer:
    def __init__(self, slate: FakeAnswers, place: Place, keep: SavePart, parts: dict[int, int]) -> None:
        self._slate = slate
        self._place = place
        self._keep = keep
        self._parts = parts

    async def send_placeholder(self, reply_to: int | None = None) -> int:
        del reply_to
        if self._slate.refusing is not None:
            raise self._slate.refusing
        if 0 not in self._parts:
            number = len(self._slate.messages) + 1
            self._slate.messages[number] = ["…"]
            self._slate.places[number] = self._place
            await self._keep(0, number)
            self._parts[0] = number
        return self._parts[0]

    def grow(self, text: str) -> None:
        self._slate.grown.append(text)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        yield

    async def finish(self, text: str, buttons: Buttons = ()) -> None:
        number = await self.send_placeholder()
        self._slate.messages[number].append(text)
        self._slate.buttons[number] = buttons


class FakeFinish:
    """Implements Finish and Witness: requests nothing of the gateway, and records every end."""

    def __init__(self) -> None:
        self.ends: list[tuple[Turn, Fault | None]] = []
        self.carried_out: list[str] = []

    async def carry_out(self, turn: Turn) -> tuple[str, Buttons]:
        self.carried_out.append(turn.text)
        return turn.text, ()

    async def on_turn_end(self, turn: Turn, fault: Fault | None, seconds: float) -> None:
        del seconds
        self.ends.append((turn, fault))


class FakeAuthGate:
    """Implements AuthGate. A provider in `locked` is refused."""

    def __init__(self) -> None:
        self.locked: dict[str, str] = {}
        self.told: list[tuple[str, str]] = []

    def refusal(self, provider: str) -> str | None:
        return self.locked.get(provider)

    async def on_login_failed(self, provider: str) -> None:
        self.told.append(("failed", provider))
        self.locked[provider] = "The agent is not logged in at the moment."

    async def on_login_suspected(self, provider: str) -> None:
        self.told.append(("suspected", provider))

    async def on_login_succeeded(self, provider: str) -> None:
        self.told.append(("succeeded", provider))


class ScriptedChat:
    """Implements the parts of gateway.ports.Chat that turns and the intake use."""

    def __init__(self) -> None:
        self.waiting: list[Update] = []
        self.asked_after: list[int] = []
        self.sent: list[tuple[Place, str, Buttons]] = []
        self.edits: list[tuple[int, str]] = []
        self.settled: list[tuple[str, str]] = []
        self.problems: dict[str, list[Exception]] = defaultdict(list)
        self.arrived = asyncio.Event()

    def write(self, *updates: Update) -> None:
        self.waiting.extend(updates)
        self.arrived.set()

    def be_quiet(self) -> None:
        """Answer the waiting poll: there are no updates."""
        self.arrived.set()

    async def me(self) -> str:
        return "bot"

    async def updates(self, after: int, wait_seconds: float) -> Sequence[Update]:
        del wait_seconds
        self._raise("updates")
        self.asked_after.append(after)
        self.waiting = [each for each in self.waiting if each.update_id > after]
        if not self.waiting:
            self.arrived.clear()
            await self.arrived.wait()
            self._raise("updates")
        return list(self.waiting)

    async def send(
        self, place: Place, text: str, *, buttons: Buttons = (), reply_to: int | None = None
    ) -> int:
        del reply_to
        self._raise("send")
        self.sent.append((place, text, buttons))
        return len(self.sent)

    async def edit(self, place: Place, message_id: int, text: str, *, buttons: Buttons = ()) -> None:
        del place, buttons
        self.edits.append((message_id, text))

    async def draft(self, place: Place, draft_id: int, text: str) -> None: ...

    async def typing(self, place: Place) -> None: ...

    async def send_file(
        self, place: Place, path: Path, caption: str = "", *, within: Path | None = None
    ) -> int:
        del place, path, caption, within
        raise AssertionError("no turn sends files by itself")

    async def send_as_file(self, place: Place, name: str, text: str) -> int:
        del place, name, text
        raise AssertionError("no turn sends files by itself")

    async def answer_press(self, press_id: str, words: str = "") -> None:
        self.settled.append((press_id, words))

    async def call(self, method: str, parameters: Mapping[str, Any]) -> Any:
        del method, parameters
        raise AssertionError("no turn calls anything else")

    async def close(self) -> None: ...

    def _raise(self, name: str) -> None:
        if self.problems[name]:
            raise self.problems[name].pop(0)


def message(update_id: int, text: str = "hello", chat_id: int = 7, **fields: Any) -> IncomingMessage:
    place = Place(chat_id, fields.pop("thread_id", None), is_private=chat_id > 0)
    return IncomingMessage(update_id, place, 1000 + update_id, fields.pop("user_id", 42), 0.0, text, **fields)


def press(update_id: int, choice: str, chat_id: int = 7, user_id: int = 42) -> ButtonPress:
    return ButtonPress(
        update_id, Place(chat_id, is_private=True), 1, user_id, 0.0, f"press-{update_id}", choice
    )
