"""Flipped bits, cuts, holes, missing files of the message journal: the reference says what must be left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.damage.cases import Queues, cases, changed, flipped, look, oracle, used_bytes
from tests.reference import journal as reference

HEADER_BYTES = 16
MESSAGE = 45
STORES = ("aio", "transactions", "amqp-exotic")
Copy = Callable[[str], Path]


def journal_files(data: Path) -> list[Path]:
    return [path for path in sorted((data / "journal").glob("*.amq")) if used_bytes(path) > HEADER_BYTES]


def record_count(data: Path) -> int:
    return sum(len(file.scan.records) for file in reference.read_folder(data / "journal"))


def assert_shows(data: Path, expected: Queues) -> list[tuple[str, int, int]]:
    seen = look(data)
    assert seen.wrong == []
    assert {queue: ids for queue, ids in seen.journal.items() if ids} == {
        queue: ids for queue, ids in expected.items() if queue in seen.journal
    }
    return seen.places


@pytest.mark.rule("S-48", "S-49", "S-51")
@pytest.mark.parametrize("name", STORES)
def test_flipped_bits(name: str, store_copy: Copy) -> None:
    """At evenly spread offsets: whatever records are still valid count, and no more than one is lost."""
    data = store_copy(name) / "data"
    for path in journal_files(data):
        before = record_count(data)
        end = used_bytes(path)
        places_tried = cases(20)
        for number in range(places_tried):
            offset = HEADER_BYTES + (end - HEADER_BYTES) * number // places_tried
            with flipped(path, offset, number % 8):
                places = assert_shows(data, oracle(data))
                after = record_count(data)
            if after < before:
                assert any(
                    file.endswith(path.name) and start <= offset < start + max(length, 1)
                    for file, start, length in places
                ), (path.name, offset, places)


@pytest.mark.rule("S-51")
@pytest.mark.parametrize("name", STORES)
def test_an_overwritten_message_keeps_the_id_of_its_record(name: str, store_copy: Copy) -> None:
    """It is acknowledged by that, whatever its own bytes say."""
    data = store_copy(name) / "data"
    expected, tried = oracle(data), 0
    live = set().union(*expected.values())
    for file in reference.read_folder(data / "journal"):
        for record in file.scan.records:
            if record.kind not in (reference.ADD, reference.ADD_TX) or record.user_type != MESSAGE:
                continue
            if record.record_id not in live or tried >= cases(20):
                continue
            tried += 1
            with changed(data / "journal" / file.name, record.body_offset, b"\1" + b"\xff" * 40):
                assert_shows(data, expected)
    assert tried > 10


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("name", STORES)
def test_flipped_bits_of_a_file_id(name: str, store_copy: Copy) -> None:
    """A file whose header names a higher id looks as one used again, and only it is without effect."""
    data = store_copy(name) / "data"
    for path in journal_files(data):
        for offset in range(8, HEADER_BYTES):
            with flipped(path, offset, offset % 8):
                assert_shows(data, oracle(data))


@pytest.mark.rule("S-49", "S-50")
@pytest.mark.parametrize("name", STORES)
def test_files_cut_off_anywhere(name: str, store_copy: Copy) -> None:
    data = store_copy(name) / "data"
    for path in journal_files(data):
        content = path.read_bytes()
        end = used_bytes(path)
        cuts = cases(12)
        for number in range(cuts):
            path.write_bytes(content[: HEADER_BYTES + (end - HEADER_BYTES) * number // cuts])
            assert_shows(data, oracle(data))
        path.write_bytes(content)


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x0b\x00\x00\x00\x01"], ids=["zeros", "ones", "heads"])
@pytest.mark.parametrize("name", STORES)
def test_holes_in_the_middle(name: str, filler: bytes, store_copy: Copy) -> None:
    data = store_copy(name) / "data"
    for path in journal_files(data):
        before, end = record_count(data), used_bytes(path)
        for number in range(12):
            length = 100 << number % 6
            offset = HEADER_BYTES + (end - HEADER_BYTES) * number // 12
            with changed(path, offset, (filler * length)[:length]):
                places = assert_shows(data, oracle(data))
                after = record_count(data)
            # A hole inside one body leaves a record that looks whole.
            assert after == before or any(file.endswith(path.name) for file, _, _ in places)


@pytest.mark.rule("S-48", "S-49")
@pytest.mark.parametrize("name", ["compacted", "killed", "retention"])
def test_missing_files(name: str, store_copy: Copy) -> None:
    """Every file of a journal of several, one after the other."""
    data = store_copy(name) / "data"
    files = journal_files(data)
    for path in files:
        away = data / path.name
        shutil.move(path, away)
        if len(files) > 1:
            assert_shows(data, oracle(data))
        else:
            assert not any(look(data).queues.values())
        shutil.move(away, path)
