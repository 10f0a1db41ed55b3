"""The broker's locks, taken and let go of: against other processes, which are real."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import StoreBusy, SystemFailure
from journalfs.format.server_lock import NodeState, decode_server_lock
from journalfs.store.locks import lock_holder
from journalfs.store.node_lock import WAIT_FOR_EVER_MS, NodeLock, describe_process

ANOTHER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
start, length = int(sys.argv[2]), int(sys.argv[3])
try:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
except OSError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another(path: Path, start: int = 0, length: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Another process that tries to lock a range of `path`: what came of it, until the end of the block."""
    command = [sys.executable, "-c", ANOTHER, str(path), str(start), str(length)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process


def may_lock(path: Path, start: int = 0, length: int = 0) -> bool:
    with another(path, start, length) as (outcome, _):
        return outcome == "locked"


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    journal = tmp_path / "data" / "journal"
    journal.mkdir(parents=True)
    (journal / "activemq-data-1.amq").write_bytes(bytes(1024))
    return locate_store(tmp_path / "data")


def acquired(layout: StoreLayout, timeout_ms: int = 0) -> NodeLock:
    return NodeLock.acquire(layout, timeout_ms, FakeClock())


def server_lock(layout: StoreLayout) -> bytes:
    return (layout.node_manager_lock_dir / "server.lock").read_bytes()


def test_states_of_a_life(layout: StoreLayout) -> None:
    lock = acquired(layout)
    # Only other processes may look: opening the file here would drop the lock.
    directory = layout.node_manager_lock_dir
    assert read_elsewhere(directory / "server.lock")[:1] == b"F"
    lock.activated()
    assert read_elsewhere(directory / "server.lock")[:1] == b"L"
    lock.release()
    content = server_lock(layout)
    decoded = decode_server_lock(content)
    assert (len(content), decoded.state, decoded.node_id) == (19, NodeState.STOPPED, lock.node_id)
    assert content[1:3] == b"00"


def read_elsewhere(path: Path) -> bytes:
    return subprocess.run(["cat", str(path)], capture_output=True, check=True, timeout=60).stdout


def test_the_node_keeps_its_id(layout: StoreLayout) -> None:
    first = acquired(layout)
    first.release()
    second = acquired(layout)
    second.release()
    assert first.node_id == second.node_id
    assert first.node_id.version == 1


@pytest.mark.parametrize("content", [b"", b"P", b"P00", b"P00" + bytes(7)], ids=["empty", "1", "3", "10"])
def test_a_missing_node_id_is_made(layout: StoreLayout, content: bytes) -> None:
    (layout.node_manager_lock_dir / "server.lock").write_bytes(content)
    lock = acquired(layout)
    lock.release()
    assert decode_server_lock(server_lock(layout)).node_id == lock.node_id


@pytest.mark.parametrize("state", [b"0", b"L", b"P"])
def test_the_state_is_put_back_if_the_store_was_never_active(layout: StoreLayout, state: bytes) -> None:
    content = state + b"00" + bytes(range(16))
    (layout.node_manager_lock_dir / "server.lock").write_bytes(content)
    acquired(layout).release()
    assert server_lock(layout) == content


def test_others_are_kept_out_until_the_release(layout: StoreLayout) -> None:
    lock = acquired(layout)
    directory = layout.node_manager_lock_dir
    # A broker of today; one before 2.10; one of today that would write its state while it waits.
    assert not may_lock(directory / "serverlock.1")
    assert not may_lock(directory / "server.lock", 1, 1)
    assert not may_lock(directory / "server.lock")
    lock.release()
    assert may_lock(directory / "serverlock.1")
    assert may_lock(directory / "server.lock")


def test_looking_for_the_holder_keeps_the_lock(layout: StoreLayout) -> None:
    """A second descriptor of the file, once closed, would drop it."""
    directory = layout.node_manager_lock_dir
    assert lock_holder(directory) is None
    lock = acquired(layout)
    assert lock_holder(directory) == os.getpid()
    assert not may_lock(directory / "serverlock.1")
    assert not may_lock(directory / "server.lock", 1, 1)
    lock.release()
    assert lock_holder(directory) is None


def test_a_second_time_in_this_process(layout: StoreLayout) -> None:
    lock = acquired(layout)
    with pytest.raises(StoreBusy, match=f"in use by this process \\({os.getpid()}\\)"):
        acquired(layout)
    assert not may_lock(layout.node_manager_lock_dir / "serverlock.1")
    lock.release()
    acquired(layout).release()


@pytest.mark.parametrize(
    ("name", "start", "length"), [("serverlock.1", 0, 0), ("server.lock", 1, 1)], ids=["today", "before 2.10"]
)
def test_the_holder_is_named(layout: StoreLayout, name: str, start: int, length: int) -> None:
    directory = layout.node_manager_lock_dir
    with another(directory / name, start, length) as (outcome, process):
        assert outcome == "locked"
        assert lock_holder(directory) == process.pid
        with pytest.raises(StoreBusy) as caught:
            acquired(layout)
        holder = caught.value.holder
        assert holder.startswith(f"process {process.pid} ({sys.executable} -c import"[:60])
        assert holder.endswith(f"data/journal/{name} {start} {length})")
    # Nothing was kept by the attempt.
    assert may_lock(directory / "serverlock.1")
    acquired(layout).release()


def test_whoever_reads_the_state_is_no_holder(layout: StoreLayout) -> None:
    """A broker that waits locks the whole of `server.lock` for an instant."""
    with another(layout.node_manager_lock_dir / "server.lock") as (outcome, _):
        assert outcome == "locked"
        assert lock_holder(layout.node_manager_lock_dir) is None


def test_waiting(layout: StoreLayout) -> None:
    clock = FakeClock()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(by_ms=int(seconds * 1000))

    with another(layout.node_manager_lock_dir / "serverlock.1"), pytest.raises(StoreBusy):
        NodeLock.acquire(layout, 1_200, clock, pause=pause)
    assert pauses == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("timeout_ms", [60_000, WAIT_FOR_EVER_MS])
def test_waiting_ends_when_the_holder_does(layout: StoreLayout, timeout_ms: int) -> None:
    clock = FakeClock()
    with another(layout.node_manager_lock_dir / "serverlock.1") as (outcome, process):
        assert outcome == "locked"

        def pause(seconds: float) -> None:
            clock.advance(by_ms=int(seconds * 1000))
            if clock.monotonic_ns() > 30_000_000_000:
                process.communicate("")

        lock = NodeLock.acquire(layout, timeout_ms, clock, pause=pause)
    assert process.returncode == 0
    lock.release()


def test_inside_an_instance_its_commands_are_kept_out(tmp_path: Path, layout: StoreLayout) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "broker.xml").write_text("<configuration><core/></configuration>")
    layout = locate_store(tmp_path)
    lock = acquired(layout)
    cli_lock = tmp_path / "lock" / "cli.lock"
    assert not may_lock(cli_lock)
    lock.release()
    with another(cli_lock) as (outcome, process):
        assert outcome == "locked"
        with pytest.raises(StoreBusy, match=f"process {process.pid} "):
            acquired(layout)
    assert may_lock(layout.node_manager_lock_dir / "serverlock.1")


