"""The file in a derived store that says which foreign store it was made of.

A derived store is disposable: it is made again when its source changes, so a writer must refuse it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.config.files import DERIVED_NAME
from journalfs.config.layout import StoreLayout
from journalfs.damage import Damage
from journalfs.errors import OlderStore

FORMAT: Final = 3
"""Version of derived stores; one of another version is made again."""

DESCRIPTION: Final = DERIVED_NAME
"""The file's path in a derived store. A store that has this file is not written."""

DATABASE: Final = "database"
"""Kind of a store in tables."""


class Description(msgspec.Struct, frozen=True):
    """`journalfs/older.json` of a derived store."""

    format: int
    kind: str
    found: str
    source: str
    identity: str
    damage: list[Damage]
    notes: list[tuple[str, str]]
    """Things of the source that have no equal in the current format: a stable word, and a sentence."""
    jms: dict[str, object]
    bodies: str | None = None
    """Directory of the source's large bodies, which are read in place."""


def derived_from(root: Path) -> Description | None:
    """Return the description of the derived store at `root`; None for any other store."""
    try:
        return msgspec.json.decode(door.read(root / DESCRIPTION), type=Description)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError, OSError):
        return None


def refuse_derived(layout: StoreLayout) -> None:
    """Raise `OlderStore` for a derived store: what is written there is lost when it is made again."""
    made_of = derived_from(layout.root)
    if made_of is not None:
        found = f"derived from {made_of.source}, {made_of.found}"
        raise OlderStore(
            layout.root,
            found,
            kind=made_of.kind,
            root=Path(made_of.source),
            journal=layout.journal_dir,
            bindings=layout.bindings_dir,
        )
