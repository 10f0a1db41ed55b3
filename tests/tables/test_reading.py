"""A real broker's JDBC store, read from its tables."""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from psycopg import OperationalError
from sqlalchemy import text

from journalfs.config.broker_xml import read_broker_xml
from journalfs.errors import PartMissing, SystemFailure
from journalfs.records.older.rewriting import TableRows
from journalfs.records.tables import bounded
from journalfs.records.tables.database import Database
from journalfs.records.tables.following import FollowedJournal, KnownRows
from journalfs.records.tables.ranges import derive_range, ranges
from journalfs.store import open_store
from journalfs.store.write.store import WritingStore
from tests.broker.writing import lines_in, publish, write_in
from tests.cli.running import journalfs, objects
from tests.frozen import load_expected
from tests.reference.compare import compare_store
from tests.tables.instances import instance_at
from tests.tables.proxy import Loses, Proxy
from tests.tables.servers import Server, sql
from tests.tables.test_lease import settings_of
from tests.tables.test_writing import make
from tests.truth.from_store import account


def test_tables_tell_what_the_broker_told(jdbc_store_anywhere: Path) -> None:
    store = open_store(jdbc_store_anywhere)
    try:
        actual, status = account(store), store.status()
    finally:
        store.close()
    assert compare_store(load_expected("jdbc"), actual) == []
    assert status["damage"] == 0


@pytest.mark.rule("S-246")
def test_ranges_have_what_a_transaction_of_number_0_committed(
    empty_database: Callable[[str], str], tmp_path: Path
) -> None:
    """A broker's first one has this number."""
    url = empty_database("sqlite")

    async def filled(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"one\ntwo\nthree\n")

    write_in(instance_at(tmp_path / "instance", url), filled)
    settings = settings_of(url)
    with closing(Database(settings)) as database, database.begin("number it") as connection:
        connection.execute(text("UPDATE messages SET txid = 0"))
    found = [one for two in ranges(settings, lambda _: 2) for one in bodies_in(derive_range(two, tmp_path))]
    assert found == ["one", "two", "three"] == [line["body"] for line in objects("cat", url)]


def bodies_in(place: Path) -> list[object]:
    return [line["body"] for line in objects("cat", place)]


@pytest.mark.long
def test_rows_without_a_sequence_are_told_and_hide_no_others(
    empty_database: Callable[[str], str], tmp_path: Path
) -> None:
    url = empty_database("postgresql")

    async def filled(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"one\ntwo\nthree\n")

    folder = instance_at(tmp_path, url)
    write_in(folder, filled)
    database = Database(settings_of(url))
    with database.begin("damage it") as connection:
        rows = connection.execute(text("SELECT seq FROM messages WHERE userrecordtype = 45")).scalars().all()
        for seq, instead in zip(sorted(rows)[:2], ("NULL", "-5"), strict=True):
            connection.execute(text(f"UPDATE messages SET seq = {instead} WHERE seq = {seq}"))
    assert [line["body"] for line in objects("cat", folder, "orders")] == ["two", "three"]
    assert "seq is no number" in journalfs("check", folder).stdout
    store = open_store(folder)
    try:
        with database.begin("change it") as connection:
            connection.execute(text("UPDATE node_manager_store SET state = state"))
        store.look_now()
        [queue] = store.queues()
        assert queue.status()["messageCount"] == 2
    finally:
        store.close()
    database.close()


@pytest.mark.rule("S-329")
def test_what_is_not_there_hides_no_others(jdbc_store: Path) -> None:
    """As `pg_dump` leaves it that was told of tables, and as users see it who may read tables only."""
    expected = {line["id"]: line for line in objects("cat", jdbc_store)}
    settings = read_broker_xml(jdbc_store / "broker.xml", instance=jdbc_store).database
    assert settings is not None
    database = Database(settings)
    unlink = "SELECT lo_unlink(data) FROM {} WHERE filename = '{}'"
    with database.begin("damage it") as connection:
        for table, name in (("large_messages", "1351.msg"), ("page_store1527", "000000001.page")):
            connection.execute(text(unlink.format(table, name)))
    found = {line["id"]: line for line in objects("cat", jdbc_store)}
    lost = expected.keys() - found.keys()
    assert 0 < len(lost) < 20
    assert {expected[one]["address"] for one in lost} == {"tx.paged"}
    assert [one for one in found if found[one] != expected[one]] == [1351]

    async def goes_on(store: WritingStore) -> None:
        await publish(store, "jobs", None, "in.txt", b"three\n")

    write_in(jdbc_store, goes_on)
    with database.begin("damage it more") as connection:
        connection.execute(text(unlink.format("page_store", "directory.txt")))
    database.close()
    with pytest.raises(PartMissing):
        write_in(jdbc_store, goes_on)
    checked = journalfs("check", jdbc_store).stdout
    assert all(f"{name}: large object" in checked for name in ("1351.msg", "directory.txt"))


