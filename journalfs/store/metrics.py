"""The store's numbers as Prometheus text, under names that operators of brokers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journalfs.errors import DependencyMissing

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore

LIBRARY = "prometheus_client"
INSTALL = "pip install 'journalfs[metrics]'"


def have_metrics() -> bool:
    """Whether the library is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - only a mount's `.journalfs/` asks

    return find_spec(LIBRARY) is not None


def metrics_text(store: JournalStore) -> bytes:
    """Gauges per queue and for the store. Raises `DependencyMissing`, and leaves an event, without the
    library.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest  # noqa: PLC0415 - optional
    except ImportError:
        missing = DependencyMissing(".journalfs/metrics", package="prometheus-client", install=INSTALL)
        if not any(event["message"] == str(missing) for event in store.core.events):
            store.core.events.add(missing.identifier, str(missing))
        raise missing from None
    registry = CollectorRegistry()
    labels = ("address", "queue")
    counts = Gauge("journalfs_message_count", "Live messages.", labels, registry=registry)
    sizes = Gauge(
        "journalfs_persistent_size_bytes",
        "Bytes of live message bodies in the journal.",
        labels,
        registry=registry,
    )
    for queue in store.queues():
        address = queue.model.address
        counts.labels(address, queue.name).set(len(queue))
        sizes.labels(address, queue.name).set(queue.content.state.queue(queue.slot).live_bytes)
    pages = Gauge("journalfs_number_of_pages", "Page files.", ("address",), registry=registry)
    for name, paged in store.core.pages.items():
        pages.labels(name).set(len(paged.files))
    damage = Gauge("journalfs_damaged_places", "Places of the store that cannot be read.", registry=registry)
    damage.set(len(store.core.damage()))
    return generate_latest(registry)
