"""A journal file that somebody takes away while its store is open for writing: nothing goes with it."""

from __future__ import annotations

import os
import shutil

import pytest

from journalfs.errors import Damaged, ReadOnlyStore
from journalfs.store.write.store import WritingStore
from tests.store.writing.conftest import Writable, lines_of


def gone(store: WritingStore) -> list[str]:
    return [one.file for one in store.core.damage() if one.kind == "missing-file"]


@pytest.mark.rule("S-49")
async def test_nothing_is_written_once_a_file_is_gone(writable: Writable) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = 65536\n'
    )
    aside = writable.root.parent / "aside.amq"
    async with writable.open(index=True) as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300)))
        journal = store.journals.messages
        await journal.upkeep.compact()
        lines = lines_of(store, "work.a")
        path = writable.root / "journal" / journal.data[1].name
        shutil.move(path, aside)
        journal.switch()
        await publisher.write(b"published\n")
        assert len(lines_of(store, "work.a")) < len(lines)
        assert gone(store) == [f"journal/{path.name}"]
        with pytest.raises(ReadOnlyStore, match=f"{path.name}.*taken away"):
            await publisher.write(b"refused\n")
        assert not store.journals.messages.upkeep.compaction_due()
    async with writable.open(index=True) as store:
        assert gone(store) == [f"journal/{path.name}"]
        with pytest.raises(Damaged, match=f"{path.name}.*not compacted"):
            await store.journals.messages.upkeep.compact()
        assert not store.journals.messages.upkeep.compaction_due()
    shutil.move(aside, path)
    async with writable.open(index=True) as store:
        assert not store.core.damage()
        assert len(lines_of(store, "work.a")) == len(lines) + 1
        await store.journals.messages.upkeep.compact()
        assert len(lines_of(store, "work.a")) == len(lines) + 1


@pytest.mark.rule("S-49")
async def test_nothing_is_written_once_a_file_is_cut(writable: Writable) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = 65536\n'
    )
    async with writable.open(index=True) as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300)))
        journal = store.journals.messages
        assert len(lines_of(store, "work.a")) == 300
        name = journal.data[1].name
        os.truncate(writable.root / "journal" / name, 8192)
        journal.switch()
        await publisher.write(b"published\n")
        assert len(lines_of(store, "work.a")) < 300
        assert f"journal/{name}" in [one.file for one in store.core.damage()]
        with pytest.raises(ReadOnlyStore, match=f"{name}.*cut short"):
            await publisher.write(b"refused\n")
