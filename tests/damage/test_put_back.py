"""A store with a damaged file is mounted for writing and left alone, and the file is put back from a copy.
All is there again then, and nothing else. Of a damaged store nothing is tidied up that the copy would need.

Without an index nobody knows of a page that is gone from its folder, or is another of the same address: it
counts as deleted.
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
from journalfs.format.record_types import RecordKind
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.damage.cases import cases
from tests.damage.test_damage_anywhere import STORES, damage, files_of, shown
from tests.kinds import some_pairs
from tests.reference import journal as reference

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
    if path.suffix == ".page":
        return "a page, so it stays"
    path.unlink()
    return f"{path.name} removed"


def are_pages_of_one(file: Path, other: Path) -> bool:
    """Whether both are pages of one address."""
    return file.suffix == ".page" and file.parent == other.parent and file != other


def another(path: Path, files: list[Path], chance: random.Random) -> str:
    others = [file for file in files if file.suffix == path.suffix and not are_pages_of_one(file, path)]
    other = chance.choice([*others, path])
    path.write_bytes(other.read_bytes())
    return f"{path.name} overwritten with {other.name}"


def renamed(path: Path, files: list[Path], chance: random.Random) -> str:
    """Into the folder of another address, if it is a page."""
    folders = {file.parent for file in files if file.suffix == path.suffix}
    if path.suffix == ".page":
        folders.discard(path.parent)
    number = chance.randrange(1, 60)
    name = f"{number:09d}.page" if path.suffix == ".page" else f"away{path.suffix}"
    places = [place for folder in sorted(folders) if not (place := folder / name).exists()]
    place = chance.choice([*places, path])
    path.rename(place)
    return f"{path.name} renamed to {place.parent.name}/{place.name}"


def somewhere(path: Path, files: list[Path], chance: random.Random) -> str:
    return damage(path, chance)


WAYS = (empty, zeros, garbage, gone, another, renamed, somewhere)


def eager_compaction(*, min_files: int) -> str:
    return f"journal-compact-min-files = {min_files}\njournal-compact-percentage = 99\n"


def left_alone(data: Path) -> None:
    """A mount looks after pages, bodies and journals by itself."""

    async def upkeep(store: WritingStore) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            for _ in range(2):
                await store.paged.look()
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    with closing(open_for_writing(data, index=False)) as store:
        trio.run(upkeep, store)


@pytest.mark.rule("S-48", "S-109", "S-112", "S-113")
@pytest.mark.parametrize(("name", "way"), some_pairs(STORES, WAYS))
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
        # Where nothing told of the file that knew of them, they are as a crash leaves them.
        for body in (data / "journalfs/orphans").glob("*"):
            body.rename(data / "large-messages" / body.name)
        for page in data.rglob("*.invalidPage"):
            if not page.with_suffix("").exists():
                page.rename(page.with_suffix(""))
        assert shown(data)[::2] == (before, listed), done


def damaged_files(data: Path) -> set[tuple[str, str]]:
    store = open_store(data, index=False)
    try:
        return {(Path(one.file).name, one.kind) for one in store.core.damage()}
    finally:
        store.close()


@pytest.mark.rule("S-49", "S-112")
@pytest.mark.parametrize("kind", ["short-file", "zeroed"])
@pytest.mark.parametrize("name", ["large-and-paged", "killed"])
def test_an_emptied_journal_file_stays_damage_and_pages_stay(name: str, kind: str, store_copy: Copy) -> None:
    """Without it transactions that wrote to pages are not known, and their messages count for nothing; nor
    may the journal be compacted, for other files say which of its messages were consumed.
    """
    data = store_copy(name) / "data"
    before, _, listed = shown(data)
    (data / "journalfs.toml").write_text(eager_compaction(min_files=1))
    for path in sorted((data / "journal").glob("*.amq"))[:2]:
        content = path.read_bytes()
        path.write_bytes(b"" if kind == "short-file" else bytes(len(content)))
        for _ in range(3):
            left_alone(data)
            assert (path.name, kind) in damaged_files(data)
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


def of_the_long_transaction(content: bytes) -> tuple[list[reference.Record], reference.Record]:
    """Records of the second journal file of `killed`, and the commit of the transaction that the first file
    holds nothing else of.
    """
    records = reference.scan(content, 2).records
    commit = next(one for one in records if one.kind == RecordKind.COMMIT)
    return [one for one in records if one.tx_id == commit.tx_id and one is not commit], commit


def without(content: bytes, one: reference.Record) -> bytes:
    """A journal file with zeros where a record was."""
    return content[: one.offset] + bytes(one.length) + content[one.offset + one.length :]


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("lost", ["commit", "record"])
def test_what_a_lost_record_may_have_committed_stays(lost: str, store_copy: Copy) -> None:
    """Nobody knows what became of a transaction of which something is lost, so what it did is kept."""
    data = store_copy("killed") / "data"
    before, _, listed = shown(data)
    path, first = (data / f"journal/activemq-data-{number}.amq" for number in (2, 1))
    content, kept = path.read_bytes(), first.read_bytes()
    records, commit = of_the_long_transaction(content)
    one = commit if lost == "commit" else records[10]
    path.write_bytes(without(content, one))
    (data / "journalfs.toml").write_text(eager_compaction(min_files=3))
    for _ in range(3):
        left_alone(data)
        assert any(kind == "zeroed" for _, kind in damaged_files(data))
        assert first.read_bytes() == kept
    path.write_bytes(content)
    assert shown(data)[::2] == (before, listed)


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_left_unfinished_is_kept_only_beside_damage(lost: bool, store_copy: Copy) -> None:
    data = store_copy("killed") / "data"
    path = data / "journal/activemq-data-2.amq"
    content = path.read_bytes()
    records, commit = of_the_long_transaction(content)
    for later in data.glob("journal/*.amq"):
        if int(later.stem.rpartition("-")[2]) > 2:
            later.unlink()
    content = content[: commit.offset] + bytes(len(content) - commit.offset)
    if lost:
        content = without(content, records[10])
    path.write_bytes(content)
    for _ in range(2):
        with closing(open_for_writing(data, index=False)) as store:
            totals = store.journals.messages.totals()
            assert (totals.open_transactions, totals.doubtful_transactions) == (0, 0 if not lost else 1)


def test_what_is_lost_does_not_make_a_journal_grow_for_ever(store_copy: Copy) -> None:
    data = store_copy("killed") / "data"
    path = data / "journal/activemq-data-2.amq"
    content = path.read_bytes()
    _, commit = of_the_long_transaction(content)
    path.write_bytes(without(content, commit))
    found, _, _ = shown(data)
    (data / "journalfs.toml").write_text(eager_compaction(min_files=1))
    left_alone(data)
    # The journal was compacted; what could not be read is kept beside it, and what it hides in the journal.
    kept = (f"{path.name}-2@{commit.offset}.bin", "zeroed")
    assert {kept[1], "undecided-transaction"} == {kind for _, kind in damaged_files(data)}
    assert kept in damaged_files(data)
    assert shown(data)[0] == found
