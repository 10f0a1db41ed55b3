"""The store's one counter: ids of messages, transactions, records, addresses and queues come from it.

An id is never given twice, not after a crash either: a range is reserved in the bindings journal before any
id of it is used (docs/format/bindings.md, "Ids").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from journalfs.format.record_types import BindingType
from journalfs.ids import RecordId
from journalfs.journal.record_log import Position
from journalfs.journal.writer import JournalWriter

RESERVED: Final = 2**31 - 1
"""Ids reserved at once, as brokers do: after a crash numbering goes on behind them."""

RESERVE_EARLY: Final = 2**24
"""A new range is reserved when so few are left: they last until its record is durable, whatever the disk
does.
"""

_VALUE_BYTES: Final = 8


class IdGenerator:
    """Draws ids. `counters` are the id counter records that the bindings journal holds."""

    def __init__(self, bindings: JournalWriter, *, last: int, counters: Iterable[int]) -> None:
        self._bindings = bindings
        self._last = max(last, 0)
        self._counters = [RecordId(counter) for counter in counters]
        self._reserved = self._last
        self.reserve()

    @property
    def last(self) -> int:
        """The id drawn last."""
        return self._last

    def draw(self) -> int:
        """The next id, above all before it; never 0, which brokers cannot tell from none."""
        self._last += 1
        if self._last >= self._reserved - RESERVE_EARLY:
            self.reserve()
        return self._last

    def draw_many(self, count: int) -> int:
        """The first of so many ids, one after the other. They are fewer than what is reserved early."""
        if self._last + count >= self._reserved - RESERVE_EARLY:
            self.reserve()
        first = self._last + 1
        self._last += count
        return first

    @property
    def end(self) -> int:
        """Ids up to here, and not that one, can be drawn before another range is reserved."""
        return self._reserved - RESERVE_EARLY

    def drawn(self, last: int) -> None:
        """Ids up to `last` were drawn elsewhere."""
        self._last = last

    def reserve(self) -> Position:
        """Stage a record that reserves a range. Ids may be used once it is durable."""
        self._last += 1
        self._reserved = self._last + RESERVED
        return self._write(self._last, self._reserved)

    def settle(self) -> Position:
        """Give back what was reserved and not used, as a clean stop does."""
        self._last += 1
        self._reserved = self._last
        return self._write(self._last, self._last)

    def forget_earlier(self) -> None:
        """Stage deletes of all records but the last one, which must be durable: a store without any would
        count from 0 again.
        """
        for counter in self._counters[:-1]:
            if self._bindings.is_live(counter):
                self._bindings.stage_delete(counter)
        del self._counters[:-1]

    def _write(self, record_id: int, value: int) -> Position:
        self._counters.append(RecordId(record_id))
        return self._bindings.stage_add(
            RecordId(record_id), BindingType.ID_COUNTER, value.to_bytes(_VALUE_BYTES)
        )
