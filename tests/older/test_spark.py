"""Pipelines, which run in Spark, take the path of an older store as they take any other."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.frozen import PristineStores
from tests.mounting import journalfs

pytest.importorskip("pyspark")


@pytest.mark.rule("S-200")
@pytest.mark.long
@pytest.mark.parametrize("name", ["kaha-6.1.7-clean", "amq-5.8-killed", "hq-2.4-main"])
def test_counts_are_those_of_the_lines(stores: PristineStores, name: str) -> None:
    lines = Counter(json.loads(line)["queue"] for line in journalfs("cat", stores[name]).stdout.splitlines())
    said = journalfs("pipeline", "stats", stores[name], "--json")
    assert said.returncode == 0, said.stderr
    counted: Counter[str] = Counter()
    for one in map(json.loads, said.stdout.splitlines()):
        counted[one["queue"]] += one["messages"]
    assert counted == lines
