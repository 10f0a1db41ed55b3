"""Removed messages: kept as long as nobody needs their room, read as a store, and brought back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from journalfs.api import REMOVER
from journalfs.broker.consume.removals import TOGETHER_MS
from journalfs.errors import JournalfsError, NameTaken
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.differential.encode_messages import page_record, text_message
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import (
    DISK_BYTES,
    SmallStore,
    Writable,
    bodies_of,
    ids_of,
    lines_of,
    on_disk,
)

A, B = ("work", "work.a"), ("work", "work.b")


@pytest.fixture
def writable(little_store: LittleStore) -> Writable:
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    return Writable(little_store, "NIO")


async def publish(store: WritingStore, name: str, content: bytes, queue: str | None = "work.a") -> None:
    await publish_file(store, "work", queue, name, content)


def told(store: WritingStore, event: str) -> list[str]:
    return [str(one["message"]) for one in store.core.events if one["event"] == event]


async def shown(store: WritingStore, queue: str = "work.a") -> list[dict[str, Any]]:
    """What is shown as removed from a queue."""
    removed = await store.keeping.opened()
    address = removed.address("work")
    found = None if address is None else address.queue(queue)
    if found is None:
        return []
    source = found.open_all()
    return [json.loads(line) for line in bytes(source.read(0, source.size_bytes)).splitlines()]


async def undo_last(store: WritingStore) -> dict[tuple[str, str], int]:
    return dict((await store.keeping.undo(store.keeping.removals.last)).back)


@pytest.mark.rule("S-193")
async def test_what_was_removed_comes_back_as_it_was(writable: Writable) -> None:
    rich = {"type": "text", "body": "rich", "priority": 8, "properties": {"color": "red", "n": 5}}
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.txt", b"one\ntwo\nthree\n")
        await publish(store, "in.jsonl", json.dumps(rich).encode() + b"\n")
        before = [json.loads(line) for line in lines_of(store, "work.a")]
        assert await store.acknowledge_part(A, ".all.jsonl") == len(before)
        assert bodies_of(store) == []
        assert await shown(store) == before
        assert await undo_last(store) == {A: len(before)}
        after = [json.loads(line) for line in lines_of(store, "work.a")]
        assert [one | {"id": 0} for one in after] == [one | {"id": 0} for one in before]
        assert {one["id"] for one in after}.isdisjoint(one["id"] for one in before), "they are new records"
        assert await shown(store) == []
        assert await undo_last(store) == {}, "twice undone is undone once"
        assert len(told(store, "brought-back")) == 1
    there = sorted(one["body"] for one in on_disk(writable, "work.a"))
    assert there == sorted(one["body"] for one in before)
    assert not (writable.root / "journalfs" / "removed").exists()


@pytest.mark.rule("S-192")
async def test_the_newest_removal_is_shown_first_with_its_time(writable: Writable) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.txt", b"one\ntwo\nthree\n")
        ids = ids_of(store)[-3:]
        for message_id in (ids[1], ids[0]):
            writable.clock.advance(by_ms=1000)
            await store.acknowledge(A, [message_id])
        assert [one["body"] for one in await shown(store)] == ["one", "two"]
        queue = (await store.keeping.opened()).queues()[0]
        listing = queue.listing()
        now_ms = writable.clock.now_ms()
        assert [listing.mtime_ns(at) // 1_000_000 for at in range(2)] == [now_ms, now_ms - 1000]
        first = queue.message(listing.message_id(0))
        assert first is not None
        assert first.mtime_ns == now_ms * 1_000_000
        assert first.attributes()["user.journalfs.removedTime"] == str(now_ms).encode()


@pytest.mark.rule("S-194")
async def test_a_command_is_a_process_group_without_a_pause(writable: Writable) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.txt", b"1\n2\n3\n4\n5\n")
        ids = ids_of(store)[-5:]

        async def remove(at: int, group: int) -> None:
            REMOVER.set(group)
            await store.acknowledge(A, [ids[at]])

        await remove(0, 7)
        writable.clock.advance(by_ms=TOGETHER_MS + 1)
        await remove(1, 7)
        await remove(2, 8)
        writable.clock.advance(by_ms=TOGETHER_MS - 1)
        await remove(3, 7)
        commands = store.keeping.status()["commands"]
        assert [one["queues"] for one in commands] == [  # type: ignore[attr-defined]
            {"work::work.a": 2},
            {"work::work.a": 1},
            {"work::work.a": 1},
        ]
        assert await undo_last(store) == {A: 2}
        assert bodies_of(store)[-3:] == ["5", "2", "4"]
        assert await undo_last(store) == {A: 1}
        since = await store.keeping.undo(lambda: store.keeping.removals.since(0))
        assert since.back == {A: 1}
        assert sorted(bodies_of(store)[-5:]) == ["1", "2", "3", "4", "5"]


@pytest.mark.rule("S-194")
async def test_a_stream_is_one_command_and_over_when_it_is_closed(writable: Writable) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.txt", b"one\ntwo\nthree\n")
        had = bodies_of(store)
        consumer = store.consumer(A)
        for _ in had[:2]:
            delivery = await consumer.next()
            assert delivery is not None
            await delivery.acknowledge()
            writable.clock.advance(by_ms=2 * TOGETHER_MS)
        assert await undo_last(store) == {}, "who reads goes on"
        await consumer.close()
        assert await undo_last(store) == {A: len(had[:2])}
        assert sorted(bodies_of(store)) == sorted(had)


@pytest.mark.rule("S-193")
async def test_a_queue_that_is_gone_is_made_again_with_its_settings(writable: Writable) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await store.create_address("other")
        await store.create_queue("other", "ring")
        await store.set_attribute("other", "ring", "user.journalfs.ring-size", b"5")
        await publish_file(store, "other", None, "x.txt", b"1\n2\n3\n")
        await store.acknowledge_part(("other", "ring"), ".all.jsonl")
        await store.delete_queue("other", "ring")
        await store.delete_address("other")
        writable.clock.advance(by_ms=3_600_000)
        assert await undo_last(store) == {("other", "ring"): 3}
        assert bodies_of(store, "ring", "other") == ["1", "2", "3"]
        address = store.address("other")
        assert address is not None
        queue = address.queue("ring")
        assert queue is not None
        assert queue.attributes()["user.journalfs.ring-size"] == b"5"


@pytest.mark.rule("S-193")
async def test_one_message_goes_to_any_queue(writable: Writable) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.txt", b"one\ntwo\n")
        ids = ids_of(store)[-2:]
        await store.acknowledge(A, ids)
        assert await store.keeping.move(A, [ids[1]], B) == 1
        assert await store.keeping.move(A, [ids[1]], B) == 0
        assert bodies_of(store, "work.b")[-1] == "two"
        assert [one["body"] for one in await shown(store)] == ["one"]
        assert await undo_last(store) == {A: 1}


@pytest.mark.rule("S-193")
async def test_large_bodies_come_back(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write("min-large-message-size = 4096\n")
    text = "large " * 40_000
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.jsonl", json.dumps({"type": "text", "body": text}).encode() + b"\n")
        (large,) = (writable.root / "large-messages").iterdir()
        await store.acknowledge(A, ids_of(store)[-1:])
        with trio.fail_after(10):
            while large.exists():
                await publish(store, "in.txt", b"more\n", "work.b")  # what is deleted is durable with it
        assert (await shown(store))[-1]["body"] == text
        assert await undo_last(store) == {A: 1}
        assert bodies_of(store)[-1] == text
    assert len(on_disk(writable, "work.a")) == 1


@pytest.mark.rule("S-195")
async def test_what_is_gone_is_counted_and_the_rest_comes_back(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write("min-large-message-size = 4096\n")
    async with writable.open() as store:
        keeping = store.keep_removed()
        await publish(store, "in.txt", b"l" * 9000 + b"\nsmall\n")
        (large,) = (writable.root / "large-messages").iterdir()
        await store.acknowledge(A, ids_of(store)[-2:])
        for body in (large, *(file.path for file in store.parts.bodies.aside.files())):
            body.unlink(missing_ok=True)
        assert (await keeping.undo_last(plans=True)) == ({A: 1}, 1)
        assert (await keeping.undo_last()) == ({A: 1}, 1)
        assert bodies_of(store)[-1] == "small"
        assert "1 are gone" in told(store, "brought-back")[0]


@pytest.mark.rule("S-193")
async def test_an_address_that_a_message_was_sent_to_stays(writable: Writable) -> None:
    """Queues of wildcard addresses hold messages of others, by which subscribers know their topics."""
    topic = text_message(2001, "of a topic", address="work.eu")
    write_page(writable.little, 1, [page_record(-1, 0, topic, (QUEUE_A, QUEUE_B))])
    async with writable.open() as store:
        store.keep_removed()
        before = [json.loads(line) for line in lines_of(store, "work.a")]
        assert before[-1]["address"] == "work.eu"
        for _ in range(2):  # out of a page, and out of the journal
            await store.acknowledge_part(A, ".all.jsonl")
            await undo_last(store)
            after = [json.loads(line) for line in lines_of(store, "work.a")]
            assert [one | {"id": 0} for one in after] == [one | {"id": 0} for one in before]


@pytest.mark.rule("S-193")
@pytest.mark.parametrize(("setting", "value"), [("last-value", b"true"), ("ring-size", b"1")])
async def test_what_leaves_for_what_comes_back_can_come_back_too(
    writable: Writable, setting: str, value: bytes
) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await store.acknowledge_part(A, ".all.jsonl")
        await store.set_attribute("work", "work.a", f"user.journalfs.{setting}", value)
        line = {"type": "text", "properties": {"_AMQ_LVQ_NAME": "EUR"}}
        for body in ("old", "new"):
            writable.clock.advance(by_ms=2 * TOGETHER_MS)
            await publish(store, "in.jsonl", json.dumps({**line, "body": body}).encode() + b"\n")
            if body == "old":
                await store.acknowledge_part(A, ".all.jsonl")
        for there in ("old", "new", "old"):
            writable.clock.advance(by_ms=2 * TOGETHER_MS)
            assert await undo_last(store) == {A: 1}
            assert bodies_of(store) == [there]


@pytest.mark.rule("S-193")
async def test_a_queue_whose_name_another_address_has_is_named(writable: Writable) -> None:
    async with writable.open() as store:
        store.keep_removed()
        await publish(store, "in.txt", b"one\n")
        await store.acknowledge_part(A, ".all.jsonl")
        await store.delete_queue("work", "work.a")
        await store.create_address("other")
        await store.create_queue("other", "work.a")
        with pytest.raises(NameTaken, match="bound to other"):
            await undo_last(store)
        await store.delete_queue("other", "work.a")
        assert await undo_last(store)
        assert bodies_of(store)[-1] == "one"


@pytest.mark.rule("S-193")
async def test_what_was_in_pages_comes_back_when_they_are_gone(writable: Writable) -> None:
    for number in (1, 2):
        write_page(writable.little, number, [small(2000 + number, queues=(QUEUE_A, QUEUE_B))])
    async with writable.open() as store:
        store.keep_removed()
        before = bodies_of(store)
        for path in (A, B):
            await store.acknowledge_part(path, ".all.jsonl")
        (folder,) = (writable.root / "paging").iterdir()
        with trio.fail_after(10):
            while any(page.name == "000000001.page" for page in folder.iterdir()):
                await trio.to_thread.run_sync(lambda: None)
        back = await undo_last(store)
        assert back[A] == len(before)
        assert sorted(bodies_of(store)) == sorted(before)


@pytest.mark.rule("S-193")
async def test_of_what_cannot_come_back_whole_nothing_does(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writable.open() as store:
        store.keep_removed()
        for queue in ("work.a", "work.b"):
            await publish(store, "in.txt", b"one\ntwo\n", queue)
        had = {path: bodies_of(store, path[1]) for path in (A, B)}
        for path in had:
            await store.acknowledge_part(path, ".all.jsonl")

        def fails(*_: object) -> None:
            raise JournalfsError("as on a full disk")

        with monkeypatch.context() as patched:
            patched.setattr(type(store.journals.messages), "stage_commit", fails)
            with pytest.raises(JournalfsError):
                await undo_last(store)
        assert bodies_of(store) == bodies_of(store, "work.b") == []
        assert await undo_last(store) == {path: len(bodies) for path, bodies in had.items()}
        assert {path: bodies_of(store, path[1]) for path in had} == had


# ---- what is kept ------------------------------------------------------------------------------------------


def journal_files(root: Path) -> list[str]:
    return sorted(one.name for one in (root / "journal").glob("*.amq"))


async def fill_and_remove(store: WritingStore, rounds: int) -> None:
    """So that journal files become free."""
    for _ in range(rounds):
        await publish(store, "in.txt", (b"x" * 999 + b"\n") * 300)
        await store.acknowledge_part(A, ".all.jsonl")


@pytest.mark.rule("S-195")
async def test_files_are_used_again_when_their_time_is_over(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write("journal-file-size = 262144\nremoved-keep-s = 60\n")
    async with writable.open(attended=False) as store:
        keeping = store.keep_removed()
        await fill_and_remove(store, 8)
        await store.journals.messages.upkeep.reclaim()
        await keeping.look()
        assert keeping.held_bytes >= 4 * 262144
        assert len(await shown(store)) >= 2400
        writable.clock.advance(by_ms=60_000)
        await keeping.look()
        assert keeping.held_bytes == 0
        assert len(keeping.removals) >= 2400, "nobody has used the files yet"
        files = journal_files(writable.root)
        await fill_and_remove(store, 2)
        assert len(journal_files(writable.root)) <= len(files) + 1, "no others are made"
    async with writable.open() as store:
        assert bodies_of(store) == []


@pytest.mark.rule("S-195")
async def test_no_more_is_kept_than_settings_say(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write("journal-file-size = 262144\nremoved-keep-bytes = 600000\n")
    async with writable.open(attended=False) as store:
        keeping = store.keep_removed()
        for _ in range(6):
            await fill_and_remove(store, 2)
            await store.journals.messages.upkeep.reclaim()
            await keeping.look()
            assert keeping.held_bytes <= 600_000
        assert len(told(store, "removed-let-go")) == 1
        assert len(journal_files(writable.root)) <= 12, "of 262,144 bytes each, for 3.6 MB that were written"
        assert [one["body"] for one in await shown(store)][:1] == ["x" * 999]


@pytest.mark.rule("S-195")
async def test_a_full_disk_takes_what_is_kept(small_store: Any) -> None:
    made: SmallStore = small_store(file_bytes=262_144)
    async with made.running() as store:
        store.keep_removed()
        for _ in range(200):
            await publish(store, "in.txt", (b"x" * 999 + b"\n") * 60)
            await store.acknowledge_part(A, ".all.jsonl")
            await store.journals.messages.upkeep.reclaim()
        await store.keeping.look()
        assert store.keeping.held_bytes < DISK_BYTES / 3


@pytest.mark.rule("S-195")
async def test_nothing_is_kept_where_settings_say_so(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write("removed-keep-s = 0\n")
    async with writable.open() as store:
        store.keep_removed()
        await store.acknowledge_part(A, ".all.jsonl")
        assert await shown(store) == []
        assert await undo_last(store) == {}


async def test_compaction_leaves_what_is_kept(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write("journal-file-size = 262144\n")
    async with writable.open(attended=False) as store:
        keeping = store.keep_removed()
        await publish(store, "in.txt", (b"x" * 999 + b"\n") * 900)
        keep = ids_of(store)[::50]
        await store.acknowledge(A, [MessageId(one) for one in ids_of(store) if one not in keep])
        removed = len(keeping.removals)
        await store.journals.messages.upkeep.compact()
        await keeping.look()
        assert len(await shown(store)) == removed
        assert await undo_last(store) == {A: removed}
        assert len(bodies_of(store)) == removed + len(keep)
