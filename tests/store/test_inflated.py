"""Large bodies that their clients compressed: inflated as far as they are read, and none more than it may."""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from journalfs.bodies.inflated import InflatedBodies
from journalfs.engine.inflated import Inflating
from journalfs.engine.status import FileTorn
from journalfs.errors import Damaged
from journalfs.limits import INFLATED_BODIES_KEPT_MAX
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


def bomb(inflated_bytes: int, filler: bytes = bytes(1 << 20)) -> bytes:
    """A stream of zeros."""
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(filler) for _ in range(inflated_bytes >> 20)) + packer.flush()


@pytest.mark.rule("S-8")
@pytest.mark.usefixtures("no_temporary_files")
def test_inflating_needs_no_temporary_file(little_store: LittleStore, lines_of: ReadLines) -> None:
    body = nullable(TEXT)
    send(little_store, 1000, zlib.compress(body), len(body))
    store = little_store.open()
    assert only_line(store, lines_of)["body"] == TEXT
    assert store.core.damage() == []


@pytest.mark.rule("S-159", "S-48", "S-51")
@pytest.mark.parametrize("stated", [1000, 1 << 40])
def test_a_stream_that_becomes_longer_than_any_text_does_is_damage(
    little_store: LittleStore, lines_of: ReadLines, stated: int
) -> None:
    send(little_store, 1000, bomb(256 << 20), stated)
    for _ in range(2):
        store = little_store.open()
        assert only_line(store, lines_of)["damage"]
        (damage,) = store.core.damage()
        assert (damage.file, damage.kind) == ("large-messages/1000.msg", "large-message")
        assert damage.reason == "the compressed body inflates to more than the 67108864 bytes it may have"
        store.close()


@pytest.mark.rule("S-159")
def test_the_setting_bounds_what_a_body_may_inflate_to(
    little_store: LittleStore, lines_of: ReadLines
) -> None:
    body = nullable(TEXT)
    send(little_store, 1000, zlib.compress(body), len(body))
    for allowed, is_damaged in ((len(body), False), (len(body) - 1, True)):
        (little_store.root / "journalfs.toml").write_text(f"inflate-bytes-max = {allowed}\n")
        store = little_store.open(index=False)
        assert ("damage" in only_line(store, lines_of)) is is_damaged
        store.close()


@pytest.mark.parametrize("size_bytes", [0, 1, 1 << 20, (1 << 20) + 1, 40_000_000])
def test_any_range_can_be_read_in_any_order(tmp_path: Path, size_bytes: int) -> None:
    chance = random.Random(size_bytes)
    content = b"".join(chance.randbytes(64) * 97 for _ in range(size_bytes // 6208 + 1))[:size_bytes]
    file = tmp_path / "1.msg"
    file.write_bytes(zlib.compress(content, 6) + b"what follows is ignored")
    body = InflatedBodies().body(file)
    assert body.size_bytes == size_bytes
    assert body.copy(0, size_bytes) == content
    for _ in range(60 if size_bytes else 0):
        begin = chance.randrange(size_bytes)
        end = min(size_bytes, begin + chance.randrange(1, 200_000))
        assert body.copy(begin, end - begin) == content[begin:end]


def test_several_threads_may_read_at_once(tmp_path: Path) -> None:
    content = b"".join(number.to_bytes(4) * 256 for number in range(24_000))
    file = tmp_path / "1.msg"
    file.write_bytes(zlib.compress(content, 1))
    body = InflatedBodies().body(file)

    def read(seed: int) -> bool:
        chance = random.Random(seed)
        places = [chance.randrange(len(content) - 50_000) for _ in range(100)]
        return all(body.copy(at, 50_000) == content[at : at + 50_000] for at in places)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))


@pytest.mark.rule("S-159")
def test_a_long_body_takes_little_memory_and_its_beginning_little_time(tmp_path: Path) -> None:
    file = tmp_path / "1.msg"
    file.write_bytes(bomb(1 << 30, filler=random.Random(1).randbytes(1 << 14) * 64))
    inflating = Inflating(file, bytes_max=2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while not inflating.step():
        pass
    body = inflating.shown()
    assert body.size_bytes == 1 << 30
    begun = time.perf_counter()
    assert len(body.copy(0, 10)) == 10
    assert len(body.copy((1 << 30) - 10, 10)) == 10
    assert time.perf_counter() - begun < 1
    for at in range(0, 1 << 30, 50_000_000):
        body.copy(at, 1000)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 << 10


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("cut", [1, 100, 5000])
def test_what_is_broken_is_damage(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "1.msg"
    whole = zlib.compress(random.Random(2).randbytes(100_000))
    file.write_bytes(whole[:-cut])
    bodies = InflatedBodies()
    with pytest.raises(Damaged, match="broken, or ends before"):
        bodies.body(file)
    file.write_bytes(whole[:50_000] + bytes(200) + whole[50_200:])
    with pytest.raises(Damaged, match="broken"):
        bodies.body(file)


def test_a_file_that_is_cut_while_it_is_read_is_torn(tmp_path: Path) -> None:
    file = tmp_path / "1.msg"
    file.write_bytes(zlib.compress(random.Random(3).randbytes(30 << 20), 0))
    body = InflatedBodies().body(file)
    os.truncate(file, 1000)
    with pytest.raises(FileTorn):
        body.copy(20 << 20, 1000)


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    bodies = InflatedBodies()
    files = [tmp_path / f"{number}.msg" for number in range(INFLATED_BODIES_KEPT_MAX + 1)]
    for file in files:
        file.write_bytes(zlib.compress(bytes(100_000)))
    first = bodies.body(files[0])
    assert bodies.body(files[0]) is first
    for file in files:
        bodies.body(file)
    assert bodies.body(files[0]) is not first
    assert first.copy(0, 100_000) == bytes(100_000), "who holds it can read on"
