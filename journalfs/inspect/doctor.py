"""`journalfs doctor`: whether a machine and a disk keep what a store promises; and what to do.

What is looked at comes from `machine` and `flushing`; the functions here only judge, so each can be tried
with facts of any machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from journalfs import door
from journalfs.config.journal_settings import journal_settings
from journalfs.inspect.flushing import BLOCK_BYTES, Latency, backend_of, measure, scratch
from journalfs.inspect.machine import Disk, Machine, MountedOn, clock_is_synchronised, open_files_max

if TYPE_CHECKING:
    from journalfs.config.layout import StoreLayout
    from journalfs.engine.backend import BackendKind

FLUSHES: Final = 50
SLOW_NS: Final = 20_000_000
"""A flush that takes longer: about a disk that turns, or is shared by many."""
UNBELIEVABLE_NS: Final = 20_000
"""A flush that takes less reached no disk, or one with a cache that a battery keeps."""
OPEN_FILES_MIN: Final = 4096
MAPS_SPARE: Final = 4096
"""Mappings of a process besides those of journal files."""
AIO_RINGS_MIN: Final = 8192
MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
NETWORK: Final = frozenset({"nfs", "nfs4"})


class State(StrEnum):
    OK = "ok"
    NOTE = "note"
    """It works, and is hardly what somebody wants."""
    BAD = "bad"
    """Messages may be lost, or a mount fails."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    remedy: str = ""
    """Empty where nothing is to be done."""


def examine(layout: StoreLayout, machine: Machine | None = None) -> Iterator[Finding]:
    """Look at the machine and the disks of a store. A file of a mebibyte is written into the journal's
    directory, and removed again.
    """
    machine = machine or Machine()
    directory = layout.journal_dir
    device = door.status(directory).st_dev
    yield of_mount(directory, machine.mounted_on(device))
    disk = machine.disk(device)
    yield of_write_cache(disk)
    kind = journal_settings(layout.config).journal_type
    try:
        with scratch(directory) as folder:
            used, why = backend_of(folder, kind)
            yield of_backend(kind, used, why)
            yield of_latency(measure(folder, BLOCK_BYTES, FLUSHES), disk)
    except OSError as error:
        user = os.geteuid()
        yield Finding(
            "writing",
            State.BAD,
            f"{directory} cannot be written by user {user}: {error.strerror}",
            "run as the user of the store, or mount with --read-only",
        )
    yield of_aio(machine.number("proc/sys/fs/aio-max-nr"), machine.number("proc/sys/fs/aio-nr"))
    yield from of_limits(open_files_max(), machine.number("proc/sys/vm/max_map_count"), _files(directory))
    yield of_clock(clock_is_synchronised())


def _files(directory: Path) -> int:
    return len(door.names(directory))


def of_mount(directory: Path, mounted: MountedOn | None) -> Finding:
    """Where the journal lies, and with which options."""
    name = "filesystem"
    if mounted is None:
        return Finding(name, State.NOTE, f"the mount of {directory} is not in the mount table")
    said = f"{directory} is on {mounted.place} ({mounted.filesystem}, {','.join(sorted(mounted.options))})"
    for is_so, state, what, remedy in (
        (mounted.filesystem in MEMORY, State.BAD, ": in memory", "put the store on a disk"),
        ("ro" in mounted.options, State.BAD, "", f"mount -o remount,rw {mounted.place}"),
        (
            bool(mounted.options & {"nobarrier", "barrier=0"}),
            State.BAD,
            ": a power cut loses what was durable",
            f"mount -o remount,barrier=1 {mounted.place}; and take it out of /etc/fstab",
        ),
        (
            mounted.filesystem == "overlay",
            State.NOTE,
            ": goes with the container",
            "give the container a volume for the store",
        ),
    ):
        if is_so:
            return Finding(name, state, said + what, remedy)
    return _of_nfs(said, mounted.options) if mounted.filesystem in NETWORK else Finding(name, State.OK, said)


def _of_nfs(said: str, options: frozenset[str]) -> Finding:
    wrong = options & {"soft", "softerr", "nolock", "local_lock=all", "local_lock=flock", "async"}
    if wrong:
        remedy = "mount it with -o hard,vers=4.1, without " + ", ".join(sorted(wrong))
        return Finding("filesystem", State.BAD, f"{said}: writes or locks may be lost", remedy)
    remedy = "one client at a time; see that a second mount from another machine is refused (exit code 7)"
    return Finding("filesystem", State.NOTE, said, remedy)


