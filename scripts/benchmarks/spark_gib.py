"""A GiB in read in every way there is, and written, beside the same lines in files."""

from __future__ import annotations

import shutil
import subprocess

from scripts.benchmarks.context import Context
from scripts.benchmarks.measure import Case, Goal, conclude
from scripts.benchmarks.mounting import QUEUE
from scripts.benchmarks.other_process import said_by
from scripts.benchmarks.spark import copy_parts

READERS = {
    "mount": ("mount's JSON", Goal("ratio", "at least", 0.8)),
    "source": ('`format("journalfs")`', None),
    "replay": ("`live_messages`", None),
}
WRITERS = {
    "mount": "text",
    "source": '`format("journalfs")`',
}
WRITTEN_ROWS = 1 << 20
"""Of 1 KiB each."""


def reading(context: Context) -> None:
    """One question to all: the sizes of the bodies."""
    lines = context.work / "lines-gib"
    with context.mounted("gib") as mounted:
        copy_parts(mounted, lines)
        taken = _taken(context, "read", context.data("gib"), mounted.path / QUEUE, lines)
    shutil.rmtree(lines)
    for side, (title, goal) in READERS.items():
        case = Case(
            f"spark-gib-{side}",
            "Spark, one GiB",
            f"Body sizes, 1 GiB: {title}",
            "s",
            "lower",
            {},
            against="disk",
            goal=goal,
            note="`disk`: the same lines as JSON files; all in the page cache.",
        )
        values = {"journalfs": taken[side], "disk": taken["disk"]}
        context.keep(conclude(case, values, context.commit))


def writing(context: Context) -> None:
    """The same rows written in each way; what was written before is removed outside the clock."""
    rows = WRITTEN_ROWS // 100 if context.small else WRITTEN_ROWS
    store, files = context.work / "stores" / "written", context.work / "lines-written"
    shutil.rmtree(store, ignore_errors=True)
    subprocess.run([context.journalfs, "create", str(store)], check=True, stdout=subprocess.DEVNULL)
    with context.mounted_at(store) as mounted:
        for side in WRITERS:
            (mounted.path / side / side).mkdir(parents=True)
        taken = _taken(context, "write", mounted.path, files, rows)
    shutil.rmtree(store)
    for side, title in WRITERS.items():
        case = Case(
            f"spark-gib-write-{side}",
            "Spark, one GiB",
            f"Write {rows >> 10:,} MiB: {title}",
            "s",
            "lower",
            {},
            against="disk",
            note="written text files are not synced; messages are.",
        )
        values = {"journalfs": taken[side], "disk": taken["disk"]}
        context.keep(conclude(case, values, context.commit))


def _taken(context: Context, what: str, *places: object) -> dict[str, list[float]]:
    found: dict[str, list[float]] = said_by("spark_gib_jobs", what, context.runs, *places)
    return found
