"""Bodies that clients compressed, inflated so that any range of them can be read.

The inflated size of a stream must be counted: a kilobyte may stand for a megabyte, and the size that the
message states may be wrong. So it is bounded, by a ratio that no text or table reaches and by the setting
`inflate-bytes-max`. A body within the bounds is inflated as far as it is read (engine/inflated.py). Counted
sizes are kept, by a stamp of the file's content; the index keeps them, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from journalfs import door
from journalfs.damage import FileStamp
from journalfs.engine.buffers import MappedFile
from journalfs.engine.inflated import STEP_BYTES, Inflating
from journalfs.errors import Damaged
from journalfs.limits import (
    INFLATE_BYTES_MAX_DEFAULT,
    INFLATE_FREELY_BYTES,
    INFLATE_RATIO_MAX,
    INFLATED_BODIES_KEPT_MAX,
    INFLATED_LENGTHS_KEPT_MAX,
)


class Inflated(msgspec.Struct, frozen=True):
    """The result of counting a file."""

    name: str
    stamp: FileStamp
    size_bytes: int
    """Inflated bytes; of a broken stream, the most that it may have."""
    broken: tuple[int, str] | None = None
    """Where, and why nothing of it is shown."""


@dataclass(slots=True)
class InflatedBodies:
    """The last few inflated bodies, and how long more of them are."""

    bytes_max: int = INFLATE_BYTES_MAX_DEFAULT
    _kept: OrderedDict[tuple[str, FileStamp], MappedFile] = field(default_factory=OrderedDict)
    _known: OrderedDict[tuple[str, FileStamp], Inflated] = field(default_factory=OrderedDict)

    def body(self, path: Path) -> MappedFile:
        """The inflated content of `path`, which is counted now if it was not before. Raises `Damaged` when
        the stream is broken, ends early or is longer than it may be, and OSError.
        """
        key = path.name, FileStamp.of(door.status(path))
        known = self._known.get(key)
        if known is None:
            counting = self.counting(path)
            while not counting.step():
                pass
            known = self.counted(counting)
        if known.broken is not None:
            raise Damaged(path, *known.broken)
        body = self._kept.get(key)
        if body is None:
            inflating = Inflating(path, bytes_max=self.bytes_max)
            inflating.expect(known.size_bytes)
            body = inflating.shown()
            self._keep(key, body)
        self._kept.move_to_end(key)
        return body

    def is_known(self, path: Path) -> bool:
        """Whether `body` takes no time. Raises OSError."""
        return (path.name, FileStamp.of(door.status(path))) in self._known

    def counting(self, path: Path) -> Counting:
        """Begin counting in steps, for a caller that must not keep others waiting. Raises OSError."""
        stamp = FileStamp.of(door.status(path))
        most = self.bytes_max_of(stamp.size_bytes)
        return Counting(path, stamp, Inflating(path, bytes_max=most), most)

    def counted(self, counting: Counting) -> Inflated:
        """Take over what was counted to its end."""
        key = counting.path.name, counting.stamp
        found = counting.found
        assert found is not None, "it is not at its end"
        if found.broken is None and key not in self._kept:
            self._keep(key, counting.inflating.shown())
        self._note(key, found)
        return found

    def forget(self, path: Path) -> None:
        """Forget the counted size of a body that did not inflate to it."""
        for key in [key for key in self._known if key[0] == path.name]:
            del self._known[key]
            self._kept.pop(key, None)

    def known(self, names: Iterable[str]) -> Iterator[Inflated]:
        """Return the known sizes of the files of these names, for an index."""
        wanted = set(names)
        return (one for one in self._known.values() if one.name in wanted)

    def resume(self, known: Iterable[Inflated]) -> None:
        """Go on from an index, as far as it says what can be."""
        for one in known:
            most = self.bytes_max_of(one.stamp.size_bytes)
            if 0 <= one.size_bytes <= most if one.broken is None else one.size_bytes == most:
                self._note((one.name, one.stamp), one)

    def bytes_max_of(self, compressed_bytes: int) -> int:
        """Return the most that so many bytes may inflate to."""
        return min(self.bytes_max, max(INFLATE_FREELY_BYTES, INFLATE_RATIO_MAX * compressed_bytes))

    def _note(self, key: tuple[str, FileStamp], found: Inflated) -> None:
        self._known[key] = found
        if len(self._known) > INFLATED_LENGTHS_KEPT_MAX:
            self._known.popitem(last=False)

    def _keep(self, key: tuple[str, FileStamp], body: MappedFile) -> None:
        self._kept[key] = body
        if len(self._kept) > INFLATED_BODIES_KEPT_MAX:
            self._kept.popitem(last=False)


@dataclass(slots=True)
class Counting:
    """A file whose inflated length is being counted. `step` may be called in any thread, by one at a time."""

    path: Path
    stamp: FileStamp
    inflating: Inflating
    bytes_max: int
    found: Inflated | None = None

    def step(self, step_bytes: int = STEP_BYTES) -> bool:
        """Count on for some milliseconds; whether it is at its end."""
        if self.found is None:
            try:
                if self.inflating.step(step_bytes):
                    self.found = Inflated(self.path.name, self.stamp, self.inflating.size_bytes)
            except Damaged as error:
                broken = error.offset, error.reason
                self.found = Inflated(self.path.name, self.stamp, self.bytes_max, broken)
        return self.found is not None
