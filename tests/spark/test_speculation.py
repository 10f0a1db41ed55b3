"""Attempts that Spark begins beside slow ones, by itself: what both wrote becomes messages once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mounting import mounted_for_writing
from tests.spark.drivers import CLUSTER_S_MAX, said_by, spark_home
from tests.spark.rows import lines_of
from tests.spark.speculating_job import ROWS
from tests.spark.standalone import standalone
from tests.spark.writing import written_store
from tests.writing.conftest import bodies, new_store

HOSTS = ("127.0.0.2", "127.0.0.3")
"""Spark makes a second attempt on another host only."""


@pytest.mark.long
@pytest.mark.rule("S-89")
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_what_speculative_attempts_wrote_is_published_once(tmp_path: Path) -> None:
    """Of a slow attempt that never ends, and of one that ends when its copy does."""
    store = written_store(tmp_path, {"a": []})
    home = spark_home(tmp_path / "home")
    with mounted_for_writing(new_store(tmp_path / "other"), tmp_path / "mnt") as mount:
        queues = [mount.queue("to", name) for name in ("first", "second")]
        for queue in queues:
            queue.path.mkdir(parents=True)
        words = (store, queues[0].path, queues[1].path, tmp_path / "work")
        (tmp_path / "work").mkdir()
        with standalone(home, HOSTS) as master:
            command = [sys.executable, "-m", "tests.spark.speculating_job", master, *map(str, words)]
            said_by(command, SPARK_HOME=str(home))
        twice = Counter({str(number): 2 for number in range(ROWS)})
        assert Counter(line["body"] for line, _ in lines_of(store)) == twice
        assert Counter(bodies(queues[0])) == twice + twice
        assert Counter(bodies(queues[1])) == twice
        assert not [name for queue in queues for name in queue.path.iterdir() if "emporary" in name.name]
    assert not list((store / "journalfs").glob("spark/*"))
