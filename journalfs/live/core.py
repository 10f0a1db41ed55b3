"""The parts of one open store that everything else uses: journal, pages, large bodies, bindings, damage.

A `Core` changes in place while a broker writes. `epoch` grows when the journal was read again from its
beginning: objects made from reference indexes of an earlier epoch must be made again.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from journalfs.bindings.model import BindingsState, FullNames
from journalfs.damage import Damage, name_of
from journalfs.engine.state import LiveState
from journalfs.engine.state_batch import keep_aside
from journalfs.engine.state_types import TransactionInfo
from journalfs.errors import DecodeError
from journalfs.format.page_folder import ADDRESS_FILE_NAME, INVALID_SUFFIX, format_page_name
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.live.events import Events, LoopLag
from journalfs.live.folder_addresses import FolderAddresses
from journalfs.live.lost_bindings import LostBindings
from journalfs.live.memory import ActingLimit, Limiting, Totals
from journalfs.live.missing import missing_directories
from journalfs.live.part_names import PartNames
from journalfs.live.runs import RunsStore
from journalfs.live.undecided import undecided_damage, undecided_in
from journalfs.pages.address import PagedAddress
from journalfs.pages.cursors import Cursors, Moved, SideRecord
from journalfs.pages.folders import PageFolder
from journalfs.records.files.kept_damage import kept_damage
from journalfs.records.files.loader import JournalLoader
from journalfs.records.kinds import older_kinds

if TYPE_CHECKING:
    from journalfs.live.runs import JournalSegment, Run
    from journalfs.records.kinds import SourcePlaces


# Parts whose lines were laid out for a reader, kept for the next one.
#
# To lay out 65,536 lines takes some 1.5 ms; what a part holds changes only by messages that leave it.

LINES_MAX: Final = 262_144
"""Of all that are kept: 25 MB."""

PARTS_MAX: Final = 64


class LaidOut:
    """Rendered parts that are kept for the next reader, by a key that identifies their content. `clear` may
    be called in any thread.
    """

    __slots__ = ("_kept", "_lock")

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Run, JournalSegment]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> tuple[Run, JournalSegment] | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._kept

    def keep(self, key: Hashable, run: Run, segment: JournalSegment) -> None:
        """Keep a rendered part, unless it has bodies in files of their own: these must be free
        for deletion.
        """
        if segment.lines.has_large or len(run) > LINES_MAX:
            return
        with self._lock:
            self._kept[key] = run, segment
            while len(self._kept) > PARTS_MAX or sum(len(run) for run, _ in self._kept.values()) > LINES_MAX:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Let go of the journal files that they are rendered from."""
        with self._lock:
            self._kept.clear()


# What queues said of themselves last, for who asks again at once: reading one file asks four times.

KEPT_MAX: Final = 64
"""Queues that are read side by side."""

KEPT_MS: Final = 100
"""Milliseconds for which a queue's status is served again without a look for messages that
become due or expire.
"""


