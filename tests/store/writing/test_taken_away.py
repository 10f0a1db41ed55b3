"""A journal file that somebody takes away while its store is open for writing: nothing goes with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from journalfs.errors import Damaged, ReadOnlyStore, WriteFailed
from journalfs.store.write.store import WritingStore
from tests.store.writing.conftest import Writable, lines_of, no_upkeep


def gone(store: WritingStore) -> list[str]:
    return [one.file for one in store.core.damage() if one.kind == "missing-file"]


@pytest.mark.protects("P-2")
@pytest.mark.rule("S-49")
async def test_nothing_is_written_once_a_file_is_gone(writable: Writable) -> None:
    writable.with_small_files()
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
        with pytest.raises(ReadOnlyStore, match=f"{path.name}.*taken away"):
            await publisher.write(b"refused\n")
        assert not store.journals.messages.upkeep.compaction_due()
    shutil.move(aside, path)
    async with writable.open(index=True) as store:
        assert not store.core.damage()
        assert len(lines_of(store, "work.a")) == len(lines) + 1


@pytest.mark.rule("S-49")
async def test_a_file_that_is_gone_is_told_after_a_kill(writable: Writable, tmp_path: Path) -> None:
    writable.with_small_files()
    async with writable.open(index=True) as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"".join(b"%d %s\n" % (n, b"x" * 500) for n in range(300)))
        name = store.journals.messages.data[1].name
    (writable.root / "journal" / name).unlink()
    killed = Writable(replace(writable.little, root=tmp_path / "killed"), writable.backend)
    async with writable.open(index=True) as store:
        assert gone(store) == [f"journal/{name}"]
        await store.publisher("work", "work.a", "in").write(b"published\n")
        shutil.copytree(writable.root, killed.root)
    for _ in range(2):
        async with killed.open(index=True) as store:
            assert gone(store) == [f"journal/{name}"]
            with pytest.raises(Damaged, match="not compacted"):
                await store.journals.messages.upkeep.compact()


def cut(path: Path, root: Path) -> None:
    os.truncate(path, 4096)


def removed(path: Path, root: Path) -> None:
    path.unlink()


def replaced(path: Path, root: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    os.rename(copy, path)


def store_moved(path: Path, root: Path) -> None:
    os.rename(root, root.parent / "elsewhere")


def store_removed(path: Path, root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)  # which takes away files ahead as they are made
    assert not path.exists()


def store_copied(path: Path, root: Path) -> None:
    store_moved(path, root)
    shutil.copytree(root.parent / "elsewhere", root)


@pytest.mark.protects("P-2")
@pytest.mark.rule("S-49")
@pytest.mark.parametrize("lose", [cut, removed, replaced, store_moved, store_removed, store_copied])
async def test_nothing_is_said_to_be_kept_where_nobody_finds_it(
    writable: Writable, lose: Callable[[Path, Path], None]
) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"first\n")
        assert len(lines_of(store, "work.a")) == 1
        current = writable.root / "journal" / store.journals.messages.current.name
        async with no_upkeep(store):
            lose(current, writable.root)
        # Upkeep, of the bindings too, may be the first to find that all is gone: then it is of another file.
        said = r"activemq-\w+-\d"
        with pytest.raises((WriteFailed, ReadOnlyStore), match=said):
            await publisher.write(b"not kept\n")
        with pytest.raises(ReadOnlyStore, match=said):
            await publisher.write(b"refused\n")
        await store.look()
        assert store.status()["storeGone"] is (lose in (store_moved, store_removed))


@pytest.mark.rule("S-44")
async def test_a_store_that_is_away_while_nothing_is_written(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"first\n")
        assert len(lines_of(store, "work.a")) == 1
        away = writable.root.parent / "away"
        async with no_upkeep(store):
            os.rename(writable.root, away)
            await store.look()
            assert store.status()["storeGone"] is True
            assert len(lines_of(store, "work.a")) == 1
            os.rename(away, writable.root)
        await store.look()
        assert store.status()["storeGone"] is False
        await publisher.write(b"second\n")
        assert len(lines_of(store, "work.a")) == 2
