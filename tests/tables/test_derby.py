"""Databases by JDBC drivers: Derby, on which a real broker starts, and one that Python has no driver of."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs.config.database import database_named
from journalfs.errors import EXIT_DEPENDENCY
from tests.broker.client import CoreClient
from tests.broker.conftest import artemis_home
from tests.broker.distribution import DERBY, jdbc_driver
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.shell import ShellStore, in_a_shell
from tests.broker.writing import complaints
from tests.frozen import PristineStores
from tests.mounting import journalfs, mounted_for_writing
from tests.tables.servers import Server
from tests.tables.test_live_tables import DATABASE_STORE

__all__ = ["artemis_home"]

pytestmark = [pytest.mark.timeout(600), pytest.mark.broker]

PLACE = "data/derby/db"
LARGE_BYTES = 300_000
NO_DERBY = re.compile(r"JDBCConnectionProvider|in the future")
"""A broker tells whoever uses Derby not to."""
QUEUE = "orders", "orders"
PAGED = "paged", "paged"


@pytest.fixture
def instance(artemis_home: Path, tmp_path: Path) -> Iterator[Broker]:
    """Its broker.xml names the folder from the instance on, as Java does that runs there."""
    root = tmp_path / "broker"
    said = DATABASE_STORE.format(
        driver="org.apache.derby.jdbc.EmbeddedDriver", url=f"jdbc:derby:{PLACE};create=true"
    )
    broker = Broker(root, settings=BrokerSettings(database=said, paging_addresses=("paged",)))
    broker.lay_out()
    (root / "lib").mkdir()
    for part in DERBY:
        shutil.copy(jdbc_driver(part), root / "lib")
    yield broker
    broker.kill()


@pytest.mark.long
@pytest.mark.mount
@pytest.mark.rule("S-221", "S-245")
def test_a_broker_and_a_mount_take_turns_on_derby(instance: Broker, tmp_path: Path) -> None:
    with mounted_for_writing(instance.root, tmp_path / "mnt") as mount:
        store = ShellStore(mount)
        store.create("orders", "orders")
        store.create("paged", "paged")
        store.publish("orders", None, "in.txt", b"".join(b"line %d\n" % n for n in range(20)))
        store.publish("orders", None, "big.bin", b"x" * LARGE_BYTES)
        store.publish("paged", None, "in.txt", b"".join(b"%03000d\n" % n for n in range(40)))
        store.acknowledge(QUEUE, [line["id"] for line in store.lines(QUEUE)][:5])
        busy = journalfs("ls", instance.root)
        assert busy.returncode
        assert "Another instance of Derby" in busy.stderr
    with instance, CoreClient(instance.port) as client:
        assert [one for one in complaints(instance.log) if not NO_DERBY.search(one)] == []
        assert (client.message_count("orders"), client.message_count("paged")) == (16, 40)
        client.consume_many("orders", 10)
        client.consume_many("paged", 10)
        client.send_many("orders", 30, length=400)
        client.send("orders", length=LARGE_BYTES)
        instance.stop()
    with mounted_for_writing(instance.root, tmp_path / "mnt") as mount:
        store = ShellStore(mount)
        left = store.lines(QUEUE)
        assert [line["body"] for line in left[:5]] == [f"line {n}" for n in range(15, 20)]
        assert sum(line.get("largeMessage", False) for line in left) == 2
        assert (len(left), len(store.lines(PAGED))) == (37, 30)
        assert os.listdir(mount.path / ".journalfs" / "damaged") == []
        store.acknowledge(QUEUE, [line["id"] for line in left][:7])
    with instance, CoreClient(instance.port) as client:
        assert [one for one in complaints(instance.log) if not NO_DERBY.search(one)] == []
        assert (client.message_count("orders"), client.message_count("paged")) == (30, 30)
        client.consume_many("orders", 30)
        instance.stop()


@pytest.mark.rule("S-245")
def test_a_store_goes_into_derby(stores: PristineStores, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    drivers = {**os.environ, "CLASSPATH": ":".join(str(jdbc_driver(part)) for part in DERBY)}
    done = journalfs("convert", stores["transactions"], url, env=drivers)
    assert done.returncode == 0, done.stderr
    there, here = journalfs("cat", url, env=drivers), journalfs("cat", stores["transactions"])
    assert (there.returncode, there.stderr) == (0, "")
    bodies = [[json.loads(line).get("body") for line in one.stdout.splitlines()] for one in (there, here)]
    assert bodies[0] == bodies[1] != []


@pytest.fixture
def no_psycopg(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "psycopg.py").write_text("raise ImportError('not here')")
    return {**os.environ, "PYTHONPATH": str(folder), "CLASSPATH": str(jdbc_driver("postgresql"))}


@pytest.mark.mount
@pytest.mark.rule("S-245")
def test_what_python_has_no_driver_of_is_reached_by_javas(
    postgres: Server, no_psycopg: dict[str, str], tmp_path: Path
) -> None:
    """The same store as by Python's driver."""
    place = postgres.make("by_java")
    url = f"jdbc:{place.replace('artemis@', '')}?user=artemis"
    source = tmp_path / "files"
    assert journalfs("create", source).returncode == 0
    with in_a_shell(source, tmp_path / "mnt") as store:
        store.create("orders", "orders")
        store.publish("orders", None, "in.txt", b"".join(b"line %d\n" % n for n in range(300)))
        store.publish("orders", None, "big.bin", b"x" * LARGE_BYTES)
    done = journalfs("convert", source, url, env=no_psycopg)
    assert done.returncode == 0, done.stderr
    by_java = journalfs("cat", url, "orders", env=no_psycopg)
    by_python = journalfs("cat", place, "orders")
    assert (by_java.returncode, by_java.stderr) == (0, "")
    assert len(by_python.stdout.splitlines()) == 301
    assert by_java.stdout == by_python.stdout


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ({"CLASSPATH": ""}, "needs a JDBC driver (found: no jar)"),
        ({"JAVA_HOME": "java"}, "Debian: default-jre-headless"),
        ({"PYTHONPATH": "jpype"}, "needs jpype1, which is not installed"),
        ({}, "Database '/nowhere/db' not found"),
    ],
)
def test_what_is_missing_is_named(missing: dict[str, str], reason: str, tmp_path: Path) -> None:
    if "PYTHONPATH" in missing:
        missing = {"PYTHONPATH": str(tmp_path)}
        (tmp_path / "jpype.py").write_text("raise ImportError('not here')")
    if "JAVA_HOME" in missing:
        missing = {"JAVA_HOME": str(tmp_path)}
        (tmp_path / "lib" / "server").mkdir(parents=True)
        (tmp_path / "lib" / "server" / "libjvm.so").write_bytes(b"no library")
    jars = os.pathsep.join(str(jdbc_driver(part)) for part in DERBY)
    done = journalfs("ls", "jdbc:derby:/nowhere/db", env={**os.environ, "CLASSPATH": jars, **missing})
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.returncode == EXIT_DEPENDENCY) == bool(missing)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("jdbc:derby:/var/db;create=true", "jdbc:derby:/var/db"),
        ("/here/jdbc:derby:/var/db;user=me;password=s", "jdbc:derby:/var/db;user=me;password=s"),
        ("jdbc:derby:db", f"jdbc:derby:{os.getcwd()}/db"),
        ("jdbc:derby://host:1527/db;create=true", "jdbc:derby://host:1527/db"),
        ("/here/jdbc:derby:/host:1527/db", "jdbc:derby://host:1527/db"),
        ("/here/jdbc:postgresql:/h/db?user=me", "jdbc:postgresql://h/db?user=me"),
        ("/here/jdbc:oracle:thin:@/h:1521/s", "jdbc:oracle:thin:@//h:1521/s"),
        ("postgresql://h/db", None),
    ],
)
def test_urls_as_java_has_them(text: str, url: str | None) -> None:
    found = database_named(text)
    assert found is not None
    assert found.jdbc_url == url
    assert "=s" not in found.shown
