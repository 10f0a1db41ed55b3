"""Who may do what with addresses and queues: what `chmod` and `chown` said, kept in a file of ours.

A line for each change, `CRC32C JSON`: the checksum of the rest in hexadecimal, and address, queue or null,
mode or null for what the mount says, user, group. The last line of a name counts. Without the file everything
has the permissions of the mount; no message is lost with it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from journalfs import door
from journalfs.api import OWNER_ALONE, Permissions
from journalfs.engine.checksums import crc32c
from journalfs.limits import PERMISSIONS_BYTES_MAX
from journalfs.live.index_file import FOLDER

NAME: Final = "permissions"

MODE_MAX: Final = 0o1777
ID_MAX: Final = 0xFFFF_FFFE


Named: TypeAlias = tuple[str, str | None]
"""Names of an address and of a queue bound to it; None: the address."""

_Line: TypeAlias = tuple[str, str | None, int | None, int, int]

_SPARE_LINES: Final = 1024
"""Lines that no longer count and may remain before the file is written again."""


def line_of(named: Named, given: Permissions | None) -> bytes:
    said = (None, -1, -1) if given is None else (given.mode, given.uid, given.gid)
    body = msgspec.json.encode((*named, *said))
    return b"%08x %b\n" % (crc32c(body), body)


def parse(content: bytes) -> tuple[dict[Named, Permissions], list[int]]:
    """Return the permissions in a file, and the offsets of unusable lines. A killed writer leaves an end
    without a line feed.
    """
    kept: dict[Named, Permissions] = {}
    damaged: list[int] = []
    offset = 0
    for line in content.split(b"\n")[:-1]:
        checksum, _, body = line.partition(b" ")
        try:
            if checksum != b"%08x" % crc32c(body):
                raise ValueError(checksum)
            address, queue, mode, uid, gid = msgspec.json.decode(body, type=_Line)
        except ValueError:  # msgspec's own are such
            damaged.append(offset)
        else:
            if mode is None:
                kept.pop((address, queue), None)
            elif 0 <= mode <= MODE_MAX and -1 <= uid <= ID_MAX and -1 <= gid <= ID_MAX:
                kept[address, queue] = Permissions(mode, uid, gid)
            else:
                damaged.append(offset)
        offset += len(line) + 1
    return kept, damaged


class KeptPermissions:
    """The permissions of one store. `tell` is called with what cannot be read."""

    def __init__(self, root: Path, tell: Callable[[str], None]) -> None:
        self._path = root / FOLDER / NAME
        self._kept: dict[Named, Permissions] = {}
        self._lines = self._end = 0
        """How many there are, and where the next one begins."""
        self._otherwise: Permissions | None = None
        """The permissions of names without a line."""
        self._read(tell)

    def _read(self, tell: Callable[[str], None]) -> None:
        try:
            content = door.read(self._path, PERMISSIONS_BYTES_MAX + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            self._close(tell, error.strerror or str(error))
            return
        if len(content) > PERMISSIONS_BYTES_MAX:
            self._close(tell, f"it is longer than {PERMISSIONS_BYTES_MAX} bytes")
            return
        self._kept, damaged = parse(content)
        self._lines, self._end = content.count(b"\n"), content.rfind(b"\n") + 1
        if damaged:
            self._close(tell, f"{len(damaged)} lines are damaged, the first at offset {damaged[0]}")

    def _close(self, tell: Callable[[str], None], reason: str) -> None:
        """Leave names without a line to the owner alone, so that damage opens nothing that was closed."""
        self._otherwise = OWNER_ALONE
        what = "addresses and queues of which nothing else is known are their owner's alone"
        tell(
            f"{self._path}: {reason}: {what}; chmod them, or remove the file for the mount's own permissions"
        )

    def __bool__(self) -> bool:
        return bool(self._kept) or self._otherwise is not None

    def of(self, address: str, queue: str | None) -> Permissions | None:
        """Return the permissions of a name; None: those of the mount."""
        return self._kept.get((address, queue), self._otherwise)

    def give(self, address: str, queue: str | None, given: Permissions | None) -> None:
        """Keep it; None: it is as the mount says. Raises OSError."""
        named = address, queue
        if given is None and named not in self._kept:
            return
        self._end += self._appended(line_of(named, given))
        self._lines += 1
        if given is None:
            del self._kept[named]
        else:
            self._kept[named] = given
        if self._lines > 2 * len(self._kept) + _SPARE_LINES and self._otherwise is None:
            lines = [line_of(*one) for one in self._kept.items()]
            self._lines, self._end = len(lines), self._written_anew(b"".join(lines))

    def _appended(self, line: bytes) -> int:
        if self._end + len(line) > PERMISSIONS_BYTES_MAX:
            raise OSError(errno.ENOSPC, "more permissions than are kept", str(self._path))
        door.make_folders(self._path.parent)
        descriptor = door.open_or_create(self._path)
        try:
            os.ftruncate(descriptor, self._end)  # what a writer did not finish
            if os.pwrite(descriptor, line, self._end) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        finally:
            os.close(descriptor)
        return len(line)

    def _written_anew(self, content: bytes) -> int:
        door.sweep_replacements(self._path)
        door.replace(self._path, content)
        return len(content)
