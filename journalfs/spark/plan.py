"""From a store to what tasks read: where each live message of the chosen queues lies now."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from journalfs.engine.columns import Array, address_of, by_file, lines_array
from journalfs.engine.state_batch import file_slots, large_positions
from journalfs.errors import NoSuchName
from journalfs.ids import PageNumber
from journalfs.live.content import QueueContent
from journalfs.live.runs import Run
from journalfs.spark.pieces import PIECE_BYTES, Piece, Pieces, partitions, split, task_count
from journalfs.spark.place import SEPARATOR

if TYPE_CHECKING:
    from journalfs.spark.options import Options
    from journalfs.spark.place import Place
    from journalfs.store.store import JournalStore
    from journalfs.views.queues import StoreQueue


Choose = Callable[[Array], Array]
"""Of message ids, whether each is wanted."""


def chosen_queues(store: JournalStore, place: Place, names: Sequence[str]) -> list[StoreQueue]:
    """The queues that a path and the option `queues` mean. Raises `NoSuchName`."""
    found = [
        queue
        for address in store.addresses()
        if place.address in (None, address.name)
        for queue in address.queues()
        if place.queue in (None, queue.name)
    ]
    if not names:
        return found
    chosen: dict[int, StoreQueue] = {}
    for name in names:
        meant = [queue for queue in found if name in _names(queue)]
        if not meant and store.address(name) is None:
            raise NoSuchName(f"option 'queues': no address or queue {name!r} in {store.core.root}")
        chosen |= {queue.content.queue_id: queue for queue in meant}
    return list(chosen.values())


def _names(queue: StoreQueue) -> tuple[str, str, str]:
    address = queue.model.address
    return queue.name, address, f"{address}{SEPARATOR}{queue.name}"


def plan(
    store: JournalStore, queues: Sequence[StoreQueue], options: Options, choose: Choose | None = None
) -> list[Pieces]:
    """The tasks that read what the queues hold now, or those messages of it that `choose` chooses."""
    piece_bytes = min(options.partition_bytes or PIECE_BYTES, PIECE_BYTES)
    pieces = [
        piece
        for queue in queues
        for run in queue.content.live()
        for piece in _pieces(run, queue.content, piece_bytes, choose)
    ]
    bytes_read = sum(piece.payload_bytes for piece in pieces)
    tasks = task_count(bytes_read, options.partition_bytes, len(os.sched_getaffinity(0)))
    return partitions(pieces, str(store.core.large.path), tasks)


def _pieces(run: Run, content: QueueContent, bytes_max: int, choose: Choose | None) -> Iterator[Piece]:
    if choose is not None:
        run = chosen(run, content, choose)
        if not len(run):
            return
    if run.page is None:
        yield from _journal_pieces(run.references, content, bytes_max)
    else:
        yield from _page_pieces(run.page, run.numbers, content, bytes_max)


def chosen(run: Run, content: QueueContent, choose: Choose) -> Run:
    """The part of a run whose messages are chosen."""
    wanted = choose(np.frombuffer(run.columns(content).ids, "i8"))
    return run.of(array("I", np.frombuffer(run.numbers, "u4")[wanted].tobytes()))


def _journal_pieces(refs: array[int], content: QueueContent, bytes_max: int) -> Iterator[Piece]:
    slots = file_slots(content.state, refs, content.files.slot_limit)
    files = {slot: content.files[slot] for slot in slots}
    filled, _keep = content.state.fill_lines(refs, files, sealed=False, now_ms=content.now_ms)
    lines = lines_array(filled, len(refs))
    large = np.zeros(len(refs), "?")
    large[large_positions(content.state, refs)] = True
    for slot, places in by_file(lines, files).items():
        file = content.files.read_file(slot).file
        file_id = None if file.header_damaged else int(file.file_id)
        own, own_large = lines[_together(places)], large[_together(places)]
        offsets = own["payload"] - np.uint64(address_of(files[slot].pointer))
        for part in split(own, bytes_max):
            yield Piece.of(
                str(file.path),
                file_id,
                content.name,
                lines=own[part],
                offsets=offsets[part],
                large=own_large[part],
            )


def _together(places: Array) -> Array | slice:
    """The same places, without a copy of what lies there where they follow each other."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


def _page_pieces(
    page: PageNumber, indexes: array[int], content: QueueContent, bytes_max: int
) -> Iterator[Piece]:
    scan = content.page_scan(page)
    batch = scan.fill_lines(indexes, queue=content.name, now_ms=content.now_ms)
    lines = lines_array(batch.lines, batch.count)
    large_indexes = [index for index, _ in scan.large()]
    large = np.isin(np.frombuffer(indexes, "u4"), large_indexes)
    offsets = lines["payload"] - np.uint64(address_of(scan.mapping))
    for part in split(lines, bytes_max):
        yield Piece.of(
            str(scan.path),
            None,
            content.name,
            lines=lines[part],
            offsets=offsets[part],
            large=large[part],
            in_page=True,
        )
