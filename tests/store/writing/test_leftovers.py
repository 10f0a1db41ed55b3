"""What a crash leaves behind is cleaned up when the store is opened for writing, and nothing else is. And
nothing is left of what is closed.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import QueueId
from journalfs.store import open_store
from tests.differential.encode import record
from tests.differential.encode_messages import core_header, page_record, text_message
from tests.store.appending import ACK, ADD, ADD_REF, ADD_TX, MESSAGE, UPDATE, UPDATE_TX
from tests.store.conftest import QUEUE_A
from tests.store.publishing import publish_file
from tests.store.test_pages import PAGE_TX, write_page
from tests.store.writing.conftest import Writable, lines_of, queue_of
from tests.store.writing.test_forwarding import events

ACKNOWLEDGED, KEPT, SIDE = 1001, 1002, 1003
PREPARE, LARGE = 17, 30


def leave_unreferenced(writable: Writable) -> None:
    """A message whose acknowledgement was written and whose delete was not, one that is there, and a record
    that is no message.
    """
    journal = writable.little.journal
    journal.send(ACKNOWLEDGED, QUEUE_A)
    journal.send(KEPT, QUEUE_A)
    acknowledgement = record_bodies.acknowledgement(QueueId(QUEUE_A))
    journal.append(
        record(UPDATE, 1, record_id=ACKNOWLEDGED, user_type=ACK, body=acknowledgement),
        record(
            ADD,
            1,
            record_id=SIDE,
            user_type=int(MessageType.DUPLICATE_ID),
            body=record_bodies.duplicate_id("work", b"d"),
        ),
    )


def damage(writable: Writable) -> None:
    """Lose a reference."""
    path = writable.root / "journal/activemq-data-1.amq"
    content = bytearray(path.read_bytes())
    reference = record(
        UPDATE, 1, record_id=KEPT, user_type=32, body=record_bodies.reference(QueueId(QUEUE_A))
    )
    at = content.index(reference)
    content[at : at + len(reference)] = b"\xee" * len(reference)
    path.write_bytes(content)


async def test_messages_in_no_queue_are_deleted(writable: Writable) -> None:
    leave_unreferenced(writable)
    async with writable.open() as store:
        await store.published()
        writer = store.journals.messages
        assert not writer.is_live(ACKNOWLEDGED)
        assert writer.is_live(KEPT)
        assert writer.is_live(SIDE)
        assert len(lines_of(store, "work.a")) == 1


async def test_the_same_when_an_index_knows_them(writable: Writable) -> None:
    leave_unreferenced(writable)
    open_store(writable.root, clock=writable.clock).close()
    async with writable.open(index=True) as store:
        await store.published()
        assert not store.journals.messages.is_live(ACKNOWLEDGED)
        assert store.journals.messages.is_live(KEPT)


async def test_what_is_not_known_and_in_a_queue_is_kept(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal's own account decides, whatever the view was made from."""
    leave_unreferenced(writable)
    monkeypatch.setattr("journalfs.store.write.acquiring._known_ids", lambda state: set())
    async with writable.open() as store:
        await store.published()
        assert not store.journals.messages.is_live(ACKNOWLEDGED)
        assert store.journals.messages.is_live(KEPT)


async def test_a_damaged_journal_keeps_them(writable: Writable) -> None:
    leave_unreferenced(writable)
    damage(writable)
    async with writable.open() as store:
        await store.published()
        assert store.core.damage()
        assert store.journals.messages.is_live(KEPT)
        assert store.journals.messages.is_live(ACKNOWLEDGED)


@pytest.mark.rule("S-109")
async def test_bodies_that_no_message_has_are_set_aside(writable: Writable) -> None:
    large = writable.root / "large-messages"
    (large / "777.msg").write_bytes(b"nobody's")
    (large / "778.tmp").write_bytes(b"not durable")
    async with writable.open():
        assert not list(large.iterdir())
        aside = writable.root / "journalfs" / "orphans"
        assert sorted(path.name for path in aside.iterdir()) == ["777.msg", "778.tmp"]


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system here")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.mark.rule("S-48", "S-109")
async def test_they_are_set_aside_from_another_disk(writable: Writable, other_disk: Path) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write(f'large-messages-directory = "{other_disk}"\n')
    (other_disk / "777.msg").write_bytes(b"nobody's")
    aside = writable.root / "journalfs" / "orphans"
    aside.parent.mkdir(exist_ok=True)
    aside.write_text("in the way")
    async with writable.open() as store:
        told = [str(event["message"]) for event in store.core.events]
        assert any("777.msg" in message and "it stays where it is" in message for message in told)
    assert [path.name for path in other_disk.iterdir()] == ["777.msg"]
    aside.unlink()
    async with writable.open():
        assert list(other_disk.iterdir()) == []
        assert [path.read_bytes() for path in aside.iterdir()] == [b"nobody's"]


