"""A process that can open nothing more while it writes: what it made it does not forget."""

from __future__ import annotations

import pytest

from journalfs.errors import NameTaken, NoRoute, OutOfResources
from journalfs.store.write.store import WritingStore
from tests.store.writing.conftest import Writable, lines_of
from tests.tools.descriptors import without_descriptors


async def with_files_ready(store: WritingStore) -> None:
    """Upkeep makes none while it cannot open any: it would give up."""
    for journal in (store.journals.messages, store.journals.bindings):
        await journal.upkeep.tidy()


@pytest.mark.rule("S-85")
async def test_a_queue_that_could_not_be_shown_is_not_made_again(writable: Writable) -> None:
    async with writable.open() as store:
        await with_files_ready(store)
        with without_descriptors():
            for _ in range(2):
                with pytest.raises(OutOfResources):
                    await store.create_queue("work", "new")
        with pytest.raises(NameTaken):
            await store.create_queue("work", "new")
        await store.publisher("work", "new", "in").write(b"kept\n")
    async with writable.open() as store:
        assert len(lines_of(store, "new")) == 1
        assert not store.core.damage()


@pytest.mark.rule("S-85")
async def test_nothing_is_published_to_a_queue_that_is_deleted(writable: Writable) -> None:
    async with writable.open() as store:
        await store.create_queue("work", "old")
        publishers = [store.publisher("work", queue, "in") for queue in ("old", None)]
        await with_files_ready(store)
        with without_descriptors():
            with pytest.raises(OutOfResources):
                await store.delete_queue("work", "old")
            for publisher in publishers:
                with pytest.raises(OutOfResources):
                    await publisher.write(b"refused\n")
        with pytest.raises(NoRoute):
            await publishers[0].write(b"refused\n")
        await store.publisher("work", None, "in").write(b"kept\n")
        assert [len(lines_of(store, queue)) for queue in ("work.a", "work.b")] == [1, 1]


@pytest.mark.rule("S-70")
async def test_what_was_published_is_shown_once_it_can_be(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"first\n")
        await with_files_ready(store)
        with without_descriptors():
            await publisher.write(b"second\n")
        assert len(lines_of(store, "work.a")) == 2
