"""`df.write.format("journalfs")`: tasks put files aside, the driver publishes them in one transaction."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from journalfs.config.layout import locate_store
from journalfs.errors import NoRoute, SystemFailure, WrongCall, failing
from journalfs.records.older.deriving import derived_base
from journalfs.spark.changing import destination_of, directory_of, refusal_in
from journalfs.spark.envelopes import Envelopes
from journalfs.spark.left import clear_left, leave_folder, make_folder, note_driver
from journalfs.spark.options import Options
from journalfs.spark.place import place_of, require_store
from journalfs.store.write.opening import change

if TYPE_CHECKING:
    from journalfs.store.write.store import WritingStore

PREFIX: Final = "spark-"
"""Begins the plain name that publishes in a mount."""
JOBS: Final = f".{PREFIX}jobs-{os.getuid()}"
"""In the directory of an address or queue of a mount, which lists no staged name: jobs of one user."""
FOLDER: Final = ("journalfs", "spark")
"""In a store that is not mounted, where files wait for the driver; of one in a database, where stores are
derived.
"""


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    names: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go, and the directory in which they wait, which only this job has."""

    store: Path
    address: str
    queue: str | None
    staging: Path
    mount: Path | None = None
    """The root of the mount in which it is, where there is one."""


def target_of(options: Options, job: str) -> Target:
    """Raises `WrongCall` unless path and options name one address or one queue, `NoSuchName` for others."""
    place = place_of(options.path)
    address, queue = destination_of(place, options.queues)
    if place.mount is None:
        in_database = require_store(place.store) is not None
        root = derived_base() if in_database else locate_store(place.store).root
        staging = root.joinpath(*FOLDER, job)
        return Target(place.store, address, queue, staging)
    folder = directory_of(place.mount, address, queue)
    return Target(place.store, address, queue, folder / JOBS / job, place.mount)


class StagingWriter(DataSourceArrowWriter):
    """Made once, and sent to the tasks and to whoever commits."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise WrongCall("format journalfs appends: write in mode append; acknowledge old messages")
        Envelopes(schema)
        self._schema = schema
        self._exact_rows = options.exact_rows
        self._target = target_of(options, uuid.uuid4().hex)
        self._make(self._target)

    @staticmethod
    def _make(target: Target) -> None:
        clear_left(target.staging.parent)
        make_folder(target.staging)
        note_driver(target.staging)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Files of this attempt: another attempt of the same task has other names, and only those count that
        the driver hears of.
        """
        envelopes = Envelopes(self._schema)
        task = TaskContext.get()
        stem = f"part-{task.partitionId() if task else 0:06d}-{uuid.uuid4().hex}"
        names: list[str] = []
        rows = 0
        suffix = ""
        for batch in iterator:
            if not batch.num_rows:
                continue
            if envelopes.suffix(batch) != suffix:
                suffix = envelopes.suffix(batch)
                names.append(f"{stem}-{len(names):06d}.{suffix}")
            self._append(self._target.staging / names[-1], envelopes.content(batch))
            rows += batch.num_rows
        return Written(tuple(names), rows)

    @staticmethod
    def _append(path: Path, content: Any) -> None:
        with failing("put messages aside", path), path.open("ab") as file:
            file.write(content)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        rows = sum(message.rows for message in written)
        if self._exact_rows not in (None, rows):
            raise SystemFailure(
                f"nothing is published: the job has {rows} rows, not the {self._exact_rows} of option "
                "'exactRows'"
            )
        names = {name for message in written for name in message.names}
        staging = self._target.staging
        with failing("publish what the tasks wrote", staging):
            for path in staging.iterdir():
                if path.name not in names:
                    path.unlink()
            if not names:
                staging.rmdir()
            elif self._target.mount is not None:
                self._rename(self._target.mount)
            else:
                self._publish(sorted(names))
                shutil.rmtree(staging)
        leave_folder(staging.parent)

    def _rename(self, mount: Path) -> None:
        """Publish in a mount, which tells only in its events why it refuses."""
        staging = self._target.staging
        try:
            os.rename(staging, staging.parent.with_name(f"{PREFIX}{staging.name}"))
        except OSError as error:
            folder, reason = staging.parent.parent, refusal_in(mount, staging.name)
            if reason is None:
                raise
            refused = f"cannot publish what the tasks wrote: {reason}"
            if error.errno == NoRoute.errno:
                raise NoRoute(str(folder), refused) from error
            raise SystemFailure(f"{folder}: {refused}", system_errno=error.errno) from error

    def _publish(self, names: Sequence[str]) -> None:
        target = self._target
        files = [(target.staging / name, name) for name in names]

        async def publish(opened: WritingStore) -> None:
            await opened.publish_files(target.address, target.queue, files)

        change(target.store, publish)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing of the job stays. Failed tasks send no message: what they wrote is found by the job."""
        staging = self._target.staging
        try:
            shutil.rmtree(staging)
        except FileNotFoundError:
            return  # it was published, or nothing was written
        except OSError as error:
            raise SystemFailure.from_os(error, staging, doing="take back what the tasks wrote") from error
        leave_folder(staging.parent)
