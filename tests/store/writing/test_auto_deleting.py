"""Queues and addresses that go by themselves, on a clock of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing

import pytest
import trio
import trio.testing

from journalfs.change.idle import NEVER
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.reference.store import load
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, queue_of
from tests.store.writing.test_forwarding import configure, events

MADE = ("work", "made")
AUTO_DELETE = "[address-settings.'#']\nauto-delete-created-queues = true\n"
DEAD_LETTERS = (
    '[address-settings."work"]\ndead-letter-address = "dead"\nauto-create-dead-letter-resources = true\n'
)


def names(store: WritingStore) -> set[str]:
    return {queue.name for queue in store.core.bindings.queues.values()} - {"work.a", "work.b"}


async def publish(store: WritingStore, *bodies: str, queue: str = "made") -> None:
    await publish_file(store, "work", queue, "in.txt", "".join(f"{body}\n" for body in bodies).encode())


async def use(store: WritingStore) -> None:
    """Somebody consumes of the queue, and goes."""
    consumer = store.consumer(MADE)
    if (delivery := consumer.take()) is not None:
        await delivery.acknowledge()
    await consumer.close()


async def scans(store: WritingStore, count: int = 2) -> None:
    for _ in range(count):
        await store.auto_deleting.scan()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.testing.wait_all_tasks_blocked()


def bound_on_disk(writable: Writable) -> set[str]:
    found = load(writable.root, writable.clock.now_ms())
    return {queue["name"] for queue in found["queues"]} - {"work.a", "work.b"}


@pytest.mark.rule("S-108")
async def test_a_queue_goes_after_its_last_consumer(writable: Writable) -> None:
    configure(writable, AUTO_DELETE + "auto-delete-queues-delay = 5000\n")
    async with writable.open() as store:
        await store.create_queue(*MADE)
        await scans(store, 3)
        assert names(store) == {"made"}, "nobody used it yet"
        await publish(store, "one", "two")
        await use(store)
        writable.clock.advance(by_ms=5000)
        await scans(store)
        assert names(store) == {"made"}, "it holds a message"
        await use(store)
        writable.clock.advance(by_ms=4999)
        await scans(store)
        assert names(store) == {"made"}, "it is not time yet"
        writable.clock.advance(by_ms=1)
        await scans(store, 1)
        assert names(store) == {"made"}, "the next scan takes it"
        await scans(store, 1)
        assert names(store) == set()
        (event,) = events(store, "deleted")
        assert event["what"] == "work::made"
    assert bound_on_disk(writable) == set()


@pytest.mark.rule("S-108")
async def test_a_queue_that_is_used_stays(writable: Writable) -> None:
    configure(writable, AUTO_DELETE)
    async with writable.open() as store:
        await store.create_queue(*MADE)
        consumer = store.consumer(MADE)
        await scans(store, 3)
        await use(store)
        await scans(store, 3)
        assert names(store) == {"made"}, "somebody waits for messages"
        await consumer.close()
        await scans(store, 1)
        await use(store)
        await scans(store, 1)
        assert names(store) == {"made"}, "somebody came between two scans"
        await scans(store, 1)
        assert names(store) == set()


@pytest.mark.rule("S-108")
async def test_removing_messages_is_use_too(writable: Writable) -> None:
    configure(writable, AUTO_DELETE + 'expiry-address = ""\n')
    async with writable.open() as store:
        await store.create_queue(*MADE)
        await publish(store, "one")
        assert await store.acknowledge_part(MADE, "_tail.jsonl") == 1
        await scans(store)
        assert names(store) == set()
    async with writable.open() as store:
        await store.create_queue(*MADE)
        await publish(store, "one")
        ids = [json.loads(line)["id"] for line in lines_of(store, "made")]
        assert await store.expire(MADE, ids) == 1
        await scans(store)
        assert names(store) == set()


@pytest.mark.rule("S-108")
async def test_what_needs_no_use(writable: Writable) -> None:
    skip = "auto-delete-queues-skip-usage-check = true\n"
    configure(writable, f"{AUTO_DELETE}{skip}auto-delete-queues-delay = 1000\n")
    async with writable.open() as store:
        writable.clock.advance(by_ms=60_000)
        await store.create_queue(*MADE)
        writable.clock.advance(by_ms=999)
        await scans(store)
        assert names(store) == {"made"}
        writable.clock.advance(by_ms=1)
        await scans(store)
        assert names(store) == set()


@pytest.mark.rule("S-108")
@pytest.mark.parametrize("count", [1, -1])
async def test_messages_may_go_with_it(writable: Writable, count: int) -> None:
    configure(writable, f"{AUTO_DELETE}auto-delete-queues-message-count = {count}\n")
    async with writable.open() as store:
        await store.create_queue(*MADE)
        await publish(store, "one", "two", "three")
        await use(store)
        await scans(store, 3)
        assert names(store) == ({"made"} if count == 1 else set())
        if count == 1:
            await use(store)
            await scans(store)
        assert names(store) == set()
        assert store.core.loader.state.counts().references == 0
    found = load(writable.root, writable.clock.now_ms())
    assert all(not queue["messages"] for queue in found["queues"])


@pytest.mark.rule("S-108")
async def test_a_queue_that_is_scheduled_to_get_something_stays(writable: Writable) -> None:
    configure(writable, AUTO_DELETE)
    async with writable.open() as store:
        await store.create_queue(*MADE)
        publisher = store.publisher(*MADE, "in.jsonl")
        later = {"body": "later", "scheduledTime": writable.clock.now_ms() + 1000}
        await publisher.write(json.dumps(later).encode() + b"\n")
        await publisher.finish()
        await use(store)
        await scans(store)
        assert names(store) == {"made"}


@pytest.mark.rule("S-108", "S-116")
async def test_who_follows_a_queue_keeps_it_not(writable: Writable) -> None:
    configure(writable, AUTO_DELETE)
    async with writable.open() as store:
        await store.create_queue(*MADE)
        follower = queue_of(store, "made").follow()
        await use(store)
        await scans(store)
        assert names(store) == set()
        assert follower.ended
        assert await follower.next() is None


@pytest.mark.rule("S-108")
async def test_opening_the_store_takes_what_is_empty(writable: Writable) -> None:
    configure(writable, AUTO_DELETE + "auto-delete-queues-delay = 5000\n")
    async with writable.open() as store:
        await store.create_queue(*MADE)
        await store.create_queue("work", "full")
        await publish(store, "one", queue="full")
        await use(store)
    assert bound_on_disk(writable) == {"made", "full"}
    async with writable.open() as store:
        await until(lambda: names(store) == {"full"})
        await scans(store, 3)
        assert names(store) == {"full"}
        assert len(queue_of(store, "full")) == 1


@pytest.mark.rule("S-108")
async def test_what_waits_for_a_publication_is_not_taken(writable: Writable) -> None:
    """An earlier mount was told to keep something for a queue: it is published before anything goes."""
    configure(writable, AUTO_DELETE)
    async with writable.open() as store:
        await store.create_queue(*MADE)
        publisher = store.publisher(*MADE, "in.txt")
        await publisher.write(b"unfinished")
        await publisher.flush()
    async with writable.open() as store:
        assert store.left_unpublished() == ["work"]
        await scans(store, 1)
        await store.publish_left()
        assert [json.loads(line)["body"] for line in lines_of(store, "made")] == ["unfinished"]


@pytest.mark.rule("S-108")
async def test_it_happens_by_itself_once_a_period(writable: Writable) -> None:
    path = writable.root / "journalfs.toml"
    path.write_text(f"address-queue-scan-period = 4000\n{path.read_text()}")
    configure(writable, AUTO_DELETE)
    async with writable.open() as store:
        await trio.testing.wait_all_tasks_blocked()
        await store.create_queue(*MADE)
        await use(store)
        swept = store.auto_deleting.uses.of(queue_of(store, "made").model.queue_id)
        writable.clock.advance(by_ms=4000)
        await until(lambda: swept.swept != NEVER)
        writable.clock.advance(by_ms=3999)
        await trio.testing.wait_all_tasks_blocked()
        assert names(store) == {"made"}
        writable.clock.advance(by_ms=1)
        await until(lambda: names(store) == set())


@pytest.mark.rule("S-88")
@pytest.mark.parametrize("auto_delete", [False, True])
async def test_a_store_that_keeps_what_nobody_uses(writable: Writable, auto_delete: bool) -> None:
    """Here an empty queue, which goes when a store is opened."""
    configure(writable, AUTO_DELETE)
    async with writable.open() as store:
        await trio.testing.wait_all_tasks_blocked()
        await store.create_queue(*MADE)
    store = open_for_writing(writable.root, clock=writable.clock, index=False, auto_delete=auto_delete)
    with closing(store):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            await publish(store, "one", queue="work.a")
            await trio.testing.wait_all_tasks_blocked()
            if auto_delete:
                await until(lambda: names(store) == set())
            nursery.cancel_scope.cancel()
        assert names(store) == (set() if auto_delete else {"made"})


@pytest.mark.rule("S-108")
async def test_no_period_no_look(writable: Writable) -> None:
    """What is done once a period is done never then: `test_periods_may_change`."""
    path = writable.root / "journalfs.toml"
    path.write_text(f"address-queue-scan-period = -1\n{path.read_text()}")
    async with writable.open() as store:
        assert store.auto_deleting.period_ms == -1


async def make_dead_letters(store: WritingStore) -> None:
    """`dead` and its queue are made for a message that was delivered in vain."""
    await publish(store, "letter", queue="work.a")
    ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
    assert await store.send_to_dead_letters(("work", "work.a"), ids) == 1
    assert names(store) == {"DLQ.work"}


@pytest.mark.rule("S-108")
async def test_an_address_goes_after_its_last_queue(writable: Writable) -> None:
    configure(writable, DEAD_LETTERS + '[address-settings."dead"]\nauto-delete-addresses-delay = 5000\n')
    async with writable.open() as store:
        await make_dead_letters(store)
        assert await store.acknowledge_part(("dead", "DLQ.work"), "_tail.jsonl") == 1
        await scans(store)
        assert names(store) == set()
        assert set(store.core.bindings.addresses) == {"work", "dead"}
        writable.clock.advance(by_ms=4999)
        await scans(store)
        assert "dead" in store.core.bindings.addresses
        writable.clock.advance(by_ms=1)
        await scans(store, 1)
        assert "dead" in store.core.bindings.addresses, "the next scan takes it"
        await scans(store, 1)
        assert set(store.core.bindings.addresses) == {"work"}
        assert [event["what"] for event in events(store, "deleted")] == ["dead::DLQ.work", "dead"]
    assert "dead" not in {one["name"] for one in load(writable.root, 0)["addresses"]}


@pytest.mark.rule("S-108")
@pytest.mark.parametrize(
    ("setting", "stays"),
    [("", False), ("auto-delete-addresses = false\n", True)],
)
async def test_opening_the_store_takes_addresses_without_queues(
    writable: Writable, setting: str, stays: bool
) -> None:
    configure(writable, f"{DEAD_LETTERS}[address-settings.'#']\n{setting}")
    async with writable.open() as store:
        await make_dead_letters(store)
        await store.acknowledge_part(("dead", "DLQ.work"), "_tail.jsonl")
        await store.delete_queue("dead", "DLQ.work")
    async with writable.open() as store:
        await store.auto_deleting.scan(first=True)
        assert ("dead" in store.core.bindings.addresses) is stays


@pytest.mark.rule("S-108")
async def test_an_address_that_needs_no_use(writable: Writable) -> None:
    skip = "auto-delete-addresses-skip-usage-check = true\nauto-delete-addresses-delay = 5000\n"
    off = "auto-delete-addresses = false\n"
    configure(writable, f"{DEAD_LETTERS}[address-settings.'dead']\n{skip}{off}")
    async with writable.open() as store:
        await make_dead_letters(store)
        await store.acknowledge_part(("dead", "DLQ.work"), "_tail.jsonl")
        await store.delete_queue("dead", "DLQ.work")
    async with writable.open() as store:
        await trio.testing.wait_all_tasks_blocked()
        await store.set_attribute("dead", None, "user.journalfs.auto-delete-addresses", b"true")
        await scans(store)
        assert "dead" in store.core.bindings.addresses
        writable.clock.advance(by_ms=5000)
        await scans(store)
        assert "dead" not in store.core.bindings.addresses


@pytest.mark.rule("S-108")
async def test_what_was_made_by_name_stays(writable: Writable) -> None:
    configure(writable, "[address-settings.'#']\nauto-delete-addresses-skip-usage-check = true\n")
    async with writable.open() as store:
        await store.create_address("mine")
        await store.create_queue("mine", "mine")
        await store.delete_queue("mine", "mine")
        await store.create_queue(*MADE)
        await use(store)
        await scans(store, 3)
    async with writable.open() as store:
        await store.auto_deleting.scan(first=True)
        assert "mine" in store.core.bindings.addresses
        assert names(store) == {"made"}


async def test_ids_go_with_the_last_queue(writable: Writable) -> None:
    """A message that is sent again, after all who had it are gone, is no duplicate."""
    line = b'{"body": "x", "duplicateId": "d"}\n'
    async with writable.open() as store:
        await store.create_address("mine")
        for index in (False, True):
            await store.create_queue("mine", "mine")
            for count in (1, 1):
                await publish_file(store, "mine", None, "in.jsonl", line)
                assert len(lines_of(store, "mine", "mine")) == count
            if not index:
                await store.acknowledge_part(("mine", "mine"), "_tail.jsonl")
                await store.delete_queue("mine", "mine")
    async with writable.open() as store:
        assert store.core.duplicate_ids() == {"mine": 1}
