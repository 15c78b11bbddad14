"""Builds the wake service, the supervision timers, repairs and the health hook from the configuration.

It also sets the bounds of a `HEARTBEAT.md` file and re-exports the functions that read one, for commands
without a daemon. Wakes reach sessions of agents in the pane that the agent runs in, on this host or in its
container.
"""

import os
from collections.abc import Callable, Coroutine, Iterator, Sequence

from wakeful.agents.hub import Hub
from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState
from wakeful.alerts.mute_pause import Calm
from wakeful.config.heartbeat import Heartbeat, Supervision
from wakeful.config.paths import Places
from wakeful.config.schema import Config
from wakeful.config.trust import TrustBook
from wakeful.control.controller import address_of
from wakeful.control.driver import Speaker
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import Hosting, PaneAddress
from wakeful.core.process import Sight
from wakeful.daemon.agents import engine_address
from wakeful.daemon.control import Handwork
from wakeful.daemon.observer import Lookout
from wakeful.healing.closed_sessions import CutShort
from wakeful.heartbeat.file import (
    FOLDERS,
    NAME,
    AgentFiles,
    load,
    not_trusted,
    place_at,
    place_of,
    read_place,
    understood,
)
from wakeful.heartbeat.policy import Bounds
from wakeful.heartbeat.service import WakeRules, WakeService
from wakeful.heartbeat.store import AuditBook, PolicyBook
from wakeful.heartbeat.targets import Declared, Targets, WakeContext
from wakeful.linux.run_command import HookProgram
from wakeful.sessions.feed import Feed
from wakeful.sessions.health_hook import HealthHook
from wakeful.sessions.prompt_timeouts import Running, SupervisionTimers, TimerRules
from wakeful.sessions.repair import Repairs
from wakeful.sessions.session import Watched
from wakeful.storage.base import Store, Transition

__all__ = [
    "FOLDERS",
    "NAME",
    "AgentFiles",
    "bounds_of",
    "load",
    "not_trusted",
    "place_at",
    "place_of",
    "read_place",
    "understood",
]


def bounds_of(config: Heartbeat) -> Bounds:
    """What the configuration allows a file to ask for."""
    return Bounds(config.min_interval, config.default_interval, config.max_body_bytes)


Task = tuple[Callable[[], Coroutine[None, None, None]], str]
"""Something that runs for ever, and what it means if the store refuses it."""


class WakeWork:
    """Waking, and what stands beside health, of one daemon."""

    def __init__(
        self,
        config: Config,
        places: Places,
        store: Store,
        lookout: Lookout,
        feed: Feed,
        handwork: Handwork,
        hub: Hub,
        calm: Calm,
        is_treated: Callable[[SessionId], bool],
    ) -> None:
        self.wakes = build_wake(config, places, store, lookout, handwork, hub, calm)
        cut_short = CutShort(handwork.own_hands, lookout.roster, is_treated)
        self.timers = build_timers(config, lookout, feed, cut_short)
        self.repairs = Repairs(store, lookout.roster, lookout.clock, lookout.look_again)
        self._hook = build_hook(config, lookout)
        self._hub = hub
        self._supervisor = lookout.supervisor
        guests, speakers = HubGuests(hub, config), speakers_of(config, places)
        for hands in (handwork.hands, handwork.own_hands):
            hands.guest_of = guests.hosting
            hands.speakers.update(speakers)

    async def take_up(self) -> None:
        """Go on where an earlier daemon stopped; everybody was judged before."""
        for record in self._hub.records:
            if record.hosts is not None:
                self._supervisor.lodge(record.hosts, record.name)
        await self.wakes.take_up()

    def seen(self, transitions: Sequence[Transition]) -> None:
        """Sessions changed."""
        if self._hook is not None:
            self._hook.seen(transitions)

    def tasks(self) -> Iterator[Task]:
        """What runs as long as the daemon does."""
        yield self.wakes.run, "nobody is woken"
        yield self.timers.run, "prompts are not timed"
        if self._hook is not None:
            yield self._hook.run, "nobody is told of health"


