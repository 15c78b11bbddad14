"""Builds the chat gateway from its parts: the chat, the daemon's sessions and the rules between them."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from wakeful.alerts.failed_parts import Failures
from wakeful.alerts.mute_pause import Calm
from wakeful.client.api import DaemonCutOff, DaemonNotRunning, DaemonSilent
from wakeful.client.async_client import DaemonHouse, DaemonSessions, Door
from wakeful.config.alert_channels import open_channels
from wakeful.config.paths import Places
from wakeful.config.schema import Config
from wakeful.control.login import Login
from wakeful.control.provider import OneShot
from wakeful.core.errors import WorldError
from wakeful.gateway.answer import Answers
from wakeful.gateway.commands import Decisions, Orders, Views
from wakeful.gateway.finish import Finishing, Rights, Witnesses
from wakeful.gateway.follow_ups import FollowUpRules, FollowUps
from wakeful.gateway.host import GatewayHost, HostFigures
from wakeful.gateway.host_monitor import AdminVoice, HostWatch, SelfHeal
from wakeful.gateway.intake import Intake
from wakeful.gateway.people import People
from wakeful.gateway.permissions import Questions
from wakeful.gateway.prompt_delivery import Asking
from wakeful.gateway.provider_guard import AuthWatch, Guard
from wakeful.gateway.rules.access import Access, Role, stranger_line
from wakeful.gateway.rules.breaker import Thresholds
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.follow_ups import PROMPTS, cue_of
from wakeful.gateway.rules.host import HealLimits, WatchLimits, in_words
from wakeful.gateway.rules.messages import Incoming, with_context
from wakeful.gateway.rules.pool import Pool, PoolLimits
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.telegram import TelegramChat
from wakeful.gateway.turn_context import Limits
from wakeful.gateway.turn_listener import Judging
from wakeful.gateway.turn_queue import Turns
from wakeful.gateway.turn_runner import Course
from wakeful.gateway.turn_store import Book, Conversations
from wakeful.gateway.withheld import Withheld
from wakeful.gateway.workspaces import Seats
from wakeful.integrations.driver_support import RunFolder
from wakeful.integrations.providers import every
from wakeful.linux.child_process import KeptChild
from wakeful.linux.clock import SystemClock
from wakeful.linux.files import TroubleFile
from wakeful.storage.base import Store

# A pairing that was taken back is noticed this late.
PEOPLE_SECONDS: Final = 60.0

log = logging.getLogger("wakeful.gateway")


class Gateway:
    """One gateway: everything it is made of, and what joins it."""

    def __init__(
        self,
        config: Config,
        places: Places,
        store: Store,
        bot: str,
        environ: Mapping[str, str],
        *,
        supervised: bool = False,
    ) -> None:
        self._config = config
        self._places = places
        self._environ = environ
        self._supervised = supervised
        self._seats = Seats(config, places, environ)
        self._channels = open_channels(config.alerts, environ)
        self._log = Path(places.logs) / "gateway.log"
        self._limits = Limits(turn=config.gateway.turn_seconds, question=config.gateway.question_seconds)
        self._door = Door(places.socket)
        clock = self._clock = SystemClock()
        self.failures = Failures(clock)
        self._trouble_file = TroubleFile(Path(places.gateway_trouble))
        # Why no updates arrive, if they do not.
        self._silence = ""
        self.chat = TelegramChat(config.gateway.token, config.gateway.api, clock)
        self._sessions = DaemonSessions(places.socket, Path(places.run))
        access = Access(frozenset(config.gateway.allow), frozenset(config.gateway.admins))
        self._people = People(store, self.chat, clock, access)
        self._book = Book(store, clock, bot)
        self._conversations = Conversations(store, clock)
        self._answers = Answers(self.chat, clock, edit_seconds=config.gateway.edit_seconds)
        admins = config.gateway.admins
        self._tell = AdminVoice(Calm(store, clock), self._channels, self.chat, admins).tell
        self.auth = AuthWatch(clock, self._logins(), self._tell, config.gateway_host.watch_seconds)
        self._guard = Guard(clock, self.auth, self._thresholds())
        self._follow_ups = self._new_follow_ups()
        self._finishing = Finishing(
            store=store,
            answers=self._answers,
            rights_of=self._rights_of,
            buttons=self._follow_ups.buttons,
            name_of=self._book.key_of,
        )
        self._questions = self._new_questions(store)
        self.turns = self._new_turns()
        self._host = self._new_host()
        self._heal = self._new_heal()
        self.host_watch = self._new_host_watch()
        self._decisions = Decisions(self.chat, clock, self._people.role_of)
        self.intake = self._new_intake()

    async def take_up(self) -> int:
        """Go on where an earlier gateway stopped; how many turns were open."""
        await self._people.take_up()
        return await self.turns.take_up()

    async def close(self) -> None:
        await self._follow_ups.close()
        await self.chat.close()
        await self._sessions.close()
        await self._door.close()
        for channel in self._channels:
            await channel.close()

    async def know_people(self) -> None:
        """Notice who was paired, and who is not any more."""
        while True:
            await self._clock.sleep_until(self._clock.now().awake + PEOPLE_SECONDS)
            try:
                await self._people.take_up()
            except WorldError as problem:
                log.warning("who was paired is not known: %s", problem)

    async def tell_failures(self) -> None:
        """Show in `status` and `doctor` which parts are down, and tell the admins of each once."""
        told: set[str] = set()
        while True:
            self.failures.changed.clear()
            self._show_trouble()
            for failure in self.failures.down:
                if failure.name not in told:
                    told.add(failure.name)
                    await self._tell("warning", f"gateway: {failure.line}")
            told &= {each.name for each in self.failures.down}
            await self.failures.changed.wait()

    def _tell_silence(self, words: str) -> None:
        self._silence = words
        self._show_trouble()

    def _show_trouble(self) -> None:
        words = (self._silence, *self.failures.lines)
        self._trouble_file.write("; ".join(each for each in words if each))

    async def daemon_beside(self, words: Sequence[str]) -> KeptChild | None:
        """The daemon this gateway has to keep itself, by this command; None where one answers, or is about to."""
        try:
            await self._door.get("/healthz", 5.0)
        except DaemonNotRunning:
            argv = (sys.executable, "-P", "-m", "wakeful", *words)
            return KeptChild("daemon", argv, Path(self._places.logs) / "up.log", self._environ)
        except (DaemonSilent, DaemonCutOff) as problem:
            log.warning("%s", problem)
        return None

    def greeting(self, name: str, open_turns: int, *, alone: bool) -> Iterator[str]:
        """Who it is, who is heard, and what its operator should know."""
        heard, admins = self._people.count, self._people.count_of(Role.ADMIN)
        provider = self._config.gateway.provider
        yield f"gateway: {name}, answered by {provider}; {heard} may write, {admins} of them as admins"
        if alone:
            yield "gateway: no daemon was running: one is kept beside it, on its socket only"
        if not heard:
            yield "gateway: nobody is allowed yet: gateway.allow, or `wakeful gateway pair`"
        for chat in self._seats.homeless():
            yield f"gateway: the folder of {chat.key} is not there, and nobody is answered: {chat.folder}"
        if open_turns:
            yield f"gateway: goes on with {open_turns} open turns"

    def _logins(self) -> tuple[Login, ...]:
        """Of the providers that somebody may get an answer from."""
        used = {self._config.gateway.provider, *(each.provider for each in self._config.gateway_chats)}
        return tuple(each.login(*self._asked_apart(each.name)) for each in every() if each.name in used)

    def _models(self) -> dict[str, OneShot]:
        return {each.name: each.one_shot(*self._asked_apart(each.name)) for each in every()}

    def _asked_apart(self, provider: str) -> tuple[tuple[str, ...], str, Mapping[str, str]]:
        """How a provider is asked outside of every conversation: its command, where, and with what."""
        argv = self._config.gateway_providers[provider].argv
        return argv, self._places.probe, self._seats.environ

    def _thresholds(self) -> dict[str, Thresholds]:
        return {
            name: Thresholds(each.failures_max, each.open_seconds, each.successes_needed)
            for name, each in self._config.gateway_providers.items()
        }

    def _new_follow_ups(self) -> FollowUps:
        actions = self._config.response_actions
        return FollowUps(
            chat=self.chat,
            answers=self._answers,
            clock=self._clock,
            models=self._models(),
            rules=FollowUpRules(
                actions.enabled,
                actions.decision_timeout_ms / 1000,
                actions.max_prompt_chars,
                actions.max_response_chars,
            ),
            queue=self._queue,
            turn_of=self._book.find,
            newest_of=self._book.newest_answer,
            context_of=self._context_of,
        )

    def _new_questions(self, store: Store) -> Questions:
        return Questions(
            chat=self.chat,
            answers=self._answers,
            sessions=self._sessions,
            store=store,
            clock=self._clock,
            conversations=self._conversations,
            role_of=self._people.role_of,
            seconds_max=self._limits.question,
        )

    def _new_asking(self) -> Asking:
        return Asking(
            sessions=self._sessions,
            clock=self._clock,
            book=self._book,
            conversations=self._conversations,
            seat_for=self._seats.seat,
            limits=self._limits,
        )

    def _new_course(self) -> Course:
        return Course(
            clock=self._clock,
            sessions=self._sessions,
            book=self._book,
            asking=self._new_asking(),
            questions=self._questions,
            guard=self._guard,
            judging=Judging(),
            answers=self._answers,
            finish=self._finishing,
            witness=Witnesses(self._finishing.ended, self._follow_ups.ended, self._count),
            seat_for=self._seats.seat,
            limits=self._limits,
        )

    def _new_turns(self) -> Turns:
        conversation = self._config.conversation
        limits = PoolLimits(conversation.max_active_sessions, conversation.idle_ttl_minutes * 60)
        return Turns(
            clock=self._clock,
            pool=Pool[Turn](limits),
            book=self._book,
            conversations=self._conversations,
            questions=self._questions,
            course=self._new_course(),
            sessions=self._sessions,
        )

    def _new_host(self) -> GatewayHost:
        host = self._config.gateway_host
        figures = HostFigures(self._places.home, pm2=host.pm2, docker=host.docker, environ=self._environ)
        return GatewayHost(self._clock, figures, temporary=Path(self._places.probe), log=self._log)

    def _new_heal(self) -> SelfHeal:
        host = self._config.gateway_host
        return SelfHeal(
            clock=self._clock,
            host=self._host,
            pool=self.turns,
            degrade=self.auth.suspected,
            tell=self._tell,
            limits=HealLimits(
                host.memory_percent, host.disk_percent, host.runaway_cpu_percent, host.runaway_memory_percent
            ),
        )

    def _new_host_watch(self) -> HostWatch:
        host = self._config.gateway_host
        return HostWatch(
            clock=self._clock,
            host=self._host,
            chat=self.chat,
            heal=self._heal,
            tell=self._tell,
            limits=WatchLimits(
                host.disk_percent, host.memory_percent, host.load_per_core, host.error_spike_factor
            ),
            watch_seconds=host.watch_seconds,
        )

    def _new_intake(self) -> Intake:
        orders = Orders(
            clock=self._clock,
            role_of=self._people.role_of,
            turns=self.turns,
            house=DaemonHouse(self._door),
            decisions=self._decisions,
            views=self._views(),
        )
        return Intake(
            chat=self.chat,
            clock=self._clock,
            book=self._book,
            turns=self.turns,
            hears=self._people.hears,
            prompt_of=self._prompt_of,
            commands=orders.commands(),
            presses=(
                self._questions.pressed,
                self._decisions.pressed,
                self._follow_ups.pressed,
                self._new_withheld().pressed,
            ),
            introduced=self._people.introduced,
            own_name=lambda: self.chat.name,
            stranger_words=lambda user_id: stranger_line(user_id, frozenset(self._config.gateway.allow)),
            tell=self._tell_silence,
        )

    def _new_withheld(self) -> Withheld:
        return Withheld(chat=self.chat, answers=self._answers, book=self._book, role_of=self._people.role_of)

    def _views(self) -> Views:
        return Views(
            breaker=self._guard.breaker,
            auth=lambda: [self.auth.mode(each) for each in self.auth.providers],
            host=lambda: in_words(self.host_watch.reading),
            patterns=self._heal.patterns,
            acts=lambda: [each.line for each in self._heal.acts],
            last_words=lambda session_id: RunFolder(Path(self._places.run), session_id).last_words(),
            provider_of=self._seats.provider,
            trouble=lambda: self.intake.trouble,
            log=str(self._log) if self._supervised else "what this gateway prints",
        )

    async def _count(self, turn: Turn, fault: Fault | None, seconds: float) -> None:
        await self._heal.ended(turn, fault, seconds)

    async def _queue(self, turn: Turn) -> None:
        """A press becomes a turn: its row is there already."""
        await self.intake.queue(await self._book.keep(turn))

    def _rights_of(self, turn: Turn) -> Rights:
        send_from = self._seats.chat(turn.key).send_from
        is_admin = self._people.role_of(turn.user_id) is Role.ADMIN
        return Rights(is_admin, Path(send_from) if send_from else None)

    def _prompt_of(self, message: Incoming) -> str:
        action = cue_of(message.text)
        if action is not None:
            return PROMPTS[action]
        conversation = self._config.conversation
        quoted = message.quoted if conversation.enable_reply_context_injection else None
        return with_context(message.text, quoted, conversation.reply_context_max_chars)

    def _context_of(self, turn: Turn) -> str:
        seat = self._seats.seat(turn.key)
        lines = [f"Provider: {turn.provider}", f"Session: {turn.session_id}", f"Folder: {seat.cwd}"]
        if any(turn.tokens):
            lines.append(f"Tokens of this answer: {turn.tokens[0]} in, {turn.tokens[1]} out")
        if turn.cost_usd is not None:
            lines.append(f"Cost of this answer: {turn.cost_usd:.4f} USD")
        return "\n".join(lines)
