"""`journalfs cat`, `journalfs print` and `journalfs check` on real stores, whole ones and damaged copies."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import EXIT_DAMAGED, EXIT_NOT_A_STORE
from tests.cli.running import journalfs
from tests.cli.running import objects as lines
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.mounting import JOURNALFS, mounted
from tests.mounting import journalfs as process
from tests.reference.journal import read_folder

MESSAGE_RECORD = 45
STRUCTURE = {"file", "kind", "userTypeName", "address", "queue", "protocol", "type"}


@pytest.mark.parametrize("name", FILE_STORES)
def test_cat_prints_every_live_message(stores: PristineStores, expected: ExpectedStores, name: str) -> None:
    wanted = {
        (queue["address"], queue["name"], message["id"])
        for queue in expected[name]["queues"]
        for message in queue["messages"]
    }
    addresses = {queue["name"]: queue["address"] for queue in expected[name]["queues"]}
    printed = lines("cat", stores[name], "--no-index")
    assert {(addresses[line["queue"]], line["queue"], line["id"]) for line in printed} == wanted
    assert len(printed) == len(wanted)


def test_cat_of_a_queue_is_in_arrival_order(stores: PristineStores, expected: ExpectedStores) -> None:
    queue = max(expected["large-and-paged"]["queues"], key=lambda queue: len(queue["messages"]))
    target = f"{queue['address']}::{queue['name']}"
    printed = [line["id"] for line in lines("cat", stores["large-and-paged"], target, "--no-index")]
    assert printed == sorted(printed)
    assert sorted(printed) == sorted(message["id"] for message in queue["messages"])
    assert lines("browse", stores["large-and-paged"], target, "--no-index", "--json")[0]["id"] == printed[0]


@pytest.mark.parametrize(
    ("name", "selector", "accepted"),
    [
        ("orders-basic", "AMQPriority > 4", lambda m: m["priority"] > 4),
        (
            "orders-basic",
            "_AMQ_ORIG_ADDRESS = 'claims'",
            lambda m: _property(m, "_AMQ_ORIG_ADDRESS") == "claims",
        ),
        ("orders-basic", "JMSType IS NOT NULL", lambda m: _property(m, "JMSType") is not None),
        ("orders-basic", "TRUE", lambda m: True),
        ("orders-basic", "JMSExpiration <> 0", lambda m: "expiration" in m),
        (
            "amqp-mqtt-stomp-openwire",
            "_AMQ_ORIG_ADDRESS = 'amqp.states'",
            lambda m: "x-opt-ORIG-ADDRESS" in str(m.get("amqp")),
        ),
        ("amqp-exotic", "int < 0", lambda m: (_property(m, "int") or 0) < 0),
        (
            "large-and-paged",
            "n < 10",
            lambda m: isinstance(_property(m, "n"), int) and _property(m, "n") < 10,
        ),
        (
            "amqp-mqtt-stomp-openwire",
            "AMQDurable = 'DURABLE' AND JMSTimestamp = 0",
            lambda m: m["timestamp"] == 0,
        ),
    ],
)
def test_cat_where_prints_what_the_selector_accepts(
    stores: PristineStores,
    expected: ExpectedStores,
    name: str,
    selector: str,
    accepted: Callable[[dict[str, Any]], bool],
) -> None:
    wanted = sorted(
        (queue["name"], message["id"])
        for queue in expected[name]["queues"]
        for message in queue["messages"]
        if accepted(message)
    )
    printed = lines("cat", stores[name], "--no-index", "--where", selector)
    assert wanted
    assert sorted((line["queue"], line["id"]) for line in printed) == wanted
    whole = journalfs("cat", stores[name], "--no-index").stdout.splitlines()
    chosen = journalfs("cat", stores[name], "--no-index", "--where", selector).stdout.splitlines()
    assert set(chosen) <= set(whole)


def _property(message: dict[str, Any], name: str) -> Any:
    return message.get("properties", {}).get(name)


def test_ls_where_lists_what_cat_where_prints(stores: PristineStores) -> None:
    arguments: list[str | Path] = [
        stores["orders-basic"],
        "typed::typed",
        "--no-index",
        "--where",
        "JMSXGroupSeq IS NULL",
    ]
    printed = {line["id"] for line in lines("cat", *arguments)}
    assert {line["id"] for line in lines("ls", *arguments, "--json")} == printed


def test_the_reader_of_cat_may_leave(stores: PristineStores) -> None:
    command: list[str | Path] = [JOURNALFS, "cat", stores["large-and-paged"], "--no-index"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 128 + 13


@pytest.mark.parametrize("name", ["orders-basic", "transactions", "compacted"])
def test_print_shows_every_record(stores: PristineStores, name: str) -> None:
    printed = lines("print", stores[name], "--journal")
    files = read_folder(stores[name] / "data" / "journal")
    wanted = {(file.name, record.offset) for file in files for record in file.scan.records}
    assert {(line["file"], line["offset"]) for line in printed} >= wanted
    assert len({(line["file"], line["offset"]) for line in printed}) == len(printed)


def test_print_takes_sections_apart(stores: PristineStores) -> None:
    store = stores["large-and-paged"]
    parts = {option: lines("print", store, option) for option in ("--bindings", "--journal", "--pages")}
    assert all(parts.values())
    assert {line["file"].rpartition(".")[2] for line in parts["--bindings"]} == {"bindings"}
    assert {line["file"].rpartition(".")[2] for line in parts["--journal"]} == {"amq"}
    assert {line["file"].rpartition(".")[2] for line in parts["--pages"]} == {"page"}
    assert lines("print", store) == [line for part in parts.values() for line in part]


def test_records_of_pages_name_their_address_and_file(
    stores: PristineStores, expected: ExpectedStores
) -> None:
    store = stores["large-and-paged"]
    printed = lines("print", store, "--pages", "--no-index")
    queues = {queue["id"]: queue["address"] for queue in expected["large-and-paged"]["queues"]}
    assert {line["address"] for line in printed} >= {"amqp.backlog"}
    for line in printed:
        assert {queues[queue] for queue in line["queues"] if queue in queues} <= {line["address"]}
        assert (store / "data" / line["file"]).is_file()
    assert len({(line["file"], line["number"]) for line in printed}) == len(printed)


def test_print_can_do_without_the_index(stores: PristineStores, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(stores["aio"], store, ignore=shutil.ignore_patterns("journalfs"))
    without = lines("print", store, "--no-index")
    assert not list(store.rglob("journalfs"))
    assert lines("print", store) == without
    assert list(store.rglob("journalfs/index"))


def test_files_are_printed_as_they_were_written(stores: PristineStores) -> None:
    """Not by their names: files are used again under those that they have."""
    found = [record["file"] for record in lines("print", "--journal", stores["compacted"])]
    by_id = [file.name for file in read_folder(stores["compacted"] / "data/journal") if file.scan.records]
    assert list(dict.fromkeys(found)) == by_id
    assert by_id != sorted(by_id)


def test_safe_print_shows_structure_and_no_content(stores: PristineStores, expected: ExpectedStores) -> None:
    done = journalfs("print", stores["orders-basic"], "--safe")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == len(lines("print", stores["orders-basic"]))
    for record in records:
        assert {key for key, value in record.items() if not isinstance(value, int)} <= STRUCTURE
    bodies = [
        message["body"]
        for queue in expected["orders-basic"]["queues"]
        for message in queue["messages"]
        if isinstance(message.get("body"), str) and len(message["body"]) > 12
    ]
    assert bodies
    assert not [body for body in bodies if body in done.stdout]


@pytest.mark.parametrize("name", FILE_STORES)
def test_check_finds_no_damage_in_what_brokers_wrote(stores: PristineStores, name: str) -> None:
    """One was killed while a transaction had sent a large message: that has a body, and did not happen."""
    done = journalfs("check", stores[name])
    assert done.returncode == 0, done.stdout
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    listed = [row[0] for row in rows if not row[3].startswith("prepared-")]
    assert listed == ["355.msg"] * (name == "transactions")
    assert (len(rows) > len(listed)) == (name == "transactions")
    assert "no damage" in done.stderr


def test_check_says_what_is_being_delivered(stores: PristineStores) -> None:
    """The mount and `cat` show these apart, as what is sent and not committed; `check` reads them too."""
    store = stores["transactions"]
    live = len(journalfs("cat", store).stdout.splitlines())
    assert live == 119
    said = journalfs("check", store).stderr
    assert said.startswith(
        f"{live} messages, 6 being delivered and 6 sent by transactions that have not ended ("
    )
    assert " messages (" in journalfs("check", stores["orders-basic"]).stderr


def test_check_names_the_place_of_the_damage(store_copy: Callable[[str], Path]) -> None:
    """A record destroyed at its end: its place is named, and the message that went with it."""
    store = store_copy("orders-basic")
    file = next(file for file in read_folder(store / "data" / "journal") if len(file.scan.records) > 50)
    record = next(record for record in file.scan.records[20:] if record.user_type == MESSAGE_RECORD)
    path = store / "data" / "journal" / file.name
    with path.open("r+b") as journal:
        journal.seek(record.offset + record.length - 4)
        journal.write(b"\xff\xff\xff\xff")
    done = journalfs("check", store, "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == EXIT_DAMAGED
    destroyed, *missing = [one for one in found if not one["kind"].startswith("setting-")]
    assert (Path(destroyed["file"]).name, destroyed["offset"]) == (file.name, record.offset)
    assert {place["kind"] for place in missing} == {"missing-message"}
    assert all(f"message {record.record_id}," in place["reason"] for place in missing)
    table = journalfs("check", store)
    assert table.returncode == EXIT_DAMAGED
    assert f"{file.name}\t{record.offset}\t" in table.stdout
    assert f"{1 + len(missing)} damaged" in table.stderr


@pytest.mark.rule("S-48")
@pytest.mark.parametrize(
    "words", ["ls", "ls orders", "cat", "status", "explain --json", "print --safe", "check --json"]
)
def test_whoever_reads_a_damaged_store_is_told(store_copy: Callable[[str], Path], words: str) -> None:
    """What is shown of it looks like a store that holds less."""
    command, *rest = words.split()
    store = store_copy("orders-basic")
    assert not process(command, store, *rest).stderr
    (file,) = (store / "data/journal").glob("activemq-data-1.amq")
    with file.open("r+b") as journal:
        journal.write(bytes(range(256)) * 4096)
    done = process(command, store, *rest)
    assert done.returncode == (EXIT_DAMAGED if command == "check" else 0)
    if command == "check":  # which lists it
        assert not done.stderr
        return
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"journalfs: {store / 'data'}: damage in 1 place, so messages may be missing")
    assert f"journal/{file.name} at byte 0: " in said


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("written", [False, True])
def test_damage_beside_a_writer_may_be_what_is_on_its_way(
    store_copy: Callable[[str], Path], written: bool
) -> None:
    store = store_copy("orders-basic")
    (store / "data/journal/activemq-data-1.amq").write_bytes(bytes(range(256)) * 4096)
    with (store / "data/journal/serverlock.1").open("ab") as lock:
        if written:
            fcntl.lockf(lock, fcntl.LOCK_EX)
        (said,) = process("ls", store).stderr.splitlines()
    assert ("somebody is writing it" in said) == written


@pytest.mark.mount
@pytest.mark.rule("S-48")
def test_whoever_mounts_a_damaged_store_is_told(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    store = store_copy("orders-basic")
    (store / "data/journal/activemq-data-1.amq").write_bytes(bytes(range(256)) * 4096)
    with mounted(store, tmp_path / "mnt") as mount:
        (said,) = [event["message"] for event in mount.events() if event["event"] == "damage"]
    assert "damage in 1 place, so messages may be missing" in said


def test_check_names_a_large_message_that_is_gone(
    store_copy: Callable[[str], Path], expected: ExpectedStores
) -> None:
    store = store_copy("large-and-paged")
    live = {
        message["id"]
        for queue in expected["large-and-paged"]["queues"]
        for message in queue["messages"]
        if message.get("largeMessage")
    }
    gone = min(live)
    (store / "data" / "large-messages" / f"{gone}.msg").unlink()
    done = journalfs("check", store, "--json")
    assert done.returncode == EXIT_DAMAGED
    assert str(gone) in done.stdout


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("left_bytes", [None, 1000])
def test_check_names_a_lost_body_of_what_a_prepared_transaction_sent(
    store_copy: Callable[[str], Path], left_bytes: int | None
) -> None:
    store = store_copy("transactions")
    body = store / "data" / "large-messages" / "232.msg"
    if left_bytes is None:
        body.unlink()
    else:
        os.truncate(body, left_bytes)
    done = journalfs("check", store, "--json")
    assert done.returncode == EXIT_DAMAGED
    found = [json.loads(line) for line in done.stdout.splitlines()]
    (of_body,) = [one for one in found if one["standing"] == "damaged"]
    assert (of_body["file"], of_body["kind"]) == ("large-messages/232.msg", "large-message")
    assert (of_body["id"], of_body["queue"]) == (232, None)


def test_check_finds_bodies_that_no_message_has_and_sets_them_aside(
    store_copy: Callable[[str], Path],
) -> None:
    store = store_copy("large-and-paged")
    body = store / "data" / "large-messages" / "999999999.msg"
    body.write_bytes(b"what a crash left")
    listed = journalfs("check", store, "--json")
    assert listed.returncode == 0, "it is no damage"
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    (orphan,) = [row for row in rows if not row["kind"].startswith("setting-")]
    assert (orphan["file"], orphan["kind"]) == (body.name, "orphan")
    assert "1 bodies without a message" in journalfs("check", store).stderr
    assert body.exists(), "nothing was asked for"
    done = journalfs("check", "--set-aside", store)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert (store / "data" / "journalfs" / "orphans" / body.name).read_bytes() == b"what a crash left"
    assert not body.exists()


@pytest.mark.rule("S-109")
def test_it_does_so_while_a_transaction_is_prepared(store_copy: Callable[[str], Path]) -> None:
    """What that consumed and what it sent needs its body; what a transaction sent that was not prepared does
    not.
    """
    store = store_copy("transactions")
    bodies = store / "data" / "large-messages"
    (bodies / "2000.msg").write_bytes(b"what a crash left")
    said = journalfs("check", store)
    assert said.returncode == 0
    rows = [line.split("\t") for line in said.stdout.splitlines()]
    assert [row[0] for row in rows if row[3] == "orphan"] == ["355.msg", "2000.msg"]
    done = journalfs("check", "--set-aside", store)
    assert done.returncode == 0, done.stderr
    assert {line.split("\t")[3] for line in done.stdout.splitlines()} == {
        "prepared-transaction",
        "prepared-acknowledgement",
    }
    assert sorted(os.listdir(bodies)) == ["159.msg", "160.msg", "232.msg"]


def test_check_of_no_store_is_no_damage(tmp_path: Path) -> None:
    assert journalfs("check", tmp_path).returncode == EXIT_NOT_A_STORE


@pytest.mark.rule("S-54")
def test_cat_shows_what_is_intact_where_the_index_misleads(store_copy: Callable[[str], Path]) -> None:
    """A disk lost some bytes, and no time of the file tells."""
    path = store_copy("orders-basic")
    journalfs("ls", path)
    damaged = path / "data/journal/activemq-data-1.amq"
    before = damaged.stat()
    with damaged.open("r+b") as file:
        file.seek(72_000)
        file.write(bytes(2000))
    os.utime(damaged, ns=(before.st_atime_ns, before.st_mtime_ns))
    expected = journalfs("cat", "--no-index", path).stdout.splitlines()
    for _ in range(2):
        assert sorted(journalfs("cat", path).stdout.splitlines()) == sorted(expected)
    assert journalfs("check", path).returncode == EXIT_DAMAGED
