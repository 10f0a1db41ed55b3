"""What a distributed replay takes: one session with so many cores, the same replay several times.

    python -m scripts.benchmarks.spark_scale_jobs STORE CORES HEAP_MIB RUNS

Prints one line of JSON: by measure, a number for each run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import journalfs.spark
from scripts.benchmarks.spark_jobs import session

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.2
WARM_UP_ROUNDS = 1


class Watch(threading.Thread):
    """Looks at the processes below this one all the time, since Spark ends those that are idle."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.cpu_s: dict[int, float] = {}
        self.worker_bytes = 0

    def run(self) -> None:
        while not self.over.wait(LOOK_S):
            self.look()

    def look(self) -> float:
        """Seconds of processors that all of them took so far."""
        for pid, fields in below(os.getpid()):
            self.cpu_s[pid] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
            self.worker_bytes = max(self.worker_bytes, _most_resident(pid))
        return sum(self.cpu_s.values())


def below(root: int) -> Iterator[tuple[int, list[str]]]:
    """All processes below one, with the fields of their `stat` from the third on."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    for pid, fields in found.items():
        parent = int(fields[1])
        while parent not in (0, root):
            parent = int(found[parent][1]) if parent in found else 0
        if parent == root:
            yield pid, fields


def _most_resident(pid: int) -> int:
    """The most memory that a Python worker had at a time."""
    try:
        if b"pyspark.daemon" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def moved(events: Path, runs: int) -> dict[str, float]:
    """Stages and tasks of a run, and bytes that tasks wrote for others, and that did not fit into memory."""
    shuffled = spilled = stages = tasks = 0
    for file in events.iterdir():
        for line in file.read_text().splitlines():
            event: dict[str, Any] = json.loads(line)
            stages += event["Event"] == "SparkListenerStageCompleted"
            tasks += event["Event"] == "SparkListenerTaskEnd"
            metrics = event.get("Task Metrics") or {}
            shuffled += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
            spilled += metrics.get("Disk Bytes Spilled", 0)
    return {
        "shuffled_bytes": shuffled / runs,
        "spilled_bytes": spilled / runs,
        "stages": stages / runs,
        "tasks": tasks / runs,
    }


def replay(spark: SparkSession, store: str) -> int:
    schema = StructType.fromDDL("queue string, body string")
    rows = journalfs.spark.live_messages(spark, store, schema=schema)
    return int(rows.selectExpr("count(*)", "sum(octet_length(body))").collect()[0][0])


def main(store: str, cores: str, heap_mib: int, runs: int) -> dict[str, list[float]]:
    watch = Watch()
    watch.start()
    taken: dict[str, list[float]] = {"s": [], "core_s": []}
    with tempfile.TemporaryDirectory() as scratch:
        events = Path(scratch, "events")
        events.mkdir()
        spark = session(
            scratch,
            master=f"local[{cores}]",
            **{
                "spark.driver.memory": f"{heap_mib}m",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": events.as_uri(),
                "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.compress": "false",
                "spark.sql.shuffle.partitions": "16",
            },
        )
        for number in range(WARM_UP_ROUNDS + runs):
            before, start = watch.look(), time.perf_counter()
            replay(spark, store)
            if number >= WARM_UP_ROUNDS:
                taken["s"].append(time.perf_counter() - start)
                taken["core_s"].append(watch.look() - before)
            spark.catalog.clearCache()
        watch.over.set()
        spark.stop()
        for name, value in moved(events, WARM_UP_ROUNDS + runs).items():
            taken[name] = [value]
    return {**taken, "worker_bytes": [watch.worker_bytes]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
