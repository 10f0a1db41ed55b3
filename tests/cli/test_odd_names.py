"""File names and store paths that are no UTF-8: shown escaped, wherever text or JSON is made of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from journalfs.errors import EXIT_DAMAGED
from journalfs.showing import path_of, shown, shown_in
from journalfs.store import open_store
from tests.cli.running import journalfs
from tests.frozen import PristineStores
from tests.mounting import JOURNALFS, mounted
from tests.tools.crash_copy import copy_as_left

ODD = os.fsdecode(b"\xff\xfe")
FILES = ["journal/{}.amq", "bindings/{}.bindings", "large-messages/{}.msg", "paging/{}/000000001.page"]


@pytest.fixture
def odd(stores: PristineStores, tmp_path: Path) -> Path:
    """A store below a path that is no UTF-8, with such files in each directory."""
    store = tmp_path / f"store {ODD}"
    copy_as_left(stores["large-and-paged"], store)
    for name in FILES:
        path = store / "data" / name.format(ODD)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"no record")
    (store / "data/paging" / ODD / "address.txt").write_text("work\n")
    journal = store / "data/journal"
    (journal / "activemq-data-1.amq").rename(journal / f"{ODD} whole.amq")
    return store


def test_what_is_no_character_is_escaped() -> None:
    assert shown("ä/plain") == "ä/plain"
    assert shown(f"ä{ODD}\ud800") == r"ä\xff\xfe\ud800"
    value = {f"k{ODD}": [ODD, 1, None, {"x": (ODD,)}]}
    assert shown_in(value) == {r"k\xff\xfe": [r"\xff\xfe", 1, None, {"x": [r"\xff\xfe"]}]}


def test_a_shown_name_leads_to_its_file(tmp_path: Path) -> None:
    file = tmp_path / f"{ODD}.amq"
    file.touch()
    assert path_of(shown(file.name), tmp_path) == file
    same = tmp_path / r"\xff\xfe.amq"
    assert path_of("plain", tmp_path) == tmp_path / "plain"
    same.touch()
    assert path_of(same.name, tmp_path) == same


def test_check_lists_what_has_such_a_name(odd: Path) -> None:
    done = subprocess.run(
        [JOURNALFS, "check", "--json", odd], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, "Traceback" in done.stderr) == (EXIT_DAMAGED, False), done.stderr
    names = {json.loads(line)["file"] for line in done.stdout.splitlines()}
    assert {
        r"journal/\xff\xfe.amq",
        r"bindings/\xff\xfe.bindings",
        r"paging/\xff\xfe/000000001.page",
    } <= names
    assert r"journal/\xff\xfe.amq" in journalfs("check", odd).stdout


def test_the_index_takes_such_names(odd: Path) -> None:
    first = open_store(odd)
    before = len(first.core.loader.files)
    first.close()
    second = open_store(odd)
    assert second.core.loader.bytes_scanned == 0
    assert len(second.core.loader.files) == before
    second.close()


@pytest.mark.mount
@pytest.mark.rule("S-48")
def test_a_mount_of_it_shows_everything(odd: Path, tmp_path: Path) -> None:
    with mounted(odd, tmp_path / "mnt") as mount:
        control = mount.path / ".journalfs"
        assert r"\xff" in mount.control("status.json")["index"]
        assert mount.control("mount.json")["store"].endswith(r"\xff\xfe")
        assert r"\xff\xfe whole.amq.jsonl" in os.listdir(control / "journal")
        line = (control / "journal" / r"\xff\xfe whole.amq.jsonl").read_bytes().splitlines()[0]
        assert json.loads(line)["file"] == r"\xff\xfe whole.amq"
        damaged = os.listdir(control / "damaged")
        facts = [json.loads((control / "damaged" / name).read_bytes()) for name in damaged if "json" in name]
        assert r"paging/\xff\xfe/000000001.page" in {one["file"] for one in facts}
        (raw,) = [name for name in damaged if name.startswith("paging") and name.endswith(".bin")]
        assert (control / "damaged" / raw).read_bytes() == b"no record"
