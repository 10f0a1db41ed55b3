"""What was sent in a range of time, read from the files that a broker retained and from the journal."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from journalfs.clock import SystemClock
from journalfs.config.layout import locate_store
from journalfs.errors import WrongCall
from journalfs.store.history import History, HistoryStore, history_of
from journalfs.store.store import JournalStore
from journalfs.times import FOREVER_MS, named_range
from tests.frozen import load_expected

PAYMENTS = ("payments", "payments")


def lines_of(store: JournalStore, address: str, queue: str) -> list[dict[str, Any]]:
    found = store.address(address)
    assert found is not None
    view = found.queue(queue)
    assert view is not None
    source = view.open_all()
    try:
        return [json.loads(line) for line in bytes(source.read(0, source.size_bytes)).splitlines()]
    finally:
        source.close()


def body_and_time(message: dict[str, Any]) -> tuple[object, object]:
    return None if message.get("largeMessage") else message["body"], message["timestamp"]


@pytest.fixture
def root(store_copy: Callable[[str], Path]) -> Path:
    return store_copy("retention") / "data"


@pytest.fixture
def kept(root: Path) -> Iterator[History]:
    found = history_of(locate_store(root), SystemClock())
    yield found
    found.close()


def opened(kept: History, name: str) -> HistoryStore:
    return kept.open_now(named_range(name, SystemClock().now_ms()))


def test_all_is_what_the_broker_replays(kept: History) -> None:
    """Nearly all of it was consumed, and one large body is in the history alone."""
    wanted = load_expected("retention")["retentionReplay"]["messages"]
    store = opened(kept, "all")
    try:
        found = lines_of(store, *PAYMENTS)
        assert Counter(map(body_and_time, found)) == Counter(map(body_and_time, wanted))
        assert len(found) == len(wanted)
        assert [len(one["body_base64"]) for one in found if one.get("largeMessage")] == [200_000] * 2
        assert [one["id"] for one in found] == sorted(one["id"] for one in found), "in order of arrival"
        assert len(lines_of(store, "rates", "rates.desk")) == 240
        assert store.core.damage() == []
    finally:
        store.close()


def test_ranges_part_what_there_is(kept: History) -> None:
    """Whatever is cut, each message is in one of the pieces."""
    store = opened(kept, "all")
    ids = [one["id"] for one in lines_of(store, *PAYMENTS)]
    times = [one["timestamp"] for one in lines_of(store, *PAYMENTS)]
    store.close()
    cuts = [0, *sorted(times)[100::333], FOREVER_MS]
    found: list[int] = []
    for begin, end in itertools.pairwise(cuts):
        piece = kept.open_now(named_range("all", 0)._replace(from_ms=begin, to_ms=end))
        found += [one["id"] for one in lines_of(piece, *PAYMENTS)]
        piece.close()
    assert sorted(found) == sorted(ids)


def test_what_became_of_messages_is_said(kept: History) -> None:
    store = opened(kept, "all")
    address = store.address("payments")
    queue = None if address is None else address.queue("payments")
    assert queue is not None
    live = {one["id"] for one in load_expected("retention")["queues"][3]["messages"]}
    for number in range(0, len(queue), 97):
        message = queue.message(queue.listing().message_id(number))
        assert message is not None
        said = {name.removeprefix("user.journalfs."): value for name, value in message.attributes().items()}
        assert said["published"] == said["timestamp"]
        assert ("acknowledged" in said) == (message.message_id not in live)
        if "acknowledged" in said:
            assert int(said["published"]) <= int(said["acknowledgedBefore"])
    store.close()


@pytest.mark.rule("S-251")
def test_a_range_costs_what_lies_in_it(kept: History, root: Path) -> None:
    """And what was looked up once is not looked up again."""
    everything = opened(kept, "all")
    first = everything.loader.choice.taken[1]
    whole_bytes = everything.loader.bytes_scanned
    everything.close()
    kept.close()
    assert first.copied_ms is not None
    again = history_of(locate_store(root), SystemClock())
    piece = again.open_now(named_range("all", 0)._replace(to_ms=first.copied_ms - 60_000))
    assert list(piece.loader.choice.taken) == []
    assert piece.loader.bytes_scanned == 0 < whole_bytes
    piece.close()
    again.close()


def test_what_is_damaged_hides_nothing_else(root: Path) -> None:
    files = sorted((root / "retention").iterdir())
    with files[3].open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 2000)
    files[5].write_bytes(files[5].read_bytes()[:5])
    kept = history_of(locate_store(root), SystemClock())
    store = opened(kept, "all")
    damaged = {one.file for one in store.core.damage()}
    assert {f"retention/{files[3].name}", f"retention/{files[5].name}"} <= damaged
    assert len(lines_of(store, *PAYMENTS)) > 900
    store.close()
    kept.close()


def test_files_that_wait_to_be_copied_count(root: Path) -> None:
    """A broker renames them until they are, and its own replay does not see them then."""
    store = opened(first := history_of(locate_store(root), SystemClock()), "all")
    before = len(lines_of(store, *PAYMENTS))
    store.close()
    first.close()
    copy = sorted((root / "retention").iterdir())[4]
    file_id = int.from_bytes(copy.read_bytes()[8:16])
    shutil.move(copy, root / "journal" / f"activemq-data-{900 + file_id}.amq.bkp")
    kept = history_of(locate_store(root), SystemClock())
    store = opened(kept, "all")
    assert len(lines_of(store, *PAYMENTS)) == before
    store.close()
    kept.close()


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2026-11-21T09:23:29Z", 1795253009000, 1795253010000),
        ("20261121T092329Z..20261121T092331Z", 1795253009000, 1795253012000),
        ("1795253009000..1795253010000", 1795253009000, 1795253010001),
        ("-2h", 1795245804711, FOREVER_MS),
        ("-2h..now", 1795245804711, 1795253004711),
        ("all", 0, FOREVER_MS),
        ("..2026-11-21T09:23+00:00", 0, 1795253040000),
    ],
)
def test_names_of_ranges(text: str, begin: int, end: int) -> None:
    assert named_range(text, 1795253004711)[:2] == (begin, end)


@pytest.mark.parametrize("text", ["bogus", "", "now..-2h", "2026-13-01", "..bogus", "25:00"])
def test_names_of_none(text: str) -> None:
    with pytest.raises(WrongCall):
        named_range(text, 1795253004711)
