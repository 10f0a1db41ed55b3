"""Journal files that follow another log: each flush is committed to the log first.

The store reads only the files; what is durable is what the log says.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from journalfs import door
from journalfs.engine.backend import LEFT, BackendKind, Completion, OpenFile
from journalfs.engine.disk import DiskBackend
from journalfs.engine.stage import Stage, StagedRecord
from journalfs.engine.tail import Tail
from journalfs.errors import JournalfsError, StoreAway

log = logging.getLogger(__name__)


TAKEN_OVER_S: Final = 0.25
"""Time after which a thread waits for the log's answer."""


class RecordLog(Protocol):
    """Where records go. Used from one thread at a time."""

    def commit(self, records: Iterable[StagedRecord]) -> None:
        """Make a flush durable, all of it or nothing. Raises JournalfsError and OSError; `StoreAway` where
        the very same is to be asked again.
        """


class PromptLog(RecordLog, Protocol):
    """One that can be asked without a thread that waits. `commit` goes on with what was begun."""

    @property
    def is_local(self) -> bool:
        """True if the log answers as fast as a disk: call `attempt`. False: call `begin`."""

    def attempt(self, records: Iterable[StagedRecord]) -> bool:
        """Whether a flush is durable now; if not, it is for `commit`."""

    def begin(self, records: Iterable[StagedRecord]) -> int | None:
        """Begin a commit. Returns a descriptor that becomes readable when `look` has news; None: call
        `commit`.
        """

    def look(self) -> bool | None:
        """Return True if the begun commit is durable, None while that is unknown, False if `commit` has to
        find out.
        """


@dataclass(frozen=True, slots=True)
class _Begun:
    """A flush that a log was asked for without a thread."""

    file: OpenFile
    stage: Stage
    length: int
    tag: int
    descriptor: int


class Writes(Protocol):
    def give_up(self, reason: str) -> None: ...


class Failing:
    """Tells the journals of a store, from any thread, why nothing can be written any more. Before the
    journals are open, it tells the program's log.
    """

    def __init__(self) -> None:
        self._writes: Writes | None = None

    def heard_by(self, writes: Writes) -> None:
        self._writes = writes

    def __call__(self, reason: str) -> None:
        if self._writes is None:
            log.error(reason)
        else:
            self._writes.give_up(reason)


class LoggedBackend(DiskBackend):
    """Flushes are committed to a log before they are in the files: in a thread of its own, unless the log can
    be asked without.
    """

    def __init__(
        self,
        directory: Path,
        record_log: RecordLog,
        told: Callable[[str], None],
        prompt: PromptLog | None = None,
    ) -> None:
        """`told` hears, in any thread, why a flush could not be committed. `prompt` is the log, if it is."""
        super().__init__(directory, BackendKind.NIO, datasync=False)
        self._log, self._prompt = record_log, prompt
        self.defers = prompt is not None
        self.performs = prompt is not None and prompt.is_local
        self._told = told
        self._ends = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"log-of-{directory.name}")
        self._finished: deque[Completion] = deque()
        self._begun: _Begun | None = None
        self._beginning = threading.Lock()
        """Held by who changes what is begun, and asks the log for it."""
        self._watcher: threading.Thread | None = None
        self._rung = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._events = select.epoll()
        self._events.register(self._rung, select.EPOLLIN)
        self._local_fd, self.event_fd = self.event_fd, self._events.fileno()

    def allocate(self, name: str, size_bytes: int) -> None:
        """Room on the disk: nothing of it is to last."""
        fd = door.create_instead(self.directory / name)
        try:
            os.posix_fallocate(fd, 0, size_bytes)
        finally:
            os.close(fd)

    def perform(self, file: OpenFile, stage: Stage, length: int) -> int:
        return super().perform(file, stage, length) if self._attempted(stage) else LEFT

    def _attempted(self, stage: Stage) -> bool:
        assert self._prompt is not None
        try:
            return self._prompt.attempt(stage.staged_records())
        except JournalfsError:  # `commit` meets and tells it
            return False

    def _committed(self, file: OpenFile, stage: Stage, length: int) -> int:
        """Raises StoreAway."""
        try:
            self._log.commit(stage.staged_records())
        except StoreAway:
            raise
        except (JournalfsError, OSError) as error:
            self._told(str(error))
            return error.errno or errno.EIO
        return super().perform(file, stage, length)

    def took_ns(self) -> None:
        """The log's part is not known."""

    def lend(self, file: OpenFile, tail: Tail) -> None:
        if tail.is_left:
            tail.by_owner()
            return
        super().lend(file, tail)
        tail.logged(self._attempted)

    def submit(self, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int) -> None:
        descriptor = None if self._prompt is None else self._prompt.begin(stage.staged_records())
        if descriptor is None:
            self._thread.submit(self._work, file, stage, length, tag)
            return
        with self._beginning:
            self._begun = _Begun(file, stage, length, tag, descriptor)
            self._events.register(descriptor, select.EPOLLIN)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="log-watcher", daemon=True)
                self._watcher.start()

    def _work(self, file: OpenFile, stage: Stage, length: int, tag: int) -> None:
        result, goes_on = errno.EIO, True
        while goes_on:
            goes_on = False
            try:
                result = self._committed(file, stage, length)
            except StoreAway as away:
                goes_on = not self._ends.is_set()
                if goes_on:
                    self._finish(Completion(tag, 0, away))
            except Exception:
                log.exception("a flush ended badly")
        self._finish(Completion(tag, result))

    def _finish(self, completion: Completion) -> None:
        self._finished.append(completion)
        self.ring()

    def ring(self) -> None:
        os.eventfd_write(self._rung, 1)

    # ---- without a thread ----

    def _looked(self) -> Completion | None:
        """Return the outcome of the pending commit. If it is unknown, a thread is started that
        asks the log.
        """
        with self._beginning:
            begun = self._begun
            if begun is None:
                return None
            assert self._prompt is not None
            is_durable = self._prompt.look()
            if is_durable is None:
                return None
            self._let_go(begun)
            if not is_durable:
                self._thread.submit(self._work, begun.file, begun.stage, begun.length, begun.tag)
                return None
        return Completion(begun.tag, super().perform(begun.file, begun.stage, begun.length))

    def _let_go(self, begun: _Begun) -> None:
        self._begun = None
        with suppress(OSError):  # one that was closed is forgotten
            self._events.unregister(begun.descriptor)

    def _watch(self) -> None:
        """Take over what takes long, as long as anything is begun."""
        before = None
        while True:
            self._ends.wait(TAKEN_OVER_S)
            with self._beginning:
                begun = self._begun
                if begun is not None and (begun is before or self._ends.is_set()):
                    self._let_go(begun)
                    self._thread.submit(self._work, begun.file, begun.stage, begun.length, begun.tag)
                    begun = None
                if begun is None:
                    self._watcher = None
                    return
                before = begun

    def completed(self, timeout_ns: int) -> list[Completion]:
        if not self._finished and timeout_ns:
            self._events.poll(timeout_ns / 1e9)
        looked = self._looked()
        with suppress(BlockingIOError):
            os.eventfd_read(self._rung)
        found = [self._finished.popleft() for _ in range(len(self._finished))]
        return found if looked is None else [looked, *found]

    def close(self) -> None:
        self._ends.set()
        if (watcher := self._watcher) is not None:
            watcher.join()
        self._thread.shutdown()
        if self.event_fd is not None:
            self._events.close()
            os.close(self._rung)
            self.event_fd = self._local_fd
        super().close()
