"""Collects the daemon's metrics when it is scraped, and tells whether it is ready.

Every part keeps its own counters; this module only reads them.
"""

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from wakeful import __version__
from wakeful.agents.model import AgentState
from wakeful.config.schema import Mode
from wakeful.core.errors import WorldError
from wakeful.healing.plan import ACTS, Step
from wakeful.incidents.critical_event import ActionTaken, Happening
from wakeful.incidents.model import Cause
from wakeful.metrics.collect import each_of, session_figures
from wakeful.metrics.model import Figures, Labels, Spread
from wakeful.storage.base import Outcome

if TYPE_CHECKING:
    from wakeful.daemon.daemon import Daemon


class Starting(WorldError):
    """The first look is not done."""

    code = "starting"
    retryable = True


class EyesDown(WorldError):
    """Nobody is told of changes."""

    code = "eyes-down"
    retryable = True


class StoreRefuses(WorldError):
    """The store takes no writes."""

    code = "store-refuses"
    retryable = True


def unready(daemon: "Daemon") -> WorldError | None:
    """What keeps it from its work, in the order in which it would be mended."""
    if not daemon.looked:
        return Starting()
    if not daemon.listening:
        return EyesDown()
    return StoreRefuses() if daemon.scribe.trouble is not None else None


def figures_of(daemon: "Daemon") -> Figures:
    """Every figure of the table, as it is now."""
    return {
        **_itself(daemon),
        **session_figures(daemon.roster, daemon.clock.now()),
        **_care(daemon),
        **_eyes(daemon),
    }


def _itself(daemon: "Daemon") -> Figures:
    return {
        "wakeful_build": {(__version__,): 1},
        "wakeful_mode": each_of(Mode, Counter({daemon.mode: 1})),
        "wakeful_paused": {(): daemon.calm.paused is not None},
        "wakeful_ready": {(): unready(daemon) is None},
        "wakeful_store_refuses": {(): daemon.scribe.trouble is not None},
        "wakeful_transitions_lost": {(): daemon.scribe.lost},
        "wakeful_loop_lag_seconds": {(): daemon.lag.spread},
        "wakeful_cycle_seconds": _cycles(daemon),
    }


def _cycles(daemon: "Daemon") -> dict[Labels, Spread]:
    queue = daemon.care.queue
    cycles: dict[Labels, Spread] = {("judge",): daemon.judging, ("sweep",): daemon.sweeping}
    return cycles if queue is None else cycles | {("queue",): queue.cycles}


def _care(daemon: "Daemon") -> Figures:
    care = daemon.care
    steps = [step for step in Step if step in ACTS]
    revivals, events = care.healer.concluded, care.written
    return {
        "wakeful_agents": each_of(AgentState, Counter(each.state for each in daemon.hub.records)),
        "wakeful_checkpoints_open": {(): care.checkpoints.open_count},
        "wakeful_incidents_open": each_of(Cause, care.incidents.open_by_cause),
        "wakeful_incidents_opened": each_of(Cause, care.incidents.opened),
        "wakeful_revivals": {pair: revivals[pair] for pair in product(steps, Outcome)},
        "wakeful_critical_events": {pair: events[pair] for pair in product(Happening, ActionTaken)},
        "wakeful_alert_deliveries": care.alerts.deliveries,
        "wakeful_alerts_pending": care.alerts.waiting,
    }


def _eyes(daemon: "Daemon") -> Figures:
    queue = daemon.care.queue
    errors: dict[Labels, float] = {
        ("tmux",): daemon.tmux.failed,
        ("process",): daemon.exits.failed,
        ("log",): sum(each.failed for each in daemon.logs),
        **{(f"agent_{runtime}",): count for runtime, count in daemon.hub.failed.items()},
        **({("queue",): queue.failed} if queue is not None else {}),
    }
    eyes: dict[Labels, float] = {(each.name,): each.slow is not None for each in daemon.eye_records()}
    return {"wakeful_probe_errors": errors, "wakeful_eye_slow": eyes}
