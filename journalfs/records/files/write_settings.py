"""Settings of a journal that is written; names and defaults are broker.xml's."""

from __future__ import annotations

from dataclasses import dataclass

from journalfs.engine.checksums import CHECKSUM_BYTES
from journalfs.limits import JOURNAL_HEADER_BYTES

FILE_SIZE_BYTES_MIN = 1024


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """One journal's. Sizes in bytes."""

    prefix: str = "activemq-data"
    extension: str = "amq"
    file_size_bytes: int = 10 * 1024 * 1024
    min_files: int = 2
    pool_files: int = -1
    """Free files beyond this many files in all are deleted; -1: never."""
    compact_min_files: int = 10
    """Compaction needs more files with data than this; 0: never compacted."""
    compact_percentage: int = 30
    buffer_size_bytes: int = 501_760
    buffer_timeout_ns: int = 3_333_333
    """Longest time that records nobody waits for stay in memory; 0: every record is a write of its own."""
    sync_transactional: bool = True
    sync_non_transactional: bool = True
    attic_files_max: int = 10
    checksums: bool = False
    """Each flush ends with a checksum of it, in a record that brokers ignore."""
    replaceable_types: frozenset[int] = frozenset({34, 36})
    """User types of updates of which compaction keeps the last (of each queue)."""

    def aligned(self, alignment_bytes: int) -> WriteSettings:
        """With the file size corrected as a broker does: a multiple of the block, to the nearest. But two at
        least, or there would be no room behind the header.
        """
        size = max(self.file_size_bytes, FILE_SIZE_BYTES_MIN)
        if size < 2 * alignment_bytes and alignment_bytes > 1:
            size = 2 * alignment_bytes
        elif rest := size % alignment_bytes:
            size += -rest if rest < alignment_bytes / 2 else alignment_bytes - rest
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return WriteSettings(**(values | {"file_size_bytes": size}))

    def record_bytes_max(self, alignment_bytes: int) -> int:
        """Longest record that is accepted."""
        first = round_up(JOURNAL_HEADER_BYTES, alignment_bytes)
        return min(self.file_size_bytes - first - self.checksum_bytes, self.buffer_size_bytes)

    @property
    def checksum_bytes(self) -> int:
        """Bytes that each flush needs beside its records."""
        return CHECKSUM_BYTES if self.checksums else 0


def round_up(value: int, alignment_bytes: int) -> int:
    return -(-value // alignment_bytes) * alignment_bytes
