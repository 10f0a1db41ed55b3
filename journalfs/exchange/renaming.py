"""Which queue of one store is which queue of another, where a conversion gave them other names.

`journalfs diff` uses it. Names come from `made-from.json` of the converted store, or from the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from journalfs import door
from journalfs.errors import WrongCall

MADE_FROM: Final = Path("journalfs", "made-from.json")
SEPARATOR: Final = "::"
MADE_FROM_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names of queues (`ADDRESS::QUEUE`) in the first store -> in the second. A name without `::` is an
    address: on that side there is no queue.
    """

    queues: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Names of addresses, and of queues, wherever they stand: what the caller gave without `::`."""

    @classmethod
    def of_options(cls, given: Iterable[str]) -> Self:
        """Return the renaming that `OLD=NEW` options say: `ADDRESS::QUEUE` for one queue, or a name that an
        address, and a queue of it, has. Raises `WrongCall`.
        """
        queues: dict[str, str] = {}
        names: dict[str, str] = {}
        for one in given:
            old, equals, new = one.partition("=")
            if not equals or not old or not new or (SEPARATOR in old) != (SEPARATOR in new):
                raise WrongCall(f"--renamed {one}: say OLD=NEW, both as ADDRESS::QUEUE or both as ADDRESS")
            (queues if SEPARATOR in old else names)[old] = new
        return cls(queues, names)

    def __bool__(self) -> bool:
        return bool(self.queues or self.addresses)

    def new(self, name: str) -> str:
        """Return what the second store calls a queue of the first."""
        if name in self.queues:
            return self.queues[name]
        if not self.addresses:
            return name
        address, separator, queue = name.partition(SEPARATOR)
        return self.addresses.get(address, address) + separator + self.addresses.get(queue, queue)

    def reversed(self) -> Renaming:
        """Return the same for the two stores the other way round."""
        return Renaming(
            {new: old for old, new in self.queues.items()}, {new: old for old, new in self.addresses.items()}
        )

    def name_maps(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return which address of the first store is which of the second, and the same of queues alone."""
        pairs = [(old.split(SEPARATOR), new.split(SEPARATOR)) for old, new in self.queues.items()]
        return (
            {**{old[0]: new[0] for old, new in pairs}, **self.addresses},
            {**{old[-1]: new[-1] for old, new in pairs}, **self.addresses},
        )


def made_from(root: Path) -> Renaming | None:
    """Return the names that a conversion gave to the queues of the store at `root`; None if it was not
    converted, or no queue has another name. Raises `WrongCall` where its report cannot be read.
    """
    path = root / MADE_FROM
    try:
        found = json.loads(door.read(path, MADE_FROM_BYTES_MAX))["renamed"]
        renamed = {str(old): str(new) for old, new in found.items()}
    except FileNotFoundError:
        return None
    except KeyError:
        return None  # written before this key was
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WrongCall(
            f"{path}: no report of a conversion: {error}; give the names with --renamed"
        ) from error
    return Renaming(renamed) if renamed else None
