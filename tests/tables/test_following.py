"""A store in a database that is only read shows what others do to it; its size does not change the cost."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from sqlalchemy import event, insert

from journalfs.engine.stage import StagedRecord
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.older.rewriting import TableRows
from journalfs.records.tables.database import Database
from journalfs.records.tables.following import (
    CHUNK_IDS,
    LATE_ROWS,
    FollowedJournal,
    KnownRows,
    RewrittenError,
)
from journalfs.records.tables.lease import Lease
from journalfs.records.tables.log import TableLog
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.broker.writing import lines_in, publish
from tests.kinds import DATABASES
from tests.mounting import mounted, mounted_for_writing
from tests.tables.servers import Server
from tests.tables.test_lease import settings_of
from tests.tables.test_writing import BIG, PAGED, make

SHOWN_S_MAX = 60
"""Generous: the machine may be busy."""


def bodies(store: JournalStore, address: str, queue: str) -> list[str] | None:
    found = store.address(address)
    for one in found.queues() if found is not None else ():
        if one.name == queue:
            source = one.open_all()
            text = bytes(source.read(0, source.size_bytes))
            source.close()
            return [json.loads(line).get("body", "?")[:20] for line in text.splitlines()]
    return None


async def until(reader: JournalStore, look: Callable[[], bool]) -> None:
    with trio.fail_after(SHOWN_S_MAX):
        while not look():
            await reader.waking.beyond(reader.waking.count)


async def beside(
    place: str | Path, work: Callable[[WritingStore, JournalStore], Awaitable[None]], first: str = "orders"
) -> None:
    """Have `work` done to a store for writing, and one that follows it."""
    writer = open_for_writing(place)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            await make(writer, first)
            await publish(writer, first, None, "in.txt", b"before\n")
            reader = open_store(place)
            nursery.start_soon(reader.follow)
            await work(writer, reader)
            assert reader.core.damage() == []
            nursery.cancel_scope.cancel()
        reader.close()
    finally:
        writer.close()


@pytest.mark.rule("S-244")
@pytest.mark.parametrize("kind", DATABASES)
def test_what_a_writer_does_shows(empty_database: Callable[[str], str], kind: str) -> None:
    async def work(writer: WritingStore, reader: JournalStore) -> None:
        async def shows(address: str, queue: str, *expected: str) -> None:
            await until(reader, lambda: bodies(reader, address, queue) == list(expected))

        await shows("orders", "orders", "before")
        await publish(writer, "orders", None, "in.txt", b"one\ntwo\nthree\n")
        await shows("orders", "orders", "before", "one", "two", "three")
        await make(writer, "done", "gone")
        await shows("done", "done")
        ids = [line["id"] for line in lines_in(writer, "orders")]
        await writer.acknowledge(("orders", "orders"), ids[:1])
        await writer.move(("orders", "orders"), ids[2:3], ("done", "done"))
        await shows("orders", "orders", "one", "three")
        await shows("done", "done", "two")
        await publish(writer, "done", "done", "big.txt", b"x" * 600_000 + b"\n")
        await shows("done", "done", "two", "x" * 20)
        await writer.acknowledge(("done", "done"), [line["id"] for line in lines_in(writer, "done")])
        await shows("done", "done")
        await writer.delete_queue("gone", "gone")
        await until(reader, lambda: bodies(reader, "gone", "gone") is None)

    trio.run(beside, empty_database(kind), work)


@pytest.mark.rule("S-244")
@pytest.mark.parametrize("kind", DATABASES)
def test_pages_are_followed(empty_database: Callable[[str], str], tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "instance"
    folder.mkdir()
    url = empty_database(kind)
    place = url.replace("root@", "") + "?user=root" if kind == "mysql" else url
    (folder / "broker.xml").write_text(PAGED.format(url=place))

    async def work(writer: WritingStore, reader: JournalStore) -> None:
        for part in range(4):
            text = b"".join(b"%d %s\n" % (part, b"x" * 100) for _ in range(100))
            await publish(writer, "orders", None, "in.txt", text)
            expected = 100 * (part + 1) + 1
            await until(reader, lambda: len(bodies(reader, "orders", "orders") or "") == expected)  # noqa: B023
        ids = [line["id"] for line in lines_in(writer, "orders")]
        await writer.acknowledge(("orders", "orders"), ids[:350])
        await until(reader, lambda: len(bodies(reader, "orders", "orders") or "") == 51)

    trio.run(beside, folder, work)


@pytest.mark.rule("S-244")
@pytest.mark.mount
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_mounts(empty_database: Callable[[str], str], tmp_path: Path, kind: str) -> None:
    url = Path(empty_database(kind))
    with mounted_for_writing(url, tmp_path / "rw") as writer:
        (writer.path / "orders" / "orders").mkdir(parents=True)
        with mounted(url, tmp_path / "ro") as reader, (reader.path / "orders/orders/.follow").open() as lines:
            (writer.path / "orders" / "in.txt").write_text("one\n")
            assert json.loads(lines.readline())["body"] == "one"
            (writer.path / "orders" / "big.bin").write_bytes(BIG)
            message = json.loads(lines.readline())
            assert (reader.path / f"orders/orders/.messages/{message['id']}.bin").read_bytes() == BIG


@pytest.mark.rule("S-244")
def test_a_database_that_was_away_is_followed_again(
    empty_database: Callable[[str], str], postgres: Server
) -> None:
    async def work(writer: WritingStore, reader: JournalStore) -> None:
        postgres.kill()
        with trio.fail_after(SHOWN_S_MAX):
            while all(one["event"] != "follow-failed" for one in reader.core.events):
                await trio.lowlevel.checkpoint()
        assert bodies(reader, "orders", "orders") == ["before"]
        postgres.restart()
        await publish(writer, "orders", None, "in.txt", b"after\n")
        await until(reader, lambda: bodies(reader, "orders", "orders") == ["before", "after"])

    trio.run(beside, empty_database("postgresql"), work)


# ---- what a look costs ----


class _Noted:
    def __init__(self) -> None:
        self.rows: list[int] = []
        self.went: list[int] = []
        self.undone: list[int] = []

    def take(self, rows: TableRows, known: KnownRows) -> None:
        self.rows.extend(rows.ids)
        known.add(rows.ids)

    def gone(self, record_id: int) -> None:
        self.went.append(record_id)

    def rolled_back(self, tx: int) -> None:
        self.undone.append(tx)

    def refused(self, seq: int, reason: str) -> None:
        raise AssertionError(seq, reason)


class Table:
    """A journal's table, its writer, and who follows it."""

    def __init__(self, url: str, records: int) -> None:
        self.database = Database(settings_of(url))
        with self.database.begin("make the tables") as connection:
            self.database.tables.metadata.create_all(connection)
        self.lease = Lease(self.database)
        self.lease.acquire()
        self.log = TableLog(self.database, self.database.tables.messages, self.lease)
        self.log.load()
        self.add(*range(1, records + 1))
        self.noted = _Noted()
        self.journal = FollowedJournal(self.database.tables.messages, self.noted)
        with self.database.reading("read") as connection:
            self.journal.take_new(connection)

    def add(self, *ids: int) -> None:
        self.log.commit(StagedRecord(RecordKind.ADD, one, 0, MessageType.DUPLICATE_ID, b"x") for one in ids)

    def put(self, seq: int, *ids: int) -> None:
        """Rows that are numbered from `seq` on."""
        told = {"recordtype": RecordKind.ADD, "txid": 0, "userrecordtype": MessageType.DUPLICATE_ID}
        rows = [{"id": one, "seq": seq + at, "record": b"x", **told} for at, one in enumerate(ids)]
        with self.database.begin("put rows") as connection:
            connection.execute(insert(self.log.table), rows)

    def delete(self, *ids: int) -> None:
        self.log.commit(StagedRecord(RecordKind.DELETE, one, 0, 0, b"") for one in ids)

    def look(self, *, changed: bool = True) -> bool:
        with self.database.reading("look") as connection:
            return self.journal.look(connection, changed=changed)

    def close(self) -> None:
        self.lease.release()
        self.database.close()


