"""Writes a store's messages in one of the forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from journalfs.exchange.journals import Told
from journalfs.exchange.xml_out import XmlWriter
from journalfs.store.api import ByteSource
from journalfs.store.envelope import decode_envelope
from journalfs.store.queues import StoreQueue
from journalfs.store.store import JournalStore
from journalfs.store.stored_runs import each_place
from journalfs.windows import windows

_DAMAGE: Final = b',"damage":"'
"""In a line that says so, and in few others, but never in text: there quotes are escaped."""

Advance = Callable[[int], None]


def export_store(store: JournalStore, file_format: str, out: BinaryIO, told: Told, advance: Advance) -> None:
    """Write all live messages of a store as `jsonl`, `xml` or `parquet`. `advance` is given how many messages
    were written. Memory does not grow with the store.
    """
    if file_format == "xml":
        XmlWriter(out, told.note, told.lost, advance).write(store)
        return
    if file_format == "jsonl":
        for queue in store.queues():
            for lines in _lines_of(queue, told):
                out.write(lines)
            advance(len(queue))
        return
    from journalfs.exchange.parquet_out import ParquetWriter  # noqa: PLC0415 - few need it

    writer = ParquetWriter(out)
    for queue in store.queues():
        for lines in _lines_of(queue, told):
            writer.lines(lines.removesuffix(b"\n").split(b"\n"))
        advance(len(queue))
    writer.close()


def _lines_of(queue: StoreQueue, told: Told) -> Iterator[bytes]:
    """Whole lines, many at a time. A message that cannot be read is among them, with what there is of it."""
    for lines in _whole(queue.open_all()):
        if _DAMAGE in lines:
            _tell_damage(queue, lines, told)
        yield lines


def _tell_damage(queue: StoreQueue, lines: bytes, told: Told) -> None:
    found = (decode_envelope(line) for line in lines.splitlines() if _DAMAGE in line)
    damaged = {one["id"]: one["damage"] for one in found if "damage" in one}
    if not damaged:
        return
    for run in queue.content.live():
        for place in each_place(queue.content, run):
            if place.message_id in damaged:
                where = f"{place.file.path}: at offset {place.offset}"
                told.lost(f"{where}: message {place.message_id} of {queue.name}: {damaged[place.message_id]}")


def _whole(source: ByteSource) -> Iterator[bytes]:
    pending: list[bytes] = []
    try:
        for window in windows(source):
            lines, newline, rest = bytes(window).rpartition(b"\n")
            if newline:
                yield b"".join([*pending, lines, newline])
                pending.clear()
            pending.append(rest)
    finally:
        source.close()
