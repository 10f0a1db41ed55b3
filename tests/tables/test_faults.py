"""A database that is away, slow, full, or answers no more: what was said to be durable is there, once."""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from sqlalchemy import Connection, Engine, event, select, text
from sqlalchemy.exc import OperationalError

from journalfs.errors import NameTaken, ReadOnlyStore, StoreAway, SystemFailure, WriteFailed
from journalfs.records.tables.database import Database
from journalfs.records.tables.transaction import OneTransaction
from journalfs.store.write.store import WritingStore
from tests.broker.polling import eventually
from tests.broker.writing import lines_in, publish, write_in
from tests.mounting import EVERY_DISK_IS_QUICK, mounted_for_writing
from tests.store.writing.conftest import small_disk
from tests.tables.instances import instance_at
from tests.tables.proxy import Loses, Proxy
from tests.tables.servers import Server, run, sql
from tests.tables.test_lease import settings_of
from tests.tables.test_writing import make, shown
from tests.writing.conftest import errno_of

__all__ = ["small_disk"]

NETWORK_TIMEOUT_MS = 1_000
HEALED_S_MAX = 60
SLACK_S = 5.0
"""For a machine that does much else."""


async def healed(store: WritingStore) -> None:
    with trio.fail_after(HEALED_S_MAX):
        while store.journals.failure is not None:
            await trio.lowlevel.checkpoint()


async def tried(store: WritingStore, word: str, more_bytes: int = 0) -> StoreAway | SystemFailure | None:
    """Publish it, or be told in time that the database is away."""
    began_s = time.monotonic()
    line = f"{word} {random.Random(word).randbytes(more_bytes).hex()}\n"
    try:
        await publish(store, "orders", None, "in.txt", line.encode())
    except (StoreAway, SystemFailure) as error:
        assert time.monotonic() - began_s < NETWORK_TIMEOUT_MS / 1000 + SLACK_S
        return error
    return None


def bodies(store: WritingStore) -> list[str]:
    return words(lines_in(store, "orders"))


def words(lines: list[dict[str, Any]]) -> list[str]:
    return [line["body"].partition(" ")[0] for line in lines]


def goes_on_after(
    folder: Path,
    during: Callable[[], None],
    after: Callable[[], None],
    *,
    tells: int | None,
    more_bytes: int = 0,
) -> None:
    """Publish before, while something is wrong, and after: each is there once, whatever was told. `tells` is
    the errno that who publishes meanwhile gets. A page or a body that failed has no more been there.
    """

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        await tried(store, "before")
        during()
        failure = await tried(store, "during", more_bytes)
        assert (failure and failure.errno) == tells
        assert bodies(store)[:1] == ["before"], "what is known can be read"
        if isinstance(failure, StoreAway):
            with pytest.raises(StoreAway):
                await publish(store, "orders", None, "in.txt", b"refused at once\n")
        after()
        await healed(store)
        kept = failure is None or isinstance(failure, StoreAway)
        assert bodies(store) == ["before", *["during"] * kept], "whoever looks first sees what counts"
        assert await tried(store, "after", more_bytes) is None
        left.extend(bodies(store))
        assert left == ["before", *["during"] * kept, "after"]

    left: list[str] = []
    write_in(folder, work)
    assert words(shown(folder)["orders"]) == left


LONG = pytest.mark.long
_numbers = itertools.count()
SERVERS = {"postgresql": "postgres", "mysql": "maria"}
"""Each kind's fixture."""


ALWAYS_PAGES = (
    '<address-settings><address-setting match="orders"><max-size-messages>0</max-size-messages>'
    "</address-setting></address-settings>"
)
BODY_BYTES = 100_000
CONTENT = "during".encode("utf-16-le")


LINES = 1_000
PROMPT_S_MAX = 15
"""Less than `jdbc-network-timeout` is."""


