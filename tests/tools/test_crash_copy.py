"""A copy of a store in which files come and go meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tools.crash_copy import copy_as_left


@pytest.mark.parametrize("fails", [False, True])
def test_a_copy_beside_which_a_file_got_its_name_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The first copy has the old name, or misses the file."""
    root, programs = tmp_path / "store", tmp_path / "bin"
    for folder in (root / "journal", programs):
        folder.mkdir(parents=True)
    (root / "journal" / "1.tmp").write_text("x")
    copying = programs / "cp"
    copying.write_text(f"""#!/bin/sh
        {shutil.which("cp")} "$@"
        if [ -e "$2/journal/1.tmp" ]; then
            mv "$2/journal/1.tmp" "$2/journal/1.amq"
            exit {int(fails)}
        fi
    """)
    copying.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    copy = copy_as_left(root, tmp_path / "copy")
    assert os.listdir(copy / "journal") == ["1.amq"]


def test_two_names_of_one_file_stay_that(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (root / "one").write_bytes(b"x")
    (root / "two").hardlink_to(root / "one")
    copy = copy_as_left(root, tmp_path / "of" / "copy")
    assert (copy / "one").samefile(copy / "two")
