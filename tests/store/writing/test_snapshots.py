"""Snapshots of a store that is written: what they hold, what they cost, and what becomes of them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from journalfs.errors import NameTaken, NoSuchName, ReadOnlyStore, SystemFailure, WrongCall
from journalfs.ids import MessageId
from journalfs.limits import LENGTHENED_BYTES
from journalfs.store import open_store, snapshot_folder, snapshots
from journalfs.store.reading import ReadingStore
from journalfs.store.snapshot_folder import DESCRIPTION, SNAPSHOTS
from journalfs.store.store import JournalStore
from journalfs.store.write import snapshotting
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.store.conftest import QUEUE_A, QUEUE_B
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, lines_of, queue_of
from tests.tools.make_store import StoreSpec, make_store

FILE_BYTES = 65_536


@pytest.fixture
def small_files(writable: Writable) -> Writable:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = {FILE_BYTES}\n'
        "journal-compact-min-files = 4\njournal-compact-percentage = 50\n"
    )
    return writable


async def publish(store: WritingStore, content: bytes, queue: str | None = None, name: str = "in") -> None:
    await publish_file(store, "work", queue, name, content)


def numbered(name: str, count: int = 20, length: int = 500) -> bytes:
    return b"".join(b"%s-%d %s\n" % (name.encode(), n, b"x" * length) for n in range(count))


async def opened(store: ReadingStore | WritingStore, name: str) -> JournalStore:
    snapshot = store.snapshots.named(name)
    assert snapshot is not None
    return await snapshot.opened()


def lines(store: JournalStore, queue: str) -> list[bytes]:
    return lines_of(store, queue)  # type: ignore[arg-type]


def bodies(store: JournalStore, queue: str) -> list[Any]:
    return [json.loads(line)["body"] for line in lines(store, queue)]


def used_bytes(root: Path) -> int:
    """Blocks of all files, each counted once, whatever its names."""
    found = {status.st_ino: status.st_blocks for status in (path.stat() for path in root.rglob("*"))}
    return sum(found.values()) * 512


async def overwork(store: WritingStore, turns: int = 30) -> None:
    """Publish and remove until every file was consumed, and used again if it can be."""
    for turn in range(turns):
        await publish(store, numbered(f"later {turn}"), "work.a")
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        await store.journals.messages.upkeep.tidy()


@pytest.mark.rule("S-126")
async def test_all_queues_as_they_were_at_one_moment(small_files: Writable) -> None:
    async with small_files.open() as store:
        await publish(store, numbered("first"))
        ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.b")]
        await store.acknowledge(("work", "work.b"), ids[:5])
        before = {queue: lines_of(store, queue) for queue in ("work.a", "work.b")}
        await store.snapshots.create("monday")
        await store.acknowledge(("work", "work.a"), ids)
        await publish(store, numbered("second"))
        then = await opened(store, "monday")
        assert {queue: lines(then, queue) for queue in before} == before
        for queue, known in before.items():
            found = queue_of(then, queue)  # type: ignore[arg-type]
            assert found.tail().size_bytes == 0, "all of it is in parts"
            assert len(found.listing()) == len(known)
        assert not then.core.damage()
        assert then.read_only


@pytest.mark.rule("S-127")
async def test_it_stays_while_files_are_consumed_and_compacted(small_files: Writable) -> None:
    async with small_files.open() as store:
        await publish(store, numbered("kept", 200), "work.b")
        await publish(store, numbered("taken", 200), "work.a")
        before = lines_of(store, "work.a"), lines_of(store, "work.b")
        await store.snapshots.create("x")
        opened_early = await opened(store, "x")
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        await overwork(store)
        await store.journals.messages.upkeep.compact()
        assert (lines(opened_early, "work.a"), lines(opened_early, "work.b")) == before
        live = lines_of(store, "work.b")
        assert len(live) == 200
    again = open_store(small_files.root, index=False, clock=small_files.clock)
    then = await opened(again, "x")
    assert (lines(then, "work.a"), lines(then, "work.b")) == before
    assert not then.core.damage()
    assert not again.core.damage()
    assert lines(again, "work.b") == live


@pytest.mark.rule("S-127")
async def test_only_what_is_still_written_to_is_copied(small_files: Writable) -> None:
    with (small_files.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\npage-size-bytes = 4096\n')
    async with small_files.open() as store:
        await publish(store, numbered("journal", 300))
        await publish(store, os.urandom(150_000), "work.a", "large.bin")
    write_page(small_files.little, 1, [small(2_000_000, queues=(QUEUE_A, QUEUE_B))])
    async with small_files.open() as store:
        await publish(store, numbered("paged", 40, 300))
        await store.snapshots.create("x")
        folder = small_files.root / SNAPSHOTS / "x"
        files = {
            part: sorted(
                (path for path in (folder / part).rglob("*") if path.is_file()),
                key=lambda path: path.stat().st_mtime_ns,
            )
            for part in ("journal", "paging", "large-messages")
        }
        before = {path: path.read_bytes() for paths in files.values() for path in paths}
        copies = [
            path.relative_to(folder).parts[0]
            for path in before
            if not path.samefile(small_files.root / path.relative_to(folder))
        ]
        assert sorted(copies) == ["journal", "paging"]
        assert [len(files[part]) > 2 for part in files] == [True, True, False]
        await publish(store, numbered("more", 40, 300))
        await overwork(store)
        assert {path: path.read_bytes() for path in before} == before, "nothing in it changes"


async def test_what_would_be_much_to_copy_ends_where_it_ended(
    small_files: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotting, "SNAPSHOT_COPIED_BYTES_MAX", 0)
    write_page(small_files.little, 1, [small(2000, queues=(QUEUE_A, QUEUE_B))])
    async with small_files.open() as store:
        await publish(store, b"first\n")
        before = lines_of(store, "work.a")
        await store.snapshots.create("x")
        folder = small_files.root / SNAPSHOTS / "x"
        for path in (path for part in ("journal", "paging") for path in (folder / part).rglob("*.*")):
            assert path.samefile(small_files.root / path.relative_to(folder))
        await publish(store, b"second\n")
        assert lines(await opened(store, "x"), "work.a") == before
    async with small_files.open() as store:
        await publish(store, b"third\n")
        await overwork(store)
        then = await opened(store, "x")
        assert lines(then, "work.a") == before
        assert not then.core.damage()


@pytest.mark.rule("S-129")
async def test_a_copy_of_its_folder_is_a_store(small_files: Writable, tmp_path: Path) -> None:
    async with small_files.open() as store:
        await publish(store, numbered("kept", 200))
        await store.snapshots.create("x")
        await publish(store, b"late\n")
        await overwork(store)
        before = lines(await opened(store, "x"), "work.b")
    copy = tmp_path / "copy"
    shutil.copytree(small_files.root / SNAPSHOTS / "x", copy)
    with pytest.raises(WrongCall, match=DESCRIPTION):
        open_for_writing(copy)
    (copy / DESCRIPTION).unlink()
    again = open_for_writing(copy, index=False, clock=small_files.clock)
    assert lines(again, "work.b") == before
    assert not again.core.damage()
    again.close()


@pytest.mark.rule("S-127")
async def test_no_file_that_it_needs_is_written_again(small_files: Writable) -> None:
    async with small_files.open() as store:
        await publish(store, numbered("taken", 300), "work.a")
        await store.snapshots.create("x")
        folder = small_files.root / SNAPSHOTS / "x" / "journal"
        described = json.loads((folder.parent / DESCRIPTION).read_bytes())["snapshot"]
        held = {
            file["name"]: (folder / file["name"]).read_bytes()[: file["bytes"]]
            for file in described["journal"]
        }
        assert len(held) > 2
        *closed, current = held
        assert all((folder / name).stat().st_size == FILE_BYTES + LENGTHENED_BYTES for name in closed)
        assert (folder / current).stat().st_size == FILE_BYTES, "a copy"
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        await overwork(store)
        assert store.journals.messages.upkeep.files_freed > len(held)
    async with small_files.open() as store:
        await overwork(store)
    assert {name: (folder / name).read_bytes()[: len(content)] for name, content in held.items()} == held
    there = {path.name for path in (small_files.root / "journal").iterdir()}
    assert not there & set(closed), "they were let go of"
    assert not (small_files.root / "journal/attic").exists()


async def test_lengthened_files_change_no_size_that_files_are_made_in(writable: Writable) -> None:
    """Where nothing says how large they are, the files that are there do."""
    settings = writable.root / "journalfs.toml"
    said = settings.read_text()
    settings.write_text(f"{said}journal-file-size = {FILE_BYTES}\n")
    async with writable.open() as store:
        await publish(store, numbered("kept", 300))
        await store.snapshots.create("x")
    settings.write_text(said)
    for path in (writable.root / "journal").glob("*.amq"):
        if path.stat().st_nlink == 1 and path.stat().st_size != FILE_BYTES:
            path.unlink()  # what it was made with
    async with writable.open() as store:
        before = lines_of(store, "work.a")
        assert store.journals.messages.settings.file_size_bytes == FILE_BYTES
        await store.journals.messages.upkeep.compact()
        assert {file.size_bytes for file in store.journals.messages.data} == {FILE_BYTES}
        assert lines_of(store, "work.a") == before
        assert not store.core.damage()
    sizes = {path.stat().st_size for path in (writable.root / "journal").glob("*.amq")}
    assert sizes == {FILE_BYTES}


@pytest.mark.rule("S-128")
async def test_removing_one_gives_its_space_back(small_files: Writable) -> None:
    async with small_files.open() as store:
        await publish(store, numbered("taken", 300), "work.a")
        await store.snapshots.create("x")
        await store.snapshots.create("y")
        snapshot = store.snapshots.named("x")
        assert snapshot is not None
        at_first = await snapshot.status()
        assert at_first["bytesHeldAlone"] * 2 < at_first["bytes"]  # type: ignore[operator]
        await store.snapshots.delete("y")
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        await overwork(store)
        held = (await snapshot.status())["bytesHeldAlone"]
        assert isinstance(held, int)
        assert held > 2 * FILE_BYTES
        await store.snapshots.create("z")
        together = await store.snapshots.status()
        assert together["snapshots"] == 2
        assert held < together["bytesHeldAlone"] < held + 3 * FILE_BYTES  # type: ignore[operator]
        before = used_bytes(small_files.root)
        await store.snapshots.delete("x")
        assert before - used_bytes(small_files.root) >= held
        await store.snapshots.delete("z")
        assert not list((small_files.root / SNAPSHOTS).iterdir())
        assert store.snapshots.named("x") is None
        with pytest.raises(NoSuchName):
            await store.snapshots.delete("x")


async def test_others_go_on_while_one_is_measured(
    small_files: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, gone_on = snapshot_folder.sizes, threading.Event()

    def sizes(folders: Sequence[Path]) -> tuple[int, int]:
        assert gone_on.wait(60), "the event loop was held"
        return measure(folders)

    async with small_files.open() as store:
        await publish(store, numbered("x"))
        await store.snapshots.create("x")
        one = store.snapshots.named("x")
        assert one is not None
        monkeypatch.setattr(snapshots, "sizes", sizes)
        for status in (one.status, store.snapshots.status):
            gone_on.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(status)
                await wait_all_tasks_blocked()
                gone_on.set()


@pytest.mark.rule("S-126")
async def test_pages_end_where_they_ended(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\npage-size-bytes = 4096\n')
    write_page(writable.little, 1, [small(2000, queues=(QUEUE_A, QUEUE_B))])
    async with writable.open() as store:
        await publish(store, numbered("first", 20, 300))
        await publish(store, b"alone\n")
        before = {queue: lines_of(store, queue) for queue in ("work.a", "work.b")}
        await store.snapshots.create("x")
        await publish(store, b"alone too\n")
        await publish(store, numbered("second", 20, 300))
        for queue in before:
            await store.acknowledge_part(("work", queue), "_tail.jsonl")
            for part in queue_of(store, queue).parts():
                await store.acknowledge_part(("work", queue), part.name)
        assert not lines_of(store, "work.a")
        then = await opened(store, "x")
        assert {queue: lines(then, queue) for queue in before} == before
        assert not then.core.damage()


async def test_large_bodies_outlive_their_messages(writable: Writable) -> None:
    body = os.urandom(150_000).hex().encode()
    async with writable.open() as store:
        await publish(store, body, "work.a", "large.bin")
        before = lines_of(store, "work.a")
        await store.snapshots.create("x")
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
    assert not list((writable.root / "large-messages").iterdir())
    then = await opened(open_store(writable.root, index=False), "x")
    assert lines(then, "work.a") == before
    assert not then.core.damage()


@pytest.mark.rule("S-126")
async def test_queues_and_addresses_that_go_later(writable: Writable) -> None:
    async with writable.open() as store:
        await publish(store, b"one\n", "work.a")
        await store.snapshots.create("x")
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        for queue in ("work.a", "work.b"):
            await store.delete_queue("work", queue)
        await store.delete_address("work")
        then = await opened(store, "x")
        assert bodies(then, "work.a") == ["one"]
        assert not lines(then, "work.b")


@pytest.mark.rule("S-126")
async def test_parts_have_the_same_names_each_time(writable: Writable) -> None:
    names: list[list[str]] = []
    async with writable.open(index=True) as store:
        await publish(store, b"one\ntwo\n")
        await store.snapshots.create("x")
        names.append([part.name for part in queue_of(await opened(store, "x"), "work.a").parts()])  # type: ignore[arg-type]
        live = [part.name for part in queue_of(store, "work.a").parts()]
    for index in (True, False):
        again = open_store(writable.root, index=index, clock=writable.clock)
        names.append([part.name for part in queue_of(await opened(again, "x"), "work.a").parts()])  # type: ignore[arg-type]
        again.close()
    assert names[0] == names[1] == names[2] != live
    assert names[0]


async def test_what_is_published_meanwhile_is_there_whole_or_not_at_all(small_files: Writable) -> None:
    """Each round is published to both queues in one transaction, and taken from both one by one."""
    async with small_files.open() as store:

        async def work() -> None:
            for turn in range(40):
                await publish(store, numbered(f"{turn}", 5, 2000))
                for queue in ("work.a", "work.b"):
                    await store.acknowledge_part(("work", queue), "_tail.jsonl")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            for number in range(8):
                await store.snapshots.create(f"s{number}")
                await store.published()
        for number in range(8):
            then = await opened(store, f"s{number}")
            assert not then.core.damage()
            first, second = bodies(then, "work.a"), bodies(then, "work.b")
            assert len(first) in (0, 5), "a transaction is whole"
            assert first in ([], second)


@pytest.mark.rule("S-129")
async def test_names(writable: Writable) -> None:
    names = ["a/b", ".hidden", "_under", "100%", "é" * 150, "x" * 300, "a b"]
    async with writable.open() as store:
        for name in names:
            await store.snapshots.create(name)
        assert sorted(snapshot.name for snapshot in store.snapshots.all()) == sorted(names)
        with pytest.raises(NameTaken):
            await store.snapshots.create("a/b")
        again = open_store(writable.root, index=False)
        assert sorted(snapshot.name for snapshot in again.snapshots.all()) == sorted(names)
        for name in names:
            await store.snapshots.delete(name)
        assert not store.snapshots.all()


async def test_by_its_folder_it_is_a_store_that_cannot_be_written(writable: Writable) -> None:
    async with writable.open() as store:
        await publish(store, b"one\n", "work.a")
        await store.snapshots.create("x")
        await publish(store, b"two\n", "work.a")
    folder = writable.root / SNAPSHOTS / "x"
    then = open_store(folder)
    assert bodies(then, "work.a") == ["one"]
    with pytest.raises(WrongCall, match="snapshot"):
        open_for_writing(folder)
    with pytest.raises(ReadOnlyStore):
        await then.snapshots.create("y")


@pytest.mark.rule("S-130")
async def test_what_somebody_wrote_into_is_damage_of_the_snapshot(small_files: Writable) -> None:
    async with small_files.open() as store:
        await publish(store, numbered("x", 300), "work.a")
        await store.snapshots.create("x")
    folder = small_files.root / SNAPSHOTS / "x"
    used, gone, *_ = sorted((folder / "journal").iterdir())
    with used.open("r+b") as file:
        file.write((2).to_bytes(4) + bytes(4) + (77).to_bytes(8))
    gone.unlink()
    again = open_store(small_files.root, index=False, clock=small_files.clock)
    snapshot = again.snapshots.named("x")
    assert snapshot is not None
    then = await snapshot.opened()
    found = {(one.file, one.kind) for one in then.core.damage()}
    assert {(f"journal/{used.name}", "used-again"), (f"journal/{gone.name}", "missing-file")} <= found
    assert (await snapshot.status())["damage"] == len(then.core.damage())


@pytest.mark.rule("S-130")
async def test_a_description_that_cannot_be_read(writable: Writable) -> None:
    async with writable.open() as store:
        await store.snapshots.create("x")
        path = writable.root / SNAPSHOTS / "x" / DESCRIPTION
        path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))
        snapshot = store.snapshots.named("x")
        assert snapshot is not None
        assert "checksum" in str((await snapshot.status())["problem"])
        await store.snapshots.delete("x")
        assert not store.snapshots.all()


@pytest.mark.rule("S-129")
async def test_where_files_have_no_second_names(little_elsewhere: Writable) -> None:
    async with little_elsewhere.open() as store:
        await publish(store, b"one\n")
        with pytest.raises(SystemFailure) as failed:
            await store.snapshots.create("x")
        assert failed.value.system_errno == errno.EOPNOTSUPP
        assert not store.snapshots.all()
        assert not list((little_elsewhere.root / SNAPSHOTS).iterdir())
        await publish(store, b"two\n")
        assert bodies(store, "work.a") == ["one", "two"]


@pytest.fixture
def little_elsewhere(writable: Writable) -> Any:
    """The journal on another file system than the rest."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == writable.root.stat().st_dev:
        pytest.skip("no second file system here")
    if writable.backend == "ASYNCIO":
        pytest.skip("no direct writes there")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        with (writable.root / "journalfs.toml").open("a") as settings:
            settings.write(f'journal-directory = "{folder}"\n')
        for path in (writable.root / "journal").iterdir():
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        yield writable


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_one_of_a_million_messages_takes_less_than_a_second(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store", StoreSpec(messages=1_000_000, body_chars=30))
    before = used_bytes(made.data)
    store = open_for_writing(made.data, index=False)
    took_s: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        for turn in range(5):
            begun = time.monotonic()
            await store.snapshots.create(str(turn))
            took_s.append(time.monotonic() - begun)
        nursery.cancel_scope.cancel()
    store.close()
    # The quickest, since others may be at work on this machine.
    assert min(took_s) < 1, took_s
    assert used_bytes(made.data) < before * 1.2, "nothing is copied but what is written to"
