"""Publishing to an address that pages, and what becomes of its pages as they are consumed."""

from __future__ import annotations

import gc
import json
import struct
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.change import paging as paging_module
from journalfs.errors import SystemFailure
from journalfs.format.record_types import MessageType
from journalfs.pages.writer import PageWriter, Pile
from journalfs.records.files.loader import PollResult
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.differential.encode import record
from tests.paging.test_writer import files_end_at
from tests.reference.pages import Page, address_pages
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, bodies_of, ids_of, lines_of, queue_of
from tests.store.writing.test_delivering import drained

PAGE_BYTES = 4096
BOTH = (QUEUE_A, QUEUE_B)
XID = struct.pack(">i", 1) + struct.pack(">i", 1) + b"b" + struct.pack(">i", 1) + b"g"


@pytest.fixture
def paging(writable: Writable) -> Writable:
    """The address `work` pages: one old message for both queues lies in its first page."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write(f'[address-settings."work"]\npage-size-bytes = {PAGE_BYTES}\n')
    write_page(writable.little, 1, [small(2000, queues=BOTH)])
    return writable


def pages_of(root: Path) -> list[Page]:
    """As another reader finds them."""
    (folder,) = (root / "paging").iterdir()
    found = address_pages(folder)
    assert found is not None
    assert found[0] == "work"
    assert all(page.damaged_at is None for page in found[1])
    return found[1]


def side(store: WritingStore, kind: MessageType) -> list[tuple[int, int, int]]:
    return [(one.a, one.b, one.c) for one in store.core.loader.state.side(kind)]


async def publish(store: WritingStore, name: str, content: bytes, queue: str | None = None) -> None:
    await publish_file(store, "work", queue, name, content)


@pytest.mark.rule("S-110")
async def test_one_copy_for_all_queues(paging: Writable) -> None:
    async with paging.open() as store:
        await publish(store, "in.txt", b"one\n")
        await publish(store, "in.txt", b"two\nthree\n")
        for queue in ("work.a", "work.b"):
            assert bodies_of(store, queue) == ["paged 2000", "one", "two", "three"]
            status = queue_of(store, queue).status()
            assert (status["pagedCount"], status["messageCount"]) == (4, 4)
        assert store.core.loader.state.counts().messages == 0, "nothing in the journal"
        ((tx, left, _),) = side(store, MessageType.PAGE_TRANSACTION)
        assert left == 4, "two messages for two queues"
    (page,) = pages_of(paging.root)
    assert [entry.tx_id for entry in page.entries] == [-1, -1, tx, tx]
    assert all(entry.queue_ids == BOTH for entry in page.entries)


@pytest.mark.rule("S-112")
async def test_what_is_consumed_in_all_queues_goes_with_its_pages(paging: Writable) -> None:
    async with paging.open() as store:
        for number in range(10):
            await publish(
                store,
                "in.txt",
                b"".join(b"%04d %s\n" % (n, b"x" * 200) for n in range(number * 4, number * 4 + 4)),
            )
        assert len(pages_of(paging.root)) > 5
        first = ids_of(store, "work.a")
        assert await store.acknowledge(("work", "work.a"), first[:20]) == 20
        pages = [page.number for page in pages_of(paging.root)]
        assert pages[0] == 1, "the other queue still needs it"
        complete = side(store, MessageType.PAGE_COMPLETE)
        assert complete
        assert {queue for queue, _, _ in complete} == {QUEUE_A}
        done = {page for _, page, _ in complete}
        assert not [one for one in side(store, MessageType.ACKNOWLEDGE_CURSOR) if one[1] in done]
        assert await store.acknowledge(("work", "work.b"), first[:20]) == 20
        left = [page.number for page in pages_of(paging.root)]
        assert left == [number for number in pages if number not in done]
        assert ids_of(store, "work.a") == ids_of(store, "work.b") == first[20:]
    async with paging.open() as store:
        assert ids_of(store, "work.a") == ids_of(store, "work.b") == first[20:]


async def test_a_moved_message_is_in_one_queue_when_the_journal_is_read_anew(
    paging: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the journal says of pages is taken over with the rest of it."""
    with closing(open_for_writing(paging.root, clock=paging.clock, index=False)) as store:
        await store.create_address("aside")
        await store.create_queue("aside", "aside")
        found: list[PollResult] = []
        monkeypatch.setattr(store, "_advance", lambda: found.pop() if found else PollResult.UNCHANGED)
        assert await store.move_part(("work", "work.a"), ".all.jsonl", ("aside", "aside")) == 1
        assert bodies_of(store, "work.a") == ["paged 2000"], "nobody looked yet"
        found.append(PollResult.REWRITTEN)  # as while it is compacted
        store.take_over()
        moved = [json.loads(line)["body"] for line in lines_of(store, "aside", "aside")]
        assert (bodies_of(store, "work.a"), moved) == ([], ["paged 2000"])
        assert bodies_of(store, "work.b") == ["paged 2000"]


