"""Pages: what is live in them, and what is left when they are damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.differential.encode_messages import page_record, text_message
from tests.store.appending import ADD
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_follow import queue_of
from tests.tools import store_bytes

ReadLines = Callable[[JournalStore, str], list[bytes]]
CURSOR_ACK, PAGE_COMPLETE, PAGE_TX = 39, 42, 35


def write_page(little: LittleStore, number: int, records: list[bytes]) -> Path:
    folder = little.root / "paging/some-folder"
    folder.mkdir(exist_ok=True)
    (folder / "address.txt").write_text("work\n")
    path = folder / f"{number:09d}.page"
    path.write_bytes(b"".join(records))
    return path


def small(message_id: int, *, queues: tuple[int, ...] = (QUEUE_A,), tx_id: int = -1) -> bytes:
    return page_record(tx_id, 0, text_message(message_id, f"paged {message_id}"), queues)


def ids(lines: list[bytes]) -> list[int]:
    return [int(line.split(b'"id":')[1].split(b",")[0]) for line in lines]


def test_positions_completions_and_page_transactions(little_store: LittleStore, lines_of: ReadLines) -> None:
    write_page(little_store, 1, [small(2000 + n, queues=(QUEUE_A, QUEUE_B)) for n in range(4)])
    write_page(little_store, 3, [small(3000), small(3001, tx_id=70), small(3002, tx_id=71)])
    journal = little_store.journal
    journal.append(
        journal.record(11, record_id=80, user_type=PAGE_COMPLETE, body=struct.pack(">qqi", QUEUE_B, 1, 4)),
        journal.record(11, record_id=81, user_type=CURSOR_ACK, body=struct.pack(">qqi", QUEUE_A, 1, 2)),
        journal.record(11, record_id=82, user_type=PAGE_TX, body=struct.pack(">qi", 70, 1)),
    )
    store = little_store.open()
    assert ids(lines_of(store, "work.a")) == [2000, 2001, 2003, 3000, 3001]
    assert lines_of(store, "work.b") == []
    assert queue_of(store, "work.a").status()["pagedCount"] == 5


@pytest.mark.rule("S-52")
@pytest.mark.parametrize(
    ("offset", "byte"),
    [(0, 0x00), (1, 0x7F), (3, 0x55), (-1, 0x20)],
    ids=["opening", "huge", "length", "end"],
)
def test_damaged_record_of_a_page_hides_no_other(
    little_store: LittleStore, lines_of: ReadLines, offset: int, byte: int
) -> None:
    records = [bytearray(small(2000 + n)) for n in range(5)]
    at = sum(map(len, records[:2]))
    records[2][offset] = byte
    write_page(little_store, 1, [bytes(record) for record in records])
    for _ in range(2):
        store = little_store.open()
        assert ids(lines_of(store, "work.a")) == [2000, 2001, 2003, 2004]
        damage = store.core.damage()
        assert [(place.offset, place.kind) for place in damage] == [(at, "page")]
        store.close()


@pytest.mark.rule("S-52")
def test_records_behind_damage_keep_their_numbers(little_store: LittleStore, lines_of: ReadLines) -> None:
    records = [bytearray(small(2000 + n)) for n in range(4)]
    records[1][0] = 0
    write_page(little_store, 1, [bytes(record) for record in records])
    journal = little_store.journal
    journal.append(
        journal.record(11, record_id=81, user_type=CURSOR_ACK, body=struct.pack(">qqi", QUEUE_A, 1, 2))
    )
    assert ids(lines_of(little_store.open(), "work.a")) == [2000, 2003]


@pytest.mark.rule("S-52")
def test_every_truncation_of_a_page_keeps_what_is_whole(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    records = [small(2000 + n) for n in range(3)]
    path = write_page(little_store, 1, records)
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        whole = length // len(records[0])
        store = little_store.open(index=False)
        assert ids(lines_of(store, "work.a")) == [2000 + n for n in range(whole)]


@pytest.mark.rule("S-52")
def test_record_in_a_body_is_not_taken_for_one(little_store: LittleStore, lines_of: ReadLines) -> None:
    """What looks like a record inside a damaged record's message is that message's content."""
    forged = small(6666).decode("latin-1")
    host = bytearray(page_record(-1, 0, text_message(2001, "x" + forged + "y"), (QUEUE_A,)))
    host[0] = 0
    write_page(little_store, 1, [small(2000), bytes(host), small(2002)])
    assert ids(lines_of(little_store.open(), "work.a")) == [2000, 2002]


@pytest.mark.rule("S-44")
async def test_page_that_grows_and_goes(little_store: LittleStore, lines_of: ReadLines) -> None:
    path = write_page(little_store, 1, [small(2000)])
    store = little_store.open()
    queue = queue_of(store, "work.a")
    first = [part.name for part in queue.parts()]
    write_page(little_store, 1, [small(2000), small(2001)])
    await store.look()
    assert [part.name for part in queue.parts()] == first, "a part never grows"
    assert queue.tail().messages == 1
    little_store.clock.advance(by_ms=1000)
    await store.look()
    little_store.clock.advance(by_ms=1000)
    await store.look()
    assert queue.tail().messages == 0
    assert ids(lines_of(store, "work.a")) == [2000, 2001]
    held = queue.open_all()
    path.unlink()
    await store.look()
    assert len(queue) == 0
    assert ids(bytes(held.read(0, held.size_bytes)).splitlines()) == [2000, 2001]


@pytest.mark.rule("S-48")
def test_folder_without_its_address_is_known_by_its_queues(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    write_page(little_store, 1, [small(2000)])
    (little_store.root / "paging/some-folder/address.txt").unlink()
    store = little_store.open()
    assert ids(lines_of(store, "work.a")) == [2000]
    assert [(damage.file, damage.kind) for damage in store.core.damage()] == [
        ("paging/some-folder/address.txt", "page-folder")
    ]


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("written", ["worl\n", "\x00\x00\x00", "../elsewhere\n", "\xff\xfe\n"])
def test_folder_that_names_no_address_is_known_by_its_queues(
    little_store: LittleStore, lines_of: ReadLines, written: str
) -> None:
    write_page(little_store, 1, [small(2000), small(2001)])
    file = little_store.root / "paging/some-folder/address.txt"
    file.write_bytes(written.encode("latin-1"))
    for _ in range(2):
        store = little_store.open()
        assert ids(lines_of(store, "work.a")) == [2000, 2001]
        assert [address.name for address in store.addresses()] == ["work"]
        assert [(one.file, one.kind) for one in store.core.damage()] == [
            ("paging/some-folder/address.txt", "page-folder")
        ]
        store.close()


@pytest.mark.rule("S-48")
async def test_folder_that_names_another_address(little_store: LittleStore, lines_of: ReadLines) -> None:
    """A broker takes its pages for those of that address, and so does nobody see them; but it is told."""
    body = store_bytes.address_binding("other", 0)
    little_store.bindings.append(record(ADD, 1, record_id=30, user_type=44, body=body))
    write_page(little_store, 1, [small(2000)])
    (little_store.root / "paging/some-folder/address.txt").write_text("other\n")
    store = little_store.open()
    assert lines_of(store, "work.a") == []
    (damage,) = store.core.damage()
    assert (damage.file, damage.kind) == ("paging/some-folder/address.txt", "page-folder")
    assert "1 pages beside it are of queues of 'work'" in damage.reason


@pytest.mark.rule("S-52")
def test_a_page_that_lost_everything(little_store: LittleStore, lines_of: ReadLines) -> None:
    """The last one is empty where a broker has just begun it."""
    for number in range(1, 4):
        write_page(little_store, number, [small(2000 + number)] if number < 3 else [])
    store = little_store.open(index=False)
    assert ids(lines_of(store, "work.a")) == [2001, 2002]
    assert store.core.damage() == []
    write_page(little_store, 1, [])
    store = little_store.open(index=False)
    assert ids(lines_of(store, "work.a")) == [2002]
    damage = [(one.file, one.kind) for one in store.core.damage()]
    assert damage == [("paging/some-folder/000000001.page", "short-file")]
