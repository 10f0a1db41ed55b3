"""Stores of real brokers, each mounted once for all rules that only look at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.frozen import ExpectedStores, PristineStores
from tests.mounting import MountedStore, mounted

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path.name != "test_rules.py":
            item.add_marker(pytest.mark.mount)


@pytest.fixture(scope="session")
def mount_of(
    stores: PristineStores, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], MountedStore]]:
    """Name of a frozen store -> it, mounted. The store is the shared one: look, change nothing."""
    made: dict[str, MountedStore] = {}
    with ExitStack() as mounts:

        def mount(name: str) -> MountedStore:
            if name not in made:
                mountpoint = tmp_path_factory.mktemp(f"mount-{name}")
                made[name] = mounts.enter_context(mounted(stores[name], mountpoint))
            return made[name]

        yield mount


@pytest.fixture
def unseen_copy(store_copy: Callable[[str], Path]) -> Callable[[str], Path]:
    """As `store_copy`, without the index that an earlier mount of the original may have left."""

    def copy(name: str) -> Path:
        store = store_copy(name)
        for folder in [path for path in store.rglob("journalfs") if path.is_dir()]:
            shutil.rmtree(folder)
        return store

    return copy


@pytest.fixture
def orders(mount_of: Callable[[str], MountedStore]) -> MountedStore:
    return mount_of("orders-basic")


@pytest.fixture
def transactions(mount_of: Callable[[str], MountedStore]) -> MountedStore:
    return mount_of("transactions")


@pytest.fixture
def paged(mount_of: Callable[[str], MountedStore]) -> MountedStore:
    return mount_of("large-and-paged")


class Account:
    """What the broker said of one store."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    @property
    def addresses(self) -> list[str]:
        return [address["name"] for address in self.content["addresses"]]

    @property
    def queues(self) -> list[dict[str, Any]]:
        queues: list[dict[str, Any]] = self.content["queues"]
        return queues

    def queue(self, name: str) -> dict[str, Any]:
        (found,) = [queue for queue in self.queues if queue["name"] == name]
        return found

    def ids(self, name: str) -> list[int]:
        """Live messages in delivery order, those not yet due last."""
        return [message["id"] for message in self.queue(name)["messages"]]


@pytest.fixture(scope="session")
def account(expected: ExpectedStores) -> Callable[[str], Account]:
    return lambda name: Account(dict(expected[name]))
