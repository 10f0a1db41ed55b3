"""Large bodies that their clients compressed: whole where there is room, and none takes more than it may."""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from journalfs.large import inflated
from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.differential.encode_messages import core_header, nullable
from tests.store.appending import ADD, ADD_REF, UPDATE
from tests.store.conftest import QUEUE_A, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]

LARGE = 30
TEXT = "again and again " * 20_000


def send(little: LittleStore, message_id: int, stream: bytes, declared_bytes: int) -> None:
    """A large message whose body file is `stream`."""
    properties: dict[str, Any] = {
        "_AMQ_LARGE_COMPRESSED": ("boolean", True),
        "_AMQ_LARGE_SIZE": ("long", declared_bytes),
    }
    header = core_header(message_id, address="work", properties=properties)
    little.journal.append(
        record(ADD, 1, record_id=message_id, user_type=LARGE, body=header),
        record(UPDATE, 1, record_id=message_id, user_type=ADD_REF, body=struct.pack(">q", QUEUE_A)),
    )
    (little.root / "large-messages" / f"{message_id}.msg").write_bytes(stream)


def only_line(store: JournalStore, lines_of: ReadLines) -> dict[str, Any]:
    (line,) = lines_of(store, "work.a")
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.fixture
def no_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))


@pytest.mark.rule("S-8")
@pytest.mark.usefixtures("no_temporary_files")
def test_inflating_needs_no_temporary_file(little_store: LittleStore, lines_of: ReadLines) -> None:
    body = nullable(TEXT)
    send(little_store, 1000, zlib.compress(body), len(body))
    store = little_store.open()
    assert only_line(store, lines_of)["body"] == TEXT
    assert store.core.damage() == []


@pytest.mark.rule("S-8")
def test_a_body_too_long_for_memory_is_whole(
    little_store: LittleStore, lines_of: ReadLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflated, "INFLATED_IN_MEMORY_BYTES_MAX", 100_000)
    monkeypatch.setattr(inflated, "COPY_CHUNK_BYTES", 30_000)
    body = nullable(TEXT)
    send(little_store, 1000, zlib.compress(body), len(body))
    assert only_line(little_store.open(), lines_of)["body"] == TEXT


@pytest.mark.rule("S-48", "S-51")
def test_a_stream_that_inflates_to_more_than_its_message_says_is_damage(
    little_store: LittleStore, lines_of: ReadLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(inflated, "INFLATED_IN_MEMORY_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(inflated, "_moved_to_disk", lambda *_: pytest.fail("nothing goes to the disk"))
    pieces = inflated._pieces

    def counted(path: Path) -> Iterator[tuple[int, bytes]]:
        for consumed, piece in pieces(path):
            made.append(len(piece))
            yield consumed, piece

    monkeypatch.setattr(inflated, "_pieces", counted)
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    send(little_store, 1000, bomb, 1000)
    for _ in range(2):
        store = little_store.open()
        assert only_line(store, lines_of)["damage"]
        (damage,) = store.core.damage()
        assert (damage.file, damage.kind) == ("large-messages/1000.msg", "large-message")
        assert damage.reason == "the compressed body inflates to more than the 1048576 bytes it may have"
        store.close()
    assert sum(made) < 8 << 20, "it stops at the bound"


@pytest.mark.rule("S-48", "S-51")
@pytest.mark.usefixtures("no_temporary_files")
def test_without_room_the_message_is_damaged_until_there_is(
    little_store: LittleStore, lines_of: ReadLines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(inflated, "INFLATED_IN_MEMORY_BYTES_MAX", 100_000)
    body = nullable(TEXT)
    send(little_store, 1000, zlib.compress(body), len(body))
    store = little_store.open()
    assert only_line(store, lines_of)["damage"]
    (damage,) = store.core.damage()
    assert damage.reason.startswith(f"no room to inflate a body of up to {len(body)} bytes: ")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert only_line(store, lines_of)["damage"], "a line stays as it was measured"
    store.close()
    again = little_store.open()
    assert only_line(again, lines_of)["body"] == TEXT, "no index remembers the want of room"
    assert again.core.damage() == []


def test_half_of_what_is_free_is_left(little_store: LittleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflated, "INFLATED_IN_MEMORY_BYTES_MAX", 100_000)
    body = nullable(TEXT)
    send(little_store, 1000, zlib.compress(body), 1 << 60)
    (damage,) = little_store.open().core.damage()
    assert "no room to inflate" in damage.reason
    assert "bytes free" in damage.reason


def test_only_so_much_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflated, "INFLATED_IN_MEMORY_BYTES_MAX", 250_000)
    bodies = inflated.InflatedBodies()
    for number in range(5):
        (tmp_path / f"{number}.msg").write_bytes(zlib.compress(bytes(100_000)))
    first = bodies.body(tmp_path / "0.msg", 100_000)
    assert bodies.body(tmp_path / "0.msg", 100_000) is first
    for number in range(5):
        bodies.body(tmp_path / f"{number}.msg", 100_000)
    assert bodies.body(tmp_path / "0.msg", 100_000) is not first
    assert first.copy(0, 100_000) == bytes(100_000), "who holds it can read on"
