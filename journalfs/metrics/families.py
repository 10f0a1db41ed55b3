"""The list of all metrics: names, kinds, labels, and what each says.

Names and units are Prometheus' own: base units (seconds, bytes), `_total` at the end of counters. The page on
watching has this list as a table, which a test holds against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

GAUGE: Final = "gauge"
COUNTER: Final = "counter"

OF_QUEUE: Final = ("address", "queue")
OF_ADDRESS: Final = ("address",)


class Family(NamedTuple):
    """A metric: samples of one name that differ in the values of their labels."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str
    joined: Literal["sum", "max"] = "sum"
    """How samples of queues or addresses become one where there are too many."""


FAMILIES: Final = (
    Family("journalfs_up", GAUGE, (), "1 if the store was read, 0 if it could not be."),
    Family("journalfs_read_only", GAUGE, (), "1 if this process only reads the store."),
    Family("journalfs_live_broker", GAUGE, (), "1 while a broker, or another writer, has the store."),
    Family("journalfs_write_failed", GAUGE, (), "1 once a write failed: nothing is written any more."),
    Family("journalfs_store_gone", GAUGE, (), "1 while the store's directories or database are away."),
    Family("journalfs_whole", GAUGE, (), "1 where nothing is damaged, undecided or missing."),
    Family("journalfs_damaged_places", GAUGE, (), "Losses that `journalfs check` lists."),
    Family("journalfs_account_entries", GAUGE, ("standing", "kind"), "Rows of `journalfs check`."),
    Family(
        "journalfs_account_messages",
        GAUGE,
        ("standing", "bound"),
        "Messages of those rows, and how sure the number is.",
    ),
    Family("journalfs_prepared_transactions", GAUGE, (), "Prepared transactions that nobody decided."),
    Family("journalfs_disk_size_bytes", GAUGE, ("part",), "Size of the disk that a part of the store is on."),
    Family("journalfs_disk_free_bytes", GAUGE, ("part",), "Room on it for users other than root."),
    Family(
        "journalfs_disk_room_bytes",
        GAUGE,
        ("part",),
        "Room until `max-disk-usage` or `min-disk-free` is reached; below 0 beyond it.",
    ),
    Family("journalfs_journal_files", GAUGE, ("state",), "Files of the message journal, by state."),
    Family("journalfs_state_bytes", GAUGE, (), "Memory of the live messages' state."),
    Family("journalfs_events_total", COUNTER, ("event",), "Lines of events.jsonl since opening."),
    Family("journalfs_refused_total", COUNTER, ("errno",), "Refused changes since mounting, by errno."),
    Family(
        "journalfs_loop_lag_seconds",
        GAUGE,
        ("of",),
        "Turns of the loop that answers requests: the longest, and percentiles of the last ones.",
    ),
    Family("journalfs_slow_turns_total", COUNTER, (), "Turns of over 50 ms: nobody else was served."),
    Family("journalfs_front_total", COUNTER, ("of",), "Requests answered in C, or why they were not."),
    Family("journalfs_selection_bytes", GAUGE, (), "Memory for selections of this process."),
    Family("journalfs_backup_timestamp_seconds", GAUGE, ("place",), "When the newest backup there was made."),
    Family("journalfs_scrub_timestamp_seconds", GAUGE, (), "When the last whole scrub of the store ended."),
    Family("journalfs_queue_messages", GAUGE, OF_QUEUE, "Messages, also those not due or delivering."),
    Family(
        "journalfs_queue_oldest_age_seconds",
        GAUGE,
        OF_QUEUE,
        "Age of the oldest message of the journal; of pages none is known.",
        "max",
    ),
    Family(
        "journalfs_queue_delivering_messages",
        GAUGE,
        OF_QUEUE,
        "Held by prepared transactions, or by readers of `.take`.",
    ),
    Family("journalfs_queue_scheduled_messages", GAUGE, OF_QUEUE, "Not due yet."),
    Family("journalfs_queue_paged_messages", GAUGE, OF_QUEUE, "In pages."),
    Family("journalfs_queue_body_bytes", GAUGE, OF_QUEUE, "Bodies of live messages in the journal."),
    Family("journalfs_queue_consumers", GAUGE, OF_QUEUE, "Readers of `.take`; a broker's are not known."),
    Family("journalfs_queue_added_messages_total", COUNTER, OF_QUEUE, "Messages that came."),
    Family(
        "journalfs_queue_acknowledged_messages_total",
        COUNTER,
        OF_QUEUE,
        "Messages that were acknowledged, removed or moved; beside a broker all that left.",
    ),
    Family("journalfs_queue_expired_messages_total", COUNTER, OF_QUEUE, "Messages whose time was over."),
    Family("journalfs_queue_killed_messages_total", COUNTER, OF_QUEUE, "Delivered in vain too often."),
    Family(
        "journalfs_queue_replaced_messages_total",
        COUNTER,
        OF_QUEUE,
        "Messages that newer ones replaced: in a ring, or a last-value queue.",
    ),
    Family(
        "journalfs_address_size_bytes", GAUGE, OF_ADDRESS, "Memory that its messages would take in a broker."
    ),
    Family("journalfs_address_page_files", GAUGE, OF_ADDRESS, "Page files."),
    Family("journalfs_address_page_bytes", GAUGE, OF_ADDRESS, "Size of the page files."),
    Family("journalfs_address_limit_reached", GAUGE, OF_ADDRESS, "1 while a limit acts on it.", "max"),
    Family("journalfs_address_blocked_writers", GAUGE, OF_ADDRESS, "Writers that wait for room."),
    Family("journalfs_address_dropped_messages_total", COUNTER, OF_ADDRESS, "Dropped for want of room."),
    Family(
        "journalfs_address_duplicate_messages_total", COUNTER, OF_ADDRESS, "Messages left out as duplicates."
    ),
)
"""In the order in which they are printed."""

BY_NAME: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}
