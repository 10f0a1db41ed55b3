"""A directory seen through a disk that fails: reads of chosen stretches of its files give EIO, and chosen
files are sometimes listed and not there.

The kernel maps files of this filesystem as it maps any other, so a mapped page that it cannot fill raises
SIGBUS in whoever touches it, as a bad sector does. Run as a program it serves; `failing_disk` starts it.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyfuse3
import trio

Stretch = tuple[int, int]
"""Offset, and offset behind the end."""

ROOT = Path(__file__).parents[2]


@contextmanager
def failing_disk(
    source: Path,
    seen: Path,
    bad: Mapping[str, Sequence[Stretch]] | None = None,
    *,
    gone: Mapping[str, Sequence[int]] | None = None,
) -> Iterator[None]:
    """Show `source` at `seen`; `bad` says which bytes of which files, by relative path, cannot be read.

    `gone` says which times of opening a file, counted from 0, there is no such file: as when a broker renames
    it between listing and opening.
    """
    seen.mkdir()
    trouble = json.dumps({"bad": bad or {}, "gone": gone or {}})
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "tests.tools.failing_disk",
        source,
        seen,
        trouble,
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            subprocess.run(["fusermount3", "-u", "-z", seen], check=True)
            process.terminate()


class FailingDisk(pyfuse3.Operations):
    def __init__(
        self, source: str, bad: Mapping[str, Sequence[Stretch]], gone: Mapping[str, Sequence[int]]
    ) -> None:
        super().__init__()
        self._paths: dict[int, str] = {pyfuse3.ROOT_INODE: source}
        self._inodes = {source: int(pyfuse3.ROOT_INODE)}
        self._bad = {os.path.join(source, name): stretches for name, stretches in bad.items()}
        self._gone = {os.path.join(source, name): times for name, times in gone.items()}
        self._opened: Counter[str] = Counter()

    def _attributes(self, path: str) -> pyfuse3.EntryAttributes:
        try:
            status = os.lstat(path)
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno or errno.EIO) from error
        inode = self._inodes.setdefault(path, len(self._inodes) + 1)
        self._paths[inode] = path
        found = pyfuse3.EntryAttributes()
        found.st_ino = inode
        for name in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_mtime_ns", "st_ctime_ns"):
            setattr(found, name, getattr(status, name))
        found.attr_timeout = found.entry_timeout = 1
        return found

    async def lookup(self, parent_inode: int, name: bytes, ctx: object = None) -> pyfuse3.EntryAttributes:
        return self._attributes(os.path.join(self._paths[parent_inode], os.fsdecode(name)))

    async def getattr(self, inode: int, ctx: object = None) -> pyfuse3.EntryAttributes:
        return self._attributes(self._paths[inode])

    async def opendir(self, inode: int, ctx: object) -> int:
        return inode

    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        folder = self._paths[fh]
        for number, name in enumerate(sorted(os.listdir(folder))[start_id:], start_id + 1):
            attributes = self._attributes(os.path.join(folder, name))
            if not pyfuse3.readdir_reply(token, os.fsencode(name), attributes, number):
                return

    async def open(self, inode: int, flags: int, ctx: object) -> pyfuse3.FileInfo:
        path = self._paths[inode]
        self._opened[path] += 1
        if self._opened[path] - 1 in self._gone.get(path, ()):
            raise pyfuse3.FUSEError(errno.ENOENT)
        return pyfuse3.FileInfo(fh=inode)

    async def read(self, fh: int, offset: int, size: int) -> bytes:
        path = self._paths[fh]
        if any(begin < offset + size and offset < end for begin, end in self._bad.get(path, ())):
            raise pyfuse3.FUSEError(errno.EIO)
        with open(path, "rb") as file:
            return os.pread(file.fileno(), size, offset)


def serve(source: str, seen: str, trouble: str) -> None:
    disk = FailingDisk(source, **json.loads(trouble))
    pyfuse3.init(disk, seen, {*pyfuse3.default_options, "fsname=failing-disk", "ro"})
    print("ready", flush=True)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=False)


if __name__ == "__main__":
    serve(*sys.argv[1:])
