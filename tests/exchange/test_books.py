"""The books of an export: what the store had is what is in the file and what is not, and why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from journalfs.account.filters import EVERYTHING
from journalfs.errors import EXIT_DAMAGED, EXIT_WRONG_CALL, BooksDoNotBalance
from journalfs.exchange.exporting import export_store
from journalfs.exchange.importing import import_file
from journalfs.exchange.journals import Told
from journalfs.exchange.targets import StoreTarget
from journalfs.store import open_store
from journalfs.windows import whole_lines
from tests.cli.running import journalfs
from tests.exchange.exported import read_xml
from tests.frozen import PristineStores
from tests.mounting import journalfs as commands


def books_of(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    done = journalfs("export", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)["books"]


def count_in(form: str, out: Path) -> int:
    """Count the pairs of message and queue in an export."""
    if form == "xml":
        return sum(len(one[2]) for same in read_xml(out.read_bytes())[0].values() for one in same)
    return len(out.read_bytes().splitlines())


@pytest.mark.rule("S-323")
@pytest.mark.parametrize("form", ["jsonl", "xml"])
def test_transactions_in_doubt_are_not_in_an_export(
    form: str, stores: PristineStores, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, books = books_of("--format", form, stores["transactions"] / "data", out)
    left = sum(one["messages"] for one in books["notCarried"])
    assert code == EXIT_DAMAGED
    assert {one["standing"] for one in books["notCarried"]} == {"prepared"}
    assert books["carriedMessages"] == count_in(form, out)
    assert books["sourceMessages"] == books["carriedMessages"] + left
    # XML has what they acknowledged, as the broker's own export does.
    assert left == (7 if form == "xml" else 13)


@pytest.mark.rule("S-323", "S-324")
@pytest.mark.parametrize("form", ["jsonl", "xml"])
def test_only_what_was_asked_for(form: str, stores: PristineStores, tmp_path: Path) -> None:
    out, store = tmp_path / "out", stores["orders-basic"]
    options = ("--queue", "orders::orders", "--queue", "prices", "--where", "n > 5", "--since", "2020-01-01")
    code, books = books_of("--format", form, *options, store, out)
    assert code == 0
    assert books["carriedMessages"] == count_in(form, out) > 0
    assert books["carried"].keys() <= {"orders::orders", "prices::prices.all", "prices::prices.eu"}
    assert all(one["asked"] for one in books["notCarried"])
    reasons = {one["reason"] for one in books["notCarried"] if one["queue"] == "orders::orders"}
    assert reasons == {"--where n > 5 --since 2020-01-01"}
    whole = journalfs("cat", store, "orders::orders", "--where", "n > 5").stdout.splitlines()
    assert books["carried"]["orders::orders"] == len(whole)
    code, books = books_of("--until", "2020-01-01", "--overwrite", "--format", form, store, out)
    assert (code, books["carriedMessages"], count_in(form, out)) == (0, 0, 0)
    done = journalfs("export", "--queue", "ordres", store, tmp_path / "none")
    assert (done.returncode, (tmp_path / "none").exists()) == (EXIT_WRONG_CALL, False)
    assert "did you mean orders?" in done.stderr


@pytest.mark.rule("S-323")
def test_a_missing_journal_file_ends_with_what_check_says(
    store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    data = store_copy("compacted") / "data"
    assert journalfs("ls", data).returncode == 0  # makes the index
    largest = max((data / "journal").glob("*.amq"), key=lambda path: len(path.read_bytes().rstrip(b"\0")))
    largest.rename(tmp_path / "away")
    checked = journalfs("check", data)
    done = journalfs("export", data, tmp_path / "out")
    assert (checked.returncode, done.returncode) == (EXIT_DAMAGED, EXIT_DAMAGED)
    rows = {line for line in checked.stdout.splitlines() if "\t" in line}
    assert rows
    assert rows <= set(done.stderr.splitlines())
    assert "missing in the source" in done.stderr


@pytest.mark.rule("S-323")
@pytest.mark.parametrize("form", ["jsonl", "xml"])
def test_a_message_that_is_dropped_is_found(
    form: str, stores: PristineStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A canary: the export forgets one message of one queue."""
    if form == "jsonl":
        monkeypatch.setattr(
            "journalfs.exchange.exporting.whole_lines",
            lambda source: [b"".join(whole_lines(source)).partition(b"\n")[2]],
        )
    else:
        monkeypatch.setattr("journalfs.exchange.xml_out._runs", lambda queue: queue.content.live()[:0])
    store = open_store(stores["orders-basic"])
    try:
        with (tmp_path / "out").open("wb") as out:
            done = export_store(store, form, out, Told(lambda text: None), lambda count: None)
        with pytest.raises(BooksDoNotBalance, match="a fault of journalfs"):
            done.books("OUT")
    finally:
        store.close()


