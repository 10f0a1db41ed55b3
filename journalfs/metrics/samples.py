"""Measured values by metric and labels, as Prometheus text, and with the many queues of a store joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from journalfs.metrics.families import BY_NAME, FAMILIES, OF_ADDRESS, OF_QUEUE
from journalfs.showing import printable

if TYPE_CHECKING:
    from journalfs.engine.waiting import Slices

Labels = tuple[str, ...]
"""Values of a family's labels, in its order."""

OTHERS: Final = "(others)"
"""Address and queue of what is joined."""

TOGETHER: Final = 256
"""Samples that are worked on before others may go on."""

_Thing = TypeVar("_Thing")
_ESCAPED: Final = re.compile(r'["\\]')


@dataclass(slots=True)
class Samples:
    """Of one look at a store."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    """By the name of the family. Zero samples of a family: it does not concern the store."""

    def add(self, family: str, value: float, *labels: str) -> None:
        assert len(labels) == len(BY_NAME[family].labels), family
        self.values.setdefault(family, {})[labels] = float(value)

    async def top(self, most: int, slices: Slices) -> Samples:
        """Return the same with samples of at most `most` queues, those with the most messages, and of as many
        addresses; all others are one queue `(others)` of the address `(others)`. So a store of 100,000 queues
        costs Prometheus no more than one of `most`.
        """
        depths = self.values.get("journalfs_queue_messages", {})
        if len(depths) <= most:
            return self
        deepest = await _deepest(depths, most, slices)
        named: dict[Labels, set[Labels]] = {
            OF_QUEUE: set(deepest),
            OF_ADDRESS: {(address,) for address, _ in deepest},
        }
        joined = Samples()
        for name, values in self.values.items():
            labels = BY_NAME[name].labels
            kept = named.get(labels)
            joined.values[name] = values if kept is None else await _joined(name, values, kept, slices)
        return joined

    async def let_go(self, slices: Slices) -> None:
        """Free the samples in steps: of 8,000 queues at once that kept the loop for 60 ms."""
        while self.values:
            self.values.popitem()
            await slices.pause()

    async def text(self, slices: Slices) -> bytes:
        """The format that Prometheus reads: a family after the other."""
        pieces = []
        for piece in self._pieces():
            pieces.append(piece)
            await slices.pause()
        return b"".join(pieces)

    def _pieces(self) -> Iterator[bytes]:
        """The same, some lines at a time."""
        for family in FAMILIES:
            values = self.values.get(family.name)
            if not values:
                continue
            yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n".encode()
            for some in batched(values.items()):
                yield "".join(
                    f"{family.name}{_braces(family.labels, labels)} {value}\n" for labels, value in some
                ).encode()


def batched(found: Iterable[_Thing]) -> Iterator[Sequence[_Thing]]:
    """So many of them at a time as take about a millisecond."""
    left = iter(found)
    while some := tuple(islice(left, TOGETHER)):
        yield some


async def _deepest(depths: Mapping[Labels, float], most: int, slices: Slices) -> list[Labels]:
    """Labels of the queues with the most messages."""
    found: list[tuple[float, Labels]] = []
    for some in batched(depths.items()):
        found = nsmallest(most, [*found, *((-depth, labels) for labels, depth in some)])
        await slices.pause()
    return [labels for _, labels in found]


async def _joined(
    name: str, values: Mapping[Labels, float], kept: set[Labels], slices: Slices
) -> dict[Labels, float]:
    """Samples of a family with one for all labels that are not kept."""
    family = BY_NAME[name]
    found: dict[Labels, float] = {}
    others: float | None = None
    for some in batched(values.items()):
        for labels, value in some:
            if labels in kept:
                found[labels] = value
            elif others is None:
                others = value
            else:
                others = others + value if family.joined == "sum" else max(others, value)
        await slices.pause()
    if others is not None:
        found[(OTHERS,) * len(family.labels)] = others
    return found


def _braces(names: tuple[str, ...], values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{n}="{quoted(v)}"' for n, v in zip(names, values, strict=True)) + "}"


def quoted(value: str) -> str:
    """A label's value: what would be a command to a terminal is escaped as everywhere, and then as the format
    wants it.
    """
    return _ESCAPED.sub(r"\\\g<0>", printable(value))


def of_text(lines: Mapping[str, Mapping[Labels, float]]) -> Samples:
    """Return what a mount's file says, taken apart by its caller; names that this version does not know, of a
    newer mount, are left out.
    """
    return Samples({name: dict(found) for name, found in lines.items() if name in BY_NAME})
