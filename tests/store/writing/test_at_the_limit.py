"""A disk that is as full as a limit allows, and not to its end: what is consumed is room again."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
import trio

from journalfs.ids import MessageId
from journalfs.store.write.compacting import compact_store
from journalfs.store.write.store import WritingStore
from tests.kinds import BACKENDS
from tests.store.writing.conftest import MakeStore, SmallStore, lines_of, no_upkeep
from tests.store.writing.test_full_disk import bodies_of


async def limited_and_consumed(small: SmallStore, store: WritingStore, *, kept: int) -> None:
    """The disk is filled to its limit, not to its end, and the first messages stay. They keep all files, of
    which each holds the end of a transaction that began in the one before.
    """
    await store.publisher("work", "work.b", "in").write(b"kept\n" * kept)
    publisher = store.publisher("work", "work.a", "in")
    for _ in range(55):
        await publisher.write(b"".join(b"%d %s\n" % (number, b"x" * 1000) for number in range(35)))
    await publisher.finish()
    async with no_upkeep(store):
        (small.disk / "filler").write_bytes(bytes(small.usable_bytes() - 700_000))
    await looked_at_the_disk(small, store)
    assert store.admission.disk.reached == "max-disk-usage"
    ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
    for at in range(0, len(ids), 500):
        await store.acknowledge(("work", "work.a"), ids[at : at + 500])


async def looked_at_the_disk(small: SmallStore, store: WritingStore) -> None:
    small.clock.advance(by_ms=5000)
    await store.admission.scan_disk()


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_one_message_that_stays_does_not_keep_all_at_the_limit(
    small_store: MakeStore, backend: str
) -> None:
    """Publishers wait, so the current file, in which all is said to be consumed, would never be full."""
    small = small_store(backend, file_bytes=131_072, limit="max-disk-usage = 80")
    with closing(small.open()) as store:
        await limited_and_consumed(small, store, kept=1)
        for _ in range(2):
            await store.journals.messages.upkeep.tidy()
            await looked_at_the_disk(small, store)
        assert store.admission.disk.reached is None
        with trio.fail_after(60):
            await store.publisher("work", "work.a", "in").write(b"there is room\n")
        compactions = store.journals.messages.upkeep.compactions
        assert compactions > 0
        await store.journals.messages.upkeep.tidy()
        assert store.journals.messages.upkeep.compactions == compactions, "nothing was consumed since"
        assert not store.core.damage()
    assert bodies_of(small, "work.a") == ["there is room"]
    assert bodies_of(small, "work.b") == ["kept"]


@pytest.mark.rule("S-91", "S-103")
async def test_compact_makes_room_on_a_disk_at_its_limit(small_store: MakeStore) -> None:
    small = small_store(file_bytes=131_072, limit="max-disk-usage = 80")
    with closing(small.open()) as store:
        await limited_and_consumed(small, store, kept=1000)
    with closing(small.open()) as store:
        messages, _ = await compact_store(store)
        assert len(lines_of(store, "work.b")) == 1000
    assert messages.files_after < messages.files_before / 2
    assert messages.bytes_after < messages.bytes_before / 2
