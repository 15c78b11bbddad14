"""Chat commands, and the buttons by which admins confirm decisions.

Every allowed user can stop a turn and begin a new conversation. Commands that show the host or decide
something are for admins, and each decision is confirmed first and carried out once. A button carries an
opaque token and lives in memory for ten minutes at most: after a restart the command must be given again. The
replies name the places to look in one order (READING_ORDER).
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from wakeful.client.api import DaemonApi, OpenCheckpoint
from wakeful.control.login import LOGIN_COMMANDS, AuthMode
from wakeful.core.clock import Clock, iso
from wakeful.core.durations import parse_duration
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.gateway.ports import Chat, ChatFailed
from wakeful.gateway.rules.access import PRESS_REFUSAL_TEXTS, TOKEN_BYTES, Bound, Role, new_token, refused
from wakeful.gateway.rules.breaker import BreakerState
from wakeful.gateway.rules.messages import (
    Button,
    ButtonPress,
    Buttons,
    ConversationKey,
    IncomingMessage,
    Place,
)
from wakeful.gateway.turn_queue import TurnQueue
from wakeful.reports.text import chat_text

PREFIX: Final = "do"
# Long enough to think it over, short enough to prevent an accidental press tomorrow.
OFFER_SECONDS: Final = 600.0
OFFERS_MAX: Final = 500
LEFT_UNCHANGED: Final = "No change."

log = logging.getLogger("wakeful.gateway")

RoleOf = Callable[[int], Role]
Do = Callable[[str], Awaitable[str]]
"""Carries out a decision of this person; returns the result as text."""


class DecisionOption(Struct, frozen=True):
    """One way to decide: the button, the question that confirms it, and the act."""

    label: str
    asks: str
    do: Do


class _Offer(Struct, frozen=True):
    bound: Bound
    choice: DecisionOption
    # None: the button of a choice. Else the button that confirms it, or does not.
    confirmed: bool | None = None


class Decisions:
    """`offer` choices or `confirm` one, and pass presses to `on_press`."""

    def __init__(
        self,
        chat: Chat,
        clock: Clock,
        role_of: RoleOf,
        new: Callable[[], str] = lambda: new_token(secrets.token_bytes(TOKEN_BYTES)),
    ) -> None:
        self._chat = chat
        self._clock = clock
        self._role_of = role_of
        self._new_token = new
        # The oldest first: of many the oldest are forgotten.
        self._offers: dict[str, _Offer] = {}

    async def offer(self, place: Place, text: str, choices: Sequence[DecisionOption]) -> None:
        """Show the text with a button for each choice. Raises ChatFailed."""
        row = tuple(self._button(place.key, each.label, each) for each in choices)
        await self._chat.send(place, text, buttons=(row,))

    async def confirm(self, place: Place, choice: DecisionOption) -> None:
        """Ask to confirm a choice that a command made. Raises ChatFailed."""
        await self._chat.send(place, choice.asks, buttons=self._yes_or_no(place.key, choice))

    async def on_press(self, press: ButtonPress) -> bool:
        """Handle a press; False if the button belongs to another part."""
        prefix, _, token = press.choice.partition(":")
        if prefix != PREFIX:
            return False
        offer = self._offers.get(token)
        bound = offer.bound if offer is not None else None
        role = self._role_of(press.user_id)
        reason = refused(bound, press.place.key, role, self._clock.now().awake)
        try:
            if reason is not None or offer is None:
                words = PRESS_REFUSAL_TEXTS[reason] if reason is not None else ""
                await self._chat.answer_press(press.press_id, words)
            else:
                await self._chat.answer_press(press.press_id)
                await self._advance(press, offer)
        except ChatFailed as problem:
            log.warning("unverified in %s: %s", press.place.key, problem)
        return True

    async def _advance(self, press: ButtonPress, offer: _Offer) -> None:
        place, choice = press.place, offer.choice
        if offer.confirmed is None:
            buttons = self._yes_or_no(place.key, choice)
            await self._chat.edit(place, press.message_id, choice.asks, buttons=buttons)
            return
        # It is decided, either way: no button of this choice counts from now on.
        self._offers = {token: each for token, each in self._offers.items() if each.choice is not choice}
        words = await self._execute(press, choice) if offer.confirmed else LEFT_UNCHANGED
        await self._chat.edit(place, press.message_id, f"{choice.asks}\n{words}")

    async def _execute(self, press: ButtonPress, choice: DecisionOption) -> str:
        by = f"Telegram user {press.user_id}"
        try:
            words = await choice.do(by)
        except WakefulError as problem:
            log.warning("%s for %s failed: %s", choice.label, by, problem)
            return f"Not done: {problem}"
        log.warning("%s by %s: %s", choice.label, by, words)
        return words

    def _yes_or_no(self, key: ConversationKey, choice: DecisionOption) -> Buttons:
        yes = self._button(key, f"Yes, {choice.label.lower()}", choice, confirmed=True)
        no = self._button(key, "No", choice, confirmed=False)
        return ((yes, no),)

    def _button(
        self, key: ConversationKey, label: str, choice: DecisionOption, *, confirmed: bool | None = None
    ) -> Button:
        token = self._new_token()
        until = self._clock.now().awake + OFFER_SECONDS
        self._offers[token] = _Offer(Bound(key, Role.ADMIN, choice.label, until), choice, confirmed)
        while len(self._offers) > OFFERS_MAX:
            del self._offers[next(iter(self._offers))]
        return Button(label, f"{PREFIX}:{token}")


FOR_ADMINS: Final = "Only admins can do this."
HELP: Final = """Write a message, and the agent of this chat answers.
/stop ends the running turn; /new starts a new conversation.
again, shorter, deeper: the last answer in another way.
For admins: /stop all, /health, /errors patterns, /session, /report 22:00, /checkpoints,
/pause, /resume, /mute ID 2h."""
# The order of docs/specs/gateway.md.
READING_ORDER: Final = "If something looks wrong, check: /health, /errors patterns, the breaker in /session, {log}, the last message in /session"
# A night.
REPORT_SINCE: Final = "12h"
CHECKPOINTS_SHOWN_MAX: Final = 5
LINES_SHOWN_MAX: Final = 8
ACTIONS_SHOWN_MAX: Final = 5
LINE_CHARS_MAX: Final = 200
_LABELS: Final = {
    "continue": "Continue",
    "rollback": "Roll back",
    "abort": "Abort",
    "done": "It has happened",
}

Command = Callable[[IncomingMessage, str], Awaitable[str]]


class Views(Struct, frozen=True):
    """Facts of other parts, read when a person asks for them."""

    # The state of a provider's breaker for this chat.
    breaker: Callable[[str, int], BreakerState]
    auth: Callable[[], Sequence[AuthMode]]
    # The host in one line, as the last watch found it; empty before the first.
    host: Callable[[], str]
    # Pattern, how often in ten minutes, how many seconds ago last.
    patterns: Callable[[], Sequence[tuple[str, int, float]]]
    # What self-heal did lately, newest last.
    acts: Callable[[], Sequence[str]]
    # The last redacted lines of a session's error stream.
    last_words: Callable[[SessionId], str]
    provider_of: Callable[[ConversationKey], str]
    # Why no updates arrive from the chat; None while they do.
    problem: Callable[[], str | None]
    # Where the gateway's log is.
    log: str


class ChatCommands:
    """The table of commands, by name without the slash."""

    def __init__(
        self,
        *,
        clock: Clock,
        role_of: RoleOf,
        turns: TurnQueue,
        daemon: DaemonApi,
        decisions: Decisions,
        views: Views,
    ) -> None:
        self._clock = clock
        self._role_of = role_of
        self._turns = turns
        self._daemon = daemon
        self._decisions = decisions
        self._views = views

    def commands(self) -> Mapping[str, Command]:
        return {
            "help": self._help,
            "start": self._help,
            "stop": self._stop,
            "new": self._new,
            **{
                name: self._admins_only(command)
                for name, command in (
                    ("health", self._health),
                    ("errors", self._errors),
                    ("session", self._session),
                    ("report", self._report),
                    ("checkpoints", self._checkpoints),
                    ("pause", self._pause),
                    ("resume", self._resume),
                    ("mute", self._mute),
                )
            },
        }

    def _admins_only(self, command: Command) -> Command:
        async def guarded(message: IncomingMessage, arguments: str) -> str:
            if self._role_of(message.user_id) is not Role.ADMIN:
                return FOR_ADMINS
            try:
                return await command(message, arguments)
            except WakefulError as problem:
                return f"Not done: {problem}"

        return guarded

    async def _help(self, _message: IncomingMessage, _arguments: str) -> str:
        return HELP

    async def _stop(self, message: IncomingMessage, arguments: str) -> str:
        if arguments.lower() == "all":
            return await self._admins_only(self._stop_all)(message, arguments)
        return await self._turns.stop(message.place.key)

    async def _stop_all(self, message: IncomingMessage, _arguments: str) -> str:
        async def stop_all(_by: str) -> str:
            ended, starting = await self._turns.stop_all()
            words = f"{ended} session{'' if ended == 1 else 's'} ended"
            if starting:
                words += f", {starting} that {'is' if starting == 1 else 'are'} starting will end right after"
            return f"{words}. Each resumes with its next message."

        asks = "End the sessions of all chats, with running turns and waiting messages?"
        await self._decisions.confirm(message.place, DecisionOption("Stop all", asks, stop_all))
        return ""

    async def _new(self, message: IncomingMessage, _arguments: str) -> str:
        return await self._turns.start_new_conversation(message.place.key)

    async def _health(self, _message: IncomingMessage, _arguments: str) -> str:
        pool = self._turns.pool
        busy = sum(map(pool.is_busy, pool.keys()))
        problem, host = self._views.problem(), self._views.host()
        lines = [
            f"Mode: {await self._mode()}",
            f"Telegram: {'updates arrive' if problem is None else f'no updates arrive ({problem})'}",
            *([f"Host: {host}"] if host else []),
            *(f"Login: {mode.provider} {mode.state}" for mode in self._views.auth()),
            f"Sessions: {pool.active} of {pool.limits.active_max}, {busy} busy",
            f"Next: {self._next_step()}",
            READING_ORDER.format(log=self._views.log),
        ]
        return "\n".join(lines)

    async def _mode(self) -> str:
        try:
            summary = await self._daemon.summary()
        except WakefulError as problem:
            return f"the daemon does not answer: {problem}"
        paused = f" · PAUSED by {plain(summary.paused)}" if summary.paused is not None else ""
        return f"{summary.mode}{paused}"

    def _next_step(self) -> str:
        for mode in self._views.auth():
            if mode.is_degraded:
                return (
                    f"on the host: {LOGIN_COMMANDS.get(mode.provider, f'log {mode.provider} in')}; "
                    "the provider then works again by itself"
                )
        if self._views.patterns():
            return "/errors patterns"
        return "nothing to do"

    async def _errors(self, _message: IncomingMessage, _arguments: str) -> str:
        found = self._views.patterns()
        if not found:
            return "No failures in the last 10 minutes."
        now = self._clock.now().wall
        rows = [
            f"{pattern}: {count}, last {iso(now - seconds_ago)[11:19]} UTC"
            for pattern, count, seconds_ago in found
        ]
        return "\n".join(["Failures in the last 10 minutes:", *rows, "Next: /session"])

    async def _session(self, message: IncomingMessage, _arguments: str) -> str:
        key = message.place.key
        pool = self._turns.pool
        session_id = self._turns.session_of(key)
        provider = self._views.provider_of(key)
        last_words = self._views.last_words(SessionId(session_id)) if session_id else ""
        acts = [_line(each) for each in self._views.acts()[-ACTIONS_SHOWN_MAX:]]
        lines = [
            f"Key: {key}",
            f"Provider: {provider}, breaker {self._views.breaker(provider, message.place.chat_id)}",
            f"Session: {session_id or 'none now'}",
            f"Queue: {pool.waiting(key)} waiting, {'busy' if pool.is_busy(key) else 'idle'}",
            f"Last message: {_line(last_words) or 'none'}",
            f"Self-heal: {'; '.join(acts) or 'no recent action'}",
            f"Next: {self._views.log}",
        ]
        return "\n".join(lines)

    async def _report(self, _message: IncomingMessage, arguments: str) -> str:
        return redact(chat_text(await self._daemon.report(arguments or REPORT_SINCE)))

    async def _checkpoints(self, message: IncomingMessage, _arguments: str) -> str:
        found = await self._daemon.checkpoints()
        for checkpoint in found[:CHECKPOINTS_SHOWN_MAX]:
            await self._show_checkpoint(message.place, checkpoint)
        rest = len(found) - CHECKPOINTS_SHOWN_MAX
        if rest > 0:
            return f"{rest} more: `wakeful checkpoint list` on the host."
        return "" if found else "No decision needed."

    async def _show_checkpoint(self, place: Place, checkpoint: OpenCheckpoint) -> None:
        lines = [f"Checkpoint {checkpoint.number}: {_line(checkpoint.subject)}"]
        lines += [_line(each) for each in checkpoint.lines[:LINES_SHOWN_MAX]]
        choices = [
            DecisionOption(
                _LABELS[name],
                f"{_LABELS[name]} checkpoint {checkpoint.number}? {_line(leads_to)}",
                self._decision_action(checkpoint.number, name),
            )
            for name, leads_to in checkpoint.choices
            if name in _LABELS
        ]
        await self._decisions.offer(place, "\n".join(lines), choices)

    def _decision_action(self, number: int, choice: str) -> Callable[[str], Awaitable[str]]:
        return lambda by: self._daemon.decide(number, choice, by)

    async def _pause(self, message: IncomingMessage, _arguments: str) -> str:
        async def pause(by: str) -> str:
            await self._daemon.pause(by)
            return "Paused: Wakeful takes no action by itself. /resume ends the pause."

        asks = "Stop all automatic actions of Wakeful?"
        await self._decisions.confirm(message.place, DecisionOption("Pause", asks, pause))
        return ""

    async def _resume(self, message: IncomingMessage, _arguments: str) -> str:
        async def resume(by: str) -> str:
            await self._daemon.resume(by)
            return "Resumed: Wakeful acts by itself again."

        choice = DecisionOption("Resume", "End the pause?", resume)
        await self._decisions.confirm(message.place, choice)
        return ""

    async def _mute(self, message: IncomingMessage, arguments: str) -> str:
        words = arguments.split()
        session = words[0] if words else self._turns.session_of(message.place.key)
        if not session:
            return "Which session, and for how long? /mute ID 2h"
        session_id = parse_session_id(session)
        seconds = parse_duration(words[1] if len(words) > 1 else "2h")

        async def mute(by: str) -> str:
            await self._daemon.mute(session_id, seconds, by)
            return f"Muted for {seconds / 3600:g} h."

        asks = f"Send no alerts about {session_id} for {seconds / 3600:g} h?"
        await self._decisions.confirm(message.place, DecisionOption("Mute", asks, mute))
        return ""


def _line(text: str) -> str:
    """Text from outside in one line."""
    return plain(redact(text), LINE_CHARS_MAX)
