"""Appends records through the library, in a process of its own.

    python -m scripts.benchmarks.append_worker FOLDER KIND WRITERS BYTES

reads the number of records from each line of standard input, appends them to a new journal in FOLDER with
that many tasks, each waiting for every record, and prints records a second, and how long a record took in
microseconds: the median and what 99 percent took at most.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import time
from pathlib import Path

import trio

from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import open_backend
from journalfs.ids import RecordId
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter

MESSAGE_TYPE = 45


async def appended(folder: Path, kind: BackendKind, writers: int, count: int, body: bytes) -> str:
    """Into a journal that has the files it needs, as one that has run for a while."""
    backend = open_backend(folder, kind)
    block = max(backend.alignment_bytes, len(body) * 2)
    files = 2 + count * block // WriteSettings().file_size_bytes
    writer = JournalWriter.open(backend, WriteSettings(min_files=files, compact_min_files=0), SystemClock())
    ids = itertools.count(1)
    each = count // writers
    taken: list[float] = []

    async def write() -> None:
        for _ in range(each):
            began = time.perf_counter()
            await writer.durable(writer.stage_add(RecordId(next(ids)), MESSAGE_TYPE, body))
            taken.append(time.perf_counter() - began)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        start = time.perf_counter()
        async with trio.open_nursery() as crowd:
            for _ in range(writers):
                crowd.start_soon(write)
        took = time.perf_counter() - start
        nursery.cancel_scope.cancel()
    await writer.close()
    backend.close()
    taken.sort()
    rate = len(taken) / took
    return f"{rate:.1f} {taken[len(taken) // 2] * 1e6:.2f} {taken[-len(taken) // 100 - 1] * 1e6:.2f}"


def main() -> None:
    folder, kind, writers, record_bytes = sys.argv[1:]
    for line in sys.stdin:
        path = Path(folder)
        path.mkdir()
        try:
            told = trio.run(
                appended, path, BackendKind(kind), int(writers), int(line), bytes(int(record_bytes))
            )
        finally:
            shutil.rmtree(path)
        print(told, flush=True)


if __name__ == "__main__":
    main()
