"""Asynchronous I/O that the system has no ring for: the store is written with NIO, and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.shell import in_a_shell
from tests.broker.writing import complaints, take, with_new_store
from tests.faults.places import TOLD, bodies, fill, make_store, named, write
from tests.faults.refusing import need_a_filter, refuse_io_setup
from tests.mounting import MountedStore, journalfs, mounted_for_writing


def has_a_ring(mount: MountedStore) -> bool:
    """Whether the mount's process has one of the kernel's rings of asynchronous I/O."""
    return "/[aio]" in Path(f"/proc/{mount.process_id()}/maps").read_text()


@contextmanager
def mounted_without_rings(store: Path, mountpoint: Path) -> Iterator[MountedStore]:
    """As `mounted_for_writing`, in a process that gets no ring."""
    log = mountpoint.with_suffix(".refused.log")
    done = journalfs("mount", "--log-file", log, store, mountpoint, preexec_fn=refuse_io_setup)
    assert (done.returncode, done.stderr) == (0, "")
    try:
        yield MountedStore(mountpoint)
    finally:
        ended = journalfs("umount", mountpoint)
        if ended.returncode != 0:
            subprocess.run(["umount", "--lazy", mountpoint], check=True)
    assert ended.returncode == 0, ended.stderr


def test_a_mount_goes_on_with_nio_and_the_next_one_with_rings(tmp_path: Path) -> None:
    need_a_filter()
    store = make_store(tmp_path / "store", "ASYNCIO")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        assert has_a_ring(mount)
        assert named(mount, "configuration") == []
        queue = fill(mount)
    with mounted_without_rings(store, tmp_path / "mnt") as mount:
        assert not has_a_ring(mount)
        (event,) = named(mount, "configuration")
        said = (
            "asynchronous I/O is refused (Resource temporarily unavailable (preparing ASYNCIO writes); "
            "the system's rings are spent, see /proc/sys/fs/aio-max-nr); writing with NIO instead"
        )
        assert event["message"].endswith(said)
        assert said in (tmp_path / "mnt.refused.log").read_text()
        write(queue.path.parent / "in.txt", b"with NIO\n")
        (queue.path / ".messages" / queue.listed()[0]).unlink()
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        assert has_a_ring(mount)
        assert bodies(queue) == [*TOLD[1:], "with NIO"]
        write(queue.path.parent / "in.txt", b"with a ring\n")
        assert bodies(queue)[-1] == "with a ring"


@pytest.mark.long
@pytest.mark.broker
def test_a_broker_with_rings_goes_on_after_a_mount_without(artemis_home: Path, tmp_path: Path) -> None:
    need_a_filter()
    settings = BrokerSettings(journal_type="ASYNCIO", journal_file_size="1M")
    broker = with_new_store(Broker(tmp_path / "broker", settings=settings))
    with in_a_shell(broker.root, tmp_path / "mnt") as store:
        store.create("work", "work.a")
        store.publish("work", None, "in.txt", b"with a ring\n")
    with mounted_without_rings(broker.root, tmp_path / "mnt") as mount:
        assert not has_a_ring(mount)
        write(mount.path / "work" / "in.txt", b"with NIO\n")
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert "AMQ221012" in broker.log
        assert len(take(client, "work.a", 2)) == 2
        broker.stop()
