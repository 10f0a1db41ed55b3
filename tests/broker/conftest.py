"""Fixtures for tests against a real broker. Every test of this folder carries the marker `broker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker import class_data
from tests.broker.client import CoreClient
from tests.broker.distribution import distribution_home
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings

HERE = Path(__file__).parent

MakeBroker = Callable[[BrokerSettings], Broker]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def artemis_home() -> Path:
    """An unpacked Artemis, and our client compiled against it."""
    class_data.make()
    return distribution_home()


@pytest.fixture
def make_broker(artemis_home: Path, tmp_path: Path) -> Iterator[MakeBroker]:
    """Make and start brokers over new stores; all are killed at the end of the test."""
    made: list[Broker] = []

    def make(settings: BrokerSettings) -> Broker:
        broker = Broker(tmp_path / f"broker-{len(made)}", settings=settings)
        made.append(broker)
        broker.start()
        return broker

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture(scope="module")
def shared_broker(artemis_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the tests of a module that only need some broker."""
    broker = Broker(tmp_path_factory.mktemp("shared-broker"), settings=BrokerSettings())
    with broker:
        yield broker


@pytest.fixture(scope="module")
def client(shared_broker: Broker) -> Iterator[CoreClient]:
    with CoreClient(shared_broker.port) as made:
        yield made