FIRST = "WHERE seq = (SELECT min(seq) FROM messages)"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (f"UPDATE messages SET record = 'text' {FIRST}", "record is no content"),
        (f"UPDATE messages SET record = 9999999999999 {FIRST}", "record is no content"),
        (f"UPDATE messages SET id = 'text' {FIRST}", "id is no number"),
        (f"UPDATE messages SET id = NULL {FIRST}", "id is no number"),
        (f"UPDATE messages SET id = -1e300 {FIRST}", "is too large"),
        (f"UPDATE messages SET txid = 'text', recordtype = 13 {FIRST}", "txid is no number"),
        (f"UPDATE messages SET id = 9223372036854775807 {FIRST}", "id 9223372036854775807 is too large"),
        (f"UPDATE messages SET txid = 9223372036854775807 {FIRST}", "txid 9223372036854775807 is too large"),
        (f"UPDATE messages SET recordtype = NULL {FIRST}", "recordtype is no number"),
        (f"UPDATE messages SET recordtype = 300 {FIRST}", "record type 300 is none of the journal's"),
        (f"UPDATE messages SET userrecordtype = 256 {FIRST}", "userrecordtype 256 is of no record"),
        (f"UPDATE messages SET userrecordtype = NULL {FIRST}", "userrecordtype -1 is of no record"),
        ("INSERT INTO large_messages (filename) VALUES ('../../out.msg')", "cannot be the name of a file"),
    ],
)
def test_rows_that_no_broker_writes_hide_no_others(change: str, reason: str, tmp_path: Path) -> None:
    async def filled(store: WritingStore) -> None:
        await make(store, "orders")
        for word in (b"one", b"two"):
            await publish(store, "orders", None, "in.txt", word + b"\n")

    url = Path(f"sqlite:///{tmp_path}/orders.db")
    write_in(url, filled)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as database, database:
        database.execute(change)
    assert objects("cat", url, "orders")[-1]["body"] == "two"
    checked = journalfs("check", url)
    assert checked.returncode == 5
    assert reason in checked.stdout

    async def goes_on(store: WritingStore) -> None:
        await publish(store, "orders", None, "in.txt", b"three\n")
        assert [line["body"] for line in lines_in(store, "orders")][-2:] == ["two", "three"]

    write_in(url, goes_on)


def test_odd_rows_among_those_that_are_copied_hide_no_others(
    empty_database: Callable[[str], str], tmp_path: Path
) -> None:
    """PostgreSQL copies rows, and also where its columns have other types than a broker gives them, all is
    read.
    """
    url = empty_database("postgresql")
    changes = {
        "userrecordtype = 256": "userrecordtype 256 is of no record",
        "id = NULL": "id is no number",
        "recordtype = 300": "record type 300 is none of the journal's",
        "txid = 9223372036854775807": "txid 9223372036854775807 is too large",
        "record = NULL": "missing",
    }

    async def filled(store: WritingStore) -> None:
        await make(store, "orders")
        lines = b"".join(b"%d\n" % number for number in range(3_000))
        await publish(store, "orders", None, "in.txt", lines)

    folder = instance_at(tmp_path, url)
    write_in(folder, filled)
    database = Database(settings_of(url))

    def change(statement: str) -> None:
        with database.begin("change it") as connection:
            connection.execute(text(statement))

    def bodies() -> list[object]:
        return [line.get("body") for line in objects("cat", folder, "orders")]

    with database.begin("look at it") as connection:
        asked = "SELECT seq FROM messages WHERE userrecordtype = 45 ORDER BY seq"
        seqs = connection.execute(text(asked)).scalars().all()
    for number, one in enumerate(changes):
        change(f"UPDATE messages SET {one} WHERE seq = {seqs[100 * number]}")
    found = bodies()
    assert 2_990 < len(found) < 3_000
    assert found[-1] == "2999"
    checked = journalfs("check", folder).stdout
    assert [one for one in changes.values() if one not in checked] == []
    change("ALTER TABLE messages ALTER id TYPE numeric")
    assert bodies() == found
    database.close()


class Taken:
    """What was taken over from a table."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def take(self, rows: TableRows, known: KnownRows) -> None:
        self.ids += rows.ids

    def gone(self, record_id: int) -> None:
        raise AssertionError(record_id)

    rolled_back = gone

    def refused(self, seq: int, reason: str) -> None:
        raise AssertionError(seq, reason)


@pytest.mark.parametrize(
    ("loses", "silently", "reason"),
    [
        (Loses.THE_ANSWER, True, "no answer from the server in 1 s"),
        (Loses.THE_REST, True, "no answer from the server in 1 s"),
        (Loses.THE_REST, False, "server closed the connection"),
    ],
)
def test_rows_that_stop_coming_are_no_end_of_the_table(
    postgres: Server, loses: Loses, silently: bool, reason: str
) -> None:
    name = f"{loses.value}_{silently}".lower()
    url, taken = postgres.make(name), Taken()
    with closing(Database(settings_of(url))) as database, database.begin("make the tables") as connection:
        database.tables.metadata.create_all(connection)
    columns = "id, recordtype, compactcount, txid, userrecordtype, variablesize, record, txdatasize, seq"
    rows = "SELECT n, 11, 0, 0, 45, 0, convert_to(repeat('x', 400), 'UTF8'), 0, n"
    sql(postgres.port, name, f"INSERT INTO messages ({columns}) {rows} FROM generate_series(1, 9000) n")
    with Proxy(postgres.port) as proxy:
        place = settings_of(re.sub(r":\d+/", f":{proxy.port}/", url))
        with closing(Database(replace(place, network_timeout_ms=1_000))) as database:
            proxy.lose(loses, b"COPY (", silently=silently)
            journal = FollowedJournal(database.tables.messages, taken)
            with pytest.raises(SystemFailure, match=reason), database.reading("read") as connection:
                journal.take_new(connection)
            assert proxy.has_lost()
            assert len(taken.ids) < 9_000
            with database.reading("go on") as connection:
                journal.take_new(connection)
    assert taken.ids == list(range(1, 9_001))


def test_what_keeps_coming_may_take_longer_than_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(bounded, "time", SimpleNamespace(monotonic=lambda: next(now)))

    def waiting() -> Generator[None, bool, None]:
        while True:
            yield

    asking = bounded.bounded_wait(waiting(), 3, lambda: None)
    next(asking)
    for number in range(30):
        asking.send(number % 2 == 0)
    with pytest.raises(OperationalError, match="no answer from the server in 3 s"):
        deque(map(asking.send, [False] * 9), maxlen=0)
