"""File ids that cannot be true, and files that were cut off where nothing shows it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.errors import Damaged
from journalfs.records.files.directory import read_directory
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from tests.damage.cases import changed
from tests.store.appending import JournalAppender

Copy = Callable[[str], Path]


def shown(data: Path) -> tuple[int, list[tuple[str, int, int, str]]]:
    """How many messages there are, and each damage."""
    store = open_store(data, index=False)
    try:
        damage = [(one.file, one.offset, one.length_bytes, one.kind) for one in store.core.damage()]
        return sum(len(queue) for queue in store.queues()), damage
    finally:
        store.close()


@pytest.mark.protects("P-1")
@pytest.mark.rule("S-49")
@pytest.mark.parametrize(
    ("name", "number", "file_id", "messages"),
    [
        ("orders-basic", 1, 0, 301),
        ("orders-basic", 1, -1, 301),
        ("aio", 1, 0, 94),
        ("killed", 3, 2, 3088),
        ("killed", 3, 1, 3088),
        ("killed", 3, 8, 3088),
        ("killed", 2, 2**36 + 2, 3088),
        ("killed", 2, 2**31 + 9, 3088),
    ],
)
def test_a_file_id_that_cannot_be_true(
    name: str, number: int, file_id: int, messages: int, store_copy: Copy
) -> None:
    data = store_copy(name) / "data"
    file = f"journal/activemq-data-{number}.amq"
    before = shown(data)
    assert before[0] == messages
    with changed(data / file, 8, file_id.to_bytes(8, signed=True)):
        assert shown(data) == (messages, sorted([*before[1], (file, 0, 16, "bad-header")]))
        content = (data / file).read_bytes()
        with pytest.raises(Damaged):
            open_for_writing(data, index=False)
        assert (data / file).read_bytes() == content


@pytest.mark.protects("P-1")
@pytest.mark.rule("S-49")
@pytest.mark.parametrize(
    ("name", "number", "file_id", "hidden"),
    [
        ("amqp-exotic", 1, 3, 49),
        ("mapped", 1, 5, 89),
        ("orders-basic", 1, 200, 253),
        ("killed", 5, 9, 462),
        ("killed", 7, 4000, 391),
        ("thousand-queues", 2, 99, 5240),
    ],
)
def test_a_header_that_hides_messages(
    name: str, number: int, file_id: int, hidden: int, store_copy: Copy
) -> None:
    """It looks like that of a file used again, but no file that was written later says that they are gone."""
    data = store_copy(name) / "data"
    file = f"journal/activemq-data-{number}.amq"
    messages, before = shown(data)
    with changed(data / file, 8, file_id.to_bytes(8)):
        store = open_store(data, index=False)
        listed = {one.file: one for one in store.core.damage()}
        assert listed[file].kind == "doubtful-header"
        assert f"{hidden} messages" in listed[file].reason
        content = (data / file).read_bytes()
        with pytest.raises(Damaged):
            open_for_writing(data, index=False)
        assert (data / file).read_bytes() == content
    assert shown(data) == (messages, before)


def test_a_file_that_was_used_again_keeps_its_id(tmp_path: Path) -> None:
    """Its id is above that of the records an earlier life left; a compaction's output has records first."""
    for file_id in (3, 4):
        JournalAppender.create(tmp_path / f"activemq-data-{file_id}.amq", file_id).send(100 + file_id, 1)
    used_again = JournalAppender.create(tmp_path / "activemq-data-1.amq", 2)
    used_again.send(102, 1)
    with changed(used_again.path, 8, (5).to_bytes(8)):
        listing = read_directory(tmp_path, extension="amq", relative_to=tmp_path)
    assert [file.file_id for file in listing.files] == [3, 4, 5]
    assert listing.problems == ()


@pytest.mark.rule("S-49")
@pytest.mark.parametrize(
    ("name", "size", "whole"),
    [("orders-basic", 72140, 10485760), ("orders-basic", 16, 10485760), ("aio", 12288, 1048576)],
)
def test_a_file_cut_off_between_records(name: str, size: int, whole: int, store_copy: Copy) -> None:
    data = store_copy(name) / "data"
    os.truncate(data / "journal/activemq-data-1.amq", size)
    assert ("journal/activemq-data-1.amq", size, whole - size, "short-file") in shown(data)[1]


@pytest.mark.rule("S-49")
@pytest.mark.parametrize(
    ("sizes", "short"),
    [
        ([1048576, 1048576, 102400], []),  # the last one that is left of another setting
        ([1000000, 1000000, 1048576], []),
        ([1048576, 1048576, 500000], []),
        ([1048576, 1048576, 99328], [2]),
        ([1048576, 1048576, 4096], [2]),
        ([65000], [0]),
        ([65536], []),
        ([16, 16], [0, 1]),
    ],
)
def test_files_of_several_sizes(sizes: list[int], short: list[int], tmp_path: Path) -> None:
    for number, size in enumerate(sizes):
        JournalAppender.create(tmp_path / f"activemq-data-{number}.amq", number + 1, size_bytes=size)
    listing = read_directory(tmp_path, extension="amq", relative_to=tmp_path)
    assert [one.file for one in listing.problems] == [f"activemq-data-{number}.amq" for number in short]


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("name", ["activemq-data-4.amq", "activemq-data-40.amq"])
def test_a_file_that_another_one_was_copied_over(name: str, store_copy: Copy) -> None:
    """Nothing else tells that a file is lost. What is there is shown once."""
    data = store_copy("killed") / "data"
    shutil.copy(data / "journal/activemq-data-5.amq", data / "journal" / name)
    messages, damage = shown(data)
    # The fourth held the end of a transaction.
    undecided = [one[-1] for one in damage[:-1]]
    assert undecided == ["undecided-transaction"] * (name == "activemq-data-4.amq")
    assert damage[-1] == ("journal/activemq-data-5.amq", 0, 16, "same-id")
    assert messages == (2671 if name == "activemq-data-4.amq" else 3088)
