"""Collects session metrics at each scrape, with one pass over the registry, and measures the loop's lag."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import product
from operator import attrgetter
from typing import Any, Final

from wakeful.core.clock import Instant
from wakeful.judging.findings import Attention, FindingCode, Health, State, WaitKind
from wakeful.metrics.model import Histogram, Labels, MetricSamples
from wakeful.sessions.registry import SessionRegistry

# Waking up costs a quarter of a millisecond: 0.012 % of a core. Stalls that matter last longer than two ticks.
TICK_SECONDS: Final = 2.0
_labels_of: Final = attrgetter("state", "health", "attention")


class LoopLag:
    """How late the event loop runs due callbacks."""

    def __init__(self) -> None:
        self.histogram = Histogram()

    async def run(self) -> None:
        """Measure at each tick until cancelled; there is no event for a late loop."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self.histogram.observe(max(0.0, loop.time() - due))


def session_metrics(registry: SessionRegistry, now: Instant) -> MetricSamples:
    """Sessions by state, health and so on. Every value of a label is present, so that no series appears later."""
    shown = registry.list_unfolded(now)
    records = [each.record for each in shown if each.record is not None]
    # One pass for all three: ten thousand records lie far apart in memory.
    counted = Counter(map(_labels_of, records))
    by_state: Counter[Labels] = Counter()
    attention: Counter[str] = Counter()
    for (state, health, next_mover), count in counted.items():
        by_state[state, health] += count
        attention[next_mover] += count
    waits = Counter(each.kind for record in records for each in record.expected_waits)
    findings = Counter(each.code for record in records for each in record.findings)
    return {
        "wakeful_sessions": {pair: by_state[pair] for pair in product(State, Health)},
        "wakeful_sessions_managed": {(): sum(each.subject.is_managed for each in shown)},
        "wakeful_sessions_folded": {(): len(registry.ids()) - len(shown)},
        "wakeful_attention": samples_for_all(Attention, attention),
        "wakeful_findings": samples_for_all(FindingCode, findings),
        "wakeful_expected_waits": samples_for_all(WaitKind, waits),
    }


def samples_for_all(values: Iterable[StrEnum], counted: Mapping[Any, int]) -> dict[Labels, float]:
    """One sample for every value of a closed list, including those with count 0."""
    return {(value,): counted.get(value, 0) for value in values}
