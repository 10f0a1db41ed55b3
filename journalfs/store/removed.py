"""Shows removed messages as a store of its own: derived from bytes that are still on the disk, and
disposable.

It is read as any other store. Messages stand in the order in which they were given, and their time is that of
their removal.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from journalfs import door
from journalfs.api import QueuePath
from journalfs.bindings.model import Queue
from journalfs.clock import Clock, StoppedClock
from journalfs.config.data_directory import JOURNAL_EXTENSION
from journalfs.config.layout import StoreLayout
from journalfs.engine.lines import SOURCE_CORE_LARGE
from journalfs.format import amqp_message
from journalfs.format.bindings import encode_queue_binding
from journalfs.format.large_file import format_large_name
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.ids import MessageId, QueueId
from journalfs.live.content import QueueContent
from journalfs.live.runs import Run
from journalfs.records.new_store import NewStore, plain_queue
from journalfs.store.opening import Opening
from journalfs.store.store import JournalStore
from journalfs.views.message import HEADER_PREFIX, StoreMessage
from journalfs.views.queues import StoreQueue
from journalfs.views.views import MessageListing

_SHORTAGES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)

NS_PER_MS: Final = 1_000_000

REMOVED_TIME: Final = HEADER_PREFIX + "removedTime"


class Where(NamedTuple):
    """A message that was removed: its record's bytes lie in a file. `removed_ms`: when. `due_ms`: when it
    would be due in its queue; 0: at once.
    """

    queue: Queue
    message_id: MessageId
    source: int
    file: Path
    offset: int
    size_bytes: int
    due_ms: int
    removed_ms: int


@dataclass(slots=True)
class Derived:
    """The derived store."""

    place: Path
    times_ms: dict[QueuePath, dict[int, int]]
    """By queue and message."""


def derive(place: Path, messages: Iterable[Where], body_of: Callable[[MessageId], Iterable[Path]]) -> Derived:
    """Write a store with these messages into a new directory. `body_of`: where the file of a large one may
    be. Takes as long as reading them does. Raises OSError.
    """
    door.make_folders(place)
    derived, queues = Derived(place, {}), dict[QueuePath, QueueId]()
    there: set[MessageId] = set()
    with NewStore(place) as out, Reader() as reader:
        for one in messages:
            path = (one.queue.address, one.queue.name)
            if path not in queues:
                queues[path] = _add_queue(out, one.queue)
                derived.times_ms[path] = {}
            times = derived.times_ms[path]
            if one.message_id in times:
                continue
            if one.message_id not in there:
                record = reader.read(one.file, one.offset, one.size_bytes)
                if not _add_message(out, one, record, body_of):
                    continue
                there.add(one.message_id)
            times[one.message_id] = one.removed_ms
            out.references(one.message_id, [queues[path]])
            if one.due_ms:
                out.schedule(one.message_id, queues[path], one.due_ms)
        out.ids_from(1 + max((*queues.values(), *there), default=0))
    return derived


def _add_queue(out: NewStore, queue: Queue) -> QueueId:
    """Add a queue. Its settings do not matter in a store that is only read."""
    out.ids_from(queue.queue_id + 1)
    out.address(queue.address, queue.binding.routing_type)
    binding = plain_queue(queue.name, queue.address, queue.binding.routing_type, None, "")
    out.binding(queue.queue_id, BindingType.QUEUE_BINDING, encode_queue_binding(binding))
    return queue.queue_id


def _add_message(
    out: NewStore, one: Where, record: bytes, body_of: Callable[[MessageId], Iterable[Path]]
) -> bool:
    """Whether all of it is there yet."""
    core_large = one.source == SOURCE_CORE_LARGE
    is_there = True
    if core_large or record[:1] == bytes((amqp_message.LARGE,)):
        name = out.large_dir / format_large_name(one.message_id)
        is_there = any(_linked(body, name) for body in body_of(one.message_id))
    if is_there:
        kind = MessageType.LARGE_MESSAGE if core_large else MessageType.MESSAGE
        out.record(RecordKind.ADD, one.message_id, kind, record)
    return is_there


def _linked(body: Path, name: Path) -> bool:
    """Raises OSError where it may be there at another time."""
    try:
        door.link(body, name)
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise
        return False
    return True


class Reader:
    """Reads stretches of files, each of which it opens once. Used within `with`."""

    def __init__(self) -> None:
        self._opened: dict[Path, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """Raises OSError."""
        descriptor = self._opened.get(path)
        if descriptor is None:
            descriptor = self._opened[path] = self._stack.enter_context(door.opened(path))
        return os.pread(descriptor, size_bytes, offset)


# ---- read as a store ---------------------------------------------------------------------------------------


class RemovedMessage(StoreMessage):
    def __init__(self, content: QueueContent, run: Run, removed_ms: int) -> None:
        super().__init__(content, run)
        self._removed_ms = removed_ms

    @property
    def mtime_ns(self) -> int:
        return self._removed_ms * NS_PER_MS

    def attributes(self) -> Mapping[str, bytes]:
        return {**super().attributes(), REMOVED_TIME: str(self._removed_ms).encode()}


class RemovedListing(MessageListing):
    def __init__(self, content: QueueContent, runs: Sequence[Run], times_ms: Mapping[int, int]) -> None:
        super().__init__(content, runs)
        self._mtimes = array("q", (times_ms.get(one, 0) for one in self._ids))


class RemovedQueue(StoreQueue):
    """A queue that lists messages in their order, whatever their priority."""

    times_ms: Mapping[int, int] = {}

    def _delivery(self) -> Sequence[Run]:
        return self._filtered(self.content.live())

    def listing(self) -> MessageListing:
        return RemovedListing(self.content, self._delivery(), self.times_ms)

    def message(self, message_id: MessageId) -> StoreMessage | None:
        run = self.message_run(message_id)
        if run is None:
            return None
        return RemovedMessage(self.content, run, self.times_ms.get(message_id, 0))


class RemovedStore(JournalStore):
    """Never changes. `close` it."""

    queue_type: ClassVar[type[StoreQueue]] = RemovedQueue

    place: Path

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.core.let_go()
            door.remove_tree(self.place)


def open_removed(layout: StoreLayout, derived: Derived, clock: Clock, generation: int) -> RemovedStore:
    """Open the derived store of one with this layout. `generation`: the generation of its part names, which
    is never used again. Raises what `open_store` raises.
    """
    place = derived.place
    layout = replace(
        layout.below(place),
        config=None,
        warnings=(),
        journal_prefix="activemq-data",
        journal_extension=JOURNAL_EXTENSION,
    )
    opening = Opening(layout, StoppedClock(clock.now_ms()), index=False, ours=True, generation=generation)
    store = opening.store(RemovedStore)
    store.place = place
    for queue in store.queues():
        if isinstance(queue, RemovedQueue):
            queue.times_ms = derived.times_ms.get((queue.model.address, queue.name), {})
    return store
