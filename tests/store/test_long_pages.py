"""Pages that are longer than any broker writes, or mostly holes: they cost neither time nor memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import scan_page
from journalfs.limits import PAGE_DAMAGES_MAX, PAGE_FILE_BYTES_MAX, PAGE_HOLE_BYTES_MIN
from journalfs.store.store import JournalStore
from tests.store.conftest import LittleStore
from tests.store.test_pages import ids, small, write_page

ReadLines = Callable[[JournalStore, str], list[bytes]]
PAGE = "paging/some-folder/000000001.page"


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.rule("S-52")
@pytest.mark.parametrize("size_bytes", [2_000_000_000, 1 << 40], ids=["2 GB", "1 TB"])
def test_a_page_that_is_one_hole_behind_its_records(
    little_store: LittleStore, lines_of: ReadLines, size_bytes: int
) -> None:
    path = write_page(little_store, 1, [small(2000), small(2001)])
    whole = path.stat().st_size
    os.truncate(path, size_bytes)
    before, began = resident_bytes(), time.process_time()
    store = little_store.open(index=False)
    assert ids(lines_of(store, "work.a")) == [2000, 2001]
    found = [(one.file, one.offset, one.length_bytes, one.kind) for one in store.core.damage()]
    assert found[0] == (PAGE, whole, min(size_bytes, PAGE_FILE_BYTES_MAX) - whole, "page")
    too_long = size_bytes - PAGE_FILE_BYTES_MAX
    assert found[1:] == ([(PAGE, PAGE_FILE_BYTES_MAX, too_long, "too-long")] if too_long > 0 else [])
    assert time.process_time() - began < 1
    assert resident_bytes() - before < 100_000_000


def test_records_on_both_sides_of_a_hole(little_store: LittleStore, lines_of: ReadLines) -> None:
    path = write_page(little_store, 1, [small(2000)])
    with path.open("r+b") as file:
        file.seek(1_500_000_000)
        file.write(small(2001) + small(2002))
    before = resident_bytes()
    store = little_store.open(index=False)
    assert ids(lines_of(store, "work.a")) == [2000, 2001, 2002]
    assert [(one.offset, one.kind) for one in store.core.damage()] == [(len(small(2000)), "page")]
    assert resident_bytes() - before < 100_000_000


def test_what_is_noted_as_a_hole(little_store: LittleStore) -> None:
    """Short ones are not, and a file without any has none."""
    path = write_page(little_store, 1, [small(2000)])
    plain = MappedFile(path)
    plain.note_holes(PAGE_HOLE_BYTES_MIN)
    assert plain.holes == ()
    with path.open("r+b") as file:
        for offset in (PAGE_HOLE_BYTES_MIN // 2, 4 * PAGE_HOLE_BYTES_MIN):
            file.seek(offset)
            file.write(small(offset) + small(offset + 1))
    sparse = MappedFile(path)
    sparse.note_holes(PAGE_HOLE_BYTES_MIN)
    ((start, end),) = sparse.holes
    assert PAGE_HOLE_BYTES_MIN // 2 < start < end <= 4 * PAGE_HOLE_BYTES_MIN
    assert [entry.message_id for entry in scan_page(sparse) if not entry.undecoded] == [
        2000,
        PAGE_HOLE_BYTES_MIN // 2,
        PAGE_HOLE_BYTES_MIN // 2 + 1,
        4 * PAGE_HOLE_BYTES_MIN,
        4 * PAGE_HOLE_BYTES_MIN + 1,
    ]


def test_countless_damaged_records_are_listed_as_one(little_store: LittleStore, lines_of: ReadLines) -> None:
    broken = b"{" + (9).to_bytes(4) + bytes(9) + b"}"
    write_page(little_store, 1, [small(2000), *[broken] * (PAGE_DAMAGES_MAX + 50), small(2001)])
    store = little_store.open(index=False)
    assert ids(lines_of(store, "work.a")) == [2000, 2001]
    found = store.core.damage()
    assert len(found) == PAGE_DAMAGES_MAX + 1
    assert sum(one.length_bytes for one in found) == (PAGE_DAMAGES_MAX + 50) * len(broken)
    assert found[-1].reason.startswith("50 more")


def test_a_link_to_a_device_is_no_missing_file(little_store: LittleStore) -> None:
    path = write_page(little_store, 1, [])
    path.unlink()
    path.symlink_to("/dev/zero")
    (found,) = little_store.open(index=False).core.damage()
    assert (found.file, found.kind) == (PAGE, "not-a-file")
    assert "not a file of the store" in found.reason
