"""Records of any readable file (`journalfs.engine.backend.Viewed`), for whoever goes on writing it."""

from __future__ import annotations

from journalfs.engine._native import ffi, lib
from journalfs.engine.backend import Viewed
from journalfs.engine.scan import Scan
from journalfs.engine.status import check


def scan_view(
    view: Viewed, *, rid: int, version: int, start: int = 16, any_rid: bool = False, doing: str
) -> Scan:
    """Records from `start` to the end of the file, with `any_rid` those of earlier lives too. Raises
    FileTorn, CoreRefused.
    """
    options = ffi.new("jfs_scan_options *")
    options.start_offset = min(start, view.size_bytes)
    options.stop_offset = view.size_bytes
    options.rid = rid
    options.version = version
    options.flags = lib.JFS_SCAN_ANY_RID if any_rid else 0
    out = ffi.gc(ffi.new("jfs_scan *"), lib.jfs_scan_free)
    check(lib.jfs_scan_journal(view.pointer, view.size_bytes, options, out), doing)
    return Scan(out)
