"""Names that no text in UTF-8 holds are told as they are, wherever a mount tells them."""

from __future__ import annotations

import json
import os

import pytest

from journalfs.spark.changing import directory_of
from journalfs.spark.place import place_of
from journalfs_mount.names.grammar import encode_name
from tests.mounting import MountedStore, QueueOnDisk

NAME = "half of \ud83d"


@pytest.mark.rule("S-5")
def test_half_of_a_character_in_names(mount: MountedStore) -> None:
    address = mount.path / os.fsdecode(encode_name(NAME))
    queue = QueueOnDisk(address / address.name)
    queue.path.mkdir(parents=True)
    (queue.path / "in.txt").write_text("x\n")
    assert [line["queue"] for line in queue.lines()] == [NAME]
    assert queue.status()["queue"] == queue.status()["address"] == NAME
    said = json.loads((address / ".status").read_bytes())
    assert (said["address"], said["queues"]) == (NAME, {NAME: 1})
    for folder in (address, queue.path):
        assert (folder / ".settings").read_bytes()
    assert directory_of(mount.path, NAME, NAME) == queue.path
    assert (place_of(str(queue.path)).address, place_of(str(queue.path)).queue) == (NAME, NAME)
