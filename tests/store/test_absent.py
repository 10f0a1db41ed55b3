"""What was taken away from a store: files of the journal, directories, the store itself."""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.live.index_file import index_path
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from tests.damage.cases import changed
from tests.mounting import journalfs
from tests.store.appending import ADD, DELETE, JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import CURSOR_ACK, PAGE_COMPLETE, PAGE_TX, small, write_page

EXIT_DAMAGED = 5

ReadLines = Callable[[JournalStore, str], list[bytes]]
Copy = Callable[[str], Path]


def kinds(store: JournalStore) -> list[tuple[str, str]]:
    return [(damage.file, damage.kind) for damage in store.core.damage()]


def events(store: JournalStore) -> str:
    return " ".join(str(event["event"]) + str(event["message"]) for event in store.core.events)


@pytest.mark.protects("P-3")
@pytest.mark.rule("S-49")
def test_a_file_taken_away_between_two_mounts(store_copy: Copy) -> None:
    data = store_copy("killed") / "data"
    open_store(data).close()
    file = data / "journal/activemq-data-4.amq"
    shutil.move(file, data / "away")
    for _ in range(3):
        store = open_store(data)
        lost = [one for one in store.core.damage() if one.kind == "missing-file"]
        shown = sum(len(queue) for queue in store.queues())
        assert [one.file for one in lost] == ["journal/activemq-data-4.amq"]
        assert shown == 2671
        assert "with 457 messages" in lost[0].reason  # some are in two queues, some are being delivered
        store.close()
    shutil.move(data / "away", file)
    store = open_store(data)
    assert sum(len(queue) for queue in store.queues()) == 3088
    assert kinds(store) == []
    store.close()


