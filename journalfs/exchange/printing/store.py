"""A whole store as `artemis data print` prints it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.config.layout import StoreLayout
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import PageEntry, scan_page
from journalfs.engine.scan import RecordInfo
from journalfs.errors import DecodeError
from journalfs.exchange.printing import java
from journalfs.exchange.printing.journal import JournalText, Line, Printed
from journalfs.exchange.printing.messages import describe_message, describe_paged_large, safe_text
from journalfs.format.page_folder import ADDRESS_FILE_NAME, PageFileName, decode_address_file, parse_page_name
from journalfs.format.primitives import Reader
from journalfs.format.record_types import BindingType, MessageType
from journalfs.format.server_lock import SERVER_LOCK_NAME, decode_server_lock
from journalfs.records.older.deriving import DATABASE, derived_from

# Pages as `artemis data print` prints them: each message, and what each queue has done with it.

_CORE_LARGE: Final = frozenset({1, -1})
_ADDRESS_BYTES_MAX: Final = 1 << 20
_RULE: Final = "#" * 100


class Cursors:
    """What the journal says of messages in pages, and which queues there are."""

    def __init__(self) -> None:
        self.queues: set[int] = set()
        self.transactions: set[int] = set()
        self._acknowledged: set[tuple[int, int, int]] = set()
        self._complete: set[tuple[int, int]] = set()

    def take_binding(self, record: RecordInfo, _body: bytes) -> None:
        if record.user_type == BindingType.QUEUE_BINDING:
            self.queues.add(record.record_id)

    def take(self, record: RecordInfo, body: bytes) -> None:
        """A record that holds. A damaged one is told of elsewhere."""
        reader = Reader(body)
        try:
            if record.user_type == MessageType.ACKNOWLEDGE_CURSOR:
                self._acknowledged.add((reader.i64(), reader.i64(), reader.i32()))
            elif record.user_type == MessageType.PAGE_COMPLETE:
                self._complete.add((reader.i64(), reader.i64()))
            elif record.user_type == MessageType.PAGE_TRANSACTION:
                self.transactions.add(reader.i64())
        except DecodeError:
            return

    def of(self, queue: int, page: int, message: int) -> tuple[str, bool]:
        """What is written behind a queue, and whether it is done with the message."""
        acknowledged = (queue, page, message) in self._acknowledged
        complete = (queue, page) in self._complete
        gone = queue not in self.queues
        text = (
            f"{' (ACK)' if acknowledged else ''}{' (PG-COMPLETE)' if complete else ''}"
            f"{' (N/A) ' if gone else ''}"
        )
        return text or " (OK) ", bool(text)


def write_pages(directory: Path, cursors: Cursors, out: Printed) -> None:
    """Raises `OSError`."""
    folders = _folders(directory, out)
    size = 16
    while len(folders) >= size * 3 // 4:
        size *= 2
    hashed = ((java.text_hash(address), (address, folder)) for address, folder in folders)
    for address, folder in java.hashed(hashed, size):
        pages = {page.number: name for name, page in _pages(folder)}
        out.line(_RULE)
        out.line(f"Exploring store {address} folder = {'null' if out.tables else folder}")
        out.line(f"Number of pages ::{len(pages)}, Current writing page ::{max(pages, default=0)}")
        for number in sorted(pages):
            out.line(f"*******   Page {number}")
            _write_page(folder / pages[number], number, cursors, out)


def _pages(folder: Path) -> Iterator[tuple[str, PageFileName]]:
    """Names of the pages that were not set aside."""
    for name in door.names(folder):
        page = parse_page_name(name)
        if page is not None and not page.invalid:
            yield name, page


def _folders(directory: Path, out: Printed) -> list[tuple[str, Path]]:
    """Each address with its folder."""
    found = []
    for folder in (directory / name for name in door.names_if_there(directory)):
        file = folder / ADDRESS_FILE_NAME
        if door.is_folder(folder) and door.is_file(file):
            try:
                found.append((decode_address_file(door.read(file, _ADDRESS_BYTES_MAX)), folder))
            except DecodeError as error:
                out.lost(f"{file}: at offset {error.offset}: left out: {error.reason}")
    return found


def _write_page(path: Path, page: int, cursors: Cursors, out: Printed) -> None:
    with MappedFile(path) as file:
        scan = scan_page(file)
        for entry in scan:
            payload = file.copy(entry.payload_offset, entry.payload_bytes)
            try:
                text = _message_text(entry, payload, safe=out.safe)
            except DecodeError as error:
                text = f" msg=** damaged: {error.reason} **"
                out.lost(f"{path}: at offset {entry.offset}: {error.reason}")
            states = [cursors.of(queue, page, entry.number) for queue in entry.queue_ids]
            queues = ",".join(
                f"{queue}{state}" for queue, (state, _) in zip(entry.queue_ids, states, strict=True)
            )
            lacks = entry.tx_id >= 0 and entry.tx_id not in cursors.transactions
            out.line(
                f"pg={page}, msg={entry.number},pgTX={entry.tx_id},{text},Queues = {queues}"
                f"{', **PG_TX_NOT_FOUND**' if lacks else ''}"
            )
            done = sum(acknowledged for _, acknowledged in states)
            if done != len(states):
                out.line(f"^^^ Previous record has {done} acked queues and {len(states)} queues routed")
                out.line("")
        for hole in file.unreadable:
            out.lost(f"{path}: at offset {hole.offset}: {hole.length} bytes are left out: {hole.reason}")
        if scan.damaged_at is not None:
            out.lost(f"{path}: at offset {scan.damaged_at}: left out from here on: {scan.reason}")


def _message_text(entry: PageEntry, payload: bytes, *, safe: bool) -> str:
    if entry.undecoded:
        raise DecodeError(0, "the record holds no message")
    one = describe_paged_large(payload) if entry.kind in _CORE_LARGE else describe_message(payload)
    if safe:
        return f" msg={safe_text(one)}"
    return f"userMessageID={one.user_id or ''}, msg={one.text}"


_STARS = "*" * 44
_LOCK_BYTES_MAX = 4096


def write_store(layout: StoreLayout, sections: Collection[str], out: Printed) -> None:
    """Write the sections of `bindings`, `journal` and `pages` that are asked for, in this order. The others
    are read where those need them. What was damaged in an older store is told first. Raises `OSError`.
    """
    made_of = derived_from(layout.root)
    for one in made_of.damage if made_of is not None else ():
        out.lost(f"{one.file}: at offset {one.offset}: {one.length_bytes} bytes are left out: {one.reason}")
    if made_of is not None and made_of.kind == DATABASE:
        out = out._replace(tables=True)
    cursors = Cursors()
    _write_node_id(layout.journal_dir, out)
    _banner(out.line, "B I N D I N G S  J O U R N A L")
    _section(layout.bindings_dir, layout.bindings_extension, out, shown="bindings" in sections).write(
        cursors.take_binding
    )
    _banner(out.line, "M E S S A G E S   J O U R N A L")
    _section(layout.journal_dir, layout.journal_extension, out, shown="journal" in sections).write(
        cursors.take
    )
    if not out.tables:
        _banner(out.line, "P A G I N G")
    if "pages" in sections:
        write_pages(layout.paging_dir, cursors, out)
    else:
        _skip(out.line)


def _section(directory: Path, extension: str, out: Printed, *, shown: bool) -> JournalText:
    if not shown:
        _skip(out.line)
    return JournalText(directory, extension, out, shown=shown)


def _skip(line: Line) -> None:
    line(".... skipping")
    line("")


def _banner(line: Line, title: str) -> None:
    line("")
    line(_STARS)
    line(title)
    line(_STARS)


def _write_node_id(directory: Path, out: Printed) -> None:
    file = directory / SERVER_LOCK_NAME
    if not door.is_file(file):
        return
    try:
        node_id = decode_server_lock(door.read(file, _LOCK_BYTES_MAX)).node_id
    except DecodeError as error:
        out.lost(f"{file}: at offset {error.offset}: left out: {error.reason}")
        return
    if node_id is not None:
        _banner(out.line, f"Server's ID={node_id}")
