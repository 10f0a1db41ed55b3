"""Which function reads which kind of store. Each is imported when such a store is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from journalfs.config.older import AMQ, ARTEMIS_1, HORNETQ, KAHADB
from journalfs.errors import UnknownVersion

if TYPE_CHECKING:
    from journalfs.older.derived import DerivedStore
    from journalfs.older.reading import Source

CURRENT: Final = "artemis"
"""The kind of a store that is no older one."""

Adapter: TypeAlias = "Callable[[Source, DerivedStore], None]"


def adapter_for(source: Source) -> Adapter:
    """Raises `UnknownVersion` for a kind that is recognised only."""
    if source.kind == AMQ:
        from journalfs.older.amq import fill_amq  # noqa: PLC0415

        return fill_amq
    if source.kind == KAHADB:
        from journalfs.older.kahadb import fill_kahadb  # noqa: PLC0415

        return fill_kahadb
    if source.kind in (HORNETQ, ARTEMIS_1):
        from journalfs.older.hornetq import fill_hornetq  # noqa: PLC0415

        return fill_hornetq
    if source.kind == CURRENT:
        from journalfs.older.current import fill_current  # noqa: PLC0415

        return fill_current
    raise UnknownVersion(source.root, f"a store of kind {source.kind}", advice="it is recognised only")