class Statuses:
    """By queue."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[QueueId, tuple[object, int, Mapping[str, object]]] = OrderedDict()

    def get(
        self, queue: QueueId, made_of: object, now_ms: int, make: Callable[[], Mapping[str, object]]
    ) -> Mapping[str, object]:
        """As it was made, if that was just now and of the same."""
        made_before, before_ms, status = self._kept.get(queue, (None, 0, {}))
        if made_before != made_of or not 0 <= now_ms - before_ms < KEPT_MS:
            status = make()
            self._kept[queue] = made_of, now_ms, status
            self._kept.move_to_end(queue)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return status


# What delivering knows of messages by queue, and the disk does not: which are with a reader that consumes,
# or wait in a draft, and how often some were delivered in vain.


class OutOfSight:
    """The delivered messages that are hidden from views, as if a prepared transaction had
    acknowledged them.
    """

    def __init__(self) -> None:
        self.version = 0
        """Grows with each change of what is in pages."""
        self.messages: dict[QueueId, set[MessageId]] = {}
        self.paged: dict[QueueId, set[tuple[PageNumber, int]]] = {}

    def put(self, queue: QueueId, messages: array[int], paged: Iterable[tuple[PageNumber, int]]) -> None:
        self.messages.setdefault(queue, set()).update(map(MessageId, messages))
        self._change(queue, lambda places: places.update(paged))

    def drop(self, queue: QueueId, messages: array[int], paged: Iterable[tuple[PageNumber, int]]) -> None:
        self.messages[queue].difference_update(map(MessageId, messages))
        self._change(queue, lambda places: places.difference_update(paged))

    def _change(self, queue: QueueId, change: Callable[[set[tuple[PageNumber, int]]], None]) -> None:
        places = self.paged.setdefault(queue, set())
        before = len(places)
        change(places)
        self.version += len(places) != before


class HeldMessages:
    """Messages that were delivered and are neither acknowledged nor released. `version` grows
    with each change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._messages: dict[QueueId, set[MessageId]] = {}
        self._paged: dict[QueueId, set[tuple[PageNumber, int]]] = {}
        self.aside = OutOfSight()
        self._delayed: dict[QueueId, dict[MessageId | tuple[PageNumber, int], int]] = {}
        self._attempts: dict[QueueId, dict[MessageId, int]] = {}

    def hold(
        self, queue: QueueId, messages: Iterable[MessageId], paged: Iterable[tuple[PageNumber, int]]
    ) -> None:
        self.version += 1
        self._messages.setdefault(queue, set()).update(messages)
        self._paged.setdefault(queue, set()).update(paged)

    def let_go(
        self, queue: QueueId, messages: Iterable[MessageId], paged: Iterable[tuple[PageNumber, int]]
    ) -> None:
        self.version += 1
        self._messages[queue].difference_update(messages)
        self._paged[queue].difference_update(paged)

    def delayed(self, queue: QueueId) -> dict[MessageId | tuple[PageNumber, int], int]:
        """When the next attempt is due where that is not on disk: of messages in pages, and beyond
        `max-redelivery-records`. In milliseconds since 1970, by place.
        """
        return self._delayed.setdefault(queue, {})

    def counts(self, queue: QueueId) -> bool:
        """Whether there are attempts that are not on disk."""
        return bool(self._attempts.get(queue))

    def attempts(self, queue: QueueId, message_id: MessageId) -> int:
        """How often a message was delivered in vain, where that is not on disk; otherwise 0."""
        return self._attempts.get(queue, {}).get(message_id, 0)

    def failed(self, queue: QueueId, attempts: int) -> list[MessageId]:
        """Return the messages that were delivered in vain at least so often, as far as the disk
        does not say so.
        """
        known = self._attempts.get(queue, {})
        return [message_id for message_id, count in known.items() if count >= attempts]

    def count(self, queue: QueueId, message_id: MessageId, attempts: int) -> None:
        self.version += 1
        self._attempts.setdefault(queue, {})[message_id] = attempts

    def forget(self, queue: QueueId, message_id: MessageId) -> None:
        """Forget the attempts of a message that left its queue."""
        self._attempts.get(queue, {}).pop(message_id, None)

    def any(self, queue: QueueId) -> bool:
        return bool(self._messages.get(queue) or self._paged.get(queue))

    def messages(self, queue: QueueId) -> list[MessageId]:
        """Return the held messages of the journal that are visible, by id."""
        return sorted(self._messages.get(queue, set()) - self.aside.messages.get(queue, set()))

    def paged(self, queue: QueueId) -> dict[PageNumber, array[int]]:
        """Return the held messages in pages that are visible, as indexes by page."""
        found: dict[PageNumber, array[int]] = {}
        for number, index in sorted(self._paged.get(queue, set()) - self.aside.paged.get(queue, set())):
            found.setdefault(number, array("I")).append(index)
        return found

    def has(self, queue: QueueId, place: MessageId | tuple[PageNumber, int]) -> bool:
        if isinstance(place, tuple):
            return place in self._paged.get(queue, ())
        return place in self._messages.get(queue, ())


logger = logging.getLogger(__name__)


class Contradicting(Protocol):
    """Lists what parts of a store say against each other."""

    def damage(self) -> Iterable[Damage]: ...


class NoContradictions:
    """A store of which nobody asked."""

    def damage(self) -> Iterable[Damage]:
        return ()


