"""Measured values by metric and labels, as Prometheus text, and with the many queues of a store joined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from journalfs.metrics.families import BY_NAME, FAMILIES, OF_ADDRESS, OF_QUEUE
from journalfs.showing import printable

Labels = tuple[str, ...]
"""Values of a family's labels, in its order."""

OTHERS: Final = "(others)"
"""Address and queue of what is joined."""

_ESCAPED: Final = re.compile(r'["\\]')


@dataclass(slots=True)
class Samples:
    """Of one look at a store."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    """By the name of the family. Zero samples of a family: it does not concern the store."""

    def add(self, family: str, value: float, *labels: str) -> None:
        assert len(labels) == len(BY_NAME[family].labels), family
        self.values.setdefault(family, {})[labels] = float(value)

    def top(self, most: int) -> Samples:
        """Return the same with samples of at most `most` queues, those with the most messages, and of as many
        addresses; all others are one queue `(others)` of the address `(others)`. So a store of 100,000 queues
        costs Prometheus no more than one of `most`.
        """
        depths = self.values.get("journalfs_queue_messages", {})
        if len(depths) <= most:
            return self
        deepest = sorted(depths, key=lambda one: (-depths[one], one))[:most]
        names: dict[tuple[str, ...], set[Labels]] = {
            OF_QUEUE: set(deepest),
            OF_ADDRESS: {(address,) for address, _ in deepest},
        }
        joined = Samples()
        for name, values in self.values.items():
            family = BY_NAME[name]
            kept: dict[Labels, float] = {}
            others: list[float] = []
            named = names.get(family.labels)
            for labels, value in values.items():
                if named is None or labels in named:
                    kept[labels] = value
                else:
                    others.append(value)
            if others:
                kept[(OTHERS,) * len(family.labels)] = sum(others) if family.joined == "sum" else max(others)
            joined.values[name] = kept
        return joined

    def text(self) -> bytes:
        """The format that Prometheus reads: a family after the other."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The same, a piece for each family."""
        for family in FAMILIES:
            values = self.values.get(family.name)
            if values:
                yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n".encode()
                yield "".join(
                    f"{family.name}{_braces(family.labels, labels)} {value}\n"
                    for labels, value in values.items()
                ).encode()


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
