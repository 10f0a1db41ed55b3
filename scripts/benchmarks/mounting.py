"""The mount: how fast it comes up, lists, reads and answers."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from scripts.benchmarks.broker import BrokerInstance
from scripts.benchmarks.context import Context, Mounted, wait_until
from scripts.benchmarks.measure import (
    Case,
    Goal,
    anonymous_bytes,
    can_drop_caches,
    conclude,
    drop_caches,
    run_quietly,
    seconds,
)

QUEUE = Path("scale/scale")
OPERATIONS = {
    "getattr": "getattr",
    "missing": "missing name",
    "read": "4 KiB direct read",
    "open": "open and close",
}

OPERATIONS_NOTE = "medians of each run; opening a part prepares 65,536 lines, the C filesystem nothing."


def mount_time(context: Context) -> None:
    """From the command to a serving mount, with and without the index, against the broker's own start."""
    for name, title in (("million", "1,000,000 messages"), ("bulk", "260,000 messages")):
        rounds: dict[str, list[float]] = {"journalfs": [], "index absent": []}
        for _ in range(context.runs):
            context.forget_index(name)
            for side in ("index absent", "journalfs"):
                with context.mounted(name) as mounted:
                    start = time.perf_counter()
                    parts = _parts(mounted)
                    rounds[side].append(mounted.mount_s + time.perf_counter() - start)
                    assert parts, "the queue has no part"
        goal = Goal("journalfs", "at most", 1.0) if name == "million" else None
        case = Case(
            f"mount-{name}",
            "Mount",
            f"Mount and `ls`, {title}",
            "s",
            "lower",
            {},
            against="index absent",
            goal=goal,
            note="whole command, index present.",
        )
        context.keep(conclude(case, rounds, context.commit))


def against_broker(context: Context, *, writing: bool = False) -> None:
    """Mounting against starting the broker on a copy of the same store until it says it is active."""
    instance = BrokerInstance.create(context.work / "broker", context.data("bulk"))
    if instance is None:
        print("broker-start: left out, there is no Artemis distribution", flush=True)
        return
    rounds: dict[str, list[float]] = {"journalfs": [], "index absent": [], "broker start": []}
    for _ in range(context.runs):
        context.forget_index("bulk")
        for side in ("index absent", "journalfs"):
            with context.mounted("bulk", writing=writing) as mounted:
                rounds[side].append(mounted.mount_s)
        rounds["broker start"].append(instance.start_and_stop())
    for side, other, factor in (("journalfs", "index present", 60.0), ("index absent", "index absent", 10.0)):
        case = Case(
            f"broker-start-{'writing-' if writing else ''}{other.replace(' ', '-')}",
            "Mount",
            f"Mount 700 MB{' for writing' if writing else ''}, {other}",
            "s",
            "lower",
            {},
            against="broker start",
            goal=Goal("ratio", "at least", factor),
        )
        values = {"journalfs": rounds[side], "broker start": rounds["broker start"]}
        context.keep(conclude(case, values, context.commit))


def listing(context: Context) -> None:
    """`ls` of all messages against the same names on disk and in the minimal filesystem."""
    second, even = Goal("journalfs", "at most", 1.0), Goal("ratio", "at most", 1.0)
    goals = {("hundred", False, "-U"): second, ("hundred", True, "-l"): even}
    for name, writing in (("hundred", False), ("hundred", True), ("million", False)):
        count = context.messages(name)
        files = context.work / f"files-{name}"
        with context.mounted(name, writing=writing) as mounted, minimal(context, 1, count) as plain:
            directory = mounted.path / QUEUE / ".messages"
            names = os.listdir(directory)
            assert len(names) == count, f"{len(names)} of {count} messages are listed"
            if not files.exists():
                files.mkdir()
                for entry in names:
                    (files / entry).touch()
            sides = {
                "journalfs": directory,
                "disk": files,
                "C filesystem": plain.path / "entries",
            }
            for flag, what in (("-U", "ls -U"), ("-l", "ls -l")):
                context.take(
                    Case(
                        f"ls{flag}-{name}{'-writing' * writing}",
                        "Mount",
                        f"`{what}` of {count:,} messages{', for writing' * writing}",
                        "s",
                        "lower",
                        {side: _timed_ls(path, flag) for side, path in sides.items()},
                        against="disk" if writing else "C filesystem",
                        goal=goals.get((name, writing, flag)),
                        note="the kernel forgets names before each." if can_drop_caches() else "",
                        warm_up_rounds=0,
                    )
                )
            if not writing:
                _daemon_memory(context, name, mounted, count)


def _daemon_memory(context: Context, name: str, mounted: Mounted, count: int) -> None:
    listed = anonymous_bytes(mounted.pid) / count
    case = Case(
        f"daemon-memory-{name}",
        "Mount",
        f"Memory a message, {count:,} listed",
        "bytes",
        "lower",
        {},
        note="anonymous memory after the listings, divided.",
    )
    context.keep(conclude(case, {"journalfs": [listed]}, context.commit))