def test_a_lock_directory_of_its_own_is_made(tmp_path: Path, layout: StoreLayout) -> None:
    layout = dataclasses.replace(layout, node_manager_lock_dir=tmp_path / "locks" / "here")
    lock = acquired(layout)
    assert sorted(os.listdir(tmp_path / "locks" / "here")) == ["server.lock", "serverlock.1"]
    lock.release()


def test_a_lock_that_cannot_be_made(tmp_path: Path, layout: StoreLayout) -> None:
    (tmp_path / "file").touch()
    layout = dataclasses.replace(layout, node_manager_lock_dir=tmp_path / "file")
    with pytest.raises(SystemFailure, match="file: cannot lock the store: File exists"):
        acquired(layout)


def test_a_file_system_that_is_read_only(tmp_path: Path, layout: StoreLayout) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "none", disk], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a disk cannot be mounted here: {made.stderr.decode()}")
    try:
        elsewhere = dataclasses.replace(layout, node_manager_lock_dir=disk)
        with pytest.raises(SystemFailure, match="--read-only"):
            NodeLock.acquire(elsewhere, 0, FakeClock())
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_server_lock_that_is_a_directory_leaves_nothing_locked(layout: StoreLayout) -> None:
    directory = layout.node_manager_lock_dir
    (directory / "server.lock").mkdir()
    with pytest.raises(SystemFailure, match="cannot lock the store: Is a directory"):
        acquired(layout)
    assert may_lock(directory / "serverlock.1")


def test_processes_are_described() -> None:
    assert describe_process(os.getpid()) == f"this process ({os.getpid()})"
    assert "another container" in describe_process(0)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # Before it answers it may still be this program.
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"\n"
        assert describe_process(process.pid) == f"process {process.pid} (cat)"
        process.kill()
    assert describe_process(process.pid) == f"process {process.pid}"


def test_what_the_kernel_does_on_close(tmp_path: Path) -> None:
    """The reason for remembering what is held."""
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    assert not may_lock(path)
    os.close(os.open(path, os.O_RDONLY))
    assert may_lock(path)
    os.close(descriptor)
