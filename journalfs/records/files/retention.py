"""Keeps the history of a journal: a copy of each closed file, in a folder that a broker replays from.

A file is not emptied before its copy is durable. A broker renames a file that waits to be copied, and without
retention does not see it then. This module renames nothing; a file that was not copied when the process ended
is found at the next opening. A file that was copied, or that compaction wrote, must not be appended to: it
would be copied again with the new records.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from journalfs.clock import Clock
from journalfs.engine.backend import Backend, scan_view
from journalfs.engine.checksums import CHECKSUM_USER_TYPE
from journalfs.engine.scan import Scan
from journalfs.format.journal_file import HistoryFileName, parse_history_name
from journalfs.format.record_types import RecordKind
from journalfs.limits import COPY_CHUNK_BYTES
from journalfs.records.files.pool import WriteFile
from journalfs.records.files.rewrite import COUNTED
from journalfs.records.files.write_settings import WriteSettings

log = logging.getLogger(__name__)

TIME_FORMAT: Final = "%Y%m%d%H%M%S"
"""Of the local time of copying, as a broker names copies."""
_NO_DATA: Final = frozenset({RecordKind.EVENT, RecordKind.COMMIT, RecordKind.ROLLBACK})
COMPARED_BYTES: Final = 64 * 1024
"""Of both ends of a file, to know its copy by: every record has an id that no other has."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """None: no limit."""

    period_ms: int | None
    bytes_max: int | None


@dataclass(frozen=True, slots=True)
class _Copy:
    name: str
    parsed: HistoryFileName
    size_bytes: int

    @property
    def order(self) -> tuple[str, int]:
        return self.parsed.copied_at, self.parsed.file_id


class Retention:
    """Use from any thread, one call at a time. Every method may raise OSError."""

    def __init__(
        self,
        journal: Backend,
        history: Backend,
        settings: WriteSettings,
        clock: Clock,
        limits: RetentionLimits,
    ) -> None:
        self._journal = journal
        self._history = history
        self._settings = settings
        self._clock = clock
        self._limits = limits
        self._readers = 0

    def begin(self, files: Iterable[WriteFile]) -> None:
        """Find which files have a copy. Outputs of compaction need none: their records were copied before."""
        for name in self._history.names():
            if name.endswith(f".{self._settings.extension}.tmp"):
                self._history.remove(name)
        copies = list(self._copies())
        for file in files:
            file.retained = any(self._is_copy(copy, file) for copy in copies) or self._is_compacted(file)
        self.clean()

    def keep(self, files: Iterable[WriteFile]) -> None:
        """Copy files that are closed, one after the other; durable on return."""
        for file in files:
            self._remove_partial(file)
            self._copy(file)
            file.retained = True
        self.clean()

    def clean(self) -> None:
        """Delete copies that are too old, and the oldest ones above the size limit. The newest copy stays: it
        may be the only sign of how far the history reaches.
        """
        if self._readers:
            return
        copies = sorted(self._copies(), key=lambda copy: copy.order)
        size_bytes = sum(copy.size_bytes for copy in copies)
        for copy in copies[:-1]:
            if not self._too_old(copy) and not self._too_much(size_bytes):
                break
            self._history.remove(copy.name)
            size_bytes -= copy.size_bytes

    @contextmanager
    def read(self) -> Iterator[None]:
        """Keep all copies for the duration of the block, for a reader of all of them."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def close(self) -> None:
        self._history.close()

    def is_free_to_a_broker(self, file: WriteFile) -> bool:
        """Whether nothing in it is data to a broker that starts, which passes over events, checksums among
        them, and ends of transactions whose records are gone.
        """
        scan = self._scan(file)
        return all(scan.pointer.records[index].kind in _NO_DATA for index in range(scan.count))

    def _scan(self, file: WriteFile) -> Scan:
        view = self._journal.view(file.name)
        return scan_view(view, rid=file.rid, version=file.version, doing=f"scanning {file.name}")

    def _too_old(self, copy: _Copy) -> bool:
        if self._limits.period_ms is None:
            return False
        copied_s = time.mktime(time.strptime(copy.parsed.copied_at, TIME_FORMAT))
        return copied_s * 1000 + self._limits.period_ms < self._clock.now_ms()

    def _too_much(self, size_bytes: int) -> bool:
        return self._limits.bytes_max is not None and size_bytes > self._limits.bytes_max

    def _copies(self) -> Iterator[_Copy]:
        for name in self._history.names():
            parsed = parse_history_name(name, extension=self._settings.extension)
            if parsed is not None and parsed.prefix == self._settings.prefix:
                yield _Copy(name, parsed, self._history.size_bytes(name))

    def _is_compacted(self, file: WriteFile) -> bool:
        """Return True if the file is as compaction wrote it. The last record that can tell decides: without a
        history, brokers also append to such a file.
        """
        scan = self._scan(file)
        records = scan.pointer.records
        for index in reversed(range(scan.count)):
            record = records[index]
            if record.kind in COUNTED:
                return bool(record.compact_count > 0)
            if record.kind == RecordKind.EVENT and record.user_type != CHECKSUM_USER_TYPE:
                return False
        return False

    def _is_copy(self, copy: _Copy, file: WriteFile) -> bool:
        """Whether a file of this id in the history is a copy of this one: another journal may have had the
        folder before.
        """
        if copy.parsed.file_id != file.file_id or copy.size_bytes < file.size_bytes:
            return False
        tail = max(0, file.end - COMPARED_BYTES)
        return all(
            self._journal.read(file.name, offset, min(COMPARED_BYTES, file.end - offset))
            == self._history.read(copy.name, offset, min(COMPARED_BYTES, file.end - offset))
            for offset in (0, tail)
        )

    def _remove_partial(self, file: WriteFile) -> None:
        """Delete the partial copy of this file that a killed broker left. The id is compared as a number, so
        no other file's copy is deleted.
        """
        for copy in list(self._copies()):
            if copy.parsed.file_id == file.file_id and copy.size_bytes < file.size_bytes:
                log.warning("%s is only a part of a file, which is copied again", copy.name)
                self._history.remove(copy.name)

    def _name_for(self, file: WriteFile) -> str:
        """With the local time. A later one where another file of this id was copied within the same second:
        that is not to be replaced.
        """
        taken = set(self._history.names())
        names = (
            f"{self._settings.prefix}-{time.strftime(TIME_FORMAT, time.localtime(second))}"
            f"-{file.file_id}.{self._settings.extension}"
            for second in itertools.count(self._clock.now_ms() // 1000)
        )
        return next(name for name in names if name not in taken)

    def _copy(self, file: WriteFile) -> None:
        name = self._name_for(file)
        temporary = f"{name}.tmp"
        history = self._history
        try:
            history.allocate(temporary, 0)
            for offset in range(0, file.size_bytes, COPY_CHUNK_BYTES):
                length = min(COPY_CHUNK_BYTES, file.size_bytes - offset)
                history.write_at(temporary, offset, self._journal.read(file.name, offset, length))
            history.sync(temporary)
            history.rename(temporary, name)
        except OSError:
            if temporary in history.names():
                history.remove(temporary)
            raise
        history.sync_directory()
