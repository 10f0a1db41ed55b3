"""The store's numbers as Prometheus text, under names that operators of brokers know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from journalfs.engine.waiting import Slices
from journalfs.showing import printable
from journalfs.store.selections import SELECTIONS
from journalfs.store.settings import settings_in_force

if TYPE_CHECKING:
    from journalfs.store.core import Core
    from journalfs.store.queues import StoreAddress

_ESCAPED: Final = re.compile(r'["\\]')


class MeasuredStore(Protocol):
    """See `journalfs.store.store.JournalStore`."""

    core: Core

    def addresses(self) -> Sequence[StoreAddress]: ...

    def status(self) -> Mapping[str, object]: ...


async def metrics_text(store: MeasuredStore, slices: Slices) -> bytes:
    """Gauges per queue and for the store. There may be very many queues: others go on in between."""
    core = store.core
    settings = settings_in_force(core)
    families = {name: bytearray() for name in _FAMILIES}

    def add(family: str, labels: str, value: float) -> None:
        families[family] += f"{family}{labels} {float(value)}\n".encode()

    for address in store.addresses():
        await slices.pause()
        if settings.value(address.name, "enable-metrics") is False:
            continue
        of = f'address="{_quoted(address.name)}"'
        for queue in address.queues():
            await slices.pause()
            labels = f'{{{of},queue="{_quoted(queue.name)}"}}'
            add("journalfs_message_count", labels, queue.content.count())
            body_bytes = queue.content.state.queue(queue.slot).live_bytes
            add("journalfs_persistent_size_bytes", labels, body_bytes)
        of = f"{{{of}}}"
        paged = core.pages.get(address.name)
        if paged is not None:
            add("journalfs_number_of_pages", of, len(paged.files))
        add("journalfs_address_size_bytes", of, address.held().size_bytes)
        limits = core.limits_of(address.name)
        if limits is not None:
            add("journalfs_limit_reached", of, limits.limit is not None)
            add("journalfs_blocked_writers", of, limits.blocked_writers)
            add("journalfs_dropped_messages_total", of, limits.dropped_messages)
    add("journalfs_damaged_places", "", len(core.damage()))
    for name, value in core.lag.status().items():
        if name != "slow":
            add("journalfs_loop_lag_milliseconds", f'{{of="{name}"}}', value)
    add("journalfs_slow_turns_total", "", core.lag.slow)
    if core.lag.front is not None:
        for name, value in core.lag.front.counts().items():
            add("journalfs_front_total", f'{{of="{name}"}}', value)
    add("journalfs_selection_bytes", "", SELECTIONS.size_bytes)
    return b"".join(_text(families))


_FAMILIES: Final = {
    "journalfs_message_count": ("gauge", "Live messages."),
    "journalfs_persistent_size_bytes": ("gauge", "Bytes of live message bodies in the journal."),
    "journalfs_number_of_pages": ("gauge", "Page files."),
    "journalfs_address_size_bytes": ("gauge", "What an address's messages would take in a broker's memory."),
    "journalfs_limit_reached": ("gauge", "1 while a limit acts on an address."),
    "journalfs_blocked_writers": ("gauge", "Writers that wait for room."),
    "journalfs_dropped_messages_total": ("counter", "Messages dropped since mounting."),
    "journalfs_loop_lag_milliseconds": (
        "gauge",
        "How long turns of the event loop took: the longest, and percentiles of the last ones.",
    ),
    "journalfs_slow_turns_total": ("counter", "Turns of over 50 ms, in which nobody else was served."),
    "journalfs_front_total": ("counter", "Requests answered in C, by their names, and why others were not."),
    "journalfs_selection_bytes": ("gauge", "Memory for selections of this process."),
    "journalfs_damaged_places": ("gauge", "Places of the store that cannot be read."),
}


def _text(families: Mapping[str, bytearray]) -> Iterator[bytes | bytearray]:
    """A family after the other, as the format wants it."""
    for name, samples in families.items():
        kind, what = _FAMILIES[name]
        yield f"# HELP {name} {what}\n# TYPE {name} {kind}\n".encode()
        yield samples


def _quoted(name: str) -> str:
    """What would be a command to a terminal is escaped as everywhere, and then as the format wants it."""
    return _ESCAPED.sub(r"\\\g<0>", printable(name))
