"""The values of an account. They are made by `account.taking` and shown by every command; nothing here reads
a store.

A count is of pairs of message and queue: a message in two queues counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from journalfs.account.advice import DEEP_ONLY, NOTES


class Standing(StrEnum):
    """What became of messages."""

    LIVE = "live"
    SCHEDULED = "scheduled"
    """Due later."""
    PREPARED = "prepared"
    """Sent, or acknowledged, by a prepared transaction."""
    UNDECIDED = "undecided"
    """Of a transaction whose end is lost."""
    DAMAGED = "damaged"
    """There, and not what was written."""
    MISSING = "missing"
    """Not there."""


class Bound(StrEnum):
    """How far a count can be believed."""

    EXACT = "exact"
    AT_LEAST = "at-least"
    AT_MOST = "at-most"
    UNKNOWN = "unknown"


class Count(msgspec.Struct, frozen=True):
    """A number of messages. `messages` is None where nothing bounds it."""

    messages: int | None
    bound: Bound

    def text(self) -> str:
        """Return the count as people write it."""
        match self.bound:
            case Bound.EXACT:
                return f"{self.messages:,}"
            case Bound.AT_LEAST:
                return f"at least {self.messages:,}"
            case Bound.AT_MOST:
                return f"at most {self.messages:,}"
            case Bound.UNKNOWN:
                return "an unknown number of"

    @property
    def least(self) -> int:
        """The smallest number that the count allows."""
        return self.messages or 0 if self.bound in (Bound.EXACT, Bound.AT_LEAST) else 0

    @property
    def most(self) -> int | None:
        """The largest number that the count allows; None: nothing bounds it."""
        return self.messages if self.bound in (Bound.EXACT, Bound.AT_MOST) else None

    def __add__(self, other: object) -> Count:
        """Return a count that both together allow."""
        if not isinstance(other, Count):
            return NotImplemented
        least = self.least + other.least
        if self.most is None or other.most is None:
            return at_least(least) if least else UNKNOWN
        most = self.most + other.most
        return exactly(most) if least == most else at_most(most)


def exactly(messages: int) -> Count:
    return Count(messages, Bound.EXACT)


def at_least(messages: int) -> Count:
    return Count(messages, Bound.AT_LEAST)


def at_most(messages: int) -> Count:
    return Count(messages, Bound.AT_MOST)


NONE: Final = exactly(0)
UNKNOWN: Final = Count(None, Bound.UNKNOWN)


class Entry(msgspec.Struct, frozen=True):
    """One place of a store where something is not plainly live."""

    standing: Standing
    queue: str | None
    """`address::queue`, as commands print it; None: the whole store, or it is not known."""
    kind: str
    """A stable word for programs."""
    file: str
    """As `damage.name_of` gives it; the name of a message where it is not known in which file that is."""
    offset: int | None
    """None where `file` is no place in a file."""
    bytes: int | None
    """0 where something is missing rather than there and wrong."""
    reason: str
    do: str
    """What helps."""
    messages: Count
    certain: bool = True
    """False: something may be missing, and what is there does not prove it."""
    transaction: str | None = None
    """The name of its directory in `.journalfs/transactions`."""
    id: int | None = None
    """Of the one message that the entry is about."""

    @property
    def is_harmless(self) -> bool:
        """True where the store lacks nothing by it: later and prepared messages, and remains."""
        return self.kind in NOTES or self.standing in (Standing.SCHEDULED, Standing.PREPARED)

    def json(self) -> Mapping[str, object]:
        """Return the entry as `--json` shows it: always the same keys."""
        return {
            "standing": self.standing.value, "queue": self.queue, "kind": self.kind, "file": self.file,
            "offset": self.offset, "bytes": self.bytes, "reason": self.reason, "do": self.do,
            "messages": self.messages.messages, "bound": self.messages.bound.value,
            "certain": self.certain, "transaction": self.transaction, "id": self.id,
        }  # fmt: skip


class Totals(msgspec.Struct, frozen=True):
    """How many messages stand how, of a queue or of a store. Each counts in one of the fields."""

    live: int = 0
    """Due, intact, and in no transaction."""
    scheduled: int = 0
    prepared: int = 0
    undecided: int = 0
    damaged: int = 0
    """Messages that are there and cannot be read whole. Bytes that hold nobody knows what are no messages."""
    missing: Count = NONE

    @property
    def there(self) -> int:
        """All that the store has of them, however they stand."""
        return self.live + self.scheduled + self.prepared + self.undecided + self.damaged

    def __add__(self, other: object) -> Totals:
        if not isinstance(other, Totals):
            return NotImplemented
        return Totals(
            self.live + other.live,
            self.scheduled + other.scheduled,
            self.prepared + other.prepared,
            self.undecided + other.undecided,
            self.damaged + other.damaged,
            self.missing + other.missing,
        )

    def text(self) -> str:
        """Return a sentence of what there is, and of what there is not."""
        others = {
            "due later": self.scheduled, "in prepared transactions": self.prepared,
            "undecided": self.undecided, "damaged": self.damaged,
        }  # fmt: skip
        parts = [f"{self.live:,} live", *(f"{count:,} {what}" for what, count in others.items() if count)]
        if self.missing != NONE:
            parts.append(f"{self.missing.text()} missing")
        return ", ".join(parts)

    def json(self) -> Mapping[str, object]:
        return {
            "live": self.live, "scheduled": self.scheduled, "prepared": self.prepared,
            "undecided": self.undecided, "damaged": self.damaged,
            "missing": {"messages": self.missing.messages, "bound": self.missing.bound.value},
        }  # fmt: skip


class Account(msgspec.Struct, frozen=True):
    """What a store has, has not, and why."""

    source: str
    """The store, as it was named."""
    entries: Sequence[Entry]
    """Everything that is not plainly live, place by place."""
    queues: Mapping[str, Totals]
    """By `address::queue`; lost queues too, and queues that only transactions or missing messages name."""
    totals: Totals
    """Of the whole store: of all queues, and what belongs to no known queue."""
    not_looked_at: Sequence[str] = DEEP_ONLY
    """Kinds of damage that were not looked for, or not everywhere; none after `check --deep`."""

    @property
    def whole(self) -> bool:
        """True where nothing is damaged, undecided because of damage, or missing, be it only possibly."""
        return all(entry.is_harmless for entry in self.entries)

    @property
    def losses(self) -> Sequence[Entry]:
        """The entries for which the store is not whole."""
        return [entry for entry in self.entries if not entry.is_harmless]

    def json_rows(self) -> Iterator[Mapping[str, object]]:
        """One row an entry, with stable keys."""
        return (entry.json() for entry in self.entries)

    def lines(self) -> Iterator[str]:
        """Yield sentences for people: the whole, then each queue of which something is not plainly live."""
        yield self.totals.text()
        for queue, totals in sorted(self.queues.items()):
            if totals.there != totals.live or totals.missing != NONE:
                yield f"{queue}: {totals.text()}"

    def as_json(self) -> Mapping[str, object]:
        """Return the account as one object: what `.journalfs/status.json` has under `account`."""
        return summary(self.entries, self.totals, self.not_looked_at)


def summary(
    entries: Sequence[Entry], totals: Totals, not_looked_at: Sequence[str] = DEEP_ONLY
) -> Mapping[str, object]:
    """Return totals, how many entries there are of each kind, and which kinds were not looked for."""
    kinds: dict[str, int] = {}
    for entry in entries:
        kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
    whole = all(entry.is_harmless for entry in entries)
    return {
        "whole": whole,
        **totals.json(),
        "entries": len(entries),
        "kinds": dict(sorted(kinds.items())),
        "notLookedAt": list(not_looked_at),
    }
