"""What a flush told to be kept survives the end of the process, and is published exactly once.

A crash is the store as it lies on the disk at some moment, copied, and opened again.
"""

from __future__ import annotations

import dataclasses
import json
from base64 import b64decode
from contextlib import closing
from pathlib import Path

import pytest

from journalfs.errors import BadEnvelope
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode, WritingStore
from tests.reference.store import load
from tests.store.writing.conftest import Writable, lines_of
from tests.tools.crash_copy import copy_as_left
from tests.tools.failing_disk import failing_disk

SMALL, LARGE = b"small" * 20, b"large" * 60_000

FLUSHED = [
    ("picture.png", SMALL, SMALL),
    ("picture.png", LARGE, LARGE),
    ("in.txt", b"done\nunfinished", b"unfinished"),
    ("in.txt", b"done\n\xff\xfe", b"\xff\xfe"),
    ("in.json", b'"done" 12', b"12"),
    ("in.jsonl", b'{"type":"text","body":"e"}', b"e"),
]


def opened(writable: Writable, *, sync: SyncMode = SyncMode.ALWAYS) -> WritingStore:
    """Without its own work, so that nothing is tidied up behind a test's back."""
    return open_for_writing(writable.root, sync=sync, clock=writable.clock, index=False)


def crashed(writable: Writable) -> Writable:
    """The store as a process that ends now leaves it."""
    number = len(list(writable.root.parent.iterdir()))
    root = writable.root.with_name(f"crashed-{number}")
    copy_as_left(writable.root, root)
    return Writable(dataclasses.replace(writable.little, root=root), writable.backend)


async def crashed_with(writable: Writable, content: bytes) -> Writable:
    """A copy as a crash would leave it, with a whole file that was flushed and not published."""
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", "in.bin")
        await publisher.write(content)
        await publisher.flush()
        crash = crashed(writable)
        publisher.abandon()
    return crash


def notes(writable: Writable) -> list[str]:
    folder = writable.root / "journalfs" / "flushed"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def events(store: WritingStore) -> list[str]:
    return [
        str(one["message"]) for one in store.core.events if one["event"] in ("flushed", "kept", "not-kept")
    ]


def bodies(store: WritingStore, queue: str = "work.a") -> list[bytes]:
    found = []
    for line in map(json.loads, lines_of(store, queue)):
        encoded = line.get("body_base64")
        found.append(str(line["body"]).encode() if encoded is None else b64decode(encoded))
    return found


async def after(writable: Writable) -> list[bytes]:
    """What is in the first queue once what was left has been published."""
    with closing(opened(writable)) as store:
        await store.publish_left()
        found = bodies(store)
    # Nothing but messages is left, whoever looks.
    assert notes(writable) == []
    with closing(opened(writable)) as store:
        assert store.left_unpublished() == []
        assert bodies(store) == found
        assert store.journals.messages.totals().live_records == len(found)
    (queue,) = (one for one in load(writable.root, 0)["queues"] if one["name"] == "work.a")
    assert len(queue["messages"]) == len(found)
    return found


@pytest.mark.protects("P-6")
@pytest.mark.rule("S-69", "S-70")
@pytest.mark.parametrize(("name", "written", "rest"), FLUSHED)
async def test_what_was_flushed_survives_and_comes_once(
    writable: Writable, name: str, written: bytes, rest: bytes
) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", name)
        await publisher.write(written)
        done = bodies(store)
        before = crashed(writable)
        await publisher.flush()
        flushed = crashed(writable)
        await publisher.finish()
        published = crashed(writable)
        assert bodies(store) == [*done, rest]
    assert await after(before) == done
    assert notes(published), "the crash came before the note was removed"
    for crash in (flushed, published, writable):
        assert await after(crash) == [*done, rest]


@pytest.mark.rule("S-70")
async def test_it_is_routed_as_any_other(writable: Writable) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", None, "in.txt")
        await publisher.write(b"for all")
        await publisher.flush()
        crash = crashed(writable)
        publisher.abandon()
    with closing(opened(crash)) as store:
        assert store.left_unpublished() == ["work"]
        await store.publish_left()
        assert bodies(store, "work.a") == bodies(store, "work.b") == [b"for all"]
        (said,) = events(store)
        assert said.startswith("work/in.txt: published now")


@pytest.mark.parametrize("sync", [SyncMode.CLOSE, SyncMode.NONE])
async def test_it_is_kept_whatever_writes_wait_for(writable: Writable, sync: SyncMode) -> None:
    with closing(opened(writable, sync=sync)) as store:
        publisher = store.publisher("work", "work.a", "in.txt")
        await publisher.write(b"one\ntwo")
        await publisher.flush()
        first = crashed(writable)
        await publisher.write(b"\n")
        second = crashed(writable)
        await publisher.finish()
    for crash in (first, second):
        assert await after(crash) == [b"one", b"two"]


