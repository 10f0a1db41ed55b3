"""What keeps each file of a journal from being set free, from the ledger that counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from journalfs.engine.ledger import Ledger


class Accounted(Protocol):
    """A file with records. `slot` is its number in the ledger."""

    @property
    def name(self) -> str: ...

    @property
    def file_id(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def slot(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file with records, and what of it is still needed. Sizes in bytes."""

    name: str
    file_id: int
    size_bytes: int
    live_bytes: int
    live_adds: int
    uncancelled: int
    """Adds, updates and transactions in it that nothing later cancels; 0: only deletes keep it, if anything.
    """
    cancels_earlier: tuple[str, ...]
    """Earlier files that stay and in which it deletes something: without it that would come back."""
    cancelled_by_current: int
    """What of it is cancelled by records of the current file: that counts once another file is begun."""
    current: bool
    """Records are appended to it."""
    reclaimable: bool
    """Nothing needs it."""


def file_reports(ledger: Ledger, files: Sequence[Accounted]) -> list[FileReport]:
    """A report on each of the files, which are given in reading order; the last is the current one."""
    slots = [file.slot for file in files]
    free = set(ledger.reclaimable(slots[:-1]))
    places = {slot: index for index, slot in enumerate(slots)}
    cancels = [
        {places[slot]: count for slot, count in ledger.cancels(file.slot).items() if slot in places}
        for file in files
    ]
    cancelled = Counter[int]()
    for index, found in enumerate(cancels):
        cancelled.update({place: count for place, count in found.items() if place <= index})
    reports = []
    for index, file in enumerate(files):
        counters = ledger.counters(file.slot)
        current = index == len(files) - 1
        earlier = tuple(
            files[place].name
            for place, count in sorted(cancels[index].items())
            if place < index and count and slots[place] not in free
        )
        reports.append(
            FileReport(
                name=file.name,
                file_id=file.file_id,
                size_bytes=file.size_bytes,
                live_bytes=counters.live_bytes,
                live_adds=counters.live_adds,
                uncancelled=max(0, counters.positives - cancelled[index]),
                cancels_earlier=earlier,
                cancelled_by_current=0 if current else cancels[-1].get(index, 0),
                current=current,
                reclaimable=file.slot in free,
            )
        )
    return reports