@pytest.mark.rule("S-110", "S-112")
async def test_the_address_leaves_when_all_is_consumed(paging: Writable) -> None:
    async with paging.open() as store:
        await publish(store, "in.txt", b"one\ntwo\n")
        address = store.address("work")
        assert address is not None
        for queue in ("work.a", "work.b"):
            assert address.status()["paging"] is True
            assert await store.acknowledge(("work", queue), ids_of(store, queue)) == 3
        assert address.status()["paging"] is False
        (page,) = pages_of(paging.root)
        assert (page.number, page.entries) == (2, [])
        assert sorted(side(store, MessageType.ACKNOWLEDGE_CURSOR)) == [(QUEUE_A, 2, -1), (QUEUE_B, 2, -1)]
        await store.published()
        await publish(store, "in.txt", b"three\n")
        assert bodies_of(store, "work.a") == ["three"]
        assert store.core.loader.state.counts().messages == 1, "in the journal again"
        assert side(store, MessageType.PAGE_COMPLETE) == []
        assert side(store, MessageType.PAGE_TRANSACTION) == []
    (page,) = pages_of(paging.root)
    assert page.entries == []


# ---- from the limit on ----


@pytest.fixture
def limited(writable: Writable) -> Writable:
    """Two messages in the journal make the address page."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write(f'[address-settings."work"]\nmax-size-messages = 2\npage-size-bytes = {PAGE_BYTES}\n')
    return writable


@pytest.mark.rule("S-110")
async def test_a_full_address_begins_to_page(limited: Writable) -> None:
    async with limited.open() as store:
        for text in (b"1\n", b"2\n", b"3\n", b"4\n5\n"):
            await publish(store, "in.txt", text)
        assert bodies_of(store, "work.a") == ["1", "2", "3", "4", "5"]
        assert store.core.loader.state.counts().messages == 2
        assert [len(page.entries) for page in pages_of(limited.root)] == [3]
        ids = ids_of(store, "work.a")
        for queue in ("work.a", "work.b"):
            assert await store.acknowledge(("work", queue), ids[:2]) == 2
        await publish(store, "in.txt", b"6\n")
        assert bodies_of(store, "work.a") == ["3", "4", "5", "6"]
        assert store.core.loader.state.counts().messages == 0, "it pages until its pages are consumed"
    async with limited.open() as store:
        await publish(store, "in.txt", b"7\n")
        assert bodies_of(store, "work.b") == ["3", "4", "5", "6", "7"]
        for queue in ("work.a", "work.b"):
            assert await store.acknowledge(("work", queue), ids_of(store, queue)) == 5
        await publish(store, "in.txt", b"8\n")
        assert store.core.loader.state.counts().messages == 1
        assert bodies_of(store, "work.b") == ["8"]


async def test_an_address_that_always_pages(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\nmax-size-messages = 0\n')
    async with writable.open() as store:
        for round_ in range(3):
            await publish(store, "in.txt", b"%d\n" % round_, "work.a")
            assert bodies_of(store, "work.a") == [str(round_)]
            assert await store.acknowledge(("work", "work.a"), ids_of(store, "work.a")) == 1
        assert store.core.loader.state.counts().messages == 0
    (page,) = pages_of(writable.root)
    assert (page.number, page.entries) == (4, [])


@pytest.mark.rule("S-112")
async def test_bodies_of_large_messages_go_with_their_page(paging: Writable) -> None:
    content = bytes(range(256)) * 600
    async with paging.open() as store:
        large = paging.root / "large-messages"
        await publish(store, "in.bin", content)
        (body,) = large.iterdir()
        message = queue_of(store, "work.a").message(ids_of(store, "work.a")[1])
        assert message is not None
        source = message.open()
        assert bytes(source.read(0, source.size_bytes)) == content
        for queue in ("work.a", "work.b"):
            assert body.exists()
            assert await store.acknowledge(("work", queue), ids_of(store, queue)) == 2
        assert list(large.iterdir()) == []
        assert bytes(source.read(0, source.size_bytes)) == content, "an open file keeps what it had"


async def test_a_duplicate_is_published_once(paging: Writable) -> None:
    line = json.dumps({"body": "x", "properties": {"_AMQ_DUPL_ID": "one"}}).encode() + b"\n"
    async with paging.open() as store:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(publish, store, "in.jsonl", line)
        assert bodies_of(store, "work.a") == ["paged 2000", "x"]
    async with paging.open() as store:
        await publish(store, "in.jsonl", line)
        assert bodies_of(store, "work.a") == ["paged 2000", "x"]


@pytest.mark.rule("S-113")
async def test_nothing_is_appended_behind_what_is_damaged(paging: Writable) -> None:
    (path,) = (paging.root / "paging").rglob("*.page")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    async with paging.open() as store:
        (path,) = (paging.root / "paging").rglob(path.name)
        await publish(store, "in.txt", b"one\n")
        assert bodies_of(store, "work.a") == ["paged 2000", "one"]
        assert path.read_bytes() == whole + whole[:50]
        for queue in ("work.a", "work.b"):
            assert await store.acknowledge(("work", queue), ids_of(store, queue)) == 2
        assert not path.exists()
        assert path.with_name(path.name + ".invalidPage").read_bytes() == whole + whole[:50]


async def test_a_page_that_a_queue_is_done_with_takes_no_more(paging: Writable) -> None:
    body = struct.pack(">qqi", QUEUE_A, 1, 1)
    paging.little.journal.append(record(11, 1, record_id=80, user_type=42, body=body))
    async with paging.open() as store:
        await publish(store, "in.txt", b"one\n")
        assert bodies_of(store, "work.a") == ["one"]
        assert bodies_of(store, "work.b") == ["paged 2000", "one"]
        assert [page.number for page in pages_of(paging.root)] == [1, 2]


def prepare_two(little: LittleStore, *, consumes_in: int, sends: int) -> None:
    """One prepared transaction consumes the first message of page 1 in a queue, and one, 70, sends."""
    consumed = struct.pack(">qqi", consumes_in, 1, 0)
    little.journal.append(
        record(13, 1, tx_id=60, record_id=61, user_type=39, body=consumed),
        record(17, 1, tx_id=60, count=1, body=XID),
        record(13, 1, tx_id=70, record_id=71, user_type=35, body=struct.pack(">qi", 70, sends)),
        record(17, 1, tx_id=70, count=1, body=XID),
    )


@pytest.mark.rule("S-112")
async def test_what_a_transaction_will_decide_keeps_its_page(paging: Writable) -> None:
    """Consumed by one prepared transaction in one queue, and sent by another to the next page."""
    write_page(paging.little, 2, [small(3000, queues=BOTH, tx_id=70)])
    write_page(paging.little, 3, [small(4000, queues=BOTH)])
    prepare_two(paging.little, consumes_in=QUEUE_B, sends=2)
    async with paging.open() as store:
        assert bodies_of(store, "work.a") == ["paged 2000", "paged 4000"]
        assert bodies_of(store, "work.b") == ["paged 4000"]
        for queue in ("work.a", "work.b"):
            await store.acknowledge(("work", queue), ids_of(store, queue))
        assert [page.number for page in pages_of(paging.root)] == [1, 2, 3]


async def test_records_about_what_is_gone_are_deleted(paging: Writable) -> None:
    """A crash between a page's file and the records about it leaves them."""
    paging.little.journal.append(
        record(11, 1, record_id=80, user_type=42, body=struct.pack(">qqi", QUEUE_A, 9, 4)),
        record(11, 1, record_id=81, user_type=39, body=struct.pack(">qqi", QUEUE_B, 9, 2)),
        record(11, 1, record_id=82, user_type=39, body=struct.pack(">qqi", 777, 1, 2)),
        record(11, 1, record_id=83, user_type=35, body=struct.pack(">qi", 50, 3)),
        record(11, 1, record_id=84, user_type=39, body=struct.pack(">qqi", QUEUE_A, 1, 0)),
    )
    async with paging.open() as store:
        with trio.fail_after(60):
            while len(list(store.core.loader.state.side())) > 1:
                await store.published()
                await trio.lowlevel.checkpoint()
        assert side(store, MessageType.ACKNOWLEDGE_CURSOR) == [(QUEUE_A, 1, 0)]


