"""Table of all metrics of /metrics, and histograms of durations. Pure.

Labels come from closed lists or from the operator's configuration. No id, project or path becomes a label, so
the number of series does not grow with the sessions. `docs/reference/metrics.md` is generated from FAMILIES.
"""

from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Family(Struct, frozen=True):
    """One metric, for each combination of its labels. A counter's samples end in `_total`, an info's in `_info`."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    meaning: str


# From a tenth of a millisecond, the time to judge one session, to the stall that people notice.
SECONDS_BOUNDS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class Histogram(Struct):
    """Counts of durations: one for each bound, one for those above all bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS_BOUNDS) + 1))
    total_seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self.total_seconds += seconds


Labels = tuple[str, ...]
MetricSamples = Mapping[str, Mapping[Labels, float | Histogram]]
"""Samples by the name of the family and the values of its labels, in the family's order."""


FAMILIES: Final = (
    Family("wakeful_build", MetricKind.INFO, ("version",), "Version of Wakeful"),
    Family("wakeful_mode", MetricKind.GAUGE, ("mode",), "1 for the current mode"),
    Family("wakeful_paused", MetricKind.GAUGE, (), "1 while automatic actions are paused"),
    Family("wakeful_ready", MetricKind.GAUGE, (), "1 while /readyz says ready"),
    Family("wakeful_sessions", MetricKind.GAUGE, ("state", "health"), "Sessions that lists show"),
    Family("wakeful_sessions_managed", MetricKind.GAUGE, (), "Managed sessions among them"),
    Family("wakeful_sessions_folded", MetricKind.GAUGE, (), "Sessions that lists count instead of showing"),
    Family("wakeful_attention", MetricKind.GAUGE, ("attention",), "Shown sessions by who has to act next"),
    Family("wakeful_findings", MetricKind.GAUGE, ("code",), "Shown sessions with this finding"),
    Family("wakeful_expected_waits", MetricKind.GAUGE, ("kind",), "Expected waits of shown sessions"),
    Family("wakeful_agents", MetricKind.GAUGE, ("state",), "Agents of the hub"),
    Family("wakeful_checkpoints_open", MetricKind.GAUGE, (), "Checkpoints that need your decision"),
    Family("wakeful_incidents_open", MetricKind.GAUGE, ("cause",), "Incidents that are open now"),
    Family("wakeful_incidents_opened", MetricKind.COUNTER, ("cause",), "Incidents opened by this daemon"),
    Family(
        "wakeful_revivals",
        MetricKind.COUNTER,
        ("step", "outcome"),
        "Healing steps by outcome",
    ),
    Family(
        "wakeful_critical_events",
        MetricKind.COUNTER,
        ("event", "action"),
        "Critical events, also of queues",
    ),
    Family(
        "wakeful_alert_deliveries", MetricKind.COUNTER, ("channel", "outcome"), "Messages given to a channel"
    ),
    Family("wakeful_alerts_pending", MetricKind.GAUGE, ("channel",), "Messages that wait for a channel"),
    Family(
        "wakeful_loop_lag_seconds",
        MetricKind.HISTOGRAM,
        (),
        "Delay of the event loop, measured every two seconds",
    ),
    Family(
        "wakeful_cycle_seconds",
        MetricKind.HISTOGRAM,
        ("cycle",),
        "Duration of judging a slice, a sweep, a check of the queue",
    ),
    Family(
        "wakeful_probe_errors",
        MetricKind.COUNTER,
        ("probe",),
        "Failed probes, which count as unknown, never as dead",
    ),
    Family("wakeful_eye_slow", MetricKind.GAUGE, ("eye",), "1 while a log source is slow"),
    Family("wakeful_store_refuses", MetricKind.GAUGE, (), "1 while the store refuses writes"),
    Family(
        "wakeful_transitions_lost",
        MetricKind.COUNTER,
        (),
        "Transitions lost because the store refused writes",
    ),
)
