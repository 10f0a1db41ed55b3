"""An ext4 of its own, in a file, that can be stopped as a power cut stops one."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
"""Nothing more is written, the file system's own journal included."""


@dataclass
class Disk:
    """An ext4 of its own, in a file."""

    image: Path
    mounted: Path

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.mounted))

    def unmount(self) -> None:
        _run("umount", str(self.mounted))

    def stop(self) -> None:
        descriptor = os.open(self.mounted, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def small_ext4(folder: Path, image_bytes: int, *, reserved_percent: int = 5) -> Iterator[Disk]:
    """One of so many bytes, some of them for root alone, mounted below `folder`.

    Skips the test where that cannot be done.
    """
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("mounting a disk image needs root and a loop device")
    made = Disk(folder / "disk.img", folder / "disk")
    made.mounted.mkdir()
    with made.image.open("wb") as file:
        file.truncate(image_bytes)
    _run("mkfs.ext4", "-q", "-m", str(reserved_percent), str(made.image))
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"disk images cannot be mounted here: {error.stderr.decode()}")
    try:
        yield made
    finally:
        # Whoever still has something open there must not keep what comes after from removing the folder.
        if os.path.ismount(made.mounted):
            _run("umount", "--lazy", str(made.mounted))
