"""The front: C that reads the kernel's requests ahead of pyfuse3 and answers those whose answer is known.

It keeps answers of Python, as libfuse wrote them. They hold until any code runs that is not the handler of a
request which only looks: `FastWait` calls `revoke` before each step of another task, and `Operations` before
each request that may change something. So an answer of C is the one that Python would give.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from journalfs.api import WritableStore
    from journalfs_mount.front.hot_writes import HotWrites, OpenFiles

WINDOW_BYTES: Final = 65_536
"""Content that is rendered ahead for who reads an open part in small steps."""

CHAOS: Final = "JOURNALFS_FRONT_CHAOS"
"""For tests: something is revoked before every so many requests."""
SHADOW: Final = "JOURNALFS_FRONT_SHADOW"
"""For tests: nothing is answered in C, but all that could be is compared with what Python answers."""

_NAMES: Final = (
    *("getattr", "lookup", "missing", "open", "create", "read", "flush", "release", "write"),
    *("unknown", "revoked", "releasing", "held", "unlent", "named", "flags", "crowded", "unready"),
    *("unpublished", "other"),
    *("by_spare", "revokes", "compared", "differed", "flushes"),
)
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_RETURNED_MAX: Final = 64
_LOADED: Final[list[ModuleType]] = []


class FrontUnavailableError(Exception):
    """The front cannot be used here, and why."""


def load() -> None:
    """Have libfuse's sessions found by the front. Called before pyfuse3 is imported, which looks for what it
    needs then; without effect where the front was not built.
    """
    if _LOADED:
        return
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_GLOBAL)
    try:
        from journalfs_mount.front import _front  # noqa: PLC0415  (before all else, and only where it is wanted)
    except ImportError:
        return
    finally:
        sys.setdlopenflags(flags)
    _LOADED.append(_front)
    _front.lib.jfs_front_arm()


class Front:
    """The front of this process's mount, which pyfuse3 has mounted."""

    def __init__(self, module: ModuleType) -> None:
        self._lib: Any = module.lib
        self._ffi: Any = module.ffi
        self._state: Any = self._lib.jfs_front_state_of()
        self._trio_fd = -1
        self.reads = False
        """True once the front reads requests: `wait` must be used."""
        self.compares = False
        """True in shadow mode: the front only compares its answers."""
        self.writes: HotWrites | None = None
        """The publications of the front; None: it publishes nothing."""

    @classmethod
    def claimed(cls) -> Front:
        """Raises `FrontUnavailableError` with the reason."""
        if not _LOADED:
            raise FrontUnavailableError("it was not built")
        front = cls(_LOADED[0])
        problem = front._lib.jfs_front_problem()
        if problem != front._ffi.NULL:
            raise FrontUnavailableError(front._ffi.string(problem).decode())
        return front

    def start(self, trio_fd: int, *, hot: bool) -> None:
        spins = len(os.sched_getaffinity(0)) > 1
        chaos, self.compares = os.environ.get(CHAOS) or "0", bool(os.environ.get(SHADOW))
        if not _COUNT.fullmatch(chaos):
            raise FrontUnavailableError(f"{CHAOS}={chaos}: give a number of requests")
        number = self._lib.jfs_front_start(hot, spins, int(chaos), self.compares)
        if number:
            raise FrontUnavailableError(f"no thread for it: {os.strerror(number)}")
        self._trio_fd = trio_fd
        self.reads = True

    def watch(self, mountpoint: str, silent_max_s: float) -> None:
        """Have C answer EIO to all who wait, and end the mount, where nothing calls `beat` for so long."""
        number = self._lib.jfs_front_watch(os.fsencode(mountpoint), int(silent_max_s * 1e9))
        if number:
            raise FrontUnavailableError(f"no thread that watches over it: {os.strerror(number)}")

    def watch_no_more(self) -> None:
        self._lib.jfs_front_watch_no_more()

    def beat(self) -> None:
        """The event loop runs."""
        self._lib.jfs_front_beat()

    def stop(self) -> None:
        if self.reads:
            self._lib.jfs_front_stop()
        self.reads = False

    # What `FastWait` waits with.

    def wait(self, timeout_ns: int, *, burst: bool) -> bool:
        """Whether there is a request for Python. False: trio has something to do, or the time is over."""
        writes = self.writes
        if writes is None:
            return bool(self._lib.jfs_front_wait(self._trio_fd, timeout_ns, burst) == 1)
        writes.lend()
        found: int = self._lib.jfs_front_wait(self._trio_fd, timeout_ns, burst)
        writes.take_back()
        return found == 1

    def is_quiet(self) -> bool:
        return bool(self._lib.jfs_front_is_quiet())

    # What it may answer.

    def revoke(self, *, only_messages: bool = False, steps: bool = False) -> None:
        """Something may change from here on. `steps`: another task goes on than the one that read last, so
        that what is answered next is no answer to what that one read.
        """
        if self.writes is not None and not self.writes.look_again():
            return
        if self._state.live:
            self._lib.jfs_front_revoke((1 if only_messages else 0) | (2 if steps else 0))

    def keep(self, *, lacks: bool = False, lasts: bool = False) -> None:
        """Keep the answer of the calling handler until something changes. `lacks`: the directory lacks all
        other plain names, too. `lasts`: lines that C publishes do not end it; for a missing name this holds
        for plain names only.
        """
        self._lib.jfs_front_keep((2 if lacks else 1) | (4 if lasts else 0))

    def returned(self) -> Sequence[int]:
        """Return the handles of files that were kept open for the next opening and are not any more: the
        caller must close them.
        """
        if not self._state.returned:
            return ()
        handles = self._ffi.new("uint64_t[]", _RETURNED_MAX)
        return list(handles[0 : self._lib.jfs_front_returned(handles, _RETURNED_MAX)])

    def opened(self, handle: int) -> None:
        """An open file whose content never changes, and closing which has no effect that anybody sees."""
        self._lib.jfs_front_opened(handle)

    def content(self, handle: int, offset: int, content: bytes | memoryview, *, ends: bool) -> None:
        """Content of such a file; `ends`: nothing comes behind it."""
        view = self._ffi.from_buffer("uint8_t[]", content)
        self._lib.jfs_front_content(handle, offset, view, len(content), ends)

    def publish(self, store: WritableStore, open_files: OpenFiles) -> HotWrites:
        """Publish lines to a store."""
        from journalfs_mount.front.hot_writes import HotWrites  # noqa: PLC0415  (not before all else)

        self.writes = HotWrites(self._ffi, self._lib, store, open_files)
        return self.writes

    # What it did.

    def counts(self) -> Mapping[str, int]:
        counts = self._ffi.new("jfs_front_counts *")
        self._lib.jfs_front_counts_of(counts)
        return {name: int(getattr(counts, name)) for name in _NAMES}

    def answered(self) -> Mapping[str, int]:
        """Requests that were answered in C, by their names."""
        counts = self.counts()
        return {
            "getattr": counts["getattr"],
            "lookup": counts["lookup"] + counts["missing"],
            **{name: counts[name] for name in ("open", "create", "read", "flush", "release", "write")},
        }
