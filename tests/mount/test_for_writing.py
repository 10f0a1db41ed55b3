"""Mounting for writing from the command line: the store is taken, and let go of."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.errors import WrongCall
from journalfs.format.server_lock import NodeState, decode_server_lock
from journalfs.store.creating import create_store
from journalfs.store.locks import lock_holder
from journalfs.store.write.store import WritingStore
from journalfs_mount.options import MountOptions, parse_options
from journalfs_mount.process.mount_table import mounted_at
from journalfs_mount.start.opening import open_for_mount
from tests.config.test_broker_xml import read
from tests.mount.conftest import until
from tests.mounting import JOURNALFS, MountedStore, journalfs

pytestmark = pytest.mark.mount

HELPER = JOURNALFS.with_name("mount.journalfs")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    own: dict[str, Value] = {"journal-type": "NIO", "journal-file-size": 65_536}
    create_store(path, own, SystemClock(), warn=pytest.fail)
    return path


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[Path]]:
    """Two mount points."""
    made = [tmp_path / "first", tmp_path / "second"]
    for place in made:
        place.mkdir()
    yield made
    for place in made:
        while mounted_at(place) is not None:
            subprocess.run(["umount", "--lazy", place], check=True)


def state(store: Path) -> NodeState:
    # In another process, as everything here does: the file is the mount's, and this process holds no lock.
    return decode_server_lock((store / "journal" / "server.lock").read_bytes()).state


def test_the_store_is_the_mounts_until_it_is_unmounted(store: Path, places: list[Path]) -> None:
    first, second = places
    assert journalfs("mount", store, first).returncode == 0
    process = MountedStore(first).process_id()
    assert lock_holder(store / "journal") == process
    assert state(store) is NodeState.ACTIVE
    refused = journalfs("mount", store, second)
    assert refused.returncode == 7
    assert f"the store is in use by process {process} (" in refused.stderr
    assert "stop that, or look at it with journalfs mount --read-only" in refused.stderr
    assert mounted_at(second) is None
    assert journalfs("umount", first).returncode == 0
    assert lock_holder(store / "journal") is None
    assert state(store) is NodeState.STOPPED


def test_who_unmounts_from_within_is_not_named_as_a_user(store: Path, places: list[Path]) -> None:
    place = places[0]
    assert journalfs("mount", store, place).returncode == 0
    refused = journalfs("umount", place, cwd=place)
    # Nobody else is in it, and the process itself leaves.
    assert (refused.returncode, refused.stderr) == (0, "")
    assert journalfs("mount", store, place).returncode == 0
    with subprocess.Popen(["sleep", "600"], cwd=place) as other:
        refused = journalfs("umount", place, cwd=place)
        other.kill()
    assert refused.returncode == 7
    assert f"in use by sleep ({other.pid}); close that first" in refused.stderr
    assert journalfs("umount", place).returncode == 0


def test_reading_beside_a_mount_that_writes(store: Path, places: list[Path]) -> None:
    first, second = places
    assert journalfs("mount", store, first).returncode == 0
    (first / "orders" / "billing").mkdir(parents=True)
    assert journalfs("mount", "--read-only", store, second).returncode == 0
    assert (second / "orders" / "billing").is_dir()
    (first / "returns" / "intake").mkdir(parents=True)
    (first / "orders" / "billing").rmdir()
    until((second / "returns" / "intake" / ".status").exists, "the new queue")
    until(lambda: not (second / "orders" / "billing").exists(), "the end of the deleted one")
    with pytest.raises(OSError, match="Read-only file system"):
        (second / "other").mkdir()
    for place in (second, first):
        assert journalfs("umount", place).returncode == 0


@pytest.mark.parametrize("sync", ["always", "close", "none"])
def test_when_writers_are_told(store: Path, places: list[Path], sync: str) -> None:
    done = subprocess.run(
        [HELPER, store, places[0], "-o", f"rw,sync={sync}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (places[0] / "orders" / "billing").mkdir(parents=True)
    (places[0] / "orders" / "in.txt").write_text("one\ntwo\n")
    assert [line["body"] for line in MountedStore(places[0]).queue("orders", "billing").lines()] == [
        "one",
        "two",
    ]
    assert journalfs("umount", places[0]).returncode == 0
    assert journalfs("cat", store).stdout.count("\n") == 2


@pytest.mark.rule("S-95")
def test_what_a_mount_holds_that_keeps_nothing(tmp_path: Path, places: list[Path]) -> None:
    instance, temporary = tmp_path / "instance", tmp_path / "temporary"
    instance.mkdir()
    temporary.mkdir()
    read(instance, "<persistence-enabled>false</persistence-enabled>")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    assert journalfs("mount", instance, places[0], env=environment).returncode == 0
    mount = MountedStore(places[0])
    (places[0] / "orders" / "billing").mkdir(parents=True)
    (places[0] / "orders" / "in.txt").write_text("one\ntwo\n")
    (places[0] / "orders" / "billing" / ".messages" / mount.queue("orders", "billing").listed()[0]).unlink()
    assert [line["body"] for line in mount.queue("orders", "billing").lines()] == ["two"]
    assert mount.control("status.json")["persistent"] is False
    assert "persistence-enabled is false" in mount.events()[0]["message"]
    assert journalfs("umount", places[0]).returncode == 0
    assert os.listdir(temporary) == []
    assert [path.name for path in instance.rglob("*") if path.is_file()] == ["broker.xml"]
    refused = journalfs("compact", instance, env=environment)
    assert (refused.returncode, "broker.xml: persistence-enabled is false" in refused.stderr) == (6, True)
    assert os.listdir(temporary) == []


@pytest.mark.rule("S-88")
@pytest.mark.parametrize("browse", [False, True])
def test_looking_deletes_nothing(store: Path, browse: bool) -> None:
    opened = open_for_mount(store, MountOptions(browse=browse))
    assert isinstance(opened, WritingStore)
    with closing(opened):
        assert opened.auto_deleting.enabled is not browse
        assert opened.expiring.enabled is not browse


def test_the_words() -> None:
    assert MountOptions().sync == "always"
    options = MountOptions(**parse_options(["sync=close,sync,browse"]))
    assert (options.sync, options.kernel, options.browse) == ("close", ("sync",), True)
    with pytest.raises(
        WrongCall, match="mount option sync=fast: give sync=always or sync=close or sync=none"
    ):
        parse_options(["sync=fast"])
