"""Builds the wake service, the supervision timers, repairs and the health hook from the configuration.

Wakes reach sessions of agents in the pane that the agent runs in, on this host or in its container.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from wakeful.agents.hub import Hub
from wakeful.agents.model import AgentRecord, AgentRuntime, AgentSpec, AgentState
from wakeful.agents.table import AgentTable
from wakeful.config.heartbeat import HeartbeatConfig, SupervisionConfig
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.config.trust import TrustFile
from wakeful.control.controller import pane_address_of
from wakeful.control.driver import PromptDriver
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import ProcessState
from wakeful.daemon.agents import engine_address
from wakeful.daemon.healing import HealingComponents, Task
from wakeful.daemon.observer import ObservedSessions, SessionObserver
from wakeful.healing.closed_sessions import PromptTimeout
from wakeful.heartbeat.file import AgentHeartbeatFiles
from wakeful.heartbeat.policy import Bounds
from wakeful.heartbeat.service import WakeControl, WakeRules, WakeService
from wakeful.heartbeat.store import AuditLog, PolicyStore
from wakeful.heartbeat.targets import DeclaredAgent, Targets, WakeContext
from wakeful.judging.thresholds import Policy
from wakeful.linux.run_command import HookProgram
from wakeful.sessions.feed import Feed
from wakeful.sessions.health_hook import HealthHook
from wakeful.sessions.prompt_timeouts import SupervisionEvent, SupervisionTimers, TimerRules
from wakeful.sessions.repair import Repairs
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import Store, Transition


def bounds_of(config: HeartbeatConfig) -> Bounds:
    return Bounds(config.min_interval, config.default_interval, config.max_body_bytes)


class HeartbeatComponents:
    """Wakes, prompt timers, repairs and the health hook of one daemon."""

    def __init__(
        self,
        config: Config,
        paths: StatePaths,
        store: Store,
        observer: SessionObserver,
        control: WakeControl,
        feed: Feed,
        hub: Hub,
        healing: HealingComponents,
    ) -> None:
        declared = partial(_declared_agents, {spec.name: spec for spec in config.agents}, hub)
        self.wake_service = build_wake(config.heartbeat, paths, store, observer, control, declared)
        prompt_timeout = PromptTimeout(control.automatic, observer.registry, healing.is_treated)
        self.timers = SupervisionTimers(
            observer.clock,
            observer.registry,
            timer_rules(config.supervision),
            TimerEvents(feed, prompt_timeout),
        )
        self.repairs = Repairs(store, observer.registry, observer.clock, observer)
        self._hook = build_hook(config, observer)
        self._hub = hub
        self._supervisor = observer.supervisor

    def apply_config(self, policy: Policy, supervision: SupervisionConfig) -> None:
        """Use these thresholds, and the section `session.supervision`."""
        self.wake_service.set_policy(policy)
        self.timers.set_rules(timer_rules(supervision))

    async def restore(self) -> None:
        """Continue where an earlier daemon stopped, after every session was judged."""
        for record in self._hub.records:
            if record.hosted_session is not None:
                self._supervisor.set_agent(record.hosted_session, record.name)
        await self.wake_service.restore()

    def on_transitions(self, transitions: Sequence[Transition]) -> None:
        if self._hook is not None:
            self._hook.on_transitions(transitions)

    def tasks(self) -> Iterator[Task]:
        yield self.wake_service.run, "no agent is woken"
        yield self.timers.run, "prompts are not timed"
        if self._hook is not None:
            yield self._hook.run, "health is not passed on"


class AgentSessionAddresses:
    """The address of an agent's session is the pane of the agent, on this host or in its container."""

    def __init__(self, table: AgentTable, config: Config, paths: StatePaths) -> None:
        self._table = table
        self._commands = {spec.name: spec.command for spec in config.agents}
        self._prompt_drivers = container_prompt_drivers(config, paths)

    def prompt_driver(self, name: str) -> PromptDriver | None:
        return self._prompt_drivers.get(name)

    def managed_session_of(self, session: TrackedSession) -> ManagedSession | None:
        """The address of an agent's session; None if no agent hosts it, or its agent does not run."""
        name, living = session.subject.agent, session.presence.living_processes
        if name not in self._commands or len(living) != 1:
            return None
        record = self._table.find(name).record
        if record.state is not AgentState.RUNNING or record.session_id != session.subject.id:
            return None
        pane = _pane_of(record, session)
        if pane is None:
            return None
        return ManagedSession(
            session_id=session.subject.id,
            conversation_id=session.activity.conversation_id or ConversationId(""),
            driver=record.runtime,
            cwd=session.activity.cwd or session.presence.cwd or "",
            argv=self._commands[name],
            epoch=record.epoch,
            since=0.0,
            process=living[0].process,
            pane=pane,
            adopted=True,
            name=name,
        )


