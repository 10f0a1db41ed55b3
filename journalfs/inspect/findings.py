"""What is wrong, as a value: where, why, and what to do."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from journalfs.damage import MISSING_FILE, name_of

if TYPE_CHECKING:
    from journalfs.live.core import Core

MESSAGE: Final = "message"
"""Kind of a message that cannot be read."""

_REPAIR: Final = "journalfs repair STORE --out NEW makes a store of all that is intact"
_PUT_BACK: Final = "put it back from a copy"
_DO: Final[Mapping[str, str]] = {
    "torn": "nothing: a writer was killed here, and a mount for writing overwrites it",
    "checksum": f"{_REPAIR}, or restore a backup: these bytes are not what was written",
    "unreadable": "look at the disk and at the permissions of the file, then check again",
    "denied": "look at the permissions of the file, then check again",
    MISSING_FILE: _PUT_BACK,
    "missing-records": _PUT_BACK,
    "short-file": _PUT_BACK,
    "missing-message": "put the journal file back that had it; a broker drops the reference",
    "incomplete-transaction": f"{_REPAIR}; a broker drops the transaction whole",
    "undecided-transaction": "cat what it sent into an address, from .journalfs/transactions",
    "lost-binding": "put the bindings back, or make the queues anew and move the messages to them",
    "page-folder": "mend address.txt, or move the pages to the folder of their address",
    "large-message": "put the body back from a copy; the message goes on to say what it lacks",
    MESSAGE: "consume it, or send it again from where it came",
    "record": f"{_REPAIR}; a broker may refuse to start on it",
    "binding": f"{_REPAIR}; a broker may refuse to start on it",
    "page-record": "consume the message, or restore a backup",
    "reference": "mount the store for writing and take the message; a broker drops what has no queue",
    "unknown-queue": "put the bindings back, or make the queue anew; a broker drops the references",
    "queue-without-address": "mkdir the address; a broker makes one when it starts",
    "routing-type": "give the address the routing type, or make the queue anew",
    "duplicate-address": "rmdir one of them; a broker takes the first",
    "duplicate-queue": "move the messages of one of them elsewhere and rmdir it",
    "id-generator": "journalfs repair STORE --out NEW: a broker would use ids twice and lose messages",
    "page-complete": "restore a backup: messages of the page are hidden, or come again",
    "page-transaction": "restore a backup: a broker would forget messages of it",
    "page-counter": "nothing: a broker counts anew when it starts",
    "duplicate-id": "nothing: a broker forgets one of them when it starts",
    "orphan": "journalfs check --set-aside moves it out of the way",
    "page-set-aside": "look at it; then it may be removed",
    "missing-id": "put the file back if there is a copy",
    "rotten": "restore it from a backup: it changed, and nobody writes to it any more",
}
"""By kind; of every other one, what helps against damage in general."""


def advice_of(kind: str) -> str:
    """What to do about a kind of damage."""
    return _DO.get(kind, _REPAIR)


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

    def __init__(self, known: Iterable[Finding]) -> None:
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


def _place(finding: Finding) -> tuple[str, int, int]:
    offset = finding.offset or 0
    return finding.file, offset, offset + max(1, finding.bytes or 0)
