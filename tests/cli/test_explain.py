"""`journalfs explain`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import journalfs as library
from tests.cli.running import journalfs, objects
from tests.frozen import PristineStores
from tests.mounting import JOURNALFS, mounted_for_writing


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


@pytest.mark.rule("S-427")
def test_a_summary_says_what_keeps_files_and_its_commands_free_them(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store, "--bare").returncode == 0
    with (store / "journalfs.toml").open("a") as toml:
        toml.write('journal-file-size = "100K"\n[address-settings."#"]\nmax-size-messages = 20\n')
        toml.write('address-full-policy = "PAGE"\n')
    lines = "".join(f"{number}" + "x" * 900 + "\n" for number in range(30))
    with mounted_for_writing(store, tmp_path / "mnt") as mounted:
        for queue in ("big/big", "small/small"):
            (mounted.path / queue).mkdir(parents=True)
        (mounted.path / "small/in.txt").write_text("one\n")
        (mounted.path / "big/in.txt").write_text(lines)
        (mounted.path / "big/in.txt").write_text("to pages\n" * 10)
        (mounted.path / "big/body.bin").write_bytes(b"y" * 200_000)
        (in_mount, _, _) = objects("explain", mounted.path, "--summary", "--json")
        assert in_mount["command"] == f"mv {mounted.path}/big/big/.all.jsonl big.jsonl"
    big, small, rest = objects("explain", store, "--summary", "--json")
    assert (big["queue"], big["messages"], small["queue"], small["messages"]) == (
        "big::big",
        41,
        "small::small",
        1,
    )
    assert big["pageMessages"] == 11
    assert big["pageFiles"] >= 1
    assert (big["bodies"], big["bodyBytes"]) == (1, 200_000)
    assert small["journalFiles"]
    assert (small["pageFiles"], small["bodies"]) == (0, 0)
    assert rest["command"] == f"journalfs compact {store}"
    table = journalfs("explain", store, "--summary").stdout.splitlines()
    assert [line.split("\t")[0] for line in table] == ["big::big", "small::small"]
    done = subprocess.run(
        ["bash", "-c", big["command"].replace("journalfs", str(JOURNALFS), 1)], cwd=tmp_path, check=False
    )
    assert done.returncode == 0
    assert len((tmp_path / "big.jsonl").read_bytes().splitlines()) == 41
    (left, _) = objects("explain", store, "--summary", "--json")
    assert left["queue"] == "small::small"
    assert not [*(store / "large-messages").glob("*.msg")]


@pytest.mark.rule("S-428")
def test_prepared_transactions_are_listed_and_decided(
    store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    store = store_copy("transactions")
    first, second = objects("xa", store, "--json")
    assert first["sends"] or first["acknowledges"]
    assert journalfs("xa", store).stdout.count("\n") == 2
    assert journalfs("xa", store, "commit").returncode == 1
    assert "no such prepared transaction" in journalfs("xa", store, "commit", "nope").stderr
    done = journalfs("xa", store, "rollback", first["xid"])
    assert (done.returncode, done.stdout) == (0, f"{first['xid']}: rolled back\n"), done.stderr
    assert [one["xid"] for one in objects("xa", store, "--json")] == [second["xid"]]
    before = counts(store)
    with mounted_for_writing(store, tmp_path / "mnt") as mounted:
        assert "no such" in journalfs("xa", mounted.path, "commit", first["xid"]).stderr
        done = journalfs("xa", mounted.path, "commit", second["xid"])
        assert (done.returncode, done.stdout) == (0, f"{second['xid']}: committed\n"), done.stderr
        assert journalfs("xa", mounted.path).stdout == ""
    after = counts(store)
    came = {queue: after[queue] - before[queue] for queue in after if after[queue] != before[queue]}
    assert came == second["sends"], "what it acknowledged was out of sight before"


def counts(store: Path) -> dict[str, int]:
    """Messages by queue, without those that prepared transactions hold or send."""
    with library.open(store) as found:
        return {queue.name: int(queue.status()["messages"]) for queue in found.queues()}