def test_a_flush_that_no_socket_takes_at_once_is_sent_on(postgres: Server, tmp_path: Path) -> None:
    url = postgres.make("prompt").replace("127.0.0.1", "") + f"?host={postgres.folder}"

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        for _ in range(2):  # the first has no connection yet
            began_s = time.monotonic()
            await publish(store, "orders", None, "in.txt", (b"x" * 1_000 + b"\n") * LINES)
            assert time.monotonic() - began_s < PROMPT_S_MAX
        assert len(bodies(store)) == 2 * LINES

    write_in(Path(url), work)


@pytest.mark.long
@pytest.mark.rule("S-224")
def test_a_database_that_hangs_is_waited_for_only_once(postgres: Server, tmp_path: Path) -> None:
    timeout_s = 3 * SLACK_S
    folder = instance_at(tmp_path / "broker", postgres.make("hung"), network_timeout=int(timeout_s * 1000))

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"before\n")
        postgres.signal(signal.SIGSTOP)
        try:
            began_s = time.monotonic()
            with pytest.raises(StoreAway):
                await publish(store, "orders", None, "in.txt", b"during\n")
            assert time.monotonic() - began_s < timeout_s + SLACK_S
        finally:
            postgres.signal(signal.SIGCONT)
        await healed(store)
        assert bodies(store) == ["before", "during"]

    write_in(folder, work)


@pytest.mark.rule("S-224", "S-247")
@pytest.mark.parametrize("silently", [False, pytest.param(True, marks=LONG)])
@pytest.mark.parametrize("loses", [Loses.THE_ANSWER, pytest.param(Loses.THE_QUESTION, marks=LONG)])
@pytest.mark.parametrize(
    ("what", "kind", "near"),
    [
        ("line", "postgresql", CONTENT),  # what PostgreSQL is given is one statement
        pytest.param("line", "mysql", b"COMMIT", marks=LONG),
        ("page", "postgresql", b"COMMIT"),
        pytest.param("page", "postgresql", CONTENT, marks=LONG),
        pytest.param("page", "mysql", b"COMMIT", marks=LONG),
        pytest.param("page", "mysql", b"UPDATE page_store", marks=LONG),
        ("body", "postgresql", b"COMMIT"),
        pytest.param("body", "postgresql", CONTENT, marks=LONG),
        pytest.param("body", "mysql", b"COMMIT", marks=LONG),
        pytest.param("body", "mysql", b"INSERT INTO large_messages", marks=LONG),
    ],
)
def test_what_a_commit_did_is_found_out(  # noqa: PLR0917 - each a parameter of its own
    request: pytest.FixtureRequest,
    tmp_path: Path,
    what: str,
    kind: str,
    near: bytes,
    loses: Loses,
    silently: bool,
) -> None:
    server: Server = request.getfixturevalue(SERVERS[kind])
    url = server.make(f"lost{next(_numbers)}")
    # Where both sides hear of it, who asks again waits for what the server has yet to undo.
    waits_ms = NETWORK_TIMEOUT_MS * (1 if silently else 15)
    with Proxy(server.port) as proxy:
        place = re.sub(r":\d+/", f":{proxy.port}/", url)
        folder = instance_at(tmp_path, place, network_timeout=waits_ms)
        if what == "page":
            config = folder / "broker.xml"
            config.write_text(config.read_text().replace("</core>", f"{ALWAYS_PAGES}</core>"))
        goes_on_after(
            folder,
            lambda: proxy.lose(loses, near, silently=silently),
            lambda: None,
            tells=errno.EIO if silently else None,
            more_bytes=BODY_BYTES if what == "body" else 0,
        )
        assert proxy.has_lost()


OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"


