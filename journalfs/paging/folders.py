"""The paging directory: which folder belongs to which address, and which pages it holds
(docs/format/pages.md).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
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
    """One address's pages in number order. `written_address` may have lost characters: see
    `address_matches`.
    """

    path: Path
    written_address: str
    pages: tuple[PageFile, ...]


def read_paging_directory(directory: Path, *, relative_to: Path) -> tuple[list[PageFolder], list[Damage]]:
    """All folders that belong to an address, and what is wrong with others. A missing directory holds
    none.
    """
    folders: list[PageFolder] = []
    problems: list[Damage] = []
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return [], []
    for entry in entries:
        if not entry.is_dir() or REPLICA_MARK in entry.name:
            continue
        path = Path(entry.path)
        pages = _pages(path)
        try:
            with (path / ADDRESS_FILE_NAME).open("rb") as file:
                address = decode_address_file(file.read(ADDRESS_FILE_BYTES_MAX))
        except (FileNotFoundError, IsADirectoryError):
            if pages:
                reason = f"{len(pages)} pages of an unknown address: {ADDRESS_FILE_NAME} is missing"
                problems.append(Damage(os.path.relpath(path, relative_to), 0, 0, "page-folder", reason))
            continue
        except DecodeError as error:
            problems.append(
                Damage(
                    os.path.relpath(path / ADDRESS_FILE_NAME, relative_to), 0, 0, "page-folder", error.reason
                )
            )
            continue
        folders.append(PageFolder(path, address, pages))
    return folders, problems


def _pages(folder: Path) -> tuple[PageFile, ...]:
    pages: list[PageFile] = []
    for entry in os.scandir(folder):
        parsed = parse_page_name(entry.name)
        if parsed is None or parsed.invalid:
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        stamp = FileStamp(status.st_size, status.st_mtime_ns, status.st_ino)
        pages.append(PageFile(parsed.number, Path(entry.path), stamp))
    return tuple(sorted(pages, key=lambda page: page.number))
