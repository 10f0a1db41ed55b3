"""A process that can open nothing more while it writes: what it made it does not forget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import ENOMEM
from typing import Any, NoReturn

import pytest

from journalfs.engine.state import LiveState
from journalfs.errors import JournalfsError, NameTaken, NoRoute, OutOfResources
from journalfs.records.files.loader import JournalLoader
from journalfs.records.files.writer import JournalWriter
from journalfs.store.write.store import WritingStore
from tests.store.writing.conftest import Writable, bodies_of, ids_of, lines_of, on_disk
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


@pytest.fixture
def shortage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type[Exception]], None]]:
    """Call it: from there on, until `MonkeyPatch.undo`, nothing that became durable can be read."""

    def begin(kind: type[Exception]) -> None:
        def refreshed(*_: object) -> NoReturn:
            raise OutOfResources("no room in memory", system_errno=ENOMEM) if kind is OutOfResources else kind

        monkeypatch.setattr(JournalLoader, "_refreshed", refreshed)

    yield begin
    monkeypatch.undo()


@pytest.mark.rule("S-361")
@pytest.mark.parametrize("kind", [OutOfResources, MemoryError])
async def test_what_was_acknowledged_is_not_delivered_again(
    writable: Writable,
    shortage: Callable[[type[Exception]], None],
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever looks while it cannot be taken over is refused: what is shown would be as it was before."""
    async with writable.open(attended=False) as store:
        await store.publisher("work", "work.a", "in.txt").write(b"1\n2\n3\n")
        assert bodies_of(store) == ["1", "2", "3"]
        consumer = store.consumer(("work", "work.a"))
        first = consumer.take()
        assert first is not None
        shortage(kind)
        with suppress(kind):  # it is durable, and what is left to do looks
            await first.acknowledge()
        for _ in range(2):
            with pytest.raises(kind):
                consumer.take()
            with pytest.raises(kind):
                bodies_of(store)
            with pytest.raises(kind):
                await store.look()
        monkeypatch.undo()
        second = consumer.take()
        assert second is not None
        assert second.message_id != first.message_id
        await second.acknowledge()
        assert bodies_of(store) == ["3"]
        await consumer.close()
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["3"]


@pytest.mark.rule("S-361")
async def test_records_that_were_applied_in_part_are_read_anew(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applied twice, a transaction would count its records twice and come to nothing."""
    async with writable.open(attended=False) as store:
        await store.publisher("work", "work.a", "in.txt").write(b"1\n2\n3\n")
        ids = ids_of(store)
        apply = LiveState.apply

        def in_part(self: LiveState, *what: Any) -> NoReturn:
            apply(self, *what)
            raise MemoryError

        monkeypatch.setattr(LiveState, "apply", in_part)
        with suppress(MemoryError):
            await store.acknowledge(("work", "work.a"), ids[:2])
        with pytest.raises(MemoryError):
            bodies_of(store)
        monkeypatch.undo()
        assert bodies_of(store) == ["3"]
        assert not store.core.damage()
        assert store.rebuilds == 1


@pytest.mark.rule("S-361")
@pytest.mark.parametrize("stopped", ["_empty_stage", "_begin_stage"])
async def test_a_flush_that_breaks_off_leaves_no_hole(
    writable: Writable, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    """What is staged behind it must not count: nobody would find it, and what it acknowledged came again."""
    async with writable.open(attended=False) as store:
        await store.publisher("work", "work.a", "in.txt").write(b"1\n2\n")
        ids = ids_of(store)
        first = getattr(JournalWriter, stopped)
        with monkeypatch.context() as patched:
            patched.setattr(JournalWriter, stopped, out_of_memory)
            with pytest.raises(MemoryError):
                await store.acknowledge(("work", "work.a"), ids[:1])
        assert getattr(JournalWriter, stopped) is first
        told = []
        for one in ids:
            with suppress(JournalfsError):
                if await store.acknowledge(("work", "work.a"), [one]):
                    told.append(one)
        # Where a flush of this disk is slow, a task leads it that ends the writing whatever stopped it.
        assert store.read_only or stopped == "_empty_stage"
    there = [one["id"] for one in on_disk(writable, "work.a")]
    assert not set(there) & set(told)
    async with writable.open() as store:
        assert ids_of(store) == there
        assert not store.core.damage()


@pytest.mark.rule("S-361")
async def test_what_could_not_be_handed_out_is_to_be_had(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writable.open(attended=False) as store:
        await store.publisher("work", "work.a", "in.txt").write(b"1\n2\n")
        consumer = store.consumer(("work", "work.a"))
        with monkeypatch.context() as patched:
            patched.setattr("journalfs.broker.consume.delivering.headers_of", out_of_memory)
            with pytest.raises(MemoryError):
                consumer.take()
        delivery = consumer.take()
        assert delivery is not None
        assert json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes)))["body"] == "1"
        await delivery.give_back(failed=False)
        await consumer.close()


def out_of_memory(*_: object) -> NoReturn:
    raise MemoryError
