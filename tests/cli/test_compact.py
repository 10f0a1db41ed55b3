"""`journalfs compact`, and what it says beforehand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio

from journalfs.clock import SystemClock
from journalfs.config.layout import locate_store
from journalfs.store import open_store
from journalfs.store.node_lock import NodeLock
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.cli.running import journalfs, objects
from tests.frozen import FILE_STORES, ExpectedStores
from tests.kinds import first_is_quick
from tests.mount.conftest import until
from tests.mounting import mounted_for_writing
from tests.reference.compare import compare_store
from tests.truth.from_store import account
from tests.writing.conftest import shell

LINE = "one hundred".encode("utf-16-le")


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


Publish = Callable[[int], Awaitable[None]]


@asynccontextmanager
async def publishing(store: Path) -> AsyncIterator[tuple[WritingStore, Publish]]:
    """The store, opened, and what publishes so many lines of 2,001 bytes to a queue of it that is new."""
    with closing(open_for_writing(store)) as opened:
        await opened.create_address("work")
        await opened.create_queue("work", "work")
        publisher = opened.publisher("work", "work", "in")

        async def publish(count: int) -> None:
            for number in range(count):
                await publisher.write(b"%02000d\n" % number)

        yield opened, publish
        await publisher.finish()


@pytest.mark.rule("S-91")
@pytest.mark.parametrize("name", FILE_STORES)
def test_nothing_is_lost(name: str, store_copy: Callable[[str], Path], expected: ExpectedStores) -> None:
    path = store_copy(name)
    before = objects("compact", "--dry-run", "--json", path)
    done = objects("compact", "--json", path)
    for said, found in zip(before, done, strict=True):
        assert said["journal"] == found["journal"]
        assert len(said["frees"]) == found["withRecordsBefore"]
        assert said["files"] == found["filesBefore"] or said["journal"] == "bindings"
        assert found["withRecordsAfter"] <= found["withRecordsBefore"]
    assert before[0]["writesFiles"] == done[0]["withRecordsAfter"]
    store = open_store(path, index=False)
    assert compare_store(expected[name], account(store)) == []
    assert store.status()["damage"] == 0
    store.close()


def test_what_was_said_beforehand_is_what_is_written(store_copy: Callable[[str], Path]) -> None:
    path = store_copy("compacted")
    objects("compact", "--json", path)
    said = objects("compact", "--dry-run", "--json", path)
    done = objects("compact", "--json", path)
    assert said[0]["writesBytes"] == done[0]["writtenBytes"]
    assert said[0]["writesFiles"] == done[0]["withRecordsAfter"]


@pytest.mark.rule("S-91")
def test_what_will_be_written_where_old_files_are_larger(tmp_path: Path) -> None:
    """And of a size that no new file would get."""
    store = tmp_path / "store"
    create = ("create", "--set", "journal-type=NIO", "--set", "journal-file-size=70000", store)
    assert journalfs(*create).returncode == 0

    async def fill() -> None:
        async with publishing(store) as (_, publish):
            await publish(100)

    trio.run(fill)
    (store / "journalfs.toml").write_text('journal-type = "NIO"\njournal-file-size = "64K"\n')
    said, *_ = objects("compact", "--dry-run", "--json", store)
    done, *_ = objects("compact", "--json", store)
    assert said["writesFiles"] == done["withRecordsAfter"]
    assert said["writesBytes"] == done["writtenBytes"]


@pytest.mark.rule("S-91")
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("pool_files", [-1, 4])
def test_what_will_be_written_beside_a_snapshot(tmp_path: Path, kept: bool, pool_files: int) -> None:
    """What a snapshot names, or named, is longer than it was made, and is not used again."""
    store = tmp_path / "store"
    settings = ("journal-type=NIO", "journal-file-size=64K", f"journal-pool-files={pool_files}")
    options = [option for setting in settings for option in ("--set", setting)]
    assert journalfs("create", *options, store).returncode == 0

    async def fill() -> None:
        async with publishing(store) as (opened, publish):
            await publish(100)
            await opened.snapshots.create("then")
            if not kept:
                await opened.snapshots.delete("then")
            await publish(20)

    trio.run(fill)
    for _ in range(3):
        said = objects("compact", "--dry-run", "--json", store)
        done = objects("compact", "--json", store)
        assert [one["writesFiles"] for one in said] == [one["withRecordsAfter"] for one in done]
        assert [one["writesBytes"] for one in said] == [one["writtenBytes"] for one in done]


@pytest.mark.rule("S-91")
def test_compacted_again_and_again(store_copy: Callable[[str], Path]) -> None:
    """What is written takes the place of free files, so there are not more and more of them."""
    path = store_copy("aio")
    after = [[one["filesAfter"] for one in objects("compact", "--json", path)] for _ in range(14)]
    assert all(messages <= 2 and bindings <= 4 for messages, bindings in after), after


@pytest.mark.rule("S-91")
def test_a_dry_run_changes_nothing(store_copy: Callable[[str], Path]) -> None:
    path = store_copy("compacted")
    before = contents(path)
    (messages, _) = objects("compact", "--dry-run", "--json", path)
    assert len(messages["frees"]) == 8
    assert contents(path) == before
    assert journalfs("compact", "--dry-run", path).stdout.splitlines()[0].startswith("messages\t10\t")


def test_a_store_that_is_taken_is_refused(store_copy: Callable[[str], Path]) -> None:
    path = store_copy("compacted")
    lock = NodeLock.acquire(locate_store(path), 0, SystemClock())
    try:
        done = journalfs("compact", path)
        assert (done.returncode, done.stdout) == (7, "")
        assert "in use by" in done.stderr
        assert objects("compact", "--dry-run", "--json", path)
    finally:
        lock.release()


def test_tables_for_other_tools(store_copy: Callable[[str], Path]) -> None:
    done = journalfs("compact", store_copy("compacted"))
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["messages", "bindings"]
    assert rows[0][3] == "8 -> 1"


def test_a_journal_that_a_checksum_contradicts_stays_as_it_is(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert (
        journalfs("create", store, "--journal-type", "NIO", "--set", "journal-file-size=64K").returncode == 0
    )

    async def publish() -> None:
        opened = open_for_writing(store)
        await opened.create_address("work")
        await opened.create_queue("work", "work")
        publisher = opened.publisher("work", "work", "in")
        await publisher.write(b"one hundred\n")
        await publisher.finish()
        opened.close()

    trio.run(publish)
    (journal,) = [file for file in (store / "journal").glob("*.amq") if LINE in file.read_bytes()]
    journal.write_bytes(journal.read_bytes().replace(LINE, "own hundred".encode("utf-16-le")))
    done = journalfs("compact", store)
    assert (done.returncode, done.stdout) == (5, "")
    assert "a checksum contradicts these bytes" in done.stderr
    assert "own hundred" in journalfs("cat", store).stdout
    assert journalfs("check", store).returncode == 5


@pytest.mark.rule("S-189")
@pytest.mark.parametrize("pool_files", first_is_quick(2, -1))
def test_a_store_shrinks(tmp_path: Path, pool_files: int) -> None:
    """Whatever was published and consumed in it, and though its files were kept so far."""
    store = tmp_path / "store"
    options = ("--set", "journal-type=NIO", "--set", "journal-file-size=64K")
    assert journalfs("create", *options, store).returncode == 0
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        shell(
            "mkdir -p work/work; yes | head -n 20000 > work/work/in.txt; rm work/work/.all.jsonl", mount.path
        )
    files = list((store / "journal").glob("*.amq"))
    assert len(files) > 20
    settings = store / "journalfs.toml"
    settings.write_text(f"journal-pool-files = {pool_files}\n{settings.read_text()}")
    done = objects("compact", "--json", store)
    left, bindings = (one["filesAfter"] for one in done)
    assert left <= 3 if pool_files == 2 else left > 20
    for _ in range(3):
        again = objects("compact", "--json", store)
        assert again[0]["filesAfter"] <= left
        assert again[1]["filesAfter"] <= bindings + 1  # opening it makes one ready
    done = objects("compact", "--shrink", "--json", store)
    assert [one["filesAfter"] for one in done] == [1, 2]
    assert sum(path.stat().st_size for path in store.rglob("*.amq")) == 65536
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        shell("echo again > work/work/in.txt", mount.path)
        assert "again" in shell("cat work/work/*.jsonl", mount.path)


@pytest.mark.rule("S-189")
def test_a_mount_deletes_files_beyond_the_pool(tmp_path: Path) -> None:
    """Files are free once a later one than that of their deletes is written; compaction, which would free
    some before, comes as it has time: it is off.
    """
    store = tmp_path / "store"
    settings = (
        "journal-type=NIO",
        "journal-file-size=64K",
        "journal-pool-files=3",
        "journal-compact-min-files=0",
    )
    options = [word for setting in settings for word in ("--set", setting)]
    assert journalfs("create", *options, store).returncode == 0
    configuration = store / "journalfs.toml"
    wanted = configuration.read_text()
    configuration.write_text(wanted.replace("journal-pool-files = 3", "journal-pool-files = -1"))
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        shell("mkdir -p work/work; yes | head -n 10000 > work/work/in.txt", mount.path)
        shell("rm work/work/.all.jsonl; yes | head -n 400 > work/work/in.txt", mount.path)
    assert len(list((store / "journal").glob("*.amq"))) > 10
    configuration.write_text(wanted)
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        until(lambda: len(list((store / "journal").glob("*.amq"))) <= 6, "free files are gone")
        shell("echo again > work/work/in.txt", mount.path)
