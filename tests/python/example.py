"""A program that uses the library, as its users write one: `mypy --strict` checks it, and a test runs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

import journalfs
from journalfs import Message, Queue, Store


def totals(queue: Queue) -> dict[str, float]:
    """By region."""
    found: dict[str, float] = {}
    for message in queue.where("total > 100"):
        region = str(message.properties["region"])
        found[region] = found.get(region, 0.0) + float(message.properties["total"])
    return found


def first_sent(messages: Sequence[Message]) -> datetime | None:
    return min((one.timestamp for one in messages if one.timestamp is not None), default=None)


def work(store: Store) -> list[str]:
    """Handle what is there."""
    handled: list[str] = []
    while True:
        try:
            with store["jobs::jobs"].take(timeout=0) as message:
                handled.append(message.body)
        except journalfs.NoMessage:
            return handled


def main(path: str) -> None:
    with journalfs.open(path, write=True) as store:
        billing = store.create("orders::billing")
        store.create("jobs::jobs")
        with store.transaction():
            for number in range(1, 4):
                store["orders"].publish(
                    f"order {number}", priority=9, properties={"region": "EU", "total": 100.0 * number}
                )
            store["jobs"].publish({"resize": "4711.png"}, delay=None, duplicate_id="job-1")
        print(totals(billing), first_sent(list(billing)) is not None, work(store))


if __name__ == "__main__":
    main(sys.argv[1])
