"""What a page holds for each queue, added up by the C core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from journalfs.engine._native import lib
from journalfs.engine.arrays import struct_list
from journalfs.engine.pages import PageScan


@dataclass(frozen=True, slots=True)
class PageShare:
    """What a page holds for one queue."""

    records: int
    line_bytes: int
    """Of their lines without the queue's prefix, when all of them are due. Those of large messages are right
    only if these were measured with their bodies.
    """


def page_shares(scan: PageScan) -> dict[int, PageShare]:
    """By queue id, rising."""

    def fill(out: Any, room: int, count: Any) -> int:
        return int(lib.jfs_page_queues(scan.pointer, out, room, count))

    # Mostly all queues have the same, which is kept once then: an address may have a thousand of them.
    equal: dict[PageShare, PageShare] = {}
    shares: dict[int, PageShare] = {}
    for found in struct_list("jfs_page_queue", fill, "adding up a page's queues"):
        share = PageShare(found.records, found.line_bytes)
        shares[found.queue_id] = equal.setdefault(share, share)
    return dict(sorted(shares.items()))
