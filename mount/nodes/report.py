"""What the mount says about itself, in `.journalfs/mount.json`."""

from __future__ import annotations

import json
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from journalfs.api import Bytes, Memory, VirtualDirectory, VirtualFile
from journalfs.clock import Clock
from journalfs.showing import shown, shown_in
from journalfs_mount.front.front import Front
from journalfs_mount.limits import REFUSALS_MAX
from journalfs_mount.process.shares import Shares

REFUSED_USERS_MAX: Final = 256
"""Users whose refusals are kept, those who were refused last."""

REPEATED_MS: Final = 1_000
"""A name that is refused again within this time is the same command's."""

REPORT_NAME: Final = "mount.json"

Status: TypeAlias = Callable[[], Awaitable[Mapping[str, object]]]


class MountReport:
    """Counts and states, filled by the rest of the mount."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.started_ms = clock.now_ms()
        self.requests: Counter[str] = Counter()
        self.loop = "stock"
        self.front: Front | None = None
        self.follow = "off"
        self.follow_failure: str | None = None
        self.details: dict[str, object] = {}
        self.shares: Shares | None = None
        """What users hold of what is shared."""
        self._refused_to: OrderedDict[int, deque[dict[str, object]]] = OrderedDict()
        self._refusals: deque[dict[str, object]] = deque(maxlen=REFUSALS_MAX)
        self._missed: OrderedDict[str, int] = OrderedDict()
        """When a name was looked for last that no address has."""

    def refused(self, name: str, reason: str) -> bool:
        """Keep why a name was refused where the user can read it: an errno alone says too little. Return
        whether it is news: a program looks for one name several times.
        """
        now_ms = self.clock.now_ms()
        last = self._refusals[-1] if self._refusals else {}
        self._refusals.append({"time": now_ms, "name": name, "reason": reason})
        same = (last.get("name"), last.get("reason")) == (name, reason)
        return not same or now_ms - cast("int", last["time"]) >= REPEATED_MS

    def missed(self, name: bytes) -> None:
        """Keep that no address has a name: what a shell prints of a write below it does not say so."""
        if not name.startswith((b".", b"_")):
            shown_name = shown(name.decode(errors="surrogateescape"))
            self._missed[shown_name] = self.clock.now_ms()
            self._missed.move_to_end(shown_name)
            while len(self._missed) > REFUSALS_MAX:
                self._missed.popitem(last=False)

    def made(self, name: bytes) -> None:
        """Forget that a name was missing: a program looks for it before it makes an address of it."""
        self._missed.pop(shown(name.decode(errors="surrogateescape")), None)

    def refused_to(self, user: int, what: str, reason: str) -> None:
        """Keep what a user was refused, for that user: `.refused.jsonl`."""
        said = self._refused_to.setdefault(user, deque(maxlen=REFUSALS_MAX))
        now_ms = self.clock.now_ms()
        said.append({"event": "refused", "time": now_ms, "what": shown(what), "reason": shown(reason)})
        self._refused_to.move_to_end(user)
        while len(self._refused_to) > REFUSED_USERS_MAX:
            self._refused_to.popitem(last=False)

    def refusals_of(self, user: int) -> bytes:
        """Lines of what a user was refused last."""
        return json_lines(self._refused_to.get(user, ()))

    def render(self) -> bytes:
        """The report as JSON text. `pid` is the process that `journalfs umount` waits for."""
        content = {
            "pid": os.getpid(),
            "started": self.started_ms,
            "loop": self.loop,
            "follow": self.follow,
            **({} if self.follow_failure is None else {"followFailure": shown(self.follow_failure)}),
            **{name: shown_in(value) for name, value in self.details.items()},
            "refused": shown_in(list(self._refusals)),
            "missing": [{"time": time_ms, "name": name} for name, time_ms in self._missed.items()],
            **({} if self.shares is None else {"users": self.shares.report()}),
            **({} if self.front is None else {"frontRequests": self.front.counts()}),
            "requests": dict(sorted(self._requests().items())),
        }
        return json_text(content)

    def _requests(self) -> Counter[str]:
        return self.requests if self.front is None else self.requests + Counter(self.front.answered())

    def file(self) -> RenderedFile:
        return RenderedFile(self.render, lambda: self.clock.now_ms() * 1_000_000)


def json_text(content: Mapping[str, object]) -> bytes:
    """One JSON object, laid out for people. Lone surrogates, which a name may hold, are escaped, as in lines:
    whoever has read a name finds what it names.
    """
    try:
        return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    except UnicodeEncodeError:  # which is for the standard library
        return json.dumps(content, indent=2).encode() + b"\n"


def json_lines(contents: Iterable[Mapping[str, object]]) -> bytes:
    """One JSON object a line."""
    return b"".join(json.dumps(content).encode() + b"\n" for content in contents)


class RenderedFile:
    """A small file whose text is made whenever somebody asks."""

    __slots__ = ("_mtime_ns", "_render")

    def __init__(self, render: Callable[[], bytes], mtime_ns: Callable[[], int]) -> None:
        self._render = render
        self._mtime_ns = mtime_ns

    @property
    def size_bytes(self) -> int:
        return len(self._render())

    @property
    def mtime_ns(self) -> int:
        return self._mtime_ns()

    @property
    def live(self) -> bool:
        return True

    def open(self) -> TextSource:
        return TextSource(self._render())


class MeasuredText(RenderedFile):
    """A small file whose text is measured on the disk whenever somebody asks."""

    def __init__(self, status: Status, mtime_ns: Callable[[], int]) -> None:
        super().__init__(lambda: self._text, mtime_ns)
        self._status = status
        self._text = b""

    async def prepare(self) -> None:
        self._text = json_text(await self._status())

    @property
    def prepared_bytes(self) -> int:
        return len(self._text)


class TextSource:
    """An open file whose whole content is in memory."""

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text

    @property
    def memory(self) -> Memory:
        return Memory(None, 0, len(self._text))

    @property
    def size_bytes(self) -> int:
        return len(self._text)

    def read(self, offset: int, length: int) -> Bytes:
        return self._text[offset : offset + length]

    def ahead(self, offset: int, length: int) -> None:
        """It is there."""

    def close(self) -> None:
        self._text = b""


class ControlDirectory:
    """The store's `.journalfs/` with the mount's own report beside it."""

    def __init__(self, store: VirtualDirectory, report: MountReport) -> None:
        self._store = store
        self._report = report

    def children(self) -> Iterator[tuple[str, VirtualDirectory | VirtualFile]]:
        yield REPORT_NAME, self._report.file()
        yield from (one for one in self._store.children() if one[0] != REPORT_NAME)

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None:
        return self._report.file() if name == REPORT_NAME else self._store.child(name)

    @property
    def mtime_ns(self) -> int:
        return self._store.mtime_ns
