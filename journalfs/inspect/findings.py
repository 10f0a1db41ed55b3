"""What is wrong, as a value: where, why, and what to do."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from journalfs.account.advice import MESSAGE, advice_of
from journalfs.damage import name_of

if TYPE_CHECKING:
    from journalfs.account.entries import Entry
    from journalfs.live.core import Core


class Finding(msgspec.Struct, frozen=True):
    """`bytes` is 0 where something is missing, rather than there and wrong. None: `file` is the name of a
    message, and it is not known where that is.
    """

    file: str
    offset: int | None
    bytes: int | None
    kind: str
    reason: str
    queue: str | None = None
    id: int | None = None

    def json(self) -> Mapping[str, object]:
        """All there is to be said."""
        about = {"queue": self.queue, "id": self.id}
        return {
            "file": self.file, "offset": self.offset, "bytes": self.bytes, "kind": self.kind,
            "reason": self.reason, "do": advice_of(self.kind),
            **{key: value for key, value in about.items() if value is not None or self.kind == MESSAGE},
        }  # fmt: skip


def file_in(core: Core, slot: int) -> str:
    """What a journal file is called that the live state knows by a slot."""
    return name_of(core.loader.files.read_file(slot).file.path, core.root)


class Places:
    """What is known to be wrong, so that nothing is named twice that lies within it."""

    def __init__(self, known: Iterable[Finding | Entry]) -> None:
        self._by_file: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """Start and end of stretches, apart from each other and rising."""
        for finding in known:
            self._note(*_place(finding))

    def new(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Those of what is elsewhere."""
        for finding in findings:
            file, start, end = _place(finding)
            if not self._overlapping(file, start, end):
                self._note(file, start, end)
                yield finding

    def _overlapping(self, file: str, start: int, end: int) -> slice | None:
        """Which stretches of a file have bytes of this one."""
        stretches = self._by_file.get(file, [])
        low = bisect_right(stretches, start, key=itemgetter(1))
        high = bisect_left(stretches, end, key=itemgetter(0))
        return slice(low, high) if low < high else None

    def _note(self, file: str, start: int, end: int) -> None:
        stretches = self._by_file[file]
        over = self._overlapping(file, start, end)
        if over is None:
            insort(stretches, (start, end))
        else:
            some = stretches[over]
            stretches[over] = [(min(start, some[0][0]), max(end, some[-1][1]))]


def _place(finding: Finding | Entry) -> tuple[str, int, int]:
    offset = finding.offset or 0
    return finding.file, offset, offset + max(1, finding.bytes or 0)
