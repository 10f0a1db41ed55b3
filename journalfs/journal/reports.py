"""What keeps each file of a journal from being set free, from the ledger that counts it."""

from __future__ import annotations

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
    reports = []
    for index, file in enumerate(files):
        counters = ledger.counters(file.slot)
        current = index == len(files) - 1
        cancelled = sum(ledger.negatives(later, file.slot) for later in slots[index:])
        earlier = tuple(
            other.name
            for other in files[:index]
            if other.slot not in free and ledger.negatives(file.slot, other.slot)
        )
        reports.append(
            FileReport(
                name=file.name,
                file_id=file.file_id,
                size_bytes=file.size_bytes,
                live_bytes=counters.live_bytes,
                live_adds=counters.live_adds,
                uncancelled=max(0, counters.positives - cancelled),
                cancels_earlier=earlier,
                cancelled_by_current=0 if current else ledger.negatives(slots[-1], file.slot),
                current=current,
                reclaimable=file.slot in free,
            )
        )
    return reports
