"""An import that makes many queues waits for the disk, and looks at the bindings, a few times for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from journalfs.broker.queues.making import NewQueue, rounds
from journalfs.clock import SystemClock
from journalfs.errors import NameTaken
from journalfs.exchange.importing import import_file
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.write.opening import open_for_writing

MANY = 150
FLUSHES_MAX = 12


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_store(tmp_path / "data", {"journal-type": "NIO"}, SystemClock(), warn=pytest.fail)
    return tmp_path / "data"


@pytest.mark.rule("S-412")
async def test_many_are_made_in_few_flushes(root: Path) -> None:
    wanted = [NewQueue(f"a{number}", f"a{number}") for number in range(MANY)]
    wanted += [NewQueue("events", f"s{number}", {"filter": f"n = {number}"}) for number in range(MANY)]
    store = open_for_writing(root)
    before = store.journals.bindings.committer.counts.flushes
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.journals.run)
        await store.create_queues(wanted)
        flushes = store.journals.bindings.committer.counts.flushes - before
        await store.create_queues(wanted)
        nursery.cancel_scope.cancel()
    store.close()
    assert flushes <= FLUSHES_MAX
    again = open_store(root)
    assert {(one.model.address, one.name) for one in again.queues()} >= {one.path for one in wanted}
    seventh = again.core.bindings.queue_named("s7")
    assert seventh is not None
    assert seventh.binding.filter == "n = 7"
    assert not again.core.damage()
    again.close()


async def test_queues_of_one_address_route_in_two_ways(root: Path) -> None:
    """Each that comes to route otherwise changes the address."""
    kinds = ("ANYCAST", "MULTICAST", "ANYCAST", "MULTICAST", "ANYCAST")
    wanted = [NewQueue("both", f"q{at}", {"routing-type": kind}) for at, kind in enumerate(kinds)]
    store = open_for_writing(root)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.journals.run)
        await store.create_queues(wanted)
        nursery.cancel_scope.cancel()
    store.close()
    again = open_store(root)
    bindings = again.core.bindings
    assert tuple(queue.binding.routing_type.name for queue in bindings.queues_of("both")) == kinds
    assert len(bindings.addresses["both"].binding.routing_types) == 2
    assert not again.core.damage()
    again.close()


async def test_a_name_of_two_addresses_is_refused(root: Path) -> None:
    store = open_for_writing(root)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.journals.run)
        with pytest.raises(NameTaken):
            await store.create_queues([NewQueue("a", "same"), NewQueue("b", "same")])
        same = store.core.bindings.queue_named("same")
        assert same is not None
        assert same.address == "a"
        nursery.cancel_scope.cancel()
    store.close()


def test_the_first_and_second_of_an_address_are_made_before_others() -> None:
    wanted = [NewQueue("a", str(number)) for number in range(5)] + [NewQueue("b", "0"), NewQueue("b", "b")]
    found = [[one.path for one in some] for some in rounds({one.path: one for one in wanted})]
    assert found == [
        [("a", "0"), ("b", "b")],
        [("a", "1")],
        [("a", "2"), ("a", "3"), ("a", "4")],
        [("b", "0")],
    ]


@pytest.mark.rule("S-412")
def test_an_import_makes_what_its_lines_name(root: Path, tmp_path: Path) -> None:
    lines = [{"address": f"a{number}", "queue": f"q{number}", "body": str(number)} for number in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in [*lines, *lines]))
    done = trio.run(lambda: import_file(tmp_path / "in.jsonl", root, "jsonl", lambda _: None))
    assert done.messages == 80
    store = open_store(root)
    counts = {one.name: one.message_count for one in store.queues() if one.name.startswith("q")}
    store.close()
    assert counts == {f"q{number}": 2 for number in range(40)}
