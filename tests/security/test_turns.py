"""No request keeps the loop for longer than everybody may wait, however many queues there are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kinds import first_is_quick
from tests.mounting import MountedStore, mounted_for_writing
from tests.security.conftest import BUSY_MS_MAX
from tests.tools.make_store import StoreSpec, make_store

QUEUES = 8_000


@pytest.fixture(scope="module", params=first_is_quick("addresses", "queues"))
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    """A mount of a store with many addresses of one queue, or with one of many, that holds long bodies."""
    base = tmp_path_factory.mktemp("wide")
    many = (QUEUES, 1) if request.param == "addresses" else (1, QUEUES)
    spec = StoreSpec(messages=2, body_chars=40, addresses=many[0], queues_per_address=many[1], bombs=1)
    with mounted_for_writing(make_store(base, spec).data, base / "mnt") as mount:
        os.listdir(mount.path)
        yield mount


def administer(mount: MountedStore) -> None:
    address = mount.path / "made"
    (address / "made").mkdir(parents=True)
    os.setxattr(address, "user.journalfs.max-delivery-attempts", b"3")
    os.removexattr(address, "user.journalfs.max-delivery-attempts")
    os.setxattr(address / "made", "user.journalfs.max-consumers", b"3")
    (address / ".settings").write_text("paused = true\n")
    (address / "made").rmdir()
    address.rmdir()


def publish(mount: MountedStore) -> None:
    """The first line after addresses changed finds out again where lines go."""
    (mount.path / "to/to").mkdir(parents=True)
    (mount.path / "to/in.txt").write_text("a line\n")
    assert (mount.path / "to/to/_tail.jsonl").read_bytes().count(b"\n") == 1
    subprocess.run(["rm", "-r", mount.path / "to"], check=True)


def list_all(mount: MountedStore) -> None:
    for path in (mount.path, mount.path / "scale"):
        if path.exists():
            assert os.listdir(path)


def ask_sizes(mount: MountedStore) -> None:
    os.statvfs(mount.path)
    mount.control("status.json")


def scrape(mount: MountedStore) -> None:
    assert (mount.path / ".journalfs/metrics").read_bytes().count(b"journalfs_queue_messages{") >= QUEUES


def read_long(mount: MountedStore) -> None:
    address = next(one for one in (mount.path / "scale.000", mount.path / "scale") if one.exists())
    queue = next(one for one in sorted(address.iterdir()) if not one.name.startswith("."))
    with (queue / ".all.jsonl").open("rb") as file:
        file.read(10)


def frame(mount: MountedStore) -> None:
    (mount.path / "many/many").mkdir(parents=True)
    (mount.path / "many/values.json").write_bytes(b"1 " * 50_000)


def snapshot(mount: MountedStore) -> None:
    made = mount.path / ".journalfs/snapshots/one"
    made.mkdir()
    assert os.listdir(made)
    made.rmdir()


def explain(mount: MountedStore) -> None:
    """What is listed without sizes has them for who asks."""
    for folder in ("journal", "bindings"):
        with os.scandir(mount.path / ".journalfs" / folder) as found:
            for entry in found:
                assert entry.stat().st_size == len(Path(entry.path).read_bytes())


def slow_turns(mount: MountedStore) -> list[object]:
    """Turns in which the processor worked for so long: on a busy machine they take longer."""
    slow = [event for event in mount.events() if event["event"] == "slow"]
    return [event for event in slow if event["busyMs"] >= BUSY_MS_MAX]


@pytest.mark.mount
@pytest.mark.rule("S-147", "S-148")
@pytest.mark.parametrize(
    "ask", [administer, publish, list_all, ask_sizes, scrape, read_long, frame, explain, snapshot]
)
def test_a_request_takes_short_turns(wide: MountedStore, ask: Callable[[MountedStore], None]) -> None:
    before = slow_turns(wide)
    ask(wide)
    assert slow_turns(wide) == before


def test_a_stranger_finds_the_store(tmp_path: Path) -> None:
    """The stores of these tests are what they are said to be."""
    made = make_store(tmp_path, StoreSpec(messages=1, addresses=3, bombs=1))
    assert len(made.queues) == 3
    assert len(list((made.data / "large-messages").iterdir())) == 1
