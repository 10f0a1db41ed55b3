"""Random lives of a store in a database, in a mount and in a real broker by turns: names of tables are others
than usual, in either case.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.broker.conftest import artemis_home
from tests.broker.distribution import jdbc_driver
from tests.broker.instance import Broker
from tests.broker.lives import Life
from tests.broker.settings import BrokerSettings
from tests.broker.test_interop_lives import live
from tests.broker.writing import with_new_store
from tests.mounting import journalfs
from tests.tables.servers import Server

__all__ = ["artemis_home"]

pytestmark = [pytest.mark.timeout(900), pytest.mark.broker, pytest.mark.long]

DRIVERS = {
    "postgresql": ("postgres", "org.postgresql.Driver", "jdbc:postgresql"),
    "mysql": ("maria", "org.mariadb.jdbc.Driver", "jdbc:mariadb"),
}
"""Of a kind of database: the fixture, the driver's class, and how its URLs begin."""
TABLES = {
    "message": "one",
    "bindings": "two",
    "large-message": "three",
    "page-store": "four",
    "node-manager-store": "five",
}
"""What is said of each, behind a prefix; a broker takes at most ten characters for pages."""


def store_said(server: Server, kind: str, name: str, prefix: str) -> str:
    """A `database-store` of a new database; names of tables begin so."""
    _, driver, begin = DRIVERS[kind]
    user, place = server.make(name).partition("://")[2].split("@")
    said = {
        "jdbc-driver-class-name": driver,
        "jdbc-connection-url": f"{begin}://{place}?user={user}",
        **{f"{table}-table-name": prefix + name for table, name in TABLES.items()},
    }
    return "".join(f"<{key}>{value}</{key}>" for key, value in said.items())


def instance_over(root: Path, kind: str, said: str) -> Broker:
    settings = BrokerSettings(database=said, message_expiry_scan_period_ms=-1)
    broker = Broker(root, settings=settings)
    broker.lay_out()
    (root / "lib").mkdir()
    shutil.copy(jdbc_driver(kind), root / "lib")
    return broker


@pytest.mark.rule("S-221")
@pytest.mark.usefixtures("artemis_home")
@pytest.mark.parametrize(
    ("kind", "prefix", "seed"),
    [
        ("postgresql", "", 0),
        ("postgresql", "Mixed_", 1),
        ("postgresql", "upper", 2),
        ("mysql", "", 3),
        ("mysql", "Mixed_", 4),
        ("mysql", "UPPER", 5),
    ],
)
def test_a_life(request: pytest.FixtureRequest, tmp_path: Path, kind: str, prefix: str, seed: int) -> None:
    life = Life(random.Random(seed))
    server: Server = request.getfixturevalue(DRIVERS[kind][0])
    said = store_said(server, kind, f"life{seed}", prefix)
    broker = with_new_store(instance_over(tmp_path / "broker", kind, said))
    try:
        live(broker, life, turns=1)
        assert journalfs("check", broker.root).returncode == 0
    finally:
        print("\n".join(life.log))
