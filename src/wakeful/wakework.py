"""The wake service joined with its files, its store, the hub and the hands. What `hubwork` is to the hub.

Nothing here decides.
"""

from wakeful.config import Config
from wakeful.domain.heartbeat import Include
from wakeful.domain.record import SessionRecord
from wakeful.handwork import Handwork
from wakeful.heartbeat_config import Heartbeat
from wakeful.heartbeats import AgentFiles, bounds_of
from wakeful.lookout import Lookout
from wakeful.places import Places
from wakeful.ports.store import Store
from wakeful.services.calm import Calm
from wakeful.services.hub import Hub
from wakeful.services.wake import WakeRules, WakeService
from wakeful.services.wake_audit import AuditBook
from wakeful.services.wake_policies import PolicyBook
from wakeful.services.wake_targets import Declared, Target, Targets


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
        policies=PolicyBook(AgentFiles(places.home, bounds_of(heartbeat)), store, clock),
        audits=AuditBook(store, clock, heartbeat.wake_event_retention),
        gate=handwork.gate,
        hands=handwork.hands,
        own_hands=handwork.own_hands,
        judged_by=lookout.policy,
        rules=rules_of(heartbeat),
        reach=lookout.reach,
        paused=lambda: calm.paused,
        context=context_of,
    )


def rules_of(config: Heartbeat) -> WakeRules:
    return WakeRules(
        config.enabled,
        config.default_interval,
        config.wake_cooldown,
        config.max_wakes_per_cycle,
        config.cycle,
    )


def context_of(target: Target) -> dict[Include, str]:
    """What a prompt may say beside its guidance. `task` and `inbox_summary` have nothing to say yet."""
    record = target.watched.record if target.watched is not None else None
    return (
        {}
        if record is None
        else {Include.SELF: _self(target, record), Include.SESSION_HEALTH: _health(record)}
    )


def _self(target: Target, record: SessionRecord) -> str:
    return f"you are the agent {target.agent}, session {record.id}"


def _health(record: SessionRecord) -> str:
    return f"{record.health}, {record.state}, last active {record.last_activity_at or 'never'}"
