"""What bindings, journal and pages say against each other, as far as no record has to be read again for it.

`account.taking` lists it for every command; `inspect.deep` asks the same functions with what it found by
reading everything. Nothing here changes a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journalfs.bindings.model import BindingsState
from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.ids import PageNumber, QueueId
from journalfs.live.bindings import EXTENSION
from journalfs.records.files.directory import read_directory

if TYPE_CHECKING:
    from journalfs.config.layout import StoreLayout
    from journalfs.live.core import Core

_OF_BINDINGS: Final = frozenset(
    {"queue-without-address", "duplicate-address", "duplicate-queue", "status-of-unknown"}
)
"""What is wrong with bindings though each can be read."""


@dataclass(slots=True)
class Contradictions:
    """What an open store lists of them, whenever it is asked."""

    core: Core
    as_opened: Sequence[Damage]
    """What `of_journal` found then: what is written later, its writer keeps true."""
    _seen: BindingsState | None = None
    _of_bindings: Sequence[Damage] = ()

    def damage(self) -> Iterator[Damage]:
        """Yield all. Bindings are looked at again after each change: `mkdir` of an address mends one."""
        core = self.core
        if core.bindings is not self._seen:
            self._seen, self._of_bindings = core.bindings, tuple(of_bindings(core))
        yield from self.as_opened
        # Where a binding is lost, that explains what others say.
        yield from () if _are_damaged(core) else self._of_bindings


def of_bindings(core: Core) -> Iterator[Damage]:
    """Yield what bindings say against each other."""
    bindings = core.bindings
    for anomaly in bindings.anomalies:
        if anomaly.kind in _OF_BINDINGS:
            yield Damage(anomaly.file, anomaly.offset, 0, anomaly.kind, anomaly.reason, messages=0)
    folder = name_of(core.layout.bindings_dir, core.root)
    for queue in bindings.queues.values():
        types = bindings.addresses[queue.address].binding.routing_types
        if queue.binding.routing_type not in types:
            has = ", ".join(sorted(one.name for one in types)) or "none"
            name = f"{queue.address}::{queue.name}"
            reason = f"{name}: it is {queue.binding.routing_type.name}, and its address takes {has}"
            yield Damage(folder, 0, 0, "routing-type", reason, name, 0)


def of_journal(core: Core, bindings: BindingsState) -> Iterator[Damage]:
    """Yield what the journal says against bindings, and against pages that are whole."""
    if not _are_damaged(core):
        yield from unknown_queues(core, bindings)
        yield from given_twice(core, bindings, _highest_id(core))
    if not core.missing_journal_files and not core.loader.damage() and not any(core.damage_of_pages()):
        yield from hidden_by_complete(core)


def unknown_queues(core: Core, bindings: BindingsState) -> Iterator[Damage]:
    """Yield queues that messages are in, and no binding names or has deleted."""
    state = core.loader.state
    for number, messages in sorted(state.unbound_messages().items()):
        if number in bindings.deleted or QueueId(number) in bindings.queues:
            continue  # the broker died while it deleted the queue
        refs = state.refs(state.register_queue(QueueId(number)), "arrival", "all")
        first = state.ref(refs[0])
        place = name_of(core.loader.files.read_file(first.file_slot).file.path, core.root), first.offset
        reason = f"{messages} messages refer to queue {number}, which no binding names"
        yield Damage(*place, 0, "unknown-queue", reason, messages=messages)


def given_twice(core: Core, bindings: BindingsState, highest_id: int) -> Iterator[Damage]:
    """Yield the record of the id generator where it is below an id that there is: it is written ahead of the
    ids that are given, and ids above it would be given again.
    """
    counter = bindings.id_counter
    if counter is None and bindings.queues:
        reason = "no record says which ids were given"
        yield Damage(*_counter(core.layout), 0, "id-generator", reason, messages=0)
    elif counter is not None and highest_id > counter:
        reason = f"it says that ids up to {counter} were given, and there is {highest_id}"
        yield Damage(*_counter(core.layout), 0, "id-generator", reason, messages=0)


def hidden_by_complete(core: Core) -> Iterator[Damage]:
    """Yield marks of pages as done with that have more messages than the mark says. All of pages and journal
    has to be whole. A mark of more records than the page has is damage of the page already.
    """
    paged_of = {
        queue.queue_id: paged
        for address, paged in core.pages.items()
        for queue in core.bindings.queues_of(address)
    }
    for record in core.loader.state.side(MessageType.PAGE_COMPLETE):
        queue, number, records = record.a, PageNumber(record.b), record.c
        paged = paged_of.get(QueueId(queue))
        if paged is None or number not in paged.files:
            continue
        has = paged.summary(number).records
        if records < has:
            file = name_of(core.loader.files.read_file(record.file_slot).file.path, core.root)
            reason = f"queue {queue} is done with the {records} messages of page {number}, which it has {has}"
            yield Damage(file, record.body_offset, record.body_bytes, "page-complete", reason, messages=0)


def _are_damaged(core: Core) -> bool:
    """Return whether something is wrong with bindings that explains whatever differs from them."""
    return bool(core.bindings_damage or core.lost.queues)


def _highest_id(core: Core) -> int:
    """Return the highest id of a record or of a message in pages that the open store knows."""
    found = [core.loader.state.counts().highest_id]
    for paged in core.pages.values():
        found += (paged.summary(number).last_id for number in paged.numbers())
    return max(found)


def _counter(layout: StoreLayout) -> tuple[str, int]:
    """Return where the last record of the id generator is; the directory, where there is none."""
    found = name_of(layout.bindings_dir, layout.root), 0
    listing = read_directory(layout.bindings_dir, extension=EXTENSION, relative_to=layout.root)
    for file in listing.files:
        with MappedFile(file.path) as mapped:
            for record in scan_journal(mapped, rid=file.rid, version=file.version):
                is_added = record.kind in (RecordKind.ADD, RecordKind.ADD_TX)
                if record.user_type == BindingType.ID_COUNTER and is_added:
                    found = name_of(file.path, layout.root), record.offset
    return found
