"""The folder of staged files: where names lie in it, and what is swept."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from journalfs import door
from journalfs_mount.limits import STAGED_AGE_MAX_S
from journalfs_mount.nodes.staging import StagingArea, files_below, write_all
from tests.tools.descriptors import without_descriptors

NOW_S = time.time() + 10 * STAGED_AGE_MAX_S
"""So late that what the tests make now is old by then, unless its time says otherwise."""


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


def test_what_was_put_there_lately_is_not_swept_however_old_it_is(tmp_path: Path) -> None:
    """As `mv`, `cp -p`, `rsync -a` and `tar x` keep its times."""
    area = StagingArea(tmp_path)
    files = [
        put(area.folder((b"a",)) + name, age_s=20 * STAGED_AGE_MAX_S) for name in (b"/.one", b"/.batch/in")
    ]
    os.utime(files[1].parent, (0, 0))
    assert area.sweep(lambda _place: True, time.time()) == []
    assert all(file.exists() for file in files)
    assert sorted(area.sweep(lambda _place: True, NOW_S)) == ["addresses/a/.batch", "addresses/a/.one"]


def test_an_area_nobody_used_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert StagingArea(tmp_path / "absent").sweep(lambda place: True, NOW_S) == []


def discarded(area: Path) -> list[Path]:
    return list((area / "discarded").iterdir())


async def test_discarding(tmp_path: Path) -> None:
    area = StagingArea(tmp_path / "area")
    file, folder = put(tmp_path / "file"), put(tmp_path / "folder" / "deep" / "file").parents[1]
    (tmp_path / "link").symlink_to(folder)
    for path in (tmp_path / "link", file, folder, tmp_path / "absent"):
        area.discard(os.fsencode(path))
        assert not path.exists()
        assert not path.is_symlink()
    assert len(discarded(tmp_path / "area")) == 1
    assert area.sweep(lambda place: True, NOW_S) == []
    assert not (tmp_path / "area/discarded").exists()


async def test_a_directory_is_removed_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, remove_tree = threading.Event(), door.remove_tree

    def removing(path: bytes) -> None:
        assert served.wait(60), "the event loop was held"
        remove_tree(path)

    monkeypatch.setattr(door, "remove_tree", removing)
    area = StagingArea(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(area.run)
        for name in ("_temporary", "_more"):
            folder = put(area.folder((b"a",)) + b"/%s/0/file" % name.encode()).parents[1]
            area.discard(os.fsencode(folder))
            assert not folder.exists()
            await wait_all_tasks_blocked()
        assert len(discarded(tmp_path)) == 2
        served.set()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()  # a thread that has begun goes on to its end
    assert len(discarded(tmp_path)) < 2


def test_files_of_a_directory(tmp_path: Path) -> None:
    for name in ("b/2", "a", "c", "b/1", "b/c/0", "_x", "b/.y", ".z/1", "b/_t/2"):
        put(tmp_path / name)
    found = files_below(os.fsencode(tmp_path))
    assert [name for _, name in found] == [b"a", b"b/1", b"b/2", b"b/c/0", b"c"]
    assert [path for path, _ in found] == [os.path.join(os.fsencode(tmp_path), name) for _, name in found]


def test_writing_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real_pwrite(fd, data[:3], offset))
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), 2, b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"\0\0" + b"0123456789"


@pytest.mark.rule("S-79")
def test_what_cannot_be_listed_is_not_left_out(tmp_path: Path) -> None:
    """It would be published without it, and be gone."""
    put(tmp_path / "batch/below/1.txt")
    with without_descriptors(), pytest.raises(OSError, match="Too many open files"):
        files_below(os.fsencode(tmp_path / "batch"))
    assert len(files_below(os.fsencode(tmp_path / "batch"))) == 1


def test_what_cannot_be_listed_is_not_swept(tmp_path: Path) -> None:
    area = StagingArea(tmp_path)
    file = put(area.folder((b"a",)) + b"/.batch/1.txt")
    old = file.parent
    os.utime(old, (0, 0))
    with without_descriptors(), pytest.raises(OSError, match="Too many open files"):
        area.sweep(lambda _place: True, NOW_S)
    assert area.sweep(lambda _place: True, NOW_S) == []
    assert file.exists()