@pytest.mark.rule("S-69")
async def test_a_later_flush_takes_the_place_of_an_earlier_one(writable: Writable) -> None:
    with closing(opened(writable)) as store:
        line, whole = (store.publisher("work", "work.a", name) for name in ("in.txt", "in.bin"))
        crashes = []
        for piece in (b"a", b"b", b"c" * 300_000):
            for publisher in (line, whole):
                await publisher.write(piece)
                await publisher.flush()
            crashes.append(crashed(writable))
        # What is not flushed yet does not count, and what was flushed does.
        await whole.write(b"d")
        await line.write(b"d")
        crashes.append(crashed(writable))
        await line.finish()
        await whole.finish()
    expected = [b"a", b"ab", *[b"ab" + b"c" * 300_000] * 2]
    for crash, content in zip(crashes, expected, strict=True):
        assert await after(crash) == [content, content]


async def test_a_line_that_is_completed_takes_the_place_of_what_was_flushed_of_it(writable: Writable) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", "in.txt")
        await publisher.write(b"o")
        await publisher.flush()
        await publisher.write(b"ne\ntwo\nth")
        completed = crashed(writable)
        await publisher.flush()
        again = crashed(writable)
        await publisher.write(b"ree\n")
        await store.flushed.tidy()
        assert notes(writable) == []
        await publisher.flush()
        await publisher.finish()
        assert notes(writable) == []
    assert await after(completed) == [b"one", b"two"]
    assert await after(again) == [b"one", b"two", b"th"]
    assert await after(writable) == [b"one", b"two", b"three"]


async def test_values_and_envelopes_are_refused_where_they_must_not_end(writable: Writable) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", "in.json")
        await publisher.write(b"1")
        await publisher.flush()
        await publisher.write(b" [2")
        with pytest.raises(BadEnvelope):
            await publisher.flush()
        crash = crashed(writable)
        publisher.abandon()
    assert await after(crash) == [b"1"]


@pytest.mark.rule("S-70")
async def test_a_long_body_is_written_once(writable: Writable) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", "in.bin")
        await publisher.write(LARGE)
        await publisher.flush()
        (body,) = (writable.root / "journalfs" / "flushed").glob("*.body")
        number = body.stat().st_ino
        await publisher.finish()
        (message,) = (writable.root / "large-messages").glob("*.msg")
        assert message.stat().st_ino == number
        await store.flushed.tidy()
        assert notes(writable) == []
        assert message.stat().st_nlink == 1
        assert message.read_bytes() == LARGE


@pytest.mark.protects("P-6")
async def test_a_body_that_got_its_name_before_the_crash_gets_another_one(writable: Writable) -> None:
    crash = await crashed_with(writable, LARGE)
    (body,) = (crash.root / "journalfs" / "flushed").glob("*.body")
    (crash.root / "large-messages" / "999999.msg").hardlink_to(body)
    assert await after(crash) == [LARGE]
    assert not (crash.root / "journalfs" / "orphans").exists()
    assert len(list((crash.root / "large-messages").iterdir())) == 1


async def test_what_was_given_up_does_not_come_back(writable: Writable) -> None:
    with closing(opened(writable)) as store:
        removed, failed, torn = (store.publisher("work", "work.a", "in.bin") for _ in range(3))
        for publisher in (removed, failed):
            await publisher.write(LARGE)
            await publisher.flush()
        await removed.forget()
        failed.abandon()
        await torn.write(SMALL)
        await torn.flush(unfinished=False)
        await store.flushed.tidy()
        assert notes(writable) == []
        crash = crashed(writable)
        removed.abandon()
    assert await after(crash) == []


@pytest.mark.rule("S-77")
@pytest.mark.parametrize("name", ["in.txt", "in.bin"])
@pytest.mark.parametrize("flushed", [SMALL, LARGE])
async def test_what_comes_after_the_last_flush_is_dropped(
    writable: Writable, name: str, flushed: bytes
) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", name)
        await publisher.write(flushed)
        await publisher.flush()
        await publisher.write(b"more")
        await publisher.finish_flushed()
        assert bodies(store) == [flushed]
        crash = crashed(writable)
    for one in (crash, writable):
        assert await after(one) == [flushed]


@pytest.mark.parametrize("content", [SMALL, LARGE])
async def test_what_has_no_queue_any_more_is_put_aside(writable: Writable, content: bytes) -> None:
    async with writable.open() as store:
        await store.create_queue("work", "passing")
        whole, line = (store.publisher("work", "passing", name) for name in ("in.bin", "in.txt"))
        for publisher in (whole, line):
            await publisher.write(content)
            await publisher.flush()
        crash = crashed(writable)
        whole.abandon()
        line.abandon()
    async with crash.open() as store:
        await store.delete_queue("work", "passing")
        await store.publish_left()
        words = " the content is in "
        aside = [Path(one.rpartition(words)[2]) for one in events(store) if words in one]
    assert await after(crash) == []
    assert sorted(path.name.rpartition("-")[2] for path in aside) == ["in.bin", "in.txt"]
    assert [path.read_bytes() for path in aside] == [content, content]


