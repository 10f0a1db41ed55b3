"""The paging directory: its folders, and their pages (docs/format/pages.md)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from journalfs import door
from journalfs.damage import Damage, FileStamp, name_of
from journalfs.errors import DecodeError, refuse_shortage
from journalfs.format.page_folder import (
    ADDRESS_FILE_NAME,
    REPLICA_MARK,
    decode_address_file,
    parse_page_name,
)
from journalfs.ids import PageNumber
from journalfs.limits import ADDRESS_FILE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ListedPage:
    number: PageNumber
    path: Path
    stamp: FileStamp


@dataclass(frozen=True, slots=True)
class UnreadablePages:
    """A file, or a whole directory, that cannot be read."""

    path: Path
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class PageFolder:
    """One address's pages in number order."""

    path: Path
    written_address: str | None
    """As `address.txt` has it, where it may have lost characters: see `ascii_only`. `None`: there is no
    such file, or nothing in it.
    """
    pages: tuple[ListedPage, ...]
    problem: str | None = None
    """The damage of `address.txt`."""
    refused: tuple[UnreadablePages, ...] = ()
    """Damage: files that are named like pages and cannot be looked at."""
    set_aside: frozenset[PageNumber] = frozenset()
    """Pages that were renamed instead of deleted, since something is wrong with them."""


@dataclass(frozen=True, slots=True)
class _Seen:
    mtime_ns: int
    confirmed: bool
    """The folder had this time in the look before too. File times are coarse: a page that came right after
    the first look with a new time may not have changed it. And no page but the last one was being written.
    """
    folder: PageFolder
    settled: dict[str, ListedPage]
    """The folder's pages, by name, that were not being written, without the last one."""


@dataclass(slots=True)
class OwnPages:
    """The changes that this process makes to pages."""

    alone: bool = False
    """True if no other process changes pages: a page that is not written to is as it was."""
    durable_bytes: dict[Path, int] = field(default_factory=dict)
    """How much there is to be read of those that it is writing."""
    changed: set[Path] = field(default_factory=set)
    """Folders in which pages came or went since they were listed, whatever their times say."""


