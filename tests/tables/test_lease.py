"""Who may write: two owners of one database, never at once."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import update

from journalfs.config.database import DatabaseSettings, database_named
from journalfs.engine.stage import StagedRecord
from journalfs.errors import StoreBusy
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.tables.database import Database
from journalfs.records.tables.holder import is_dead, new_holder
from journalfs.records.tables.lease import Lease, LeaseLost
from journalfs.records.tables.log import TableLog
from journalfs.store.write.opening import open_for_writing
from tests.kinds import DATABASES


def settings_of(url: str) -> DatabaseSettings:
    found = database_named(url)
    assert found is not None
    return found


def end_lease(database: Database) -> None:
    """As if its holder had been stopped for longer than the lease lasts."""
    with database.begin("end the lease") as connection:
        connection.execute(update(database.tables.nodes).values(holder_expiration_time=1))


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, empty_database: Callable[[str], str]) -> Iterator[Database]:
    made = Database(settings_of(empty_database(request.param)))
    with made.begin("make the tables") as connection:
        made.tables.metadata.create_all(connection)
    yield made
    made.close()


@pytest.mark.rule("S-223")
def test_one_owner_at_a_time(database: Database) -> None:
    first, second = Lease(database), Lease(database)
    first.acquire()
    with pytest.raises(StoreBusy, match=first.holder):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


@pytest.mark.rule("S-223")
def test_a_lease_that_ran_out_is_free_and_its_holder_writes_no_more(database: Database) -> None:
    stale, fresh = Lease(database), Lease(database)
    stale.acquire()
    log = TableLog(database, database.tables.messages, stale)
    log.load()
    record = StagedRecord(RecordKind.ADD, 7, 0, MessageType.DUPLICATE_ID, b"once")
    log.commit([record])
    end_lease(database)
    assert not stale.renew()
    with pytest.raises(LeaseLost):
        log.commit([record._replace(record_id=8)])
    fresh.acquire()
    with pytest.raises(LeaseLost):
        log.commit([record._replace(record_id=9)])
    with database.begin("count") as connection:
        found = connection.execute(database.tables.messages.select()).all()
    assert [row.id for row in found] == [7]
    stale.release()
    fresh.release()


@pytest.mark.rule("S-224")
def test_a_lease_outlives_a_database_that_was_away(database: Database) -> None:
    """Unless somebody took it since."""
    lease, rival = Lease(database), Lease(database)
    lease.acquire()
    lease.was_away = True
    end_lease(database)
    with database.begin("write") as connection:
        lease.guard(connection)
    assert lease.look()
    assert not lease.was_away
    lease.was_away = True
    end_lease(database)
    rival.acquire()
    with pytest.raises(LeaseLost), database.begin("write") as connection:
        lease.guard(connection)
    assert not lease.look()
    rival.release()
    lease.release()


@pytest.mark.parametrize(("allowed_ms", "tells"), [(-1, True), (3_600_000, False)])
def test_clocks_that_differ_are_told(
    empty_database: Callable[[str], str], allowed_ms: int, tells: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """`jdbc-allowed-time-diff`."""
    settings = replace(settings_of(empty_database("sqlite")), allowed_time_diff_ms=allowed_ms)
    database = Database(settings)
    lease = Lease(database)
    lease.acquire()
    lease.release()
    database.close()
    assert ("clock differs" in caplog.text) is tells


@pytest.mark.rule("S-223")
def test_whoever_renews_too_late_is_told(database: Database) -> None:
    reasons: list[str] = []
    lease = Lease(database, lost=reasons.append)
    lease.acquire()
    end_lease(database)
    lease.look()
    assert reasons == ["the lease is another's by now, or ran out"]
    lease.release()


KILLED = """
import signal, sys
from journalfs.records.tables.database import Database
from journalfs.records.tables.lease import Lease
from tests.tables.test_lease import settings_of

Lease(Database(settings_of(sys.argv[1]))).acquire()
print("held", flush=True)
signal.pause()
"""


@pytest.mark.rule("S-248")
def test_the_lease_of_who_was_killed_here_is_free_at_once(database: Database) -> None:
    url = database.engine.url.set(drivername=database.dialect).render_as_string(hide_password=False)
    command = [sys.executable, "-c", KILLED, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lease = Lease(database)
        holder.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreBusy):
            lease.acquire()
        holder.kill()
    lease.acquire()
    lease.release()


@pytest.mark.rule("S-248")
@pytest.mark.parametrize(
    ("changed", "dead"),
    [(None, False), ((r"@\w+", "@0123456789abcdef"), False), ((r":\d+$", ":1"), True), ((r"@.*", ""), False)],
    ids=["itself", "of another machine", "of an earlier process", "a broker"],
)
def test_only_who_is_known_to_be_dead_is(changed: tuple[str, str] | None, dead: bool) -> None:
    holder = new_holder() if changed is None else re.sub(*changed, new_holder())
    assert is_dead(holder) is dead
    assert len(holder) < 128


@pytest.mark.rule("S-223")
@pytest.mark.parametrize("kind", DATABASES)
def test_a_store_has_one_owner(empty_database: Callable[[str], str], kind: str) -> None:
    url = empty_database(kind)
    store = open_for_writing(url)
    try:
        with pytest.raises(StoreBusy):
            open_for_writing(url)
    finally:
        store.close()
    open_for_writing(url).close()
