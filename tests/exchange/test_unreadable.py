"""Exports of stores with a message that cannot be read: it is named, and all others are there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from journalfs.live.stored_runs import each_place
from journalfs.store import open_store
from tests.damage.cases import changed
from tests.exchange.exported import read_xml
from tests.mounting import journalfs

EXIT_DAMAGED = 5


class Bad(NamedTuple):
    message_id: int
    file: Path
    offset: int
    size_bytes: int


def first_of(data: Path, queue_name: str) -> Bad:
    store = open_store(data, index=False)
    try:
        (queue,) = [one for one in store.queues() if one.name == queue_name]
        found = [place for run in queue.content.live() for place in each_place(queue.content, run)]
        place = found[0]
        assert len(found) > 10
        return Bad(place.message_id, place.file.path, place.offset, place.size_bytes)
    finally:
        store.close()


def ids_of(form: str, out: Path) -> set[int]:
    if form == "xml":
        return set(map(int, read_xml(out.read_bytes())[0]))
    if form == "parquet":
        import pyarrow.parquet as pq  # noqa: PLC0415 - only here

        return set(pq.read_table(out).column("id").to_pylist())
    return {json.loads(line)["id"] for line in out.read_text().splitlines()}


@pytest.mark.rule("S-218", "S-219")
@pytest.mark.parametrize(
    ("form", "name", "queue"),
    [
        ("xml", "compacted", "churn.fan.slow"),
        ("jsonl", "compacted", "churn.fan.slow"),
        pytest.param("parquet", "compacted", "churn.fan.slow", marks=pytest.mark.long),
        pytest.param("xml", "large-and-paged", "backlog", marks=pytest.mark.long),
        pytest.param("jsonl", "large-and-paged", "backlog", marks=pytest.mark.long),
    ],
)
def test_all_others_are_exported(
    store_copy: Callable[[str], Path], tmp_path: Path, form: str, name: str, queue: str
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    data, whole, out = store_copy(name) / "data", tmp_path / "whole", tmp_path / "out"
    done = journalfs("export", "--format", form, data, whole)
    assert done.returncode == 0, done.stderr
    bad = first_of(data, queue)
    # Its priority and all behind it, in the middle of the header.
    with changed(bad.file, bad.offset + bad.size_bytes // 2, b"\xff" * (bad.size_bytes // 2 - 8)):
        done = journalfs("export", "--format", form, data, out)
        again = journalfs("export", "--json", "--format", form, "--overwrite", data, out)
    assert done.returncode == EXIT_DAMAGED
    # A row of the account, as `check` prints it; opening the store tells of the first damage, too.
    (row,) = [line.split("\t") for line in done.stderr.splitlines() if "\t" in line]
    assert (row[0].rpartition("/")[2], int(row[1]), row[3]) == (bad.file.name, bad.offset, "message")
    books = json.loads(again.stdout)["books"]
    assert books["sourceMessages"] == books["carriedMessages"] + 1
    (left,) = books["notCarried"]
    assert (left["standing"], left["messages"]) == ("damaged", 1)
    assert left["queue"].endswith(f"::{queue}")
    missing = ids_of(form, whole) - ids_of(form, out)
    assert missing == ({bad.message_id} if form == "xml" else set())


@pytest.mark.rule("S-217")
def test_encoded_lines_name_what_they_leave_out(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    data, whole, out = store_copy("compacted") / "data", tmp_path / "whole", tmp_path / "out"
    done = journalfs("export", "--format", "lines", data, whole)
    assert (done.returncode, done.stderr) == (0, "source 258; in OUT 258; not in OUT: 0\n")
    bad = first_of(data, "churn.fan.slow")
    with changed(bad.file, bad.offset + bad.size_bytes, b"\xff\xff\xff\xff"):  # the check size
        done = journalfs("export", "--format", "lines", data, out)
    assert done.returncode == EXIT_DAMAGED
    assert f"{bad.file}: at offset " in done.stderr
    lost = set(whole.read_text().splitlines()) - set(out.read_text().splitlines())
    assert len(lost) == 1
    assert f",id@{bad.message_id}," in lost.pop()


@pytest.mark.rule("S-217")
def test_a_file_without_a_header_is_named(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    data = store_copy("compacted") / "data"
    bad = first_of(data, "churn.fan.slow")
    with changed(bad.file, 0, b"\xff" * 4):
        done = journalfs("export", "--format", "lines", data, tmp_path / "out")
    assert done.returncode == EXIT_DAMAGED
    assert f"{bad.file}: at offset 0" in done.stderr
