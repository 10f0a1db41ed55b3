"""HornetQ and Artemis 1.x: read as any store, whole and damaged, and never written to."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.errors import NotAStore, OlderStore
from journalfs.records.description import derived_from
from journalfs.records.sources import locate_readable
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from tests.frozen import PristineStores, tree_state
from tests.mounting import journalfs, mounted_for_writing, read_lines
from tests.older.truth import differences, envelopes, expected

STORES = (
    "hq-2.1-core",
    "hq-2.2-core",
    "hq-2.4-main",
    "hq-2.4-killed",
    "art-1.0-main",
    "art-1.5-main",
    "art-1.5-killed-aio",
)
StoreCopy = Callable[[str], Path]


def queues_of(store: JournalStore) -> dict[str, list[dict[str, object]]]:
    return {queue.name: envelopes(queue) for address in store.addresses() for queue in address.queues()}


@pytest.mark.rule("S-200", "S-201")
@pytest.mark.parametrize("name", STORES)
def test_live_messages_are_what_the_old_broker_delivered(name: str, stores: PristineStores) -> None:
    truth = expected(name)
    store = open_store(stores[name])
    try:
        found = queues_of(store)
        assert found.keys() == truth["queues"].keys()
        for queue, messages in truth["queues"].items():
            assert differences(messages, found[queue]) == [], queue
        status = store.status()
        assert status["damage"] == 0
        assert status["readOnly"]
        assert status["derivedFrom"] == str(stores[name])
        assert status["preparedTransactions"] == len(truth["prepared_transactions"])
    finally:
        store.close()


@pytest.mark.parametrize("name", STORES)
def test_queues_are_bound_as_they_were(name: str, stores: PristineStores) -> None:
    store = open_store(stores[name])
    try:
        bound = {one.name: (one.address, one.binding.filter) for one in store.core.bindings.queues.values()}
        truth = expected(name)["queues"]
        assert bound == {queue: (facts["address"], facts["filter"]) for queue, facts in truth.items()}
    finally:
        store.close()


@pytest.mark.rule("S-202")
@pytest.mark.parametrize("name", ["hq-2.4-main", "art-1.5-main", "hq-2.4-killed"])
def test_what_the_jms_journal_holds(name: str, stores: PristineStores) -> None:
    truth = expected(name)["jms"]
    store = open_store(stores[name])
    try:
        folder = store.control().child("jms")
        assert folder is not None
        found = {}
        for file_name, file in folder.children():  # type: ignore[union-attr]
            source = file.open()  # type: ignore[union-attr]
            found[file_name] = json.loads(bytes(source.read(0, source.size_bytes)))
    finally:
        store.close()
    kinds = {one["type"]: one for one in found.values()}
    assert len(kinds) <= len(found) == len(truth["destinations"]) + len(truth["connection_factories"])
    by_name = {(one["type"], one["name"]): one for one in found.values()}
    for wanted in truth["destinations"]:
        got = by_name[wanted["type"], wanted["name"]]
        assert {key: got[key] for key in wanted} == wanted
    for wanted in truth["connection_factories"]:
        got = by_name["ConnectionFactory", wanted["name"]]
        assert {key: got[key] for key in wanted} == wanted
    for wanted in truth["bindings"]:
        assert by_name[wanted["type"], wanted["name"]]["bindings"] == wanted["bindings"]


@pytest.mark.mount
@pytest.mark.rule("S-200")
def test_a_mount_of_one_is_read_only(stores: PristineStores, tmp_path: Path) -> None:
    """By itself, and from the path of its journal, too."""
    with mounted_for_writing(stores["hq-2.4-main"] / "journal", tmp_path / "mnt") as mount:
        truth = expected("hq-2.4-main")["queues"]["ship.eu"]
        assert differences(truth, read_lines(mount.path / "ship.addr" / "ship.eu")) == []
        assert (mount.path / ".journalfs" / "jms" / "queue.orders.json").is_file()
        with pytest.raises(OSError, match="Read-only"):
            (mount.path / "ship.addr" / "new.txt").write_text("x\n")


def test_commands_take_its_path(stores: PristineStores, derived: Path) -> None:
    store = stores["art-1.0-main"]
    listed = journalfs("ls", store)
    assert "desk-7.watch" in listed.stdout
    assert "11" in journalfs("ls", store, "jms.queue.orders").stdout
    assert "price 0" in journalfs("cat", store, "jms.topic.prices::desk-7.cheap").stdout
    assert '"message' in journalfs("print", "--journal", store).stdout
    checked = journalfs("check", store)
    assert (checked.returncode, "no damage" in checked.stderr) == (0, True), checked.stderr
    elsewhere = derived.with_name("elsewhere")
    assert journalfs("status", "--format", "artemis-1", "--derived", elsewhere, store).returncode == 0
    assert any(elsewhere.rglob("older.json"))


def test_bodies_stay_where_they_are(stores: PristineStores) -> None:
    place = locate_readable(stores["hq-2.4-main"])[0].root
    assert not list(place.rglob("*.msg"))
    made_of = derived_from(place)
    assert made_of is not None
    assert made_of.bodies == str(stores["hq-2.4-main"] / "large-messages")


@pytest.mark.rule("S-203")
def test_derived_once_and_made_anew_when_the_source_changed(store_copy: StoreCopy) -> None:
    source = store_copy("hq-2.2-core")
    first = locate_readable(source)[0].root
    assert locate_readable(source)[0].root == first
    (source / "journal" / "hornetq-data-9.hq").write_bytes(bytes(64))
    second = locate_readable(source)[0].root
    assert second != first
    assert second.parent == first.parent


@pytest.mark.rule("S-200")
def test_nothing_is_written_to_one(store_copy: StoreCopy) -> None:
    source = store_copy("hq-2.4-killed")
    before = tree_state(source)
    for path in (source, locate_readable(source)[0].root):
        with pytest.raises(OlderStore, match="convert"):
            open_for_writing(path)
    assert journalfs("compact", source).returncode == 4
    open_store(source).close()
    assert tree_state(source) == before
    assert not (source / "journalfs").exists()


def test_what_is_forced_has_to_be_there(tmp_path: Path) -> None:
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(NotAStore):
            locate_readable(folder, kind="hornetq")


@pytest.mark.parametrize("missing", ["bindings", "journal", "paging", "large-messages"])
def test_without_a_directory(missing: str, store_copy: StoreCopy) -> None:
    source = store_copy("hq-2.4-main")
    shutil.rmtree(source / missing)
    store = open_store(source)
    try:
        found = queues_of(store)
        if missing == "paging":
            assert len(found["paged.two"]) > 0
        if missing != "journal":
            assert sum(map(len, found.values())) > 0
    finally:
        store.close()


@pytest.mark.rule("S-204")
def test_a_torn_page_gives_what_is_before_and_behind(store_copy: StoreCopy) -> None:
    source = store_copy("hq-2.4-main")
    (page,) = (source / "paging").rglob("000000004.page")
    content = bytearray(page.read_bytes())
    second = 6 + int.from_bytes(content[1:5], "big")
    content[second : second + 5] = b"\0" * 5
    page.write_bytes(content)
    store = open_store(source)
    try:
        whole = [one["id"] for one in expected("hq-2.4-main")["queues"]["paged.two"]["messages"]]
        found = [one["id"] for one in queues_of(store)["paged.two"]]
        assert len(whole) - 1 == len(found)
        assert set(found) < set(whole)
        damage = store.core.damage()[0]
        assert damage.file.endswith("000000004.page")
        assert damage.offset == second
    finally:
        store.close()


@pytest.mark.rule("S-204")
@pytest.mark.parametrize("name", ["hq-2.1-core", "hq-2.4-main", "art-1.5-killed-aio"])
def test_damage_anywhere_gives_what_is_intact(name: str, store_copy: StoreCopy, tmp_path: Path) -> None:
    """Cut off and overwritten at random: never a failure, and never a message that was not there."""
    chance = random.Random(7)
    source = store_copy(name)
    known = {one["id"] for facts in expected(name)["queues"].values() for one in facts["messages"]}
    files = sorted(
        path for path in source.rglob("*") if path.suffix in (".hq", ".amq", ".page", ".bindings", ".jms")
    )
    for round_ in range(12):
        hurt = tmp_path / f"hurt-{round_}"
        shutil.copytree(source, hurt)
        path = hurt / chance.choice(files).relative_to(source)
        size = path.stat().st_size
        if round_ % 2:
            os.truncate(path, chance.randrange(size))
        else:
            with path.open("r+b") as file:
                file.seek(chance.randrange(min(size, 40_000)))
                file.write(chance.randbytes(chance.randrange(1, 200)))
        store = open_store(hurt)
        try:
            found = {one["id"] for messages in queues_of(store).values() for one in messages}
            assert len(found & known) > len(known) // 4 or "bindings" in path.name
        finally:
            store.close()
        shutil.rmtree(hurt)