def _timed_ls(directory: Path, flag: str) -> Callable[[], float]:
    def once() -> float:
        if can_drop_caches():
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("2")
        command = ["ls", flag, str(directory)]
        return seconds(partial(run_quietly, command))

    return once


def cat(context: Context) -> None:
    """`cat` of all parts of a queue against `cat` of the same bytes in files on the same disk."""
    for name in ("bulk", "million"):
        copy = context.work / f"lines-{name}"
        with context.mounted(name) as mounted:
            ours = _parts(mounted)
            copy.mkdir(exist_ok=True)
            for part in ours:
                run_quietly(["cp", str(part), str(copy)])
            theirs = [copy / part.name for part in ours]
            size = sum(part.stat().st_size for part in theirs)
            assert size == sum(part.stat().st_size for part in ours)
            what = f"{size / 1e6:.0f} MB"
            if can_drop_caches():
                context.take(
                    Case(
                        f"cat-{name}-cold",
                        "Reading",
                        f"`cat` {what}, cold",
                        "MB/s",
                        "higher",
                        {
                            "journalfs": _timed_cat(ours, size, cold=True),
                            "disk": _timed_cat(theirs, size, cold=True),
                        },
                        against="disk",
                        goal=Goal("ratio", "at least", 0.6),
                        note="rendered: the journal is in the page cache.",
                    )
                )
                context.take(
                    Case(
                        f"cat-{name}-render",
                        "Reading",
                        f"`cat` {what}, rendered",
                        "MB/s",
                        "higher",
                        {
                            "journalfs": _timed_cat(ours, size, cold=True, then=context.data(name)),
                            "disk": _timed_cat(theirs, size, cold=True),
                        },
                        against="disk",
                    )
                )
            context.take(
                Case(
                    f"cat-{name}-warm",
                    "Reading",
                    f"`cat` {what}, warm",
                    "MB/s",
                    "higher",
                    {"journalfs": _timed_cat(ours, size), "disk": _timed_cat(theirs, size)},
                    against="disk",
                )
            )


def _timed_cat(
    files: list[Path], size: int, *, cold: bool = False, then: Path | None = None
) -> Callable[[], float]:
    command = ["cat", *map(str, files)]

    def once() -> float:
        if cold:
            drop_caches()
        if then is not None:
            run_quietly(["sh", "-c", 'cat "$0"/journal/*', str(then)])
        return size / seconds(partial(run_quietly, command)) / 1e6

    return once


def operations(context: Context) -> None:
    """Single operations against the C filesystem, left to the scheduler and all on one processor."""
    with context.mounted("hundred") as mounted:
        part = _parts(mounted)[0]
        size = part.stat().st_size
        with minimal(context, size, 1000) as plain:
            for placement, cpu in (("one processor", 0), ("free", None)):
                for mount in (mounted, plain):
                    pin(mount.pid, cpu)
                for operation, title in OPERATIONS.items():
                    ours = part.parent if operation == "missing" else part
                    theirs = plain.path / ("entries" if operation == "missing" else "file")
                    context.take(
                        Case(
                            f"op-{operation}-{placement.replace(' ', '-')}",
                            "Operations",
                            f"{title}, {placement}",
                            "us",
                            "lower",
                            {
                                "journalfs": timed_operation(context, operation, ours, cpu),
                                "C filesystem": timed_operation(context, operation, theirs, cpu),
                            },
                            against="C filesystem",
                            goal=None if operation == "open" else Goal("ratio", "at least", 1 / 1.5),
                            note=OPERATIONS_NOTE,
                        )
                    )


def timed_operation(context: Context, operation: str, path: Path, cpu: int | None) -> Callable[[], float]:
    client = context.program("operations_client")
    count = 1000 if context.small else 20_000
    placed = [] if cpu is None else ["taskset", "-c", str(cpu)]
    command = [*placed, str(client), operation, str(path), str(count)]

    def once() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout.split()[1]) / 1000

    return once


def pin(pid: int, cpu: int | None) -> None:
    """Bind every thread of a process to one processor, or to none."""
    cpus = {cpu} if cpu is not None else set(range(os.cpu_count() or 1))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cpus)


def _parts(mounted: Mounted) -> list[Path]:
    return sorted((mounted.path / QUEUE).glob("part-*.jsonl"))


@contextmanager
def minimal(context: Context, file_bytes: int, entries: int, timeout_s: int = 300) -> Iterator[Mounted]:
    """Serve the C filesystem; the kernel may keep what it was told for so long."""
    program = context.program("minimal_fs", "fuse3")
    mountpoint = context.work / "minimal"
    mountpoint.mkdir(exist_ok=True)
    process = subprocess.Popen([str(program), str(mountpoint), str(file_bytes), str(entries), str(timeout_s)])
    with ExitStack() as cleaning:
        cleaning.callback(process.wait, timeout=30)
        cleaning.callback(run_quietly, ["fusermount3", "-u", str(mountpoint)])
        wait_until((mountpoint / "file").exists, 10.0, "the minimal filesystem")
        yield Mounted(mountpoint, process.pid, 0.0)
