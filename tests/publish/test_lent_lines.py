"""Lines published while the end of the journal is lent: what Python would have written, byte by byte."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs import door
from journalfs.broker.publish.lending import LinesWay
from journalfs.clock import FakeClock
from journalfs.config.address_settings import Value
from journalfs.engine.tail import FULL, UNLIMITED
from journalfs.errors import ReadOnlyStore
from journalfs.ids import RecordId
from journalfs.message.outgoing import USER_IDS
from journalfs.store.creating import create_store
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore

START_MS = 1_700_000_000_000
WRITES = (
    b"a line\n",
    b"\n",
    b"one\ntwo\nthree\n",
    "ünïcödé \N{SNOWMAN} \U0001f600\n".encode(),
    b"\xff\xfe no UTF-8\n",
    b"with\r\n",
    b"x" * 9000 + b"\n",
    b"".join(b"%d\n" % number for number in range(200)),
)
QUEUES = {"one": ("one",), "two": ("two.a", "two.b"), "in-turn": ("turn.a", "turn.b", "turn.c")}
SETTINGS: Mapping[str, Mapping[str, Value]] = {
    "one": {"expiry-delay": 60_000},
    "two": {"max-size-messages": 1000, "address-full-policy": "FAIL"},
}


NOTHING_ELSE: Mapping[str, Value] = {}


async def made(store: WritingStore) -> None:
    for address, queues in QUEUES.items():
        await store.create_address(address)
        for queue in queues:
            await store.create_queue(address, queue)
            if address == "in-turn":
                await store.set_attribute(address, queue, "routing-type", b"ANYCAST")


def open_new(root: Path, own: Mapping[str, Value] = NOTHING_ELSE) -> WritingStore:
    clock = FakeClock(wall_ms=START_MS)
    create_store(root, {"journal-file-size": 1 << 20, **own}, clock, addresses=SETTINGS, warn=lambda _: None)
    store = open_for_writing(root, clock=clock)
    trio.run(made, store)
    USER_IDS.drawn(0)
    return store


def is_lent(store: WritingStore, ways: Sequence[LinesWay]) -> bool:
    """Lend the end, however slow the disk is."""
    clock, fields = store.core.clock, store.lending.tail.fields
    assert isinstance(clock, FakeClock)
    for _ in range(2):
        clock.elapsed_ns += 10**9
        store.journals.messages.committer.counts.flush_ns = 1
        if store.lending.lend(ways):
            fields.quick_ns_max = fields.stall_ns = UNLIMITED
            return True
    return False


def publish_lent(store: WritingStore, address: str, queue: str | None, content: bytes) -> bool:
    way, tail = store.lending.way(address, queue), store.lending.tail
    if not is_lent(store, [way]) or tail.stage_lines(way.tail, content):
        return False
    assert tail.flush() == 0
    assert store.lending.take_back([way])
    return True


def written(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "journal").glob("*.amq"))}


@pytest.mark.rule("S-278")
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("journal_type", ["NIO", "ASYNCIO", "MAPPED"])
def test_the_journal_is_what_python_would_have_written(
    tmp_path: Path, journal_type: str, checksums: bool
) -> None:
    places = [*((address, None) for address in QUEUES), ("two", "two.b")]
    for name in ("python", "c"):
        own: Mapping[str, Value] = {"journal-type": journal_type, "journal-checksums": checksums}
        with closing(open_new(tmp_path / name, own)) as store:
            for address, queue in places:
                publisher = store.publisher(address, queue, "in.txt")
                for content in WRITES:
                    if name == "python":
                        trio.run(publisher.write, content)
                    else:
                        assert publish_lent(store, address, queue, content)
            sizes = [queue.message_count for address in store.addresses() for queue in address.queues()]
            assert sum(sizes) == sum(content.count(b"\n") for content in WRITES) * 5
    assert written(tmp_path / "python") == written(tmp_path / "c")


async def filtered(store: WritingStore) -> None:
    await store.set_attribute("one", "one", "filter", b"color = 'red'")


async def last_value(store: WritingStore) -> None:
    await store.set_attribute("one", "one", "last-value-key", b"key")


async def disabled(store: WritingStore) -> None:
    await store.set_attribute("one", "one", "enabled", b"false")


async def ring(store: WritingStore) -> None:
    await store.set_attribute("one", "one", "ring-size", b"3")


async def full(store: WritingStore) -> None:
    await store.publisher("two", "two.a", "in.txt").write(b"line\n" * 3000)


async def staged(store: WritingStore) -> None:
    """Somebody waits for a flush."""
    store.journals.messages.stage_event(RecordId(1), 1, b"")


@pytest.mark.rule("S-279")
@pytest.mark.parametrize("change", [filtered, last_value, disabled, ring, full, staged])
def test_what_needs_a_decision_is_left_to_python(
    tmp_path: Path, change: Callable[[WritingStore], Awaitable[None]]
) -> None:
    with closing(open_new(tmp_path / "store")) as store:
        address = "two" if change is full else "one"
        assert publish_lent(store, address, None, b"before\n")
        trio.run(change, store)
        assert not publish_lent(store, address, None, b"after\n")


@pytest.mark.parametrize("content", [b"", b"no end", b"a\nno end", b"x" * 70_000 + b"\n", b"\n" * 300])
def test_what_is_no_few_whole_lines_is_left_to_python(tmp_path: Path, content: bytes) -> None:
    with closing(open_new(tmp_path / "store")) as store:
        assert not publish_lent(store, "one", None, content)
        assert publish_lent(store, "one", None, b"line\n")


def test_a_limit_is_passed_by_one_write_at_most(tmp_path: Path) -> None:
    with closing(open_new(tmp_path / "store", {"journal-type": "NIO"})) as store:
        way, tail, lines = store.lending.way("two", None), store.lending.tail, 0
        assert is_lent(store, [way])
        while tail.stage_lines(way.tail, b"line\n") == 0:
            lines += 1
            assert tail.flush() == 0
        assert store.lending.take_back([way])
        assert lines == 1000
        assert not is_lent(store, [way])


@pytest.mark.parametrize(("address", "taken"), [("one", 2), ("two", 1), ("in-turn", 2)])
def test_one_way_at_a_time_to_an_address_with_limits(tmp_path: Path, address: str, taken: int) -> None:
    """Another would not know what is left."""
    with closing(open_new(tmp_path / "store")) as store:
        queue = QUEUES[address][0]
        ways = [store.lending.way(address, None), store.lending.way(address, queue)]
        assert is_lent(store, ways)
        tail = store.lending.tail
        assert [tail.stage_lines(way.tail, b"line\n") for way in ways].count(0) == taken
        assert tail.flush() == 0
        assert store.lending.take_back(ways)


def test_a_file_that_is_full_is_left_to_python(tmp_path: Path) -> None:
    with closing(open_new(tmp_path / "store")) as store:
        way, tail, before = (
            store.lending.way("one", None),
            store.lending.tail,
            store.journals.messages.current,
        )
        assert is_lent(store, [way])
        while (status := tail.stage_lines(way.tail, b"x" * 20_000 + b"\n")) in (0, FULL):
            if status == FULL and not tail.fields.stage.record_count:
                break
            assert tail.flush() == 0
        assert status == FULL
        assert store.lending.take_back([way])
        trio.run(store.publisher("one", None, "in.txt").write, b"x" * 20_000 + b"\n")
        assert store.journals.messages.current is not before
        assert publish_lent(store, "one", None, b"line\n")


@pytest.mark.rule("S-289")
def test_a_write_that_fails_is_the_last_one(tmp_path: Path) -> None:
    with closing(open_new(tmp_path / "store", {"journal-type": "NIO"})) as store:
        way, tail = store.lending.way("one", None), store.lending.tail
        assert publish_lent(store, "one", None, b"kept\n")
        reached = store.journals.messages.durable_end()
        assert is_lent(store, [way])
        assert tail.stage_lines(way.tail, b"lost\n") == 0
        tail.fields.fd = -1
        assert tail.flush() == tail.flush() == errno.EBADF
        assert tail.stage_lines(way.tail, b"later\n") != 0
        assert store.lending.take_back([way])
        assert store.read_only
        assert store.journals.messages.durable_end() == reached
        assert len(store.core.events) == 1
        assert not is_lent(store, [way])
        with pytest.raises(ReadOnlyStore):
            trio.run(store.publish, "one", None, [])


@pytest.mark.protects("P-2")
def test_a_file_that_was_taken_away_takes_nothing_more(tmp_path: Path) -> None:
    with closing(open_new(tmp_path / "store")) as store:
        way, tail = store.lending.way("one", None), store.lending.tail
        assert is_lent(store, [way])
        (tmp_path / "store/journal" / store.journals.messages.current.name).unlink()
        assert tail.stage_lines(way.tail, b"lost\n") == 0
        assert tail.flush() == errno.ENOENT
        store.lending.take_back([way])
        assert "it was taken away" in str(store.journals.failure)


def test_a_store_that_is_reached_by_descriptor_alone_takes_lines(tmp_path: Path) -> None:
    """As one below a directory that its owner, as whom root acts, may not enter."""
    door.own_folder(tmp_path / "held/store")
    with closing(open_new(tmp_path / "held/store")) as store:
        way, tail = store.lending.way("one", None), store.lending.tail
        assert is_lent(store, [way])
        (tmp_path / "held").rename(tmp_path / "elsewhere")
        assert tail.stage_lines(way.tail, b"kept\n") == 0
        assert tail.flush() == 0
        store.lending.take_back([way])
        assert store.journals.failure is None


def test_whoever_gives_up_in_another_thread_stops_it(tmp_path: Path) -> None:
    with closing(open_new(tmp_path / "store")) as store:
        way, tail = store.lending.way("one", None), store.lending.tail
        assert is_lent(store, [way])
        store.journals.messages.committer.give_up("somewhere", OSError(errno.EIO, "for some reason"))
        assert tail.stage_lines(way.tail, b"late\n") != 0
