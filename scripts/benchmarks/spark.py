"""Spark reading the mount against Spark reading the same lines from files on the same disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.benchmarks.context import Context, Mounted
from scripts.benchmarks.measure import Case, Goal, can_drop_caches, conclude
from scripts.benchmarks.mounting import QUEUE
from scripts.benchmarks.other_process import said_by
from scripts.benchmarks.spark_jobs import JOBS

TITLES = {
    "text-count": "Count lines",
    "text-length": "Line lengths",
    "json-body": "Body lengths of JSON",
}


def spark(context: Context) -> None:
    """One session; each round runs every job on either side in turn, with empty and with filled caches."""
    lines = context.work / "lines-spark"
    with context.mounted("bulk") as mounted:
        copy_parts(mounted, lines)
        states = ["warm", "cold"] if can_drop_caches() else ["warm"]
        taken: dict[str, dict[str, list[float]]] = said_by(
            "spark_jobs", mounted.path / QUEUE, lines, context.runs, *states
        )
    for state in states:
        for job in JOBS:
            note = "cold: nothing cached." if state == "cold" else "warm: both in the page cache."
            case = Case(
                f"spark-{job}-{state}",
                "Spark",
                f"{TITLES[job]}, {state}",
                "s",
                "lower",
                {},
                against="disk",
                goal=Goal("ratio", "at least", 0.8),
                note=note,
            )
            context.keep(conclude(case, taken[f"{job}-{state}"], context.commit))


def copy_parts(mounted: Mounted, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for part in sorted((mounted.path / QUEUE).glob("part-*.jsonl")):
        subprocess.run(["cp", str(part), str(target)], check=True)