@pytest.mark.rule("S-109")
async def test_a_body_that_a_broker_did_not_get_to_copy_is_no_orphan(writable: Writable) -> None:
    """It stands for the copy's; others go."""
    large = writable.root / "large-messages"
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in.jsonl")
        line = {"body": "x", "largeMessage": True, "properties": {"_AMQ_ORIG_MESSAGE_ID": 777}}
        await publisher.write(json.dumps(line).encode() + b"\n")
        await publisher.finish()
    (body,) = large.iterdir()
    body.rename(large / "777.msg")
    (large / "778.msg").write_bytes(b"nobody's")
    reader = open_store(writable.root, clock=writable.clock, index=False)
    assert reader.orphaned_bodies() == ["778.msg"]
    reader.close()
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."#"]\ndead-letter-address = ""\n')
    async with writable.open() as store:
        assert [file.name for file in large.iterdir()] == ["777.msg"]
        (shown,) = [json.loads(one) for one in lines_of(store, "work.a")]
        assert shown["body"] == "x"
        assert "damage" not in shown
        assert await store.send_to_dead_letters(("work", "work.a"), [shown["id"]]) == 1


def large(message_id: int, *, origin: int | None = None) -> bytes:
    """The record of a large message; a broker copied it from `origin`."""
    copied = {"_AMQ_ORIG_MESSAGE_ID": ("long", origin)} if origin is not None else {}
    return core_header(message_id, address="work", kind=4, properties=copied)


def prepare(writable: Writable, *large_messages: tuple[int, bytes]) -> None:
    """A transaction that sends these to a queue and another message beside them, and consumes one."""
    queue = record_bodies.reference(QueueId(QUEUE_A))
    writable.little.journal.send(KEPT, QUEUE_A)
    messages = [(1500, MESSAGE, text_message(1500, "small"))]
    messages += [(message_id, LARGE, header) for message_id, header in large_messages]
    sends = [
        one
        for message_id, user_type, body in messages
        for one in (
            record(ADD_TX, 1, tx_id=70, record_id=message_id, user_type=user_type, body=body),
            record(UPDATE_TX, 1, tx_id=70, record_id=message_id, user_type=ADD_REF, body=queue),
        )
    ]
    acknowledgement = record(UPDATE_TX, 1, tx_id=70, record_id=KEPT, user_type=ACK, body=queue)
    prepared = record(PREPARE, 1, tx_id=70, count=len(sends) + 1)
    writable.little.journal.append(*sends, acknowledgement, prepared)


@pytest.mark.rule("S-26", "S-109")
@pytest.mark.parametrize("paged", [False, True])
async def test_bodies_of_what_is_in_no_queue_yet_are_needed(writable: Writable, paged: bool) -> None:
    """Of two messages, one of which a broker did not get to copy, that a prepared transaction sent into the
    journal or to a page. What has no message goes, whatever is prepared.
    """
    directory = writable.root / "large-messages"
    messages = [(1501, large(1501)), (1502, large(1502, origin=777))]
    prepare(writable, *(() if paged else messages))
    if paged:
        write_page(writable.little, 1, [page_record(71, 1, header, (QUEUE_A,)) for _, header in messages])
        sent = struct.pack(">qi", 71, 2)
        writable.little.journal.append(
            record(ADD_TX, 1, tx_id=71, record_id=81, user_type=PAGE_TX, body=sent),
            record(PREPARE, 1, tx_id=71, count=1),
        )
    for name in (777, 778, 1501):
        (directory / f"{name}.msg").write_bytes(b"body")
    reader = open_store(writable.root, clock=writable.clock, index=False)
    assert reader.orphaned_bodies() == ["778.msg"]
    reader.close()
    async with writable.open() as store:
        assert sorted(path.name for path in directory.iterdir()) == ["1501.msg", "777.msg"]
        sent_lines = [
            json.loads(one)
            for _, source in store.prepared_sends()
            for one in bytes(source.read(0, source.size_bytes)).splitlines()
        ]
        assert [one["id"] for one in sent_lines if one.get("largeMessage")] == [1501, 1502]
        assert not [one for one in sent_lines if "damage" in one]


