"""`journalfs doctor` and `tune`: what is found on which machine, and what to do about it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.config.layout import locate_store
from journalfs.engine.backend import BackendKind
from journalfs.inspect import doctor
from journalfs.inspect.doctor import Finding, State
from journalfs.inspect.flushing import Latency, measure, scratch
from journalfs.inspect.machine import Disk, Machine, MountedOn, clock_is_synchronised
from journalfs.inspect.tuning import curve, judged, toml, xml
from tests.mounting import journalfs

STORE = Path("/data/journal")


def mounted(filesystem: str, *options: str) -> MountedOn:
    return MountedOn("/data", filesystem, "/dev/sda1", frozenset(("rw", *options)))


def flushes(*took_ms: float, write_bytes: int = 4096) -> Latency:
    return Latency(write_bytes, tuple(sorted(int(one * 1e6) for one in took_ms)))


BACK, THROUGH = Disk("sda", "write back", False), Disk("sda", "write through", True)

CASES: dict[str, tuple[Callable[[], Finding], State, str, str]] = {
    "a disk": (lambda: doctor.of_mount(STORE, mounted("ext4")), State.OK, "is on /data (ext4", ""),
    "memory": (lambda: doctor.of_mount(STORE, mounted("tmpfs")), State.BAD, "in memory", "on a disk"),
    "read only": (
        lambda: doctor.of_mount(STORE, MountedOn("/data", "xfs", "/dev/sda1", frozenset({"ro"}))),
        State.BAD,
        "/data",
        "remount,rw /data",
    ),
    "no barriers": (
        lambda: doctor.of_mount(STORE, mounted("ext4", "nobarrier")),
        State.BAD,
        "a power cut loses",
        "barrier=1",
    ),
    "a container": (lambda: doctor.of_mount(STORE, mounted("overlay")), State.NOTE, "container", "volume"),
    "soft NFS": (
        lambda: doctor.of_mount(STORE, mounted("nfs4", "soft", "local_lock=none")),
        State.BAD,
        "may be lost",
        "without soft",
    ),
    "NFS without locks": (
        lambda: doctor.of_mount(STORE, mounted("nfs", "hard", "nolock")),
        State.BAD,
        "may be lost",
        "without nolock",
    ),
    "hard NFS": (lambda: doctor.of_mount(STORE, mounted("nfs4", "hard")), State.NOTE, "nfs4", "one client"),
    "no mount": (lambda: doctor.of_mount(STORE, None), State.NOTE, "not in the mount table", ""),
    "write back": (lambda: doctor.of_write_cache(BACK), State.OK, "empties at each flush", ""),
    "write through": (lambda: doctor.of_write_cache(THROUGH), State.OK, "no cache", "hdparm -W /dev/sda"),
    "no device": (lambda: doctor.of_write_cache(None), State.NOTE, "no disk is known", "disks.md"),
    "as configured": (
        lambda: doctor.of_backend("ASYNCIO", BackendKind.AIO, None),
        State.OK,
        "with ASYNCIO",
        "",
    ),
    "another backend": (
        lambda: doctor.of_backend("ASYNCIO", BackendKind.NIO, "asynchronous I/O is refused (x)"),
        State.NOTE,
        "NIO is used: asynchronous I/O is refused (x)",
        'journal-type = "NIO"',
    ),
    "quick enough": (lambda: doctor.of_latency(flushes(1, 2, 9), BACK), State.OK, "after 2.000 ms", ""),
    "slow": (lambda: doctor.of_latency(flushes(30, 30, 30), THROUGH), State.NOTE, "30.000", "this one turns"),
    "too quick": (
        lambda: doctor.of_latency(flushes(0.005, 0.005), BACK),
        State.NOTE,
        "less than a disk takes",
        "pull the plug",
    ),
    "rings": (lambda: doctor.of_aio(65536, 100), State.OK, "100 of 65536", ""),
    "rings are spent": (lambda: doctor.of_aio(65536, 65000), State.NOTE, "65000 of", "aio-max-nr=1048576"),
    "no rings": (lambda: doctor.of_aio(None, None), State.NOTE, "does not say", ""),
    "few files": (lambda: next(doctor.of_limits(1024, None, 3)), State.NOTE, "1024", "ulimit -n 4096"),
    "files": (lambda: next(doctor.of_limits(65536, None, 3)), State.OK, "65536", ""),
    "few mappings": (
        lambda: [*doctor.of_limits(65536, 65530, 70_000)][1],
        State.BAD,
        "the journal has 70000",
        "vm.max_map_count=148192",
    ),
    "mappings": (lambda: [*doctor.of_limits(65536, 65530, 9)][1], State.OK, "65530", ""),
    "a clock": (lambda: doctor.of_clock(True), State.OK, "kept right", ""),
    "a free clock": (lambda: doctor.of_clock(False), State.NOTE, "nothing keeps", "chronyd"),
    "no clock": (lambda: doctor.of_clock(None), State.NOTE, "does not say", ""),
}


@pytest.mark.rule("S-429")
@pytest.mark.parametrize("case", CASES)
def test_a_finding_and_its_remedy(case: str) -> None:
    make, state, found, remedy = CASES[case]
    finding = make()
    assert (finding.state, found in finding.found) == (state, True), finding
    assert remedy in finding.remedy
    assert finding.remedy or state is not State.BAD, "what is bad has a remedy"


def test_the_kernels_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/sys/fs").mkdir(parents=True)
    (tmp_path / "proc/sys/fs/aio-nr").write_text("17\n")
    (tmp_path / "proc/self/mountinfo").write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
        "30 22 8:3 / /var rw,noatime - xfs /dev/sda3 rw,nobarrier\n"
    )
    disk = tmp_path / "sys/devices/pci/block/sda"
    (disk / "sda3").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue/write_cache").write_text("write back\n")
    (disk / "queue/rotational").write_text("1\n")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/8:3").symlink_to(disk / "sda3")
    machine, device = Machine(tmp_path), os.makedev(8, 3)
    found = machine.mounted_on(device)
    assert found == MountedOn("/var", "xfs", "/dev/sda3", frozenset({"rw", "noatime", "nobarrier"}))
    assert machine.disk(device) == Disk("sda", "write back", True)
    assert (machine.number("proc/sys/fs/aio-nr"), machine.number("proc/sys/fs/none")) == (17, None)
    assert (machine.mounted_on(os.makedev(9, 9)), machine.disk(os.makedev(9, 9))) == (None, None)
    assert clock_is_synchronised() in (True, False, None)


@pytest.mark.rule("S-429")
def test_the_command_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    before = sorted((str(path), path.stat().st_size) for path in store.rglob("*"))
    done = journalfs("doctor", store, "--json")
    found = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert {
        "filesystem",
        "write-cache",
        "backend",
        "flush",
        "aio-max-nr",
        "clock",
        "fuse",
        "versions",
    } <= set(found)
    assert done.returncode == (2 if any(one["state"] == "bad" for one in found.values()) else 0)
    assert "(n=50)" in found["flush"]["found"]
    for words in (["tune", "--flushes", "3"], ["tune", "--flushes", "3", "--json"]):
        done = journalfs(*words, store)
        assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)
    assert settings["journal-type"] in ("ASYNCIO", "NIO")
    assert settings["flushesASecond"] > 0
    assert sorted((str(path), path.stat().st_size) for path in store.rglob("*")) == before


def test_a_directory_that_is_not_ours_is_told(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    layout = locate_store(store)
    folder = layout.journal_dir / f".journalfs-probe-{os.getpid()}"
    folder.mkdir()  # as a probe of the same process that was killed
    (finding,) = (one for one in doctor.examine(layout) if one.name == "writing")
    assert (finding.state, finding.remedy != "") == (State.BAD, True)


def test_settings_follow_from_what_was_measured() -> None:
    latencies = [
        flushes(1, 1, 3),
        flushes(1.5, 1.5, 4, write_bytes=1 << 18),
        flushes(9, 9, 9, write_bytes=1 << 20),
    ]
    found = judged("ASYNCIO", None, latencies, 10 << 20)
    assert toml(found) == (
        'journal-type = "ASYNCIO"\njournal-buffer-timeout = 1000000\njournal-buffer-size = 501760\n'
    )
    assert xml(found).splitlines()[1] == "<journal-buffer-timeout>1000000</journal-buffer-timeout>"
    larger = judged("NIO", "refused", [*latencies[:2], flushes(2, 2, 2, write_bytes=1 << 20)], 10 << 20)
    assert larger.buffer_size_bytes == 1 << 20, "a mebibyte takes twice as long as a block"
    assert judged("NIO", None, latencies, 100_000).buffer_size_bytes == 100_000, "a file is not longer"
    lines = [*curve(latencies)]
    assert [line.count("#") for line in lines] == [4, 7, 40]
    assert lines[0].rstrip().endswith("####---------")


def test_what_is_measured_is_removed(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        latency = measure(folder, 8192, 5)
        assert os.listdir(folder) == []
    assert (latency.write_bytes, len(latency.took_ns)) == (8192, 5)
    assert latency.took_ns == tuple(sorted(latency.took_ns))
    assert latency.percentile_ns(0) <= latency.percentile_ns(50) <= latency.percentile_ns(100)
    assert os.listdir(tmp_path) == []