def test_a_failed_export_leaves_nothing(stores: PristineStores, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stores["orders-basic"], copy)
    done = journalfs("export", copy, tmp_path / "out", "--where", "n >")
    assert done.returncode == EXIT_WRONG_CALL
    assert not (tmp_path / "out").exists()


def imported(file: Path, store: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = commands("import", "--json", *options, file, store)  # it ends its process
    return done.returncode, json.loads(done.stdout)["books"]


@pytest.fixture
def new(tmp_path: Path) -> Path:
    assert journalfs("create", tmp_path / "store").returncode == 0
    return tmp_path / "store"


@pytest.mark.rule("S-324", "S-327")
def test_what_an_import_leaves_out(new: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    lines = [{"queue": "a", "body": f"{number}", "properties": {"n": number}} for number in range(5)]
    lines += [{"queue": "b", "body": "twice", "properties": {"_AMQ_DUPL_ID": "same"}}] * 2
    lines += [{"queue": "b", "body": "part", "damage": "the large body is missing"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, books = imported(file, new, "--queue", "b", "--queue", "a", "--where", "n IS NULL OR n > 2")
    assert code == EXIT_DAMAGED
    assert books["carried"] == {"a::a": 2, "b::b": 1}
    left = {(one["queue"], one["kind"]): one["messages"] for one in books["notCarried"]}
    assert left == {("a::a", "filtered"): 3, ("b::b", "duplicate"): 1, ("b::b", "damaged-line"): 1}
    shown = journalfs("cat", new).stdout.splitlines()
    assert len(shown) == books["carriedMessages"] == books["sourceMessages"] - 5


@pytest.mark.rule("S-327")
@pytest.mark.parametrize("form", ["jsonl", "xml"])
def test_a_store_goes_into_another_and_balances(
    form: str, stores: PristineStores, new: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"out.{form}"
    code, exported = books_of("--format", form, stores["orders-basic"], out)
    assert code == 0
    code, books = imported(out, new)
    assert books["sourceMessages"] == exported["carriedMessages"]
    left = sum(one["messages"] for one in books["notCarried"])
    assert books["carriedMessages"] == books["sourceMessages"] - left
    assert code == (EXIT_DAMAGED if left else 0)
    counted = [json.loads(line) for line in journalfs("ls", "--json", new).stdout.splitlines()]
    assert sum(one["messages"] for one in counted) == books["carriedMessages"]


@pytest.mark.rule("S-327")
def test_a_message_that_an_import_drops_is_found(
    new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A canary: of each batch one line does not get into the store."""
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"queue": "a", "body": f"{number}"}) + "\n" for number in range(5)))
    whole = StoreTarget.publish

    async def one_less(self: StoreTarget, address: str, queue: str, lines: bytes) -> None:
        await whole(self, address, queue, lines.partition(b"\n")[2])

    monkeypatch.setattr(StoreTarget, "publish", one_less)
    done = trio.run(import_file, file, new, "jsonl", lambda count: None)
    with pytest.raises(BooksDoNotBalance, match=r"a::a: .*5 .*4 .*a fault of journalfs"):
        done.books("file", EVERYTHING)
