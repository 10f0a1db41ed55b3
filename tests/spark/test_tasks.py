"""How what is to be read is shared out to tasks, and what a process of Spark does once for all of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from journalfs.engine.buffers import MappedFile, MemoryFile
from journalfs.engine.columns import LINE, Array, address_of, by_file
from journalfs.spark.options import Options
from journalfs.spark.pieces import (
    TASK_BYTES_LEAST,
    TASK_BYTES_MOST,
    Piece,
    partitions,
    task_count,
)
from journalfs.spark.schema import usual_schema
from journalfs.spark.source import BatchReader
from journalfs.spark.worker import settle
from tests.tools.make_store import StoreMade

MIB = 1 << 20


@pytest.mark.parametrize("cores", [1, 2, 3, 16])
@pytest.mark.parametrize("mib", [0, 1, 20, 100, 700, 5000])
def test_tasks_keep_all_cores_busy_and_are_worth_their_start(cores: int, mib: int) -> None:
    tasks = task_count(mib * MIB, None, cores)
    assert mib * MIB / tasks <= TASK_BYTES_MOST
    if mib * MIB > cores * TASK_BYTES_LEAST:
        assert tasks % cores == 0
    elif tasks > 1:
        assert mib * MIB / tasks >= TASK_BYTES_LEAST


def test_tasks_are_as_many_as_their_size_makes() -> None:
    assert task_count(100 * MIB, 10 * MIB, 2) == 10
    assert task_count(101 * MIB, 10 * MIB, 2) == 11
    assert task_count(0, 10 * MIB, 2) == 1


def piece(file: int, queue: int, size: int) -> Piece:
    return Piece(f"{file:03}", file, f"q{queue}", 1, size, (), b"")


def test_tasks_are_about_equal_and_read_files_in_their_order() -> None:
    sizes = [10, 10, 1, 9, 5, 5, 10, 10, 0]
    pieces = [piece(number // 2, number % 2, size) for number, size in enumerate(sizes)]
    found = partitions(pieces[::-1], "large", 3)
    assert [one for task in found for one in task.pieces] == pieces
    amounts = [sum(one.payload_bytes for one in task.pieces) for task in found]
    assert len(amounts) == 3
    assert max(amounts) - min(amounts) <= max(sizes)


def test_what_is_larger_than_a_share_leaves_no_empty_task() -> None:
    found = partitions([piece(0, 0, 100), piece(1, 0, 1)], "large", 8)
    assert [[one.path for one in task.pieces] for task in found] == [["000"], ["001"]]
    assert partitions([], "large", 8) == []


def lines_at(addresses: list[int]) -> Array:
    lines = np.zeros(len(addresses), LINE)
    lines["payload"] = addresses
    return lines


@pytest.mark.parametrize("order", [[0, 0, 1, 1, 2], [2, 0, 1, 0, 2], [1], []])
def test_lines_are_told_apart_by_the_file_that_they_point_into(tmp_path: Path, order: list[int]) -> None:
    files = {}
    for slot in range(3):
        (tmp_path / str(slot)).write_bytes(bytes(100))
        files[slot + 5] = MappedFile(tmp_path / str(slot))
    bases = [address_of(file.pointer) for file in files.values()]
    found = by_file(lines_at([bases[number] + at for at, number in enumerate(order)]), files)
    assert {slot: list(places) for slot, places in found.items()} == {
        number + 5: [at for at, one in enumerate(order) if one == number] for number in set(order)
    }


@pytest.mark.parametrize("sizes", [[], [7], [5, 5, 5], [1, 300, 0, 2]])
@pytest.mark.parametrize("gaps", [[0, 0, 0, 0], [9, 9, 9, 9], [4, 0, 77, 1]])
def test_a_task_is_told_where_messages_lie(tmp_path: Path, sizes: list[int], gaps: list[int]) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    file = MappedFile(tmp_path / "file")
    before = np.cumsum([0, *sizes])[: len(sizes)]
    offsets = (before + np.cumsum(gaps[: len(sizes)])).astype("u8")
    lines = lines_at([address_of(file.pointer) + int(at) for at in offsets])
    lines["payload_bytes"], lines["scheduled_ms"] = sizes, gaps[: len(sizes)]
    one = Piece.of("file", 1, "q", lines=lines, offsets=offsets, large=np.zeros(len(sizes), "?"))
    assert one.lines(file).tobytes() == lines.tobytes()


def test_what_all_messages_have_is_told_once() -> None:
    """Or a plan would send 25 bytes a message to its task, compressed."""
    sizes = np.random.default_rng(1).integers(1000, 2000, 10_000)
    lines = np.zeros(len(sizes), LINE)
    content = MemoryFile("file", bytes(2000))
    lines["payload"], lines["payload_bytes"] = address_of(content.pointer), sizes
    offsets = (np.cumsum(sizes) - sizes + 40 * np.arange(len(sizes))).astype("u8")
    one = Piece.of("file", 1, "q", lines=lines, offsets=offsets, large=np.zeros(len(sizes), "?"))
    assert sum(map(len, one.packed)) < 2.5 * len(sizes)
    assert sorted(map(len, one.packed))[:-2] == [2, 5, 9, 9]


@pytest.fixture
def unsettled() -> Iterator[None]:
    gc.unfreeze()
    settle.cache_clear()
    yield
    gc.unfreeze()
    settle.cache_clear()


@pytest.mark.usefixtures("unsettled")
def test_a_kept_process_collects_no_garbage_among_its_modules(
    many: StoreMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has every process that it keeps collect garbage after each task. Its environment says so."""

    def read() -> None:
        reader = BatchReader(Options(path=str(many.data), index=False), usual_schema(["id"]))
        assert sum(batch.num_rows for one in reader.partitions() for batch in reader.read(one)) > 0

    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    read()
    assert gc.get_freeze_count() == 0, "in a process of somebody else's"
    settle.cache_clear()
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    read()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    read()
    assert gc.get_freeze_count() <= frozen, "once only: what tasks leave behind is collected"
