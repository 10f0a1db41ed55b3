"""Following what a broker writes: each look applies what is new, and nothing twice."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable

import pytest
import trio
import trio.testing

from journalfs.api import ByteSource
from journalfs.errors import Gone, StaleView
from journalfs.ids import MessageId
from journalfs.limits import LOOKS_AGAIN_MAX, TAIL_IDLE_MS, TAIL_WAIT_MS
from journalfs.records.files.loader import JournalLoader
from journalfs.store.store import JournalStore
from journalfs.views.following import Follower
from journalfs.views.queues import StoreQueue
from tests.differential.encode import header, record
from tests.store.appending import ADD_TX, COMMIT, JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.tools import store_bytes

ReadLines = Callable[[JournalStore, str], list[bytes]]


def queue_of(store: JournalStore, name: str) -> StoreQueue:
    address = store.address("work")
    assert address is not None
    queue = address.queue(name)
    assert queue is not None
    return queue


@pytest.mark.rule("S-44")
async def test_appended_messages_show_at_the_next_look(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    store = little_store.open()
    assert lines_of(store, "work.a") == []
    little_store.journal.send(1000, QUEUE_A, "one")
    await store.look()
    assert [b'"body":"one"' in line for line in lines_of(store, "work.a")] == [True]
    little_store.journal.acknowledge(1000, QUEUE_A, tx_id=3000)
    await store.look()
    assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-27")
async def test_open_transaction_counts_once_it_commits(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    little_store.journal.send_in_transaction(500, 1000, QUEUE_A)
    store = little_store.open()
    assert lines_of(store, "work.a") == []
    little_store.journal.commit(500, 2)
    await store.look()
    assert len(lines_of(store, "work.a")) == 1


@pytest.mark.rule("S-14")
async def test_tail_becomes_a_part_when_idle(little_store: LittleStore) -> None:
    store = little_store.open()
    queue = queue_of(store, "work.a")
    little_store.journal.send(1000, QUEUE_A)
    await store.look()
    assert (len(queue.parts()), queue.tail().messages) == (0, 1)
    little_store.clock.advance(by_ms=TAIL_IDLE_MS - 1)
    await store.look()
    assert (len(queue.parts()), queue.tail().messages) == (0, 1)
    little_store.clock.advance(by_ms=1)
    await store.look()
    assert (len(queue.parts()), queue.tail().messages) == (1, 0)


@pytest.mark.rule("S-14")
async def test_busy_tail_becomes_a_part_after_ten_seconds(little_store: LittleStore) -> None:
    store = little_store.open()
    queue = queue_of(store, "work.a")
    for step in range(TAIL_WAIT_MS // 500):
        little_store.journal.send(1000 + step, QUEUE_A)
        await store.look()
        assert queue.parts() == []
        little_store.clock.advance(by_ms=500)
    await store.look()
    assert queue.tail().messages == 0
    assert sum(part.messages for part in queue.parts()) == TAIL_WAIT_MS // 500


@pytest.mark.rule("S-14")
async def test_clock_set_back_keeps_nothing_in_the_tail(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    """Nor does it make records wait that stand behind a hole."""
    store = little_store.open()
    queue = queue_of(store, "work.a")
    little_store.journal.send(1000, QUEUE_A)
    little_store.journal.at += 8192
    little_store.journal.send(1001, QUEUE_A)
    await store.look()
    assert (len(lines_of(store, "work.a")), queue.tail().messages) == (1, 1)
    little_store.clock.wall_ms -= 3_600_000
    for _ in range(3):
        little_store.clock.advance(by_ms=1_000)
        await store.look()
    assert (len(lines_of(store, "work.a")), queue.tail().messages) == (2, 0)


@pytest.mark.rule("S-12")
async def test_line_in_a_part_keeps_the_delivery_count_it_was_sealed_with(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open()
    queue = queue_of(store, "work.a")
    size_bytes = queue.parts()[0].size_bytes
    little_store.journal.redeliver(1000, QUEUE_A, 3)
    await store.look()
    assert b"deliveryCount" not in lines_of(store, "work.a")[0]
    assert queue.parts()[0].size_bytes == size_bytes
    message = queue.message(queue.listing().message_id(0))
    assert message is not None
    assert message.attributes()["user.journalfs.deliveryCount"] == b"3"


@pytest.mark.rule("S-11")
async def test_acknowledged_message_leaves_its_part(little_store: LittleStore, lines_of: ReadLines) -> None:
    for number in range(3):
        little_store.journal.send(1000 + number, QUEUE_A, f"text {number}")
    store = little_store.open()
    queue = queue_of(store, "work.a")
    part = queue.parts()[0]
    before = queue.open_part(part)
    little_store.journal.acknowledge(1001, QUEUE_A, tx_id=3000)
    await store.look()
    assert [(one.name, one.messages) for one in queue.parts()] == [(part.name, 2)]
    assert queue.parts()[0].size_bytes < part.size_bytes
    assert [b"text 1" in line for line in lines_of(store, "work.a")] == [False, False]
    assert bytes(before.read(0, before.size_bytes)).count(b"\n") == 3, "an open file keeps what it had"
    for number in (1000, 1002):
        little_store.journal.acknowledge(number, QUEUE_A, tx_id=3000 + number)
    await store.look()
    assert queue.parts() == []
    assert queue.part(part.name) is None


@pytest.mark.rule("S-44")
async def test_messages_that_went_have_no_file_in_the_queue_that_they_went_from(
    little_store: LittleStore,
) -> None:
    """From parts and from the tail."""
    for number in range(3):
        little_store.journal.send(1000 + number, QUEUE_A)
    store = little_store.open()
    little_store.journal.send(1003, QUEUE_A)
    await store.look()
    queue = queue_of(store, "work.a")
    for number in (1001, 1003):
        little_store.journal.acknowledge(number, QUEUE_A, tx_id=3000 + number)
    await store.look()
    found = [queue.message(MessageId(number)) for number in range(1000, 1004)]
    assert [one is not None for one in found] == [True, False, True, False]


@pytest.mark.rule("S-45")
async def test_switch_to_the_next_file_and_reuse_of_the_first(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    little_store.journal.send(1000, QUEUE_A, "in the first file")
    store = little_store.open()
    following = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    following.acknowledge(1000, QUEUE_A, tx_id=3000)
    following.send(1001, QUEUE_B, "in the second file")
    await store.look()
    assert lines_of(store, "work.a") == []
    assert len(lines_of(store, "work.b")) == 1
    with little_store.journal.path.open("r+b") as file:  # reclaimed: a new id, the old records stay behind
        file.write(struct.pack(">iiq", 2, 0, 3))
    reused = JournalAppender(little_store.journal.path, 3, 16)
    reused.send(1002, QUEUE_B, "in the first file's second life")
    await store.look()
    assert store.rebuilds == 0
    assert [line.split(b'"body":')[1] for line in lines_of(store, "work.b")] == [
        b'"in the second file"}',
        b'"in the first file\'s second life"}',
    ]


@pytest.mark.rule("S-45")
async def test_compaction_changes_nothing_that_is_shown(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    for number in range(20):
        little_store.journal.send(1000 + number, QUEUE_A, f"text {number}")
    store = little_store.open()
    lines = lines_of(store, "work.a")
    names = [part.name for part in queue_of(store, "work.a").parts()]
    compacted = JournalAppender.create(little_store.root / "journal/activemq-data-9.amq.cmp", 1)
    for number in range(20):
        compacted.send(1000 + number, QUEUE_A, f"text {number}")
    current = JournalAppender.create(little_store.root / "journal/activemq-data-10.amq", 10)
    little_store.journal.path.unlink()
    compacted.path.rename(compacted.path.with_suffix(""))
    current.send(2000, QUEUE_A, "new")
    await store.look()
    assert store.rebuilds == 1
    assert lines_of(store, "work.a")[:20] == lines
    assert [part.name for part in queue_of(store, "work.a").parts()] == names
    assert queue_of(store, "work.a").tail().messages == 1


@pytest.mark.rule("S-44")
async def test_record_behind_a_hole_waits_for_the_hole(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    """Two writes in flight may land in either order; a hole that stays is damage, and hides nothing."""
    little_store.journal.send(1000, QUEUE_A, "first")
    store = little_store.open()
    hole_at = little_store.journal.at
    little_store.journal.at += 8192
    little_store.journal.send(1002, QUEUE_A, "landed early")
    await store.look()
    assert len(lines_of(store, "work.a")) == 1
    little_store.journal.at = hole_at
    little_store.journal.send(1001, QUEUE_A, "landed late")
    await store.look()
    little_store.clock.advance(by_ms=1000)
    await store.look()
    bodies = [line.split(b'"body":')[1] for line in lines_of(store, "work.a")]
    assert bodies == [b'"first"}', b'"landed late"}', b'"landed early"}']
    assert [damage.kind for damage in store.core.damage()] == ["zeroed"]


@pytest.mark.rule("S-44", "S-49")
def test_record_behind_a_hole_does_not_wait_where_nobody_writes(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    """As when it is read for the first time."""
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()
    little_store.journal.at += 8192
    little_store.journal.send(1001, QUEUE_A)
    store = little_store.open()
    assert len(lines_of(store, "work.a")) == 2
    assert [damage.kind for damage in store.core.damage()] == ["zeroed"]


@pytest.mark.rule("S-24")
async def test_scheduled_message_is_due_when_its_time_comes(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "later")
    little_store.journal.schedule(1000, QUEUE_A, little_store.clock.now_ms() + 60_000)
    little_store.journal.send(1001, QUEUE_A, "now")
    store = little_store.open()
    queue = queue_of(store, "work.a")
    names = [queue.listing().name(index) for index in range(2)]
    assert names == [b"1001.txt", b"1000.txt"]
    assert len(queue.scheduled()) == 1
    little_store.clock.advance(by_ms=60_000)
    assert len(queue.scheduled()) == 0
    assert [queue.listing().name(index) for index in range(2)] == [b"1000.txt", b"1001.txt"]


@pytest.mark.rule("S-44")
async def test_follow_looks_again_and_again_and_can_be_cancelled(
    little_store: LittleStore, lines_of: ReadLines, autojump_clock: trio.testing.MockClock
) -> None:
    for number in range(2):
        little_store.journal.send(1000 + number, QUEUE_A)
    store = little_store.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.follow)
        for number, left in ((1000, 1), (1001, 0)):
            await trio.sleep(1)
            little_store.journal.acknowledge(number, QUEUE_A, tx_id=3000 + number)
            while len(lines_of(store, "work.a")) > left:
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


@pytest.mark.rule("S-45")
@pytest.mark.usefixtures("held_by_a_broker")
def test_opening_what_the_broker_has_just_overwritten(little_store: LittleStore, lines_of: ReadLines) -> None:
    """Between two looks everything in a file may be consumed and the file used again."""
    little_store.journal.send(1000, QUEUE_A, "consumed")
    store = little_store.open()
    assert store.core.live_broker
    queue = queue_of(store, "work.a")
    listed = queue.parts()[0]
    message = queue.message(queue.listing().message_id(0))
    assert message is not None
    following = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    following.acknowledge(1000, QUEUE_A, tx_id=3000)
    with little_store.journal.path.open("r+b") as file:
        file.write(struct.pack(">iiq", 2, 0, 3))
    JournalAppender(little_store.journal.path, 3, 16).send(1001, QUEUE_A, "now")
    with pytest.raises(Gone):
        message.open()
    with pytest.raises(Gone):
        queue.open_part(listed)
    assert [line.split(b'"body":')[1] for line in lines_of(store, "work.a")] == [b'"now"}']


@pytest.mark.rule("S-44")
@pytest.mark.parametrize("indexed", [False, True])
async def test_an_earlier_state_that_is_copied_over_the_current_file(
    little_store: LittleStore, lines_of: ReadLines, indexed: bool
) -> None:
    """As `cp` puts a backup back: the same file, as long as before, and nothing behind what it had then."""
    little_store.journal.send(1000, QUEUE_A, "one")
    earlier = little_store.journal.path.read_bytes()
    for number in range(50):
        little_store.journal.send(1001 + number, QUEUE_A, "since then")
    store = little_store.open()
    if indexed:
        store.close()
        store = little_store.open()
    await store.look()
    assert len(lines_of(store, "work.a")) == 51
    little_store.journal.path.write_bytes(earlier)
    await store.look()
    assert len(lines_of(store, "work.a")) == 1
    assert store.rebuilds == 1


class Compacting:
    """A broker that writes what is live anew, and uses the files again in which it was."""

    def __init__(self, little_store: LittleStore) -> None:
        self._directory = little_store.root / "journal"
        self._current = little_store.journal
        self._used = [little_store.journal]
        self._live: dict[int, tuple[str, int]] = {}

    def send(self, message_id: int, text: str, *, priority: int = 4) -> None:
        self._live[message_id] = text, priority
        self._current.send(message_id, QUEUE_A, text, priority=priority)

    def consume(self, message_id: int) -> None:
        del self._live[message_id]
        self._current.acknowledge(message_id, QUEUE_A, tx_id=3000 + message_id)

    def compact(self) -> None:
        file_id = self._current.file_id + 1
        moved = JournalAppender.create(self._directory / f"activemq-data-{file_id}.amq", file_id)
        for message_id, (text, priority) in self._live.items():
            moved.send(message_id, QUEUE_A, text, priority=priority)
        for used in self._used:
            file_id += 1
            with used.path.open("r+b") as file:
                file.write(header(file_id) + bytes(used.at - 16))
            self._current = JournalAppender(used.path, file_id, 16)
        self._used = [moved, self._current]


def bodies(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["body"] for line in lines]


def text_of(source: ByteSource) -> bytes:
    return bytes(source.read(0, source.size_bytes))


def taken(follower: Follower) -> list[str]:
    """What a reader gets without waiting."""
    found: list[bytes] = []
    while (source := follower.take()) is not None:
        found.append(text_of(source))
    return bodies(found)


@pytest.fixture
def compacting(little_store: LittleStore, held_by_a_broker: None) -> Compacting:
    return Compacting(little_store)


@pytest.mark.rule("S-45", "S-116")
@pytest.mark.parametrize("selector", [None, "JMSPriority > 3"])
async def test_following_goes_on_where_files_are_used_again(
    little_store: LittleStore, compacting: Compacting, selector: str | None
) -> None:
    """What was consumed meanwhile is missed, and nothing else; nothing comes twice."""
    store = little_store.open()
    queue = queue_of(store, "work.a")
    follower = (queue if selector is None else queue.where(selector)).follow()
    for number, text in enumerate(("one", "consumed", "three")):
        compacting.send(1000 + number, text)
    await store.look()
    compacting.consume(1001)
    compacting.compact()
    assert taken(follower) == ["one", "three"]
    compacting.send(1003, "four")
    await store.look()
    assert follower.ready()
    compacting.compact()
    assert taken(follower) == ["four"]
    assert not follower.ended


@pytest.mark.rule("S-45", "S-116")
async def test_following_a_broker_that_is_faster_than_each_look(
    little_store: LittleStore, compacting: Compacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turns meanwhile, and once the broker rests the message is there."""
    store = little_store.open()
    follower = queue_of(store, "work.a").follow()
    compacting.send(1000, "one")
    await store.look()
    looks, look_now = 0, store.look_now

    def overtaken() -> None:
        nonlocal looks
        looks += 1
        assert looks < 100, "nobody else had a turn"
        look_now()
        compacting.compact()

    monkeypatch.setattr(store, "look_now", overtaken)
    compacting.compact()
    assert follower.take() is None
    assert looks == LOOKS_AGAIN_MAX
    found: list[str] = []

    async def read() -> None:
        source = await follower.next()
        assert source is not None
        found.extend(bodies([text_of(source)]))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            while looks == LOOKS_AGAIN_MAX:
                await trio.lowlevel.checkpoint()
            monkeypatch.setattr(store, "look_now", look_now)
    assert found == ["one"]


