"""Writes a store's messages in one of the forms."""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

import trio

from journalfs.account.filters import EVERYTHING, Wanted
from journalfs.account.taking import account_of
from journalfs.exchange.exported import Exported, name_of
from journalfs.exchange.journals import Told
from journalfs.exchange.xml_out import XmlWriter
from journalfs.live.stored_runs import each_place
from journalfs.message.envelope import decode_envelope
from journalfs.store.store import JournalStore
from journalfs.views.queues import StoreQueue
from journalfs.views.views import QueueView
from journalfs.windows import whole_lines

if TYPE_CHECKING:
    from typing_extensions import Buffer


# A file that another thread writes to, while the next bytes for it are made.

PIECE_BYTES: Final = 1 << 20
PIECES_MAX: Final = 8
"""That wait to be written, or are being."""
_LEAVE_S_MAX: Final = 1.0
"""How long a write that does not end is waited for, once what it writes is worth nothing."""


class _Behind(io.RawIOBase):
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pieces: queue.SimpleQueue[tuple[bytearray, int] | None] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        for _ in range(PIECES_MAX):
            self._free.put(bytearray(PIECE_BYTES))
        self._failed: OSError | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="writing", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        return True

    def write(self, piece: Buffer, /) -> int:
        """As much of it as there is room for in one piece."""
        with memoryview(piece) as given:
            taken = min(len(given), PIECE_BYTES)
            if not self._given_up:
                self._raise()
                room = self._free.get()
                room[:taken] = given[:taken]
                self._pieces.put((room, taken))
        return taken

    def _run(self) -> None:
        while (one := self._pieces.get()) is not None:
            room, taken = one
            if self._failed is None and not self._given_up:
                try:
                    with memoryview(room) as piece:
                        self._file.write(piece[:taken])
                except OSError as error:
                    self._failed = error
            self._free.put(room)

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def finish(self) -> None:
        """Until all is written. Raises `OSError`."""
        self._pieces.put(None)
        self._thread.join()
        self._raise()

    def give_up(self) -> None:
        """A reader that takes nothing holds nobody up: the thread ends with the process."""
        self._given_up = True
        self._pieces.put(None)
        self._thread.join(_LEAVE_S_MAX)


@contextmanager
def written_behind(file: BinaryIO) -> Iterator[BinaryIO]:
    """`file`, whose failures are raised by a later call or at the end."""
    behind = _Behind(file)
    out = io.BufferedWriter(behind, PIECE_BYTES)
    try:
        yield out
        out.flush()
        behind.finish()
    except BaseException:
        behind.give_up()
        raise
    finally:
        out.detach()


_DAMAGE: Final = b',"damage":"'
"""In a line that says so, and in few others, but never in text: there quotes are escaped."""

Advance = Callable[[int], None]


def export_store(
    store: JournalStore,
    file_format: str,
    out: BinaryIO,
    told: Told,
    advance: Advance,
    *,
    wanted: Wanted = EVERYTHING,
) -> Exported:
    """Write the wanted live messages of a store as `jsonl`, `xml` or `parquet`, and count what became of all.
    `advance` is given how many messages were written. Memory does not grow with the store.
    """
    wanted.refuse_unknown(name_of(queue) for queue in store.queues())
    beside = store.core.live_broker
    exported = Exported(account_of(store), wanted, held=file_format == "xml", beside_broker=beside)
    if file_format == "xml":
        XmlWriter(out, told.note, told.lost, advance, exported).write(store)
        return exported
    if file_format == "jsonl":
        for queue in chosen_queues(store, wanted):
            for lines in _lines_of(queue, told, exported):
                out.write(lines)
            advance(len(queue))
        return exported
    from journalfs.exchange.parquet_out import ParquetWriter  # noqa: PLC0415 - few need it

    writer = ParquetWriter(out)
    for queue in chosen_queues(store, wanted):
        for lines in _lines_of(queue, told, exported):
            writer.lines(lines.removesuffix(b"\n").split(b"\n"))
        advance(len(queue))
    writer.close()
    return exported


def chosen_queues(store: JournalStore, wanted: Wanted) -> list[StoreQueue]:
    """Return the queues whose messages may be wanted."""
    return [queue for queue in store.queues() if wanted.wants_queue(queue.model.address, queue.name)]


def _lines_of(queue: StoreQueue, told: Told, exported: Exported) -> Iterator[bytes]:
    """Whole lines, many at a time. A message that cannot be read is among them, with what there is of it; it
    does not count as carried.
    """
    name, lines_count = name_of(queue), 0
    view: QueueView = queue
    if exported.wanted.selector is not None:
        view = trio.run(_found, queue, exported.wanted.selector)
        exported.not_wanted(name, queue.content.count() - len(view))
    for lines in whole_lines(view.open_all()):
        count = lines.count(b"\n") + (not lines.endswith(b"\n"))
        if _DAMAGE in lines:
            count -= _tell_damage(queue, lines, told, exported)
        lines_count += count
        yield lines
    exported.carried[name] += lines_count


async def _found(queue: StoreQueue, selector: str) -> QueueView:
    """Return the messages of a queue that a selector accepts, once all are judged."""
    await queue.understand(selector)
    view = queue.where(selector)
    await view.find()
    return view


def _tell_damage(queue: StoreQueue, lines: bytes, told: Told, exported: Exported) -> int:
    """Count messages that are not whole in their lines, tell of those that the account does not list, and
    return how many they are.
    """
    found = (decode_envelope(line) for line in lines.splitlines() if _DAMAGE in line)
    damaged = {one["id"]: str(one["damage"]) for one in found if "damage" in one}
    for reason in damaged.values():
        exported.left(name_of(queue), reason)
    listed = {one.id for one in exported.account.losses}
    if listed >= damaged.keys():
        return len(damaged)
    for run in queue.content.live():
        for place in each_place(queue.content, run):
            if place.message_id in damaged and place.message_id not in listed:
                where = f"{place.file.path}: at offset {place.offset}"
                told.lost(f"{where}: message {place.message_id} of {queue.name}: {damaged[place.message_id]}")
    return len(damaged)
