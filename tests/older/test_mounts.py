"""A mount of an older store beside one for writing: what `cp -r` carries over."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.frozen import PristineStores
from tests.mounting import journalfs, mounted, mounted_for_writing, read_lines
from tests.older.truth import expected


def kept_of(envelope: Mapping[str, Any]) -> dict[str, object]:
    """What a message takes along; how long a large one is says the broker."""
    properties = {key: value for key, value in envelope["properties"].items() if "LARGE_SIZE" not in key}
    found = {name: envelope.get(name) for name in ("type", "priority", "durable", "body")}
    return found | {"properties": properties}


@pytest.mark.rule("S-200", "S-201")
def test_cp_carries_a_queue_into_another_mount(stores: PristineStores, tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    assert journalfs("create", tmp_path / "store").returncode == 0
    queue = Path("jms.queue.orders", "jms.queue.orders")
    wanted = expected("hq-2.4-main")["queues"]["jms.queue.orders"]["messages"]
    assert wanted
    with (
        mounted(stores["hq-2.4-main"], tmp_path / "old"),
        mounted_for_writing(tmp_path / "store", tmp_path / "new"),
    ):
        command: list[str | Path] = ["cp", "-r", tmp_path / "old" / queue.parent, tmp_path / "new"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        old, new = read_lines(tmp_path / "old" / queue), read_lines(tmp_path / "new" / queue)
    assert len(old) == len(wanted)
    assert [kept_of(one) for one in new] == [kept_of(one) for one in old]


@pytest.mark.rule("S-200")
def test_a_mount_of_an_older_store_refuses_changes(stores: PristineStores, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    with mounted(stores["hq-2.4-main"], tmp_path / "mnt", "--format", "hornetq"):
        queue = tmp_path / "mnt" / "jms.queue.orders" / "jms.queue.orders"
        with pytest.raises(OSError, match="Read-only file system"):
            (queue / "new.txt").write_text("hello")
        with pytest.raises(OSError, match="Read-only file system"):
            (tmp_path / "mnt" / "more").mkdir()