@pytest.mark.rule("S-109")
async def test_whose_body_it_is_cannot_be_told(writable: Writable) -> None:
    """Of a prepared message that has no body of its own, and does not say what it was copied from."""
    body = writable.root / "large-messages" / "777.msg"
    body.write_bytes(b"perhaps somebody's")
    prepare(writable, (1501, large(1501, origin=777)[:-4]))
    async with writable.open() as store:
        assert store.core.loader.damage() == []
        assert store.orphaned_bodies() == []
        assert body.exists()


@pytest.mark.rule("S-109")
async def test_a_damaged_journal_may_have_lost_whose_bodies_they_are(writable: Writable) -> None:
    leave_unreferenced(writable)
    damage(writable)
    body = writable.root / "large-messages" / "777.msg"
    body.write_bytes(b"perhaps somebody's")
    async with writable.open() as store:
        assert store.orphaned_bodies() == []
        assert body.exists()


@pytest.mark.rule("S-109")
@pytest.mark.parametrize("lost", ["record", "page", "folder"])
async def test_so_may_damaged_pages(writable: Writable, lost: str) -> None:
    """A record that does not decode, a page that cannot be read, a second folder of an address."""
    body = writable.root / "large-messages" / "1501.msg"
    body.write_bytes(b"perhaps somebody's")
    whole = page_record(-1, 1, large(1501), (QUEUE_A,))
    page = write_page(writable.little, 1, [whole if lost != "record" else b"\0" + whole[1:]])
    if lost == "page":
        page.unlink()
        page.mkdir()
    elif lost == "folder":
        page.parent.rename(page.parent.with_name("z-folder"))
        write_page(writable.little, 1, [page_record(-1, 0, text_message(1, "t"), (QUEUE_A,))])
    reader = open_store(writable.root, clock=writable.clock, index=False)
    assert reader.orphaned_bodies() == []
    reader.close()
    async with writable.open() as store:
        assert list(store.core.damage_of_pages())
        assert store.orphaned_bodies() == []
        assert body.exists()


async def test_closed_files_keep_no_bodies(writable: Writable) -> None:
    """Whoever remembers what was read keeps the closed files, and not the room of what they held."""

    def mapped() -> int:
        return sum(".msg" in line for line in Path("/proc/self/maps").read_text().splitlines())

    async with writable.open() as store:
        for _ in range(3):
            await publish_file(store, "work", "work.a", "in.bin", bytes(200_000))
        queue = queue_of(store, "work.a")
        opened = [queue.open_all(), queue.open_tail()]
        for source in opened:
            assert len(source.read(0, 300_000)) >= 200_000
        assert mapped() >= 3
        for source in opened:
            source.close()
        assert mapped() == 0
        assert opened


@pytest.mark.rule("S-50")
@pytest.mark.parametrize("index", [False, True])
async def test_a_record_without_an_end_is_overwritten_and_an_event_says_so(
    writable: Writable, *, index: bool
) -> None:
    """Also where an index says that it is there, of a store that was looked at before."""
    journal = writable.little.journal
    journal.send(KEPT, QUEUE_A)
    begins = journal.at
    journal.send(ACKNOWLEDGED, QUEUE_A)
    path = writable.root / "journal/activemq-data-1.amq"
    content = bytearray(path.read_bytes())
    content[begins + 40 :] = bytes(len(content) - begins - 40)
    path.write_bytes(content)
    looked = open_store(writable.root, index=index)
    assert [(one.offset, one.kind) for one in looked.core.damage()] == [(begins, "torn")]
    looked.close()
    async with writable.open(index=index) as store:
        (event,) = events(store, "recovered")
        assert f"{path.name}, byte {begins}: " in str(event["message"])
        assert events(store, "damage") == []
        assert store.core.damage() == []
        assert len(queue_of(store, "work.a").listing()) == 1
    assert not any(path.read_bytes()[begins : begins + 40])
