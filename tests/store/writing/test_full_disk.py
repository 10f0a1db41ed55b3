"""A disk without room: publishing is refused at once, acknowledging works, and afterwards all is well."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from journalfs.errors import NoSpace, SystemFailure
from journalfs.ids import MessageId
from journalfs.store.outgoing import WholeFile
from journalfs.store.snapshot_folder import SNAPSHOTS
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.publisher import FilePublisher
from tests.reference.store import load
from tests.store.conftest import LittleStore
from tests.store.writing.conftest import BACKENDS, lines_of

DISK_BYTES = 8 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    path = tmp_path / "small"
    path.mkdir()
    options = f"size={DISK_BYTES}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.decode()}")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


async def published_until_full(publisher: FilePublisher) -> int:
    """How many lines were taken before one was refused for lack of room."""
    for number in range(100_000):
        try:
            await publisher.write(b"%06d %s\n" % (number, b"x" * 2000))
        except NoSpace:
            return number
    raise AssertionError("the disk is never full")


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_full_disk_refuses_messages_and_takes_acknowledgements(
    little_store: LittleStore, small_disk: Path, backend: str
) -> None:
    (little_store.root / "journalfs.toml").write_text(
        f'journal-type = "{backend}"\njournal-file-size = 1048576\n'
    )
    root = small_disk / "data"
    shutil.copytree(little_store.root, root)
    store = open_for_writing(root, clock=little_store.clock, index=False)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            publisher = store.publisher("work", "work.a", "in")
            told = await published_until_full(publisher)
            with pytest.raises(SystemFailure):
                await store.publish("work", "work.a", [WholeFile(b"y" * 2_000_000)])
            ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]
            assert len(ids) == told > 500
            for at in range(0, len(ids) - 10, 7):
                assert await store.acknowledge(("work", "work.a"), ids[at : at + 7]) == 7
            await store.journals.messages.upkeep.tidy()
            left = len(lines_of(store, "work.a"))
            await publisher.write(b"there is room again\n")
            assert len(lines_of(store, "work.a")) == left + 1
            nursery.cancel_scope.cancel()
    finally:
        store.close()
    (messages,) = (
        queue["messages"]
        for queue in load(root, little_store.clock.now_ms())["queues"]
        if queue["name"] == "work.a"
    )
    assert len(messages) == left + 1
    assert not list((root / "large-messages").iterdir())


@pytest.mark.rule("S-70")
@pytest.mark.parametrize("name", ["in.txt", "in.bin"])
async def test_what_was_flushed_is_kept_where_its_last_close_finds_no_room(
    little_store: LittleStore, small_disk: Path, name: str
) -> None:
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\njournal-file-size = 1048576\n')
    root = small_disk / "data"
    shutil.copytree(little_store.root, root)
    content = b"not published " * 400
    with closing(open_for_writing(root, clock=little_store.clock, index=False)) as store:
        publisher, late = (store.publisher("work", "work.a", name) for _ in range(2))
        await publisher.write(content)
        await publisher.flush()
        await published_until_full(store.publisher("work", "work.a", "in"))
        await late.write(b"x" * 90_000)
        (small_disk / "filler").write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096))
        with pytest.raises(SystemFailure, match="cannot keep what was flushed"):
            await late.flush()
        late.abandon()
        with pytest.raises(NoSpace):
            await publisher.finish()
        (aside,) = (root / "journalfs" / "unpublished").iterdir()
        (said,) = (str(one["message"]) for one in store.core.events if one["event"] == "kept")
        assert said.startswith(f"{name}: not published")
        assert said.endswith(f"what was written is {aside}")
        assert aside.read_bytes() == content
    (small_disk / "filler").unlink()
    with closing(open_for_writing(root, clock=little_store.clock, index=False)) as store:
        assert store.left_unpublished() == []


@pytest.mark.rule("S-132")
async def test_a_snapshot_that_finds_no_room_leaves_nothing(
    little_store: LittleStore, small_disk: Path
) -> None:
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\njournal-file-size = 65536\n')
    root = small_disk / "data"
    shutil.copytree(little_store.root, root)
    store = open_for_writing(root, clock=little_store.clock, index=False)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            publisher = store.publisher("work", "work.a", "in")
            await publisher.write(b"one\n")
            await store.journals.messages.upkeep.tidy()
            filler = small_disk / "filler"
            with pytest.raises(OSError, match="No space left"):
                filler.write_bytes(bytes(DISK_BYTES))
            with pytest.raises(SystemFailure) as failed:
                await store.snapshots.create("x")
            assert failed.value.system_errno == errno.ENOSPC
            assert not list((root / SNAPSHOTS).iterdir())
            filler.unlink()
            await store.snapshots.create("x")
            await publisher.write(b"two\n")
            snapshot = store.snapshots.named("x")
            assert snapshot is not None
            then = await snapshot.opened()
            assert len(lines_of(then, "work.a")) == 1  # type: ignore[arg-type]
            assert len(lines_of(store, "work.a")) == 2
            nursery.cancel_scope.cancel()
    finally:
        store.close()
