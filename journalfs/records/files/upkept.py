"""Protocols through which the upkeep sees the writer of a log and its readers."""

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
    """A reader that follows the journal while it is written. The methods of this class stand
    for no reader.
    """

    async def before_emptying(self) -> None:
        """Awaited before files are emptied whose records nothing needs, or that live on in other files, and
        after some were deleted.
        """
        await checkpoint()

    def holds(self, name: str) -> bool:
        """Return True if a reader still needs the content of a file that has no live record: the file is then
        deleted, which leaves its bytes to open descriptors, and never used again. Called in any thread.
        """
        return False

    def lost_file(self) -> str | None:
        """Return the name of a file that is lost as a whole: removed with records in it, emptied, or only
        zeros. Compaction would leave out what other files say of its messages, and the file may be put back.
        None: no file is lost.
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
