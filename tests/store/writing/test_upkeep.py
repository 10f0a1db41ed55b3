"""What goes on beside: files set free and used again, compaction, while everything stays readable."""

from __future__ import annotations

import json

from journalfs.ids import MessageId
from journalfs.store import open_store
from tests.store.writing.conftest import Writable, lines_of, queue_of


async def test_files_are_compacted_and_what_lives_is_still_there(writable: Writable) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = 65536\n'
        "journal-compact-min-files = 4\njournal-compact-percentage = 50\n"
    )
    kept: list[int] = []
    async with writable.open() as store:
        for turn in range(40):
            publisher = store.publisher("work", "work.a", "in")
            await publisher.write(b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 500) for n in range(20)))
            await publisher.finish()
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


async def test_an_open_part_keeps_its_bytes_while_its_files_are_used_again(writable: Writable) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = 65536\n'
    )
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"first %d %s\n" % (n, b"x" * 500) for n in range(100)))
        await publisher.finish()
        before = lines_of(store, "work.a")
        source = queue_of(store, "work.a").open_all()
        await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        for turn in range(30):
            publisher = store.publisher("work", "work.a", "in")
            await publisher.write(b"".join(b"%d-%d %s\n" % (turn, n, b"y" * 500) for n in range(20)))
            await publisher.finish()
            await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
            await store.journals.messages.upkeep.tidy()
        assert bytes(source.read(0, source.size_bytes)).splitlines() == before
        source.close()


async def test_compaction_before_anything_was_written(writable: Writable) -> None:
    """What is shown comes from the files that take the place of those that are emptied."""
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = 65536\n'
    )
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300)))
        await publisher.finish()
        before = lines_of(store, "work.a")
    async with writable.open() as store:
        await store.journals.messages.upkeep.compact()
        assert lines_of(store, "work.a") == before
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"more\n")
        assert len(lines_of(store, "work.a")) == len(before) + 1
        assert not store.core.damage()
