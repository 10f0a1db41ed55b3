"""An index whose checksum is right and whose content is not: refused, or an error where it lied; no hang."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journalfs.engine.checksums import crc32c
from journalfs.engine.status import CoreRefused
from journalfs.live.index_file import index_path
from journalfs.store.store import JournalStore
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]

HEAD_BYTES, TAIL_BYTES_AT = 80, 16
"""In the section of the live state: what stands before the first message, and where in that the length of its
line is.
"""

WINDOW_BYTES = 65_536
MUTATIONS = 200


@pytest.fixture
def filled(little_store: LittleStore) -> LittleStore:
    journal = little_store.journal
    for number in range(20):
        journal.send(1000 + number, (QUEUE_A, QUEUE_B)[number % 2], f"text {number}")
    journal.redeliver(1000, QUEUE_A, 3)
    journal.schedule(1002, QUEUE_A, little_store.clock.now_ms() + 1000)
    journal.send_in_transaction(500, 1100, QUEUE_A)
    current = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    current.send(2000, QUEUE_B, "last")
    current.redeliver(7, QUEUE_A, 1)
    little_store.open().close()
    return little_store


def section_start(content: bytes | bytearray) -> int:
    """Where the live state begins in an index."""
    return 16 + int(struct.unpack_from("<Q", content, 8)[0])


def write_sound(path: Path, content: bytearray) -> None:
    """Write an index with the checksum that its content has."""
    content[-4:] = struct.pack("<I", crc32c(bytes(content[:-4])))
    path.write_bytes(content)


def read_in_windows(store: JournalStore, queue_name: str) -> Iterator[bytes]:
    queue = next(queue for queue in store.queues() if queue.name == queue_name)
    for part in queue.parts():
        source = queue.open_part(part)
        for offset in range(0, source.size_bytes, WINDOW_BYTES):
            yield bytes(source.read(offset, WINDOW_BYTES))


@pytest.mark.rule("S-54")
def test_a_line_said_to_be_longer_than_it_is(filled: LittleStore) -> None:
    """Where rendering ends before the length that the index knows, nothing is made up for the rest."""
    sound = filled.open()
    good = [b"".join(read_in_windows(sound, name)) for name in ("work.a", "work.b")]
    path = index_path(filled.root)
    content = bytearray(path.read_bytes())
    at = section_start(content) + HEAD_BYTES + TAIL_BYTES_AT
    assert 50 < struct.unpack_from("<Q", content, at)[0] < 500
    struct.pack_into("<Q", content, at, 1 << 39)
    write_sound(path, content)
    store = filled.open()
    with pytest.raises(CoreRefused):
        next(read_in_windows(store, "work.a"))
    assert not path.exists()
    assert [b"".join(read_in_windows(store, name)) for name in ("work.a", "work.b")] == good
    assert store.core.damage() == sound.core.damage()


@pytest.mark.rule("S-54")
def test_places_outside_of_what_was_read_are_refused(filled: LittleStore, lines_of: ReadLines) -> None:
    path = index_path(filled.root)
    content = bytearray(path.read_bytes())
    lines = lines_of(filled.open(), "work.a")
    at = section_start(content) + HEAD_BYTES + 32  # the first message's place in its file
    struct.pack_into("<I", content, at, 1 << 30)
    write_sound(path, content)
    store = filled.open()
    assert [event["event"] for event in store.core.events] == ["index-unusable", "damage"]
    assert lines_of(store, "work.a") == lines


@pytest.mark.rule("S-54")
def test_changed_places_do_no_harm(filled: LittleStore) -> None:
    """A few bytes of the live state or of its description changed, with the checksum that they then have."""
    dice = random.Random(2)
    path = index_path(filled.root)
    good = path.read_bytes()
    words = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\1\0\0\0")
    resumed = 0
    for _ in range(MUTATIONS):
        content = bytearray(good)
        for _ in range(dice.choice((1, 1, 2, 4))):
            begin = section_start(good) if dice.random() < 0.8 else 16
            at = dice.randrange(begin, len(good) - 8)
            flipped = bytes([content[at] ^ 1 << dice.randrange(8)]) + content[at + 1 : at + 4]
            content[at : at + 4] = dice.choice((*words, dice.randbytes(4), flipped))
        write_sound(path, content)
        store = filled.open()
        resumed += all(event["event"] == "damage" for event in store.core.events)
        for queue in store.queues():
            queue.status()
            listing = queue.listing()
            assert all(listing.name(index) for index in range(len(listing)))
            for part in queue.parts():
                source = queue.open_part(part)
                try:
                    content_read = bytes(source.read(0, WINDOW_BYTES))
                except CoreRefused:
                    assert store.rebuilds == 1, "it is not believed again"
                    assert not path.exists()
                    break
                assert len(content_read) == min(source.size_bytes, WINDOW_BYTES)
        assert store.status()["damage"] is not None
    assert 0 < resumed < MUTATIONS, "some are refused, and some changes cannot be told"
