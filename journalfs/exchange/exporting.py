"""Writes a store's messages in one of the forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from journalfs.exchange.xml_out import XmlWriter
from journalfs.store.api import ByteSource
from journalfs.store.store import JournalStore

WINDOW_BYTES: Final = 4 << 20

Advance = Callable[[int], None]


def export_store(
    store: JournalStore, file_format: str, out: BinaryIO, told: Callable[[str], None], advance: Advance
) -> None:
    """Write all live messages of a store as `jsonl`, `xml` or `parquet`. `told` is given what is left out,
    `advance` how many messages were written. Memory does not grow with the store.
    """
    if file_format == "xml":
        XmlWriter(out, told, advance).write(store)
        return
    if file_format == "jsonl":
        for queue in store.queues():
            for window in _windows(queue.open_all()):
                out.write(window)
            advance(len(queue))
        return
    from journalfs.exchange.parquet_out import ParquetWriter  # noqa: PLC0415 - few need it

    writer = ParquetWriter(out)
    for queue in store.queues():
        writer.lines(_lines(queue.open_all()))
        advance(len(queue))
    writer.close()


def _windows(source: ByteSource) -> Iterator[bytes | bytearray | memoryview]:
    try:
        offset = 0
        while offset < source.size_bytes:
            piece = source.read(offset, WINDOW_BYTES)
            if not len(piece):
                return
            yield piece
            offset += len(piece)
    finally:
        source.close()


def _lines(source: ByteSource) -> Iterator[bytes]:
    """Lines without their ends."""
    pending = b""
    for window in _windows(source):
        *whole, pending = (pending + bytes(window)).split(b"\n")
        yield from whole
    if pending:
        yield pending


def journal_directory(path: Path) -> Path:
    """Where the message journal of a store lies that a path means: a data directory, an instance, or a
    journal directory itself.
    """
    from journalfs.config.layout import locate_store  # noqa: PLC0415 - only encoded lines ask

    return locate_store(path).journal_dir
