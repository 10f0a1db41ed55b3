"""Selectors that compare two names of which no message has either: `region = "EU"`, where 'EU' was meant.

A message without both properties satisfies such a comparison, as in a broker, so it accepts every message of
a queue. The mount and the commands ask here before they take messages away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from journalfs.errors import NamesUnset

if TYPE_CHECKING:
    from journalfs.api import View


def unset_names(view: View, selector: str) -> tuple[str, str] | None:
    """Return two names that `selector` compares and that no message of `view` has; None where there are none,
    or no messages.
    """
    for pair, probe in _probes(view, selector):
        if len(view) and not len(probe):
            return pair
    return None


async def find_unset_names(view: View, selector: str) -> tuple[str, str] | None:
    """As `unset_names`, while others go on."""
    for pair, probe in _probes(view, selector):
        await probe.find()
        if len(view) and not len(probe):
            return pair
    return None


async def refuse_unset_names(view: View, selector: str) -> None:
    """Raise `NamesUnset` if `selector` compares two names that no message of `view` has."""
    pair = await find_unset_names(view, selector)
    if pair is not None:
        raise NamesUnset(selector, pair)


def warning(view: View, selector: str) -> str | None:
    """Return what to tell a reader of what `selector` leaves of `view`, if anything."""
    pair = unset_names(view, selector)
    return None if pair is None else str(NamesUnset(selector, pair))


def _probes(view: View, selector: str) -> Iterator[tuple[tuple[str, str], View]]:
    from journalfs.selector import compile_selector  # noqa: PLC0415 - most views are whole queues

    for pair in compile_selector(selector).compared_names:
        yield pair, view.where(_any_of(pair))


def _any_of(names: Sequence[str]) -> str:
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    return " OR ".join(f"{name} IS NOT NULL" for name in quoted)