class HubGuests:
    """Where the sessions of the hub's agents are spoken to: in the pane their agent runs in, here or in its container."""

    def __init__(self, hub: Hub, config: Config) -> None:
        self._hub = hub
        self._commands = {spec.name: spec.command for spec in config.agents}

    def hosting(self, watched: Watched) -> Hosting | None:
        """The address of an agent's session; None for one that is nobody's, or whose agent does not run."""
        name, living = watched.subject.agent, watched.presence.living
        if name not in self._commands or len(living) != 1:
            return None
        record = self._hub.record(name)
        if record.state is not AgentState.RUNNING or record.session_id != watched.subject.id:
            return None
        pane = _pane_of(record, watched)
        if pane is None:
            return None
        return Hosting(
            session_id=watched.subject.id,
            conversation_id=watched.activity.conversation_id or ConversationId(""),
            driver=record.runtime,
            cwd=watched.activity.cwd or watched.presence.cwd or "",
            argv=self._commands[name],
            epoch=record.epoch,
            since=0.0,
            process=living[0].process,
            pane=pane,
            adopted=True,
            name=name,
        )


def _pane_of(record: AgentRecord, watched: Watched) -> PaneAddress | None:
    """The pane that tmux shows on this host; of one in a container, the container alone."""
    if record.runtime is AgentRuntime.DOCKER:
        container = record.container_id
        return None if container is None else PaneAddress(container, "", record.tmux_session or "")
    pane = watched.presence.pane
    return None if pane is None or pane.sight is not Sight.ALIVE else address_of(pane)


def speakers_of(config: Config, places: Places) -> dict[str, Speaker]:
    """The way into containers, if an agent is declared to live in one: an engine's library takes long, and may be missing."""
    if AgentRuntime.DOCKER not in {spec.runtime for spec in config.agents}:
        return {}
    from wakeful.integrations.docker.prompt import ContainerSpeaker  # noqa: PLC0415 - see the docstring

    return {AgentRuntime.DOCKER: ContainerSpeaker(engine_address(os.environ), places.typing)}


def build_wake(
    config: Config,
    places: Places,
    store: Store,
    lookout: Lookout,
    handwork: Handwork,
    hub: Hub,
    calm: Calm,
) -> WakeService:
    """The wake service of one daemon."""
    heartbeat, clock = config.heartbeat, lookout.clock
    specs = {spec.name: spec for spec in config.agents}

    def declared() -> dict[str, Declared]:
        return {each.name: Declared(each, specs[each.name]) for each in hub.records}

    return WakeService(
        clock=clock,
        targets=Targets(lookout.roster, declared),
        policies=PolicyBook(
            AgentFiles(places.home, bounds_of(heartbeat), TrustBook(places.trusted)), store, clock
        ),
        audits=AuditBook(store, clock, heartbeat.wake_event_retention),
        gate=handwork.gate,
        hands=handwork.hands,
        own_hands=handwork.own_hands,
        judged_by=lookout.policy,
        rules=rules_of(heartbeat),
        reach=lookout.reach,
        paused=lambda: calm.paused,
        context=WakeContext(store),
    )


def build_timers(config: Config, lookout: Lookout, feed: Feed, cut_short: CutShort) -> SupervisionTimers:
    """The timers of one daemon's running prompts: they read its sessions, tell its feed, and have their time kept."""

    def running() -> Iterator[Running]:
        for watched in lookout.roster.watched.values():
            record = watched.record
            if record is not None and record.active_prompt:
                yield Running(record.id, record.state, watched.activity.progress_at)

    rules = timer_rules(config.supervision)
    return SupervisionTimers(lookout.clock, running, rules, feed.supervise, cut_short.timed_out)


def build_hook(config: Config, lookout: Lookout) -> HealthHook | None:
    """Whom to tell of health, if the operator named a program."""
    argv = config.hooks.session_health_update_after
    if not argv:
        return None
    interval_seconds = config.heartbeat.session_health_hook_min_interval
    return HealthHook(lookout.clock, HookProgram(argv).run, interval_seconds)


def timer_rules(config: Supervision) -> TimerRules:
    return TimerRules(
        config.activity_heartbeat_interval,
        config.progress_notify_interval,
        config.inactivity_warning_after,
        config.inactivity_timeout,
    )


def rules_of(config: Heartbeat) -> WakeRules:
    return WakeRules(
        config.enabled,
        config.default_interval,
        config.wake_cooldown,
        config.max_wakes_per_cycle,
        config.cycle,
    )