async def test_what_each_queue_has_in_pages_is_kept_for_a_broker(paging: Writable) -> None:
    async with paging.open() as store:
        await publish(store, "in.txt", b"one\ntwo\n")
        await publish(store, "in.txt", b"three\n", "work.a")
    async with paging.open() as store:
        counted = {queue: messages for queue, messages, _ in side(store, MessageType.PAGE_COUNTER_VALUE)}
        assert counted == {QUEUE_A: 4, QUEUE_B: 3}
        assert await store.acknowledge(("work", "work.a"), ids_of(store, "work.a")[:2]) == 2
    async with paging.open() as store:
        counted = {queue: messages for queue, messages, _ in side(store, MessageType.PAGE_COUNTER_VALUE)}
        assert counted == {QUEUE_A: 2, QUEUE_B: 3}
        for queue in ("work.a", "work.b"):
            await store.acknowledge(("work", queue), ids_of(store, queue))
        assert side(store, MessageType.PAGE_COUNTER_VALUE) == []


async def test_a_queue_and_an_address_leave_nothing_behind(paging: Writable) -> None:
    async with paging.open() as store:
        await publish(store, "in.txt", b"one\ntwo\n")
        assert await store.acknowledge(("work", "work.a"), ids_of(store, "work.a")) == 3
        await store.delete_queue("work", "work.a")
        await store.published()
        assert {queue for queue, _, _ in side(store, MessageType.ACKNOWLEDGE_CURSOR)} <= {QUEUE_B}
        assert await store.acknowledge(("work", "work.b"), ids_of(store, "work.b")[:1]) == 1
        assert bodies_of(store, "work.b") == ["one", "two"]
        await store.acknowledge(("work", "work.b"), ids_of(store, "work.b"))
        await store.delete_queue("work", "work.b")
        await store.delete_address("work")
        assert list((paging.root / "paging").iterdir()) == []
        await store.published()
        assert list(store.core.loader.state.side()) == []