async def test_a_note_that_is_not_whole_is_put_aside(writable: Writable) -> None:
    crash = await crashed_with(writable, SMALL)
    (note,) = (crash.root / "journalfs" / "flushed").iterdir()
    content = note.read_bytes()
    for damaged in (content[:-1], b"", content.replace(b"small", b"Small", 1)):
        note.write_bytes(damaged)
        with closing(opened(crash)) as store:
            assert store.left_unpublished() == []
            (said,) = events(store)
        aside = Path(said.split()[-2])
        assert aside.read_bytes() == damaged
    assert await after(crash) == []


async def test_a_body_that_is_shorter_than_what_was_flushed_is_put_aside(writable: Writable) -> None:
    crash = await crashed_with(writable, LARGE)
    (body,) = (crash.root / "journalfs" / "flushed").glob("*.body")
    body.write_bytes(LARGE[:-1])
    assert await after(crash) == []
    (aside,) = (crash.root / "journalfs" / "unpublished").iterdir()
    assert aside.read_bytes() == LARGE[:-1]


async def test_a_note_whose_body_is_gone_is_put_aside_once(writable: Writable) -> None:
    crash = await crashed_with(writable, LARGE)
    folder = crash.root / "journalfs" / "flushed"
    (body,), (note,) = folder.glob("*.body"), folder.glob("*.note")
    content = note.read_bytes()
    body.unlink()
    with closing(opened(crash)) as store:
        await store.publish_left()
        (said,) = events(store)
        assert said.startswith("work/work.a/in.bin: not published")
    (aside,) = (crash.root / "journalfs" / "unpublished").iterdir()
    assert said.endswith(str(aside))
    assert aside.read_bytes() == content, "it says where the content was to go"
    with closing(opened(crash)) as store:
        await store.publish_left()
        assert events(store) == []
    assert notes(crash) == []


@pytest.mark.parametrize("published", [False, True])
async def test_a_note_that_cannot_be_read_stays_and_the_store_is_opened(
    writable: Writable, tmp_path: Path, published: bool
) -> None:
    with closing(opened(writable)) as store:
        publisher = store.publisher("work", "work.a", "in.bin")
        await publisher.write(SMALL)
        await publisher.flush()
        crash = crashed(writable)
        await publisher.finish()
        crash = crashed(writable) if published else crash
    folder = crash.root / "journalfs" / "flushed"
    (note,) = notes(crash)
    # The rest of the store is on a good disk.
    behind = folder.rename(tmp_path / "behind")
    with failing_disk(behind, folder, {note: [(0, 1)]}), closing(opened(crash)) as store:
        await store.publish_left()
        assert bodies(store) == ([SMALL] if published else [])
        (said,) = events(store)
        assert said.startswith(f"{note}: flushed content cannot be read: ")
    folder.rmdir()
    behind.rename(folder)
    assert notes(crash) == [note]
    assert await after(crash) == [SMALL], "once, whether it was published before or not"


async def test_what_is_no_file_keeps_nothing_from_being_opened_and_stays(writable: Writable) -> None:
    crash = await crashed_with(writable, SMALL)
    folder = crash.root / "journalfs" / "flushed"
    names = ["a.note", "b.body", "c.new"]
    for name in names:
        (folder / name).mkdir()
        (folder / f"link-{name}").symlink_to("nowhere")
    with closing(opened(crash)) as store:
        await store.publish_left()
        assert bodies(store) == [SMALL]
    assert notes(crash) == sorted([*names, *(f"link-{name}" for name in names)])


async def test_a_link_in_the_place_of_a_body_is_not_followed(writable: Writable, tmp_path: Path) -> None:
    crash = await crashed_with(writable, LARGE)
    (body,) = (crash.root / "journalfs" / "flushed").glob("*.body")
    other = tmp_path / "other"
    other.write_bytes(b"other" * 100_000)
    body.unlink()
    body.symlink_to(other)
    assert await after(crash) == []
    assert other.read_bytes() == b"other" * 100_000


async def test_a_copy_of_a_note_is_put_aside(writable: Writable) -> None:
    crash = await crashed_with(writable, SMALL)
    (note,) = (crash.root / "journalfs" / "flushed").iterdir()
    content = note.read_bytes()
    note.with_name("copy.note").write_bytes(content)
    assert await after(crash) == [SMALL]
    (aside,) = (crash.root / "journalfs" / "unpublished").iterdir()
    assert aside.read_bytes() == content
