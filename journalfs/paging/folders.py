"""The paging directory: which folder belongs to which address, and its pages (docs/format/pages.md)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from journalfs.damage import Damage, FileStamp
from journalfs.errors import DecodeError
from journalfs.format.page_folder import (
    ADDRESS_FILE_NAME,
    REPLICA_MARK,
    decode_address_file,
    parse_page_name,
)
from journalfs.ids import PageNumber
from journalfs.limits import ADDRESS_FILE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class PageFile:
    number: PageNumber
    path: Path
    stamp: FileStamp


@dataclass(frozen=True, slots=True)
class PageFolder:
    """One address's pages in number order."""

    path: Path
    written_address: str | None
    """As `address.txt` has it, where it may have lost characters: see `address_matches`. `None`: there is no
    such file, or nothing in it.
    """
    pages: tuple[PageFile, ...]
    problem: str | None = None
    """What is wrong with `address.txt`."""


@dataclass(frozen=True, slots=True)
class _Seen:
    mtime_ns: int
    confirmed: bool
    """The folder had this time in the look before too. File times are coarse: a page that came right after
    the first look with a new time may not have changed it.
    """
    folder: PageFolder


@dataclass(slots=True)
class PagingDirectory:
    """All page folders, looked at again and again: what did not change since is not listed a second time."""

    path: Path
    relative_to: Path
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def folders(self) -> list[PageFolder]:
        """The folders with pages or an address, by name. A missing directory holds none."""
        try:
            entries = sorted(os.scandir(self.path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        found: dict[str, _Seen] = {}
        for entry in entries:
            if REPLICA_MARK in entry.name or not entry.is_dir():
                continue
            try:
                found[entry.name] = self._look(entry)
            except FileNotFoundError:
                continue  # deleted meanwhile
        self._seen = found
        return [seen.folder for seen in found.values() if seen.folder.pages or seen.folder.problem is None]

    def problems(self) -> Iterator[Damage]:
        """What was wrong with the folders of the last look that hold pages."""
        for seen in self._seen.values():
            if seen.folder.problem is not None and seen.folder.pages:
                name = os.path.relpath(seen.folder.path / ADDRESS_FILE_NAME, self.relative_to)
                yield Damage(name, 0, 0, "page-folder", seen.folder.problem)

    def _look(self, entry: os.DirEntry[str]) -> _Seen:
        mtime_ns = entry.stat().st_mtime_ns
        seen = self._seen.get(entry.name)
        same = seen is not None and seen.mtime_ns == mtime_ns
        if seen is not None and same and seen.confirmed:
            return replace(seen, folder=_with_last_page(seen.folder))
        return _Seen(mtime_ns, same, _read_folder(Path(entry.path)))


def _read_folder(path: Path) -> PageFolder:
    pages = tuple(sorted(_pages(path), key=lambda page: page.number))
    file = path / ADDRESS_FILE_NAME
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return PageFolder(path, None, pages, f"{ADDRESS_FILE_NAME} is not a regular file")
        with file.open("rb") as opened:
            return PageFolder(path, decode_address_file(opened.read(ADDRESS_FILE_BYTES_MAX)), pages)
    except FileNotFoundError:
        return PageFolder(path, None, pages, f"{ADDRESS_FILE_NAME} is missing")
    except DecodeError as error:
        return PageFolder(path, None, pages, error.reason)


def _pages(folder: Path) -> Iterator[PageFile]:
    for entry in os.scandir(folder):
        parsed = parse_page_name(entry.name)
        if parsed is None or parsed.invalid:
            continue
        page = _page(parsed.number, Path(entry.path))
        if page is not None:
            yield page


def _page(number: PageNumber, path: Path) -> PageFile | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return PageFile(number, path, FileStamp(status.st_size, status.st_mtime_ns, status.st_ino))


def _with_last_page(folder: PageFolder) -> PageFolder:
    """The folder with its last page as it is now: a broker appends to no other."""
    if not folder.pages:
        return folder
    last = folder.pages[-1]
    now = _page(last.number, last.path)
    if now is None or now == last:
        return folder
    return replace(folder, pages=(*folder.pages[:-1], now))
