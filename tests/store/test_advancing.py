"""Reading a journal to which others add meanwhile, or whose files get other names: nothing is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from journalfs.engine.state import LiveState
from journalfs.ids import FileId
from journalfs.limits import LISTINGS_MAX
from journalfs.records.files.directory import DirectoryReader, JournalDirectory
from journalfs.records.files.files import ReadFile
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.store.store import JournalStore
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, LittleStore

ReadLines = Callable[[JournalStore, str], list[bytes]]


def next_files(little: LittleStore, *numbers: int) -> list[JournalAppender]:
    folder = little.root / "journal"
    return [JournalAppender.create(folder / f"activemq-data-{one}.amq", one) for one in numbers]


# ---- files that get other names ----


@dataclass
class Moved:
    """A file gets another name just after each of so many listings, as those that compaction wrote do."""

    path: Path
    times: int = 0
    listings: int = 0

    def listed(self) -> None:
        self.listings += 1
        if self.times:
            self.times -= 1
            self.path = self.path.rename(self.path.with_name(f"activemq-data-{90 + self.times}.amq"))


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Moved:
    moved = Moved(tmp_path)

    class Listing(DirectoryReader):
        def read(self) -> JournalDirectory:
            listing = super().read()
            moved.listed()
            return listing

    monkeypatch.setattr("journalfs.records.files.loader.DirectoryReader", Listing)
    return moved


def take_over(store: JournalStore, file: JournalAppender) -> None:
    """All that was written, the last of it in this file."""
    assert store.core.loader.advance(FileId(file.file_id), file.at) is PollResult.APPENDED
    store.core.bodies.measure_added()


@pytest.mark.parametrize("times", [1, LISTINGS_MAX])
def test_no_file_is_left_out_that_moves_meanwhile(
    little_store: LittleStore, lines_of: ReadLines, times: int, moved: Moved
) -> None:
    first = little_store.journal
    store = little_store.open()
    first.send(1000, QUEUE_A, "one")
    take_over(store, first)
    second, third = next_files(little_store, 2, 3)
    second.send(1001, QUEUE_A, "two")
    third.send(1002, QUEUE_A, "three")
    moved.path, moved.times = second.path, times
    take_over(store, third)
    if times < LISTINGS_MAX:
        assert len(lines_of(store, "work.a")) == 3
    third.send(1003, QUEUE_A, "four")
    take_over(store, third)
    assert len(lines_of(store, "work.a")) == 4
    assert not store.core.damage()


# ---- many files of its own ----


def go_on(store: JournalStore, files: list[JournalAppender]) -> PollResult:
    """Take over what was written, the last of it in the last of the files in use."""
    named = [(FileId(one.file_id), one.path.name) for one in files]
    last = files[-1]
    loader = store.core.loader
    result = loader.advance(FileId(last.file_id), last.at, newest_first=reversed(named))
    store.core.bodies.measure_added()
    return result


@pytest.mark.parametrize("step", [1, 3])
def test_many_files_are_not_listed_for_each_new_one(
    little_store: LittleStore, lines_of: ReadLines, step: int, moved: Moved
) -> None:
    """A few come into use between two looks, each with a message; one was there before as a free one."""
    files = [little_store.journal, *next_files(little_store, *range(2, 131))]
    store = little_store.open()
    files[-1].send(1000, QUEUE_A, "one")
    assert go_on(store, files) is PollResult.APPENDED
    (free,) = next_files(little_store, 131)
    assert go_on(store, files) is PollResult.UNCHANGED
    moved.listings = 0
    for number in range(131, 431, step):
        new = next_files(little_store, *(one for one in range(number, number + step) if one != 131))
        files += [free, *new] if number == 131 else new
        for file in files[-step:]:
            file.send(1000 + file.file_id, QUEUE_A, "more")
        assert go_on(store, files) is PollResult.APPENDED
        assert go_on(store, files) is PollResult.UNCHANGED
    assert len(lines_of(store, "work.a")) == 301
    assert 0 < moved.listings < 300 // step // 2
    assert not store.core.damage()
    again = little_store.open(index=False)
    assert lines_of(again, "work.a") == lines_of(store, "work.a")


# ---- a writer that is faster ----


@dataclass(slots=True)
class Overtaken(JournalLoader):
    """Whoever writes goes on for a while when so many files were looked at."""

    looks: int = 0
    work: Callable[[], None] = lambda: None

    def looked(self) -> None:
        self.looks -= 1
        if self.looks == 0:
            self.work()

    def _load_file(self, read: ReadFile) -> None:
        JournalLoader._load_file(self, read)
        self.looked()

    def _has_news(self, read: ReadFile) -> bool:
        found = JournalLoader._has_news(self, read)
        self.looked()
        return found


def overtaken(little: LittleStore) -> Overtaken:
    state = LiveState()
    state.register_queue(QUEUE_A)
    return Overtaken(little.root / "journal", "amq", little.root, little.clock, state)


def add_to_three_files(little: LittleStore) -> Callable[[], None]:
    """A transaction that ends two files after the one in which it began, and a message before that."""
    second, third = next_files(little, 2, 3)

    def add() -> None:
        little.journal.send(1001, QUEUE_A, "behind what was read")
        little.journal.send_in_transaction(500, 1002, QUEUE_A)
        second.send(1003, QUEUE_A, "in a file that was empty")
        third.commit(500, 0)  # how many of its records are in this file

    return add


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_what_is_loaded_has_no_holes_where_a_writer_was_faster(little_store: LittleStore, looks: int) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    loader = overtaken(little_store)
    loader.looks, loader.work = looks, add_to_three_files(little_store)
    loader.load()
    while loader.poll() is PollResult.APPENDED:
        pass
    assert loader.looks <= 0
    assert loader.state.counts().messages == 4
    assert not loader.damage()


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_what_is_followed_has_no_holes_where_a_writer_was_faster(
    little_store: LittleStore, looks: int
) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    loader = overtaken(little_store)
    add = add_to_three_files(little_store)
    loader.load()
    little_store.journal.send(999, QUEUE_A, "one more")
    loader.looks, loader.work = looks, add
    while loader.poll() is PollResult.APPENDED:
        pass
    assert loader.looks <= 0
    assert loader.state.counts().messages == 5
    assert not loader.damage()
