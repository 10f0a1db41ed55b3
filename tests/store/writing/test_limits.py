"""Limits of addresses: what becomes of what is published to a full one."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from journalfs.broker.limits.admission import Action
from journalfs.broker.limits.disk_limits import Space
from journalfs.clock import FakeClock
from journalfs.engine.waiting import Slices
from journalfs.errors import AddressFull, ReadOnlyStore, WriteFailed
from journalfs.ids import MessageId
from journalfs.live.memory import Footprint
from journalfs.message.outgoing import WholeFile
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of

AT = ("work", "work.a")
PUBLICATIONS = 20


class Limited:
    """The little store with settings of its own, opened for writing."""

    def __init__(self, little: LittleStore) -> None:
        self.little = little

    @asynccontextmanager
    async def open(self, *settings: str, core: str = "") -> AsyncIterator[WritingStore]:
        text = "\n".join(['journal-type = "NIO"', core, '[address-settings."#"]', *settings])
        (self.little.root / "journalfs.toml").write_text(text + "\n")
        async with Writable(self.little, "NIO").open() as store:
            yield store


@pytest.fixture
def limited(little_store: LittleStore) -> Limited:
    return Limited(little_store)


async def publish(store: WritingStore, *lines: str, queue: str | None = "work.a") -> None:
    await publish_file(store, "work", queue, "in", "".join(f"{line}\n" for line in lines).encode())


def texts(store: WritingStore, queue: str = "work.a") -> list[str]:
    return [json.loads(line)["body"] for line in lines_of(store, queue)]


async def consume(store: WritingStore, count: int) -> None:
    ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")[:count]]
    assert await store.acknowledge(AT, ids) == count


@asynccontextmanager
async def blocked(store: WritingStore, *works: Callable[[], Awaitable[None]]) -> AsyncIterator[trio.Nursery]:
    """Each of `works` is under way and waits for room, in this order."""
    before = store.admission.waiting
    async with trio.open_nursery() as nursery:
        for number, work in enumerate(works, before + 1):
            nursery.start_soon(work)
            while store.admission.waiting < number:
                await trio.lowlevel.checkpoint()
        yield nursery


@pytest.mark.rule("S-100")
async def test_dropped_messages_are_counted(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "DROP"') as store:
        await publish(store, "1", "2")
        await publish(store, "3", "4", "5")
        assert texts(store) == ["1", "2"]
        assert store.admission.dropped["work"] == 3
        await consume(store, 1)
        await publish(store, "6")
        assert texts(store) == ["2", "6"]


@pytest.mark.rule("S-100")
async def test_a_full_address_refuses(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "FAIL"') as store:
        await publish(store, "1", "2")
        with pytest.raises(AddressFull, match="max-size-messages") as refused:
            await publish(store, "3")
        assert refused.value.limit == "max-size-messages"
        assert texts(store) == ["1", "2"]
        await consume(store, 1)
        await publish(store, "4")
        assert texts(store) == ["2", "4"]


async def test_an_address_without_limits_takes_all(limited: Limited) -> None:
    async with limited.open('address-full-policy = "FAIL"') as store:
        await publish(store, *map(str, range(1000)))
        assert store.admission.decide("work").action is Action.STORE


async def test_who_waits_goes_on_when_messages_are_consumed(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1", "2")
        async with blocked(store, lambda: publish(store, "3")):
            assert texts(store) == ["1", "2"]
            await consume(store, 1)
        assert texts(store) == ["2", "3"]


@pytest.mark.rule("S-102")
async def test_who_came_first_goes_on_first_and_one_after_the_other(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1", "2")
        waiters = [lambda text=str(number): publish(store, text) for number in range(3, 8)]
        async with blocked(store, *waiters):
            for gone in range(1, 6):
                await consume(store, 1)
                while len(texts(store)) < 2:
                    await trio.lowlevel.checkpoint()
                assert texts(store) == [str(gone + 1), str(gone + 2)]


async def test_nothing_is_taken_of_who_gives_up(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1")
        scope = trio.CancelScope()

        async def give_up() -> None:
            with scope:
                await publish(store, "2")

        async with blocked(store, give_up, lambda: publish(store, "3")):
            scope.cancel()
            await consume(store, 1)
        assert texts(store) == ["3"]


@pytest.mark.rule("S-105")
async def test_settings_let_in_who_waits(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1")
        async with blocked(store, lambda: publish(store, "2")):
            await store.set_attribute("work", None, "user.journalfs.max-size-messages", b"2")
        async with blocked(store, lambda: publish(store, "3")):
            await store.set_attribute("work", None, "user.journalfs.address-full-policy", b"DROP")
        assert texts(store) == ["1", "2"]
        assert store.admission.dropped["work"] == 1


@pytest.mark.rule("S-100")
async def test_an_address_that_pages_takes_all(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1") as store:
        await publish(store, "1")
        assert store.admission.decide("work").action is Action.PAGE
        await publish(store, "2")
        assert texts(store) == ["1", "2"]


# -- what counts ---------------------------------------------------------------------------------------------


def held(store: WritingStore, address: str = "work") -> Footprint:
    found = store.address(address)
    assert found is not None
    return found.held()


MESSAGE_BYTES = 352
REFERENCE_BYTES = 72


@pytest.mark.rule("S-99")
async def test_a_message_counts_as_a_broker_estimates_it(limited: Limited) -> None:
    """A core message is its encoded form and 352 bytes, and 72 for each queue that it is in."""
    async with limited.open() as store:
        assert held(store) == (0, 0)
        await publish(store, "tx3")
        # Body with its length, id, address, user id, type, durability, two times, priority, no properties.
        encoded = (4 + 5 + 6) + 8 + (5 + 8) + 17 + 1 + 1 + 8 + 8 + 1 + 1
        one = MESSAGE_BYTES + encoded
        assert held(store) == (one + REFERENCE_BYTES, 1)
        await publish(store, "tx3", queue=None)
        assert held(store) == (2 * one + 3 * REFERENCE_BYTES, 2)
        await consume(store, 2)
        assert held(store) == (one + REFERENCE_BYTES, 1)


@pytest.mark.rule("S-99")
async def test_of_a_large_message_only_its_header_counts(limited: Limited) -> None:
    async with limited.open() as store:
        await store.publish("work", "work.a", [WholeFile(b"x" * 2_000_000)])
        small = held(store).size_bytes
        assert 213 + REFERENCE_BYTES < small < 1000
        await store.publish("work", "work.a", [WholeFile(b"x" * 4_000_000)])
        assert held(store) == (2 * small, 2)


@pytest.mark.rule("S-99")
async def test_what_is_held_is_the_same_after_the_store_was_opened_again(limited: Limited) -> None:
    async with limited.open() as store:
        await publish(store, "1", "22", "333", queue=None)
        await store.publish("work", None, [WholeFile(b"x" * 200_000)])
        await consume(store, 1)
        before = held(store)
    async with limited.open() as store:
        assert held(store) == before


async def test_bytes_are_limited(limited: Limited) -> None:
    async with limited.open("max-size-bytes = 1000", 'address-full-policy = "FAIL"') as store:
        taken = 0
        while held(store).size_bytes < 1000:
            await publish(store, "x" * 10)
            taken += 1
        with pytest.raises(AddressFull, match="max-size-bytes"):
            await publish(store, "x" * 10)
        assert len(texts(store)) == taken
        sizes = held(store).size_bytes
        assert sizes >= 1000 > sizes - sizes // taken


@pytest.mark.rule("S-101")
async def test_a_publication_is_taken_whole_or_not_at_all(limited: Limited) -> None:
    async with limited.open("max-size-messages = 3", 'address-full-policy = "FAIL"') as store:
        await publish(store, "1")
        await publish(store, *map(str, range(2, 100)))
        assert len(texts(store)) == 99
        with pytest.raises(AddressFull):
            await publish(store, "100", "101")


@pytest.mark.rule("S-101")
async def test_writers_at_once_do_not_overlook_each_other(limited: Limited) -> None:
    """What is staged counts before it is durable."""
    refused = []
    async with limited.open("max-size-messages = 5", 'address-full-policy = "FAIL"') as store:

        async def one(number: int) -> None:
            try:
                await publish(store, str(number))
            except AddressFull:
                refused.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)
        assert len(texts(store)) == 5
        assert len(refused) == 15


async def test_nothing_is_counted_where_nothing_is_limited(limited: Limited) -> None:
    """What is published is taken over when somebody looks; without limits publishing is no reason to."""
    advance, count = JournalLoader.advance, 0

    def counted(*args: Any, **kwargs: Any) -> PollResult:
        nonlocal count
        count += 1
        return advance(*args, **kwargs)

    async with limited.open() as store:
        await store.look()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JournalLoader, "advance", counted)
            for number in range(PUBLICATIONS):
                await publish(store, str(number))
            # The store itself may have looked, as when its journal goes on in another file.
            assert count < PUBLICATIONS // 2
            count = 0
            for number in range(PUBLICATIONS):
                await publish(store, str(number))
                texts(store)
            assert count >= PUBLICATIONS


@pytest.mark.rule("S-100")
async def test_who_blocks_may_reject_from_a_threshold_on(limited: Limited) -> None:
    settings = (
        "max-size-bytes = 400",
        'address-full-policy = "BLOCK"',
        "max-size-bytes-reject-threshold = 900",
    )
    async with limited.open(*settings) as store:
        await publish(store, "1")
        async with blocked(store, lambda: publish(store, "2")):
            await store.set_attribute("work", None, "user.journalfs.max-size-bytes", b"800")
        assert texts(store) == ["1", "2"]
        with pytest.raises(AddressFull, match="reject-threshold"):
            await publish(store, "3")


# -- all addresses together ----------------------------------------------------------------------------------


@pytest.mark.rule("S-100")
@pytest.mark.rule("S-103")
@pytest.mark.rule("S-105")
@pytest.mark.rule("S-106")
@pytest.mark.parametrize("core", ["global-max-messages = 2", "global-max-size = 900"])
async def test_all_addresses_together_are_limited(limited: Limited, core: str) -> None:
    async with limited.open('address-full-policy = "FAIL"', core=core) as store:
        await store.create_address("other")
        await store.create_queue("other", "other.a")
        await publish(store, "1", "2")
        other = store.publisher("other", None, "in")
        with pytest.raises(AddressFull, match="global-max") as refused:
            await other.write(b"3\n")
        assert store.status()["globalLimit"] == refused.value.limit
        await consume(store, 1)
        await other.write(b"4\n")
        await other.finish()
        assert store.status()["globalMessages"] == 2


@pytest.mark.rule("S-100")
@pytest.mark.parametrize("policy", ["BLOCK", "FAIL", "DROP", "PAGE"])
async def test_management_is_never_held_up(limited: Limited, policy: str) -> None:
    settings = f'address-full-policy = "{policy}"', "max-size-messages = 0"
    async with limited.open(*settings, core="global-max-messages = 0") as store:
        name = "activemq.management.own"
        await store.create_address(name)
        await store.create_queue(name, name)
        publisher = store.publisher(name, None, "in")
        await publisher.write(b"1\n")
        assert store.admission.decide(name).action is Action.STORE
        assert store.status()["globalMessages"] == 0


# -- the disk ------------------------------------------------------------------------------------------------


class Disk:
    """A disk of 1,000 bytes."""

    def __init__(self, store: WritingStore, clock: FakeClock) -> None:
        self.free_bytes = 500
        self._store = store
        self._clock = clock
        store.admission.disk.look = lambda path: Space(1000, self.free_bytes)

    async def becomes(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        self._clock.advance(by_ms=5000)
        await self._store.admission.scan_disk()


@pytest.mark.parametrize(
    ("core", "limit", "enough", "too_little"),
    [
        ("", "max-disk-usage", 101, 100),
        ("max-disk-usage = 60", "max-disk-usage", 401, 400),
        ("min-disk-free = 70", "min-disk-free", 71, 70),
        ("min-disk-free = 70\nmax-disk-usage = 10", "min-disk-free", 71, 70),
        ("max-disk-usage = 0", "max-disk-usage", 1001, 1000),
    ],
)
async def test_publishers_wait_for_the_disk_and_others_go_on(
    limited: Limited, core: str, limit: str, enough: int, too_little: int
) -> None:
    async with limited.open(core=core) as store:
        disk = Disk(store, limited.little.clock)
        await disk.becomes(enough)
        await publish(store, "1", "2")
        await disk.becomes(too_little)
        assert (store.admission.disk.reached, store.status()["diskLimit"]) == (limit, limit)
        async with blocked(store, lambda: publish(store, "3")):
            await consume(store, 1)
            await store.move(
                AT, [MessageId(json.loads(lines_of(store, "work.a")[0])["id"])], ("work", "work.b")
            )
            await store.create_queue("work", "work.c")
            assert store.admission.waiting == 1
            await disk.becomes(enough)
        assert texts(store) == ["3"]
        named = [event["event"] for event in store.core.events]
        assert (named.count("disk-limit-reached"), named.count("disk-limit-released")) == (1, 1)


@pytest.mark.rule("S-103")
async def test_a_full_disk_fails_where_the_address_fails(limited: Limited) -> None:
    async with limited.open('address-full-policy = "FAIL"') as store:
        disk = Disk(store, limited.little.clock)
        await disk.becomes(0)
        with pytest.raises(AddressFull, match="max-disk-usage"):
            await publish(store, "1")


@pytest.mark.rule("S-103")
async def test_the_disk_is_looked_at_now_and_then(limited: Limited) -> None:
    async with limited.open(core="disk-scan-period = 700") as store:
        disk = Disk(store, limited.little.clock)
        await store.admission.scan_disk()
        disk.free_bytes = 0
        for _ in range(7):
            assert store.admission.disk.reached is None
            limited.little.clock.advance(by_ms=100)
            await store.admission.scan_disk()
        assert store.admission.disk.reached == "max-disk-usage"


async def test_without_a_limit_the_disk_is_not_looked_at(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with limited.open(core="max-disk-usage = -1") as store:
        disk = Disk(store, limited.little.clock)
        await disk.becomes(0)
        await publish(store, "1")
        assert usable(store, monkeypatch) == 0


def usable(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bytes of the disk that others may still use are not shown as available."""
    disk = os.statvfs(store.core.root)
    with monkeypatch.context() as still:
        # Others write to the disk, too.
        still.setattr("journalfs.store.store.door.disk_of", lambda _path: disk)
        usage = store.usage()
    assert usage.total_bytes == disk.f_blocks * disk.f_frsize
    assert usage.free_bytes == disk.f_bfree * disk.f_frsize
    return disk.f_bavail * disk.f_frsize - usage.available_bytes


