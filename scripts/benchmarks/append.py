"""Durable appends of 1 KiB through the library: one writer against bare synced writes, and crowds."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import trio

from journalfs.clock import SystemClock
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import open_backend
from journalfs.ids import RecordId
from journalfs.journal.write_settings import WriteSettings
from journalfs.journal.writer import JournalWriter
from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal

KINDS = (BackendKind.NIO, BackendKind.MAPPED, BackendKind.AIO)
BODY = bytes(1024)
MESSAGE_TYPE = 45
RECORDS = {1: 2_000, 8: 8_000, 64: 20_000}
"""Appended in one round, by number of writers."""
SMALL_DIVISOR = 20
LEAST_RATIO = 0.85
WHOLE = 0.99


def append(context: Context) -> None:
    for kind in KINDS:
        for writers in RECORDS:
            _measure(context, kind, writers)


def _measure(context: Context, kind: BackendKind, writers: int) -> None:
    count = RECORDS[writers] // (SMALL_DIVISOR if context.small else 1)
    waits: list[float] = []
    sides: dict[str, Callable[[], float]] = {"journalfs": lambda: _rate(context, kind, writers, count, waits)}
    if writers == 1:
        sides["bare synced writes"] = lambda: _bare(context, kind, count)
    context.take(
        Case(
            f"append-{kind.value.lower()}-{writers}",
            "append",
            f"durable appends of 1 KiB, {kind.value}, {writers} at once",
            "records/s",
            "higher",
            sides,
            against="bare synced writes" if writers == 1 else None,
            goal=Goal("ratio", "at least", LEAST_RATIO) if writers == 1 else None,
        )
    )
    waits.sort()
    middle, late = waits[len(waits) // 2], waits[int(len(waits) * WHOLE)]
    print(f"  waited for durability: median {middle * 1e6:.0f} us, 99% under {late * 1e6:.0f} us", flush=True)


def _bare(context: Context, kind: BackendKind, count: int) -> float:
    program = context.program("synced_writes")
    command = [str(program), kind.value, str(count), str(context.work / "bare.dat")]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _rate(context: Context, kind: BackendKind, writers: int, count: int, waits: list[float]) -> float:
    """Records a second, into a journal that has the files it needs, as one that has run for a while."""
    folder = context.work / "append"
    folder.mkdir()
    try:
        return trio.run(_appended, folder, kind, writers, count, waits)
    finally:
        shutil.rmtree(folder)


async def _appended(folder: Path, kind: BackendKind, writers: int, count: int, waits: list[float]) -> float:
    backend = open_backend(folder, kind)
    block = max(backend.alignment_bytes, len(BODY) * 2)
    files = 2 + count * block // WriteSettings().file_size_bytes
    writer = JournalWriter.open(backend, WriteSettings(min_files=files, compact_min_files=0), SystemClock())
    ids = itertools.count(1)
    each = count // writers

    async def write() -> None:
        for _ in range(each):
            began = time.perf_counter()
            await writer.durable(writer.stage_add(RecordId(next(ids)), MESSAGE_TYPE, BODY))
            waits.append(time.perf_counter() - began)

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
    return each * writers / took
