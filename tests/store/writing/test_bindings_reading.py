"""Bindings are taken over from where they were read to, and are what is there."""

from __future__ import annotations

import random

import pytest

from journalfs.bindings.replay import BindingsReplay
from journalfs.live.bindings import BindingsReader, read_bindings
from journalfs.store.write.store import WritingStore
from tests.store.writing.conftest import Writable


def reader(store: WritingStore) -> BindingsReader:
    return BindingsReader(store.core.layout.bindings_dir, relative_to=store.core.root)


def check(store: WritingStore, beside: BindingsReader) -> None:
    """As a whole reading of what is durable finds them, and so does a reader who looked before."""
    bindings, damage = read_bindings(store.core.layout.bindings_dir, relative_to=store.core.root)
    assert beside.read() == (bindings, damage)
    assert store.core.bindings == bindings
    assert store.core.bindings_damage == damage == ()


async def change(store: WritingStore, chance: random.Random, names: list[str]) -> None:
    match chance.choice(["address", "queue", "queue", "setting", "delete"]):
        case "address":
            names.append(f"address-{len(names)}")
            await store.create_address(names[-1])
        case "queue" if names:
            name = chance.choice(names)
            await store.create_queue(name, f"{name}-{chance.random()}")
        case "setting" if names:
            value = b"%d" % chance.randrange(1, 99)
            await store.set_attribute(
                chance.choice(names), None, "user.journalfs.max-delivery-attempts", value
            )
        case "delete":
            queues = [
                (address.name, queue.name)
                for address in store.addresses()
                for queue in address.queues()
                if not len(queue)
            ]
            if queues:
                await store.delete_queue(*chance.choice(queues))


async def test_they_are_what_is_there(writable: Writable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many files of the bindings journal, and compactions of it."""
    wholes: list[BindingsReplay] = []

    def counted() -> BindingsReplay:
        wholes.append(BindingsReplay())
        return wholes[-1]

    chance, names = random.Random(7), list[str]()
    async with writable.open() as store:
        journal, beside = store.journals.bindings, reader(store)
        for number in range(120):
            await change(store, chance, names)
            if number % 4 == 0:
                check(store, beside)
            if number % 20 == 19:
                journal.switch()
            if number % 50 == 49:
                await journal.upkeep.compact()
        with monkeypatch.context() as patched:
            patched.setattr("journalfs.live.bindings.BindingsReplay", counted)
            for _ in range(30):
                await change(store, chance, names)
            assert not wholes
            await journal.upkeep.compact()
            await store.create_address("last")
            assert not wholes
        check(store, beside)
