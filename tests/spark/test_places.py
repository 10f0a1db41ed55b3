"""What is wrong with a path is said in one line, with what to give instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.errors import WrongCall
from journalfs.spark.place import local_path, place_of
from tests.mounting import mounted_for_writing
from tests.spark.writing import written_store


def test_paths_in_a_mount_that_are_none(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": []})
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        snapshots = mount.path / ".journalfs" / "snapshots"

        def said(path: Path) -> str:
            with pytest.raises(WrongCall) as refused:
                place_of(str(path))
            text = str(refused.value)
            assert text.startswith(f"{path}: ")
            assert "\n" not in text
            return text.removeprefix(f"{path}: ")

        assert said(snapshots / "friday") == "there is no snapshot 'friday' in this mount (it has none)"
        for name in ("tuesday", "monday"):
            (snapshots / name).mkdir()
        assert said(snapshots / "friday" / "a").endswith("(it has monday, tuesday)")
        assert said(snapshots) == "give one of the snapshots in it (monday, tuesday)"
        assert place_of(str(snapshots / "monday" / "a")).address == "a"
        queue = mount.path / "a" / "a"
        view = said(queue / ".where" / "priority * 2 > 4")
        assert f"give {queue}, and the selector 'priority * 2 > 4' as option 'selector'" in view
        assert f"give {queue}, and the selector as option" in said(queue / ".where")
        assert said(queue / ".messages") == "give a mount's root, an address's or a queue's directory"
        assert said(mount.path / "b") == "there is no such address or queue in this mount"


def test_paths_are_what_they_are_to_hadoop() -> None:
    """Nothing in a URI of this machine is an escape, a query or a fragment to it."""
    for name in ("x%20y", "x y", "a?b", "a#b"):
        for path in (f"file:///in/{name}", f"file:/in/{name}", f"FILE:///in/{name}", f"/in/{name}"):
            assert local_path(path) == Path("/in", name)
    with pytest.raises(WrongCall, match="'in' stands where a URI has a host; give file:///in/x"):
        local_path("file://in/x")
