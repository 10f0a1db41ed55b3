"""A message keeps the part that it was shown in when the process that made it was killed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from journalfs.live.index_file import index_path
from journalfs.live.page_parts import PAGE_PART_BASE
from journalfs.live.part_names import HEAD_BYTES, parts_path
from journalfs.store.store import JournalStore
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import small, write_page
from tests.store.test_part_names import sealed

pytestmark = pytest.mark.rule("S-131")


def names(store: JournalStore) -> dict[bytes, tuple[str, str]]:
    """Queue and part of each line that is in a part."""
    found = {}
    for queue in store.queues():
        for part in queue.parts():
            source = queue.open_part(part)
            lines = bytes(source.read(0, source.size_bytes)).splitlines()
            found.update(dict.fromkeys(lines, (queue.name, part.name)))
            source.close()
    return found


def events(store: JournalStore) -> list[object]:
    return [event["event"] for event in store.core.events]


def noted(little: LittleStore) -> Path:
    return parts_path(index_path(little.root))


async def killed(little: LittleStore) -> tuple[JournalStore, dict[bytes, tuple[str, str]]]:
    """A store that was shown for a while, and what its parts were when its process was killed. It is returned
    because what it has locked stays so as long as it lives.
    """
    little.journal.send(1000, QUEUE_A)
    little.open().close()
    store = little.open()
    for number in range(1, 4):
        little.journal.send(1000 + number, QUEUE_A)
        little.journal.send(2000 + number, QUEUE_B)
        write_page(little, 1, [small(3000 + n, queues=(QUEUE_A, QUEUE_B)) for n in range(number)])
        await sealed(store, little)
    return store, names(store)


async def test_parts_of_journal_and_pages_have_their_names_again(little_store: LittleStore) -> None:
    store, before = await killed(little_store)
    assert len(set(before.values())) == 13
    little_store.journal.acknowledge(1002, QUEUE_A, tx_id=9000)
    little_store.journal.send(1004, QUEUE_A)
    following = little_store.open()
    after = names(following)
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    assert len(gone) == len(new) == 1
    assert {line: name for line, name in after.items() if line in before} == {
        line: name for line, name in before.items() if line not in gone
    }
    assert not {after[line] for line in new} & set(before.values())
    assert "part-names-not-kept" not in events(store) + events(following)


async def test_a_store_whose_index_was_never_written(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open()
    little_store.journal.send(1001, QUEUE_A)
    await sealed(store, little_store)
    assert not index_path(little_store.root).exists()
    assert names(little_store.open()) == names(store) != {}


async def test_times_stay_and_numbers_go_on(little_store: LittleStore) -> None:
    """A stream passes over files that are too old, so the time of a part must not change either."""
    store, _ = await killed(little_store)
    little_store.clock.advance(by_ms=60_000)
    following = little_store.open()
    for one, other in zip(store.queues(), following.queues(), strict=True):
        assert [(part.name, part.mtime_ns) for part in one.parts()] == [
            (part.name, part.mtime_ns) for part in other.parts()
        ]
    little_store.journal.send(1004, QUEUE_A)
    await sealed(following, little_store)
    numbers = [part.number for part in following.queues()[0].parts() if part.number < PAGE_PART_BASE]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 5


async def test_what_the_index_has_is_noted_no_longer(little_store: LittleStore) -> None:
    store, before = await killed(little_store)
    assert noted(little_store).stat().st_size > HEAD_BYTES
    store.close()
    assert noted(little_store).stat().st_size == HEAD_BYTES
    assert names(little_store.open()) == before


async def test_notes_that_were_torn(little_store: LittleStore) -> None:
    """Those before count, and what is noted later is found again, too."""
    store, before = await killed(little_store)
    store.core.waking.ring()
    content = noted(little_store).read_bytes()
    store.close()
    index_path(little_store.root).unlink()
    noted(little_store).write_bytes(content[:-7])
    following = little_store.open()
    after = names(following)
    kept = [line for line in before if after[line] == before[line]]
    assert 0 < len(kept) < len(before)
    little_store.journal.send(1004, QUEUE_A)
    await sealed(following, little_store)
    assert names(little_store.open()) == names(following)


async def test_many_notes_are_made_anew(little_store: LittleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journalfs.live.part_names.SEALED_PARTS_BYTES", 100)
    store = little_store.open()
    sizes = []
    for number in range(30):
        little_store.journal.send(1000 + number, QUEUE_A)
        await sealed(store, little_store)
        sizes.append(noted(little_store).stat().st_size)
        if number:
            little_store.journal.acknowledge(999 + number, QUEUE_A, tx_id=9000 + number)
    assert max(sizes) < 400
    assert names(little_store.open()) == {
        line: name for line, name in names(store).items() if b"1029" in line
    }


async def test_one_process_gives_the_names_that_last(little_store: LittleStore) -> None:
    """Another that shows the store meanwhile, as `journalfs cat` does, leaves its own nowhere."""
    store, before = await killed(little_store)
    little_store.journal.send(1004, QUEUE_A)
    other = little_store.open()
    assert set(before.items()) < set(names(other).items())
    other.close()
    await sealed(store, little_store)
    given = names(store)
    assert set(before.items()) < set(given.items())
    assert names(little_store.open()) == given


@pytest.mark.parametrize("begun", [False, True])
async def test_whoever_came_later_does_not_rename_what_the_first_one_named(
    little_store: LittleStore, begun: bool
) -> None:
    """Even if it is the last to go. `begun`: the store has the folder that names are kept in."""
    if begun:
        little_store.open().close()
    first = little_store.open()
    other = little_store.open()
    little_store.journal.send(1004, QUEUE_A)
    await sealed(first, little_store)
    await sealed(other, little_store)
    given = names(first)
    assert names(other) != given
    first.close()
    little_store.journal.send(1005, QUEUE_A)
    await sealed(other, little_store)
    other.close()
    assert set(given.items()) <= set(names(little_store.open()).items())


async def test_whoever_is_left_goes_on_where_one_that_was_killed_was(little_store: LittleStore) -> None:
    store, _ = await killed(little_store)
    other = little_store.open()
    store.core.names.close()
    little_store.journal.send(1005, QUEUE_A)
    await sealed(other, little_store)
    assert names(little_store.open()).items() >= names(other).items()


async def test_a_disk_without_room_for_notes(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, before = await killed(little_store)

    def full(descriptor: int, content: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    little_store.journal.send(1004, QUEUE_A)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        await sealed(store, little_store)
    assert events(store).count("part-names-not-kept") == 1
    after = names(little_store.open())
    assert set(before.items()) < set(after.items())
    given = names(store)
    store.close()
    assert names(little_store.open()) == given


@pytest.mark.parametrize("notes", [b"\0" * 8, b"x" * 40, b"\1\0\0\0" + bytes(9), b"\xff" * 30])
def test_what_is_no_note(little_store: LittleStore, notes: bytes) -> None:
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()
    with noted(little_store).open("ab") as file:
        file.write(notes)
    following = little_store.open()
    assert following.core.names.found == []
    assert len(names(following)) == 1


def test_what_an_earlier_version_noted_is_told_and_goes(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    little_store.open().close()
    before = noted(little_store).with_suffix(".sealed")
    before.write_bytes(b"JFSSEAL1")
    assert events(little_store.open()) == ["part-names-not-kept"]
    assert not before.exists()