@pytest.mark.rule("S-110")
@pytest.mark.parametrize("policy", [b"DROP", b"FAIL", b"BLOCK"])
async def test_with_another_policy_it_pages_no_more(limited: Writable, policy: bytes) -> None:
    """What comes then is delivered before what is in pages, by a store that stays open and by the next."""
    async with limited.open() as store:
        for text in (b"1\n", b"2\n", b"3\n", b"4\n"):
            await publish(store, "in.txt", text)
        for queue in ("work.a", "work.b"):
            assert await store.acknowledge(("work", queue), ids_of(store, queue)[:2]) == 2
        await store.set_attribute("work", None, "user.journalfs.address-full-policy", policy)
        await publish(store, "in.txt", b"5\n")
        assert [len(page.entries) for page in pages_of(limited.root)] == [2]
        assert bodies_of(store, "work.a") == ["5", "3", "4"]
        assert await drained(store.consumer(("work", "work.a"))) == ["5", "3", "4"]
    async with limited.open() as store:
        await publish(store, "in.txt", b"6\n")
        assert await drained(store.consumer(("work", "work.b"))) == ["5", "6", "3", "4"]


@pytest.mark.rule("S-110")
async def test_what_is_moved_goes_behind_all_that_is_there(limited: Writable) -> None:
    async with limited.open() as store:
        for text in (b"1\n", b"2\n", b"3\n4\n"):
            await publish(store, "in.txt", text)
        ids = ids_of(store, "work.a")
        assert await store.move(("work", "work.a"), [ids[0], ids[3]], ("work", "work.b")) == 2
        assert bodies_of(store, "work.a") == ["2", "3"]
        assert bodies_of(store, "work.b") == ["1", "2", "3", "4", "1", "4"]
        assert queue_of(store, "work.b").status()["pagedCount"] == 4
    async with limited.open() as store:
        assert bodies_of(store, "work.b") == ["1", "2", "3", "4", "1", "4"]
        for queue in ("work.a", "work.b"):
            await store.acknowledge(("work", queue), ids_of(store, queue))
        (page,) = pages_of(limited.root)
        assert page.entries == []
        await store.published()
        assert side(store, MessageType.PAGE_TRANSACTION) == []


