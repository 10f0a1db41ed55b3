"""How a distributed replay grows with processors and files, and what it moves and holds meanwhile."""

from __future__ import annotations

import os

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Better, Case, conclude
from scripts.benchmarks.other_process import said_by

GROUP = "Spark, growth"
HEAP_MIB = 512
"""Less than the journal, so that what does not fit has to go to the disk."""
GIB, MIB = 1 << 30, 1 << 20

Taken = dict[str, list[float]]


def scale(context: Context) -> None:
    """The same replay by one processor and by two, of few files and of three times as many."""
    gib = {name: _journal_bytes(context, name) / GIB for name in ("bulk", "third")}
    cores = min(2, os.cpu_count() or 1)
    many = _taken(context, "bulk", cores)
    sides = {"journalfs": many["s"], "one core": _taken(context, "bulk", 1)["s"]}
    _keep(context, "cores", f"live_messages on {cores} cores", "s", sides, against="one core")
    few = _taken(context, "third", cores)
    sides = {
        "journalfs": [value / gib["bulk"] for value in many["core_s"]],
        "a third of the files": [value / gib["third"] for value in few["core_s"]],
    }
    _keep(
        context,
        "files",
        f"live_messages, processor time for each GiB of journal, {_files(context, 'bulk')} files",
        "s/GiB",
        sides,
        against="a third of the files",
    )
    for name, title in (
        ("shuffled_bytes", "written for other tasks"),
        ("spilled_bytes", "not held in memory by sorting tasks, and written to disks"),
    ):
        value = many[name][0] / MIB / gib["bulk"]
        _keep(
            context,
            name.removesuffix("_bytes"),
            f"live_messages, {title}, for each GiB of journal",
            "MiB/GiB",
            {"journalfs": [value]},
        )
    _keep(
        context,
        "worker",
        "live_messages, the most that a Python worker held, its libraries included",
        "MiB",
        {
            "journalfs": [many["worker_bytes"][0] / MIB],
            "a third of the files": [few["worker_bytes"][0] / MIB],
        },
    )


def _keep(
    context: Context, name: str, title: str, unit: str, sides: Taken, *, against: str | None = None
) -> None:
    better: Better = "lower"
    note = f"Everything in the page cache. The JVM has {HEAP_MIB} MiB for all its tasks."
    case = Case(f"spark-scale-{name}", GROUP, title, unit, better, {}, against=against, note=note)
    context.keep(conclude(case, sides, context.commit))


def _files(context: Context, name: str) -> int:
    return len(list((context.data(name) / "journal").glob("*.amq")))


def _journal_bytes(context: Context, name: str) -> int:
    return sum(file.stat().st_size for file in (context.data(name) / "journal").glob("*.amq"))


def _taken(context: Context, name: str, cores: int) -> Taken:
    found: Taken = said_by("spark_scale_jobs", context.data(name), cores, HEAP_MIB, context.runs)
    return found
