"""Table of all metrics of /metrics, and histograms of durations. Pure.

Labels come from closed lists or from the operator's configuration. No id, project or path becomes a label, so
the number of series does not grow with the sessions. `docs/reference/metrics.md` is generated from FAMILIES.
"""

from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field


class Kind(StrEnum):
    """How a figure moves: up and down, only up, or as a spread of durations."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Family(Struct, frozen=True):
    """One figure, for each combination of its labels. A counter's samples end in `_total`, an info's in `_info`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


# From a tenth of a millisecond, what judging one session takes, to the stall at which people notice.
SECONDS_BOUNDS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class Spread(Struct):
    """How often something took how long: one count for each bound, one for what was beyond all of them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS_BOUNDS) + 1))
    total_seconds: float = 0.0

    def take(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self.total_seconds += seconds


Labels = tuple[str, ...]
Figures = Mapping[str, Mapping[Labels, float | Spread]]
"""What was counted, by the name of its family and the values of its labels, in the family's order."""


FAMILIES: Final = (
    Family("wakeful_build", Kind.INFO, ("version",), "Which Wakeful this is"),
    Family("wakeful_mode", Kind.GAUGE, ("mode",), "1 for the mode it is in"),
    Family("wakeful_paused", Kind.GAUGE, (), "1 while a person has paused what Wakeful does by itself"),
    Family("wakeful_ready", Kind.GAUGE, (), "1 while /readyz says ready"),
    Family("wakeful_sessions", Kind.GAUGE, ("state", "health"), "Sessions that lists show"),
    Family("wakeful_sessions_managed", Kind.GAUGE, (), "Those of them that Wakeful may touch in mode mine"),
    Family("wakeful_sessions_folded", Kind.GAUGE, (), "Sessions that lists fold for their age"),
    Family("wakeful_attention", Kind.GAUGE, ("attention",), "Shown sessions by who has to move next"),
    Family("wakeful_findings", Kind.GAUGE, ("code",), "Shown sessions with this finding"),
    Family("wakeful_expected_waits", Kind.GAUGE, ("kind",), "Expected waits of shown sessions"),
    Family("wakeful_agents", Kind.GAUGE, ("state",), "Agents of the hub"),
    Family("wakeful_checkpoints_open", Kind.GAUGE, (), "Questions that wait for a person's decision"),
    Family("wakeful_incidents_open", Kind.GAUGE, ("cause",), "Incidents that are open now"),
    Family("wakeful_incidents_opened", Kind.COUNTER, ("cause",), "Incidents opened by this daemon"),
    Family(
        "wakeful_revivals", Kind.COUNTER, ("step", "outcome"), "What healing did to sessions, as it was seen"
    ),
    Family(
        "wakeful_critical_events",
        Kind.COUNTER,
        ("event", "action"),
        "Critical events, those of queues among them",
    ),
    Family("wakeful_alert_deliveries", Kind.COUNTER, ("channel", "outcome"), "Messages given to a channel"),
    Family("wakeful_alerts_pending", Kind.GAUGE, ("channel",), "Messages a channel has yet to take"),
    Family(
        "wakeful_loop_lag_seconds", Kind.HISTOGRAM, (), "How late the event loop is, asked every two seconds"
    ),
    Family(
        "wakeful_cycle_seconds", Kind.HISTOGRAM, ("cycle",), "Judging a slice, a sweep, a look at the queue"
    ),
    Family("wakeful_probe_errors", Kind.COUNTER, ("probe",), "Looks that failed: unknown, never dead"),
    Family("wakeful_eye_slow", Kind.GAUGE, ("eye",), "1 while an eye sees late"),
    Family("wakeful_store_refuses", Kind.GAUGE, (), "1 while the store takes no writes"),
    Family("wakeful_transitions_lost", Kind.COUNTER, (), "Transitions given up because the store took none"),
)
