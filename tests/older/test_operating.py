"""What an operator meets who migrates: wrong calls, and damage, told by the names that the source has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frozen import PristineStores, tree_state
from tests.mounting import journalfs

StoreCopy = Callable[[str], Path]


def overwrite(path: Path, at: int, length: int) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + length] = b"\xa5" * length
    path.write_bytes(content)


@pytest.mark.rule("S-204")
def test_damage_names_the_source(store_copy: StoreCopy, derived: Path) -> None:
    """Also what shows only once all is together: where in the source's file the reference lies."""
    store = store_copy("hq-2.4-main")
    overwrite(store / "journal" / "hornetq-data-4.hq", 3000, 600)
    told = journalfs("ls", store)
    assert told.stderr.startswith(f"journalfs: {store}: damage in ")
    assert str(derived) not in told.stderr + told.stdout
    checked = journalfs("check", "--json", store)
    assert checked.returncode == 5
    lost = [
        one for one in map(json.loads, checked.stdout.splitlines()) if one.get("kind") == "missing-message"
    ]
    assert lost
    for one in lost:
        content = (store / one["file"]).read_bytes()
        message_id = int(one["reason"].partition("message ")[2].partition(",")[0])
        before = content[one["offset"] - 19 : one["offset"]]
        assert message_id.to_bytes(8, "big") in before, one


@pytest.mark.rule("S-209")
def test_a_report_has_what_shows_once_all_is_together(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("hq-2.4-main")
    for path in (store / "bindings").iterdir():
        path.unlink()
    overwrite(store / "journal" / "hornetq-data-4.hq", 3000, 600)
    done = journalfs("repair", "--json", store, "--out", tmp_path / "new")
    assert (done.returncode, done.stderr) == (5, "")
    kinds = {one["kind"] for one in json.loads(done.stdout)["damage"]}
    assert {"garbage", "lost-binding", "missing-message"} <= kinds


@pytest.mark.rule("S-215")
def test_a_message_of_the_index_has_its_checksum_looked_at(store_copy: StoreCopy) -> None:
    store = store_copy("kaha-5.16.7-killed")
    overwrite(store / "db-5.log", 3000, 600)
    checked = journalfs("check", store)
    assert checked.returncode == 5
    assert "db-5.log\t28\t110173\tchecksum" in checked.stdout


def test_wrong_calls_leave_nothing(stores: PristineStores, tmp_path: Path) -> None:
    source, there = stores["hq-2.4-main"], tmp_path / "there"
    before = tree_state(source)
    there.mkdir()
    (there / "file").write_text("x")
    for arguments, says in (
        ((source, source / "new"), "it is in the source"),
        ((source, there), "the directory is not empty"),
        (("--format", "kahadb", source, tmp_path / "new"), "no store of kind kahadb here"),
        (("--format", "hornetq", stores["kaha-6.1.7-clean"], tmp_path / "new"), "no store of kind hornetq"),
    ):
        done = journalfs("convert", *arguments)
        assert done.returncode != 0
        assert says in done.stderr
    assert tree_state(source) == before
    assert [path.name for path in tmp_path.iterdir() if path.name != "derived"] == ["there"]
