"""What has to be done to a journal directory before it is written again: docs/format/journal-file.md.

Ends a compaction that was cut off, as its control file says, and removes what a cut-off creation left. Safer
than a broker in two ways: an old file that was in use again when the process died is kept, and each step is
made durable before the next can destroy what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable

from journalfs.engine.backend import Backend
from journalfs.errors import DecodeError
from journalfs.format.journal_file import (
    CONTROL_FILE_NAME,
    ControlFile,
    JournalFileState,
    decode_control_file,
    parse_file_name,
    read_header,
)
from journalfs.limits import CONTROL_FILE_BYTES_MAX, JOURNAL_HEADER_BYTES


def recover(backend: Backend, *, extension: str) -> list[str]:
    """Settle the directory. Returns what was done, a line each, for the log. Raises OSError."""
    done: list[str] = []
    names = set(backend.names())
    if CONTROL_FILE_NAME in names:
        done += _end_compaction(backend, names, extension)
    done += _remove_leftovers(backend, extension)
    return done


def _end_compaction(backend: Backend, names: set[str], extension: str) -> list[str]:
    done: list[str] = []
    try:
        control = decode_control_file(backend.read(CONTROL_FILE_NAME, 0, CONTROL_FILE_BYTES_MAX))
    except DecodeError as error:
        done.append(f"a compaction had not begun to replace files ({error.reason})")
    else:
        for name in sorted(_replaced(backend, names, control, extension)):
            backend.remove(name)
            done.append(f"removed {name}, which was compacted")
        for name in control.settle:
            if name in names:
                final = name.removesuffix(JournalFileState.COMPACTED.value)
                backend.rename(name, final)
                done.append(f"{final} takes the place of compacted files")
        for old, new in control.rename:
            if old in names:
                backend.rename(old, new)
        backend.sync_directory()
    backend.remove(CONTROL_FILE_NAME)
    backend.sync_directory()
    return done


def _replaced(backend: Backend, names: set[str], control: ControlFile, extension: str) -> set[str]:
    """Old files that are to go: not those that took a new id since, and may hold new records.

    Such an id was drawn after the compaction began, so it is above that of the file then current, which is
    the smallest id among the files that the control file does not name.
    """
    ending = JournalFileState.COMPACTED.value
    outputs = {name.removesuffix(ending) for name in control.settle}
    # An output that has its name already is no old file, even if one had that name before.
    renamed = {name for name in outputs if name + ending not in names}
    old = (set(control.delete) & names) - renamed
    others = {name for name in names if name.endswith(f".{extension}")} - old - outputs
    ids = {name: _file_id(backend, name) for name in old | others}
    current = min((ids[name] for name in others if ids[name] >= 0), default=None)
    return {name for name in old if current is None or ids[name] < current}


def _file_id(backend: Backend, name: str) -> int:
    try:
        return read_header(backend.read(name, 0, JOURNAL_HEADER_BYTES)).file_id
    except DecodeError:
        return -1


def _remove_leftovers(backend: Backend, extension: str) -> list[str]:
    done: list[str] = []
    found = {name: parse_file_name(name, extension=extension) for name in backend.names()}
    last = max((parsed.number for parsed in found.values() if parsed is not None), default=0)
    for name, parsed in found.items():
        if parsed is None:
            continue
        if parsed.state is JournalFileState.TO_RETAIN:
            backend.rename(name, name.removesuffix(JournalFileState.TO_RETAIN.value))
            done.append(f"{name} counts again: it was waiting to be copied")
        elif parsed.state is not JournalFileState.NORMAL:
            backend.remove(name)
            done.append(f"removed {name}, which was never finished")
        elif backend.size_bytes(name) < JOURNAL_HEADER_BYTES and parsed.number == last:
            # One that is not the last was whole once: it stays damage, until somebody sees to it.
            backend.remove(name)
            done.append(f"removed {name}, which is shorter than a header")
    if done:
        backend.sync_directory()
    return done


def in_reading_order(heads: Iterable[tuple[str, bytes]]) -> list[str]:
    """Names by file id; of two with one id the one that compaction wrote first. Given with their heads."""

    def key(item: tuple[str, bytes]) -> tuple[int, bool, str]:
        name, head = item
        header = read_header(head)
        record = head[JOURNAL_HEADER_BYTES:]
        compacted = len(record) == 6 and int.from_bytes(record[1:5]) == header.rid and record[5] > 0
        return header.file_id, not compacted, name

    return [name for name, _ in sorted(heads, key=key)]
