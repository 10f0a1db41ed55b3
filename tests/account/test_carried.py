"""Whatever carries messages of a damaged store ends with books that balance, no cleaner than `check`."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import EXIT_DAMAGED, EXIT_OK, EXIT_WRONG_CALL
from journalfs.store import open_store
from tests.account.damaging import EVERY, OF_BINDINGS, OF_BODIES, OF_JOURNAL, OF_PAGES
from tests.cli.running import Done, journalfs
from tests.frozen import OLDER_STORES

Copy = Callable[[str], Path]
Told = tuple[int, Mapping[str, Any]]

CASES = {
    "orders-basic": [*OF_JOURNAL, *OF_BINDINGS],
    "killed": ["garbage_in_journal", "journal_file_gone", "journal_end_zeroed"],
    "transactions": [*OF_JOURNAL, *OF_BODIES],
    "large-and-paged": [*OF_JOURNAL, *OF_BINDINGS, *OF_PAGES, *OF_BODIES],
    "hq-2.4-main": ["garbage_in_journal", "journal_file_half_copied", "bindings_gone"],
}
QUICK = {
    ("large-and-paged", "page_gone", True),
    ("transactions", "garbage_in_journal", False),
}
ALL = [
    pytest.param(store, damage, index, marks=[] if (store, damage, index) in QUICK else pytest.mark.long)
    for store, damages in CASES.items()
    for damage in damages
    for index in (False, True)
]
HARMLESS = {"prepared-transaction", "prepared-acknowledgement", "orphan", "page-set-aside"}
OF_SPARK = [
    ("large-and-paged", "page_gone"),
    ("large-and-paged", "garbage_in_journal"),
    ("transactions", "zeros_in_journal"),
    ("orders-basic", "journal_end_zeroed"),
    ("orders-basic", "bindings_gone"),
    ("hq-2.4-main", "journal_file_half_copied"),
]


@pytest.fixture
def damaged(store_copy: Copy) -> Callable[[str, str, bool], Path]:
    """A store that a kind of damage was done to, after an index was written or without one."""

    def make(name: str, damage: str, index: bool) -> Path:
        data = store_copy(name) if name in OLDER_STORES else store_copy(name) / "data"
        if index:
            open_store(data).close()
        EVERY[damage](data)
        return data

    return make


def told(done: Done) -> Told:
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["books"]


def left(books: Mapping[str, Any], *, asked: bool | None = None) -> int:
    """Sum what is not carried of what the source had."""
    rows = (one for one in books["notCarried"] if one["standing"] != "missing")
    return sum(one["messages"] or 0 for one in rows if asked in (None, one["asked"]))


def shown(data: Path) -> int:
    """Count the messages that a store shows: without its books."""
    return len(journalfs("cat", data).stdout.splitlines())


def check_says(data: Path) -> tuple[int, set[str]]:
    done = journalfs("check", data)
    assert done.returncode in (EXIT_OK, EXIT_DAMAGED), done.stderr
    rows = {line for line in done.stdout.splitlines() if "\t" in line}
    return done.returncode, {row for row in rows if row.split("\t")[3] not in HARMLESS}


def exported(data: Path, out: Path) -> Told:
    """Export as lines, and hold the file against the books."""
    done = journalfs("export", "--json", data, out)
    code, books = told(done)
    lines = [json.loads(line) for line in out.read_bytes().splitlines()]
    whole = sum("damage" not in one for one in lines)
    assert whole == books["carriedMessages"]
    assert books["sourceMessages"] == books["carriedMessages"] + left(books)
    assert check_says(data)[1] <= set(done.stderr.splitlines())
    return code, books


def imported(file: Path, new: Path) -> Told | None:
    """Import the lines, and hold the new store against the books."""
    assert journalfs("create", new).returncode == 0
    done = journalfs("import", "--json", file, new)
    if done.returncode == EXIT_WRONG_CALL:
        # Without bindings its messages are in a queue of another name, and NEW has DLQ::DLQ.
        assert re.search("routing-types: (DLQ|ExpiryQueue): its only queue is ANYCAST", done.stderr)
        return None
    code, books = told(done)
    assert shown(new) == books["carriedMessages"]
    assert books["sourceMessages"] == books["carriedMessages"] + left(books)
    assert code == (EXIT_DAMAGED if left(books, asked=False) else EXIT_OK)
    return code, books


def restored(data: Path, backups: Path, new: Path) -> Told:
    """Back a store up and restore it; the new store is never cleaner than the old one."""
    code, books = told(journalfs("backup", "--json", data, backups))
    assert books["sourceMessages"] == books["carriedMessages"]
    again, of_new = told(journalfs("restore", "--json", backups, new))
    assert again == code
    assert of_new["sourceMessages"] == books["sourceMessages"] == of_new["carriedMessages"] + left(of_new)
    assert check_says(new)[0] == check_says(data)[0]
    return again, of_new


@pytest.mark.rule("S-323", "S-325", "S-327")
@pytest.mark.parametrize(("name", "damage", "index"), ALL)
def test_exports_imports_and_backups_balance(
    damaged: Callable[[str, str, bool], Path], tmp_path: Path, name: str, damage: str, index: bool
) -> None:
    data = damaged(name, damage, index)
    checked, _ = check_says(data)
    assert checked == EXIT_DAMAGED
    code, books = exported(data, tmp_path / "out.jsonl")
    assert code == checked
    assert not books["complete"]
    done = imported(tmp_path / "out.jsonl", tmp_path / "imported")
    assert done is not None or damage in OF_BINDINGS
    if done is not None:
        _, of_new = done
        kinds = [one for one in of_new["notCarried"] if one["kind"] == "damaged-line"]
        assert of_new["sourceMessages"] - sum(one["messages"] for one in kinds) == books["carriedMessages"]
    if name not in OLDER_STORES:
        code, of_restored = restored(data, tmp_path / "backups", tmp_path / "restored")
        assert (code, of_restored["sourceMessages"]) == (checked, books["sourceMessages"])


@pytest.mark.rule("S-323")
def test_a_database_balances(tmp_path: Path) -> None:
    """A row of a store in SQLite is spoiled."""
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"queue": "a", "body": f"{number}"}) + "\n" for number in range(5)))
    url = f"sqlite:///{tmp_path}/store.db"
    assert journalfs("create", url).returncode == 0
    assert told(journalfs("import", "--json", file, url))[1]["carried"] == {"a::a": 5}
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        database.execute(
            "UPDATE messages SET userrecordtype = 256 WHERE seq = (SELECT min(seq) FROM messages)"
        )
    code, _ = exported(Path(url), tmp_path / "out.jsonl")
    assert code == check_says(Path(url))[0] == EXIT_DAMAGED


@pytest.mark.long
@pytest.mark.parametrize("damage", [*OF_JOURNAL])
def test_a_replay_of_a_damaged_history_balances(
    damaged: Callable[[str, str, bool], Path], tmp_path: Path, damage: str
) -> None:
    data = damaged("retention", damage, False)
    before = shown(data)
    done = journalfs("replay", data, "--to-queue", "DLQ::DLQ", "--json")
    if "not opened for writing" in done.stderr:  # there is no journal left to replay into
        assert (done.returncode, done.stdout) == (EXIT_DAMAGED, "")
        return
    sent = sum(json.loads(line)["messages"] for line in done.stdout.splitlines())
    books = json.loads(done.stderr.splitlines()[-1])["books"]
    assert sent == books["carriedMessages"] == books["sourceMessages"] - left(books)
    assert shown(data) == before + sent


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.rule("S-319")
@pytest.mark.parametrize(("name", "damage"), OF_SPARK)
def test_archives_balance(
    damaged: Callable[[str, str, bool], Path], tmp_path: Path, name: str, damage: str
) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - one test needs it

    data = damaged(name, damage, False)
    done = journalfs("pipeline", "archive", data, "--output", tmp_path / "archive", "--json")
    code, books = told(done)
    files = (tmp_path / "archive").rglob("*.parquet")
    rows = [one for path in files for one in pq.ParquetFile(path).read(["damage"])["damage"].to_pylist()]
    assert rows.count(None) == books["carriedMessages"]
    assert books["sourceMessages"] == books["carriedMessages"] + left(books)
    assert code == check_says(data)[0] == EXIT_DAMAGED
    assert check_says(data)[1] <= set(done.stderr.splitlines())
    _, of_export = exported(data, tmp_path / "out.jsonl")
    assert books["carried"] == of_export["carried"]
