"""What holds the files of a store: the journal files, pages and large bodies that each queue keeps.

For `journalfs explain --summary`. It reads what is known of live messages, and no message.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from journalfs.engine.state_batch import NOWHERE, places
from journalfs.format.large_file import LargeFileKind
from journalfs.live.content import total_messages
from journalfs.live.explaining import FileFacts

if TYPE_CHECKING:
    from journalfs.live.content import QueueContent
    from journalfs.store.store import JournalStore
    from journalfs.views.queues import StoreQueue


class Held(msgspec.Struct, frozen=True, rename="camel"):
    """What one queue, or one prepared transaction, keeps. Sizes in bytes."""

    queue: str | None
    """`address::queue`; null for what no queue keeps."""
    messages: int
    journal_files: list[str]
    """Those in which it has messages."""
    journal_bytes: int
    """Size of these files, of which others may keep some, too."""
    alone_bytes: int
    """Size of those that nothing else keeps."""
    page_messages: int
    page_files: int
    page_bytes: int
    bodies: int
    """Files of large messages; of a message that is in several queues each has it."""
    body_bytes: int
    oldest_age_ms: int | None
    transaction: str | None = None
    """The id of a prepared transaction that keeps journal files."""


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """Of a store."""

    held: list[Held]
    """Of what keeps most bytes first."""
    compaction_frees_bytes: int
    """Size of the journal files that compaction would set free."""
    compaction_writes_bytes: int
    """What it would write for that."""


def summary(store: JournalStore) -> Summary:
    """Return what keeps the store's files. Raises SystemFailure."""
    files = store.explanations.facts()
    bodies = {
        int(one.message_id): one.size_bytes
        for one in store.core.large.files()
        if one.kind is LargeFileKind.DURABLE
    }
    held = [_of_queue(store, queue, files, bodies) for queue in store.queues()]
    held = [one for one in held if one.messages or one.page_files]
    held += _of_transactions(files)
    held.sort(key=lambda one: -(one.alone_bytes + one.page_bytes + one.body_bytes + one.journal_bytes))
    movable = [one for one in files if one.freed_by == "compaction" and one.state == "kept"]
    return Summary(held, sum(one.bytes for one in movable), sum(one.live_bytes for one in movable))


def _of_queue(
    store: JournalStore, queue: StoreQueue, files: Sequence[FileFacts], bodies: Mapping[int, int]
) -> Held:
    content, core = queue.content, store.core
    queue_id = int(content.queue_id)
    there = [one for one in files if any(share.id == queue_id for share in one.queues)]
    paged = core.pages.get(queue.model.address)
    runs = content.page_runs()
    sizes = [] if paged is None else [paged.files[run.number].stamp.size_bytes for run in runs]
    own = [bodies[one] for one in _large_ids(content, bodies)]
    oldest_ms = content.state.oldest_ms(content.slot)
    return Held(
        queue=f"{queue.model.address}::{queue.name}",
        messages=content.count(),
        journal_files=[one.file for one in there],
        journal_bytes=sum(one.bytes for one in there),
        alone_bytes=sum(one.bytes for one in there if _is_alone(one)),
        page_messages=total_messages(runs),
        page_files=len(sizes),
        page_bytes=sum(sizes),
        bodies=len(own),
        body_bytes=sum(own),
        oldest_age_ms=max(0, core.clock.now_ms() - oldest_ms) if oldest_ms else None,
    )


def _is_alone(file: FileFacts) -> bool:
    """Whether nothing but the messages of one queue keeps a file, which is not written any more."""
    others = file.other_records or file.transactions or file.deletes_in or file.queueless_messages
    return file.state == "kept" and len(file.queues) == 1 and not others


def _large_ids(content: QueueContent, bodies: Mapping[int, int]) -> Iterator[int]:
    """Ids of a queue's messages with a file in the directory of large messages."""
    if not bodies:
        return
    ids = array("q", sorted(bodies))
    found = places(content.state, content.slot, ids, live=False)
    seen = {one for one, ref in zip(ids, found.refs, strict=True) if ref != NOWHERE}
    for run in content.page_runs():
        paged = content.paged
        if paged is not None and paged.summary(run.number).large:
            seen.update(one for one in run.ids(content) if one in bodies)
    yield from sorted(seen)


def _of_transactions(files: Sequence[FileFacts]) -> Iterator[Held]:
    names: dict[str, list[FileFacts]] = {}
    for file in files:
        for one in file.transactions:
            if one.prepared:
                names.setdefault(one.xid or f"transaction-{one.id}", []).append(file)
    for name, there in names.items():
        sizes = sum(one.bytes for one in there)
        alone = sum(one.bytes for one in there if not one.queues and one.state == "kept")
        yield Held(None, 0, [one.file for one in there], sizes, alone, 0, 0, 0, 0, 0, None, name)
