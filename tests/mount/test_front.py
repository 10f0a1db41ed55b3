"""The front: what is answered in C is what Python would answer, and where it cannot be used pyfuse3 reads."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.kinds import first_is_quick
from tests.mount.conftest import MountedFake, MountFake
from tests.mounting import MountedStore, journalfs, mounted, mounted_for_writing

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

PART = "orders/billing/part-0001-1-0000000001.jsonl"
ROUNDS = 20
PAGE = mmap.PAGESIZE
BUSY_S = 2.0


def counts(mounted: MountedFake) -> Mapping[str, int]:
    found = mounted.report()["frontRequests"]
    assert isinstance(found, dict)
    return found


@pytest.mark.rule("S-272")
def test_what_was_asked_before_is_answered_without_python(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "front=on")
    part = mounted.path / PART
    for number in range(ROUNDS):
        assert part.stat().st_size == part.stat().st_size > 0
        assert not (mounted.path / "orders/billing/absent").exists()
        assert not (mounted.path / f"orders/billing/{number}").exists()
    found = counts(mounted)
    assert mounted.report()["front"] == "on"
    assert found["lookup"] > ROUNDS // 2
    assert found["missing"] > ROUNDS * 3 // 2  # also names that nobody asked for before
    assert mounted.requests()["lookup"] >= found["lookup"] + found["missing"]


def test_forwarding_answers_nothing_itself(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "front=forward")
    for _ in range(ROUNDS):
        (mounted.path / PART).stat()
    found = counts(mounted)
    assert mounted.report()["front"] == "forward"
    assert found["other"] > ROUNDS
    assert not any(found[name] for name in ("getattr", "lookup", "missing", "read", "flush"))


@pytest.mark.protects("P-7")
@pytest.mark.rule("S-273")
@pytest.mark.parametrize("chaos", ["0", "3"])
def test_nothing_is_answered_as_it_was_before_a_change(
    mount_fake: MountFake, monkeypatch: pytest.MonkeyPatch, chaos: str
) -> None:
    """Also where something of what is kept is dropped before every third request, at most."""
    monkeypatch.setenv("JOURNALFS_FRONT_CHAOS", chaos)
    mounted = mount_fake("small", "front=on")
    queue = mounted.path / "orders/billing"
    for number in range(100, 100 + ROUNDS):
        name = queue / f".messages/{number}.txt"
        assert not name.exists()
        mounted.tell("add", "orders", "billing", [number], 0)
        assert name.exists()
        size = (queue / "_tail.jsonl").stat().st_size
        mounted.tell("add", "orders", "billing", [number + 1000], 0)
        assert (queue / "_tail.jsonl").stat().st_size > size
        mounted.tell("remove", "orders", "billing", [number])
        assert not name.exists()


@pytest.mark.rule("S-274")
def test_content_is_read_on_while_python_is_busy(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "front=on")
    mounted.tell("add", "orders", "billing", list(range(1000, 1600)), 3)
    part = next(path for path in (mounted.path / "orders/billing").glob("part-*-0000000003.jsonl"))
    expected = part.read_bytes()
    descriptor = os.open(part, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = mmap.mmap(-1, PAGE)
        assert os.preadv(descriptor, [buffer], 0) == PAGE
        before = counts(mounted)["read"]
        mounted.tell("busy", BUSY_S)
        begun = time.monotonic()
        for page in range(1, 5):
            assert os.preadv(descriptor, [buffer], page * PAGE) == PAGE
            assert buffer[:] == expected[page * PAGE : (page + 1) * PAGE]
        assert time.monotonic() - begun < BUSY_S / 2
    finally:
        os.close(descriptor)
    found = counts(mounted)
    assert found["read"] - before == 4
    assert found["by_spare"] >= 1


@pytest.mark.rule("S-276")
@pytest.mark.parametrize("chaos", ["0", "3"])
def test_a_part_is_opened_again_without_python(
    mount_fake: MountFake, monkeypatch: pytest.MonkeyPatch, chaos: str
) -> None:
    """And by nobody as it was before it changed, however many have it open."""
    monkeypatch.setenv("JOURNALFS_FRONT_CHAOS", chaos)
    mounted = mount_fake("small", "front=on")
    mounted.tell("add", "orders", "billing", list(range(1000, 1100)), 3)
    queue = mounted.path / "orders/billing"
    for number in range(1000, 1000 + ROUNDS):
        part = next(queue.glob("part-*-0000000003.jsonl"))
        before = part.read_bytes()
        held = [part.open("rb", buffering=0) for _ in range(3)]
        for _ in range(3):
            assert part.read_bytes() == before
        mounted.tell("remove", "orders", "billing", [number])
        part = next(queue.glob("part-*-0000000003.jsonl"))
        assert len(before.splitlines()) - len(part.read_bytes().splitlines()) == 1
        for file in held:
            assert file.read() == before
            file.close()
    found = counts(mounted)
    assert chaos != "0" or min(found["open"], found["release"]) > ROUNDS
    assert found["release"] > 0
    assert mounted.requests()["open"] >= ROUNDS * 8


@pytest.mark.rule("S-276", "S-42")
def test_what_lies_in_files_of_its_own_is_opened_by_python(
    store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    """A page or a body is gone without anybody being told, and who opens the part next gets what there is."""
    store = store_copy("large-and-paged")

    def shown(mount: MountedStore, queue: str, times: int = 1) -> tuple[list[bytes], int]:
        """What is in its parts, and how often C opened one so far."""
        parts = sorted((mount.path / queue / queue).glob("part-*.jsonl"))
        content = [[part.read_bytes() for part in parts] for _ in range(times)][-1]
        return content, mount.control("status.json").get("frontRequests", {}).get("open", 0)

    with mounted(store, tmp_path / "mnt", "-o", "front=on") as hot:
        assert shown(hot, "ledger", ROUNDS)[1] == 0
        before, opens = shown(hot, "images", 5)
        (store / "data/large-messages/28.msg").unlink()
        found, opens = shown(hot, "images")
        assert opens == 0 < shown(hot, "drained", ROUNDS)[1]
    with mounted(store, tmp_path / "mnt", "-o", "front=off") as cold:
        assert (found, 0) == shown(cold, "images")
    assert found != before


def test_answers_in_c_are_those_of_python(mount_fake: MountFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_FRONT_SHADOW", "1")
    mounted = mount_fake("small", "front=on")
    for number in range(ROUNDS):
        for _ in range(2):
            (mounted.path / PART).stat()
            (mounted.path / "orders/billing/absent").exists()
            (mounted.path / "orders/billing/.messages/1.txt").read_bytes()
            (mounted.path / "orders/billing/_tail.jsonl").stat()
        mounted.tell("add", "orders", "billing", [number + 100], 0)
    found = counts(mounted)
    assert (found["lookup"], found["differed"]) == (0, 0)
    assert found["compared"] > ROUNDS


@pytest.mark.parametrize("front", first_is_quick("on", "forward"))
def test_a_mount_for_writing_keeps_its_promises(tmp_path: Path, front: str) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    body = os.urandom(3 << 20)
    with mounted_for_writing(store, tmp_path / "mnt", "-o", f"front={front}") as mounted:
        queue = mounted.path / "orders/orders"
        queue.mkdir(parents=True)
        for number in range(ROUNDS):
            # The second line is published by the last close, of which nobody is told.
            subprocess.run(
                ["sh", "-c", f"printf 'a {number}\\nb {number}' >> ../in.txt"], check=True, cwd=queue
            )
            assert (queue / ".all.jsonl").stat().st_size
            assert [line["body"] for line in mounted.queue("orders").lines()][-2:] == [
                f"a {number}",
                f"b {number}",
            ]
        (mounted.path / "orders/large.bin").write_bytes(body)
        (large,) = (queue / ".messages").glob("*.bin")
        assert large.read_bytes() == body
        snapshot = mounted.path / ".journalfs/snapshots/now"
        snapshot.mkdir()
        for _ in range(ROUNDS):
            for file in (snapshot / "orders/orders").glob("*.jsonl"):
                file.read_bytes()
        snapshot.rmdir()  # which nobody has open
        large.unlink()
        assert not large.exists()
        assert mounted.control("mount.json")["front"] == front


@pytest.mark.parametrize("front", first_is_quick("on", "off"))
def test_status_and_metrics_count_what_was_answered_in_c_and_why_not(tmp_path: Path, front: str) -> None:
    store, changes = tmp_path / "store", 5
    assert journalfs("create", store).returncode == 0
    with mounted_for_writing(store, tmp_path / "mnt", "-o", f"front={front}") as mounted:
        queue = mounted.path / "orders/orders"
        queue.mkdir(parents=True)
        for _ in range(changes):
            (mounted.path / "orders/in.txt").write_text("a line\n")
            for _ in range(3):
                assert not (queue / "absent").exists()
        before = mounted.control("status.json").get("frontRequests", {})
        lines = (mounted.path / ".journalfs/metrics").read_text().splitlines()
        after = mounted.control("status.json").get("frontRequests", {})
    counted = dict(line.rsplit(" ", 1) for line in lines if line.startswith("journalfs_front_total{"))
    shown = {name.split('"')[1]: float(value) for name, value in counted.items()}
    assert shown.keys() == before.keys() == after.keys()
    assert all(before[name] <= shown[name] <= after[name] for name in before)
    if front == "off":
        assert not before
        return
    assert all(before[name] >= changes for name in ("missing", "revoked", "other", "revokes"))
