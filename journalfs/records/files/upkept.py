"""What the upkeep of a log sees of whoever appends to it, and of whoever reads it beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from journalfs.engine.waiting import checkpoint

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


class JournalReader:
    """Whoever reads a journal beside its writer. As it stands, nobody."""

    async def before_emptying(self) -> None:
        """Awaited before files are emptied whose records nothing needs, or that live on in other files, and
        after some were deleted.
        """
        await checkpoint()

    def holds(self, name: str) -> bool:
        """Whether somebody still reads the content of a file that nothing needs any more: such a file is
        deleted, which leaves its bytes to those who have it open, and never used again. Called in any thread.
        """
        return False

    def lost_file(self) -> str | None:
        """Name of a file of which all is lost: taken away with records in it, emptied, or zeros only. What
        other files say of its messages would be left out of what compaction writes, and it may be put back.
        """
        return None

    def while_waiting(self) -> None:
        """The disk has just been given something to do."""


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
    reader: JournalReader
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
