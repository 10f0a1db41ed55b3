"""Where something is missing that the front needs, pyfuse3 reads, and the report says what it was."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.conftest import ROOT, end, started_after
from tests.mounting import JOURNALFS, MountedStore, journalfs
from tests.spark.test_mount_cluster import AS_NOBODY, NOBODY, needs_root

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

PART = "orders/billing/part-0001-1-0000000001.jsonl"
LOADED = "from journalfs_mount.front import front; front.load(); "
FUSE_DEVICE = os.makedev(10, 229)


def answers(place: Path, before: str = "pass", options: str = "front=on") -> dict[str, object]:
    """What a mount reports that answers as any does; its complaints are `said`."""
    mounted = started_after(before, place, options)
    try:
        assert mounted.answer() == "ready"
        for _ in range(3):
            assert sorted(os.listdir(place)) == ["DLQ", "orders"]
            assert (place / PART).read_bytes()
            assert not (place / "orders/absent").exists()
        report = mounted.report()
    finally:
        errors = end(mounted)
    assert mounted.process.returncode == 0
    assert "Traceback" not in errors
    return {**report, "said": errors}


def falls_back(report: dict[str, object], reason: str) -> None:
    assert reason in str(report["frontFallback"])
    assert "front" not in report
    assert "frontRequests" not in report
    assert f"the front is not used, requests take longer: {reason}" in str(report["said"])


@pytest.mark.rule("S-275")
@pytest.mark.parametrize(
    ("before", "options", "reason"),
    [
        ("sys.modules['journalfs_mount.front._front'] = None", "front=on", "it was not built"),
        ("import pyfuse3", "front=on", "pyfuse3 did not mount through the front"),
        ("pass", "front=on,loop=stock", "the stock loop reads for itself"),
        (
            f"{LOADED}import journalfs_mount.kernel.fastwait as f; f._WAIT_NAME = '_renamed'",
            "front=on",
            "pyfuse3 has no _renamed",
        ),
        (
            "import os; os.environ['JOURNALFS_FRONT_CHAOS'] = 'much'",
            "front=on",
            "JOURNALFS_FRONT_CHAOS=much: give a number of requests",
        ),
    ],
)
def test_where_it_cannot_be_used_pyfuse3_reads(
    tmp_path: Path, before: str, options: str, reason: str
) -> None:
    falls_back(answers(tmp_path, before, options), reason)


@pytest.mark.rule("S-275")
@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        ("OLD_LIBFUSE", "libfuse is older than 3.13"),
        ("LIBFUSE_REFUSES", "libfuse lets nobody else read"),
        ("NO_FLAGS", "the FUSE descriptor cannot be read without waiting"),
        ("NO_THREAD", "no thread for it: Resource temporarily unavailable"),
        ("NO_EVENT", "no thread for it: Too many open files"),
        ("MOUNTS_ITSELF", "pyfuse3 did not mount through the front"),
        ("MOUNTS_BY_THE_NEXT", None),
    ],
)
def test_what_the_system_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str, reason: str | None
) -> None:
    """A library that was loaded before all others stands in the way. Not all of them do any harm."""
    library = tmp_path / "taking.so"
    build = ["cc", "-shared", "-fPIC", "-w", f"-D{taken}", "tests/mount/taking.c", "-o", str(library)]
    subprocess.run(build, cwd=ROOT, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    place = tmp_path / "mnt"
    place.mkdir()
    report = answers(place)
    if reason is None:
        assert report["front"] == "on"
    else:
        falls_back(report, reason)


def test_one_processor_is_enough(tmp_path: Path) -> None:
    report = answers(tmp_path, "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})")
    assert report["front"] == "on"


@pytest.mark.parametrize(("said", "works"), [("", True), ("off", True), ("ON", False), ("on,forward", False)])
def test_the_environment_says_one_of_three_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, works: bool
) -> None:
    store, place = tmp_path / "store", tmp_path / "mnt"
    place.mkdir()
    monkeypatch.delenv("JOURNALFS_FRONT", raising=False)
    assert journalfs("create", store).returncode == 0
    monkeypatch.setenv("JOURNALFS_FRONT", said)
    done = journalfs("mount", store, place)
    assert (done.returncode == 0) is works
    if works:
        assert MountedStore(place).control("mount.json").get("front", "off") == (said or "on")
        assert journalfs("umount", place).returncode == 0
    else:
        assert done.stderr == f"journalfs: JOURNALFS_FRONT={said}: give off, forward or on\n"
    assert not os.path.ismount(place)


# ---- mounting as a user, by fusermount3 ----


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory with a store of somebody who is not root."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        assert journalfs("create", path / "store").returncode == 0
        for one in (path, *path.rglob("*")):
            os.chown(one, NOBODY, NOBODY)
        yield path


AS_THEY_DO = """
set -e
[ -z "$device" ] || mount --bind "$device" /dev/fuse
as() { {as_nobody} env HOME="$PWD" XDG_CACHE_HOME="$PWD/cache" XDG_RUNTIME_DIR="$PWD" "$@"; }
mkdir mnt; chown {nobody} mnt
as {journalfs} mount -o front=on store mnt
as mkdir -p mnt/orders/orders
as sh -c 'for n in 1 2 3; do echo "line $n" >> mnt/orders/in.txt; done; cat mnt/orders/orders/.messages/*'
as {python} -c 'import json; print(json.load(open("mnt/.journalfs/mount.json"))["front"])'
as {journalfs} umount mnt
"""


def as_they_do(folder: Path, device: str) -> subprocess.CompletedProcess[str]:
    """In a mount namespace of its own, with another device in the place of FUSE's."""
    words = {
        "{as_nobody}": " ".join(AS_NOBODY),
        "{nobody}": f"{NOBODY}:{NOBODY}",
        "{journalfs}": str(JOURNALFS),
        "{python}": sys.executable,
    }
    script = AS_THEY_DO
    for word, stands_for in words.items():
        script = script.replace(word, stands_for)
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=folder,
        env={**os.environ, "device": device, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@needs_root
@pytest.mark.rule("S-275")
def test_users_mount_by_fusermount(theirs: Path) -> None:
    device = theirs / "fuse"
    os.mknod(device, 0o020666, FUSE_DEVICE)
    device.chmod(0o666)
    done = as_they_do(theirs, str(device))
    assert (done.stdout, done.stderr, done.returncode) == ("line 1line 2line 3on\n", "", 0)


@needs_root
def test_users_who_may_not_are_told(theirs: Path) -> None:
    device = theirs / "fuse"
    os.mknod(device, 0o020600, FUSE_DEVICE)
    done = as_they_do(theirs, str(device))
    assert "/dev/fuse" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode != 0
