"""Columns of a listing and schedules of a page's records, many at once."""

from __future__ import annotations

from array import array

from journalfs.engine._native import ffi, lib
from journalfs.engine.pages import PageScan
from journalfs.engine.state_types import Listing
from journalfs.engine.status import check


def page_listing(scan: PageScan, indexes: array[int]) -> Listing:
    """What a directory listing shows of these records, by column."""
    count = len(indexes)
    found = Listing(
        array("q", bytes(8 * count)),
        array("Q", bytes(8 * count)),
        array("q", bytes(8 * count)),
        array("B", bytes(count)),
    )
    if count:
        columns = ffi.new("jfs_listing *")
        # Held until the call is over: assigning to a struct's field keeps nothing alive.
        held = [
            ffi.from_buffer("int64_t[]", found.ids),
            ffi.from_buffer("uint64_t[]", found.sizes),
            ffi.from_buffer("int64_t[]", found.mtimes_ms),
            ffi.from_buffer("uint8_t[]", found.suffixes),
        ]
        columns.ids, columns.sizes, columns.mtimes_ms, columns.suffixes = held
        numbers = ffi.from_buffer("uint32_t[]", indexes)
        check(lib.jfs_page_listing(scan.pointer, numbers, count, columns), "listing a page")
    return found


def page_schedules(scan: PageScan, indexes: array[int], *, now_ms: int) -> array[int]:
    """For each record the delivery time it has of its own if that is after `now_ms`, in epoch milliseconds;
    else 0.
    """
    times = array("q", bytes(8 * len(indexes)))
    if indexes:
        numbers = ffi.from_buffer("uint32_t[]", indexes)
        out = ffi.from_buffer("int64_t[]", times)
        check(
            lib.jfs_page_schedules(scan.pointer, numbers, len(indexes), now_ms, out),
            "reading schedules of a page",
        )
    return times
