"""What goes on beside: files set free and used again, compaction, while everything stays readable."""

from __future__ import annotations

import json
import threading

import pytest
import trio

from journalfs.api import ByteSource
from journalfs.ids import MessageId
from journalfs.records.files.loader import JournalLoader
from journalfs.records.files.writer import JournalWriter
from journalfs.store import open_store
from journalfs.store.write.store import WritingStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, queue_of


async def test_files_are_compacted_and_what_lives_is_still_there(writable: Writable) -> None:
    writable.with_small_files("journal-compact-min-files = 4\njournal-compact-percentage = 50\n")
    kept: list[int] = []
    async with writable.open() as store:
        for turn in range(40):
            await publish_file(
                store,
                "work",
                "work.a",
                "in",
                b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 500) for n in range(20)),
            )
            ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
            fresh = [one for one in ids if one not in kept]
            assert len(fresh) == 20
            kept.append(fresh[0])
            await store.acknowledge(("work", "work.a"), [MessageId(one) for one in fresh[1:]])
            await store.journals.messages.upkeep.tidy()
            assert [json.loads(line)["id"] for line in lines_of(store, "work.a")] == kept
        assert store.journals.messages.upkeep.compactions > 0
        assert len(store.journals.messages.data) < 12
    reopened = open_store(writable.root, clock=writable.clock, index=False)
    assert [json.loads(line)["id"] for line in lines_of(reopened, "work.a")] == kept  # type: ignore[arg-type]
    assert not reopened.core.damage()


@pytest.mark.rule("S-91")
async def test_many_compactions_with_as_much_alive_make_no_more_files(writable: Writable) -> None:
    """By themselves and on demand, of both journals."""
    writable.with_small_files("journal-compact-min-files = 2\njournal-compact-percentage = 90\n")
    counts: list[tuple[int, int]] = []
    async with writable.open() as store:
        both = store.journals.messages, store.journals.bindings
        kept = [await published(store, b"kept %d\n" % n) for n in range(5)]
        for turn in range(12):
            ids = [await published(store, b"%d %s\n" % (turn, b"x" * 20_000)) for _ in range(12)]
            await store.acknowledge(("work", "work.a"), [one for many in ids for one in many])
            await store.create_address(f"address {turn}")
            await store.delete_address(f"address {turn}")
            for writer in both:
                await writer.upkeep.tidy()
                if turn % 2:
                    await writer.upkeep.compact()
            counts.append((journal_files(both[0]), journal_files(both[1])))
        assert both[0].upkeep.compactions >= 10
        assert len(lines_of(store, "work.a")) == len(kept)
    # A turn takes 12 files of the messages' journal, and is compacted before or behind the next.
    assert max(messages for messages, _ in counts) < 40, counts
    assert max(bindings for _, bindings in counts) < 10, counts


def journal_files(writer: JournalWriter) -> int:
    return sum(name.endswith(writer.settings.extension) for name in writer.backend.names())


async def published(store: WritingStore, line: bytes) -> list[MessageId]:
    await publish_file(store, "work", "work.a", "in", line)
    return [MessageId(json.loads(lines_of(store, "work.a")[-1])["id"])]


@pytest.mark.rule("S-49")
async def test_files_of_a_smaller_size_are_whole(writable: Writable) -> None:
    """What lives of larger files may not fit into files of the new size."""
    toml = writable.root / "journalfs.toml"
    setting = f'journal-type = "{writable.backend}"\njournal-file-size = '
    toml.write_text(f"{setting}262144\n")
    async with writable.open() as store:
        for size in (500, 40_000):
            await publish_file(
                store, "work", "work.a", "in", b"".join(b"%d %s\n" % (n, b"x" * size) for n in range(20))
            )
        lines = lines_of(store, "work.a")
    toml.write_text(f"{setting}102400\n")
    async with writable.open() as store:
        await store.journals.messages.upkeep.compact()
        assert lines_of(store, "work.a") == lines
        made = {file.size_bytes for file in store.journals.messages.data}
        assert made == {102400, 262144}
    assert {path.stat().st_size for path in (writable.root / "journal").glob("*.amq")} == made
    reopened = open_store(writable.root, clock=writable.clock, index=False)
    assert not reopened.core.damage()
    assert lines_of(reopened, "work.a") == lines  # type: ignore[arg-type]


