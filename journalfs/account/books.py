"""The books of a command that makes something of a store: what the source had = what was carried + what was
not, by queue and by reason.

`convert`, `recover`, `repair`, `export`, `import`, `restore`, `replay`, `backup`, `compact`, pipelines and
Spark's reader make one at their end. Nothing here reads a store: the source's side is the account that was
taken of it, the other side is counted by the command in what it made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from journalfs.account.entries import NONE, Account, Bound, Count, Standing, Totals, exactly
from journalfs.errors import EXIT_DAMAGED, EXIT_OK, BooksDoNotBalance

NOT_ASKED_FOR: Final = "not-asked-for"
"""Standing of what the caller chose to leave (`--queue`, `--where`, `--since`, …)."""

CONSUMED: Final = "consumed"
"""Standing of messages that were acknowledged or rolled back and are still on the disk (`recover`)."""

NO_QUEUE: Final = "(no known queue)"
"""Key of messages of which it is not known in which queue they are."""


class NotCarried(msgspec.Struct, frozen=True):
    """Messages of the source that are not in what was made."""

    queue: str | None
    """`address::queue` as the source calls it; None: it is not known."""
    standing: str
    """A `Standing`, `NOT_ASKED_FOR` or `CONSUMED`."""
    reason: str
    messages: Count
    kind: str
    """A stable word, as an entry of the account has it."""
    asked: bool
    """True where the caller chose to leave them."""

    @property
    def was_there(self) -> bool:
        """True for messages that the source still had: missing ones are in neither sum."""
        return self.standing != Standing.MISSING

    def json(self) -> Mapping[str, object]:
        """Return the row as `--json` and `made-from.json` show it: always the same keys."""
        return {
            "queue": self.queue, "standing": str(self.standing), "kind": self.kind, "reason": self.reason,
            "messages": self.messages.messages, "bound": self.messages.bound.value, "asked": self.asked,
        }  # fmt: skip


class SetAside(msgspec.Struct, frozen=True):
    """Messages of the source that were carried into another queue than their own."""

    queue: str | None
    """Of the source."""
    into: str
    """Of what was made."""
    standing: str
    messages: int
    reason: str

    def json(self) -> Mapping[str, object]:
        return {
            "queue": self.queue, "into": self.into, "standing": str(self.standing),
            "messages": self.messages, "reason": self.reason,
        }  # fmt: skip


class Books(msgspec.Struct, frozen=True):
    """What became of all messages of a source. A count is of pairs of message and queue."""

    source: Mapping[str, Totals]
    """What the source had, by `address::queue`; `NO_QUEUE` for what is in no known queue."""
    carried: Mapping[str, int]
    """How many of them are in what was made, in the queue of the same (or the renamed) name."""
    not_carried: Sequence[NotCarried] = ()
    renamed: Mapping[str, str] = {}
    """What queues are called in what was made, where that is another name."""
    set_aside: Sequence[SetAside] = ()
    consumed: Mapping[str, int] = {}
    """Messages that the source had consumed and that were on its disk, where these count (`recover`)."""
    whole: bool = True
    """Nothing of the source is damaged, undecided because of damage, or missing (`Account.whole`)."""
    made: str = "NEW"
    """What the table calls that which was made."""

    @classmethod
    def of(
        cls,
        account: Account,
        carried: Mapping[str, int],
        not_carried: Sequence[NotCarried] = (),
        *,
        renamed: Mapping[str, str] | None = None,
        set_aside: Sequence[SetAside] = (),
        consumed: Mapping[str, int] | None = None,
        made: str = "NEW",
    ) -> Books:
        """Return the books of an account. What it misses is added to what is not carried."""
        source = {queue: totals for queue, totals in account.queues.items() if totals != Totals()}
        rest = account.totals.there - sum(one.there for one in source.values())
        if rest > 0:
            source[NO_QUEUE] = Totals(undecided=rest)
        missing = [
            NotCarried(one.queue, Standing.MISSING, one.reason, one.messages, one.kind, asked=False)
            for one in account.losses
            if one.standing is Standing.MISSING
        ]
        return cls(
            source=source,
            carried={queue: count for queue, count in carried.items() if count},
            not_carried=[*not_carried, *missing],
            renamed=renamed or {},
            set_aside=list(set_aside),
            consumed=consumed or {},
            whole=account.whole,
            made=made,
        )

    # ---- sums ----

    def source_total(self) -> int:
        return sum(one.there for one in self.source.values()) + sum(self.consumed.values())

    def carried_total(self) -> int:
        """All that is in what was made: in its own queues, and set aside."""
        return sum(self.carried.values()) + sum(one.messages for one in self.set_aside)

    def balance(self) -> None:
        """Raise `BooksDoNotBalance` unless for each queue the source had what was carried, what was set
        aside and what was not carried. Rows whose count is no exact one are told, and take no part.
        """
        left: Counter[str] = Counter(self.carried)
        for aside in self.set_aside:
            left[aside.queue or NO_QUEUE] += aside.messages
        inexact: set[str] = set()
        for one in self.not_carried:
            if one.was_there and one.messages.bound is Bound.EXACT:
                left[one.queue or NO_QUEUE] += one.messages.messages or 0
            elif one.was_there:
                inexact.add(one.queue or NO_QUEUE)
        had = Counter({queue: totals.there for queue, totals in self.source.items()})
        had.update(self.consumed)
        for queue in sorted(had.keys() | left.keys()):
            if had[queue] != left[queue] and queue not in inexact:
                raise BooksDoNotBalance(queue, had[queue], left[queue], self.made)

    @property
    def is_complete(self) -> bool:
        """True where all is carried that was asked for."""
        lost = (one for one in self.not_carried if not one.asked)
        return self.whole and all(one.messages == NONE for one in lost)

    @property
    def exit_code(self) -> int:
        return EXIT_OK if self.is_complete else EXIT_DAMAGED

    # ---- showing ----

    def sentence(self) -> str:
        """Return the sums in one line."""
        text = f"source {self.source_total():,}; in {self.made} {self.carried_total():,}"
        aside = _told((one.standing, one.messages, f"in {one.into}") for one in self.set_aside)
        text += f", of these {aside}" if aside else ""
        rows = [one for one in self.not_carried if one.messages != NONE]
        there = _told((one.standing, one.messages.messages or 0, None) for one in rows if one.was_there)
        text += f"; not in {self.made}: {there or 0}"
        missing = sum((one.messages for one in rows if not one.was_there), start=NONE)
        return text + (f"; missing in the source: {missing.text()}" if missing != NONE else "")

    def lines(self) -> Iterator[str]:
        """Yield the table for people: the sums, one line for each option that left messages, then each queue
        of which something else was not carried, or was set aside.
        """
        yield self.sentence()
        yield from self._left_by_options()
        asides: dict[str, list[SetAside]] = {}
        for aside in self.set_aside:
            asides.setdefault(aside.queue or NO_QUEUE, []).append(aside)
        lost: dict[str, list[NotCarried]] = {}
        for one in self.not_carried:
            if one.messages != NONE and one.standing != NOT_ASKED_FOR:
                lost.setdefault(one.queue or NO_QUEUE, []).append(one)
        for queue in sorted(self.source.keys() | self.consumed.keys() | asides.keys() | lost.keys()):
            if queue not in asides and queue not in lost:
                continue
            had = self.source.get(queue, Totals()).there + self.consumed.get(queue, 0)
            yield f"{queue}: source {had:,}; in {self.made} {self.carried.get(queue, 0):,}"
            for aside in asides.get(queue, ()):
                yield f"  in {aside.into}: {aside.messages:,} {aside.standing}: {aside.reason}"
            for one in lost.get(queue, ()):
                yield f"  not in {self.made}: {one.messages.text()} {one.standing}: {one.reason}"

    def _left_by_options(self) -> Iterator[str]:
        """Yield how many messages of how many queues each option left."""
        rows: dict[str, list[NotCarried]] = {}
        for one in self.not_carried:
            if one.standing == NOT_ASKED_FOR and one.messages != NONE:
                rows.setdefault(one.reason, []).append(one)
        for reason, found in rows.items():
            count = sum((one.messages for one in found), start=NONE)
            queues = len({one.queue for one in found})
            of = found[0].queue or NO_QUEUE if queues == 1 else f"{queues} queues"
            yield f"not in {self.made}: {count.text()} {NOT_ASKED_FOR} of {of}: {reason}"

    def as_json(self) -> Mapping[str, object]:
        """Return what `--json` and `made-from.json` have under `books`."""
        return {
            "source": {queue: one.json() for queue, one in sorted(self.source.items())},
            "consumed": dict(sorted(self.consumed.items())),
            "carried": dict(sorted(self.carried.items())),
            "renamed": dict(sorted(self.renamed.items())),
            "setAside": [one.json() for one in self.set_aside],
            "notCarried": [one.json() for one in self.not_carried],
            "sourceMessages": self.source_total(),
            "carriedMessages": self.carried_total(),
            "sourceWhole": self.whole,
            "complete": self.is_complete,
        }


def not_asked_for(queue: str, messages: int, reason: str) -> NotCarried:
    """Return the row of what the caller chose to leave; `reason` names the option."""
    return NotCarried(queue, NOT_ASKED_FOR, reason, exactly(messages), "filtered", asked=True)


def _told(rows: Iterator[tuple[str, int, str | None]]) -> str:
    """Return counts by standing, and by where they are: `495 undecided in undecided.1033, 5 damaged`."""
    counts: Counter[tuple[str, str | None]] = Counter()
    for standing, messages, where in rows:
        counts[str(standing), where] += messages
    return ", ".join(
        f"{count:,} {standing}" + (f" {where}" if where else "")
        for (standing, where), count in sorted(counts.items(), key=lambda item: str(item[0]))
        if count
    )
