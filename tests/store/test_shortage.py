"""A process that can open nothing more: what it cannot look at is neither damaged nor gone."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from journalfs.errors import OutOfResources, SystemFailure
from journalfs.store.store import JournalStore
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_large_bodies import send_large
from tests.store.test_pages import ReadLines, small, write_page
from tests.tools.descriptors import without_descriptors


def in_journal(little: LittleStore) -> None:
    little.journal.send(1000, QUEUE_A)
    little.journal.send(1001, QUEUE_B)


def in_pages(little: LittleStore) -> None:
    write_page(little, 1, [small(2000, queues=(QUEUE_A, QUEUE_B))])
    write_page(little, 2, [small(2001)])


@pytest.fixture(params=[in_journal, in_pages])
def fill(request: pytest.FixtureRequest) -> Callable[[LittleStore], None]:
    found: Callable[[LittleStore], None] = request.param
    return found


def lines(store: JournalStore, lines_of: ReadLines) -> list[list[bytes]]:
    return [lines_of(store, queue) for queue in ("work.a", "work.b")]


@pytest.mark.rule("S-48")
def test_nothing_is_opened(little_store: LittleStore, fill: Callable[[LittleStore], None]) -> None:
    fill(little_store)
    with without_descriptors(), pytest.raises(SystemFailure, match="Too many open files"):
        little_store.open(index=False)


@pytest.mark.rule("S-44", "S-48")
@pytest.mark.parametrize("doubted", [False, True])
def test_what_is_known_stays_shown(
    little_store: LittleStore, fill: Callable[[LittleStore], None], lines_of: ReadLines, *, doubted: bool
) -> None:
    """Also where the journal is to be read anew."""
    fill(little_store)
    store = little_store.open(index=False)
    known = lines(store, lines_of)
    assert all(known)
    store.core.journal_doubted = doubted
    little_store.journal.send(4000, QUEUE_A)
    os.utime(little_store.bindings.path)
    with without_descriptors():
        for _ in range(2):
            with pytest.raises(OutOfResources, match="Too many open files"):
                store.look_now()
            assert lines(store, lines_of) == known
    store.look_now()
    assert [len(found) for found in lines(store, lines_of)] == [len(known[0]) + 1, len(known[1])]
    assert not store.core.damage()


@pytest.mark.rule("S-51")
def test_a_large_body_is_not_missing(little_store: LittleStore, lines_of: ReadLines) -> None:
    """Neither is one that comes while nothing can be opened shown without its body."""
    send_large(little_store, 3000, QUEUE_A)
    store = little_store.open(index=False)
    known = lines_of(store, "work.a")
    send_large(little_store, 3001, QUEUE_A)
    with without_descriptors():
        with pytest.raises(OutOfResources):
            lines_of(store, "work.a")
        with pytest.raises(OutOfResources):
            store.look_now()
    store.look_now()
    assert lines_of(store, "work.a")[:1] == known
    assert len(lines_of(store, "work.a")) == 2
    assert not store.core.damage()


@pytest.mark.rule("S-52")
def test_a_page_that_nobody_has_looked_into(little_store: LittleStore, lines_of: ReadLines) -> None:
    write_page(little_store, 1, [small(2000)])
    store = little_store.open(index=False)
    write_page(little_store, 2, [small(2001)])
    assert store.core.refresh_pages()
    with without_descriptors(), pytest.raises(OutOfResources):
        lines_of(store, "work.a")
    assert len(lines_of(store, "work.a")) == 2
    assert not store.core.damage()


@pytest.mark.rule("S-48")
def test_a_file_that_nobody_could_map_is_damage(little_store: LittleStore) -> None:
    """However much memory there is: its size is wrong."""
    little_store.journal.send(1000, QUEUE_A)
    journal = little_store.root / "journal"
    with TemporaryDirectory(dir="/dev/shm") as folder:  # other file systems have no files of that length
        elsewhere = Path(shutil.move(journal, folder))
        journal.symlink_to(elsewhere)
        path = elsewhere / "activemq-data-2.amq"
        path.write_bytes(struct.pack(">iiq", 2, 0, 2))
        os.truncate(path, 1 << 60)
        store = little_store.open(index=False)
        found = [(damage.kind, damage.file) for damage in store.core.damage()]
        assert found == [("unreadable", str(path))]