class Fault:
    """What goes wrong with the database at `url`, and ends."""

    def __init__(self, server: Server | None, url: str) -> None:
        self.server, self.url = server, url
        self.name = url.rpartition("/")[2]
        self._rival: Connection | None = None

    @property
    def running(self) -> Server:
        assert self.server is not None
        return self.server

    def in_postgres(self, *statements: str) -> None:
        for one in statements:
            sql(self.running.port, "postgres", one.format(name=self.name))

    # ---- each as a pair ----

    def stop(self) -> None:
        self.running.signal(signal.SIGSTOP)

    def stop_ends(self) -> None:
        self.running.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.running.kill()

    def kill_ends(self) -> None:
        self.running.restart()

    def drop(self) -> None:
        self.in_postgres(OTHERS)

    def refuse(self) -> None:
        self.in_postgres("ALTER DATABASE {name} ALLOW_CONNECTIONS false", OTHERS)

    def refuse_ends(self) -> None:
        self.in_postgres("ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def stand_by(self) -> None:
        self.in_postgres("ALTER DATABASE {name} SET default_transaction_read_only = on", OTHERS)

    def stand_by_ends(self) -> None:
        self.in_postgres("ALTER DATABASE {name} RESET default_transaction_read_only", OTHERS)

    def lock(self) -> None:
        database = Database(settings_of(self.url))
        self._rival = database.engine.connect()
        self._rival.execute(text("UPDATE node_manager_store SET state = state"))

    def lock_table(self) -> None:
        """Of the journal, and not of the lease."""
        database = Database(settings_of(self.url))
        self._rival = database.engine.connect()
        of_mysql = database.dialect == "mysql"
        self._rival.execute(text("LOCK TABLES messages WRITE" if of_mysql else "LOCK TABLE messages"))

    def lock_table_ends(self) -> None:
        if self.url.startswith("mysql"):
            assert self._rival is not None
            self._rival.execute(text("UNLOCK TABLES"))
        self.lock_ends()

    def refuse_login(self) -> None:
        self.in_postgres("ALTER ROLE mortal NOLOGIN", OTHERS)

    def refuse_login_ends(self) -> None:
        self.in_postgres("ALTER ROLE mortal LOGIN")

    def lock_ends(self) -> None:
        assert self._rival is not None
        self._rival.rollback()
        self._rival.close()


@pytest.mark.rule("S-224", "S-247")
@pytest.mark.parametrize(
    ("fault", "kind", "tells"),
    [
        ("stop", "postgresql", True),
        pytest.param("stop", "mysql", True, marks=LONG),
        pytest.param("kill", "postgresql", True, marks=LONG),
        pytest.param("kill", "mysql", True, marks=LONG),
        pytest.param("drop", "postgresql", False, marks=LONG),
        pytest.param("refuse", "postgresql", True, marks=LONG),
        pytest.param("stand_by", "postgresql", True, marks=LONG),
        pytest.param("refuse_login", "postgresql", True, marks=LONG),
        *(pytest.param("lock_table", kind, True, marks=LONG) for kind in ("postgresql", "mysql")),
        *(pytest.param("lock", kind, True, marks=LONG) for kind in ("sqlite", "postgresql", "mysql")),
    ],
)
def test_a_store_goes_on_when_its_database_is_back(
    request: pytest.FixtureRequest, tmp_path: Path, fault: str, kind: str, tells: bool
) -> None:
    server: Server | None = None
    url = f"sqlite:///{tmp_path}/store.db"
    if kind in SERVERS:
        server = request.getfixturevalue(SERVERS[kind])
        url = server.make(f"wrong_{fault}")
    wrong = Fault(server, url)
    if fault == "refuse_login":
        wrong.in_postgres("CREATE ROLE mortal LOGIN", "ALTER DATABASE {name} OWNER TO mortal")
        url = url.replace("artemis@", "mortal@")
    folder = instance_at(tmp_path, url, network_timeout=NETWORK_TIMEOUT_MS)
    begin, end = getattr(wrong, fault), getattr(wrong, f"{fault}_ends", lambda: None)
    goes_on_after(folder, begin, end, tells=errno.EIO if tells else None)


@pytest.mark.parametrize("connections", [1, 2, 3])
def test_few_connections_are_enough(postgres: Server, tmp_path: Path, connections: int) -> None:
    folder = instance_at(tmp_path, postgres.make(f"few{connections}"), network_timeout=NETWORK_TIMEOUT_MS)
    config, most = folder / "broker.xml", f'key="maxTotal" value="{connections}"'
    properties = f"<data-source-properties><data-source-property {most}/></data-source-properties>"
    config.write_text(config.read_text().replace("</database-store>", f"{properties}</database-store>"))
    goes_on_after(folder, lambda: None, lambda: None, tells=None)


def ended(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.rule("S-247")
def test_what_was_only_late_is_not_done_twice(postgres: Server, tmp_path: Path) -> None:
    """The one process of the server is held up that was asked: others answer meanwhile."""
    database = Database(settings_of(postgres.make("late")))
    asked = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'PREPARE flush%%messages%%'"
    held: list[int] = []

    def hold() -> None:
        with database.begin("look for who is asked") as connection:
            held.extend(connection.exec_driver_sql(asked).scalars())
        for pid in held:
            os.kill(pid, signal.SIGSTOP)

    def let_go() -> None:
        for pid in held:
            os.kill(pid, signal.SIGCONT)

    folder = instance_at(tmp_path, database.settings.url, network_timeout=NETWORK_TIMEOUT_MS)
    goes_on_after(folder, hold, let_go, tells=errno.EIO)
    assert held
    eventually(lambda: ended(held), deadline_s=HEALED_S_MAX, what="nobody is asked any more")
    assert words(shown(folder)["orders"]) == ["before", "during", "after"]
    with database.begin("count rows") as connection:
        c = database.tables.messages.c
        rows = connection.execute(select(c.record).where(c.userrecordtype > 0)).scalars().all()
    assert len([row for row in rows if CONTENT in bytes(row)]) == 1


@pytest.mark.rule("S-247")
@LONG
def test_a_commit_that_is_still_on_its_way_is_not_done_twice(maria: Server, tmp_path: Path) -> None:
    """Who asks again waits for the lease's row, which the first one has until it is committed."""
    url = maria.make(f"lost{next(_numbers)}")
    with Proxy(maria.port) as proxy:
        folder = instance_at(tmp_path, re.sub(r":\d+/", f":{proxy.port}/", url), network_timeout=15_000)
        proxy.until = b"FOR UPDATE"
        goes_on_after(
            folder, lambda: proxy.lose(Loses.THE_WAY, b"COMMIT", silently=False), lambda: None, tells=None
        )
        assert proxy.has_lost()
    database = Database(settings_of(url))
    with database.begin("count rows") as connection:
        seqs = connection.execute(select(database.tables.messages.c.seq)).scalars().all()
    database.close()
    assert len(seqs) == len(set(seqs))


@pytest.mark.rule("S-224", "S-247")
def test_what_is_made_while_the_database_is_away_is_made_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    wrong = Fault(None, url)

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        wrong.lock()
        with pytest.raises(StoreAway):
            await store.create_address("made")
        wrong.lock_ends()
        await healed(store)
        with pytest.raises(NameTaken):
            await store.create_address("made")

    write_in(instance_at(tmp_path, url, network_timeout=NETWORK_TIMEOUT_MS), work)
    database = Database(settings_of(url))
    with database.begin("read the bindings") as connection:
        rows = connection.execute(select(database.tables.bindings.c.record)).scalars().all()
    assert len([row for row in rows if "made".encode("utf-16-le") in bytes(row)]) == 1


@pytest.mark.rule("S-247")
@LONG
def test_a_server_that_restarts_before_a_commit_gets_it_again(maria: Server, tmp_path: Path) -> None:
    url = maria.make("restarted")
    with Proxy(maria.port) as proxy:
        folder = instance_at(
            tmp_path, re.sub(r":\d+/", f":{proxy.port}/", url), network_timeout=NETWORK_TIMEOUT_MS
        )

        def restart() -> None:
            assert proxy.has_lost()
            maria.kill()
            maria.restart()

        lost = partial(proxy.lose, Loses.THE_QUESTION, b"COMMIT", silently=True)
        goes_on_after(folder, lost, restart, tells=errno.EIO)


@pytest.mark.rule("S-224")
@LONG
@pytest.mark.parametrize(("delay_s", "tells"), [(0.2, None), (3.0, errno.EIO)])
def test_a_slow_database_is_waited_for(
    postgres: Server, tmp_path: Path, delay_s: float, tells: int | None
) -> None:
    url = postgres.make(f"slow{delay_s:.0f}")
    with Proxy(postgres.port) as proxy:
        folder = instance_at(
            tmp_path, re.sub(r":\d+/", f":{proxy.port}/", url), network_timeout=NETWORK_TIMEOUT_MS
        )
        slower, fast = (partial(setattr, proxy, "delay_s", seconds) for seconds in (delay_s, 0.0))
        goes_on_after(folder, slower, fast, tells=tells)


def told(database: Database, *statements: str) -> None:
    with database.begin("do what an administrator should not") as connection:
        for one in statements:
            connection.execute(text(one))


def lost_last(database: Database) -> None:
    """As where a server stands in for another one that had not passed on what it committed last."""
    told(database, "DELETE FROM messages WHERE seq > 2")
    if database.dialect == "postgresql":
        told(database, OTHERS.format(name=database.engine.url.database) + " AND pid <> pg_backend_pid()")
        return
    others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    with database.begin("look for connections") as connection:
        found = connection.execute(text(others)).scalars().all()
    told(database, *(f"KILL {number}" for number in found))


@pytest.mark.rule("S-247")
@pytest.mark.parametrize(
    ("kind", "does", "says"),
    [
        ("sqlite", "DROP TABLE messages", "no such table"),
        ("postgresql", lost_last, "lacks what was committed"),
        pytest.param("mysql", lost_last, "lacks what was committed", marks=LONG),
        *(
            pytest.param(kind, statement, says, marks=LONG)
            for kind, statement, says in (
                ("postgresql", "DROP TABLE messages", "does not exist"),
                ("mysql", "DROP TABLE messages", "doesn't exist"),
                ("sqlite", "ALTER TABLE messages DROP COLUMN record", "no column"),
                ("postgresql", "ALTER TABLE messages DROP COLUMN record", "does not exist"),
                ("mysql", "ALTER TABLE messages DROP COLUMN record", "Unknown column"),
                ("postgresql", "DELETE FROM node_manager_store", "the lease ran out"),
                ("sqlite", "UPDATE node_manager_store SET holder_id = 'rival'", "the lease ran out"),
            )
        ),
    ],
)
def test_tables_that_are_not_what_they_were_are_not_written_to(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
    does: str | Callable[[Database], None],
    says: str,
) -> None:
    """At once, with the reason, and what is known can be read."""
    url = request.getfixturevalue("empty_database")(kind)
    caplog: pytest.LogCaptureFixture = request.getfixturevalue("caplog")
    database = Database(settings_of(url))

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"before\n")
        await publish(store, "orders", None, "in.txt", b"last\n")
        await trio.to_thread.run_sync(
            partial(told, database, does) if isinstance(does, str) else partial(does, database)
        )
        with pytest.raises(WriteFailed, match=says) as failure:
            await publish(store, "orders", None, "in.txt", b"during\n")
        assert (failure.value.errno, type(failure.value)) == (errno.EIO, WriteFailed)
        with pytest.raises(ReadOnlyStore, match=f"{re.escape(store.core.shown)}.*{says}"):
            await publish(store, "orders", None, "in.txt", b"after\n")
        assert bodies(store) == ["before", "last"]

    write_in(instance_at(tmp_path, url, network_timeout=NETWORK_TIMEOUT_MS), work)
    database.close()
    assert "Traceback" not in caplog.text


class Breaks:
    """A cursor of which one COMMIT breaks off as no database does, before it is done or after it."""

    is_due = False

    def __init__(self, cursor: sqlite3.Cursor, *, is_done: bool) -> None:
        self._cursor, self._is_done = cursor, is_done
        self.fetchone, self.executemany, self.close = cursor.fetchone, cursor.executemany, cursor.close

    def execute(self, statement: str, *values: Any) -> None:
        breaks = self.is_due and statement == "COMMIT"
        if not breaks or self._is_done:
            self._cursor.execute(statement, *values)
        if breaks:
            raise MemoryError


@pytest.mark.rule("S-247")
@pytest.mark.parametrize("is_lent", [False, True])
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nothing_is_taken_behind_a_flush_that_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool, is_lent: bool
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    for limit in EVERY_DISK_IS_QUICK:
        monkeypatch.setattr(f"journalfs.engine.committer.{limit}", 1 << 62)
    own = OneTransaction.connect

    def connect(transaction: OneTransaction, judge: Callable[[Connection], None]) -> None:
        own(transaction, judge)
        transaction._cursor = Breaks(transaction._cursor, is_done=is_done)

    monkeypatch.setattr(OneTransaction, "connect", connect)
    monkeypatch.setattr(Breaks, "is_due", False)

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        for _ in range(2):  # for the connection
            await publish(store, "orders", None, "in.txt", b"before\n")
        messages, way = store.journals.messages, store.lending.way("orders", None)
        messages.committer.counts.flush_ns, Breaks.is_due = 1, True
        if is_lent:
            assert store.lending.lend([way])
            assert not store.lending.defers
            assert not store.lending.tail.stage_lines(way.tail, b"during\n")
            assert store.lending.tail.flush() == errno.EIO
            assert store.lending.take_back([way])
        else:
            with pytest.raises(MemoryError):
                await publish(store, "orders", None, "in.txt", b"during\n")
        with pytest.raises(ReadOnlyStore):
            await publish(store, "orders", None, "in.txt", b"after\n")
        with closing(sqlite3.connect(f"{tmp_path}/store.db", timeout=0)) as rival:
            rival.execute("BEGIN IMMEDIATE")

    with suppress(WriteFailed):
        write_in(instance_at(tmp_path, url, network_timeout=NETWORK_TIMEOUT_MS), work)
    assert words(shown(tmp_path)["orders"]) == ["before"] * 2 + ["during"] * is_done


@pytest.mark.rule("S-247")
def test_a_file_that_was_replaced_is_not_written_to(tmp_path: Path) -> None:
    place, other = tmp_path / "store.db", tmp_path / "other.db"

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"before\n")
        place.rename(other)
        with pytest.raises(WriteFailed, match="this file was removed"):
            await publish(store, "orders", None, "in.txt", b"during\n")
        assert bodies(store) == ["before"]
        other.rename(place)

    write_in(instance_at(tmp_path, f"sqlite:///{place}"), work)
    assert words(shown(tmp_path)["orders"]) == ["before"]


