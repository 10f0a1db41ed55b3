"""Hands samples to prometheus-client, which serves them over HTTP or writes them for node_exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from journalfs.errors import DependencyMissing
from journalfs.metrics.families import COUNTER, FAMILIES
from journalfs.metrics.samples import Labels, Samples, of_text

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry


def require_client() -> None:
    """Raise DependencyMissing where prometheus-client is not installed."""
    try:
        import prometheus_client  # noqa: F401, PLC0415 - an optional library
    except ImportError:
        raise DependencyMissing(
            "journalfs metrics", package="prometheus-client", install="pip install 'journalfs[metrics]'"
        ) from None


def parsed(text: bytes) -> Samples:
    """Return the samples of a mount's file."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - optional

    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = tuple(sample.labels.values())
            found.setdefault(sample.name, {})[labels] = sample.value
    return of_text(found)


class StoreCollector:
    """What a registry of prometheus-client asks at each scrape."""

    def __init__(self, store: str, look: Callable[[], Samples]) -> None:
        """`store` is the value of the label that every sample has; `look` never raises."""
        self._store = store
        self._look = look

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as above

        samples = self._look()
        for family in FAMILIES:
            values = samples.values.get(family.name)
            if not values:
                continue
            kind = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=["store", *family.labels])
            for labels, value in values.items():
                metric.add_metric([self._store, *labels], value)
            yield metric


def registry_of(store: str, look: Callable[[], Samples]) -> CollectorRegistry:
    """Return a registry with the metrics of one store."""
    from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415 - as above

    registry = CollectorRegistry()
    registry.register(StoreCollector(store, look))
    return registry
