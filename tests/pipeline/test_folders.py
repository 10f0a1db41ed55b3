"""What is in a folder of this machine counts as a whole, and survives a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journalfs.errors import SystemFailure
from journalfs.pipeline.folders import LocalFolder


def test_all_that_counts_is_durable_with_every_name_that_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deepest = tmp_path / "_run" / "address=a" / "queue=b"
    deepest.mkdir(parents=True)
    (deepest / "part").write_bytes(b"12345")
    folder, synced = LocalFolder(tmp_path), list[str]()
    folder.write("_run/_run.json", b"{}")
    assert folder.size_bytes("_run") == 7
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    folder.commit("_run", "run")
    inside = ["_run", "_run/_run.json", "_run/address=a", "_run/address=a/queue=b"]
    assert sorted(synced[:-1]) == [*inside, "_run/address=a/queue=b/part"]
    assert synced[-1] == "."
    assert folder.size_bytes("run/_run.json") == 2
    with pytest.raises(SystemFailure, match="cannot look at what is in it"):
        folder.size_bytes("_run")