def test_a_file_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """A connection that is opened while it is away leaves nothing in its place."""
    place, other = tmp_path / "store.db", tmp_path / "other.db"
    database = Database(settings_of(f"sqlite:///{place}"))
    with database.begin("make a table") as connection:
        connection.exec_driver_sql("CREATE TABLE here (id INTEGER)")
    place.rename(other)
    database.engine.dispose()
    with pytest.raises(SystemFailure, match="this file was removed"), database.begin("look at it"):
        pass
    assert not place.exists()
    other.rename(place)
    with database.begin("look at it") as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM here").scalar() == 0
    database.close()


@pytest.mark.rule("S-247")
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=LONG)])
def test_a_database_that_is_full_goes_on_when_there_is_room(
    request: pytest.FixtureRequest, tmp_path: Path, small_disk: Path, kind: str
) -> None:
    url = f"sqlite:///{small_disk}/store.db"
    if kind == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        place = server.folder / "small"  # where it is let in
        place.mkdir()
        run(["mount", "--bind", str(small_disk), str(place)])
        request.addfinalizer(lambda: run(["umount", "--lazy", str(place)]))
        os.chown(place, *server.owner())
        sql(server.port, "postgres", f"CREATE TABLESPACE small LOCATION '{place}'")
        url = server.make("crammed")
        sql(server.port, "postgres", "ALTER DATABASE crammed SET default_tablespace = small")
    filler = small_disk / "filler"

    def fill() -> None:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    folder = instance_at(tmp_path, url, network_timeout=NETWORK_TIMEOUT_MS)
    goes_on_after(folder, fill, filler.unlink, tells=errno.ENOSPC, more_bytes=20_000)


