"""A real broker's JDBC store, changed in a mount by file operations; the broker starts on the tables."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.changing import change, change_after_compaction
from tests.broker.client import CoreClient
from tests.broker.conftest import artemis_home
from tests.broker.distribution import jdbc_driver
from tests.broker.instance import Broker
from tests.broker.shell import in_a_shell
from tests.broker.test_interop_stores import check, use, whole_account
from tests.broker.writing import Account, complaints
from tests.mounting import journalfs
from tests.tables.servers import Server

__all__ = ["artemis_home"]

pytestmark = [pytest.mark.timeout(600), pytest.mark.mount, pytest.mark.broker]


def over_tables(root: Path, config: str) -> Broker:
    """An instance whose broker.xml names a database, with its driver."""
    broker = Broker(root, config=config)
    broker.lay_out()
    (root / "lib").mkdir()
    shutil.copy(jdbc_driver("postgresql"), root / "lib")
    return broker


@pytest.fixture
def instance(artemis_home: Path, jdbc_config: str, tmp_path: Path) -> Iterator[Broker]:
    broker = over_tables(tmp_path / "broker", jdbc_config)
    yield broker
    broker.kill()


def told(broker: Broker) -> Account:
    with broker, CoreClient(broker.port) as client:
        account = whole_account(broker, client)
        account.complaints = complaints(broker.log)
        broker.stop()
    return account


@pytest.mark.rule("S-221")
def test_a_broker_goes_on_where_a_mount_was(instance: Broker, tmp_path: Path) -> None:
    expected = told(instance)
    with in_a_shell(instance.root, tmp_path / "mnt") as store:
        change(store, expected)
    with in_a_shell(instance.root, tmp_path / "mnt") as store:
        change_after_compaction(store, expected)
    with instance, CoreClient(instance.port) as client:
        assert set(complaints(instance.log)) <= set(expected.complaints)
        found = whole_account(instance, client)
        wrong = check(found, expected)
        assert wrong == [], "\n".join(wrong)
        use(instance, client, expected)
        instance.stop()


@pytest.mark.long
@pytest.mark.rule("S-237")
def test_a_broker_starts_on_converted_tables(
    instance: Broker, jdbc_config: str, artemis_home: Path, postgres: Server, tmp_path: Path
) -> None:
    """From the broker's own tables into files, and from those into tables of another database."""
    url = postgres.make("converted")
    for source, destination in ((instance.root, tmp_path / "files"), (tmp_path / "files", url)):
        done = journalfs("convert", source, destination)
        assert done.returncode == 0, done.stderr
    expected = told(instance)
    place = url.replace("artemis@", "")
    config = re.sub(r"jdbc:postgresql:[^<]*", f"jdbc:{place}?user=artemis", jdbc_config)
    converted = over_tables(tmp_path / "converted", config)
    try:
        with converted, CoreClient(converted.port) as client:
            assert set(complaints(converted.log)) <= set(expected.complaints)
            wrong = check(whole_account(converted, client), expected)
            assert wrong == [], "\n".join(wrong)
            converted.stop()
    finally:
        converted.kill()
