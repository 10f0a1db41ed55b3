"""A disk without room: publishing is refused at once, acknowledging works, and afterwards all is well."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from contextlib import closing

import pytest
import trio

from journalfs.broker.publish.publisher import FilePublisher
from journalfs.errors import NoSpace, SystemFailure
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, QueueId
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.message.outgoing import WholeFile
from journalfs.store.snapshot_folder import SNAPSHOTS
from journalfs.store.write.compacting import compact_store
from journalfs.store.write.store import WritingStore
from tests.broker.settings import ONE_IS_QUICK
from tests.differential.encode import record
from tests.kinds import BACKENDS
from tests.reference.store import load
from tests.store.appending import ACK, ADD, UPDATE
from tests.store.conftest import QUEUE_A, LittleStore
from tests.store.writing.conftest import MakeStore, SmallStore, lines_of, no_upkeep


async def tidied(store: WritingStore) -> None:
    """What is consumed is set free, as far as there is room to do so."""
    with contextlib.suppress(OSError):
        await store.journals.messages.upkeep.tidy()


async def published_until_full(publisher: FilePublisher) -> int:
    """How many lines were taken before one was refused for lack of room."""
    for number in range(100_000):
        try:
            await publisher.write(b"%06d %s\n" % (number, b"x" * 2000))
        except NoSpace:
            return number
    raise AssertionError("the disk is never full")


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_full_disk_refuses_messages_and_takes_acknowledgements(
    small_store: MakeStore, backend: str
) -> None:
    small = small_store(backend)
    async with small.running() as store:
        publisher = store.publisher("work", "work.a", "in")
        told = await published_until_full(publisher)
        with pytest.raises(SystemFailure):
            await store.publish("work", "work.a", [WholeFile(b"y" * 2_000_000)])
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
        assert len(ids) == told > 500
        for at in range(0, len(ids) - 10, 7):
            assert await store.acknowledge(("work", "work.a"), ids[at : at + 7]) == 7
        await store.journals.messages.upkeep.tidy()
        left = len(lines_of(store, "work.a"))
        await publisher.write(b"there is room again\n")
        assert len(lines_of(store, "work.a")) == left + 1
    (messages,) = (
        queue["messages"]
        for queue in load(small.root, small.clock.now_ms())["queues"]
        if queue["name"] == "work.a"
    )
    assert len(messages) == left + 1
    assert not list((small.root / "large-messages").iterdir())


@pytest.mark.rule("S-70")
async def test_bodies_that_have_no_place_to_go(small_store: MakeStore) -> None:
    """Neither is there anything to remove then. What was written is kept, and nothing publishes it later."""
    small = small_store("NIO")
    large = small.root / "large-messages"
    with closing(small.open()) as store:
        large.rmdir()
        large.write_bytes(b"in the way")
        publisher = store.publisher("work", "work.a", "in.bin")
        await publisher.write(b"y" * 200_000)
        await publisher.flush()
        with pytest.raises(SystemFailure, match="large"):
            await publisher.finish()
        (kept,) = (small.root / "journalfs" / "unpublished").iterdir()
        assert kept.read_bytes() == b"y" * 200_000
        assert str(kept) in str([event["message"] for event in store.core.events])
    large.unlink()
    with closing(small.open()) as store:
        assert lines_of(store, "work.a") == []


async def written_whole(publisher: FilePublisher, pieces_bytes: tuple[int, ...]) -> None:
    for size_bytes in pieces_bytes:
        await publisher.write(b"y" * size_bytes)
    await publisher.finish()


@pytest.mark.parametrize("pieces_bytes", [(120_000,), (90_000, 90_000), (90_000, 90_000, 400_000)])
async def test_a_file_that_finds_no_room_leaves_nothing_behind(
    small_store: MakeStore, pieces_bytes: tuple[int, ...]
) -> None:
    small = small_store("NIO")
    with closing(small.open()) as store:
        filler = small.fill()
        flushed = store.flushed.folder.path
        held = len(os.listdir("/proc/self/fd"))
        for number in range(5):
            publisher = store.publisher("work", "work.a", f"{number}.bin")
            with pytest.raises((SystemFailure, NoSpace)):
                await written_whole(publisher, pieces_bytes)
            publisher.abandon()
        assert len(os.listdir("/proc/self/fd")) == held
        await store.flushed.tidy()
        assert not flushed.exists() or list(flushed.iterdir()) == []
        filler.unlink()
        await written_whole(store.publisher("work", "work.a", "last.bin"), pieces_bytes)
        assert len(lines_of(store, "work.a")) == 1


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_store_that_filled_its_disk_is_opened_and_consumed(
    small_store: MakeStore, backend: str
) -> None:
    small = small_store(backend)
    other = small.disk / "other"
    other.write_bytes(bytes(3 * 1024 * 1024))
    with closing(small.open()) as store:
        told = await published_until_full(store.publisher("work", "work.a", "in"))
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
    for path in (small.root / "journal").glob("*.amq"):
        if not any(path.read_bytes()[4096:]):
            path.unlink()  # what was held back for what makes room was used for that
    small.fill()
    async with small.running() as store:
        assert len(lines_of(store, "work.a")) == told
        with contextlib.suppress(NoSpace):  # the last journal file may be full to its end
            await store.acknowledge(("work", "work.a"), ids[:7])
        other.unlink()
        for at in range(0, told, 7):
            await store.acknowledge(("work", "work.a"), ids[at : at + 7])
        assert lines_of(store, "work.a") == []
        await store.publisher("work", "work.a", "in").write(b"there is room again\n")
        assert len(lines_of(store, "work.a")) == 1


@pytest.mark.parametrize("backend", BACKENDS)
async def test_bindings_in_one_file_on_a_full_disk(small_store: MakeStore, backend: str) -> None:
    """Opening a store reserves ids in its bindings: what makes room needs them."""
    small = small_store(backend)
    async with small.running() as store:
        await store.publisher("work", "work.a", "in").write(b"one\n")
    for path in (small.root / "bindings").iterdir():
        if not any(path.read_bytes()[JOURNAL_HEADER_BYTES:]):
            path.unlink()
    small.fill()
    async with small.running() as store:
        (line,) = lines_of(store, "work.a")
        assert await store.acknowledge(("work", "work.a"), [MessageId(json.loads(line)["id"])]) == 1
    assert len(list((small.root / "bindings").iterdir())) == 1


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("limit", ["", "max-disk-usage = -1"])
async def test_what_was_consumed_is_room_again(small_store: MakeStore, limit: str) -> None:
    """Journal files that hold nothing are kept for use, but not where others need the room."""
    small = small_store(limit=limit)
    clock = small.clock
    with closing(small.open()) as store:
        upkeep = store.journals.messages.upkeep
        told = await published_until_full(store.publisher("work", "work.a", "in"))
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
        assert len(ids) == told
        small.fill()
        clock.advance(by_ms=5000)
        await store.admission.scan_disk()
        assert (store.admission.disk.reached is None) == bool(limit)
        for at in range(0, told, 50):
            await store.acknowledge(("work", "work.a"), ids[at : at + 50])
        await upkeep.tidy()
        clock.advance(by_ms=5000)
        await store.admission.scan_disk()
        await upkeep.tidy()
        await store.admission.scan_disk()
        assert store.admission.disk.reached is None
        assert small.usable_bytes() > 3_000_000
        with trio.fail_after(60):
            await store.publish("work", "work.a", [WholeFile(b"y" * 2_000_000)])
        assert len(lines_of(store, "work.a")) == 1


async def test_a_journal_is_compacted_in_what_its_free_files_leave(small_store: MakeStore) -> None:
    small = small_store()
    with closing(small.open()) as store:
        told = await published_until_full(store.publisher("work", "work.a", "in"))
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
        for at in range(0, told - 10, 10):
            await store.acknowledge(("work", "work.a"), ids[at : at + 10])
        await store.journals.messages.upkeep.tidy()
        small.fill()
        messages, bindings = await compact_store(store)
        assert messages.files_after < messages.files_before
        assert bindings.files_after > 0
        assert len(lines_of(store, "work.a")) == told - len(range(0, told - 10, 10)) * 10


@pytest.mark.rule("S-70")
@pytest.mark.parametrize("name", ["in.txt", "in.bin"])
async def test_what_was_flushed_is_kept_where_its_last_close_finds_no_room(
    small_store: MakeStore, name: str
) -> None:
    small = small_store()
    content = b"not published " * 400
    with closing(small.open()) as store:
        publisher, late = (store.publisher("work", "work.a", name) for _ in range(2))
        await publisher.write(content)
        await publisher.flush()
        await published_until_full(store.publisher("work", "work.a", "in"))
        await late.write(b"x" * 90_000)
        small.fill()
        with pytest.raises(SystemFailure, match="cannot keep the flushed content"):
            await late.flush()
        late.abandon()
        with pytest.raises(NoSpace):
            await publisher.finish()
        (aside,) = (small.root / "journalfs" / "unpublished").iterdir()
        (said,) = (str(one["message"]) for one in store.core.events if one["event"] == "kept")
        assert said.startswith(f"work/work.a/{name}: not published")
        assert said.endswith(f"the content is in {aside}")
        assert aside.read_bytes() == content
    (small.disk / "filler").unlink()
    with closing(small.open()) as store:
        assert store.left_unpublished() == []


@pytest.mark.rule("S-132")
async def test_a_snapshot_that_finds_no_room_leaves_nothing(small_store: MakeStore) -> None:
    small = small_store(file_bytes=65536)
    with closing(small.open()) as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"one\n")
        await store.journals.messages.upkeep.tidy()
        filler = small.fill()
        with pytest.raises(SystemFailure) as failed:
            await store.snapshots.create("x")
        assert failed.value.system_errno == errno.ENOSPC
        assert not list((small.root / SNAPSHOTS).iterdir())
        filler.unlink()
        await store.snapshots.create("x")
        await publisher.write(b"two\n")
        snapshot = store.snapshots.named("x")
        assert snapshot is not None
        then = await snapshot.opened()
        assert len(lines_of(then, "work.a")) == 1  # type: ignore[arg-type]
        assert len(lines_of(store, "work.a")) == 2


async def filled_with_small_messages(small: SmallStore, store: WritingStore) -> list[MessageId]:
    """Ids of what was published until the disk was full: hundreds of messages in each file. The store does
    no work of its own meanwhile.
    """
    publisher = store.publisher("work", "work.a", "in")
    with contextlib.suppress(NoSpace):
        while True:
            await publisher.write(b"".join(b"%d %s\n" % (number, b"x" * 100) for number in range(100)))
    small.fill()
    return [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", ONE_IS_QUICK)
async def test_messages_are_consumed_one_by_one_from_a_full_disk(
    small_store: MakeStore, backend: str
) -> None:
    """What takes one away fills no block of its own: else it would take more room than the message had."""
    small = small_store(backend, file_bytes=131_072)
    with closing(small.open()) as store:
        ids = await filled_with_small_messages(small, store)
        journal = store.journals.messages
        consumed = 0
        while journal.upkeep.files_freed < 3:
            await store.acknowledge(("work", "work.a"), [ids[consumed]])
            consumed += 1
            await tidied(store)
        assert consumed > 3 * 131_072 // 4096, "more than there are blocks in what was freed"
        assert len(lines_of(store, "work.a")) == len(ids) - consumed
    found = load(small.root, small.clock.now_ms())["queues"]
    (left,) = [queue["messages"] for queue in found if queue["name"] == "work.a"]
    assert len(left) == len(ids) - consumed


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_cannot_leave_at_once_takes_no_room_from_what_can(
    small_store: MakeStore, backend: str
) -> None:
    small = small_store(backend, file_bytes=131_072)
    with closing(small.open()) as store:
        ids = await filled_with_small_messages(small, store)
        with pytest.raises(NoSpace, match="are needed at once"):
            await store.acknowledge_part(("work", "work.a"), ".all.jsonl")
        with pytest.raises(NoSpace, match="are needed at once"):
            await store.move_part(("work", "work.a"), ".all.jsonl", ("work", "work.b"))
        assert len(lines_of(store, "work.a")) == len(ids)
        for at in range(0, len(ids), 200):
            await store.acknowledge(("work", "work.a"), ids[at : at + 200])
            await tidied(store)
        assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-103")
async def test_all_that_is_consumed_at_once_is_room_for_who_waits(small_store: MakeStore) -> None:
    """Also where what says so is in the last file."""
    small = small_store(file_bytes=131_072, limit="")
    clock = small.clock
    with closing(small.open()) as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (number, b"x" * 1000) for number in range(290)))
        (small.disk / "other").write_bytes(bytes(small.usable_bytes() - 600_000))
        clock.advance(by_ms=5000)
        await store.admission.scan_disk()
        assert store.admission.disk.reached is not None
        await store.acknowledge_part(("work", "work.a"), ".all.jsonl")
        await tidied(store)
        assert store.journals.messages.upkeep.files_freed > 0
        clock.advance(by_ms=5000)
        await store.admission.scan_disk()
        assert store.admission.disk.reached is None
        with trio.fail_after(60):
            await publisher.write(b"there is room again\n")
        assert len(lines_of(store, "work.a")) == 1


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_last_file_is_left_to_what_makes_room(small_store: MakeStore, backend: str) -> None:
    """Also when a removal that sets no file free has begun it."""
    small = small_store(backend, file_bytes=131_072)
    with closing(small.open()) as store:
        ids = await filled_with_small_messages(small, store)
        journal = store.journals.messages
        at = 0
        while journal.pool.free:
            await store.acknowledge(("work", "work.a"), [ids.pop(at)])
            at = (at + 100) % len(ids)
        await tidied(store)
        for _ in range(3):
            with pytest.raises(NoSpace):
                await store.publisher("work", "work.a", "in").write(b"more\n")
        for at in range(0, len(ids), 50):
            await store.acknowledge(("work", "work.a"), ids[at : at + 50])
            await tidied(store)
        assert lines_of(store, "work.a") == []
        await store.publisher("work", "work.a", "in").write(b"there is room again\n")


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_nobody_outruns_the_room_that_consuming_makes(small_store: MakeStore, backend: str) -> None:
    """Nothing but what they do looks at what can be set free here."""
    small = small_store(backend, file_bytes=131_072)
    with closing(small.open()) as store:
        ids = await filled_with_small_messages(small, store)
        for at in range(0, len(ids), 50):
            await store.acknowledge(("work", "work.a"), ids[at : at + 50])
        await store.publisher("work", "work.a", "in").write(b"there is room again\n")
        assert [json.loads(line)["body"] for line in lines_of(store, "work.a")] == ["there is room again"]


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_compaction_leaves_the_last_file_to_what_makes_room(
    small_store: MakeStore, backend: str
) -> None:
    """It would find no room for what it writes, and publishers would fill that file meanwhile."""
    small = small_store(backend, file_bytes=131_072)
    with closing(small.open()) as store:
        journal = store.journals.messages
        await tidied(store)
        assert journal.pool.free
        small.fill()
        while journal.pool.free:
            await store.publisher("work", "work.a", "in").write(b"one in each file\n")
            journal.switch()
            await tidied(store)
        assert journal.ready_file is not None
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
        current = journal.current
        with pytest.raises(NoSpace):
            await journal.upkeep.compact()
        assert journal.current is current
        assert await store.acknowledge(("work", "work.a"), ids[:1]) == 1


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_is_left_of_the_room_that_is_held_back(
    little_store: LittleStore, small_store: MakeStore, backend: str
) -> None:
    """The store is read all the same, and takes changes as soon as there is room."""
    journal = little_store.journal
    for number in (1001, 1002):
        journal.send(number, QUEUE_A)
    acknowledgement = record_bodies.acknowledgement(QueueId(QUEUE_A))
    journal.append(record(UPDATE, 1, record_id=1001, user_type=ACK, body=acknowledgement))
    left = journal.path.stat().st_size - journal.at - len(record(ADD, 1, record_id=1003, body=b""))
    duplicate_id = record_bodies.duplicate_id("work", b"").ljust(left, b"d")
    journal.append(record(ADD, 1, record_id=1003, user_type=MessageType.DUPLICATE_ID, body=duplicate_id))
    small = small_store(backend)
    filler = small.disk / "filler"
    filler.write_bytes(b"x" * (small.usable_bytes() - 65536))  # there is room for the lock, not for a file
    async with small.running() as store:
        (line,) = lines_of(store, "work.a")
        ids = [MessageId(json.loads(line)["id"])]
        with pytest.raises(NoSpace):
            await store.acknowledge(("work", "work.a"), ids)
        assert "delete-postponed" in [event["event"] for event in store.core.events]
        filler.unlink()
        assert await store.acknowledge(("work", "work.a"), ids) == 1


async def all_but_one_consumed(small: SmallStore, store: WritingStore, *, left_bytes: int) -> None:
    """A message of the first file is kept, and with it all others: each holds the end of a transaction that
    began in the one before. The last file there is has been begun.
    """
    await store.publisher("work", "work.b", "in").write(b"kept\n")
    publisher = store.publisher("work", "work.a", "in")
    with contextlib.suppress(NoSpace):
        while True:
            await publisher.write(b"".join(b"%d %s\n" % (number, b"x" * 1000) for number in range(70)))
    publisher.abandon()
    journal = store.journals.messages
    async with no_upkeep(store):
        (small.disk / "filler").write_bytes(bytes(small.usable_bytes() - left_bytes))
    ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
    for at in range(0, len(ids), 500):
        await store.acknowledge(("work", "work.a"), ids[at : at + 500])
    await journal.durable(journal.position)
    assert lines_of(store, "work.a") == []


def bodies_of(small: SmallStore, name: str) -> list[str]:
    """As another reader finds them."""
    found = load(small.root, small.clock.now_ms())["queues"]
    (messages,) = [queue["messages"] for queue in found if queue["name"] == name]
    return [message["body"] for message in messages]


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("running", [False, True])
async def test_one_message_that_stays_does_not_keep_the_room_of_all(
    small_store: MakeStore, backend: str, running: bool
) -> None:
    """What lives is rewritten into what is left of the disk, since there is no other file to go on in."""
    small = small_store(backend)
    async with contextlib.AsyncExitStack() as stack:
        if running:
            store = await stack.enter_async_context(small.running())
        else:
            store = stack.enter_context(closing(small.open()))
        await all_but_one_consumed(small, store, left_bytes=200_000)
        for number in range(20):
            await store.publisher("work", "work.a", "in").write(b"%d %s\n" % (number, b"x" * 20_000))
        assert store.journals.messages.upkeep.compactions > 0
        assert len(lines_of(store, "work.a")) == 20
        assert len(lines_of(store, "work.b")) == 1
        assert not store.core.damage()
    assert len(bodies_of(small, "work.a")) == 20
    assert bodies_of(small, "work.b") == ["kept"]


@pytest.mark.rule("S-103")
@pytest.mark.parametrize("way", ["at once", "opened", "compacted"])
async def test_less_than_a_journal_file_is_room_enough(small_store: MakeStore, way: str) -> None:
    """For the store that goes on, for one that is opened, and for `journalfs compact`."""
    small = small_store()
    filler = small.disk / "filler"
    with closing(small.open()) as store:
        await all_but_one_consumed(small, store, left_bytes=0)
        with pytest.raises(NoSpace):
            await store.publisher("work", "work.a", "in").write(b"too early\n")
        with pytest.raises(NoSpace):
            await compact_store(store)
        os.truncate(filler, filler.stat().st_size - 300_000)
        if way == "at once":
            await store.publisher("work", "work.a", "in").write(b"there is room again\n")
    if way == "opened":
        async with small.running() as store:
            await store.publisher("work", "work.a", "in").write(b"there is room again\n")
    elif way == "compacted":
        with closing(small.open()) as store:
            messages, _ = await compact_store(store)
            assert messages.with_records_after < messages.with_records_before
            await store.publisher("work", "work.a", "in").write(b"there is room again\n")
    assert bodies_of(small, "work.a") == ["there is room again"]
    assert bodies_of(small, "work.b") == ["kept"]