@contextmanager
def table(url: str, records: int) -> Iterator[Table]:
    made = Table(url, records)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.rule("S-244")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_look_costs_what_changed(empty_database: Callable[[str], str], kind: str) -> None:
    """The first, the last and one in the middle go, and one comes: as many statements for few as for many."""
    statements: dict[int, int] = {}
    for records in (4 * CHUNK_IDS, 30 * CHUNK_IDS):
        with table(empty_database(kind), records) as one:
            one.look()
            one.delete(1, records // 2, records)
            one.add(records + 7)
            asked: list[str] = []

            def note(*given: Any, asked: list[str] = asked) -> None:
                asked.append(given[2])

            event.listen(one.database.engine, "before_cursor_execute", note)
            settled = one.look()
            statements[records] = len(asked)
            assert 1 in one.noted.went
            looks = 1
            while not settled:
                settled = one.look(changed=False)
                looks += 1
            assert sorted(one.noted.went) == [1, records // 2, records]
            assert one.noted.rows[-1] == records + 7
            assert looks <= 3
    few, many = statements.values()
    assert many <= few + 16


def test_sequences_that_begin_again_are_noticed(empty_database: Callable[[str], str]) -> None:
    """A broker counts on behind the last row that there is when it starts."""
    with table(empty_database("sqlite"), 10) as one:
        one.delete(9, 10)
        one.look()
        one.log.load()
        one.add(11)
        one.look()
        assert one.noted.went == [9, 10]
        assert one.noted.rows[-1] == 11
        # All that between two looks.
        one.delete(11)
        one.log.load()
        one.add(12)
        one.look()
        assert (one.noted.rows[-1], one.noted.went[-1]) == (12, 11)


@pytest.mark.rule("S-244")
def test_rows_committed_behind_later_ones_are_taken(empty_database: Callable[[str], str]) -> None:
    """Threads of a broker number rows before they come to be written."""
    with table(empty_database("sqlite"), 10) as one:
        for seq, late in ((40, 38), (LATE_ROWS + 50, 51)):
            one.put(seq, seq)
            one.look()
            one.put(late, seq - 1, 3)  # a new one, and what is said later of an old one
            one.look()
            one.look()
            assert one.noted.rows[-3:] == [seq, seq - 1, 3]
        one.delete(1)
        one.put(1, 5000)  # where nobody would look for it
        with pytest.raises(RewrittenError):
            one.look()


@pytest.mark.rule("S-244")
def test_rows_come_where_there_are_none(empty_database: Callable[[str], str]) -> None:
    """A table that is empty yet, and one whose rows have all gone."""
    with table(empty_database("sqlite"), 0) as one:
        for seq in (1, 3 * LATE_ROWS):
            one.put(seq, seq, seq + 1)
            one.look()
            assert one.noted.rows[-2:] == [seq, seq + 1]
            one.delete(seq, seq + 1)
            one.look()
        assert one.noted.went == one.noted.rows
        one.put(2, 9 * LATE_ROWS)
        one.look()
        assert one.noted.rows[-1] == 9 * LATE_ROWS
        # All that between two looks.
        one.delete(9 * LATE_ROWS)
        one.put(1, 10 * LATE_ROWS)
        one.look()
        assert (one.noted.rows[-1], one.noted.went[-1]) == (10 * LATE_ROWS, 9 * LATE_ROWS)


@pytest.mark.rule("S-244")
def test_what_the_sink_does_not_know_is_not_another_row_by_now(empty_database: Callable[[str], str]) -> None:
    """A broker deletes rows by their message: delivery counts that it inserts behind that stay."""

    class Knowing(_Noted):
        def take(self, rows: TableRows, known: KnownRows) -> None:
            self.rows.extend(rows.ids)

    with table(empty_database("sqlite"), 0) as one:
        one.noted = Knowing()
        one.journal = FollowedJournal(one.log.table, one.noted)
        one.put(1, *range(7, LATE_ROWS + 107))
        for seq in (5 * LATE_ROWS, 9 * LATE_ROWS):
            one.put(seq, seq)
            one.look()
            assert one.noted.rows[-1] == seq


def test_transactions_that_went_are_rolled_back(empty_database: Callable[[str], str]) -> None:
    with table(empty_database("sqlite"), 3) as one:
        one.log.commit([StagedRecord(RecordKind.ADD_TX, 20, 19, MessageType.DUPLICATE_ID, b"x")])
        one.look()
        one.log.commit([StagedRecord(RecordKind.ROLLBACK, -1, 19, 0, b"")])
        one.look()
        assert one.noted.undone == [19]
        assert one.noted.went == [20]


@pytest.mark.rule("S-221")
def test_what_a_broker_deletes_in_a_transaction_has_no_type(empty_database: Callable[[str], str]) -> None:
    """As with a large message that a prepared one sent: its COMMIT takes away that the body is pending."""
    with table(empty_database("sqlite"), 3) as one:
        deletes = StagedRecord(RecordKind.DELETE_TX, 2, 77, -1, b"why")
        one.log.commit([deletes, StagedRecord(RecordKind.PREPARE, -1, 77, 0, b"xid")])
        again = TableLog(one.database, one.log.table, one.lease)
        again.load()
        noted = _Noted()
        with one.database.reading("read") as connection:
            FollowedJournal(one.log.table, noted, again.read).take_new(connection)
        assert noted.rows[:4] == [1, 2, 3, 2]
        again.commit([StagedRecord(RecordKind.COMMIT, -1, 77, 0, b"")])
        one.look()
        assert one.noted.went == [2]
