"""Reading a file of lines gives the same bytes in whatever order and whatever sizes it is read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from journalfs.api import ByteSource
from journalfs.engine.lines import LineBatch
from journalfs.errors import Damaged, JournalfsError
from journalfs.live.read_ahead import AHEAD_BYTES, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, ReadAheadSource
from journalfs.live.sources import WatchedSource
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.tools.make_store import StoreSpec, make_store

SEED = 20_261_121


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> JournalStore:
    """One queue whose lines are several times what is rendered ahead."""
    spec = StoreSpec(messages=6000, body_chars=1200, body_spread=0.9)
    return open_store(make_store(tmp_path_factory.mktemp("lines"), spec).data, index=False)


@pytest.fixture
def opened(store: JournalStore) -> ReadAheadSource:
    (queue,) = store.queues()
    (part,) = queue.parts()
    watched = queue.open_part(part)
    assert isinstance(watched, WatchedSource)
    source = watched.below
    assert isinstance(source, ReadAheadSource)
    assert source.size_bytes > 2 * AHEAD_BYTES + 2 * WINDOW_BYTES_MAX
    return source


@pytest.fixture(scope="module")
def whole(store: JournalStore) -> bytes:
    """All lines in one read, before anything is rendered ahead."""
    (queue,) = store.queues()
    source = queue.open_part(queue.parts()[0])
    return bytes(source.read(0, source.size_bytes))


def read_to_the_end(source: ByteSource) -> None:
    at = 0
    while at < source.size_bytes:
        at += len(source.read(at, 65_536))


@pytest.mark.parametrize("length", [4096, 65_536, 100_003, WINDOW_BYTES_MAX, 3 * WINDOW_BYTES_MAX + 7])
def test_front_to_back(opened: ReadAheadSource, whole: bytes, length: int) -> None:
    read = bytearray()
    while content := opened.read(len(read), length):
        assert len(content) == min(length, len(whole) - len(read))
        read += content
    assert bytes(read) == whole


def test_any_order(opened: ReadAheadSource, whole: bytes) -> None:
    """Jumps, small steps forward and back, long and short reads, and reads over the end."""
    rng = random.Random(SEED)
    offset = 0
    for _ in range(3000):
        jump = rng.random()
        if jump < 0.1:
            offset = rng.randrange(len(whole))
        elif jump < 0.3:
            offset = max(0, offset - rng.randrange(2 * WINDOW_BYTES_MIN))
        length = rng.choice((1, 17, 4096, 65_536, WINDOW_BYTES_MIN, rng.randrange(WINDOW_BYTES_MAX)))
        content = bytes(opened.read(offset, length))
        assert content == whole[offset : offset + length], (SEED, offset, length)
        offset += len(content)


def test_two_readers_of_one_handle_in_turn(opened: ReadAheadSource, whole: bytes) -> None:
    """As the kernel sends the requests of one readahead: the later one may come first."""
    step = 65_536
    for at in range(0, len(whole), 2 * step):
        assert bytes(opened.read(at + step, step)) == whole[at + step : at + 2 * step]
        assert bytes(opened.read(at, step)) == whole[at : at + step]


def test_a_failed_check_reaches_the_reader() -> None:
    """A stretch that was rendered ahead from overwritten bytes is never handed out."""
    overwritten = False

    def check() -> None:
        if overwritten:
            raise Damaged("activemq-data-1.amq", 0, "used again")

    payload = bytes(range(256)) * 8
    source = ReadAheadSource(LineBatch.of_payloads([payload] * 3000, queue="q"), check)
    source.read(0, 65_536)
    overwritten = True
    with pytest.raises(Damaged):
        read_to_the_end(source)


def test_closing_while_rendering_is_going_on(store: JournalStore, whole: bytes) -> None:
    (queue,) = store.queues()
    for _ in range(50):
        source = queue.open_part(queue.parts()[0])
        assert bytes(source.read(0, 65_536)) == whole[:65_536]
        assert bytes(source.read(65_536, 65_536)) == whole[65_536:131_072]
        source.close()


def test_a_truncated_journal_is_an_error_and_no_crash(tmp_path: Path) -> None:
    made = make_store(tmp_path, StoreSpec(messages=6000, body_chars=1200))
    (queue,) = open_store(made.data, index=False).queues()
    source = queue.open_part(queue.parts()[0])
    source.read(0, 65_536)
    for path in (made.data / "journal").glob("*.amq"):
        with path.open("r+b") as file:
            file.truncate(4096)
    with pytest.raises(JournalfsError):
        read_to_the_end(source)
