"""Measures iterating over a queue with `import journalfs`, beside `json.loads` of the same lines.

    python -m scripts.benchmarks.iterating [--messages 1000000] [--rounds 5]

Processor time of the process, all of its threads, for each message; every side once a round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import journalfs
from tests.tools.make_store import StoreSpec, make_store

LINES_AT_ONCE: Final = 50_000
BODY_CHARS: Final = 100


def headers(queue: journalfs.Queue) -> int:
    found = 0
    for message in queue:
        found += (message.id or 0) + (message.priority or 0) + (message.timestamp_ms or 0)
    return found


def datetimes(queue: journalfs.Queue) -> int:
    found = 0
    for message in queue:
        found += (message.id or 0) + (message.priority or 0) + (message.timestamp is not None)
    return found


def properties(queue: journalfs.Queue) -> int:
    return sum(len(message.properties) for message in queue)


def bodies(queue: journalfs.Queue) -> int:
    return sum(len(message.body) for message in queue)


def kept(queue: journalfs.Queue) -> int:
    return len(list(queue))


SIDES: Final[Mapping[str, Callable[[journalfs.Queue], int]]] = {
    "id, priority, timestamp_ms": headers,
    "id, priority, timestamp": datetimes,
    "properties": properties,
    "body": bodies,
    "list(queue)": kept,
}


def loaded_us(queue: journalfs.Queue) -> float:
    """Processor time of `json.loads` of a line, in microseconds."""
    spent_s, count, some = 0.0, 0, list[bytes]()

    def load() -> float:
        began = time.process_time()
        for line in some:
            json.loads(line)
        return time.process_time() - began

    for line in queue.lines():
        some.append(line)
        if len(some) == LINES_AT_ONCE:
            spent_s, count = spent_s + load(), count + len(some)
            some.clear()
    return (spent_s + load()) / (count + len(some)) * 1e6


def rounds_of(store: journalfs.Store, queue: journalfs.Queue, rounds: int) -> Mapping[str, Sequence[float]]:
    messages = len(queue)
    times: dict[str, list[float]] = {"json.loads": [], **{name: [] for name in SIDES}}
    for round_number in range(rounds + 1):
        measured = {"json.loads": loaded_us(queue)}
        for name, side in SIDES.items():
            began = time.process_time()
            side(queue)
            measured[name] = (time.process_time() - began) / messages * 1e6
        if round_number:  # the first is thrown away
            for name, value in measured.items():
                times[name].append(value)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        make_store(path, StoreSpec(messages=arguments.messages, body_chars=BODY_CHARS))
        with journalfs.open(path) as store:
            times = rounds_of(store, max(store.queues(), key=len), arguments.rounds)
    beside = times["json.loads"]
    for name, values in times.items():
        ratios = sorted(whole / one for whole, one in zip(beside, values, strict=True))
        print(
            f"{name}: {statistics.median(values):.3f} us, {statistics.median(ratios):.1f} "
            f"({ratios[0]:.1f}-{ratios[-1]:.1f})"
        )


if __name__ == "__main__":
    main()
