"""Histories, backups and dead letters: how fast, and in how much memory, they are replayed and made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, conclude

MIB = 1 << 20
GROUP = "History"
TARGET = "scale::scale"
GOAL_MIB_S = 150.0
MEMORY_SHARE = 0.8
"""What half of it takes of memory is at least this, of what all of it takes."""
LETTERS = 100_000
LETTERS_S = 10.0
_CORE = "of processor time (journalfs) and by the clock, whole command."


class Ran(NamedTuple):
    clock_s: float
    processor_s: float
    peak_bytes: int


class _Taken:
    """What was measured of one command, on all of something and on half of it."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {"journalfs": [], "clock": []}
        self.memory: dict[str, list[float]] = {"journalfs": [], "half": []}

    def add(self, ran: Ran, size_bytes: int, *, half: bool) -> None:
        self.memory["half" if half else "journalfs"].append(ran.peak_bytes / MIB)
        if not half:
            self.rates["journalfs"].append(size_bytes / MIB / ran.processor_s)
            self.rates["clock"].append(size_bytes / MIB / ran.clock_s)

    def keep(self, context: Context, name: str, title: str) -> None:
        goal = Goal("journalfs", "at least", GOAL_MIB_S)
        case = Case(f"history-{name}", GROUP, title, "MiB/s", "higher", {}, goal=goal, note=_CORE)
        context.keep(conclude(case, self.rates, context.commit))
        case = Case(
            f"history-{name}-memory",
            GROUP,
            f"{title}: the most memory, and that with half of it",
            "MiB",
            "lower",
            {},
            against="half",
            goal=Goal("ratio", "at least", MEMORY_SHARE),
        )
        context.keep(conclude(case, self.memory, context.commit))


def replay(context: Context) -> None:
    """All of a history of 1 KiB messages into a queue of the same store, which is new each time."""
    taken = _Taken()
    for _ in range(context.runs):
        for half in (True, False):
            store, size_bytes = _with_history(context, half=half)
            ran = _run(context, "replay", str(store), "--to-queue", TARGET)
            taken.add(ran, size_bytes, half=half)
            shutil.rmtree(store)
    taken.keep(context, "replay", "Replay of 1 KiB messages into a queue of the store")


def backup(context: Context) -> None:
    """A closed store of 1 KiB messages into a new directory, and back into a new store."""
    made, restored = _Taken(), _Taken()
    for _ in range(context.runs):
        for half in (True, False):
            store, size_bytes = _closed(context, half=half)
            dest, new = context.work / "backups", context.work / "restored"
            made.add(_run(context, "backup", str(store), str(dest)), size_bytes, half=half)
            restored.add(_run(context, "restore", str(dest), str(new)), size_bytes, half=half)
            for one in (store, dest, new):
                shutil.rmtree(one)
    made.keep(context, "backup", "Backup of a closed store of 1 KiB messages")
    restored.keep(context, "restore", "Restoring that")


def redrive(context: Context) -> None:
    """Dead letters of 1 KiB, of one queue, back into it."""
    count = LETTERS // 100 if context.small else LETTERS
    store = context.work / "letters"
    times: dict[str, list[float]] = {"journalfs": [], "processor": []}
    with_letters = _with_letters(context, count)
    for _ in range(context.runs):
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(with_letters, store)
        ran = _run(context, "dlq", "redrive", str(store), "DLQ::DLQ")
        times["journalfs"].append(ran.clock_s)
        times["processor"].append(ran.processor_s)
    title = f"{count:,} dead letters of 1 KiB back into their queue"
    goal = Goal("journalfs", "at most", LETTERS_S)
    case = Case("history-redrive", GROUP, title, "s", "lower", {}, goal=goal, note="whole command.")
    context.keep(conclude(case, times, context.commit))


def _with_letters(context: Context, count: int) -> Path:
    store, letter = context.work / "with-letters", {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "q"}
    subprocess.run([context.journalfs, "create", str(store)], env=context.environment, check=True)
    with context.mounted_at(store) as mount:
        (mount.path / "a/q").mkdir(parents=True)
        with open(mount.path / "DLQ/DLQ/in.jsonl", "w") as out:
            for number in range(count):
                out.write(json.dumps({"body": f"{number} {'x' * 1000}", "properties": letter}) + "\n")
    return store


def _closed(context: Context, *, half: bool) -> tuple[Path, int]:
    store = context.work / "closed"
    shutil.copytree(context.data("third"), store, ignore=shutil.ignore_patterns("journalfs"))
    files = sorted((store / "journal").glob("*.amq"), key=_file_id)
    for file in files[: len(files) // 2] if half else ():
        file.unlink()
    return store, _size(store / "journal")


def _with_history(context: Context, *, half: bool) -> tuple[Path, int]:
    """A store whose journal is all in its history, or half of it, and the size of that."""
    store, _ = _closed(context, half=half)
    kept = store / "retention"
    kept.mkdir()
    copied_at = time.strftime("%Y%m%d%H%M%S", time.localtime(time.time() - 3600))
    # Without any file a store is not opened for writing.
    for file in sorted((store / "journal").glob("*.amq"), key=_file_id)[:-1]:
        file.rename(kept / f"activemq-data-{copied_at}-{_file_id(file)}.amq")
    settings = f'journal-retention-directory = "{kept}"\njournal-retention-max-bytes = {1 << 40}\n'
    (store / "journalfs.toml").write_text(settings)
    return store, _size(kept)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _file_id(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def _run(context: Context, *words: str) -> Ran:
    """What a command took."""
    start = time.perf_counter()
    pid = os.posix_spawn(
        context.journalfs,
        [context.journalfs, *words],
        context.environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        ],
    )
    _, status, usage = os.wait4(pid, 0)
    took_s = time.perf_counter() - start
    if status:
        raise RuntimeError(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return Ran(took_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