async def test_an_open_part_keeps_its_bytes_while_its_files_are_used_again(writable: Writable) -> None:
    writable.with_small_files()
    async with writable.open() as store:
        await publish_file(
            store, "work", "work.a", "in", b"".join(b"first %d %s\n" % (n, b"x" * 500) for n in range(100))
        )
        before = lines_of(store, "work.a")
        source = queue_of(store, "work.a").open_all()
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        for turn in range(30):
            await publish_file(
                store,
                "work",
                "work.a",
                "in",
                b"".join(b"%d-%d %s\n" % (turn, n, b"y" * 500) for n in range(20)),
            )
            await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
            await store.journals.messages.upkeep.tidy()
        assert bytes(source.read(0, source.size_bytes)).splitlines() == before
        source.close()


async def test_compaction_before_anything_was_written(writable: Writable) -> None:
    """What is shown comes from the files that take the place of those that are emptied."""
    writable.with_small_files()
    async with writable.open() as store:
        await publish_file(
            store, "work", "work.a", "in", b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300))
        )
        before = lines_of(store, "work.a")
    async with writable.open() as store:
        await store.journals.messages.upkeep.compact()
        assert lines_of(store, "work.a") == before
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"more\n")
        assert len(lines_of(store, "work.a")) == len(before) + 1
        assert not store.core.damage()


async def test_what_is_opened_before_compacted_files_get_their_names_stays_readable(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part's files are known by the names that they have when the journal may use them again."""
    writable.with_small_files()
    opened: list[ByteSource] = []

    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        token = trio.lowlevel.current_trio_token()

        async def look_and_open() -> None:
            await publisher.write(b"meanwhile\n")
            opened.append(queue_of(store, "work.a").open_all())

        backend = store.journals.messages.backend
        rename = backend.rename

        def looked_at_first(name: str, new: str) -> None:
            if not opened and name.endswith(".cmp"):
                trio.from_thread.run(look_and_open, trio_token=token)
            rename(name, new)

        monkeypatch.setattr(backend, "rename", looked_at_first)
        await publish_file(
            store, "work", "work.a", "in", b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300))
        )
        upkeep = store.journals.messages.upkeep
        await upkeep.compact()
        (source,) = opened
        assert any(held.file.path.suffix == ".cmp" for held in store.core.held)
        lines = lines_of(store, "work.a")
        assert len(lines) == 301
        await upkeep.compact()
        assert bytes(source.read(0, source.size_bytes)).splitlines() == lines
        source.close()


async def test_what_was_read_anew_last_stays(writable: Writable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody looks while the journal is read anew in a thread: what is shown never goes back from there."""
    writable.with_small_files()
    async with writable.open() as store, trio.open_nursery() as nursery:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300)))
        assert len(lines_of(store, "work.a")) == 300
        load, journal = JournalLoader.load, store.journals.messages
        looked: list[JournalLoader] = []
        token = trio.lowlevel.current_trio_token()

        async def look_meanwhile() -> None:
            position = journal.position
            nursery.start_soon(publisher.write, b"meanwhile\n")
            while journal.position == position or journal.committer.reached_position < journal.position:
                await trio.lowlevel.checkpoint()
            store.take_over()
            looked.append(store.core.loaded)

        def load_slowly(loader: JournalLoader) -> None:
            load(loader)
            if not looked and threading.current_thread() is not threading.main_thread():
                trio.from_thread.run(look_meanwhile, trio_token=token)

        monkeypatch.setattr(JournalLoader, "load", load_slowly)
        await store.journals.messages.upkeep.compact()
        assert [store.core.loaded] == looked
        assert len(lines_of(store, "work.a")) == 301