OPENINGS: list[Callable[[StoreQueue], bytes]] = [
    lambda queue: text_of(queue.open_all()),
    lambda queue: text_of(queue.open_part(queue.parts()[0])),
    lambda queue: text_of(queue.where("JMSPriority = 7").open_all()),
]


@pytest.mark.rule("S-45")
@pytest.mark.parametrize("opening", OPENINGS, ids=["all", "part", "selection"])
@pytest.mark.parametrize("begun", [True, False])
async def test_opening_while_the_journal_is_read_anew(
    little_store: LittleStore,
    compacting: Compacting,
    monkeypatch: pytest.MonkeyPatch,
    opening: Callable[[StoreQueue], bytes],
    begun: bool,
) -> None:
    """Who opens something waits for what a thread reads, and reads by itself where no thread is to be had."""
    compacting.send(1000, "one", priority=7)
    store = little_store.open()
    queue = queue_of(store, "work.a")
    compacting.compact()
    threads = trio.to_thread.current_default_thread_limiter()
    reading, wanted = threading.Event(), threading.Event()
    make_loader = getattr(store, "_make_loader")  # noqa: B009

    def make_when_wanted() -> JournalLoader:
        reading.set()
        assert wanted.wait(60)
        loader: JournalLoader = make_loader()
        return loader

    look_now = store.look_now

    def look_again() -> None:
        wanted.set()
        look_now()

    monkeypatch.setattr(store, "_make_loader", make_when_wanted)
    monkeypatch.setattr(store, "look_now", look_again)
    if not begun:
        monkeypatch.setattr(threads, "total_tokens", 1)
        await threads.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.look)
        if begun:
            await trio.to_thread.run_sync(reading.wait)
        else:
            await trio.testing.wait_all_tasks_blocked()
        assert bodies(opening(queue).splitlines()) == ["one"]
        if not begun:
            threads.release()
    assert store.rebuilds == 1


