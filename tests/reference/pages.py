"""Page files (format page "messages", section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.reference.messages import decode_at
from tests.reference.primitives import Cursor, MalformedError


@dataclass(frozen=True)
class PageEntry:
    tx_id: int
    core_large: bool
    payload: bytes
    queue_ids: tuple[int, ...]


@dataclass(frozen=True)
class Page:
    number: int
    entries: list[PageEntry]
    damaged_at: int | None
    """Offset where reading had to end before the end of the file."""


def _entry(payload: bytes) -> PageEntry:
    cursor = Cursor(payload)
    tx_id = cursor.i64()
    kind = cursor.i8()
    if kind not in (-1, 0, 1, 2):
        raise MalformedError(f"page record kind {kind}")
    core_large = kind in (-1, 1)
    if core_large:
        start = cursor.at + 4
        message = cursor.block()
    else:
        start = cursor.at
        # Where the message ends only its own fields say.
        decode_at(cursor, core_large=False, large=None, paged=True)
        message = payload[start : cursor.at]
    count = cursor.i32()
    if count < 0:
        raise MalformedError(f"{count} queues")
    queue_ids = tuple(cursor.i64() for _ in range(count))
    if cursor.left():
        raise MalformedError(f"{cursor.left()} bytes behind the queues")
    return PageEntry(tx_id, core_large, message, queue_ids)


def page(data: bytes, number: int = 0) -> Page:
    entries: list[PageEntry] = []
    at = 0
    while len(data) - at >= 6:
        if data[at] != 0x7B:
            return Page(number, entries, at)
        size = Cursor(data, at + 1).i32()
        end = at + 5 + size
        if size < 0 or end >= len(data) or data[end] != 0x7D:
            return Page(number, entries, at)
        try:
            entries.append(_entry(data[at + 5 : end]))
        except MalformedError:
            return Page(number, entries, at)
        at = end + 1
    return Page(number, entries, None)


def address_pages(folder: Path) -> tuple[str, list[Page]] | None:
    """Address and pages, in number order, of one folder of pages; None if it names no address."""
    named = folder / "address.txt"
    if not named.is_file():
        return None
    address = named.read_text("utf-8").split("\n", 1)[0]
    files = sorted((int(path.stem), path) for path in folder.glob("*.page") if path.stem.isdigit())
    return address, [page(path.read_bytes(), number) for number, path in files]