def _pane_of(record: AgentRecord, session: TrackedSession) -> PaneAddress | None:
    """The pane on this host; for an agent in a container, the container alone."""
    if record.runtime is AgentRuntime.DOCKER:
        container = record.container_id
        return None if container is None else PaneAddress(container, "", record.tmux_session or "")
    pane = session.presence.pane
    return None if pane is None or pane.sight is not ProcessState.ALIVE else pane_address_of(pane)


def container_prompt_drivers(config: Config, paths: StatePaths) -> dict[str, PromptDriver]:
    """The prompt driver for containers, if an agent is declared in one."""
    if AgentRuntime.DOCKER not in {spec.runtime for spec in config.agents}:
        return {}
    # An engine's library loads slowly, and may be missing.
    from wakeful.integrations.docker.prompt import ContainerPromptDriver  # noqa: PLC0415

    return {AgentRuntime.DOCKER: ContainerPromptDriver(engine_address(os.environ), paths.typed_notes)}


def _declared_agents(specs: Mapping[str, AgentSpec], hub: Hub) -> dict[str, DeclaredAgent]:
    return {each.name: DeclaredAgent(each, specs[each.name]) for each in hub.records}


def build_wake(
    config: HeartbeatConfig,
    paths: StatePaths,
    store: Store,
    observer: ObservedSessions,
    control: WakeControl,
    declared: Callable[[], dict[str, DeclaredAgent]] = dict,
) -> WakeService:
    clock = observer.clock
    return WakeService(
        clock=clock,
        targets=Targets(observer.registry, declared),
        policies=PolicyStore(
            AgentHeartbeatFiles(paths.state_dir, bounds_of(config), TrustFile(paths.trust_file)),
            store,
            clock,
        ),
        audits=AuditLog(store, clock, config.wake_event_retention),
        control=control,
        judged_by=observer.policy,
        rules=WakeRules(
            config.enabled,
            config.default_interval,
            config.wake_cooldown,
            config.max_wakes_per_cycle,
            config.cycle,
        ),
        context=WakeContext(store),
    )


class TimerEvents:
    """Publishes events of the timers, and ends prompts that timed out."""

    def __init__(self, feed: Feed, prompt_timeout: PromptTimeout) -> None:
        self._feed = feed
        self._prompt_timeout = prompt_timeout

    def publish_supervision(self, event: SupervisionEvent) -> None:
        self._feed.publish_supervision(event)

    def on_timeout(self, session_id: SessionId) -> None:
        self._prompt_timeout.on_timeout(session_id)


def build_hook(config: Config, observer: SessionObserver) -> HealthHook | None:
    argv = config.hooks.session_health_update_after
    if not argv:
        return None
    interval_seconds = config.heartbeat.session_health_hook_min_interval
    return HealthHook(observer.clock, HookProgram(argv).run, interval_seconds)


def timer_rules(config: SupervisionConfig) -> TimerRules:
    return TimerRules(
        config.activity_heartbeat_interval,
        config.progress_notify_interval,
        config.inactivity_warning_after,
        config.inactivity_timeout,
    )