@pytest.mark.protects("P-8")
@pytest.mark.rule("S-45")
def test_opening_beside_a_broker_that_is_always_faster(
    little_store: LittleStore, compacting: Compacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, with the error that says why."""
    compacting.send(1000, "one")
    store = little_store.open()
    queue = queue_of(store, "work.a")
    message = queue.message(MessageId(1000))
    assert message is not None

    look_now = store.look_now

    def overtaken() -> None:
        look_now()
        compacting.compact()

    monkeypatch.setattr(store, "look_now", overtaken)
    compacting.compact()
    with pytest.raises(StaleView):
        queue.open_all()
    with pytest.raises(StaleView):
        message.open()


@pytest.mark.rule("S-45")
def test_a_message_that_lies_elsewhere_by_now(little_store: LittleStore, compacting: Compacting) -> None:
    compacting.send(1000, "one")
    store = little_store.open()
    queue = queue_of(store, "work.a")
    message = queue.message(MessageId(1000))
    assert message is not None
    compacting.compact()
    assert text_of(message.open()) == b"one"
    compacting.compact()
    assert message.envelope()["body"] == "one"


@pytest.mark.rule("S-45")
def test_a_selector_does_not_judge_by_what_lies_in_the_file_by_now(
    little_store: LittleStore, compacting: Compacting
) -> None:
    compacting.send(1000, "one", priority=7)
    store = little_store.open()
    queue = queue_of(store, "work.a")
    compacting.compact()
    compacting.send(1001, "two", priority=1)
    assert bodies(text_of(queue.where("JMSPriority = 7").open_all()).splitlines()) == ["one"]


@pytest.mark.rule("S-44")
async def test_what_is_bound_later_shows_beside_a_file_that_is_ready(little_store: LittleStore) -> None:
    """A broker has a file without records behind the one that it writes to, and goes on there in the end."""
    ready = JournalAppender.create(little_store.root / "bindings/activemq-bindings-2.bindings", 2)
    store = little_store.open(index=False)
    address = store.address("work")
    assert address is not None
    names = {"work.a", "work.b"}
    for number, (file, rid) in enumerate(
        [(little_store.bindings, 1), (little_store.bindings, 1), (ready, 2)]
    ):
        names.add(f"work.later-{number}")
        body = store_bytes.queue_binding(f"work.later-{number}", "work", 0)
        tx_id = 900 + number
        file.append(
            record(ADD_TX, rid, tx_id=tx_id, record_id=800 + number, user_type=21, body=body),
            record(COMMIT, rid, tx_id=tx_id, count=1),
        )
        await store.look()
        assert {queue.name for queue in address.queues()} == names
    assert store.status()["damage"] == 0