@pytest.mark.rule("S-49")
def test_check_lists_what_an_index_knows_to_be_gone(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(1001, QUEUE_A)
    little_store.open().close()
    path = index_path(little_store.root)
    assert path is not None
    index = path.read_bytes()
    assert journalfs("check", little_store.root).returncode == 0
    little_store.journal.path.unlink()
    checked = journalfs("check", little_store.root)
    assert checked.returncode == EXIT_DAMAGED
    assert "journal/activemq-data-1.amq\t0\t0\tmissing-file" in checked.stdout
    assert path.read_bytes() == index


@pytest.mark.rule("S-45")
def test_a_file_used_again_since_is_no_damage(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    second = JournalAppender.create(little_store.root / "journal/activemq-data-21.amq", 21)
    little_store.open().close()
    second.acknowledge(1000, QUEUE_A, tx_id=3000)
    with changed(little_store.journal.path, 8, (30).to_bytes(8)):
        assert kinds(little_store.open()) == []


@pytest.mark.protects("P-3")
@pytest.mark.rule("S-49")
@pytest.mark.parametrize(("from_start", "is_cut"), [(False, False), (False, True), (True, False)])
def test_records_at_the_end_gone_between_two_mounts(
    little_store: LittleStore, from_start: bool, is_cut: bool
) -> None:
    """No writer leaves that where the index has them: transactions without an end stay in doubt."""
    JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    little_store.journal.send(1000, QUEUE_A)
    start = 16 if from_start else little_store.journal.at
    little_store.journal.send(1001, QUEUE_A)
    path, end = little_store.journal.path, little_store.journal.at
    little_store.open().close()
    if is_cut:
        os.truncate(path, start)
    else:
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(end - start))
    writing = open_for_writing(little_store.root, clock=little_store.clock)
    assert writing.core.loses_ends()
    writing.close()
    for _ in range(2):
        store = little_store.open()
        found = [(one.offset, one.length_bytes, one.kind) for one in store.core.damage()]
        assert (start, end - start, "missing-records") in found
        store.close()


@pytest.mark.rule("S-44")
def test_an_earlier_state_put_back_between_two_mounts(little_store: LittleStore) -> None:
    """All its files are written, as `cp` does."""
    JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    little_store.journal.send(1000, QUEUE_A)
    earlier = {path: path.read_bytes() for path in (little_store.root / "journal").iterdir()}
    little_store.journal.send(1001, QUEUE_A)
    little_store.open().close()
    for path, content in earlier.items():
        stamp = path.stat().st_mtime_ns
        path.write_bytes(content)
        os.utime(path, ns=(stamp + 10**9, stamp + 10**9))
    store = little_store.open()
    assert kinds(store) == []
    assert sum(len(queue) for queue in store.queues()) == 1
    store.close()


@pytest.mark.rule("S-49")
async def test_a_file_taken_away_while_it_is_shown(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A)
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(1001, QUEUE_A)
    store = little_store.open()
    little_store.journal.path.unlink()
    await store.look()
    assert len(lines_of(store, "work.a")) == 1
    assert kinds(store) == [("journal/activemq-data-1.amq", "missing-file")]
    store.close()


@pytest.mark.rule("S-45")
@pytest.mark.parametrize("shown", [True, False])
async def test_a_file_set_free_is_not_missing(
    little_store: LittleStore, lines_of: ReadLines, shown: bool
) -> None:
    little_store.journal.send(1000, QUEUE_A)
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(1001, QUEUE_A)
    store = little_store.open()
    if not shown:
        store.close()
    second.acknowledge(1000, QUEUE_A, tx_id=3000)
    little_store.journal.path.unlink()
    if not shown:
        store = little_store.open()
    await store.look()
    assert len(lines_of(store, "work.a")) == 1
    assert "missing-file" not in [kind for _, kind in kinds(store)]
    store.close()


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("name", ["orders-basic", "large-and-paged"])
def test_a_missing_journal_directory(name: str, store_copy: Copy) -> None:
    data = store_copy(name) / "data"
    store = open_store(data)
    messages = sum(len(queue) for queue in store.queues())
    store.close()
    path = index_path(data)
    assert path is not None
    index = path.read_bytes()
    shutil.move(data / "journal", data / "away")
    store = open_store(data)
    assert ("journal", "missing-directory") in kinds(store)
    assert "rewritten" not in events(store)
    store.close()
    assert path.read_bytes() == index
    shutil.move(data / "away", data / "journal")
    store = open_store(data)
    assert sum(len(queue) for queue in store.queues()) == messages
    assert ("journal", "missing-directory") not in kinds(store)
    assert store.status()["journalBytesScanned"] == 0
    store.close()


@pytest.mark.rule("S-49")
def test_a_missing_paging_directory(store_copy: Copy) -> None:
    data = store_copy("large-and-paged") / "data"
    shutil.rmtree(data / "paging")
    store = open_store(data, index=False)
    assert ("paging", "missing-directory") in kinds(store)
    store.close()


@pytest.mark.rule("S-44")
@pytest.mark.parametrize("what", ["", "journal", "bindings"])
async def test_a_store_that_goes_and_comes_back(
    little_store: LittleStore, lines_of: ReadLines, what: str
) -> None:
    little_store.journal.send(1000, QUEUE_A, "first")
    store = little_store.open()
    before = lines_of(store, "work.a")
    place = little_store.root / what
    away = little_store.root.parent / "away"
    os.rename(place, away)
    for _ in range(3):
        await store.look()
        store.look_now()
        assert lines_of(store, "work.a") == before
        assert store.status()["storeGone"] is True
    store.save_index()
    assert what or not place.exists()
    os.rename(away, place)
    little_store.journal.send(1001, QUEUE_A, "second")
    await store.look()
    assert len(lines_of(store, "work.a")) == 2
    assert store.status()["storeGone"] is False
    assert events(store).count("store-gone") == 1
    assert "journal-rewritten" not in events(store)
    store.close()


def test_a_sparse_file_is_not_read_where_nothing_is(little_store: LittleStore, lines_of: ReadLines) -> None:
    little_store.journal.send(1000, QUEUE_A)
    store = little_store.open(index=False)
    assert lines_of(store, "work.a")
    os.truncate(little_store.journal.path, 2**33)
    before = time.process_time()
    store = little_store.open(index=False)
    assert time.process_time() - before < 1
    assert len(lines_of(store, "work.a")) == 1
    assert store.core.loader.bytes_scanned < 2**20
    little_store.journal.send(1001, QUEUE_A)
    store.look_now()
    assert len(lines_of(store, "work.a")) == 2


@pytest.mark.rule("S-49")
def test_a_journal_directory_without_a_file(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    little_store.journal.path.unlink()
    store = little_store.open(index=False)
    assert kinds(store) == [("journal", "missing-file")]
    store.close()


@pytest.mark.protects("P-4")
@pytest.mark.rule("S-49", "S-52")
@pytest.mark.parametrize("tx_id", [-1, 70])
@pytest.mark.parametrize("queues", [(QUEUE_A,), (QUEUE_A, QUEUE_B)])
def test_a_page_taken_away_between_two_mounts(
    little_store: LittleStore, queues: tuple[int, ...], tx_id: int
) -> None:
    """A broker writes that a page is consumed before it deletes it; nothing was written."""
    journal = little_store.journal
    journal.append(journal.record(ADD, record_id=70, user_type=PAGE_TX, body=struct.pack(">qi", tx_id, 2)))
    write_page(little_store, 1, [small(2000, queues=queues), small(2001, queues=queues)])
    in_page_2 = [small(message_id, queues=queues, tx_id=tx_id) for message_id in (3000, 3001)]
    path = write_page(little_store, 2, in_page_2)
    little_store.open().close()
    away = path.rename(path.with_name("away"))
    for _ in range(3):
        store = little_store.open()
        assert kinds(store) == [("paging/some-folder/000000002.page", "missing-file")] * len(queues)
        assert sum(len(queue) for queue in store.queues()) == 2 * len(queues)
        store.close()
    away.rename(path)
    store = little_store.open()
    assert kinds(store) == []
    assert sum(len(queue) for queue in store.queues()) == 4 * len(queues)
    store.close()


@pytest.mark.rule("S-49", "S-52")
def test_a_page_of_two_queues_that_was_consumed_in_part(little_store: LittleStore) -> None:
    """Each of them has consumed something, and one not all."""
    write_page(little_store, 1, [small(2000)])
    both, only_b = (QUEUE_A, QUEUE_B), (QUEUE_B,)
    path = write_page(little_store, 2, [small(3000, queues=both), small(3001, queues=only_b)])
    for record_id, queue in ((80, QUEUE_A), (81, QUEUE_B)):
        body = struct.pack(">qqi", queue, 2, 0)
        journal = little_store.journal
        journal.append(journal.record(ADD, record_id=record_id, user_type=CURSOR_ACK, body=body))
    little_store.open().close()
    path.unlink()
    store = little_store.open()
    assert kinds(store) == [("paging/some-folder/000000002.page", "missing-file")]
    store.close()


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("said", ["complete", "consumed", "unbound", "since"])
def test_a_page_that_was_consumed_is_not_missing(little_store: LittleStore, said: str) -> None:
    """`since`: the acknowledgements came, and went with the page, after the index was written."""
    path = write_page(little_store, 1, [small(2000), small(2001)])
    write_page(little_store, 2, [small(3000)])
    journal = little_store.journal
    if said == "complete":
        body = struct.pack(">qqi", QUEUE_A, 1, 2)
        journal.append(journal.record(ADD, record_id=80, user_type=PAGE_COMPLETE, body=body))
    elif said == "consumed":
        for index in range(2):
            body = struct.pack(">qqi", QUEUE_A, 1, index)
            journal.append(journal.record(ADD, record_id=81 + index, user_type=CURSOR_ACK, body=body))
    little_store.open().close()
    if said == "unbound":
        little_store.rebind("work.a", old_id=QUEUE_A, new_id=77)
    elif said == "since":
        journal.append(journal.record(DELETE, record_id=80))
    path.unlink()
    for _ in range(3):  # the index is written anew, and is not to go on with the page
        store = little_store.open()
        assert kinds(store) == []
        store.close()
