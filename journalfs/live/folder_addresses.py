"""Assigns page folders to addresses, by their `address.txt`, the bindings and their pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import LineBatch
from journalfs.engine.pages import PageScan, scan_page
from journalfs.format.page_folder import ADDRESS_FILE_NAME, ascii_only
from journalfs.ids import QueueId
from journalfs.message.envelope import decode_envelope
from journalfs.pages.folders import PageFolder

if TYPE_CHECKING:
    from journalfs.bindings.model import BindingsState
    from journalfs.live.opened import OpenStore

_Said: TypeAlias = tuple[str | None, str | None]


class FolderAddresses:
    def __init__(self, core: OpenStore) -> None:
        self._core = core
        self.wrong: Sequence[Damage] = ()
        """Damage: folders whose address is contradicted."""
        self._unsure = False
        """True if the assignment depended on more than the folders' own names."""
        self._assigned: BindingsState | None = None
        """The bindings of the last assignment."""
        self._by_ascii: tuple[BindingsState | None, Mapping[str, Sequence[str]]] = (None, {})
        self._by_records: dict[Path, tuple[PageFolder, BindingsState, _Said]] = {}

    def may_differ(self) -> bool:
        """Whether a folder may be another address's than at the last `assign`."""
        return self._unsure and self._assigned is not self._core.bindings

    def assign(self, folders: Iterable[PageFolder]) -> Mapping[str, PageFolder]:
        """The folder of each address: the first, where there are several."""
        self._unsure, self._assigned = False, self._core.bindings
        wrong: list[Damage] = []
        found: dict[str, PageFolder] = {}
        for folder in folders:
            address = self.of(folder, wrong)
            if address is not None and found.setdefault(address, folder) is not folder:
                reason = (
                    f"a second page folder of address {address!r} with {len(folder.pages)} pages, not read"
                )
                wrong.append(self._damage(folder.path, reason))
        self.wrong = wrong
        return found

    def of(self, folder: PageFolder, wrong: list[Damage]) -> str | None:
        """The address a folder stands for, also when its name lost characters to an ASCII-only locale.

        Without a name, it is the address of the queues that its records name, or the one that its first
        message was sent to; `None` if these say nothing.
        """
        written = folder.written_address
        if written is None:
            self._unsure = True
            bound, sent_to = self._address_by_records(folder)
            return bound or sent_to
        if written in self._core.bindings.addresses:
            return written
        self._unsure = True
        matching = self._ascii_only().get(written, ()) if "?" in written else ()
        if len(matching) == 1:
            return matching[0]
        bound, _ = self._address_by_records(folder)
        if bound is None:
            return written
        reason = f"says {written!r}, and the pages beside it are of queues of {bound!r}"
        wrong.append(self._damage(folder.path / ADDRESS_FILE_NAME, reason))
        return bound

    def _ascii_only(self) -> Mapping[str, Sequence[str]]:
        """Addresses by what brokers may have written of them, for all folders at once."""
        if self._by_ascii[0] is not self._core.bindings:
            found: dict[str, list[str]] = {}
            for name in self._core.bindings.addresses:
                found.setdefault(ascii_only(name), []).append(name)
            self._by_ascii = self._core.bindings, found
        return self._by_ascii[1]

    def _damage(self, path: Path, reason: str) -> Damage:
        return Damage(name_of(path, self._core.root), 0, 0, "page-folder", reason)

    def _address_by_records(self, folder: PageFolder) -> _Said:
        """The address of a queue that is bound and that a record names, and where the first message was
        sent to. It takes reading, so it is remembered as long as folder and bindings are the same.
        """
        known = self._by_records.get(folder.path)
        if known is None or known[0] != folder or known[1] is not self._core.bindings:
            known = self._by_records[folder.path] = (folder, self._core.bindings, self._read_address(folder))
        return known[2]

    def _read_address(self, folder: PageFolder) -> _Said:
        sent_to: str | None = None
        for page in folder.pages:
            try:
                with MappedFile(page.path) as mapped:
                    scan = scan_page(mapped)
                    queue_ids, _ = scan.queue_ids()
                    sent_to = sent_to or _address_of_first(scan)
            except OSError:
                continue  # gone meanwhile, or it is listed with what cannot be read
            for queue_id in queue_ids:
                queue = self._core.bindings.queues.get(QueueId(queue_id))
                if queue is not None:
                    return queue.address, sent_to
        return None, sent_to


def _address_of_first(scan: PageScan) -> str | None:
    if not scan.count:
        return None
    line = scan.fill_lines([0], queue=None, now_ms=0)
    address = decode_envelope(LineBatch(line.lines, 1, queue=None, keep=line).line(0)).get("address")
    return address if isinstance(address, str) else None
