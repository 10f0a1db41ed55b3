"""The tree under `.journalfs/`: status, events, every record of every file, damage, prepared transactions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, unquote

from journalfs import door
from journalfs.account.taking import entries_of
from journalfs.api import ByteSource, VirtualDirectory, VirtualFile
from journalfs.damage import FileStamp
from journalfs.engine.buffers import MappedFile
from journalfs.engine.recordview import PageView, RecordView
from journalfs.engine.scan import scan_journal
from journalfs.errors import SystemFailure
from journalfs.format.page_folder import parse_page_name
from journalfs.format.record_types import user_type_name
from journalfs.limits import DAMAGED_BYTES_SHOWN_MAX, NAME_BYTES_MAX, NAME_HASH_CHARS
from journalfs.live.bindings import EXTENSION as BINDINGS_EXTENSION
from journalfs.live.explaining import LINES_SUFFIX, ExplainedJournal, Explanations
from journalfs.live.sources import BytesSource, WindowSource
from journalfs.live.virtual import (
    ComputedDirectory,
    ComputedFile,
    FixedDirectory,
    SlicedFile,
    SourceFile,
    to_json,
    to_json_lines,
)
from journalfs.records.files.directory import DirectoryReader, JournalFile
from journalfs.showing import path_of, shown
from journalfs.store.odd_settings import shown_settings
from journalfs.views.transactions import transactions_directory

if TYPE_CHECKING:
    from journalfs.account.entries import Entry
    from journalfs.bodies.directory import LargeFile
    from journalfs.live.core import Core
    from journalfs.metrics.measuring import StoreMetrics
    from journalfs.pages.address import PagedAddress
    from journalfs.pages.folders import ListedPage
    from journalfs.store.queue_counts import Counting
    from journalfs.views.queues import StoreAddress


class MeasuredStore(Protocol):
    """See `journalfs.store.store.JournalStore`."""

    core: Core

    @property
    def explanations(self) -> Explanations: ...

    @property
    def counting(self) -> Counting: ...

    def addresses(self) -> Sequence[StoreAddress]: ...

    @property
    def metrics(self) -> StoreMetrics: ...

    def status(self) -> Mapping[str, object]: ...


DAMAGE_NAME_CHARS_MAX = NAME_BYTES_MAX - len("-999999.json")
"""Room for the suffix, and for a number where several things are wrong at one place."""


def control_tree(store: MeasuredStore) -> VirtualDirectory:
    """The whole tree. Directories list what is there when they are listed."""
    core = store.core
    layout = core.layout
    now = lambda: core.clock.now_ms() * 1_000_000  # noqa: E731
    events = ComputedFile(lambda: to_json_lines(core.events), lambda: core.events.last_ms * 1_000_000)
    children: dict[str, VirtualDirectory | VirtualFile] = {
        "status.json": ComputedFile(lambda: to_json(store.status()), now),
        "metrics": SlicedFile(store.metrics.text, now, lambda: (core.epoch, core.waking.count)),
        "queues.jsonl": SlicedFile(store.counting.lines, now, lambda: (core.epoch, core.waking.count)),
        "events.jsonl": events,
        "settings.toml": ComputedFile(lambda: shown_settings(core).encode(), now),
        "journal": ExplainedJournal(
            _journal(core.loader.extension, layout.journal_dir, core.root), store.explanations
        ),
        "bindings": _journal(BINDINGS_EXTENSION, layout.bindings_dir, core.root),
        "pages": _pages(store),
        "large": _large(store),
        "damaged": _damaged(store),
        "transactions": transactions_directory(store.core),
    }
    if core.derived is not None:
        jms = {f"{encoded(name)}.json": facts for name, facts in core.derived.jms.items()}
        children["jms"] = ComputedDirectory(
            lambda: jms, lambda facts: ComputedFile(lambda: to_json(facts), now), lambda: 0
        )
    return FixedDirectory(children, now)


def encoded(name: str) -> str:
    """A control tree name for anything: only `/`, `%`, NUL, a leading dot and no UTF-8 are escaped."""
    escaped = shown(name).replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    return "%2E" + escaped[1:] if escaped.startswith(".") else escaped


# -- record views --------------------------------------------------------------------------------------------


def _journal(extension: str, directory: Path, root: Path) -> VirtualDirectory:
    reader = DirectoryReader(directory, extension=extension, relative_to=root)
    known: dict[str, JournalFile] = {}

    def files() -> dict[str, JournalFile]:
        nonlocal known
        known = {shown(file.name) + LINES_SUFFIX: file for file in reader.read().files}
        return known

    def find(name: str) -> JournalFile | None:
        file = known.get(name)
        return file if file is not None and FileStamp.at(file.path) == file.stamp else files().get(name)

    def make(file: JournalFile) -> VirtualFile:
        return SourceFile(
            lambda: _record_view(file), lambda: file.stamp.mtime_ns, identity=(file.path, file.stamp)
        )

    return ComputedDirectory(files, make, lambda: _mtime_ns(directory), find)


def _record_view(file: JournalFile) -> ByteSource:
    mapped = _mapped(file.path)
    scan = scan_journal(mapped, rid=file.rid, version=file.version, any_rid=file.header_damaged)
    mapped.detach()
    return _RecordsSource(RecordView(mapped, scan, shown(file.name)))


class _RecordsSource(WindowSource):
    """Lines of records, all of which are gone through before the first is found."""

    __slots__ = ()

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        view = self._window
        if isinstance(view, (RecordView, PageView)) and not view.is_measured:
            return view.measure
        return None


def _mapped(path: Path) -> MappedFile:
    try:
        return MappedFile(path)
    except OSError as error:
        raise SystemFailure.from_os(error, path, doing="open") from error


def _mtime_ns(directory: Path) -> int:
    try:
        return door.status(directory).st_mtime_ns
    except OSError:
        return 0


def _pages(store: MeasuredStore) -> VirtualDirectory:
    core = store.core

    def addresses() -> dict[str, str]:
        return {encoded(address): address for address in sorted(core.pages)}

    def find(name: str) -> str | None:
        address = unquote(name)
        return address if address in core.pages and encoded(address) == name else addresses().get(name)

    def make(address: str) -> VirtualDirectory:
        return _pages_of(address, core.pages[address], core.root)

    return ComputedDirectory(addresses, make, lambda: _mtime_ns(core.layout.paging_dir), find)


def _pages_of(address: str, paged: PagedAddress, root: Path) -> VirtualDirectory:
    def pages() -> dict[str, ListedPage]:
        files = (paged.files[number] for number in paged.numbers())
        return {file.path.name + LINES_SUFFIX: file for file in files}

    def page(name: str) -> ListedPage | None:
        parsed = parse_page_name(name.removesuffix(LINES_SUFFIX))
        file = None if parsed is None else paged.files.get(parsed.number)
        return file if file is not None and file.path.name + LINES_SUFFIX == name else None

    def make(file: ListedPage) -> VirtualFile:
        return _page_file(address, paged, file, root)

    return ComputedDirectory(pages, make, lambda: _mtime_ns(paged.path), page)


def _page_file(address: str, paged: PagedAddress, file: ListedPage, root: Path) -> VirtualFile:
    def source() -> ByteSource:
        # All addresses have pages of the same names, so that a page is known by its folder only.
        name = shown(os.path.relpath(file.path, root))
        mapped, scan = paged.mapped(file.number), paged.scan(file.number)
        return _RecordsSource(PageView(mapped, scan, name, address=address))

    return SourceFile(source, lambda: file.stamp.mtime_ns, identity=(file.path, file.stamp))


# -- large bodies and damage ---------------------------------------------------------------------------------


class FileWindow:
    """A stretch of a file as it lies on disk."""

    def __init__(self, mapped: MappedFile, offset: int, length: int) -> None:
        self._mapped = mapped
        self._offset = min(offset, mapped.size_bytes)
        self.size_bytes = min(length, mapped.size_bytes - self._offset)

    def read(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, self.size_bytes - offset))
        return self._mapped.copy(self._offset + offset, length) if length else b""


def _file_window(path: Path, offset: int = 0, length: int | None = None) -> ByteSource:
    try:
        mapped = MappedFile(path)
    except OSError:
        return BytesSource(b"")
    mapped.detach()
    return WindowSource(FileWindow(mapped, offset, mapped.size_bytes if length is None else length))


def _large(store: MeasuredStore) -> VirtualDirectory:
    large = store.core.large

    def files() -> dict[str, LargeFile]:
        return {file.name: file for file in large.files()}

    def make(file: LargeFile) -> VirtualFile:
        return SourceFile(lambda: _file_window(large.path / file.name), lambda: file.mtime_ns)

    return ComputedDirectory(files, make, lambda: _mtime_ns(large.path), large.listed)


def _damaged(store: MeasuredStore) -> VirtualDirectory:
    """Return two files for each loss that the account lists: its description, and its raw bytes."""
    root = store.core.root

    def places() -> dict[str, tuple[Entry, Callable[[Entry, Path], ByteSource]]]:
        found: dict[str, tuple[Entry, Callable[[Entry, Path], ByteSource]]] = {}
        same: Counter[str] = Counter()
        for entry in entries_of(store.core):
            if entry.is_harmless:
                continue
            name = _damage_name(entry)
            same[name] += 1
            stem = name if same[name] == 1 else f"{name}-{same[name]}"
            found[stem + ".json"] = entry, _damage_facts
            if _has_bytes(entry):
                found[stem + ".bin"] = entry, _damaged_bytes
        return found

    def make(place: tuple[Entry, Callable[[Entry, Path], ByteSource]]) -> VirtualFile:
        entry, show = place
        return SourceFile(lambda: show(entry, root), lambda: _mtime_ns(path_of(entry.file, root)))

    return ComputedDirectory(places, make, lambda: store.core.clock.now_ms() * 1_000_000)


def _has_bytes(entry: Entry) -> bool:
    """Return True if there are bytes to show: unreadable ones cannot be shown."""
    return bool(entry.bytes) and entry.kind != "unreadable"


def _damage_name(entry: Entry) -> str:
    """Of a long path the end, which names the file, behind a number that stands for the whole."""
    name = f"{quote(entry.file, safe=' -_.')}@{entry.offset or 0}-{entry.kind}"
    if len(name) <= DAMAGE_NAME_CHARS_MAX:
        return name
    import hashlib  # noqa: PLC0415 - every command imports this module, and few stores have such paths

    whole = hashlib.blake2b(name.encode(), digest_size=NAME_HASH_CHARS // 2).hexdigest()
    return f"{whole}~{name[NAME_HASH_CHARS + 1 - DAMAGE_NAME_CHARS_MAX :]}"


def _damage_facts(entry: Entry, _root: Path) -> ByteSource:
    return BytesSource(to_json(entry.json()))


def _damaged_bytes(entry: Entry, root: Path) -> ByteSource:
    length = min(entry.bytes or 0, DAMAGED_BYTES_SHOWN_MAX)
    return _file_window(path_of(entry.file, root), entry.offset or 0, length)


def type_name(user_type: int) -> str:
    """For record views and transactions alike."""
    return user_type_name(user_type)
