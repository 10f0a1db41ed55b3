"""A file that another thread writes to, while the next bytes for it are made."""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE_BYTES: Final = 1 << 20
PIECES_MAX: Final = 8
"""That wait to be written, or are being."""
_LEAVE_S_MAX: Final = 1.0
"""How long a write that does not end is waited for, once what it writes is worth nothing."""


class _Behind(io.RawIOBase):
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pieces: queue.SimpleQueue[tuple[bytearray, int] | None] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        for _ in range(PIECES_MAX):
            self._free.put(bytearray(PIECE_BYTES))
        self._failed: OSError | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="writing", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        return True

    def write(self, piece: Buffer, /) -> int:
        """As much of it as there is room for in one piece."""
        with memoryview(piece) as given:
            taken = min(len(given), PIECE_BYTES)
            if not self._given_up:
                self._raise()
                room = self._free.get()
                room[:taken] = given[:taken]
                self._pieces.put((room, taken))
        return taken

    def _run(self) -> None:
        while (one := self._pieces.get()) is not None:
            room, taken = one
            if self._failed is None and not self._given_up:
                try:
                    with memoryview(room) as piece:
                        self._file.write(piece[:taken])
                except OSError as error:
                    self._failed = error
            self._free.put(room)

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def finish(self) -> None:
        """Until all is written. Raises `OSError`."""
        self._pieces.put(None)
        self._thread.join()
        self._raise()

    def give_up(self) -> None:
        """A reader that takes nothing holds nobody up: the thread ends with the process."""
        self._given_up = True
        self._pieces.put(None)
        self._thread.join(_LEAVE_S_MAX)


@contextmanager
def written_behind(file: BinaryIO) -> Iterator[BinaryIO]:
    """`file`, whose failures are raised by a later call or at the end."""
    behind = _Behind(file)
    out = io.BufferedWriter(behind, PIECE_BYTES)
    try:
        yield out
        out.flush()
        behind.finish()
    except BaseException:
        behind.give_up()
        raise
    finally:
        out.detach()
