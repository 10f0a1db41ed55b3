"""A new store of which C writes most: whole files of HornetQ and Artemis 1.x, rows of tables, and messages of
ActiveMQ 5, each as records of the current format.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.records.new_store import JournalFiles, NewStore
from journalfs.records.older.rewriting import (
    Counts,
    OpenWireBatch,
    Rewritten,
    TableRows,
    rewrite_journal,
    table_records,
)

_ANY_BYTES: Final = 1 << 62


class RewritingFiles(JournalFiles):
    """Journal files that also take the records that C made of another format."""

    def __init__(
        self, directory: Path, prefix: str, extension: str, file_bytes: int, *, lasting: bool = False
    ) -> None:
        super().__init__(directory, prefix, extension, file_bytes, lasting=lasting)
        self._rewritten = Counts()
        """Records of each transaction among those that C made."""

    def begin(self, file_id: int, name: str | None = None) -> None:
        self._rewritten.next_output()
        super().begin(file_id, name)

    def take_over(self, mapped: MappedFile, scan: Scan, flags: int) -> int:
        """Append every record of a file of another journal, as `rewrite_journal` writes it. Return how many
        messages are not as their place requires.
        """
        self._rewritten.next_source()
        return self._rewrite(partial(rewrite_journal, self._rewritten, mapped, scan, flags=flags), len(scan))

    def take_rows(self, rows: TableRows) -> None:
        """Append the records that rows of a table hold."""
        self._rewritten.next_source()  # no file is read: the counts of an earlier one are forgotten
        self._rewrite(partial(table_records, self._rewritten, rows), len(rows.ids))

    def _rewrite(self, rewrite: Callable[..., tuple[Rewritten, int]], count: int) -> int:
        """Append `count` records, in as many pieces as there are files for them."""
        undecoded = first = 0
        self.make_room(0)
        while True:
            room_bytes = max(self._file_bytes - self._size_bytes, 0)
            rewritten, first = rewrite(first=first, rid=self.rid, room_bytes=room_bytes, empty=self.is_empty)
            self.put(rewritten.memory)
            self._flush(rewritten)
            undecoded += rewritten.undecoded
            if first == count:
                return undecoded
            self.begin(self._file_id + 1)

    def take_openwire(self, batch: OpenWireBatch, first: int, message_id: int, body_bytes_max: int) -> int:
        """Append records of messages of ActiveMQ 5 from number `first` on, the first with that id. Return
        the number of the first message of which C made no record: the caller makes that one.
        """
        self.make_room(0)
        made, done = batch.records(
            first,
            message_id=message_id,
            rid=self.rid,
            room_bytes=max(self._file_bytes - self._size_bytes, 0),
            body_bytes_max=body_bytes_max,
        )
        self.put(made.memory)
        self._flush(made)
        return done


class DerivedStore(NewStore):
    """The store that an adapter fills. The package says which methods an adapter calls."""

    files_type: ClassVar[type[JournalFiles]] = RewritingFiles

    def __init__(
        self,
        place: Path,
        advance: Callable[[int], None] = lambda count: None,
        *,
        flags: int = 0,
        file_bytes: int | None = None,
    ) -> None:
        """`flags` of `rewriting` say how names change, and whether acknowledged messages count."""
        super().__init__(place, advance, file_bytes=file_bytes)
        self.flags = flags

    @property
    def _rewriting(self) -> RewritingFiles:
        files = self._journal
        assert isinstance(files, RewritingFiles)
        return files

    def take_over(self, mapped: MappedFile, scan: Scan, file_id: int, name: str, flags: int) -> int:
        """Append every record of a file of another message journal. In a store for reading the file keeps its
        id and its name (without extension). Return how many messages are not as their place requires.
        """
        if self._file_bytes is None:
            self._messages = self._messages or self._new_files(_ANY_BYTES)
            self._messages.begin(file_id, name)
        return self._rewriting.take_over(mapped, scan, flags)

    def rows(self, rows: TableRows) -> None:
        """Append the records that rows of a table of messages hold."""
        self._rewriting.take_rows(rows)

    def openwire(self, batch: OpenWireBatch, first: int) -> int:
        """Append messages of ActiveMQ 5 from number `first` of a batch on, each with an id of its own. Return
        the number of the first message that C does not make, for `message`, or the count of the batch.
        """
        done = self._rewriting.take_openwire(batch, first, self._next_id, self.RECORD_BYTES_MAX)
        self._next_id += done - first
        return done