@pytest.mark.rule("S-35")
async def test_df_shows_limits(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    async with limited.open(core="min-disk-free = 1000000") as store:
        assert usable(store, monkeypatch) == 1_000_000
    async with limited.open(core="global-max-size = 4000\nglobal-max-messages = 7") as store:
        await publish(store, "1")
        usage = store.usage()
        left = 4000 - held(store).size_bytes
        assert (usage.total_bytes, usage.free_bytes, usage.available_bytes) == (4000, left, left)
        assert (usage.messages, usage.messages_max) == (1, 7)


# -- which settings count ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matches", "limit"),
    [
        ({"#": 5, "work": 2}, 2),
        ({"#": 5, "work.#": 3}, 3),
        ({"#": 5, "*": 4, "work.#": 3}, 4),
        ({"#": 5, "wor*": 4, "*": 3}, 4),
        ({"#": 5, "work.*": 1}, 5),
        ({"other": 1}, -1),
    ],
)
async def test_the_more_specific_match_limits(
    little_store: LittleStore, matches: dict[str, int], limit: int
) -> None:
    tables = [
        f'[address-settings."{match}"]\nmax-size-messages = {value}' for match, value in matches.items()
    ]
    (little_store.root / "journalfs.toml").write_text("\n".join(['journal-type = "NIO"', *tables]))
    async with Writable(little_store, "NIO").open() as store:
        assert store.admission.in_force.of("work").max_size_messages == limit


