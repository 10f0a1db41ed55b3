"""Which function reads which kind of store. Each is imported when such a store is met."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from journalfs.config.older import AMQ, ARTEMIS_1, HORNETQ, KAHADB
from journalfs.errors import UnknownVersion

if TYPE_CHECKING:
    from journalfs.older.derived import DerivedStore

CURRENT: Final = "artemis"
"""The kind of a store that is no older one."""

Adapter: TypeAlias = "Callable[[Any, DerivedStore], None]"
"""Given a `journalfs.older.reading.Source`."""

_ADAPTERS: Final = {
    AMQ: "journalfs.older.amq:fill_amq",
    KAHADB: "journalfs.older.kahadb:fill_kahadb",
    HORNETQ: "journalfs.older.hornetq:fill_hornetq",
    ARTEMIS_1: "journalfs.older.hornetq:fill_hornetq",
    CURRENT: "journalfs.older.current:fill_current",
}


class Kind(Protocol):
    """What says which kind of store it is, and where."""

    @property
    def kind(self) -> str: ...

    @property
    def root(self) -> Path: ...


def adapter_for(source: Kind) -> Adapter:
    """Raises `UnknownVersion` for a kind that is recognised only."""
    found = _ADAPTERS.get(source.kind)
    if found is None:
        raise UnknownVersion(source.root, f"a store of kind {source.kind}", advice="it is recognised only")
    module, _, name = found.partition(":")
    return cast("Adapter", getattr(import_module(module), name))
