"""The live set by joins is found, and right, where memory holds a small part of the facts."""

from __future__ import annotations

import sys
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mounting import mounted, read_lines
from tests.spark.drivers import CLUSTER_S_MAX, said_by, spark_home
from tests.spark.writing import written_store
from tests.tools.make_store import StoreSpec, make_store

FRACTION = "0.1"
"""Of the 200 MiB or so that Spark may use of the executor's heap."""
MIB = 1 << 20


def spread(path: Path) -> Path:
    """Messages in the journal and in pages, a part of them acknowledged."""
    spec = StoreSpec(
        messages=150_000,
        body_chars=300,
        addresses=2,
        queues_per_address=2,
        acked_fraction=0.3,
        paged_messages=10_000,
    )
    return make_store(path, spec).data


def many_references(path: Path) -> Path:
    """All that is said is said of a few ids."""
    return make_store(path, StoreSpec(messages=40, queues_per_address=5000)).data


def one_transaction(path: Path) -> Path:
    """All that is done is done by one."""
    path.mkdir()
    return written_store(path, {"a": [{"body": f"message {number}"} for number in range(150_000)]})


def shown(mount: Path) -> list[list[object]]:
    """By queue what a mount shows, in the numbers of the job."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for queue in mount.glob("*/*"):
        for line in read_lines(queue):
            found = sums[line["queue"]]
            found[0] += 1
            found[1] += line["id"]
            found[2] += zlib.crc32(line["body"].encode())
    return sorted([queue, *of_queue] for queue, of_queue in sums.items())


@pytest.mark.long
@pytest.mark.timeout(CLUSTER_S_MAX + 600)
@pytest.mark.parametrize("make", [spread, many_references, one_transaction])
def test_what_does_not_fit_into_memory_goes_to_the_disk(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    store = make(tmp_path / "store")
    with mounted(store, tmp_path / "mnt") as mount:
        wanted = shown(mount.path)
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-m", "tests.spark.memory_job", str(store), str(tmp_path / "work"), FRACTION]
    said = said_by(command, SPARK_HOME=str(spark_home(tmp_path / "home")))
    assert said["queues"] == wanted
    assert said["memorySpilled"] > said["executionMemoryMost"] > 0
    assert said["diskSpilled"] > 0
    told = {name: f"{said[name] / MIB:.0f} MiB" for name in said if name not in ("queues", "tasks")}
    print(f"{make.__name__}: {len(wanted)} queues, {said['tasks']} tasks, {told}")
