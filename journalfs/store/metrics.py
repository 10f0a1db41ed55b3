"""The store's numbers as Prometheus text, under names that operators of brokers know."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from journalfs.errors import DependencyMissing
from journalfs.store.settings import settings_in_force

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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
    settings = settings_in_force(store.core)
    without = {one.name for one in store.addresses() if settings.value(one.name, "enable-metrics") is False}
    for queue in store.queues():
        address = queue.model.address
        if address in without:
            continue
        counts.labels(address, queue.name).set(len(queue))
        sizes.labels(address, queue.name).set(queue.content.state.queue(queue.slot).live_bytes)
    pages = Gauge("journalfs_number_of_pages", "Page files.", ("address",), registry=registry)
    for name, paged in store.core.pages.items():
        if name in without:
            continue
        pages.labels(name).set(len(paged.files))
    _limit_metrics(store, registry, without)
    damage = Gauge("journalfs_damaged_places", "Places of the store that cannot be read.", registry=registry)
    damage.set(len(store.core.damage()))
    return generate_latest(registry)


def _limit_metrics(store: JournalStore, registry: CollectorRegistry, without: Set[str]) -> None:
    """What addresses hold, and what their limits do to those who publish."""
    from prometheus_client import Counter, Gauge  # noqa: PLC0415 - as above

    of = ("address",)
    sizes = Gauge(
        "journalfs_address_size_bytes",
        "What an address's messages would take in a broker's memory.",
        of,
        registry=registry,
    )
    acting = Gauge("journalfs_limit_reached", "1 while a limit acts on an address.", of, registry=registry)
    waiting = Gauge("journalfs_blocked_writers", "Writers that wait for room.", of, registry=registry)
    dropped = Counter("journalfs_dropped_messages", "Messages dropped since mounting.", of, registry=registry)
    for address in store.addresses():
        if address.name in without:
            continue
        sizes.labels(address.name).set(address.held().size_bytes)
        limits = store.core.limits_of(address.name)
        if limits is not None:
            acting.labels(address.name).set(limits.limit is not None)
            waiting.labels(address.name).set(limits.blocked_writers)
            dropped.labels(address.name).inc(limits.dropped_messages)