def of_write_cache(disk: Disk | None) -> Finding:
    """What a power cut takes from the disk's own cache."""
    if disk is None:
        found = "no disk is known below this filesystem: what durable means is its server's or host's affair"
        return Finding("write-cache", State.NOTE, found, "see operate/disks.md")
    if disk.write_cache == "write back":
        found = f"{disk.name} has a cache, which Linux empties at each flush: durable if the disk obeys"
        return Finding("write-cache", State.OK, found)
    found = f"{disk.name} is said to have no cache, or one that outlives a power cut (write through)"
    remedy = (
        f"if it has one, nothing empties it: echo 'write back' > /sys/block/{disk.name}/queue/write_cache; "
        f"hdparm -W /dev/{disk.name} tells"
    )
    return Finding("write-cache", State.OK, found, remedy)


def of_backend(configured: str, used: BackendKind, why: str | None) -> Finding:
    """How the journal is written, and why so."""
    if why is None:
        return Finding("backend", State.OK, f"the journal is written with {used}, as journal-type says")
    found = f"journal-type is {configured}, and {used} is used: {why}"
    remedy = f'set journal-type = "{used}", or put the journal on ext4 or xfs'
    return Finding("backend", State.NOTE, found, remedy)


def of_latency(latency: Latency, disk: Disk | None) -> Finding:
    """How long one flush takes."""
    middle_ns, worst_ns = latency.percentile_ns(50), latency.percentile_ns(99)
    found = (
        f"{latency.write_bytes} bytes are durable after {middle_ns / 1e6:.3f} ms, 99 of 100 after "
        f"{worst_ns / 1e6:.3f} ms (n={len(latency.took_ns)})"
    )
    if middle_ns < UNBELIEVABLE_NS:
        remedy = "a cache with a battery, or nothing is durable: pull the plug once before you trust it"
        return Finding("flush", State.NOTE, f"{found}: less than a disk takes", remedy)
    if middle_ns > SLOW_NS:
        turning = "; this one turns" if disk is not None and disk.rotational else ""
        remedy = f"a disk of its own for journal-directory{turning}; journalfs tune measures more"
        return Finding("flush", State.NOTE, found, remedy)
    return Finding("flush", State.OK, found)


def of_aio(allowed: int | None, used: int | None) -> Finding:
    """Whether ASYNCIO gets its ring."""
    if allowed is None or used is None:
        return Finding("aio-max-nr", State.NOTE, "the kernel does not say how many requests it allows")
    found = f"{used} of {allowed} asynchronous requests of the system are taken"
    if allowed - used < AIO_RINGS_MIN:
        wanted = max(2 * allowed, 1 << 20)
        return Finding("aio-max-nr", State.NOTE, found, f"sysctl -w fs.aio-max-nr={wanted}")
    return Finding("aio-max-nr", State.OK, found)


def of_limits(open_files: int, maps: int | None, files: int) -> Iterator[Finding]:
    """What a process may have, beside what the store has."""
    found = f"a process may have {open_files} open files"
    if open_files < OPEN_FILES_MIN:
        yield Finding(
            "open-files", State.NOTE, found, f"ulimit -n {OPEN_FILES_MIN}, or LimitNOFILE= in the unit"
        )
    else:
        yield Finding("open-files", State.OK, found)
    if maps is None:
        return
    found = f"a process may map {maps} files; the journal has {files}"
    if maps < files + MAPS_SPARE:
        wanted = 2 * (files + MAPS_SPARE)
        yield Finding(
            "mappings", State.BAD, found, f"sysctl -w vm.max_map_count={wanted}, or journalfs compact"
        )
    else:
        yield Finding("mappings", State.OK, found)


def of_clock(synchronised: bool | None) -> Finding:
    """Whether times of messages, schedules and expirations can be believed."""
    if synchronised is None:
        return Finding("clock", State.NOTE, "the kernel does not say whether the clock is kept right")
    if synchronised:
        return Finding("clock", State.OK, "the clock is kept right")
    remedy = "run chronyd or systemd-timesyncd: schedules and expirations go by the clock"
    return Finding("clock", State.NOTE, "nothing keeps the clock right", remedy)
