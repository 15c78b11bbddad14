"""Collects the daemon's metrics when it is scraped, and decides whether it is ready.

Every part keeps its own counters; this module only reads them.
"""

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from wakeful import __version__
from wakeful.agents.model import AgentState
from wakeful.config.schema import Mode
from wakeful.core.errors import WorldError
from wakeful.healing.plan import ACTING_STEPS, HealingStep
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.model import Cause
from wakeful.metrics.collect import samples_for_all, session_metrics
from wakeful.metrics.model import Histogram, Labels, MetricSamples
from wakeful.storage.base import ActionOutcome

if TYPE_CHECKING:
    from wakeful.daemon.daemon import Daemon


class DaemonStarting(WorldError, code="starting", retryable=True):
    """The first scan is not done."""


class FileWatchDown(WorldError, code="eyes-down", retryable=True):
    """File changes are not reported."""


class StoreRefuses(WorldError, code="store-refuses", retryable=True):
    """The store rejects writes."""


def readiness_problem(daemon: "Daemon") -> WorldError | None:
    """Why the daemon is not ready, the first cause first."""
    if not daemon.has_scanned:
        return DaemonStarting()
    if not daemon.is_listening:
        return FileWatchDown()
    return StoreRefuses() if daemon.transition_writer.problem is not None else None


def collect_metrics(daemon: "Daemon") -> MetricSamples:
    return {
        **_daemon_metrics(daemon),
        **session_metrics(daemon.observer.registry, daemon.clock.now()),
        **_healing_metrics(daemon),
        **_source_metrics(daemon),
    }


def _daemon_metrics(daemon: "Daemon") -> MetricSamples:
    return {
        "wakeful_build": {(__version__,): 1},
        "wakeful_mode": samples_for_all(Mode, Counter({daemon.mode: 1})),
        "wakeful_paused": {(): daemon.mute_pause.current_pause is not None},
        "wakeful_ready": {(): readiness_problem(daemon) is None},
        "wakeful_store_refuses": {(): daemon.transition_writer.problem is not None},
        "wakeful_transitions_lost": {(): daemon.transition_writer.dropped_count},
        "wakeful_loop_lag_seconds": {(): daemon.lag.histogram},
        "wakeful_cycle_seconds": _cycle_histograms(daemon),
    }


def _cycle_histograms(daemon: "Daemon") -> dict[Labels, Histogram]:
    queue = daemon.healing.queue
    cycles: dict[Labels, Histogram] = {
        ("judge",): daemon.host.judging_seconds,
        ("sweep",): daemon.sweep_seconds,
    }
    return cycles if queue is None else cycles | {("queue",): queue.cycle_seconds}


def _healing_metrics(daemon: "Daemon") -> MetricSamples:
    healing = daemon.healing
    steps = [step for step in HealingStep if step in ACTING_STEPS]
    revivals, events = healing.healer.outcome_counts, healing.event_counts
    return {
        "wakeful_agents": samples_for_all(AgentState, Counter(each.state for each in daemon.hub.records)),
        "wakeful_checkpoints_open": {(): healing.checkpoints.open_count},
        "wakeful_incidents_open": samples_for_all(Cause, healing.incidents.open_by_cause),
        "wakeful_incidents_opened": samples_for_all(Cause, healing.incidents.opened_counts),
        "wakeful_revivals": {pair: revivals[pair] for pair in product(steps, ActionOutcome)},
        "wakeful_critical_events": {pair: events[pair] for pair in product(CriticalEventKind, ActionTaken)},
        "wakeful_alert_deliveries": healing.alerts.delivery_counts,
        "wakeful_alerts_pending": healing.alerts.pending_counts,
    }


def _source_metrics(daemon: "Daemon") -> MetricSamples:
    queue = daemon.healing.queue
    errors: dict[Labels, float] = {
        ("tmux",): daemon.observer.tmux.failed_listings,
        ("process",): daemon.exits.failed_probes,
        ("log",): sum(each.failed_reads for each in daemon.observer.sources.logs),
        **{(f"agent_{runtime}",): count for runtime, count in daemon.hub.failed_counts.items()},
        **({("queue",): queue.failed_cycles} if queue is not None else {}),
    }
    eyes: dict[Labels, float] = {
        (each.name,): each.slow is not None for each in daemon.observer.sources.records()
    }
    return {"wakeful_probe_errors": errors, "wakeful_eye_slow": eyes}
