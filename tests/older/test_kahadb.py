"""KahaDB stores of ActiveMQ 5.4 to 6.1, made by tests/older/java/KahaBroker.java, as stores of today."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.records.description import derived_from
from journalfs.records.older import kahadb_log
from journalfs.store import open_store
from journalfs.views.transactions import prepared_transactions
from tests.frozen import PristineStores, load_expected, unpack
from tests.older.activemq5 import differences, lines_by_queue, wanted

NAMES = ("kaha-5.4.3-killed", "kaha-5.8.0-clean", "kaha-5.16.7-killed", "kaha-6.1.7-clean")
ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "priorities": lambda one: -one["priority"],
    "dan\\.x.wild": lambda one: one["timestamp"],
}
"""Where a broker delivers in another order than that of arrival: by priority, and, of a subscription with
wildcards, topic after topic.
"""


@pytest.fixture(scope="module")
def truth() -> dict[str, dict[str, Any]]:
    stores: dict[str, dict[str, Any]] = load_expected("kahadb")
    return stores


def compare(store: Path, derived: Path, account: dict[str, Any], *, version: int | None) -> None:
    """What is in each queue, and which transactions are in doubt."""
    with closing(open_store(store, derived=derived)) as opened:
        made = derived_from(opened.core.root)
        assert made is not None
        assert made.damage == []
        said = dict(made.notes)["read-from"]
        assert (f"version {version}" if version else "the whole journal") in said
        lines = lines_by_queue(opened)
        expected = wanted(account)
        # A queue that holds nothing may be known to the index only.
        assert {name for name in lines if lines[name]} == {name for name in expected if expected[name]}
        for queue, messages in expected.items():
            order = ORDERS.get(queue)
            found = sorted(lines.get(queue, []), key=order) if order else lines.get(queue, [])
            assert len(found) == len(messages), queue
            in_order = sorted(messages, key=order) if order else messages
            for line, message in zip(found, in_order, strict=True):
                assert differences(line, message) == [], (queue, message["id"])
        in_doubt = [one.xid for one in prepared_transactions(opened.core)]
        assert [(one.format_id, one.global_transaction_id.decode()) for one in in_doubt if one] == [
            (one["format"], one["gtrid"]) for one in account["prepared_transactions"]
        ]


VERSIONS = {"5.4.3": 3, "5.8.0": 4, "5.16.7": 7, "6.1.7": 7}
"""Of the index that each broker writes."""


@pytest.mark.rule("S-213")
@pytest.mark.parametrize("name", NAMES)
def test_what_the_old_consumers_got(
    stores: PristineStores, truth: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    compare(stores[name], tmp_path, truth[name], version=VERSIONS[name.split("-")[1]])


@pytest.mark.rule("S-214")
@pytest.mark.parametrize("name", [name for name in NAMES if "5.4" not in name])
def test_without_an_index_the_journal_says_the_same(
    store_copy: Callable[[str], Path], truth: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    store = store_copy(name)
    (store / "db.data").unlink()
    compare(store, tmp_path / "derived", truth[name], version=None)


@pytest.mark.rule("S-214")
def test_an_index_that_is_none_is_said_and_passed_over(
    store_copy: Callable[[str], Path], truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    store = store_copy(NAMES[-1])
    content = bytearray((store / "db.data").read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    (store / "db.data").write_bytes(content)
    with closing(open_store(store, derived=tmp_path / "derived")) as opened:
        made = derived_from(opened.core.root)
        assert made is not None
        assert [one.file for one in made.damage] == ["db.data"]
        found = lines_by_queue(opened)
    expected = wanted(truth[NAMES[-1]])
    assert {name: len(found.get(name, [])) for name in expected} == {
        name: len(messages) for name, messages in expected.items()
    }


@pytest.mark.rule("S-215")
def test_damage_hides_nothing_behind_it(
    store_copy: Callable[[str], Path], truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """A journal file with a hole: what lies before and behind is there, and the hole is said."""
    store = store_copy(NAMES[-1])
    with closing(open_store(store, derived=tmp_path / "whole")) as opened:
        whole = {line["properties"]["__HDR_MESSAGE_ID"] for line in lines_by_queue(opened)["types"]}
    path = min(store.glob("db-*.log"))
    (store / "db.data").unlink()
    content = bytearray(path.read_bytes())
    content[1000:2000] = b"\xa5" * 1000
    path.write_bytes(content)
    with closing(open_store(store, derived=tmp_path / "holed")) as opened:
        made = derived_from(opened.core.root)
        assert made is not None
        assert {one.file for one in made.damage} == {path.name}
        left = {line["properties"]["__HDR_MESSAGE_ID"] for line in lines_by_queue(opened)["types"]}
    assert left < whole
    assert len(left) >= len(whole) - 6


@pytest.mark.rule("S-216")
def test_several_stores_below_one_folder_are_one(
    stores: PristineStores, truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """As a multi KahaDB lays them out, a folder for each group of destinations; a transaction in doubt that
    took part in several is one.
    """
    name = NAMES[1]
    several = tmp_path / "kahadb"
    for group in ("#210", "queue#3a#2f#2fother"):
        shutil.copytree(stores[name], several / group)
    for given in (tmp_path, several):
        with closing(open_store(given, derived=tmp_path / f"derived-{given.name}")) as opened:
            found = lines_by_queue(opened)
            in_doubt = [one.xid for one in prepared_transactions(opened.core)]
        assert len(found["orders"]) == 2 * len(truth[name]["queues"]["orders"])
        assert len(in_doubt) == len(set(in_doubt)) == len(truth[name]["prepared_transactions"]) > 0


@pytest.mark.rule("S-215")
def test_a_missing_file_of_one_of_several_stores_is_named(stores: PristineStores, tmp_path: Path) -> None:
    for group in ("#210", "queue#3a#2f#2fother"):
        shutil.copytree(stores[NAMES[-1]], tmp_path / "kahadb" / group)
    gone = min((tmp_path / "kahadb" / "#210").glob("db-*.log"))
    gone.unlink()
    with closing(open_store(tmp_path / "kahadb", derived=tmp_path / "derived")) as opened:
        made = derived_from(opened.core.root)
        assert made is not None
        assert {one.file for one in made.damage} == {f"#210/{gone.name}"}


@pytest.mark.rule("S-216")
@pytest.mark.parametrize(("decided", "counts"), [(True, (2, 3)), (False, (1, 1))])
def test_what_several_stores_did_in_one_transaction_of_a_connection(
    tmp_path: Path, decided: bool, counts: tuple[int, int]
) -> None:
    """A broker of 5.18.7 was killed before it told two stores of a multi KahaDB that the transaction is
    committed: it delivers so many messages after its next start, whether or not it had written that down.
    """
    unpack("kahadb-multi", tmp_path)
    store = tmp_path / "kahadb-multi"
    if not decided:
        log = store / "txStore" / "db-1.log"
        content = log.read_bytes()
        log.write_bytes(content[: content.rindex(kahadb_log.BATCH_MAGIC) - 5])
    with closing(open_store(store, derived=tmp_path / "derived")) as opened:
        assert prepared_transactions(opened.core) == []
        found = lines_by_queue(opened)
    assert tuple(len(found[name]) for name in ("orders", "t1")) == counts


@pytest.mark.rule("S-204", "S-215")
@pytest.mark.parametrize("lost", ["all of it", "a command"])
def test_what_is_lost_of_outcomes_decides_nothing(tmp_path: Path, lost: str) -> None:
    """It may have said that the transaction is committed: it stays in doubt, and the damage is said."""
    unpack("kahadb-multi", tmp_path)
    log = tmp_path / "kahadb-multi" / "txStore" / "db-1.log"
    content = bytearray(log.read_bytes())
    if lost == "a command":
        (found,) = (
            one
            for one in kahadb_log.rows(bytes(content), log.name, [])
            if one.command == kahadb_log.Command.PREPARE
        )
        content[found.offset + 1] = 0xFF
    log.write_bytes(content if lost == "a command" else b"\xa5" * len(content))
    with closing(open_store(log.parent.parent, derived=tmp_path / "derived")) as opened:
        made = derived_from(opened.core.root)
        assert made is not None
        assert {one.file for one in made.damage} == {"txStore/db-1.log"}
        assert len(prepared_transactions(opened.core)) == 1


@pytest.mark.rule("S-215")
def test_a_journal_of_which_an_index_is_left_is_missed(tmp_path: Path) -> None:
    unpack("kahadb-multi", tmp_path)
    folder = tmp_path / "kahadb-multi" / "queue#3a#2f#2forders"
    (folder / "db-1.log").unlink()
    with closing(open_store(folder.parent, derived=tmp_path / "derived")) as opened:
        made = derived_from(opened.core.root)
        assert made is not None
        assert [(one.file, one.kind) for one in made.damage] == [(f"{folder.name}/db.data", "missing")]


@pytest.mark.rule("S-216")
@pytest.mark.parametrize("name", ["data-archive", "#210", "other"])
def test_a_store_without_an_index_is_no_archive(
    stores: PristineStores, truth: dict[str, dict[str, Any]], tmp_path: Path, name: str
) -> None:
    """The only one, one of a destination, one with a lock of its own, below journal files of another."""
    folder = tmp_path / "given" / name
    shutil.copytree(stores[NAMES[-1]], folder)
    (folder / "db.data").unlink()
    (folder / "db.redo").unlink(missing_ok=True)
    (folder / "lock").touch() if name == "other" else (folder / "lock").unlink(missing_ok=True)
    if name != "data-archive":
        (folder.parent / "db-1.log").write_bytes(b"")
    with closing(open_store(folder.parent, derived=tmp_path / "derived")) as opened:
        found = lines_by_queue(opened)
    assert len(found["orders"]) == len(truth[NAMES[-1]]["queues"]["orders"])


@pytest.mark.rule("S-201")
def test_what_was_not_persistent_is_not_of_the_store(
    stores: PristineStores, truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """A broker's own folder has it beside the store: messages in the files of a journal, without commands."""
    name, record = NAMES[-1], kahadb_log.HEAD.pack(9 + 70_000, kahadb_log.USER_RECORD)
    shutil.copytree(stores[name], tmp_path / "data" / "kahadb")
    spooled = tmp_path / "data" / "localhost" / "tmp_storage" / "db-1.log"
    spooled.parent.mkdir(parents=True)
    batch = kahadb_log.BATCH.pack(kahadb_log.BATCH.size, 2, kahadb_log.BATCH_MAGIC, 9 + 70_000, 0)
    spooled.write_bytes(batch + record + (70_000).to_bytes(4, "big") + b"\x17" * 70_000)
    compare(tmp_path / "data", tmp_path / "derived", truth[name], version=VERSIONS["6.1.7"])


@pytest.mark.rule("S-216")
def test_archived_files_of_a_journal_are_left(
    store_copy: Callable[[str], Path], truth: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """With archiveDataLogs a broker puts them into a folder of the store's."""
    name = NAMES[-1]
    store = store_copy(name)
    (store / "data-archive").mkdir()
    for path in store.glob("db-*.log"):
        shutil.copy(path, store / "data-archive")
    compare(store, tmp_path / "derived", truth[name], version=VERSIONS["6.1.7"])
