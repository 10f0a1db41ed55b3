"""The request loop: what must go on while requests keep it busy, and what serves where it cannot be used."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.mount.conftest import MountedFake, MountFake, end, started_after

pytestmark = pytest.mark.mount


@pytest.fixture(params=["fast", "stock"])
def mounted(request: pytest.FixtureRequest, mount_fake: MountFake) -> MountedFake:
    return mount_fake("small", f"loop={request.param}")


def test_timers_and_threads_go_on_while_requests_keep_coming(mounted: MountedFake) -> None:
    stop = threading.Event()
    asked = 0

    def ask() -> None:
        nonlocal asked
        while not stop.is_set():
            (mounted.path / "orders/absent").exists()
            asked += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(5):
            assert mounted.tell("sleep", 0.05) == {"cancelled": True}
            assert mounted.tell("thread") == sum(range(1000))
    finally:
        stop.set()
        asking.join()
    assert asked > 100
    assert mounted.requests()["lookup"] >= asked


def test_timers_and_threads_go_on_when_nobody_asks(mounted: MountedFake) -> None:
    assert mounted.tell("sleep", 0.2) == {"cancelled": True}
    assert mounted.tell("thread") == sum(range(1000))


def test_an_idle_mount_uses_no_processor(mounted: MountedFake) -> None:
    mounted.tell("sleep", 0.1)  # past the burst of mounting
    before = _processor_ticks(mounted.process.pid)
    mounted.tell("sleep", 1.0)
    ticks = _processor_ticks(mounted.process.pid) - before
    assert ticks / os.sysconf("SC_CLK_TCK") < 0.2, "seconds of processor time in one second of idleness"


def test_many_clients_at_once_all_get_their_answers(mounted: MountedFake) -> None:
    failures: list[object] = []

    def read(number: int) -> None:
        for _ in range(50):
            body = (mounted.path / f"orders/billing/.messages/{number}.txt").read_bytes()
            lines = (mounted.path / "orders/billing/_tail.jsonl").read_bytes().count(b"\n")
            if body != f"body of {number}".encode() or lines != 6:
                failures.append((number, body, lines))

    clients = [threading.Thread(target=read, args=(number,)) for number in range(1, 21)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert failures == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("import journalfs_mount.kernel.fastwait as f; f._WAIT_NAME = '_renamed'", "pyfuse3 has no _renamed"),
        (
            "import journalfs_mount.kernel.fastwait as f; f._of_trio.__globals__['select'] = "
            "type('s', (), {'epoll': str, 'poll': f.select.poll, 'POLLIN': 1})",
            "trio does not wait with epoll",
        ),
    ],
)
def test_where_private_names_changed_the_stock_loop_serves(tmp_path: Path, change: str, reason: str) -> None:
    mounted = started_after(change, tmp_path)
    try:
        assert mounted.answer() == "ready"
        report = json.loads((tmp_path / ".journalfs/mount.json").read_bytes())
        assert (report["loop"], report["loopFallback"]) == ("stock", reason)
        assert sorted(os.listdir(tmp_path)) == ["DLQ", "orders"]
    finally:
        errors = end(mounted)
    assert reason in errors
    assert mounted.process.returncode == 0


def _processor_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
