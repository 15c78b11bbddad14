"""Metrics in the OpenMetrics format, by Prometheus' client, which takes 0.1 s to import at the first scrape.

The table in `metrics.model` defines what is exported; nothing is counted here.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from wakeful.metrics.model import (
    FAMILIES,
    SECONDS_BOUNDS,
    Family,
    Histogram,
    Labels,
    MetricKind,
    MetricSamples,
)

_OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"
_BOUNDS: Final = (*map(str, SECONDS_BOUNDS), "+Inf")


class Exposition:
    """Makes the text of each scrape. `figures` is called for each."""

    def __init__(self, figures: Callable[[], MetricSamples]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_MetricsCollector(figures))
        # Memory, CPU time and descriptors of the process.
        ProcessCollector(registry=self._registry)

    def text(self, accept: str) -> tuple[bytes, str]:
        """The body and its media type: OpenMetrics, unless the client accepts only the older text format."""
        encode, media_type = choose_encoder(accept if "text/plain" in accept else _OPEN_METRICS)
        return encode(self._registry), media_type


class _MetricsCollector(Collector):
    def __init__(self, figures: Callable[[], MetricSamples]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures()
        for family in FAMILIES:
            yield _metric(family, figures.get(family.name, {}))


def _metric(family: Family, samples: Mapping[Labels, float | Histogram]) -> Metric:
    match family.kind:
        case MetricKind.GAUGE:
            return _number_metric(
                GaugeMetricFamily(family.name, family.meaning, labels=family.labels), samples
            )
        case MetricKind.COUNTER:
            return _number_metric(
                CounterMetricFamily(family.name, family.meaning, labels=family.labels), samples
            )
        case MetricKind.INFO:
            info = InfoMetricFamily(family.name, family.meaning)
            for values in samples:
                info.add_metric((), dict(zip(family.labels, values, strict=True)))
            return info
        case MetricKind.HISTOGRAM:
            return _histogram_metric(family, samples)


def _number_metric(
    metric: GaugeMetricFamily | CounterMetricFamily, samples: Mapping[Labels, float | Histogram]
) -> Metric:
    for values, count in samples.items():
        assert not isinstance(count, Histogram), "only a histogram family has histograms"
        metric.add_metric(values, count)
    return metric


def _histogram_metric(family: Family, samples: Mapping[Labels, float | Histogram]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.meaning, labels=family.labels)
    for values, histogram in samples.items():
        assert isinstance(histogram, Histogram), "a histogram family has histograms only"
        # Prometheus counts everything up to each bound.
        buckets = list(zip(_BOUNDS, accumulate(histogram.counts), strict=True))
        metric.add_metric(values, buckets, histogram.total_seconds)
    return metric
