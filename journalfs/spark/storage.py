"""What lies in a store's directories, asked of the filesystem that Spark reads them from."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from journalfs import door
from journalfs.config.data_directory import JOURNAL_EXTENSION
from journalfs.errors import DecodeError, NotAStore
from journalfs.format import journal_file
from journalfs.limits import CONTROL_FILE_BYTES_MAX, JOURNAL_HEADER_BYTES
from journalfs.live.bindings import read_bindings
from journalfs.records.files.directory import effective_names, read_directory
from journalfs.records.sources import locate_readable
from journalfs.spark.place import is_elsewhere, local_path, refuse_mount

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPECIAL: Final = "[]{}*?\\"
_DIRECTORIES: Final = ("journal", "bindings", "paging", "large-messages")


@dataclass(frozen=True, slots=True)
class Files:
    """A store as Spark reads it: paths for `load`, in which nothing is a pattern that should be a name."""

    journal: tuple[str, ...]
    pages: tuple[str, ...]
    large: tuple[str, ...]
    queues: Mapping[int, str]
    """Names by id."""
    bindings_whole: bool
    """False: queues may be missing in `queues` although they are not deleted."""


def files_of(spark: SparkSession, path: str, *, history: bool = False) -> Files:
    """Find the parts of a store below `path`; `history`: with the journal files that it kept before it used
    them again, as its configuration says where, on this machine. Raises `NotAStore` where there is no
    journal.
    """
    storage = _Storage(spark)
    journal, bindings, paging, large = _directories(path)
    names = storage.names(journal)
    control = storage.control(journal) if journal_file.CONTROL_FILE_NAME in names else None
    chosen = effective_names(
        names, JOURNAL_EXTENSION, control, lambda name: storage.header_id(f"{journal}/{name}")
    )
    if not chosen:
        raise NotAStore(path, f"no journal files in {journal}")
    queues, whole = _bindings(storage, bindings)
    return Files(
        journal=(
            *(literal(f"{journal}/{name}") for name, _ in chosen),
            *(_kept_of(path) if history and not is_elsewhere(path) else ()),
        ),
        pages=storage.matching(f"{literal(paging)}/*/*.page"),
        large=storage.matching(f"{literal(large)}/*.msg"),
        queues=queues,
        bindings_whole=whole,
    )


def literal(path: str) -> str:
    """A path for Spark that means just that path."""
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in path)


def _directories(path: str) -> Sequence[str]:
    """Journal, bindings, paging, large messages: elsewhere than here, where a broker puts them by itself."""
    if is_elsewhere(path):
        return [f"{path.rstrip('/')}/{name}" for name in _DIRECTORIES]
    refuse_mount(path)
    layout, _ = locate_readable(local_path(path))
    here = (layout.journal_dir, layout.bindings_dir, layout.paging_dir, layout.large_dir)
    return [f"file://{one}" for one in here]


def _kept_of(path: str) -> list[str]:
    """The files of a store's history that the journal does not have as they were: with their ids, or as what
    compaction made of them.
    """
    layout, _ = locate_readable(local_path(path))
    if layout.retention_dir is None or not door.is_folder(layout.retention_dir):
        return []
    extension = layout.journal_extension
    listing = read_directory(layout.journal_dir, extension=extension, relative_to=layout.root)
    there = {file.file_id for file in listing.files if not file.compacted}
    kept: dict[int, tuple[int, str]] = {}
    with door.folder(layout.retention_dir) as held:
        for name in sorted(door.names_in(held)):
            parsed = journal_file.parse_history_name(name, extension=extension)
            if parsed is None or parsed.file_id in there:
                continue
            # What was kept before it was full was kept once more.
            one = door.status_in(held, name).st_size, name
            kept[parsed.file_id] = max(one, kept.get(parsed.file_id, one))
    return [literal(f"file://{layout.retention_dir}/{name}") for _, name in kept.values()]


def _bindings(storage: _Storage, directory: str) -> tuple[dict[int, str], bool]:
    """They are small: one machine reads them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in storage.names(directory):
            storage.fetch(f"{directory}/{name}", f"{folder}/{name}")
        state, damage = read_bindings(Path(folder), relative_to=Path(folder))
    queues = {int(queue_id): queue.name for queue_id, queue in state.queues.items()}
    return queues, bool(queues) and not damage


class _Storage:
    """Hadoop's filesystems, asked through the driver's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._settings: Any = context._jsc.hadoopConfiguration()

    def _path(self, path: str) -> tuple[Any, Any]:
        made = self._jvm.org.apache.hadoop.fs.Path(path)
        return made.getFileSystem(self._settings), made

    def names(self, directory: str) -> list[str]:
        """Names in a directory; none where there is no such directory."""
        system, path = self._path(directory)
        if not system.exists(path):
            return []
        return sorted(one.getPath().getName() for one in system.listStatus(path))

    def matching(self, pattern: str) -> tuple[str, ...]:
        """The pattern, if it matches anything: Spark fails where it does not."""
        system, path = self._path(pattern)
        found = system.globStatus(path)
        return (pattern,) if found is not None and len(found) else ()

    def fetch(self, path: str, target: str) -> None:
        system, found = self._path(path)
        system.copyToLocalFile(False, found, self._jvm.org.apache.hadoop.fs.Path(f"file://{target}"), True)

    def beginning(self, path: str, bytes_max: int) -> bytes:
        system, found = self._path(path)
        stream = system.open(found)
        try:
            return bytes(stream.readNBytes(bytes_max))
        finally:
            stream.close()

    def control(self, directory: str) -> journal_file.ControlFile | None:
        """What a compaction that was not finished left to be done; a damaged one counts for nothing."""
        try:
            return journal_file.decode_control_file(
                self.beginning(f"{directory}/{journal_file.CONTROL_FILE_NAME}", CONTROL_FILE_BYTES_MAX)
            )
        except DecodeError:
            return None

    def header_id(self, path: str) -> int | None:
        try:
            return journal_file.read_header(self.beginning(path, JOURNAL_HEADER_BYTES)).file_id
        except DecodeError:
            return None