@pytest.mark.rule("S-111")
async def test_what_cannot_be_written_does_not_count(paging: Writable) -> None:
    lines = b"".join(b"%s\n" % (b"x" * length) for length in (10, 2000, 2000, 40_000))
    async with paging.open() as store:
        before = pages_of(paging.root)
        with files_end_at(70_000), pytest.raises(SystemFailure):
            await publish(store, "in.txt", lines)
        assert bodies_of(store, "work.a") == ["paged 2000"]
        assert pages_of(paging.root) == before
        assert side(store, MessageType.PAGE_TRANSACTION) == []
        await publish(store, "in.txt", lines)
        assert bodies_of(store, "work.a") == ["paged 2000", *lines.decode().split()]


@pytest.mark.rule("S-111")
async def test_those_who_publish_together_lose_nothing_and_keep_their_order(paging: Writable) -> None:
    async with paging.open() as store:

        async def write(task: int) -> None:
            for number in range(5):
                await publish(
                    store, "in.txt", b"".join(b"%d %d\n" % (task, n) for n in (2 * number, 2 * number + 1))
                )

        async with trio.open_nursery() as nursery:
            for task in range(6):
                nursery.start_soon(write, task)
        texts = bodies_of(store, "work.a")[1:]
        assert bodies_of(store, "work.b")[1:] == texts
        for task in range(6):
            mine = [text for text in texts if text.startswith(f"{task} ")]
            assert mine == [f"{task} {number}" for number in range(10)]


@pytest.mark.rule("S-114")
@pytest.mark.parametrize("protocol", ["CORE", "AMQP"])
async def test_a_schedule_goes_along(paging: Writable, protocol: str) -> None:
    due_ms = paging.clock.now_ms() + 60_000
    envelope = {"body": "later", "protocol": protocol, "scheduledTime": due_ms}
    line = json.dumps(envelope).encode() + b"\n"
    async with paging.open() as store:
        await publish(store, "in.jsonl", line)
        assert len(queue_of(store, "work.a").scheduled()) == 1
        paging.clock.advance(by_ms=60_001)
        assert len(queue_of(store, "work.a").scheduled()) == 0
        assert bodies_of(store, "work.a") == ["paged 2000", "later"]


@pytest.mark.rule("S-114")
@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize(("made_ago_ms", "left_ms"), [(None, 60_000), (20_000, 40_000), (70_000, 0)])
async def test_a_delay_counts_from_when_it_was_made_or_came(
    paging: Writable, made_ago_ms: int | None, left_ms: int, *, pages: bool
) -> None:
    delay = [{"t": "symbol", "v": "x-opt-delivery-delay"}, {"t": "uint", "v": 60_000}]
    sections: dict[str, object] = {"messageAnnotations": [delay]}
    now_ms = paging.clock.now_ms()
    if made_ago_ms is not None:
        sections["properties"] = {"creationTime": {"t": "timestamp", "v": now_ms - made_ago_ms}}
    async with paging.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "other.a")
        if pages:
            await store.set_attribute("other", None, "user.journalfs.max-size-messages", b"0")
        await publish_file(store, "other", None, "in.jsonl", json.dumps({"amqp": sections}).encode() + b"\n")
        queue = queue_of(store, "other.a", "other")
        assert queue.status()["pagedCount"] == pages
        for waited_ms in (0, 30_000):
            due = json.loads(lines_of(store, "other.a", "other")[0]).get("scheduledTime")
            assert due == (now_ms + left_ms if left_ms else None), waited_ms
            paging.clock.advance(by_ms=30_000)
        assert len(queue.scheduled()) == 0