@dataclass(slots=True, kw_only=True)
class Core(RunsStore):
    """The live content of an open store, and the damage that was found in it."""

    events: Events
    names: PartNames
    edition: int = 0
    """How often bytes of the journal turned out to have changed in place."""
    lost: LostBindings = field(init=False)
    folder_addresses: FolderAddresses = field(init=False)
    totals: Totals = field(init=False)
    torn: set[int] = field(default_factory=set)
    """Journal files, by slot, of which a reader could not read something that was measured."""
    limits: Limiting | None = None
    """None where nobody publishes. Set by a store that is written."""
    in_delivery: HeldMessages = field(default_factory=HeldMessages)
    """Messages that readers of a stream have and have not acknowledged yet."""
    missing_journal_files: Sequence[str] = ()
    """Ids of missing journal files when the store was opened: lost, or deleted by hand."""
    missing_in_pages: Sequence[Damage] = ()
    """Pages that only the journal's records tell of, as of when the store was opened."""
    other_damage: Callable[[], Iterable[Damage]] = tuple
    """Returns damage of the store as a whole."""
    contradictions: Contradicting = field(default_factory=NoContradictions)
    """What bindings, journal and pages say against each other: `account.contradictions`."""
    tally: Counter[tuple[QueueId, str]] = field(default_factory=Counter)
    """Messages that left a queue since the store was opened without anybody having asked, by the name that a
    broker has for the reason.
    """
    duplicates_left_out: Counter[str] = field(default_factory=Counter)
    """Messages that were not published since the store was opened, their duplicate ids being known: how many,
    by address.
    """
    laid_out: LaidOut = field(default_factory=LaidOut)
    statuses: Statuses = field(default_factory=Statuses)
    _places: SourcePlaces | None = None
    _registered: tuple[int, BindingsState | None] = (-1, None)
    """With the live state of which epoch, which bindings."""
    _side_key: tuple[int, int, int] = (-1, -1, -1)
    _folders_changed: bool = False
    """Page folders are otherwise than `refresh_pages` said last."""
    _pages_doubted: bool = False
    """`refresh_pages` was left half done: changes that it had been told of may be lost."""
    _duplicates: tuple[tuple[int, int], Mapping[str, int]] = ((-1, -1), {})

    lag: LoopLag = field(init=False)

    def limits_of(self, address: str) -> ActingLimit | None:
        return None if self.limits is None else self.limits.acting(address)

    def __post_init__(self) -> None:
        super(Core, self).__post_init__()
        self.lag = LoopLag(self.clock, self.events)
        self.lost = LostBindings(self)
        self.folder_addresses = FolderAddresses(self)
        self.totals = Totals(self, self.lost)

    @property
    def selection_bytes_max(self) -> int:
        """Bytes that all selections of the process may take together, `selection-memory-bytes`."""
        value = self.layout.value_in_force("selection-memory-bytes")
        assert isinstance(value, int)
        return value

    def let_go(self) -> None:
        """Unmap the files, so that removed ones give back their room. Open readers keep their own mappings;
        nothing else may be asked of the store afterwards.
        """
        old = self.loaded
        self.loaded = JournalLoader(
            old.directory, old.extension, old.relative_to, self.clock, LiveState(), following=old.following
        )
        self.epoch += 1
        self.pages = {}
        self.laid_out.clear()

    def is_rendered(self, name: str) -> bool:
        """Return True if an open file is rendered from the journal file that its writer knows by `name`;
        compaction may have given that file another name since. Renderings that are only kept for later
        readers are dropped. May be called in any thread.
        """
        self.laid_out.clear()
        try:
            return any(held.file.name == name for held in list(self.held))
        except RuntimeError:  # the set grew meanwhile
            return True

    def register_queues(self) -> None:
        """Give every bound queue its slot before anything refers to it, so that slots follow the bindings."""
        state, bindings = self.loader.state, self.bindings
        known, self._registered = self._registered, (self.epoch, bindings)
        changed = bindings.changed_since(known[1]) if known[0] == self.epoch else None
        state.unbind_queues(None if changed is None else changed.queues)
        ids = bindings.queues.keys() if changed is None else changed.queues & bindings.queues.keys()
        state.bind_queues(sorted(ids))

    def refresh_pages(self) -> bool:
        """Take over the paging directory and the positions in the journal. Returns whether anything changed
        since the last call.
        """
        doubted, self._pages_doubted = self._pages_doubted, True
        if doubted:
            # Each change is told once: without those that were lost, consumed messages would come again.
            self.pages.clear()
            self._folders_changed = True
        own = self.paging.look()
        if doubted or own is None or self.folder_addresses.may_differ():
            self._take_folders()
        else:
            self._take_own_folders(*own)
        side_version = self.loader.state.counts().side_version
        side_key = (side_version, self.epoch, self.in_delivery.aside.version)
        changed = self._folders_changed
        if doubted or side_key != self._side_key:
            moved = self._take_cursors(whole=doubted)
            for paged in self.pages.values():
                paged.set_cursors(self.cursors, moved)
            changed = True
        self._side_key = side_key
        self._folders_changed = self._pages_doubted = False
        return changed

    def _take_cursors(self, *, whole: bool) -> Moved:
        """Take over what the journal says of pages, `whole` or by its changes; return what is otherwise."""
        state, before = self.loader.state, self.cursors
        changes = state.page_changes()
        if changes is not None and not whole:
            moved = before.take(changes)
            prepared = before.take_prepared(self._prepared_cursors())
            return Moved(moved.places | prepared.places, moved.transactions | prepared.transactions)
        numbers = state.side_numbers
        self.cursors = Cursors.from_records(
            numbers(MessageType.ACKNOWLEDGE_CURSOR),
            numbers(MessageType.PAGE_COMPLETE),
            numbers(MessageType.PAGE_TRANSACTION),
        )
        self.cursors.take_prepared(self._prepared_cursors())
        return self.cursors.moved_from(before)

    def _take_folders(self) -> None:
        folders = self.folder_addresses.assign(self.paging.seen())
        for address, folder in folders.items():
            self._take_folder(address, folder)
        for address in self.pages.keys() - folders.keys():
            del self.pages[address]
            self._folders_changed = True

    def _take_own_folders(self, folders: Sequence[PageFolder], gone: Set[Path]) -> None:
        for folder in folders:
            address = self.folder_addresses.of(folder, [])
            known = None if address is None else self.pages.get(address)
            if address is not None and (known is None or known.path == folder.path):
                self._take_folder(address, folder)
        for address in [one for one, paged in self.pages.items() if paged.path in gone] if gone else ():
            del self.pages[address]
            self._folders_changed = True

    def _take_folder(self, address: str, folder: PageFolder) -> None:
        paged = self.pages.get(address)
        if paged is None or (paged.path is not folder.path and paged.path != folder.path):
            paged = self.pages[address] = PagedAddress(
                folder.path, self.root, self.bodies.measure_page, cursors=self.cursors
            )
        self._folders_changed |= paged.update(folder)

    def _prepared_cursors(self) -> Iterable[SideRecord]:
        for transaction in self.loader.state.transactions():
            for operation in transaction.operations:
                if operation.kind == RecordKind.ADD:
                    yield SideRecord(operation.user_type, operation.a, operation.b, operation.c)
        for queue, places in self.in_delivery.aside.paged.items():
            for number, index in places:
                yield SideRecord(MessageType.ACKNOWLEDGE_CURSOR, queue, number, index)

    def keep_aside(self, *, aside: bool = True) -> None:
        """Have a state that knows nothing of it keep out of sight what waits in drafts, or show it."""
        state = self.loader.state
        for queue, ids in self.in_delivery.aside.messages.items():
            keep_aside(state, state.register_queue(queue), array("q", ids), aside=aside)

    def duplicate_ids(self) -> Mapping[str, int]:
        """How many ids the duplicate detection of each address has stored."""
        key = (self.loader.state.counts().side_version, self.epoch)
        if self._duplicates[0] != key:
            self._duplicates = (key, Counter(self._duplicate_addresses()))
        return self._duplicates[1]

    def _duplicate_addresses(self) -> Iterable[str]:
        for operation in self.loader.state.side(MessageType.DUPLICATE_ID):
            body = self.loader.files[operation.file_slot].copy(operation.body_offset, operation.body_bytes)
            try:
                yield Reader(body).simple_string()
            except DecodeError as error:
                logger.warning("duplicate id record %d: %s", operation.record_id, error)

    def knows_queue(self, queue_id: QueueId) -> bool:
        return queue_id in self.bindings.queues or queue_id in self.lost.queues

    def damage(self) -> list[Damage]:
        """Everything that could not be read, by file and offset."""
        names = self.queue_names()
        found = [*self.other_damage(), *self.bindings_damage, *self._of_journal(names)]
        found += self.bodies.damage()
        found += [*self.large.problems(self.root), *self.lost.damage(), *missing_directories(self)]
        found += kept_damage(self.root)
        found += undecided_damage(self.undecided(), self.loader, names, self.pages.values())
        return sorted([*found, *self.damage_of_pages()])

    def _of_journal(self, names: Mapping[int, str]) -> Iterable[Damage]:
        """By the files of what the store was derived from."""
        found = self.loader.damage(names)
        if self.derived is None or not found:
            return found
        if self._places is None:
            self._places = older_kinds().places(self.derived, self.layout)
        return map(self._places.told, found)

    def queue_names(self) -> Mapping[int, str]:
        """In full, by id."""
        return FullNames(self.bindings.queues)

    def undecided(self) -> list[TransactionInfo]:
        """Transactions that lost bytes of the journal may have committed: nothing of them counts."""
        return undecided_in(self.loader, self.loses_ends)

    def loses_ends(self) -> bool:
        """Return True if the record of a transaction's end may be lost: the journal has any damage."""
        return bool(self.missing_journal_files or self.loader.damage() or any(kept_damage(self.root)))

    def damage_of_pages(self) -> Iterable[Damage]:
        """Yield the damage in pages and page folders."""
        yield from self.missing_in_pages
        yield from self.paging.problems()
        yield from self.folder_addresses.wrong
        for address, paged in self.pages.items():
            yield from paged.damage()
            yield from self._cut_short(address, paged)
            yield from self._of_other_addresses(address, paged)

    def _cut_short(self, address: str, paged: PagedAddress) -> Iterable[Damage]:
        """Pages that end in whole records, and of which more was consumed than there is. Beside a broker the
        journal may be ahead of what was seen of its pages.
        """
        queues = [] if self.live_broker else [queue.queue_id for queue in self.bindings.queues_of(address)]
        for number in paged.numbers() if queues else ():
            summary, page = paged.summary(number), paged.files[number]
            if summary.damage or not page.stamp.size_bytes:
                continue
            if self.cursors.reach_beyond(queues, number, summary.records):
                reason = "the journal says that more of it was consumed than there is: the rest of it is lost"
                yield Damage(name_of(page.path, self.root), page.stamp.size_bytes, 0, "short-file", reason)

    def pages_set_aside(self) -> list[str]:
        """Names of the files that pages were renamed to which are needed no more, but may be had back."""
        return [
            name_of(paged.path / (format_page_name(number) + INVALID_SUFFIX), self.root)
            for paged in self.pages.values()
            for number in sorted(paged.set_aside)
        ]

    def _of_other_addresses(self, address: str, paged: PagedAddress) -> Iterable[Damage]:
        """Yield pages whose queues are bound to another address, so that their messages are not shown."""
        others: Counter[str] = Counter()
        for number in paged.numbers():
            others.update(self.others_in(address, paged, number))
        for other, pages in sorted(others.items()):
            name = name_of(paged.path / ADDRESS_FILE_NAME, self.root)
            reason = f"says {address!r}, and {pages} pages beside it are of queues of {other!r}: not shown"
            yield Damage(name, 0, 0, "page-folder", reason)

    def others_in(self, address: str, paged: PagedAddress, page: PageNumber) -> frozenset[str]:
        """Return the other addresses whose queues own a page in this address's folder. A person who moved the
        page, or wrote another name into the folder, may want it back.
        """
        bound = (self.bindings.queues.get(queue_id) for queue_id in paged.queues_in(page))
        return frozenset(queue.address for queue in bound if queue is not None and queue.address != address)

    def stray_page(self, address: str) -> str | None:
        """The name of a page beside those of an address that is not its own; None: there is none."""
        paged = self.pages.get(address)
        if paged is None:
            return None
        strays = (page for page in paged.numbers() if self.others_in(address, paged, page))
        return next((name_of(paged.files[page].path, self.root) for page in strays), None)

    def has_strays(self) -> bool:
        """Whether there are pages, or folders of them, that are not where they belong."""
        return bool(self.folder_addresses.wrong) or any(map(self.stray_page, self.pages))
