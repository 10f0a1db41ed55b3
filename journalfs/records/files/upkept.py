"""What the upkeep of a log sees of whoever appends to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from journalfs.clock import Clock
    from journalfs.engine.backend import Backend
    from journalfs.engine.committer import Committer
    from journalfs.engine.ledger import Ledger
    from journalfs.engine.waiting import Bell
    from journalfs.ids import Position
    from journalfs.records.files.pool import FilePool, WriteFile
    from journalfs.records.files.retention import Retention
    from journalfs.records.files.write_settings import WriteSettings


class UpkeptJournal(Protocol):
    """See `journalfs.records.files.writer.JournalWriter`."""

    backend: Backend
    settings: WriteSettings
    clock: Clock
    ledger: Ledger
    pool: FilePool
    data: list[WriteFile]
    ready_file: WriteFile | None
    short_of_space: bool
    before_emptying: Callable[[], Awaitable[None]]
    retention: Retention | None
    bell: Bell
    committer: Committer

    @property
    def current(self) -> WriteFile: ...

    @property
    def position(self) -> Position: ...

    @property
    def room_is_wanted(self) -> bool: ...

    def switch(self, *, for_add: bool = False, above: int = 0) -> None: ...

    def drain(self) -> None: ...

    def could_go_on(self) -> bool: ...

    def refuse_last_file(self) -> None: ...

    def unretained(self) -> list[WriteFile]: ...

    def release_handles(self) -> None: ...

    def replace_files(self, ledger: Ledger, data: list[WriteFile]) -> None: ...

    def forget_file(self, file: WriteFile) -> None: ...
