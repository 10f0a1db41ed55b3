"""No command is cleaner than another on the same bytes."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from journalfs.account.entries import Account, Entry
from journalfs.account.taking import account_of
from journalfs.api import VirtualDirectory
from journalfs.errors import EXIT_DAMAGED
from journalfs.format.server_lock import SERVER_LOCK_NAME, NodeState
from journalfs.inspect.deep import checked
from journalfs.store import open_store
from tests.account.damaging import EVERY, OF_BINDINGS, OF_BODIES, OF_JOURNAL, OF_PAGES, write_at
from tests.cli.running import journalfs
from tests.frozen import OLDER_STORES
from tests.mounting import journalfs as process
from tests.mounting import mounted

Copy = Callable[[str], Path]
Losses = Counter[tuple[str, str, str | None, int | None, str]]

CASES = {
    "orders-basic": [*OF_JOURNAL, *OF_BINDINGS],
    "killed": ["garbage_in_journal", "journal_file_gone", "journal_end_zeroed"],
    "transactions": [*OF_JOURNAL, *OF_BODIES],
    "large-and-paged": [*OF_JOURNAL, *OF_BINDINGS, *OF_PAGES, *OF_BODIES],
    "hq-2.4-main": [
        "garbage_in_journal",
        "journal_file_half_copied",
        "bindings_gone",
        "page_gone",
        "last_page_gone",
    ],
    "hq-2.1-core": ["page_gone"],
    "art-1.5-main": ["page_gone"],
}
QUICK = [("large-and-paged", True), ("orders-basic", False)]
ALL = [
    pytest.param(store, damage, index, marks=[] if (store, index) in QUICK else pytest.mark.long)
    for store, damages in CASES.items()
    for damage in damages
    for index in (False, True)
]

OF_TABLES = {
    "row_spoiled": "UPDATE messages SET userrecordtype = 256 WHERE seq = (SELECT min(seq) FROM messages)",
    "message_gone": "DELETE FROM messages WHERE seq = "
    "(SELECT min(seq) FROM messages WHERE userrecordtype = 45)",
    "bindings_gone": "DELETE FROM bindings",
    "body_gone": "DELETE FROM large_messages WHERE id = (SELECT min(id) FROM large_messages)",
    "body_cut": "UPDATE large_messages SET data = substr(data, 1, length(data) / 2) "
    "WHERE id = (SELECT min(id) FROM large_messages)",
    "page_gone": "DELETE FROM page_store1 WHERE filename LIKE '%2%'",
    "page_table_gone": "DROP TABLE page_store2",
    "page_cut": "UPDATE page_store1 SET data = substr(data, 1, length(data) - 50) WHERE filename LIKE '%1%'",
}
"""What was done to the tables of a store in SQLite."""

OF_DEEP = {"record", "page-record", "page-transaction", "duplicate-id", "large-message", "reference"}
"""Kinds that only a look at every record can find."""


def losses(entries: Iterable[Entry]) -> Losses:
    found = (one for one in entries if not one.is_harmless)
    return Counter((one.kind, one.file, one.queue, one.messages.messages, one.reason) for one in found)


def kinds(account: Account) -> Mapping[str, int]:
    return Counter(one.kind for one in account.entries)


def said_by_library(data: Path, index: bool) -> tuple[Account, Mapping[str, object], int, int]:
    """Return the account of a store, what its status says, how many places its warning names, and how many
    are listed in `damaged/`.
    """
    with closing(open_store(data, index=index)) as store:
        events = [str(event["message"]) for event in store.core.events if event["event"] == "damage"]
        told = re.search(r"damage in (\d+) place", events[0]) if events else None
        damaged = cast(VirtualDirectory, dict(store.control().children())["damaged"])
        listed = sum(name.endswith(".json") for name, _ in damaged.children())
        status = store.status()["account"]
        assert isinstance(status, Mapping)
        return account_of(store), status, int(told.group(1)) if told else 0, listed


@pytest.mark.rule("S-300")
@pytest.mark.parametrize(("name", "damage", "index"), ALL)
def test_everything_that_looks_says_the_same(store_copy: Copy, name: str, damage: str, index: bool) -> None:
    data = store_copy(name) if name in OLDER_STORES else store_copy(name) / "data"
    if index:
        open_store(data).close()
    EVERY[damage](data)
    account, status, told, listed = said_by_library(data, index)
    assert not account.whole, "the damage is not seen"
    again, *_ = said_by_library(data, index)
    assert losses(again.entries) == losses(account.entries)
    assert (told, listed) == (len(account.losses), len(account.losses))
    assert status["kinds"] == kinds(account)
    for key in ("prepared", "undecided", "damaged"):
        assert status[key] == getattr(account.totals, key), key
    assert status["missing"] == account.totals.json()["missing"]
    for deep in (False, True):
        with closing(open_store(data, index=index, anew=True)) as store:
            done = checked(store, deep=deep).account
        more = losses(done.entries) - losses(account.entries)
        assert not losses(account.entries) - losses(done.entries)
        assert {kind for kind, *_ in more} <= (OF_DEEP if deep else set()), more
        if not more:
            assert done.totals == account.totals


@pytest.mark.long
@pytest.mark.rule("S-300", "S-302")
def test_a_database_says_the_same(store_copy: Copy, tmp_path: Path) -> None:
    made = tmp_path / "made.db"
    source = store_copy("large-and-paged") / "data"
    assert journalfs("convert", source, f"sqlite:///{made}").returncode == 0
    for damage, statement in OF_TABLES.items():
        url = f"sqlite:///{shutil.copy(made, tmp_path / damage)}"
        with closing(sqlite3.connect(tmp_path / damage)) as database, database:
            database.execute(statement)
        told = []
        for words in (["check"], ["check", "--deep"]):
            done = journalfs(*words, "--json", url)
            assert done.returncode == EXIT_DAMAGED, damage
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            counted = (row["kind"] for row in rows if row["standing"] is not None and row["kind"] != "orphan")
            told.append(Counter(counted))
        account = json.loads(journalfs("status", "--json", url).stdout)["account"]
        assert (account["whole"], account["kinds"]) == (False, told[0])
        assert (told[1] - told[0]).keys() <= OF_DEEP, damage


@pytest.mark.rule("S-300", "S-302")
def test_a_page_of_a_killed_store_that_only_the_index_knows(store_copy: Copy) -> None:
    """What its journal counts of pages proves nothing: `check` reads all anew, and asks the index for it."""
    data = store_copy("large-and-paged") / "data"
    write_at(data / "journal" / SERVER_LOCK_NAME, 0, bytes([NodeState.ACTIVE.value]))
    open_store(data).close()
    EVERY["page_gone"](data)
    with closing(open_store(data, anew=True)) as store:
        checked_first = account_of(store)
    account, *_ = said_by_library(data, True)
    assert [one.kind for one in account.losses] == ["missing-file"]
    assert losses(checked_first.entries) == losses(account.entries)


@pytest.mark.mount
@pytest.mark.rule("S-300", "S-301", "S-302")
@pytest.mark.parametrize(
    ("damage", "index"),
    [
        ("page_gone", True),
        pytest.param("page_gone", False, marks=pytest.mark.long),
        pytest.param("body_gone", False, marks=pytest.mark.long),
    ],
)
def test_commands_and_a_mount_say_the_same(
    store_copy: Copy, tmp_path: Path, damage: str, index: bool
) -> None:
    """As their users call them. With an index of before all of them tell what that knew."""
    data = store_copy("large-and-paged") / "data"
    if index:
        open_store(data).close()
    EVERY[damage](data)
    check = journalfs("check", "--json", data)
    rows = [json.loads(line) for line in check.stdout.splitlines()]
    assert check.returncode == EXIT_DAMAGED
    counted = Counter(row["kind"] for row in rows if row["standing"] in ("damaged", "missing"))
    assert counted
    status = json.loads(journalfs("status", "--json", data).stdout)["account"]
    assert (status["whole"], status["kinds"]) == (False, counted)
    told = process("ls", data).stderr
    assert f"damage in {counted.total()} place" in told
    with mounted(data, tmp_path / "mnt") as mount:
        control = mount.path / ".journalfs"
        assert json.loads((control / "status.json").read_text())["account"] == status
        listed = [json.loads(path.read_text()) for path in sorted((control / "damaged").glob("*.json"))]
        assert all(row in rows for row in listed)
        assert Counter(row["kind"] for row in listed) == counted
        assert "\njournalfs_whole 0.0\n" in (control / "metrics").read_text()
