"""The folder of staged files: where names lie in it, and what is swept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journalfs_mount.limits import STAGED_AGE_MAX_S
from journalfs_mount.staging import StagingArea, discard, files_below, write_all

NOW_S = 1_800_000_000.0


def put(path: bytes | Path, text: str = "x", age_s: float = 0) -> Path:
    file = Path(os.fsdecode(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (NOW_S - age_s, NOW_S - age_s))
    return file


def test_places_do_not_meet(tmp_path: Path) -> None:
    area = StagingArea(tmp_path)
    places = [(), (b"a",), (b"a", b"a"), (b"root",), (b"queues", b"a"), (b"%2F", b"~")]
    folders = [area.folder(place) for place in places]
    assert len(set(folders)) == len(places)
    for folder in folders:
        others = [other for other in folders if other != folder]
        assert not any(other.startswith(folder + b"/") for other in others)


def test_sweeping(tmp_path: Path) -> None:
    area = StagingArea(tmp_path)
    old = STAGED_AGE_MAX_S + 1
    kept = [
        put(area.folder(()) + b"/_young"),
        put(area.folder((b"a",)) + b"/_draft", age_s=STAGED_AGE_MAX_S - 1),
        put(area.folder((b"a", b"q")) + b"/_job/deep/young"),
        put(area.folder((b"a", b"q")) + b"/_job/deep/old", age_s=old),
    ]
    swept = [
        put(area.folder(()) + b"/_old", age_s=old),
        put(area.folder((b"a", b"q")) + b"/.old", age_s=old),
        put(area.folder((b"gone",)) + b"/_young"),
        put(area.folder((b"a", b"gone")) + b"/_young"),
    ]
    present = {(), (b"a",), (b"a", b"q")}
    said = area.sweep(lambda place: place in present, NOW_S)
    assert sorted(said) == ["addresses/gone", "queues/a/gone", "queues/a/q/.old", "root/_old"]
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in swept if path.exists()] == []


def test_an_area_nobody_used_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert StagingArea(tmp_path / "absent").sweep(lambda place: True, NOW_S) == []


def test_discarding(tmp_path: Path) -> None:
    file, folder = put(tmp_path / "file"), put(tmp_path / "folder" / "deep" / "file").parents[1]
    (tmp_path / "link").symlink_to(folder)
    for path in (tmp_path / "link", file, folder, tmp_path / "absent"):
        discard(os.fsencode(path))
        assert not path.exists()
        assert not path.is_symlink()


def test_files_of_a_directory(tmp_path: Path) -> None:
    for name in ("b/2", "a", "c", "b/1", "b/c/0", "_x", "b/.y", ".z/1", "b/_t/2"):
        put(tmp_path / name)
    found = files_below(os.fsencode(tmp_path))
    assert [os.path.relpath(os.fsdecode(path), tmp_path) for path, _ in found] == [
        *("a", "b/1", "b/2", "b/c/0", "c")
    ]
    assert [name for _, name in found] == [b"a", b"1", b"2", b"0", b"c"]


def test_writing_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real_pwrite(fd, data[:3], offset))
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), 2, b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"\0\0" + b"0123456789"
