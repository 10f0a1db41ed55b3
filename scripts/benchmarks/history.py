"""Histories: how fast one is replayed, and how much memory that takes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, conclude

MIB = 1 << 20
TARGET = "scale::scale"
GOAL_MIB_S = 150.0
MEMORY_TIMES = 1.25
"""What twice the history may take of memory, of what half of it takes."""


def replay(context: Context) -> None:
    """All of a history of 1 KiB messages into a queue of the same store, which is new each time. The whole
    command counts; memory is the most that it ever had.
    """
    rates: dict[str, list[float]] = {"journalfs": []}
    memory: dict[str, list[float]] = {"all": [], "half": []}
    for _ in range(context.runs):
        for part in ("half", "all"):
            store, size_bytes = _with_history(context, half=part == "half")
            took_s, peak_bytes = _run(
                context, [context.journalfs, "replay", str(store), "--to-queue", TARGET]
            )
            memory[part].append(peak_bytes / MIB)
            if part == "all":
                rates["journalfs"].append(size_bytes / MIB / took_s)
            shutil.rmtree(store)
    size = "1 KiB messages of a history into a queue of the store"
    case = Case(
        "history-replay",
        "History",
        f"Replay of {size}",
        "MiB/s",
        "higher",
        {},
        goal=Goal("journalfs", "at least", GOAL_MIB_S),
        note="whole command.",
    )
    context.keep(conclude(case, rates, context.commit))
    case = Case(
        "history-replay-memory",
        "History",
        "The most memory of that, and of half of the history",
        "MiB",
        "lower",
        {},
        against="half",
        goal=Goal("ratio", "at most", MEMORY_TIMES),
    )
    context.keep(conclude(case, memory, context.commit))


def _with_history(context: Context, *, half: bool) -> tuple[Path, int]:
    """A store whose journal is all in its history, or half of it, and the size of that."""
    store = context.work / "with-history"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(context.data("third"), store, ignore=shutil.ignore_patterns("journalfs"))
    kept = store / "retention"
    kept.mkdir()
    copied_s = time.time() - 3600
    files = sorted((store / "journal").glob("*.amq"), key=_file_id)
    for number, file in enumerate(files[:-1]):  # without any file a store is not opened for writing
        copied_at = time.strftime("%Y%m%d%H%M%S", time.localtime(copied_s))
        if half and number < len(files) // 2:
            file.unlink()
        else:
            file.rename(kept / f"activemq-data-{copied_at}-{_file_id(file)}.amq")
    settings = f'journal-retention-directory = "{kept}"\njournal-retention-max-bytes = {1 << 40}\n'
    (store / "journalfs.toml").write_text(settings)
    return store, sum(file.stat().st_size for file in kept.iterdir())


def _file_id(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def _run(context: Context, command: list[str]) -> tuple[float, int]:
    """Seconds that a command took, and the most memory that it had."""
    start = time.perf_counter()
    pid = os.posix_spawn(
        command[0],
        command,
        context.environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        ],
    )
    _, status, usage = os.wait4(pid, 0)
    took_s = time.perf_counter() - start
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return took_s, usage.ru_maxrss * 1024
