"""The store's numbers as Prometheus text, under names that operators of brokers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journalfs.errors import DependencyMissing

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore

INSTALL = "pip install 'journalfs[metrics]'"


def metrics_text(store: JournalStore) -> bytes:
    """Gauges per queue and for the store. Without the library the text is one comment that says what to
    install.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest  # noqa: PLC0415 - optional
    except ImportError:
        missing = DependencyMissing("metrics", package="prometheus-client", install=INSTALL)
        return f"# {missing}\n".encode()
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
