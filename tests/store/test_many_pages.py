"""A queue with very many pages: what is kept of it in memory, and what is read for a look at it."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.ids import PageNumber
from journalfs.pages import address
from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.store.conftest import QUEUE_A, LittleStore
from tests.store.test_follow import queue_of
from tests.store.test_pages import small, write_page

ReadLines = Callable[[JournalStore, str], list[bytes]]
PAGES, PER_PAGE = 300, 1000
BYTES_PER_MESSAGE_MAX = 30
FIXED_BYTES_MAX = 16_000_000
"""What a store and a few scanned pages take, however many there are."""


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")


@pytest.fixture
def many(little_store: LittleStore, monkeypatch: pytest.MonkeyPatch) -> LittleStore:
    """Each page has one record again and again: its id is of no interest here."""
    monkeypatch.setattr(address, "PAGE_RECORDS_KEPT_MAX", 4 * PER_PAGE)
    for number in range(1, PAGES + 1):
        write_page(little_store, number, [small(1_000_000 + number)] * PER_PAGE)
    return little_store


@pytest.mark.rule("S-115")
def test_memory_does_not_grow_with_the_messages(many: LittleStore) -> None:
    before = anonymous_bytes()
    store = many.open()
    queue = queue_of(store, "work.a")
    assert len(queue) == PAGES * PER_PAGE
    assert queue.status()["messageCount"] == PAGES * PER_PAGE
    assert len(queue.scheduled()) == len(queue.delivering()) == 0
    source = queue.open_all()
    read = sum(len(source.read(at, 1 << 20)) for at in range(0, source.size_bytes, 1 << 20))
    assert read == source.size_bytes == sum(part.size_bytes for part in queue.parts())
    source.close()
    grown = anonymous_bytes() - before
    assert grown < PAGES * PER_PAGE * BYTES_PER_MESSAGE_MAX + FIXED_BYTES_MAX
    store.close()
    assert (many.root / "journalfs/index").stat().st_size < PAGES * PER_PAGE * BYTES_PER_MESSAGE_MAX


@pytest.mark.rule("S-115")
async def test_a_look_reads_only_pages_that_changed(many: LittleStore) -> None:
    store = many.open()
    queue = queue_of(store, "work.a")
    assert len(queue) == PAGES * PER_PAGE
    (paged,) = store.core.pages.values()
    page_bytes = os.stat(paged.files[min(paged.files)].path).st_size
    numbers = itertools.count(80)
    for page, consumed in ((7, 1), (200, 2), (7, 3)):
        scanned = paged.bytes_scanned
        body = struct.pack(">qqi", QUEUE_A, page, consumed)
        many.journal.append(record(11, 1, record_id=next(numbers), user_type=39, body=body))
        await store.look()
        assert len(queue) == PAGES * PER_PAGE - {1: 1, 2: 2, 3: 3}[consumed]
        assert queue.status()["messageCount"] == len(queue)
        assert paged.bytes_scanned - scanned <= 2 * page_bytes


@pytest.mark.rule("S-115")
async def test_the_first_look_at_a_queue_reads_no_page_that_is_known(many: LittleStore) -> None:
    """Its index says what untouched pages have for each queue; only one of which something was consumed is
    looked at.
    """
    body = struct.pack(">qqi", QUEUE_A, 9, 4)
    many.journal.append(record(11, 1, record_id=80, user_type=39, body=body))
    store = many.open()
    before = [(part.name, part.messages, part.size_bytes) for part in queue_of(store, "work.a").parts()]
    assert sum(messages for _, messages, _ in before) == PAGES * PER_PAGE - 1
    store.close()
    store = many.open()
    queue = queue_of(store, "work.a")
    assert [(part.name, part.messages, part.size_bytes) for part in queue.parts()] == before
    assert len(queue) == queue.status()["messageCount"] == PAGES * PER_PAGE - 1
    (paged,) = store.core.pages.values()
    assert paged.bytes_scanned == os.stat(paged.files[PageNumber(9)].path).st_size
    source = queue.open_all()
    assert source.size_bytes == sum(size_bytes for _, _, size_bytes in before)
    read = sum(bytes(source.read(at, 1 << 20)).count(b"\n") for at in range(0, source.size_bytes, 1 << 20))
    assert read == PAGES * PER_PAGE - 1
    store.close()
