"""What the kernel says of the machine below a store: its mount, its disk, limits, the clock. Reads `/proc`
and `/sys` alone, or trees that are laid out like them.
"""

from __future__ import annotations

import ctypes
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

CLOCK_BYTES: Final = 512
"""More than a `struct timex` has."""
CLOCK_UNSYNCHRONISED: Final = 5
"""What adjtimex(2) returns then: TIME_ERROR."""


class MountedOn(NamedTuple):
    """The filesystem that a directory is on."""

    place: str
    filesystem: str
    source: str
    options: frozenset[str]
    """Of the mount and of the filesystem."""


class Disk(NamedTuple):
    """The block device of a filesystem."""

    name: str
    write_cache: str
    """`write back` or `write through`, as the kernel sees it."""
    rotational: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """`root` has `proc` and `sys`; tests give another one."""

    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """The content of a file of the kernel's; None where there is none."""
        try:
            return (self.root / path).read_text("utf-8", "surrogateescape").strip()
        except (OSError, ValueError):
            return None

    def number(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text is not None and text.lstrip("-").isdigit() else None

    def mounted_on(self, device: int) -> MountedOn | None:
        """The mount of a device (`st_dev`); None where the table has none, as for some overlays."""
        wanted = f"{os.major(device)}:{os.minor(device)}"
        found = None
        for line in (self.text("proc/self/mountinfo") or "").splitlines():
            left, _, right = line.partition(" - ")
            fields, kind = left.split(" "), right.split(" ")
            if len(fields) > 5 and len(kind) > 2 and fields[2] == wanted:
                options = frozenset([*fields[5].split(","), *kind[2].split(",")])
                found = MountedOn(fields[4], kind[0], kind[1], options)
        return found

    def disk(self, device: int) -> Disk | None:
        """The disk that a device is, or is a partition of; None for filesystems without one."""
        place = self.root / "sys/dev/block" / f"{os.major(device)}:{os.minor(device)}"
        try:
            place = place.resolve(strict=True)
        except OSError:
            return None
        for folder in (place, place.parent):
            cache = self.text(str((folder / "queue/write_cache").relative_to(self.root.resolve())))
            if cache is not None:
                turning = self.text(str((folder / "queue/rotational").relative_to(self.root.resolve())))
                return Disk(folder.name, cache, turning == "1")
        return None


def open_files_max() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def clock_is_synchronised() -> bool | None:
    """Whether something keeps the clock right; None where the kernel does not say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(CLOCK_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != CLOCK_UNSYNCHRONISED
