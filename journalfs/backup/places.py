"""Where backups lie: a directory, or an object store that fsspec reaches."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from journalfs import door
from journalfs.errors import DependencyMissing, SystemFailure, failing

WAITS_S: Final = 60
"""For somebody else's backup at the same place to be over."""
WAIT_S: Final = 0.1


class BackupPlace(Protocol):
    """Named contents. Names have `/` between their parts. Every call raises `SystemFailure`."""

    shown: str

    def read(self, name: str, bytes_max: int) -> bytes | None:
        """None: there is no such name. A byte more than `bytes_max` says that there are more."""

    def write(self, name: str, content: bytes) -> None:
        """Durable when it returns; whole, or not there."""

    def names(self, folder: str) -> Iterator[str]:
        """The names below a folder, in no order."""

    def remove(self, name: str) -> None:
        """It may be gone."""

    def sync(self) -> None:
        """Make durable that what was written has its names."""

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else makes or removes backups meanwhile; an object store cannot tell."""


def is_url(text: str) -> bool:
    """One letter is no scheme that anybody has."""
    return len(urlsplit(text).scheme) > 1


def place_at(text: str) -> BackupPlace:
    """`DIRECTORY`, or a URL such as `s3://bucket/backups`. Raises `DependencyMissing`, `SystemFailure`."""
    return _Objects(text) if is_url(text) else _Folder(Path(os.path.abspath(text)))


class _Folder:
    """Others may have written it: no link in it is followed, and only regular files are read."""

    def __init__(self, root: Path) -> None:
        self.shown = str(root)
        with failing("use it for backups", root):
            self._root = door.resolved(root)
        self._changed: set[Path] = set()
        """Directories with names that are not durable yet."""

    def read(self, name: str, bytes_max: int) -> bytes | None:
        try:
            return door.read(self._root / name, bytes_max + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SystemFailure.from_os(error, self._root / name, doing="read a backup") from error

    def write(self, name: str, content: bytes) -> None:
        path = self._root / name
        try:
            self._make(path.parent)
            door.replace(path, content, mode=0o600, named=False)  # folders are synced together, once each
        except OSError as error:
            raise SystemFailure.from_os(error, path, doing="write a backup") from error
        self._changed.add(path.parent)

    def _make(self, folder: Path) -> None:
        if not door.is_folder(folder):
            self._make(folder.parent)
            with suppress(FileExistsError):
                door.make_folder(folder, mode=0o700)
            self._changed.add(folder.parent)

    def names(self, folder: str) -> Iterator[str]:
        top = self._root / folder
        with failing("list backups", top):
            for parent, _, names in door.below(top) if door.exists(top) else ():
                for name in map(os.fsdecode, names):
                    if not name.startswith("."):
                        yield os.path.relpath(os.path.join(os.fsdecode(parent), name), self._root)

    def remove(self, name: str) -> None:
        with failing("remove a backup", self._root / name):
            door.remove_if_there(self._root / name)

    def sync(self) -> None:
        with failing("make a backup durable", self._root):
            for folder in sorted(self._changed):
                door.sync(folder)
        self._changed.clear()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with ExitStack() as stack:
            with failing("use it for backups", self._root):
                self._make(self._root)
                held = stack.enter_context(door.folder(self._root))
            self._lock(held)
            yield

    def _lock(self, held: int) -> None:
        until_s = time.monotonic() + WAITS_S
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= until_s:
                    raise SystemFailure(
                        f"{self._root}: somebody else makes or removes backups there, and did so for "
                        f"{WAITS_S} s: try again when that is over",
                        system_errno=errno.EBUSY,
                    ) from error
                time.sleep(WAIT_S)
            else:
                return


class _Objects:
    """An object store writes an object whole, and answers when it is kept."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # noqa: PLC0415 - an optional library
        except ImportError as missing:
            raise DependencyMissing(
                f"backups at {url}", package="fsspec", install="pip install 'journalfs[backup]'"
            ) from missing
        self.shown = url
        try:
            self._files: Any
            with self._doing("reach the backups", ImportError):
                self._files, self._root = fsspec.core.url_to_fs(url)
        except ImportError as missing:
            raise DependencyMissing(
                f"backups at {url}", package="a driver of fsspec", install=f"pip install it: {missing}"
            ) from missing

    @contextmanager
    def _doing(self, doing: str, *meant: type[Exception]) -> Iterator[None]:
        """What its driver raises is a failure, but for what is `meant`."""
        try:
            yield
        except meant:
            raise
        except Exception as error:
            number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
            raise SystemFailure(f"{self.shown}: cannot {doing}: {error}", system_errno=number) from error

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def read(self, name: str, bytes_max: int) -> bytes | None:
        with suppress(FileNotFoundError), self._doing("read a backup", FileNotFoundError):
            return bytes(self._files.cat_file(self._path(name), start=0, end=bytes_max + 1))
        return None

    def write(self, name: str, content: bytes) -> None:
        with self._doing("write a backup"):
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(self._path(name), content)

    def names(self, folder: str) -> Iterator[str]:
        found, root = [], self._root.strip("/")
        with suppress(FileNotFoundError), self._doing("list backups", FileNotFoundError):
            found = self._files.find(self._path(folder))
        for path in found:
            yield path.strip("/").removeprefix(root).lstrip("/")

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError), self._doing("remove a backup", FileNotFoundError):
            self._files.rm_file(self._path(name))

    def sync(self) -> None:
        """Names come with the objects."""

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()