async def test_changing_one_setting_keeps_what_the_configuration_says_of_others(limited: Limited) -> None:
    said = '[address-settings."work"]\nmax-size-messages = 1\naddress-full-policy = "FAIL"\n'
    (limited.little.root / "journalfs.toml").write_text(f'journal-type = "NIO"\n{said}')
    async with Writable(limited.little, "NIO").open() as store:
        await store.set_attribute("work", None, "user.journalfs.max-size-messages", b"2")
        await publish(store, "1")
        await publish(store, "2")
        with pytest.raises(AddressFull):
            await publish(store, "3")


# -- telling -------------------------------------------------------------------------------------------------


@pytest.mark.rule("S-105")
async def test_the_status_says_which_limit_acts_and_since_when(limited: Limited) -> None:
    clock = limited.little.clock
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        address = store.address("work")
        assert address is not None
        assert address.status()["limit"] is None
        await publish(store, "1")
        store.admission.tick()
        since = clock.now_ms()
        clock.advance(by_ms=90_000)
        async with blocked(store, lambda: publish(store, "2"), lambda: publish(store, "3")):
            status = address.status()
            assert status["addressSize"] == held(store).size_bytes
            assert (status["limit"], status["limitAction"]) == ("max-size-messages", "block")
            assert (status["limitSince"], status["blockedWriters"]) == (since, 2)
            assert store.status()["blockedWriters"] == 2
            for _ in range(2):
                await consume(store, 1)
                while not texts(store):
                    await trio.lowlevel.checkpoint()
        await consume(store, 1)
        assert address.status()["limitSince"] is None


