"""Messages as a stream of Arrow record batches, filled by the C core; no library of Arrow takes part.

`journalfs.python.arrow` says which messages. The stream may be read by a thread of the consumer's.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.status import check

STREAM: Final = b"arrow_array_stream"


def _names() -> Iterator[str]:
    number = 0
    while (name := lib.jfs_arrow_column(number)) != ffi.NULL:
        yield ffi.string(name).decode()
        number += 1


COLUMNS: Final = tuple(_names())
"""Names of all columns, in the order of their numbers."""


class Lines(NamedTuple):
    """Messages of one queue."""

    pointer: Any
    """A `jfs_line[]`."""
    messages: int
    queue: bytes
    keep: object
    """The objects that must live as long as the pointer."""
    read: Callable[[], None]
    """Is called once they are read: raises where their bytes were not what they were."""


class _Source:
    """The parts that the batches of a stream are made of."""

    def __init__(
        self, columns: Any, batches: Iterator[Lines], bytes_max: int, done: Callable[[], None]
    ) -> None:
        self._columns = columns
        self._batches = batches
        self._bytes_max = bytes_max
        self.done = done
        self._lines: Lines | None = None
        self._at = 0

    def fill(self, out: Any) -> None:
        if self._lines is None or self._at == self._lines.messages:
            self._lines, self._at = next(self._batches, None), 0
        if self._lines is None:
            return
        lines, read = self._lines, ffi.new("uint64_t *")
        rest, left = lines.pointer + self._at, lines.messages - self._at
        columns, queue = self._columns, lines.queue
        status = lib.jfs_arrow_batch(
            rest, left, columns, len(columns), queue, len(queue), self._bytes_max, out, read
        )
        check(status, "reading messages")
        self._at += read[0]
        try:
            lines.read()
        except BaseException:
            out.release(out)
            raise


_sources: Final[set[Any]] = set()
"""Handles of the streams that are being read: C has nothing but their addresses."""


@ffi.callback("int(void *, struct ArrowArray *, char *)", error=errno.EIO)  # type: ignore[untyped-decorator]
def _next(context: Any, out: Any, error: Any) -> int:
    try:
        ffi.from_handle(context).fill(out)
    except Exception as failure:
        text = str(failure).encode()[: lib.JFS_ARROW_ERROR_BYTES - 1]
        ffi.memmove(error, text + b"\0", len(text) + 1)
        return errno.EIO
    return 0


@ffi.callback("void(void *)")  # type: ignore[untyped-decorator]
def _done(context: Any) -> None:
    ffi.from_handle(context).done()
    _sources.discard(context)


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = (
    ctypes.py_object,
    [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
)
_in_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_in_capsule.restype, _in_capsule.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _free(capsule: int) -> None:
    lib.jfs_arrow_stream_free(ffi.cast("struct ArrowArrayStream *", _in_capsule(capsule, STREAM)))


def stream_of(
    columns: Sequence[str], batches: Iterator[Lines], bytes_max: int, done: Callable[[], None]
) -> object:
    """A capsule with a stream of those columns, as `__arrow_c_stream__` returns it. `done` is called once,
    when nobody reads it any more.
    """
    numbers = ffi.new("uint8_t[]", [COLUMNS.index(name) for name in columns])
    handle = ffi.new_handle(_Source(numbers, batches, bytes_max, done))
    stream = lib.jfs_arrow_stream(numbers, len(numbers), _next, _done, handle)
    if stream == ffi.NULL:
        raise MemoryError
    _sources.add(handle)
    return _new_capsule(int(ffi.cast("uintptr_t", stream)), STREAM, ctypes.cast(_free, ctypes.c_void_p))
