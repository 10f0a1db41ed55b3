"""The kernel's table of mounts, which asks no mounted filesystem anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILESYSTEM_TYPE: Final = "fuse.journalfs"
MOUNT_TABLE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mounted:
    """A line of the kernel's mount table. `device` is `major:minor`."""

    device: str
    path: str
    filesystem: str
    source: str


def mounts() -> list[Mounted]:
    """All mounts this process sees, in the order they were made."""
    table = MOUNT_TABLE.read_bytes().decode("utf-8", "surrogateescape")
    return [_parse_mount(line) for line in table.splitlines()]


def mounted_at(path: Path) -> Mounted | None:
    """What is mounted exactly at `path`, the topmost if there are several."""
    return next((mount for mount in reversed(mounts()) if mount.path == str(path)), None)


def places_of(device: str) -> list[str]:
    """Where a filesystem is mounted: in several places if somebody bound it to another one."""
    return [mount.path for mount in mounts() if mount.device == device]


def _parse_mount(line: str) -> Mounted:
    # "id parent major:minor root mountpoint options [tags...] - type source options"
    left, _, right = line.partition(" - ")
    fields = left.split(" ")
    filesystem, source, *_ = [*right.split(" "), "", ""]
    return Mounted(fields[2], _unescape(fields[4]), filesystem, _unescape(source))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
