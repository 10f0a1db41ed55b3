"""Whether a journal file still holds what was read of it, by checksums of that."""

from __future__ import annotations

from journalfs.engine.checksum import crc32c_of_file
from journalfs.errors import refuse_shortage
from journalfs.journal.directory import JournalFile
from journalfs.journal.files import ReadFile
from journalfs.limits import JOURNAL_HEADER_BYTES

END_BYTES = 4096
"""What is compared to find out whether a file that grows is still the one that was read."""


def end_begins(position: int) -> int:
    return max(JOURNAL_HEADER_BYTES, position - END_BYTES)


def ends_as_read(read: ReadFile, file: JournalFile) -> bool:
    """Whether the last of what was read of a file is still there, as far as it can be read. Looked at where
    the file's time moved.
    """
    if read.end_crc is not None and file.stamp == read.file.stamp:
        return True
    try:
        found = crc32c_of_file(file.path, end_begins(read.position), read.position)
    except OSError as error:
        refuse_shortage(error, file.path)
        return True  # whoever reads it on says so
    if read.end_crc is None:
        read.end_crc = found
    return found == read.end_crc


def holds_prefix(file: JournalFile, position: int, prefix_crc: int) -> bool:
    """Whether the bytes between header and `position` have this checksum; what cannot be read has not. Raises
    FileNotFoundError.
    """
    try:
        return crc32c_of_file(file.path, JOURNAL_HEADER_BYTES, position) == prefix_crc
    except FileNotFoundError:
        raise
    except OSError as error:
        refuse_shortage(error, file.path)
        return False
