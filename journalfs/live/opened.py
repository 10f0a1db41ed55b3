"""What the parts of an open store see of the whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from journalfs.bindings.model import BindingsState
    from journalfs.bodies.directory import LargeDirectory
    from journalfs.clock import Clock
    from journalfs.config.layout import StoreLayout
    from journalfs.damage import Damage
    from journalfs.live.changes import Changes
    from journalfs.pages.address import PagedAddress
    from journalfs.pages.cursors import Cursors
    from journalfs.pages.folders import PagingDirectory
    from journalfs.records.files.loader import JournalLoader
    from journalfs.records.older.reading import Description


class OpenStore(Protocol):
    """See `journalfs.live.core.Core`."""

    layout: StoreLayout
    clock: Clock
    bindings: BindingsState
    bindings_damage: tuple[Damage, ...]
    large: LargeDirectory
    pages: dict[str, PagedAddress]
    cursors: Cursors
    changes: Changes
    paging: PagingDirectory
    derived: Description | None
    live_broker: bool
    epoch: int

    @property
    def look_again(self) -> Callable[[], None]: ...

    @property
    def root(self) -> Path: ...

    @property
    def shown(self) -> str: ...

    @property
    def loader(self) -> JournalLoader: ...

    def measure(self) -> None: ...

    def doubt_journal(self) -> None: ...