async def test_metrics_count_who_waits_and_what_was_dropped(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1")
        async with blocked(store, lambda: publish(store, "2")):
            text = (await store.metrics.text(Slices())).decode()
            size = f'journalfs_address_size_bytes{{address="work"}} {float(held(store).size_bytes)}'
            assert size in text
            assert 'journalfs_address_limit_reached{address="work"} 1.0' in text
            assert 'journalfs_address_blocked_writers{address="work"} 1.0' in text
            await store.set_attribute("work", None, "user.journalfs.address-full-policy", b"DROP")
        assert (
            'journalfs_address_dropped_messages_total{address="work"} 1.0'
            in (await store.metrics.text(Slices())).decode()
        )


async def test_an_address_at_its_limit_is_told_of_once_a_minute(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "DROP"') as store:
        for _ in range(5):
            await publish(store, "1")
            await publish(store, "2")
            await consume(store, 1)
            assert store.admission.decide("work").action is Action.STORE
        named = [event["event"] for event in store.core.events]
        assert (named.count("limit-reached"), named.count("limit-released")) == (1, 1)
        limited.little.clock.advance(by_ms=60_000)
        await publish(store, "1")
        await publish(store, "2")
        assert [event["event"] for event in store.core.events].count("limit-reached") == 2


async def test_who_waits_learns_that_nothing_can_be_written_any_more(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1")
        told: list[int] = []

        async def refused(number: int) -> None:
            with pytest.raises(ReadOnlyStore):
                await publish(store, str(number))
            told.append(number)

        async with blocked(store, lambda: refused(2), lambda: refused(3)):
            failed = WriteFailed("journal", "a bad disk", system_errno=errno.EIO)
            store.journals.messages.committer.failure = failed
        assert told == [2, 3]
