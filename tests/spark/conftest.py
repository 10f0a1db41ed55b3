"""One Spark session for the run, and mounts for it to read. All tests of this folder are marked `spark`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.spark import register
from tests.frozen import PristineStores
from tests.spark.drivers import ENVIRONMENT, HERE, session
from tests.tools.make_store import StoreMade, StoreSpec, make_store

MOUNT_S_MAX = 60

MountStore = Callable[[Path], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.mount)
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A quiet local session of two threads, in which a task may fail once; the JVM is set for a short start,
    not for speed.
    """
    interrupted = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in ENVIRONMENT.items():
            patched.setenv(name, value)
        made = session(
            tmp_path_factory.mktemp("spark"), "local[2, 2]", **{"spark.sql.session.timeZone": "UTC"}
        )
        register(made)
        yield made
        made.stop()
    # A stopped session has nothing to cancel, and would say so at length when the run ends.
    signal.signal(signal.SIGINT, interrupted)


@pytest.fixture(scope="session")
def mount_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountStore]:
    """Mount a store read-only with the command itself; mounted once, unmounted at the end of the session."""
    mounted: dict[Path, Path] = {}
    journalfs = str(Path(sys.executable).parent / "journalfs")
    with ExitStack() as cleaning:

        def mount(store: Path) -> Path:
            if store not in mounted:
                mountpoint = tmp_path_factory.mktemp("mnt")
                command = [journalfs, "mount", "--read-only", str(store), str(mountpoint)]
                subprocess.run(command, check=True, timeout=MOUNT_S_MAX)
                cleaning.callback(subprocess.run, ["fusermount3", "-u", str(mountpoint)], check=True)
                mounted[store] = mountpoint
            return mounted[store]

        yield mount


@pytest.fixture(scope="session")
def orders(stores: PristineStores, mount_store: MountStore) -> Path:
    """The mounted store that has every kind of core message and of queue name."""
    return mount_store(stores["orders-basic"])


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> StoreMade:
    """A synthetic store: six queues at three addresses, partly consumed, with pages."""
    spec = StoreSpec(
        messages=9000,
        addresses=3,
        queues_per_address=2,
        acked_fraction=0.2,
        mixed_priorities=True,
        paged_messages=600,
    )
    return make_store(tmp_path_factory.mktemp("many"), spec)


@pytest.fixture(scope="session")
def many_mounted(many: StoreMade, mount_store: MountStore) -> Path:
    return mount_store(many.data)
