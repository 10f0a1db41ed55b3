"""A process that can open nothing more while it writes: what it made it does not forget."""

from __future__ import annotations

import pytest

from journalfs.errors import NameTaken, OutOfResources
from tests.store.writing.conftest import Writable, lines_of
from tests.tools.descriptors import without_descriptors


@pytest.mark.rule("S-85")
async def test_a_queue_that_could_not_be_shown_is_not_made_again(writable: Writable) -> None:
    async with writable.open() as store:
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


@pytest.mark.rule("S-70")
async def test_what_was_published_is_shown_once_it_can_be(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"first\n")
        with without_descriptors():
            await publisher.write(b"second\n")
        assert len(lines_of(store, "work.a")) == 2
