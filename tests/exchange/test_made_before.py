"""A store that is made of another once more: what was done to its end is said, and stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from journalfs import door
from tests.mounting import journalfs


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Of all files of a store."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.rule("S-359")
def test_repeated_after_it_was_done(tmp_path: Path) -> None:
    store, new, lines = tmp_path / "store", tmp_path / "new", tmp_path / "in.jsonl"
    lines.write_text(json.dumps({"queue": "in", "body": "one"}) + "\n")
    assert journalfs("create", store).returncode == 0
    assert journalfs("import", lines, store).returncode == 0
    first = journalfs("convert", store, new)
    assert first.returncode == 0, first.stderr
    was = state(new)
    again = journalfs("convert", store, new)
    assert again.returncode == 0, again.stderr
    assert "was made by this call before" in again.stdout
    assert first.stdout.splitlines()[1] in again.stdout
    assert state(new) == was
    # Another call, and a source that is another by now, are refused as ever.
    assert journalfs("repair", store, "--out", new).returncode == 1
    assert journalfs("import", lines, store).returncode == 0
    assert journalfs("convert", store, new).returncode == 1
    assert state(new) == was


def test_folders_as_deep_as_a_path_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup may name such: `restore` ended with a traceback."""
    monkeypatch.chdir(tmp_path)
    deep = "/".join("a" * 1900)
    door.make_folders(deep)
    door.make_folders(deep)
    assert os.path.isdir(deep)
    door.remove_tree("a")
    assert not os.path.exists("a")
