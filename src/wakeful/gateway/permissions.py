"""Shows an agent's permission questions in the chat: allow once, allow for this session, or deny.

No answer in time denies. A button carries a name that the gateway generated, so a forged one has no effect.
The name is stored before the question is shown, so the button also works after a restart. A question is shown
in one message, which starts as a placeholder like those of an answer.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.client.api import SessionsApi
from wakeful.client.errors import DaemonAway, DaemonRefused
from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import PermissionAsked
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.gateway.ports import Chat, ChatRefused, try_answer_press
from wakeful.gateway.rules.access import (
    PRESS_REFUSAL_TEXTS,
    TOKEN_BYTES,
    PermissionChoice,
    PressRefusal,
    Role,
    new_token,
)
from wakeful.gateway.rules.messages import Button, ButtonPress, Buttons, Place
from wakeful.gateway.turn_context import AnswerFactory
from wakeful.gateway.turn_store import Conversations
from wakeful.storage.base import ActionOutcome, Note, Store
from wakeful.storage.note_decoding import decode_note_values

KIND: Final = "gateway.question"
PREFIX: Final = "ask"
NOT_DONE: Final = "Your answer did not arrive. Please press again in a moment."
# A denial that did not arrive is sent again after this.
RETRY_SECONDS: Final = 5.0
TOOL_CHARS_MAX: Final = 100

log = logging.getLogger("wakeful.gateway")


CHOICE_TEXTS: Final = {
    PermissionChoice.ALLOW_ONCE: "Allowed once.",
    PermissionChoice.ALLOW_SESSION: "Allowed for this session: exactly this call.",
    PermissionChoice.DENY: "Denied.",
}
# The text says what "for this session" covers before a person presses it. An agent may have changed its folder by
# then.
SESSION_SCOPE_TEXT: Final = "“For this session” allows exactly this call, word for word, in any folder the agent works in then. It allows no other call."
EXPIRED: Final = "No answer in time: denied."
NOT_ASKED: Final = "This question is closed."


class _ReplyResult(Enum):
    DELIVERED = "delivered"
    # The question is not open any more, or its agent is gone.
    NOT_ASKED = "not asked"
    # The agent did not take it.
    NOT_DELIVERED = "not delivered"


# An unconfirmed answer counts as delivered: the events of its turn show what followed.
_REPLY_RESULTS: Final = {
    ActionOutcome.DECLINED: _ReplyResult.NOT_ASKED,
    ActionOutcome.INEFFECTIVE: _ReplyResult.NOT_DELIVERED,
}


class ChatQuestion(Struct, frozen=True, kw_only=True):
    """A question of a running turn, and the message that shows it. `said`: how it was answered, if it was."""

    name: str
    question_id: str
    session_id: str
    place: Place
    shown: str
    until: float
    # The digest of the whole call; if it is empty, the call can be allowed once only.
    call: str = ""
    # The author of the prompt; 0: stored by an earlier version.
    user_id: int = 0
    said: str = ""
    parts: dict[int, int] = {}


_decode: Final = json_decoder(ChatQuestion)


class ChatQuestions:
    """The questions of the running turns, each also a note in the store.

    An answered question stays until its turn is over: a listener that starts again gets the event once more.
    """

    def __init__(
        self,
        *,
        chat: Chat,
        answers: AnswerFactory,
        sessions: SessionsApi,
        store: Store,
        clock: Clock,
        conversations: Conversations,
        role_of: Callable[[int], Role],
        seconds_max: float,
    ) -> None:
        self._chat = chat
        self._answers = answers
        self._sessions = sessions
        self._store = store
        self._clock = clock
        self._conversations = conversations
        self._role_of = role_of
        self._seconds_max = seconds_max
        self._questions: dict[str, ChatQuestion] = {}
        # Each has its own expiry and its own display task: a chat that is down delays no other.
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._show_tasks: dict[str, asyncio.Task[None]] = {}
        # Questions being answered, and the answers: the event that a question was answered may come before the reply.
        self._pending_answers: dict[str, str] = {}

    async def restore(self) -> None:
        """Load the questions of an earlier gateway; the events of its turn say whether each is still open."""
        for question in decode_note_values(await self._store.notes(KIND), _decode):
            if question.said:
                self._questions[question.name] = question
                self._show(question, question.said)
            else:
                self._wait_for(question)

    def is_open(self, session_id: str) -> bool:
        """Whether this session waits for a person."""
        return any(each.session_id == session_id and not each.said for each in self._questions.values())

    async def ask(self, place: Place, session_id: str, asked: PermissionAsked, user_id: int) -> None:
        """Show the question, unless it was shown before or a person allowed this exact call for the session.

        `user_id`: the author of the prompt; the author and the admins may answer.
        """
        if self._find(session_id, asked.question_id) is not None:
            return
        if self._is_allowed(place, asked.call) and await self._answer_allowed(session_id, asked.question_id):
            return
        question = ChatQuestion(
            name=new_token(secrets.token_bytes(TOKEN_BYTES)),
            question_id=asked.question_id,
            session_id=session_id,
            place=place,
            shown=_question_text(asked),
            call=asked.call,
            user_id=user_id,
            until=self._clock.now().wall + self._seconds_max,
        )
        await self._save(question)
        fault_point("question.kept")
        self._wait_for(question)

    async def on_press(self, press: ButtonPress) -> bool:
        """Answer a question; False if the button belongs to another part."""
        prefix, _, rest = press.choice.partition(":")
        name, _, choice = rest.partition(":")
        if prefix != PREFIX:
            return False
        question = self._questions.get(name)
        is_admin = self._role_of(press.user_id) is Role.ADMIN
        if (refusal := _refusal(question, press, choice, is_admin=is_admin)) is not None:
            await try_answer_press(self._chat, press.press_id, PRESS_REFUSAL_TEXTS[refusal])
            return True
        assert question is not None, "one that is unknown is refused"
        words = await self._decide(question, PermissionChoice(choice))
        await try_answer_press(self._chat, press.press_id, words)
        return True

    async def on_answered(self, session_id: str, question_id: str) -> None:
        """Close a question that was answered elsewhere. One that is being answered here is closed by its answer."""
        question = self._find(session_id, question_id)
        if question is not None and question.name not in self._pending_answers:
            await self._close(question, "Answered elsewhere.")

    async def on_turn_end(self, session_id: str) -> None:
        """Close and drop the questions of a turn that ended."""
        for question in [each for each in self._questions.values() if each.session_id == session_id]:
            await self._close(question, self._pending_answers.get(question.name, "The turn has ended."))
            del self._questions[question.name]
            await self._store.drop_note(KIND, question.name)

    def close(self) -> None:
        """Cancel the waiting tasks; the next gateway restores the questions."""
        for task in (*self._timers.values(), *self._show_tasks.values()):
            task.cancel()
        self._timers.clear()
        self._show_tasks.clear()

    def _wait_for(self, question: ChatQuestion) -> None:
        self._questions[question.name] = question
        self._timers[question.name] = asyncio.create_task(self._expire(question))
        self._show(question, question.shown, _buttons(question))

    def _show(self, question: ChatQuestion, words: str, buttons: Buttons = ()) -> None:
        """Show this text in its message, instead of an earlier one."""
        before = self._show_tasks.get(question.name)
        if before is not None:
            before.cancel()
        task = asyncio.create_task(self._show_message(question, words, buttons, before))
        self._show_tasks[question.name] = task
        task.add_done_callback(lambda done: self._on_shown(question.name, done))

    async def _show_message(
        self, question: ChatQuestion, words: str, buttons: Buttons, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait({before})

        async def save_part(number: int, message_id: int) -> None:
            fault_point("question.sent")
            question.parts[number] = message_id
            if question.name in self._questions:
                await self._save(self._questions[question.name])

        if question.said and not question.parts:
            return
        try:
            await self._answers.answer_for(question.place, save_part, question.parts).finish(words, buttons)
        except ChatRefused as refused:
            log.warning("a question from %s is not shown: %s", question.session_id, refused)

    def _on_shown(self, name: str, done: asyncio.Task[None]) -> None:
        if self._show_tasks.get(name) is done:
            del self._show_tasks[name]

    async def _decide(self, question: ChatQuestion, choice: PermissionChoice) -> str:
        """Give the answer; returns the text for the person who pressed."""
        reply = PermissionReply.DENY if choice is PermissionChoice.DENY else PermissionReply.ALLOW
        try:
            result = await self._answer(question, reply, CHOICE_TEXTS[choice])
        except DaemonAway as problem:
            log.warning("a question from %s could not be answered: %s", question.session_id, problem)
            result = _ReplyResult.NOT_DELIVERED
        if result is _ReplyResult.DELIVERED and choice is PermissionChoice.ALLOW_SESSION:
            # Only now: an answer that did not arrive allows nothing.
            await self._conversations.allow(question.place.key, question.session_id, question.call)
        return {
            _ReplyResult.DELIVERED: CHOICE_TEXTS[choice],
            _ReplyResult.NOT_ASKED: NOT_ASKED,
            _ReplyResult.NOT_DELIVERED: NOT_DONE,
        }[result]

    async def _answer(self, question: ChatQuestion, reply: PermissionReply, words: str) -> _ReplyResult:
        """Answer it, and show the result in its message. Raises DaemonAway."""
        self._pending_answers[question.name] = words
        try:
            result = await self._reply(question.session_id, question.question_id, reply)
        finally:
            self._pending_answers.pop(question.name, None)
        if result is _ReplyResult.DELIVERED:
            await self._close(question, words)
        elif result is _ReplyResult.NOT_ASKED:
            await self._close(question, NOT_ASKED)
        return result

    def _is_allowed(self, place: Place, call: str) -> bool:
        conversation = self._conversations.get(place.key)
        return conversation is not None and bool(call) and call in conversation.allowed

    async def _answer_allowed(self, session_id: str, question_id: str) -> bool:
        """Allow a call that was allowed before. False: the agent did not get that, so a person is asked."""
        try:
            result = await self._reply(session_id, question_id, PermissionReply.ALLOW)
        except DaemonAway as problem:
            log.warning("a question from %s is asked again: %s", session_id, problem)
            return False
        return result is not _ReplyResult.NOT_DELIVERED

    async def _reply(self, session_id: str, question_id: str, reply: PermissionReply) -> _ReplyResult:
        """Whether the agent got this answer. Raises DaemonAway."""
        try:
            answered = await self._sessions.answer(SessionId(session_id), question_id, reply)
        except DaemonRefused as problem:
            log.warning("a question from %s could not be answered: %s", session_id, problem)
            return _ReplyResult.NOT_ASKED
        log.info("a question from %s was answered: %s (%s)", session_id, reply, answered.words)
        return _REPLY_RESULTS.get(answered.outcome, _ReplyResult.DELIVERED)

    async def _close(self, question: ChatQuestion, words: str) -> None:
        known = self._questions.get(question.name)
        if known is None or known.said:
            return
        closed = replace(question, said=f"{question.shown}\n\n{words}")
        self._questions[question.name] = closed
        timer = self._timers.pop(question.name, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()
        await self._save(closed)
        self._show(closed, closed.said)

    def _find(self, session_id: str, question_id: str) -> ChatQuestion | None:
        return next(
            (
                each
                for each in self._questions.values()
                if (each.session_id, each.question_id) == (session_id, question_id)
            ),
            None,
        )

    async def _expire(self, question: ChatQuestion) -> None:
        await self._clock.sleep(question.until - self._clock.now().wall)
        while not await self._deny(question.name):
            await self._clock.sleep(RETRY_SECONDS)

    async def _deny(self, name: str) -> bool:
        """Deny an expired question. False: the denial did not arrive."""
        question = self._questions.get(name)
        if question is None or question.said:
            return True
        try:
            # Until the denial arrives the agent waits, and the buttons work.
            result = await self._answer(question, PermissionReply.DENY, EXPIRED)
        except DaemonAway as problem:
            log.info("a question from %s will be denied later: %s", question.session_id, problem)
            return False
        return result is not _ReplyResult.NOT_DELIVERED

    async def _save(self, question: ChatQuestion) -> None:
        await self._store.save_note(Note(KIND, question.name, msgspec.json.encode(question)))


def _refusal(
    question: ChatQuestion | None, press: ButtonPress, choice: str, *, is_admin: bool
) -> PressRefusal | None:
    if question is None or choice not in _choices(question):
        return PressRefusal.FORGED
    if question.place.key != press.place.key:
        return PressRefusal.ELSEWHERE
    if not is_admin and press.user_id != question.user_id:
        return PressRefusal.NOT_ASKER
    return PressRefusal.LATE if question.said else None


def _question_text(asked: PermissionAsked) -> str:
    words = f"May the agent use {plain(asked.tool, TOOL_CHARS_MAX)}?\n\n{asked.untrusted}"
    return f"{words}\n\n{SESSION_SCOPE_TEXT}" if asked.call else words


def _choices(question: ChatQuestion) -> tuple[PermissionChoice, ...]:
    """A call that cannot be told apart from others can be allowed only once."""
    return tuple(
        each for each in PermissionChoice if question.call or each is not PermissionChoice.ALLOW_SESSION
    )


def _buttons(question: ChatQuestion) -> Buttons:
    return tuple((Button(each.label, f"{PREFIX}:{question.name}:{each}"),) for each in _choices(question))
