"""`journalfs explain`."""

from __future__ import annotations

from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores


def test_every_file_is_explained(stores: PristineStores) -> None:
    store = stores["compacted"]
    found = objects("explain", store, "--no-index", "--json")
    files = {path.name for path in store.rglob("activemq-data-*.amq")}
    assert {one["file"] for one in found} == files
    assert any(one["deletesIn"] for one in found)
    done = journalfs("explain", store, "--no-index")
    assert done.stdout.count("compaction would free it") == sum(one["state"] == "kept" for one in found)


def test_one_file_alone_by_name_or_path(stores: PristineStores) -> None:
    store = stores["compacted"]
    path = max(store.rglob("activemq-data-*.amq"))
    (found,) = objects("explain", store, path, "--no-index", "--json")
    assert found["file"] == path.name
    assert journalfs("explain", store, path.name, "--no-index").stdout.startswith(path.name)


def test_a_file_that_is_not_there_is_a_wrong_call(stores: PristineStores) -> None:
    done = journalfs("explain", stores["compacted"], "activemq-data-0.amq", "--no-index")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no file 'activemq-data-0.amq'" in done.stderr


def test_print_prints_records_only(stores: PristineStores) -> None:
    done = journalfs("print", "--journal", "--no-index", stores["compacted"])
    assert done.stdout
    assert all(line.startswith("{") for line in done.stdout.splitlines())
