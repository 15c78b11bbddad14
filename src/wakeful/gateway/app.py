"""Builds the chat gateway from its parts: the chat, the daemon's sessions and the rules between them."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from wakeful.alerts.failed_parts import FailedParts
from wakeful.alerts.mute_pause import MutePause
from wakeful.client.async_client import AsyncDaemonClient, DaemonApiClient, SessionsApiClient
from wakeful.client.errors import DaemonAway, DaemonNotRunning
from wakeful.config.alert_channels import open_channels
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.control.login import ProviderLogin
from wakeful.control.provider import OneShot
from wakeful.core.errors import WorldError
from wakeful.gateway.answer import ChatAnswers
from wakeful.gateway.commands import ChatCommands, Decisions, Views
from wakeful.gateway.contexts import ChatIntakeContext, ChatTurns, GatewayProblems
from wakeful.gateway.finish import AnswerFinisher, Rights, TurnObservers
from wakeful.gateway.follow_ups import FollowUpRules, FollowUps
from wakeful.gateway.host import GatewayHost, HostReader
from wakeful.gateway.host_monitor import AdminNotifier, HostWatch, SelfHeal, reload_mutes
from wakeful.gateway.intake import Intake
from wakeful.gateway.people import People
from wakeful.gateway.permissions import ChatQuestions
from wakeful.gateway.prompt_delivery import PromptDelivery
from wakeful.gateway.provider_guard import AuthWatch, ProviderGuard
from wakeful.gateway.rules.access import Access, Role
from wakeful.gateway.rules.breaker import Thresholds
from wakeful.gateway.rules.host import HealLimits, WatchLimits, format_reading
from wakeful.gateway.rules.pool import Pool, PoolLimits
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.telegram import TelegramChat
from wakeful.gateway.turn_context import TurnLimits
from wakeful.gateway.turn_listener import AnswerJudge
from wakeful.gateway.turn_queue import TurnQueue
from wakeful.gateway.turn_runner import TurnChecks, TurnOutput, TurnRunner
from wakeful.gateway.turn_store import Conversations, TurnStore
from wakeful.gateway.withheld import WithheldAnswers
from wakeful.gateway.workspaces import Workspaces
from wakeful.healing.plan import HealingRules
from wakeful.integrations.driver_support import RunFolder
from wakeful.integrations.providers import all_providers
from wakeful.linux.child_process import ChildSupervisor
from wakeful.linux.clock import SystemClock
from wakeful.linux.files import ProblemFile
from wakeful.storage.base import Store

# A pairing that was withdrawn ends at most this much later.
PEOPLE_SECONDS: Final = 60.0

log = logging.getLogger("wakeful.gateway")


class Gateway:
    def __init__(
        self,
        config: Config,
        paths: StatePaths,
        store: Store,
        bot: str,
        environ: Mapping[str, str],
        *,
        supervised: bool = False,
    ) -> None:
        self._config = config
        self._paths = paths
        self._environ = environ
        self._supervised = supervised
        self._workspaces = Workspaces(config, paths, environ)
        self._channels = open_channels(config.alerts, environ)
        self._log_path = Path(paths.logs) / "gateway.log"
        self._limits = TurnLimits(turn=config.gateway.turn_seconds, question=config.gateway.question_seconds)
        self._client = AsyncDaemonClient(paths.socket)
        clock = self._clock = SystemClock()
        self.failures = FailedParts(clock)
        self._problems = GatewayProblems(ProblemFile(Path(paths.gateway_problem)), self.failures)
        self.chat = TelegramChat(config.gateway.token, config.gateway.api, clock)
        self._sessions = SessionsApiClient(paths.socket, Path(paths.run))
        access = Access(frozenset(config.gateway.allow), frozenset(config.gateway.admins))
        self._people = People(store, self.chat, clock, access)
        self._turn_store = TurnStore(store, clock, bot)
        self._conversations = Conversations(store)
        self._answers = ChatAnswers(self.chat, clock, edit_seconds=config.gateway.edit_seconds)
        admins = config.gateway.admins
        self._mute_pause = MutePause(store, clock)
        self._notify_admins = AdminNotifier(self._mute_pause, self._channels, self.chat, admins).notify
        self.auth = AuthWatch(clock, self._logins(), self._notify_admins, config.gateway_host.watch_seconds)
        self._guard = ProviderGuard(clock, self.auth, self._thresholds())
        self._follow_up_turns = ChatTurns(self._turn_store, self._workspaces)
        self._follow_ups = self._new_follow_ups()
        self._answer_finisher = AnswerFinisher(
            store=store,
            answers=self._answers,
            turn_store=self._turn_store,
            rights_of=self._rights_of,
            buttons=self._follow_ups.buttons,
        )
        self._questions = self._new_questions(store)
        self._turn_observers = TurnObservers()
        self.turns = self._new_turns()
        self._host = self._new_host()
        self._self_heal = self._new_self_heal()
        for part in (self._answer_finisher, self._follow_ups, self._self_heal):
            self._turn_observers.add(part.on_turn_end)
        self.host_watch = self._new_host_watch()
        self._decisions = Decisions(self.chat, clock, self._people.role_of)
        self.intake = self._new_intake()
        self._follow_up_turns.add_intake(self.intake)

    async def restore(self) -> int:
        """Continue where an earlier gateway stopped; returns how many turns were open."""
        await self._people.reload()
        return await self.turns.restore()

    async def close(self) -> None:
        await self._follow_ups.close()
        await self.chat.close()
        for channel in self._channels:
            await channel.close()

    async def refresh_people(self) -> None:
        """Read again which users are paired."""
        while True:
            await self._clock.sleep(PEOPLE_SECONDS)
            try:
                await self._people.reload()
            except WorldError as problem:
                log.warning("the list of paired users is not readable: %s", problem)

    async def report_failures(self) -> None:
        """Show failed parts in `status` and `doctor`, and alert the admins once for each."""
        reported: set[str] = set()
        while True:
            self.failures.changed.clear()
            self._problems.write()
            for failure in self.failures.down:
                if failure.name not in reported:
                    reported.add(failure.name)
                    await self._notify_admins("warning", f"gateway: {failure.line}")
            reported &= {each.name for each in self.failures.down}
            await self.failures.changed.wait()

    async def daemon_child(self, command: Sequence[str]) -> ChildSupervisor | None:
        """The daemon that this gateway has to run, by this command; None if one runs, even if it does not answer."""
        try:
            await self._client.get("/healthz", 5.0)
        except DaemonNotRunning:
            argv = (sys.executable, "-P", "-m", "wakeful", *command)
            return ChildSupervisor("daemon", argv, Path(self._paths.logs) / "up.log", self._environ)
        except DaemonAway as problem:
            log.warning("%s", problem)
        return None

    def startup_lines(self, name: str, open_turns: int, *, alone: bool) -> Iterator[str]:
        """The bot's name, its users, and notes for its operator."""
        users, admins = self._people.count, self._people.count_of(Role.ADMIN)
        provider = self._config.gateway.provider
        yield f"gateway: {name}, answered by {provider}; {users} may write, {admins} of them as admins"
        if alone:
            yield "gateway: no daemon was running; started one, on its socket only"
        if not users:
            yield "gateway: no user is allowed yet: set gateway.allow or run `wakeful gateway pair`"
        for chat in self._workspaces.missing_folders():
            yield f"gateway: the folder of {chat.key} does not exist, so that chat gets no answers: {chat.folder}"
        if open_turns:
            yield f"gateway: continues {open_turns} open turns"

    def _logins(self) -> tuple[ProviderLogin, ...]:
        """The logins of the providers that any workspace uses."""
        used = {self._config.gateway.provider, *(each.provider for each in self._config.gateway_chats)}
        return tuple(
            each.login(*self._one_shot_command(each.name)) for each in all_providers() if each.name in used
        )

    def _one_shot_command(self, provider: str) -> tuple[tuple[str, ...], str, Mapping[str, str]]:
        """The command, folder and environment for asking a provider outside of every conversation."""
        argv = self._config.gateway_providers[provider].argv
        return argv, self._paths.probe, self._workspaces.environ

    def _rights_of(self, turn: Turn) -> Rights:
        send_from = self._workspaces.chat(turn.key).send_from
        is_admin = self._people.role_of(turn.user_id) is Role.ADMIN
        return Rights(is_admin, Path(send_from) if send_from else None)

    def _thresholds(self) -> dict[str, Thresholds]:
        return {
            name: Thresholds(each.failures_max, each.open_seconds, each.successes_needed)
            for name, each in self._config.gateway_providers.items()
        }

    def _new_follow_ups(self) -> FollowUps:
        actions = self._config.response_actions
        models: dict[str, OneShot] = {
            each.name: each.one_shot(*self._one_shot_command(each.name)) for each in all_providers()
        }
        return FollowUps(
            chat=self.chat,
            answers=self._answers,
            clock=self._clock,
            models=models,
            rules=FollowUpRules(
                actions.enabled,
                actions.decision_timeout_ms / 1000,
                actions.max_prompt_chars,
                actions.max_response_chars,
            ),
            turns=self._follow_up_turns,
        )

    def _new_questions(self, store: Store) -> ChatQuestions:
        return ChatQuestions(
            chat=self.chat,
            answers=self._answers,
            sessions=self._sessions,
            store=store,
            clock=self._clock,
            conversations=self._conversations,
            role_of=self._people.role_of,
            seconds_max=self._limits.question,
        )

    def _new_prompt_delivery(self) -> PromptDelivery:
        return PromptDelivery(
            sessions=self._sessions,
            clock=self._clock,
            turn_store=self._turn_store,
            conversations=self._conversations,
            workspace_for=self._workspaces.workspace,
            limits=self._limits,
        )

    def _new_turn_runner(self) -> TurnRunner:
        return TurnRunner(
            clock=self._clock,
            sessions=self._sessions,
            turn_store=self._turn_store,
            prompt_delivery=self._new_prompt_delivery(),
            questions=self._questions,
            checks=TurnChecks(self._guard, AnswerJudge()),
            output=TurnOutput(self._answers, self._answer_finisher, self._turn_observers),
            limits=self._limits,
        )

    def _new_turns(self) -> TurnQueue:
        conversation = self._config.conversation
        limits = PoolLimits(conversation.max_active_sessions, conversation.idle_ttl_minutes * 60)
        return TurnQueue(
            clock=self._clock,
            pool=Pool[Turn](limits),
            turn_store=self._turn_store,
            conversations=self._conversations,
            questions=self._questions,
            runner=self._new_turn_runner(),
            sessions=self._sessions,
            is_paused=self._is_paused,
        )

    async def _is_paused(self) -> bool:
        return (await self._healing_rules()).paused_by is not None

    def _new_host(self) -> GatewayHost:
        host = self._config.gateway_host
        figures = HostReader(self._paths.state_dir, pm2=host.pm2, docker=host.docker, environ=self._environ)
        return GatewayHost(
            self._clock, figures, self._sessions.pid, temporary=Path(self._paths.probe), log=self._log_path
        )

    def _new_self_heal(self) -> SelfHeal:
        host = self._config.gateway_host
        return SelfHeal(
            clock=self._clock,
            host=self._host,
            pool=self.turns,
            degrade=self.auth.on_login_suspected,
            notify=self._notify_admins,
            rules=self._healing_rules,
            limits=HealLimits(
                host.memory_percent, host.disk_percent, host.runaway_cpu_percent, host.runaway_memory_percent
            ),
        )

    async def _healing_rules(self) -> HealingRules:
        """The mode of the configuration, and the pause as the store has it now."""
        await reload_mutes(self._mute_pause)
        paused = self._mute_pause.current_pause
        return HealingRules(
            mode=self._config.daemon.mode, paused_by=paused.by if paused is not None else None
        )

    def _new_host_watch(self) -> HostWatch:
        host = self._config.gateway_host
        return HostWatch(
            clock=self._clock,
            host=self._host,
            chat=self.chat,
            heal=self._self_heal,
            notify=self._notify_admins,
            limits=WatchLimits(
                host.disk_percent, host.memory_percent, host.load_per_core, host.error_spike_factor
            ),
            watch_seconds=host.watch_seconds,
        )

    def _new_intake(self) -> Intake:
        commands = ChatCommands(
            clock=self._clock,
            role_of=self._people.role_of,
            turns=self.turns,
            daemon=DaemonApiClient(self._client),
            decisions=self._decisions,
            views=self._views(),
        )
        return Intake(
            chat=self.chat,
            clock=self._clock,
            turn_store=self._turn_store,
            turns=self.turns,
            context=ChatIntakeContext(self._config, self._people, self.chat, self._problems),
            commands=commands.commands(),
            presses=(
                self._questions.on_press,
                self._decisions.on_press,
                self._follow_ups.on_press,
                WithheldAnswers(
                    chat=self.chat,
                    answers=self._answers,
                    turn_store=self._turn_store,
                    role_of=self._people.role_of,
                ).on_press,
            ),
        )

    def _views(self) -> Views:
        return Views(
            breaker=self._guard.state,
            auth=lambda: [self.auth.mode(each) for each in self.auth.providers],
            host=lambda: format_reading(self.host_watch.reading),
            patterns=self._self_heal.patterns,
            acts=lambda: [each.line for each in self._self_heal.actions],
            last_words=lambda session_id: RunFolder(Path(self._paths.run), session_id).last_error_output(),
            provider_of=self._workspaces.provider,
            problem=lambda: self.intake.problem,
            log=str(self._log_path) if self._supervised else "the output of this gateway",
        )
