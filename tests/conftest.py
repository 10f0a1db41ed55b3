"""Fixtures for every test: the stores that real brokers wrote, and what those brokers said of them."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer

from journalfs.store_owner import adopt_stores, has_adopted
from tests.elsewhere import Elsewhere
from tests.frozen import ExpectedStores, PristineStores
from tests.kinds import POSTGRESQL, SQLITE, mark_long, of_kind
from tests.mounting import EVERY_DISK_IS_QUICK, Commands
from tests.sharing import Measured, Sharing, slowest_first
from tests.tables.servers import Server, postgresql
from tests.tools.crash_copy import copy_as_left

# `--hypothesis-profile=long` searches further. A deadline would only measure how busy the machine is.
settings.register_profile("quick", deadline=None, max_examples=30, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=5000, print_blob=True)
settings.load_profile("quick")


DISK_USED_PERCENT_MAX = 88


@pytest.fixture(autouse=True)
def _is_no_command() -> Iterator[None]:
    """Commands that are called within this process leave it to be what it was: none that acts as owners."""
    yield
    assert not has_adopted(), "the test made this process act as another user"
    adopt_stores(wanted=False)


FRONTS = {
    "off": {"JOURNALFS_FRONT": "off"},
    "forward": {"JOURNALFS_FRONT": "forward"},
    "on": {"JOURNALFS_FRONT": "on"},
    "chaos": {"JOURNALFS_FRONT": "on", "JOURNALFS_FRONT_CHAOS": "5"},
    "shadow": {"JOURNALFS_FRONT": "on", "JOURNALFS_FRONT_SHADOW": "1"},
}
"""How mounts of tests answer requests: see docs/inside/testing.md."""


@pytest.fixture
def front_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever `--front` says: for tests that choose it, and count what it answers."""
    for name in FRONTS["chaos"] | FRONTS["shadow"]:
        monkeypatch.delenv(name, raising=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--front", choices=FRONTS, default="on", help="who answers the requests of mounts")
    parser.addoption("--kind", choices=(SQLITE, POSTGRESQL), help="of stores: see tests/kinds.py")
    parser.addoption("--commands", choices=("fork", "exec"), default="fork", help="see tests/forking.py")
    parser.addoption("--record-seconds", action="store_true", help="see tests/sharing.py")


def pytest_configure(config: pytest.Config) -> None:
    """Tests that run in the background may ignore signals, and what they start would inherit that."""
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Measured())
    os.environ.update(FRONTS[config.getoption("--front")])
    # Else each of the processes that tests start compiles all that it imports, where the environment forbids
    # Python to keep it.
    compiled = str(config.rootpath / "build" / "pycache")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = compiled
    sys.dont_write_bytecode = False
    Commands.forked = config.getoption("--commands") == "fork"
    kind = config.getoption("--kind")
    if kind is not None:
        Commands.elsewhere = Elsewhere(kind)
        config.add_cleanup(Commands.elsewhere.close)
    if os.environ.get("JOURNALFS_FRONT") == "on":
        Commands.unlimited = EVERY_DISK_IS_QUICK
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    kind = config.getoption("--kind")
    if kind is not None:
        of_kind(items, kind)
    mark_long(items, quick=kind)
    yield
    slowest_first(items)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: nothing of it has to be looked at when garbage is."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing | None:
    return Sharing(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What tests start finds the package `tests` where it is started, so nobody may go elsewhere and stay."""
    yield
    # Not `os.getcwd`, which fails where the directory is gone.
    place = Path(os.readlink("/proc/self/cwd"))
    if place != item.config.invocation_params.dir:
        os.chdir(item.config.invocation_params.dir)
        pytest.fail(f"the test left this process in {place}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stores with the default settings let nobody publish from `max-disk-usage`, 90 percent, on."""
    folder = tempfile.gettempdir()
    found = os.statvfs(folder)
    if found.f_blocks and 100 - 100 * found.f_bavail / found.f_blocks > DISK_USED_PERCENT_MAX:
        reason = f"the disk of {folder} is more than {DISK_USED_PERCENT_MAX} percent full"
        pytest.exit(f"{reason}: set TMPDIR to another, or tests would wait for room", returncode=2)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PristineStores]:
    """Name of a store -> its unpacked directory, for reading only.

    At the end of the session the broker's files in it must be as they were unpacked: reading never writes.
    """
    root = tmp_path_factory.mktemp("stores")
    pristine = PristineStores(root)
    if Commands.elsewhere is not None:
        Commands.elsewhere.shared.append(root)
    yield pristine
    changed = pristine.changed_files()
    shutil.rmtree(root)
    assert not changed, f"reading changed files of a store: {changed}"


@pytest.fixture
def store_copy(stores: PristineStores, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Make a fresh copy of a store that the test may change. Removed after the test.

    The index that other tests of this run left beside the store they read does not come along.
    """
    made: list[Path] = []

    def copy(name: str) -> Path:
        target = tmp_path / f"copy-{len(made)}" / name
        copy_as_left(stores[name], target)
        for ours in (target / "journalfs", target / "data" / "journalfs"):
            shutil.rmtree(ours, ignore_errors=True)
        made.append(target)
        return target

    yield copy
    for path in made:
        shutil.rmtree(path.parent)


@pytest.fixture(scope="session")
def expected() -> ExpectedStores:
    """Name of a file store -> the broker's own account of it (`tests/stores/README.md` says the keys)."""
    return ExpectedStores()
