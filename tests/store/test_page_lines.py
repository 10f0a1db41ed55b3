"""Lines of paged messages: a part stays what it was, whatever becomes of its messages' times and its page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.errors import StaleView
from journalfs.store.store import JournalStore
from journalfs.views.queues import StoreQueue
from tests.differential.encode_messages import page_record, text_message
from tests.store.conftest import QUEUE_A, START_MS, LittleStore
from tests.store.test_follow import queue_of
from tests.store.test_pages import ids, small, write_page

ReadLines = Callable[[JournalStore, str], list[bytes]]
DUE_MS = START_MS + 60_000


def scheduled(message_id: int) -> bytes:
    """A page record of a message that is due at `DUE_MS`."""
    properties = {"_AMQ_SCHED_DELIVERY": ("long", DUE_MS)}
    return page_record(-1, 0, text_message(message_id, "later", properties=properties), (QUEUE_A,))


def content_of_parts(queue: StoreQueue) -> bytes:
    """All parts, each as long as it is said to be."""
    pieces = []
    for part in queue.parts():
        source = queue.open_part(part)
        pieces.append(bytes(source.read(0, source.size_bytes)))
        now = queue.part(part.name)
        assert now is not None
        assert len(pieces[-1]) == source.size_bytes == now.size_bytes
    return b"".join(pieces)


@pytest.mark.rule("S-12", "S-16")
def test_a_paged_message_that_becomes_due_changes_no_part(little_store: LittleStore) -> None:
    """Its line says until when it was to wait, as the line of one in the journal does."""
    write_page(little_store, 1, [small(2000), scheduled(2001)])
    write_page(little_store, 2, [small(2002)])
    for _ in range(2):
        store = little_store.open()
        queue = queue_of(store, "work.a")
        before = content_of_parts(queue)
        assert [json.loads(line).get("scheduledTime") for line in before.splitlines()] == [None, DUE_MS, None]
        selected = [part.size_bytes for part in queue.where("JMSPriority >= 0").parts()]
        held = queue.open_all()
        little_store.clock.advance(by_ms=120_000)
        assert content_of_parts(queue) == before
        assert bytes(queue.open_all().read(0, 1_000_000)) == before
        assert bytes(held.read(0, 1_000_000)) == before
        for part, size_bytes in zip(queue.where("JMSPriority >= 0").parts(), selected, strict=True):
            assert len(queue.where("JMSPriority >= 0").open_part(part).read(0, 1_000_000)) == size_bytes
        assert queue.status()["scheduledCount"] == 0
        store.close()


@pytest.mark.rule("S-52", "S-54")
@pytest.mark.parametrize("what", ["frame", "length", "text"])
def test_rot_in_a_page_below_its_index(little_store: LittleStore, lines_of: ReadLines, what: str) -> None:
    """The index says that the page is whole. Whoever reads it finds the damage, and all that is intact."""
    records = [small(2000 + number) for number in range(4)]
    path = write_page(little_store, 1, records)
    little_store.open().close()
    damage_of(path, records, what)
    for _ in range(2):
        store = little_store.open()
        queue = queue_of(store, "work.a")
        lines = content_of_parts(queue).splitlines()
        assert lines == lines_of(store, "work.a")
        assert ids(lines) == ([2000, 2001, 2002, 2003] if what == "text" else [2000, 2002, 2003])
        listing = queue.listing()
        assert [int(listing.message_id(place)) for place in range(len(listing))] == ids(lines)
        assert [(one.offset, one.kind) for one in store.core.damage()] == (
            [] if what == "text" else [(len(records[0]), "page")]
        )
        store.close()


@pytest.mark.rule("S-16", "S-52")
@pytest.mark.parametrize("what", ["frame", "length", "text", "end"])
def test_rot_in_a_page_while_it_is_shown(little_store: LittleStore, lines_of: ReadLines, what: str) -> None:
    """The next one who reads gets what there is, as long as it is said to be, and the damage is listed."""
    records = [small(2000 + number) for number in range(4)]
    path = write_page(little_store, 1, records)
    write_page(little_store, 2, [small(3000)])
    store = little_store.open()
    queue = queue_of(store, "work.a")
    assert len(content_of_parts(queue).splitlines()) == 5
    damage_of(path, records, what)
    lines = content_of_parts(queue).splitlines()
    left = {"text": [2000, 2001, 2002, 2003], "end": [2000, 2001, 2002]}.get(what, [2000, 2002, 2003])
    assert ids(lines) == ids(lines_of(store, "work.a")) == [*left, 3000]
    assert [part.messages for part in queue.parts()] == [len(left), 1]
    assert len(queue) == len(queue.listing()) == len(lines)
    assert len(store.core.damage()) == (what != "text")


@pytest.mark.rule("S-16")
def test_rot_in_a_page_of_a_file_that_is_open(little_store: LittleStore) -> None:
    """What was opened had another length: its reader gets an error, and the next one does not."""
    path = write_page(little_store, 1, [small(2000)])
    write_page(little_store, 2, [small(3000), small(3001)])
    store = little_store.open()
    queue = queue_of(store, "work.a")
    held = queue.open_all()
    damage_of(path.with_name("000000002.page"), [small(3000), small(3001)], "text")
    with pytest.raises(StaleView):
        held.read(0, held.size_bytes)
    again = queue.open_all()
    assert len(again.read(0, again.size_bytes)) == again.size_bytes == queue.all().size_bytes


def damage_of(path: Path, records: list[bytes], what: str) -> None:
    """Harm the second of the records, in a page that looks the same by size, times and inode."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    at = len(records[0])
    if what == "frame":
        content[at] = 0
    elif what == "length":
        content[at + 3] = 0x55
    elif what == "end":
        content[-len(records[-1]) :] = bytes(len(records[-1]))
    else:
        place = content.index("paged".encode("utf-16-le"), at)
        content[place : place + 4] = '"\\'.encode("utf-16-le")
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
