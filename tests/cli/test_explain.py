"""`journalfs explain`."""

from __future__ import annotations

import pytest

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


def test_prepared_transactions_are_named(stores: PristineStores) -> None:
    """As brokers print them, which is what an administrator knows them by."""
    store = stores["transactions"]
    found = [tx for one in objects("explain", store, "--no-index", "--json") for tx in one["transactions"]]
    prepared = [tx for tx in found if tx["prepared"]]
    assert prepared
    text = journalfs("explain", store, "--no-index").stdout
    for tx in prepared:
        assert tx["xid"]
        assert f"transaction {tx['id']} ({tx['xid']}), prepared: " in text
        assert tx["keepsLogsOf"] is None


@pytest.mark.rule("S-229")
def test_a_prepared_transaction_keeps_every_data_log_of_an_amq_message_store(stores: PristineStores) -> None:
    store = stores["amq-5.4-clean"] / "localhost"
    found = [tx for one in objects("explain", store, "--json") for tx in one["transactions"]]
    assert [(tx["prepared"], tx["keepsLogsOf"]) for tx in found] == [(True, str(store))] * 2
    text = journalfs("explain", store).stdout
    for tx in found:
        assert f"transaction {tx['id']} ({tx['xid']}), prepared: " in text
    assert text.count(f"it keeps every data log of {store}: none is deleted or archived until") == 2
