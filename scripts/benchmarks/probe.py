"""What must run in a process of its own: opening a store, and how much memory that takes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from scripts.benchmarks.measure import anonymous_bytes


def open_one(data: Path) -> dict[str, float]:
    """Open a store and let go of it. Times in seconds, memory in bytes."""
    from journalfs.store import open_store  # noqa: PLC0415  (its import is not what is measured)

    before = anonymous_bytes("self")
    start = time.perf_counter()
    store = open_store(data)
    opened = time.perf_counter()
    after = anonymous_bytes("self")
    messages = sum(len(queue) for address in store.addresses() for queue in address.queues())
    state_bytes = store.status()["stateBytes"]
    closing = time.perf_counter()
    store.close()
    return {
        "open_s": opened - start,
        "close_s": time.perf_counter() - closing,
        "grown_bytes": after - before,
        "state_bytes": state_bytes,
        "messages": messages,
    }


if __name__ == "__main__":
    print(json.dumps({"open": open_one}[sys.argv[1]](Path(sys.argv[2]))))
