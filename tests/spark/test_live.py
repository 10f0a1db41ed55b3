"""The live set by joins is the mount's, on every store, whatever brokers left in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.format.journal_file import CONTROL_FILE_NAME
from journalfs.records.files.compaction import encode_control_file
from journalfs.records.files.directory import read_directory
from journalfs.spark import live_messages
from journalfs.spark.schema import usual_schema
from journalfs.spark.storage import files_of
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.spark.conftest import MountStore
from tests.spark.reading import envelopes, queue_directories
from tests.spark.rows import check_row
from tests.tools.make_store import StoreSpec, make_store

FILE_ID_AT = 8
"""Where in a file's header its id stands."""

QUICK = ("transactions",)


def check_live(spark: SparkSession, store: Path, mounted: Path) -> int:
    lines = {
        (line["queue"], line.get("id")): line
        for queue in queue_directories(mounted)
        for line in envelopes(queue)
    }
    schema = usual_schema([*usual_schema().names, "envelope"])
    rows = live_messages(spark, str(store), schema=schema).collect()
    assert Counter((row.queue, row.id) for row in rows) == Counter(lines.keys())
    for row in rows:
        found = row.asDict(recursive=True)
        for name in ("timestamp", "expiration", "scheduledTime"):
            found[name] = None if found[name] is None else found[name].astimezone()
        check_row(found, lines[row.queue, row.id])
        assert json.loads(row.envelope) == lines[row.queue, row.id]
    return len(rows)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "store", [one if one in QUICK else pytest.param(one, marks=pytest.mark.long) for one in FILE_STORES]
)
def test_the_live_set_by_joins_is_what_the_mount_shows(
    spark: SparkSession, stores: PristineStores, expected: ExpectedStores, mount_store: MountStore, store: str
) -> None:
    listed = sum(len(queue["messages"]) for queue in expected[store]["queues"])
    assert check_live(spark, stores[store], mount_store(stores[store])) >= listed > 0


def test_files_after_a_compaction_that_did_not_end_are_those_of_the_mount(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of an old file that the broker had used again the header says so. The driver looks at no more than
    headers, and without a job for each.
    """
    spec = StoreSpec(messages=800, file_size_bytes=100_000, body_chars=200)
    store = make_store(tmp_path / "store", spec).data
    journal = store / "journal"
    names = sorted(file.name for file in journal.glob("*.amq"))
    used_again, old, merged = names[0], names[1], f"{names[1]}.cmp"
    (journal / merged).write_bytes((journal / old).read_bytes())
    with (journal / used_again).open("r+b") as file:
        file.seek(FILE_ID_AT)
        file.write((10**9).to_bytes(8))
    control = encode_control_file([used_again, old], [merged])
    (journal / CONTROL_FILE_NAME).write_bytes(control)
    listed = read_directory(journal, extension="amq", relative_to=store).files
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup(None)
    found = {path.rpartition("/")[2] for path in files_of(spark, str(store)).journal}
    assert tracker.getJobIdsForGroup(None) == before
    assert found == {file.path.name for file in listed}
    assert {used_again, merged} <= found
    assert old not in found


def test_a_store_is_found_by_whatever_leads_to_it(spark: SparkSession, tmp_path: Path) -> None:
    data = make_store(tmp_path / "of two words", StoreSpec(messages=3)).data
    wanted = files_of(spark, str(data))
    assert wanted.journal
    for path in (data, data.parent):
        assert files_of(spark, str(path)) == files_of(spark, f"file://{path}") == wanted
