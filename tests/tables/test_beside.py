"""Nobody writes to tables beside a broker that takes no lease: its sessions, and rows of others."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, insert, make_url

from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.database import database_named
from journalfs.records.tables.database import Database
from tests.broker.client import CoreClient
from tests.broker.conftest import artemis_home
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.mounting import journalfs, mounted, mounted_for_writing
from tests.tables.servers import Server
from tests.tables.test_broker import over_tables

__all__ = ["artemis_home"]

BROKER = "PostgreSQL JDBC Driver"


@contextmanager
def session(url: str, program: str) -> Iterator[None]:
    """One that is connected and idle, as a pool of connections has."""
    found = make_url(url)
    host = str(found.query.get("host", found.host))
    if found.drivername.startswith("postgresql"):
        with psycopg.connect(
            host=host, port=found.port, user=found.username, dbname=found.database, application_name=program
        ):
            yield
        return
    engine = create_engine(found.set(drivername="mysql+pymysql"))
    with engine.connect():
        yield
    engine.dispose()


def created(empty_database: Callable[[str], str], kind: str) -> str:
    url = empty_database(kind)
    assert journalfs("create", url).returncode == 0
    return url


KINDS = ["postgresql", pytest.param("mysql", marks=pytest.mark.long)]


@pytest.mark.rule("S-331")
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_while_a_broker_is_connected(
    empty_database: Callable[[str], str], kind: str, tmp_path: Path
) -> None:
    url = created(empty_database, kind)
    file = tmp_path / "one.txt"
    file.write_text("x\n")
    (tmp_path / "mnt").mkdir()
    calls: list[list[str | Path]] = [
        ["put", url, "DLQ::DLQ", file],
        ["take", url, "DLQ::DLQ"],
        ["mount", url, tmp_path / "mnt"],
        ["dlq", "redrive", url],
    ]
    with session(url, BROKER):
        for call in calls:
            done = journalfs(*call)
            assert done.returncode == 7, (call, done.stderr)
            assert "connected to this database" in done.stderr
            assert "--force" in done.stderr
            assert "--read-only" in done.stderr
        assert journalfs("ls", url).returncode == 0
        with mounted(Path(url), tmp_path / "mnt") as store:
            assert store.control("status.json")["liveBroker"] is True
        assert journalfs("put", "--force", url, "DLQ::DLQ", file).returncode == 0
        taken = journalfs("take", "--force", url, "DLQ::DLQ")
        assert (taken.returncode, taken.stdout.count("\n")) == (0, 1)
    assert journalfs("put", url, "DLQ::DLQ", file).returncode == 0


@pytest.mark.long
@pytest.mark.rule("S-331")
def test_force_of_a_conversion_and_of_a_mount(empty_database: Callable[[str], str], tmp_path: Path) -> None:
    """Whoever knows that no broker is among the sessions says so, by the command or in fstab."""
    url, files, mnt = empty_database("postgresql"), tmp_path / "files", tmp_path / "mnt"
    assert journalfs("create", files).returncode == 0
    with session(url, BROKER):
        refused = journalfs("convert", files, url)
        assert (refused.returncode, "--force" in refused.stderr) == (7, True), refused.stderr
        done = journalfs("convert", "--force", files, url)
        assert done.returncode == 0, done.stderr
        assert journalfs("ls", url).stdout
        mnt.mkdir()
        refused = journalfs("mount", url, mnt)
        assert (refused.returncode, "-o force" in refused.stderr) == (7, True), refused.stderr
        with mounted_for_writing(Path(url), mnt, "-o", "force") as store:
            (store.path / "DLQ/DLQ/one.txt").write_text("one\n")


@pytest.mark.long
@pytest.mark.rule("S-331")
def test_others_that_are_no_broker(empty_database: Callable[[str], str]) -> None:
    url = created(empty_database, "postgresql")
    with ExitStack() as sessions:
        for program in ("psql", "pg_dump", "DBeaver 24.1 - Main", "journalfs", ""):
            sessions.enter_context(session(url, program))
        assert journalfs("take", url, "DLQ::DLQ").returncode == 0


@pytest.mark.long
@pytest.mark.rule("S-331")
@pytest.mark.parametrize("kind", KINDS)
def test_readers_of_ours_are_no_broker(
    empty_database: Callable[[str], str], kind: str, tmp_path: Path
) -> None:
    url = created(empty_database, kind)
    (tmp_path / "mnt").mkdir()
    with mounted(Path(url), tmp_path / "mnt") as store:
        assert journalfs("take", url, "DLQ::DLQ").returncode == 0
        assert store.control("status.json")["liveBroker"] is False


@pytest.mark.long
@pytest.mark.rule("S-331")
def test_a_user_without_rights_sees_a_broker(postgres: Server) -> None:
    """Of sessions of others anybody sees who they are, and what their program is called."""
    url = postgres.make("weak")
    assert journalfs("create", url).returncode == 0
    weak = make_url(url).set(username="weak")
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS weak")
        connection.execute("CREATE ROLE weak LOGIN")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO weak")
        connection.execute("GRANT ALL ON SCHEMA public TO weak")
    with session(url, BROKER):
        done = journalfs("take", weak.render_as_string(), "DLQ::DLQ")
    assert done.returncode == 7, done.stderr
    assert BROKER in done.stderr


@pytest.mark.long
@pytest.mark.rule("S-331")
def test_brokers_that_take_the_lease_may_be_connected(
    empty_database: Callable[[str], str], tmp_path: Path
) -> None:
    """A configuration with an `ha-policy` says so."""
    url = created(empty_database, "postgresql")
    place = url.replace("artemis@", "")
    text = (
        "<configuration><core><store><database-store><jdbc-connection-url>"
        f"jdbc:{place}?user=artemis</jdbc-connection-url></database-store></store>"
        "<ha-policy><shared-store><primary/></shared-store></ha-policy></core></configuration>"
    )
    (tmp_path / "broker.xml").write_text(text)
    with session(url, BROKER):
        assert journalfs("take", tmp_path, "DLQ::DLQ").returncode == 0
        (tmp_path / "broker.xml").write_text(text.replace("shared-store", "replication"))
        assert journalfs("take", tmp_path, "DLQ::DLQ").returncode == 7


@pytest.mark.rule("S-332")
@pytest.mark.parametrize(
    "kind", ["sqlite", *(pytest.param(one, marks=pytest.mark.long) for one in ("postgresql", "mysql"))]
)
@pytest.mark.parametrize("table", ["messages", pytest.param("bindings", marks=pytest.mark.long)])
def test_a_writer_that_meets_rows_of_others_stops(
    empty_database: Callable[[str], str], kind: str, table: str, tmp_path: Path
) -> None:
    url = created(empty_database, kind)
    (tmp_path / "mnt").mkdir()
    settings = database_named(url)
    assert settings is not None
    with mounted_for_writing(Path(url), tmp_path / "mnt") as store:
        (store.path / "DLQ/DLQ/one.txt").write_text("one\n")
        database = Database(settings)
        found = getattr(database.tables, table)
        zeros = dict.fromkeys(("compactcount", "txid", "variablesize", "txdatasize", "txchecknorecords"), 0)
        row = {**zeros, "recordtype": 11, "userrecordtype": 37, "record": b"", "txdata": b""}
        with database.begin("write as a broker does") as connection:
            connection.execute(insert(found).values(id=2**40, seq=2**30, **row))
        database.close()
        refused = eventually(lambda: _refused(store.path / "DLQ/DLQ/two.txt"), deadline_s=20, what="refused")
        assert refused is not None
        assert refused.errno in (errno.EIO, errno.EROFS)
        reasons = [event["message"] for event in store.events()]
        assert any(f"{table} has rows that this process did not write" in one for one in reasons), reasons


def _refused(path: Path) -> OSError | None:
    try:
        path.write_text("two\n")
    except OSError as error:
        return error
    return None


@pytest.fixture
def broker(artemis_home: Path, jdbc_config: str, tmp_path: Path) -> Iterator[Broker]:
    found = over_tables(tmp_path / "broker", jdbc_config)
    yield found
    found.kill()


@pytest.mark.long
@pytest.mark.broker
@pytest.mark.mount
@pytest.mark.rule("S-331", "S-332")
def test_a_real_broker(broker: Broker, tmp_path: Path) -> None:
    """One that starts beside a mount, and a mount that starts beside one."""
    mnt = tmp_path / "mnt"
    mnt.mkdir()
    config = read_broker_xml(broker.root / "etc/broker.xml", instance=broker.root)
    assert config.database is not None
    url = config.database.shown
    with mounted_for_writing(Path(url), mnt) as store:
        (store.path / "fresh/fresh").mkdir(parents=True)
        (store.path / "fresh/fresh/one.txt").write_text("one\n")
        broker.start()
        assert eventually(lambda: store.control("status.json")["liveBroker"], deadline_s=15, what="seen")
        with CoreClient(broker.port) as client:
            client.send("fresh", count=3)
        refused = eventually(lambda: _refused(store.path / "fresh/fresh/two.txt"), deadline_s=15, what="seen")
        assert refused is not None
        assert refused.errno in (errno.EIO, errno.EROFS)
        assert any("did not write" in event["message"] for event in store.events())
    for call in (
        ["put", url, "fresh::fresh", __file__],
        ["take", url, "fresh::fresh"],
        ["mount", url, str(mnt)],
    ):
        done = journalfs(*call)
        assert (done.returncode, "JDBC" in done.stderr) == (7, True), done.stderr
    broker.stop()
    assert journalfs("take", url, "fresh::fresh").returncode == 0
