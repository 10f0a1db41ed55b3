"""Every kind of damage that this suite makes to a store, by name, as an operator or a disk would do it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.damage.cases import used_bytes
from tests.reference.journal import scan

HEADER_BYTES: Final = 16


def journal_files(data: Path) -> list[Path]:
    """Return the journal files that records were written to, by id."""
    found = [path for path in (data / "journal").iterdir() if path.suffix in (".amq", ".hq")]
    written = [path for path in found if used_bytes(path) > HEADER_BYTES]
    return sorted(written, key=lambda path: int.from_bytes(path.read_bytes()[8:16], "big"))


def pages(data: Path) -> list[Path]:
    """Return the page files, the fullest folder first."""
    folders = [path for path in (data / "paging").iterdir() if path.is_dir()]
    fullest = max(folders, key=lambda path: len(list(path.glob("*.page"))))
    return sorted(path for path in fullest.glob("*.page") if path.stat().st_size)


def bodies(data: Path) -> list[Path]:
    return sorted((data / "large-messages").glob("*.msg"))


def write_at(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def _flip(path: Path, offset: int) -> None:
    write_at(path, offset, bytes([path.read_bytes()[offset] ^ 0x10]))


def _middle(data: Path) -> int:
    """Return where a record in the middle of the first journal file begins."""
    content = journal_files(data)[0].read_bytes()
    records = scan(content, int.from_bytes(content[8:16], "big") & 0x7FFFFFFF).records
    return records[len(records) // 2].offset


def flip_in_journal(data: Path) -> None:
    """Change the id of the file in a record's head."""
    _flip(journal_files(data)[0], _middle(data) + 3)


def garbage_in_journal(data: Path) -> None:
    write_at(journal_files(data)[0], _middle(data), bytes(range(250)) * 12)


def zeros_in_journal(data: Path) -> None:
    write_at(journal_files(data)[0], _middle(data), bytes(3000))


def journal_header(data: Path) -> None:
    write_at(journal_files(data)[0], 0, bytes(HEADER_BYTES))


def journal_file_gone(data: Path) -> None:
    journal_files(data)[0].unlink()


def journal_file_half_copied(data: Path) -> None:
    os.truncate(journal_files(data)[0], _middle(data))


def journal_end_zeroed(data: Path) -> None:
    path = journal_files(data)[-1]
    used = used_bytes(path)
    at = HEADER_BYTES + (used - HEADER_BYTES) // 2
    write_at(path, at, bytes(used - at))


def journal_emptied(data: Path) -> None:
    for path in (data / "journal").iterdir():
        path.unlink()


def journal_folder_gone(data: Path) -> None:
    shutil.rmtree(data / "journal")


def bindings_gone(data: Path) -> None:
    for path in (data / "bindings").glob("*.bindings"):
        path.unlink()


def bindings_record(data: Path) -> None:
    path = max((data / "bindings").iterdir(), key=lambda one: one.stat().st_size)
    write_at(path, 400, bytes(40))


def page_gone(data: Path) -> None:
    pages(data)[1].unlink()


def last_page_gone(data: Path) -> None:
    pages(data)[-1].unlink()


def page_folder_gone(data: Path) -> None:
    shutil.rmtree(pages(data)[0].parent)


def page_emptied(data: Path) -> None:
    os.truncate(pages(data)[0], 0)


def page_cut(data: Path) -> None:
    path = pages(data)[0]
    os.truncate(path, path.stat().st_size - 50)


def page_record(data: Path) -> None:
    path = pages(data)[0]
    write_at(path, path.stat().st_size // 2, bytes(range(64)))


def body_gone(data: Path) -> None:
    bodies(data)[0].unlink()


def body_cut(data: Path) -> None:
    path = bodies(data)[0]
    os.truncate(path, path.stat().st_size // 2)


def body_is_a_folder(data: Path) -> None:
    path = bodies(data)[0]
    path.unlink()
    path.mkdir()


OF_JOURNAL: Final[Mapping[str, Callable[[Path], None]]] = {
    one.__name__: one
    for one in (
        flip_in_journal,
        garbage_in_journal,
        zeros_in_journal,
        journal_header,
        journal_file_gone,
        journal_file_half_copied,
        journal_end_zeroed,
        journal_emptied,
        journal_folder_gone,
    )
}
OF_BINDINGS: Final[Mapping[str, Callable[[Path], None]]] = {
    one.__name__: one for one in (bindings_gone, bindings_record)
}
OF_PAGES: Final[Mapping[str, Callable[[Path], None]]] = {
    one.__name__: one
    for one in (page_gone, last_page_gone, page_folder_gone, page_emptied, page_cut, page_record)
}
OF_BODIES: Final[Mapping[str, Callable[[Path], None]]] = {
    one.__name__: one for one in (body_gone, body_cut, body_is_a_folder)
}
EVERY: Final = {**OF_JOURNAL, **OF_BINDINGS, **OF_PAGES, **OF_BODIES}
