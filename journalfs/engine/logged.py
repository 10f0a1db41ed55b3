"""Journal files that follow another log: what is flushed is committed there first.

The files are then only what the store reads; the log says what is durable.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from journalfs.engine.backend import BackendKind, Completion, OpenFile
from journalfs.engine.disk import DiskBackend
from journalfs.engine.stage import Stage, StagedRecord
from journalfs.errors import JournalfsError, StoreAway

log = logging.getLogger(__name__)


class RecordLog(Protocol):
    """Where records go. Used from one thread at a time."""

    def commit(self, records: Iterable[StagedRecord]) -> None:
        """Make a flush durable, all of it or nothing. Raises JournalfsError and OSError; `StoreAway` where
        the very same is to be asked again.
        """


class LoggedBackend(DiskBackend):
    """Flushes are committed to a log, in a thread of its own, before they are in the files."""

    performs = False  # a log may take long, and nobody knows before

    def __init__(self, directory: Path, record_log: RecordLog, told: Callable[[str], None]) -> None:
        """`told` hears, in any thread, why a flush could not be committed."""
        super().__init__(directory, BackendKind.NIO, datasync=False)
        self._log = record_log
        self._told = told
        self._ends = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"log-of-{directory.name}")
        self._finished: deque[Completion] = deque()
        self._local_fd, self.event_fd = self.event_fd, os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def perform(self, file: OpenFile, stage: Stage, length: int) -> int:
        """Raises StoreAway."""
        try:
            self._log.commit(stage.staged_records())
        except StoreAway:
            raise
        except (JournalfsError, OSError) as error:
            self._told(str(error))
            return error.errno or errno.EIO
        return super().perform(file, stage, length)

    def submit(self, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int) -> None:
        def work() -> None:
            result, goes_on = errno.EIO, True
            while goes_on:
                goes_on = False
                try:
                    result = self.perform(file, stage, length)
                except StoreAway as away:
                    goes_on = not self._ends.is_set()
                    if goes_on:
                        self._finish(Completion(tag, 0, away))
                except Exception:
                    log.exception("a flush ended badly")
            self._finish(Completion(tag, result))

        self._thread.submit(work)

    def _finish(self, completion: Completion) -> None:
        self._finished.append(completion)
        assert self.event_fd is not None
        os.eventfd_write(self.event_fd, 1)

    def completed(self, timeout_ns: int) -> list[Completion]:
        assert self.event_fd is not None
        if not self._finished and timeout_ns:
            waiting = select.poll()  # `select` takes no large descriptors
            waiting.register(self.event_fd, select.POLLIN)
            waiting.poll(timeout_ns / 1e6)
        try:
            os.eventfd_read(self.event_fd)
        except BlockingIOError:
            return []
        return [self._finished.popleft() for _ in range(len(self._finished))]

    def close(self) -> None:
        self._ends.set()
        self._thread.shutdown()
        if self.event_fd is not None:
            os.close(self.event_fd)
            self.event_fd = self._local_fd
        super().close()
