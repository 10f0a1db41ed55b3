"""Scanning, loading and memory: what the library does before anything is mounted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, can_drop_caches, conclude, drop_caches, seconds

READ_BYTES = 1024 * 1024


def journal_files(data: Path) -> list[Path]:
    return sorted((data / "journal").glob("*.amq"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))


def read_through(files: list[Path]) -> int:
    """Read files from end to end into one buffer, as `cat` does. Returns the bytes read."""
    buffer = memoryview(bytearray(READ_BYTES))
    total = 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while got := file.readinto(buffer):
                total += got
    return total


def scan_through(files: list[Path]) -> int:
    """Find and check every record of journal files. Returns how many there are."""
    from journalfs.engine.buffers import MappedFile  # noqa: PLC0415  (the command line starts without the core)
    from journalfs.engine.scan import scan_journal  # noqa: PLC0415
    from journalfs.format.journal_file import read_header  # noqa: PLC0415

    records = 0
    for path in files:
        with path.open("rb") as file:
            header = read_header(file.read(16))
        mapped = MappedFile(path)
        try:
            records += scan_journal(mapped, rid=header.rid, version=header.version).count
        finally:
            mapped.close()
    return records


def scan(context: Context) -> None:
    """Records a second of C against bytes a second of read(2), both from the page cache."""
    for name, what in (("bulk", "260,000 messages of 2.7 kB"), ("million", "1,000,000 messages of 0.5 kB")):
        files = journal_files(context.data(name))
        size = sum(path.stat().st_size for path in files)
        context.take(
            Case(
                f"scan-{name}",
                "Engine",
                f"Scan {what}",
                "GB/s",
                "higher",
                {"journalfs": _rate(scan_through, files, size), "read(2)": _rate(read_through, files, size)},
                against="read(2)",
                goal=Goal("journalfs", "at least", 1.0),
                note="one thread; records have no checksum.",
            )
        )


def _rate(work: Callable[[list[Path]], int], files: list[Path], size: int) -> Callable[[], float]:
    return lambda: size / seconds(lambda: work(files)) / 1e9


def load(context: Context) -> None:
    """Opening stores through the library, in a fresh process each time, with and without the index."""
    for name, title in (("bulk", "260,000 messages, 700 MB"), ("million", "1,000,000 messages, 600 MB")):
        _load_one(context, name, title)


def _opened(context: Context, name: str) -> dict[str, float]:
    answer: dict[str, float] = json.loads(context.probe("open", str(context.data(name))))
    return answer


def _load_one(context: Context, name: str, title: str) -> None:
    def absent() -> float:
        context.forget_index(name)
        return _opened(context, name)["open_s"]

    def present() -> float:
        return _opened(context, name)["open_s"]

    def read() -> float:
        return seconds(lambda: read_through(journal_files(context.data(name))))

    context.data(name)
    values: dict[str, list[float]] = {"journalfs": [], "index absent": [], "read(2)": []}
    for _ in range(context.runs + 1):
        # Not in changing order: the index that one makes is what the other reads.
        values["index absent"].append(absent())
        values["journalfs"].append(present())
        values["read(2)"].append(read())
    case = Case(
        f"load-{name}",
        "Engine",
        f"Open {title}, warm",
        "s",
        "lower",
        {},
        against="index absent",
        note="index present; a new process each time.",
    )
    context.keep(conclude(case, {side: taken[1:] for side, taken in values.items()}, context.commit))
    if can_drop_caches():
        _load_cold(context, name, title)


def _load_cold(context: Context, name: str, title: str) -> None:
    values: dict[str, list[float]] = {"journalfs": [], "index absent": [], "read(2)": []}
    for _ in range(context.runs):
        context.forget_index(name)
        drop_caches()
        values["index absent"].append(_opened(context, name)["open_s"])
        drop_caches()
        values["journalfs"].append(_opened(context, name)["open_s"])
        drop_caches()
        values["read(2)"].append(seconds(lambda: read_through(journal_files(context.data(name)))))
    case = Case(
        f"load-{name}-cold",
        "Engine",
        f"Open {title}, cold",
        "s",
        "lower",
        {},
        against="index absent",
    )
    context.keep(conclude(case, values, context.commit))


def memory(context: Context) -> None:
    """What a live message costs in memory: the core's own count and what the process grew by."""
    for name in ("hundred", "million"):
        live = context.messages(name)
        context.forget_index(name)
        rounds: dict[str, list[float]] = {
            "journalfs": [],
            "process": [],
            "process, index absent": [],
        }
        for _ in range(context.runs):
            context.forget_index(name)
            absent = _opened(context, name)
            present = _opened(context, name)
            rounds["journalfs"].append(present["state_bytes"] / live)
            rounds["process"].append(present["grown_bytes"] / live)
            rounds["process, index absent"].append(absent["grown_bytes"] / live)
        case = Case(
            f"memory-{name}",
            "Engine",
            f"Memory a message, {live:,} messages",
            "bytes",
            "lower",
            {},
            goal=Goal("journalfs", "at most", 100.0),
            note="`journalfs` is the core's count, `process` the growth of anonymous memory.",
        )
        context.keep(conclude(case, rounds, context.commit))