@pytest.mark.rule("S-247")
def test_a_file_that_may_have_no_more_pages_goes_on_when_it_may(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """SQLite's own bound, which each connection has for itself."""
    drivers: list[Any] = []
    pages = 1 << 30

    def connected(driver: Any, _: object) -> None:
        drivers.append(driver)
        bound(pages)

    def bound(most: int) -> None:
        nonlocal pages
        pages = most
        for one in drivers:
            with suppress(sqlite3.ProgrammingError):  # one that was closed
                one.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(Engine, "connect", connected)
    request.addfinalizer(lambda: event.remove(Engine, "connect", connected))
    folder = instance_at(tmp_path, f"sqlite:///{tmp_path}/store.db", network_timeout=NETWORK_TIMEOUT_MS)
    goes_on_after(folder, lambda: bound(1), lambda: bound(1 << 30), tells=errno.ENOSPC, more_bytes=20_000)


@pytest.mark.rule("S-247")
@LONG
def test_a_deadlock_is_nobodys_end(empty_database: Callable[[str], str], tmp_path: Path) -> None:
    """A rival has the row that a flush deletes, and wants the lease's, which the flush has."""
    url = empty_database("postgresql")
    database = Database(settings_of(url))

    async def work(store: WritingStore) -> None:
        await make(store, "orders")
        await publish(store, "orders", None, "in.txt", b"goes\nstays\n")
        going = lines_in(store, "orders")[0]["id"]
        with database.engine.connect() as rival:
            rival.execute(text(f"UPDATE messages SET compactcount = 0 WHERE id = {going}"))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.acknowledge, ("orders", "orders"), [going])
                await trio.to_thread.run_sync(is_waited_for, database)
                # One of the two is told so by the server: the other goes on.
                with suppress(OperationalError):
                    await trio.to_thread.run_sync(
                        rival.execute, text("UPDATE node_manager_store SET state = state")
                    )
                rival.rollback()
        assert bodies(store) == ["stays\n".strip()]

    write_in(instance_at(tmp_path, url), work)
    database.close()
    assert words(shown(url)["orders"]) == ["stays"]