@dataclass(slots=True)
class PagingDirectory:
    """All page folders. Folders that did not change since the last look are not listed again."""

    path: Path
    relative_to: Path
    own: OwnPages = field(default_factory=OwnPages)
    _looked: bool = False
    """All of them could be looked at."""
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _refused: list[UnreadablePages] = field(default_factory=list)

    def folders(self) -> list[PageFolder]:
        """Return the folders with pages or an address, by name. If the directory is missing, it holds none;
        if it was there before, what it held then. Unreadable folders are among the problems.
        """
        self.look()
        return self.seen()

    def seen(self) -> list[PageFolder]:
        """Return the folders of the last look."""
        return [seen.folder for _, seen in sorted(self._seen.items()) if _counts(seen.folder)]

    def look(self) -> tuple[list[PageFolder], set[Path]] | None:
        """Look at all folders. If only this process changes them, later looks see only the changed ones:
        their current state, and which of them are gone.
        """
        if self.own.alone and self._looked:
            return self._own_folders()
        refused: list[UnreadablePages] = []
        names = self._names(refused)
        if names is not None:
            self._seen = self._looked_at(names, refused)
            self.own.changed.clear()
        self._refused, self._looked = refused, names is not None and not refused
        return None

    def _own_folders(self) -> tuple[list[PageFolder], set[Path]]:
        own = self.own
        changed = sorted(own.changed | {page.parent for page in own.durable_bytes})
        there: list[PageFolder] = []
        gone = set[Path]()
        with suppress(FileNotFoundError), door.folder(self.path) as held:
            for path in changed:
                try:
                    mtime_ns = door.status_in(held, path.name).st_mtime_ns
                    seen = self._seen[path.name] = self._look(held, path.name, mtime_ns)
                    there.append(seen.folder)
                except FileNotFoundError:
                    gone.add(path)
                    self._seen.pop(path.name, None)
                except OSError as error:
                    refuse_shortage(error, path)
                    self._looked = False  # whoever looks at all of them says why
            # Not before: whoever is told of a shortage looks at all of these again.
            own.changed.difference_update(changed)
        return [folder for folder in there if _counts(folder)], gone

    def _names(self, refused: list[UnreadablePages]) -> list[str] | None:
        """Return the names in the directory; `None` if it is missing: then the last look still holds."""
        try:
            return sorted(name for name in door.names(self.path) if REPLICA_MARK not in name)
        except FileNotFoundError:
            return None
        except OSError as error:
            refuse_shortage(error, self.path)
            refused.append(_refusal(self.path, error))
            return []

    def _looked_at(self, names: Sequence[str], refused: list[UnreadablePages]) -> dict[str, _Seen]:
        found: dict[str, _Seen] = {}
        with door.folder(self.path) as held:
            for name in names:
                try:
                    status = door.status_in(held, name)
                    if stat.S_ISLNK(status.st_mode):
                        raise door.refused(self.path / name, status.st_mode)
                    if stat.S_ISDIR(status.st_mode):
                        found[name] = self._look(held, name, status.st_mtime_ns)
                except FileNotFoundError:
                    continue  # deleted meanwhile
                except OSError as error:
                    refuse_shortage(error, self.path / name)
                    refused.append(_refusal(self.path / name, error))
        return found

    def problems(self) -> Iterator[Damage]:
        """Return what the last look could not read, and the damage of folders that hold pages."""
        refused = list(self._refused)
        for seen in self._seen.values():
            refused += seen.folder.refused
            if seen.folder.problem is not None and seen.folder.pages:
                name = name_of(seen.folder.path / ADDRESS_FILE_NAME, self.relative_to)
                yield Damage(name, 0, 0, "page-folder", seen.folder.problem)
        for one in refused:
            yield Damage(name_of(one.path, self.relative_to), 0, 0, one.kind, one.reason)

    def _look(self, held: int, folder_name: str, mtime_ns: int) -> _Seen:
        seen = self._seen.get(folder_name)
        path = self.path / folder_name if seen is None else seen.folder.path
        same = seen is not None and seen.mtime_ns == mtime_ns and path not in self.own.changed
        if seen is not None and same and seen.confirmed:
            folder = self._with_last_page(held, seen.folder)
            return seen if folder is seen.folder else replace(seen, folder=folder)
        known = seen.settled if seen is not None and self.own.alone else {}
        refused: list[UnreadablePages] = []
        set_aside: set[PageNumber] = set()
        found = dict(_pages(path, known, refused, set_aside))
        being_written = {page.name for page in self.own.durable_bytes if page.parent == path}
        for name in being_written & found.keys():
            found[name] = self._durable(found[name])
        pages = tuple(sorted(found.values(), key=lambda page: page.number))
        address, problem = _read_address(path / ADDRESS_FILE_NAME)
        folder = PageFolder(path, address, pages, problem, tuple(refused), frozenset(set_aside))
        settled = {
            name: page for name, page in found.items() if page is not pages[-1] and name not in being_written
        }
        return _Seen(mtime_ns, same and len(settled) >= len(pages) - 1, folder, settled)

    def _with_last_page(self, held: int, folder: PageFolder) -> PageFolder:
        """Return the folder with its last page as it is now: only the last page is appended to."""
        if not folder.pages:
            return folder
        last = folder.pages[-1]
        try:
            found = door.status_in(held, f"{folder.path.name}/{last.path.name}")
            now = self._durable(_page(last.number, last.path, found))
        except OSError:
            return folder  # opening it says why
        if now == last:
            return folder
        return replace(folder, pages=(*folder.pages[:-1], now))

    def _durable(self, page: ListedPage) -> ListedPage:
        """The page as far as it is durable."""
        limit = self.own.durable_bytes.get(page.path)
        if limit is None or limit >= page.stamp.size_bytes:
            return page
        return replace(page, stamp=FileStamp(limit, page.stamp.mtime_ns, page.stamp.inode))


def _counts(folder: PageFolder) -> bool:
    return bool(folder.pages) or folder.problem is None


def _read_address(file: Path) -> tuple[str | None, str | None]:
    """Return the address that `address.txt` names, and its damage."""
    try:
        return decode_address_file(door.read(file, ADDRESS_FILE_BYTES_MAX)), None
    except FileNotFoundError:
        return None, f"{ADDRESS_FILE_NAME} is missing"
    except OSError as error:
        refuse_shortage(error, file)
        return None, f"{ADDRESS_FILE_NAME} cannot be read: {error.strerror or error}"
    except DecodeError as error:
        return None, error.reason


def _pages(
    folder: Path, known: Mapping[str, ListedPage], refused: list[UnreadablePages], set_aside: set[PageNumber]
) -> Iterator[tuple[str, ListedPage]]:
    """Return the pages by name. Those in `known` are not looked at again."""
    with door.folder(folder) as held:
        for name in door.names_in(held):
            if name in known:
                yield name, known[name]
                continue
            parsed = parse_page_name(name)
            if parsed is None:
                continue
            if parsed.invalid:
                set_aside.add(parsed.number)
                continue
            try:
                page = _page(parsed.number, folder / name, door.status_in(held, name))
            except FileNotFoundError:
                continue  # deleted meanwhile
            except OSError as error:
                refused.append(_refusal(folder / name, error))
            else:
                yield name, page


def _refusal(path: Path, error: OSError) -> UnreadablePages:
    return UnreadablePages(path, *door.kind_and_reason(error))


def _page(number: PageNumber, path: Path, status: os.stat_result) -> ListedPage:
    """Raises OSError for what is no file."""
    if not stat.S_ISREG(status.st_mode):
        raise door.refused(path, status.st_mode)
    return ListedPage(number, path, FileStamp.of(status))
