"""Parts that were laid out are kept for the next reader, and in nobody's way."""

from __future__ import annotations

import gc

from journalfs.api import Part
from journalfs.views.queues import StoreQueue
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, queue_of
from tests.store.writing.test_listed_names import sealed

QUEUE = ("work", "work.a")


def read(queue: StoreQueue, part: Part) -> list[bytes]:
    source = queue.open_part(part)
    try:
        return bytes(source.read(0, source.size_bytes)).splitlines()
    finally:
        source.close()


async def test_who_opens_a_part_again_gets_what_is_there_by_then(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "in", b"".join(b"%d\n" % number for number in range(100)))
        queue = queue_of(store, "work.a")
        await sealed(store, writable, queue)
        (part,) = queue.parts()
        lines = read(queue, part)
        opened = queue.open_part(part)
        assert len(lines) == 100
        assert len(store.core.held) == 1  # the second is what was laid out for the first
        await store.acknowledge(QUEUE, queue.message_ids(part.name)[:40])
        (less,) = queue.parts()
        assert read(queue, less) == lines[40:]
        assert bytes(opened.read(0, opened.size_bytes)).splitlines() == lines
        opened.close()


async def test_files_of_what_nobody_reads_are_used_again(writable: Writable) -> None:
    writable.with_small_files()
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300)))
        await publisher.finish()
        queue = queue_of(store, "work.a")
        await sealed(store, writable, queue)
        (part,) = queue.parts()
        assert len(read(queue, part)) == 300
        gc.collect()
        assert len(store.core.held) > 1
        await store.acknowledge_part(QUEUE, part.name)
        await store.journals.messages.upkeep.compact()
        await publisher.write(b"the next\n")
        gc.collect()
        assert not store.core.held
