"""Folders that hold what pipelines keep: on this machine, or wherever Hadoop reads and writes.

What is in one changes only by renames that either happen or do not: something is prepared under a name that
no reader looks at, and `commit` gives it the name that counts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from journalfs import door
from journalfs.engine.links import rename
from journalfs.errors import NotAStore, SystemFailure, failing
from journalfs.spark.place import is_elsewhere, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RUN: Final = "run="
"""Begins the name of what a run added to an archive."""
ARCHIVE: Final = "the folder that `journalfs pipeline archive --output` wrote to"
TAKEN: Final = "was written by another run meanwhile; run this one again"
_GONE: Final = "was taken care of by another run meanwhile; run this one again"


class Folder(Protocol):
    """Every method raises `SystemFailure`."""

    def uri(self, name: str = "") -> str:
        """Of the folder or of something in it, as Spark writes to it. To read, see `storage.literal`."""

    def make(self) -> None:
        """Make it, and those above it. It may be there."""

    def names(self) -> list[str]:
        """What is in it, sorted; nothing where there is no such folder."""

    def size_bytes(self, name: str) -> int:
        """Of a file, or of all files below a folder."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None:
        """Make a file. It is whole and durable once `commit` gave it or its folder the final name."""

    def commit(self, name: str, final: str) -> None:
        """Give a file or a folder the name that counts, durably and at once. Fails if it is taken,
        and if another run has moved or removed what is to get it.
        """

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all that is in it. It may be gone."""


def folder_at(spark: SparkSession, path: str) -> Folder:
    """A path without a scheme is one of this machine."""
    if is_elsewhere(path):
        return HadoopFolder(spark, path)
    return LocalFolder(local_path(path))


def runs(archive: Folder) -> list[int]:
    """Numbers of an archive's runs that count."""
    numbers = [name.removeprefix(RUN) for name in archive.names() if name.startswith(RUN)]
    return [int(number) for number in numbers if number.isdigit()]


def require_archive(folder: Folder) -> None:
    """Raises `NotAStore` where no run of an archive is."""
    if not runs(folder):
        raise NotAStore(folder.uri(), "no archive of messages is here", give=ARCHIVE)


class LocalFolder:
    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))

    def uri(self, name: str = "") -> str:
        return f"file://{self.path / name}"

    def make(self) -> None:
        with self._refused("make the folder"):
            self.path.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        with self._refused("list it"):
            try:
                return sorted(os.listdir(self.path))
            except FileNotFoundError:
                return []

    def size_bytes(self, name: str) -> int:
        path = self.path / name
        with self._refused("look at what is in it"):
            files = path.rglob("*") if path.is_dir() else (path,)
            return sum(one.stat().st_size for one in files if not one.is_dir())

    def read(self, name: str) -> bytes:
        with self._refused("read what was noted"):
            return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        with self._refused("write to it"):
            (self.path / name).write_bytes(content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file that is whole at any moment, as it was or as it is to be."""
        path = self.path / name
        with self._refused("note what was found"):
            path.with_name(f"{path.name}.new").write_bytes(content)
            os.replace(path.with_name(f"{path.name}.new"), path)

    def commit(self, name: str, final: str) -> None:
        source, target = self.path / name, self.path / final
        if target.exists():
            raise SystemFailure(f"{target} {TAKEN}")
        if not source.exists():
            raise SystemFailure(f"{source} {_GONE}")
        with self._refused("make it durable"):
            for path in (*source.rglob("*"), source):
                door.sync(path)
        with self._refused("give it the name that counts"):
            rename(source, target)

    def remove(self, name: str) -> None:
        path = self.path / name
        with self._refused("clear away what was not finished"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _refused(self, doing: str) -> Iterator[None]:
        with failing(doing, self.path):
            yield


class HadoopFolder:
    """The filesystem must rename a folder at once, as HDFS does; object stores that copy do not."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._root = path.rstrip("/")
        settings: Any = context._jsc.hadoopConfiguration()
        with self._refused("reach it"):
            there = self._path("").toUri()
            self._files: Any = self._jvm.org.apache.hadoop.fs.FileSystem.get(there, settings)
            self._context: Any = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(there, settings)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)

    def uri(self, name: str = "") -> str:
        return f"{self._root}/{name}" if name else self._root

    def make(self) -> None:
        with self._refused("make the folder"):
            self._files.mkdirs(self._path(""))

    def names(self) -> list[str]:
        with self._refused("list it"):
            if not self._files.exists(self._path("")):
                return []
            return sorted(one.getPath().getName() for one in self._files.listStatus(self._path("")))

    def size_bytes(self, name: str) -> int:
        with self._refused("look at what is in it"):
            return int(self._files.getContentSummary(self._path(name)).getLength())

    def read(self, name: str) -> bytes:
        with self._refused("read what was noted"):
            stream = self._files.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        with self._refused("write to it"):
            stream = self._files.create(self._path(name), True)
            try:
                stream.write(bytearray(content))
                stream.hsync()
            finally:
                stream.close()

    def commit(self, name: str, final: str) -> None:
        with self._refused("give it the name that counts"):
            if self._files.exists(self._path(final)):
                raise SystemFailure(f"{self._root}/{final} {TAKEN}")
            if not self._files.exists(self._path(name)):
                raise SystemFailure(f"{self._root}/{name} {_GONE}")
            rename = self._jvm.org.apache.hadoop.fs.Options.Rename
            self._context.rename(self._path(name), self._path(final), self._gateway.new_array(rename, 0))

    def remove(self, name: str) -> None:
        with self._refused("clear away what was not finished"):
            self._files.delete(self._path(name), True)

    @contextmanager
    def _refused(self, doing: str) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with Spark

        try:
            yield
        except Py4JJavaError as error:
            reason = str(error.java_exception.toString()).partition("\n")[0]
            raise SystemFailure(f"{self._root}: cannot {doing}: {reason}") from error
