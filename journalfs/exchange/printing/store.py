"""A whole store as `artemis data print` prints it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from journalfs import door
from journalfs.config.layout import StoreLayout
from journalfs.errors import DecodeError
from journalfs.exchange.printing.journal import JournalText, Line, Printed
from journalfs.exchange.printing.pages import Cursors, write_pages
from journalfs.format.server_lock import SERVER_LOCK_NAME, decode_server_lock
from journalfs.older.reading import DATABASE, derived_from

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