@pytest.mark.rule("S-11", "S-111")
async def test_no_part_is_made_of_what_may_come_to_count(
    paging: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publication that takes long is in its pages before it counts. A part that was made of it meanwhile
    would grow.
    """
    reached, go_on = trio.Event(), trio.Event()
    written = PageWriter.written

    async def wait_behind_it(writer: PageWriter, pile: Pile, *, sync: bool) -> None:
        await written(writer, pile, sync=sync)
        reached.set()
        await go_on.wait()

    async with paging.open() as store, trio.open_nursery() as nursery:
        queue = queue_of(store, "work.a")
        before = [(part.name, part.size_bytes) for part in queue.parts()]
        await publish(store, "in.txt", b"early\n")
        monkeypatch.setattr(PageWriter, "written", wait_behind_it)
        nursery.start_soon(publish, store, "in.txt", b"one\ntwo\n")
        await reached.wait()
        for _ in range(2):
            paging.clock.advance(by_ms=20_000)
            await store.look()
        assert bodies_of(store, "work.a") == ["paged 2000", "early"]
        assert [(part.name, part.size_bytes) for part in queue.parts()] == before
        go_on.set()
        while len(bodies_of(store, "work.a")) < 4:
            await trio.lowlevel.checkpoint()
        for _ in range(2):
            paging.clock.advance(by_ms=20_000)
            await store.look()
        assert queue.tail().messages == 0
        assert len(queue.parts()) == len(before) + 1
        assert bodies_of(store, "work.a") == ["paged 2000", "early", "one", "two"]


async def test_many_publications_to_one_page_are_not_remembered_one_by_one(paging: Writable) -> None:
    async with paging.open() as store:
        for number in range(3 * paging_module.HOLDS_MAX):
            await publish(store, "in.txt", b"%d\n" % number, "work.a")
        gc.collect()
        holds = sum(isinstance(one, paging_module.Hold) for one in gc.get_objects())
        assert holds <= paging_module.HOLDS_MAX
        assert await store.acknowledge(("work", "work.a"), ids_of(store, "work.a")) == 301
        assert bodies_of(store, "work.b") == ["paged 2000"]
        assert len(pages_of(paging.root)) == 2, "the first, and the one that is appended to"


def purge_folders(writable: Writable) -> None:
    settings = writable.root / "journalfs.toml"
    settings.write_text(f"purge-page-folders = true\n{settings.read_text()}")


async def test_the_folder_may_go_when_nothing_is_in_pages(paging: Writable) -> None:
    purge_folders(paging)
    async with paging.open() as store:
        await publish(store, "in.txt", b"one\ntwo\n")
        for queue in ("work.a", "work.b"):
            assert list((paging.root / "paging").iterdir())
            assert await store.acknowledge(("work", queue), ids_of(store, queue)) == 3
        assert list((paging.root / "paging").iterdir()) == []
        for kind in (MessageType.ACKNOWLEDGE_CURSOR, MessageType.PAGE_COMPLETE):
            assert side(store, kind) == [], "a new folder counts from 1 again"
        await publish(store, "in.txt", b"three\n")
        assert bodies_of(store, "work.a") == bodies_of(store, "work.b") == ["three"]
        address = store.address("work")
        assert address is not None
        assert address.status()["paging"] is False


async def test_a_folder_that_went_comes_back(limited: Writable) -> None:
    purge_folders(limited)
    async with limited.open() as store:
        for round_ in range(3):
            for text in (b"1\n", b"2\n", b"3\n4\n", b"5\n"):
                await publish(store, "in.txt", text)
            assert bodies_of(store, "work.a") == ["1", "2", "3", "4", "5"]
            assert [page.number for page in pages_of(limited.root)] == [1], round_
            for queue in ("work.a", "work.b"):
                assert await store.acknowledge(("work", queue), ids_of(store, queue)) == 5
            assert list((limited.root / "paging").iterdir()) == []
    async with limited.open() as store:
        assert bodies_of(store, "work.a") == bodies_of(store, "work.b") == []