def is_taken(target: Path, text: str) -> bool:
    with suppress(OSError):
        return target.write_text(text) > 0
    return False


def is_waited_for(database: Database) -> None:
    asked = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with database.begin("look at locks") as connection:
        while not connection.execute(asked).scalar():
            pass


@pytest.mark.rule("S-247")
@pytest.mark.mount
@LONG
def test_a_mount_goes_on_when_its_database_is_back(postgres: Server, tmp_path: Path) -> None:
    folder = tmp_path / "instance"
    folder.mkdir()
    instance_at(folder, postgres.make("mounted"), network_timeout=NETWORK_TIMEOUT_MS)
    with mounted_for_writing(folder, tmp_path / "mnt") as mount:
        queue = mount.path / "orders" / "orders"
        queue.mkdir(parents=True)
        target = mount.path / "orders" / "in.txt"
        target.write_text("before\n")
        postgres.signal(signal.SIGSTOP)
        began_s = time.monotonic()
        assert errno_of(target.write_text, "during\n") == errno.EIO
        assert errno_of(target.write_text, "refused\n") == errno.EIO
        assert errno_of((mount.path / "more").mkdir) == errno.EIO
        assert [line["body"] for line in mount.queue("orders").lines()] == ["before"]
        assert time.monotonic() - began_s < 2 * NETWORK_TIMEOUT_MS / 1000 + SLACK_S
        postgres.signal(signal.SIGCONT)
        eventually(lambda: is_taken(target, "after\n"), deadline_s=HEALED_S_MAX, what="it takes")
        assert words(mount.queue("orders").lines()) == ["before", "during", "after"]
        found = eventually(
            lambda: {one["event"] for one in mount.events()} & {"store-back"},
            deadline_s=HEALED_S_MAX,
            what="it is said",
        )
        assert found
        assert "store-away" in {one["event"] for one in mount.events()}
