"""Publishes line after line to a store in a database, and prints each that is durable."""

from __future__ import annotations

import sys

from journalfs.store.write.store import WritingStore
from tests.broker.writing import publish, write_in


async def on_and_on(store: WritingStore) -> None:
    for number in range(1000):
        text = f"life {sys.argv[2]} line {number}"
        await publish(store, "orders", None, "in.txt", f"{text}\n".encode())
        print(text, flush=True)


if __name__ == "__main__":
    write_in(sys.argv[1], on_and_on)  # type: ignore[arg-type]
