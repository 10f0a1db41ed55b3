"""Rows of docs/tools.md, each tried by the program itself on a mounted store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.frozen import PristineStores
from tests.mounting import MountedStore, mounted_for_writing
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.mount


class Row(NamedTuple):
    """What a program is told, whether it says that it succeeded, and how many messages more there are."""

    command: str
    succeeds: bool
    more: int


ROWS = {
    "cp": Row("cp two.txt $q/new.txt", True, 2),
    "cp -p": Row("cp -p two.txt $q/new.txt", True, 2),
    "tee": Row("tee -a $q/new.txt < two.txt", True, 2),
    "mv of a staged name": Row("cp two.txt $q/.new && mv $q/.new $q/new.txt", True, 2),
    "mv from another filesystem": Row("mv two.txt $q/new.txt", True, 2),
    "install": Row("install two.txt $q/new.txt", False, 2),
    "rsync": Row("rsync two.txt $q/", True, 2),
    "rsync --inplace": Row("rsync --inplace two.txt $q/", False, 2),
    "tar": Row("tar cf - two.txt | tar xf - -C $q", True, 2),
    "sed -i": Row("sed -i s/a/b/ $q/part-*", False, 0),
    "truncate": Row("truncate -s 0 $q/part-*", False, 0),
    "dd seek=": Row("dd if=two.txt of=$q/new.txt seek=3 bs=1", False, 0),
    "ln -s": Row("ln -s two.txt $q/link", False, 0),
    "mkfifo": Row("mkfifo $q/fifo", False, 0),
    "touch": Row("touch $q/new.txt", True, 0),
    "split": Row("split -l 1 two.txt $q/.x && mv $q/.xaa $q/one.txt", True, 1),
    "shutil.copyfile": Row(
        "python3 -c 'import shutil; shutil.copyfile(\"two.txt\", \"'$q'/new.txt\")'", True, 2
    ),
    "shutil.copy": Row("python3 -c 'import shutil; shutil.copy(\"two.txt\", \"'$q'/new.txt\")'", False, 2),
    "sqlite": Row(
        "python3 -c 'import sqlite3; sqlite3.connect(\"'$q'/x.db\").execute(\"create table t(x)\")'", False, 0
    ),
    "grep -r": Row("grep -rq id $q", True, 0),
}


@pytest.fixture(scope="module")
def mount(stores: PristineStores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    work = tmp_path_factory.mktemp("tools")
    shutil.copytree(stores["orders-basic"], work / "store")
    with mounted_for_writing(work / "store", work / "mnt") as mount:
        yield mount


@pytest.mark.parametrize("name", ROWS)
def test_the_program_does_what_the_table_says(mount: MountedStore, tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    if shutil.which(row.command.split()[0]) is None:
        pytest.fail(f"{row.command.split()[0]} is not installed")
    queue = mount.path / "orders" / "orders"
    (tmp_path / "two.txt").write_text("one\ntwo\n")

    def count() -> int:
        number = json.loads((queue / ".status").read_text())["messages"]
        assert isinstance(number, int)
        return number

    before = count()
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {row.command}"],
        cwd=tmp_path,
        env={**os.environ, "q": str(queue)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ((done.returncode == 0), count() - before) == (row.succeeds, row.more), done.stderr


def test_each_row_that_is_tried_is_in_the_table() -> None:
    text = (ROOT / "docs" / "tools.md").read_text().lower().replace("`", "")
    missing = [name for name in ROWS if name.lower() not in text]
    assert not missing
