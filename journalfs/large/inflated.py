"""Bodies that their clients compressed, inflated so that any range of them can be read.

What a stream inflates to is not known before it was counted: a kilobyte may stand for a megabyte, and nobody
believes what its message says of it. So it is bounded: by a ratio that no text or table reaches, and by the
setting `inflate-bytes-max`. A body within the bounds is inflated as far as it is read (engine/inflated.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path

from journalfs import door
from journalfs.engine.buffers import MappedFile
from journalfs.engine.inflated import Inflating
from journalfs.errors import Damaged
from journalfs.limits import (
    INFLATE_BYTES_MAX_DEFAULT,
    INFLATE_FREELY_BYTES,
    INFLATE_RATIO_MAX,
    INFLATED_BODIES_KEPT_MAX,
)


@dataclass(slots=True)
class InflatedBodies:
    """The last few inflated bodies, by what tells one content of a file from another."""

    bytes_max: int = INFLATE_BYTES_MAX_DEFAULT
    _kept: OrderedDict[Hashable, MappedFile | Damaged] = field(default_factory=OrderedDict)

    def body(self, path: Path) -> MappedFile:
        """The inflated content of `path`. Raises `Damaged` when the stream is broken, ends early or is longer
        than it may be, and OSError.
        """
        status = door.status(path)
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = self._inflated(path, status.st_size)
            while len(self._kept) > INFLATED_BODIES_KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        if isinstance(known, Damaged):
            raise known
        return known

    def _inflated(self, path: Path, compressed_bytes: int) -> MappedFile | Damaged:
        inflating = Inflating(path, bytes_max=self.bytes_max_of(compressed_bytes))
        try:
            while not inflating.step():
                pass
        except Damaged as error:
            return error
        return inflating.shown()

    def bytes_max_of(self, compressed_bytes: int) -> int:
        """What so many bytes may inflate to."""
        return min(self.bytes_max, max(INFLATE_FREELY_BYTES, INFLATE_RATIO_MAX * compressed_bytes))
