"""A store with a damaged file is mounted for writing and left alone, and the file is put back from a copy.
All is there again then, and nothing else. Of a damaged store nothing is tidied up that the copy would need.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from journalfs.errors import UnknownVersion
from journalfs.store.opening import open_store
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.damage.cases import cases
from tests.damage.test_damage_anywhere import STORES, damage, files_of, shown

Copy = Callable[[str], Path]
Way = Callable[[Path, list[Path], random.Random], str]
"""Damages a file, one of some, and says how."""


def empty(path: Path, files: list[Path], chance: random.Random) -> str:
    path.write_bytes(b"")
    return f"{path.name} emptied"


def zeros(path: Path, files: list[Path], chance: random.Random) -> str:
    path.write_bytes(bytes(path.stat().st_size))
    return f"{path.name} all zeros"


def garbage(path: Path, files: list[Path], chance: random.Random) -> str:
    path.write_bytes(chance.randbytes(path.stat().st_size))
    return f"{path.name} all garbage"


def gone(path: Path, files: list[Path], chance: random.Random) -> str:
    path.unlink()
    return f"{path.name} removed"


def another(path: Path, files: list[Path], chance: random.Random) -> str:
    other = chance.choice([file for file in files if file.suffix == path.suffix])
    path.write_bytes(other.read_bytes())
    return f"{path.name} overwritten with {other.name}"


def renamed(path: Path, files: list[Path], chance: random.Random) -> str:
    """Into the folder of another address, if it is a page."""
    other = chance.choice([file.parent for file in files if file.suffix == path.suffix])
    number = chance.randrange(1, 60)
    name = f"{number:09d}.page" if path.suffix == ".page" else f"away{path.suffix}"
    path.rename(other / name)
    return f"{path.name} renamed to {other.name}/{name}"


def somewhere(path: Path, files: list[Path], chance: random.Random) -> str:
    return damage(path, chance)


WAYS = (empty, zeros, garbage, gone, another, renamed, somewhere)


def left_alone(data: Path) -> None:
    """A mount looks after pages, bodies and journals by itself."""

    async def upkeep(store: WritingStore) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            for _ in range(2):
                await store._paged.look()
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    with closing(open_for_writing(data, index=False)) as store:
        trio.run(upkeep, store)


@pytest.mark.rule("S-48", "S-109", "S-112", "S-113")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STORES)
def test_it_is_what_it_was(name: str, way: Way, store_copy: Copy, tmp_path: Path) -> None:
    pristine = store_copy(name) / "data"
    before, _, listed = shown(pristine)
    for seed in range(cases(2)):
        chance = random.Random(f"{name} {way.__name__} {seed}")
        data = tmp_path / "data"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(pristine, data)
        path = chance.choice(files_of(data))
        done = way(path, files_of(data), chance)
        new = [file for file in data.rglob("*") if not (pristine / file.relative_to(data)).exists()]
        for _ in range(2):
            with contextlib.suppress(UnknownVersion):  # as a broker, nobody writes beside such a file
                left_alone(data)
        for file in new:
            file.unlink()
        shutil.copy2(pristine / path.relative_to(data), path)
        for body in (data / "journalfs/orphans").glob("*"):
            body.rename(data / "large-messages" / body.name)  # nothing told of the file that knew them
        assert shown(data)[::2] == (before, listed), done


def damaged_files(data: Path) -> set[tuple[str, str]]:
    store = open_store(data, index=False)
    try:
        return {(Path(one.file).name, one.kind) for one in store.core.damage()}
    finally:
        store.close()


@pytest.mark.rule("S-49", "S-112")
@pytest.mark.parametrize("name", ["large-and-paged"])
def test_an_emptied_journal_file_stays_damage_and_pages_stay(name: str, store_copy: Copy) -> None:
    """Without it transactions that wrote to pages are not known, and their messages count for nothing."""
    data = store_copy(name) / "data"
    before, _, listed = shown(data)
    for path in sorted((data / "journal").glob("*.amq"))[:-1]:
        content = path.read_bytes()
        path.write_bytes(b"")
        for _ in range(3):
            left_alone(data)
            assert (path.name, "short-file") in damaged_files(data)
        path.write_bytes(content)
        assert shown(data)[::2] == (before, listed)


def test_what_a_cut_off_creation_left_is_removed(store_copy: Copy) -> None:
    data = store_copy("transactions") / "data"
    before, _, listed = shown(data)
    last = max((data / "journal").glob("*.amq"), key=lambda path: int(path.stem.rpartition("-")[2]))
    left = last.with_name(f"activemq-data-{int(last.stem.rpartition('-')[2]) + 1}.amq")
    left.write_bytes(b"\0\0\0\2")
    left_alone(data)
    assert shown(data)[::2] == (before, listed)
    assert not left.exists() or left.stat().st_size > 4
