"""Files and directories that journalfs makes up, as plain values with functions behind them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Generic, Literal, TypeVar, cast

import msgspec

from journalfs.api import ByteSource, VirtualDirectory, VirtualFile
from journalfs.engine.waiting import FairLock, Slices, offload
from journalfs.limits import VIRTUAL_SIZES_KEPT_MAX
from journalfs.live.sources import BytesSource
from journalfs.showing import shown_in

_Result = TypeVar("_Result")

_known_sizes: dict[Hashable, int] = {}


def to_json(value: object) -> bytes:
    """Pretty, stable JSON with a final newline, for people and programs."""
    return msgspec.json.format(_encoded(value), indent=2) + b"\n"


def to_json_lines(values: Iterable[object]) -> bytes:
    return b"".join(_encoded(value, order=None) + b"\n" for value in values)


def _encoded(value: object, order: Literal["deterministic"] | None = "deterministic") -> bytes:
    try:
        return msgspec.json.encode(value, order=order)
    except UnicodeEncodeError:  # a name of the disk that is no UTF-8
        return msgspec.json.encode(shown_in(value), order=order)


@dataclass(slots=True)
class ComputedFile:
    """A file whose whole content is made by a function each time it is asked for."""

    make: Callable[[], bytes]
    mtime: Callable[[], int]
    live: bool = True

    @property
    def size_bytes(self) -> int:
        return len(self.make())

    @property
    def mtime_ns(self) -> int:
        return self.mtime()

    def open(self) -> ByteSource:
        return BytesSource(self.make())


@dataclass(slots=True)
class SlicedFile:
    """A file whose content takes long to make: `prepare` makes it in slices between other tasks. Opening it
    without `prepare` makes it at once.
    """

    make: Callable[[Slices], Coroutine[object, object, bytes]]
    mtime: Callable[[], int]
    version: Callable[[], object]
    """Another one as soon as the content is."""
    live: bool = True
    _content: bytes | None = None
    _made_of: object = None
    _good_until_ns: int = 0
    """Until when the made content is served: looking, opening and reading follow each other, so it lasts as
    long as making it took.
    """
    _turn: FairLock = field(default_factory=FairLock)
    _asked: int = 0
    _made_for: int = 0
    """How many had asked when it was begun to be made."""

    async def prepare(self) -> None:
        """Make the content, or wait for the task that is making it."""
        self._asked += 1
        number = self._asked
        async with self._turn:
            if self._made_for < number and not self._is_good():
                self._made_for = self._asked
                await self._make(Slices())

    def _is_good(self) -> bool:
        return monotonic_ns() < self._good_until_ns and self._made_of == self.version()

    async def _make(self, slices: Slices) -> None:
        made_of, begun_ns = self.version(), monotonic_ns()
        self._content = await self.make(slices)
        self._made_of, self._good_until_ns = made_of, 2 * monotonic_ns() - begun_ns

    @property
    def prepared_bytes(self) -> int:
        """The size of what was made last."""
        return len(self._content or b"")

    @property
    def size_bytes(self) -> int:
        return len(self._now())

    @property
    def mtime_ns(self) -> int:
        return self.mtime()

    def open(self) -> ByteSource:
        return BytesSource(self._now())

    def _now(self) -> bytes:
        if self._content is None or not self._asked:
            made_at_once(self._make(Slices.none()))
        return self._content or b""


def made_at_once(work: Coroutine[object, object, _Result]) -> _Result:
    """Run what never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(_Result, end.value)
    raise AssertionError("it waits after all")


@dataclass(slots=True)
class SourceFile:
    """A file whose content is a source that a function opens."""

    source: Callable[[], ByteSource]
    mtime: Callable[[], int]
    live: bool = True
    identity: Hashable = None
    """Equal identities mean equal content, so that a size that takes work to find is found once."""

    async def prepare(self) -> None:
        """Find the size in a thread, where that takes work."""
        if self.identity is not None and self.identity not in _known_sizes:
            with closing(self.source()) as source:
                self._keep(await offload(lambda: source.size_bytes))

    @property
    def prepared_bytes(self) -> int:
        return self.size_bytes

    @property
    def size_bytes(self) -> int:
        size_bytes = _known_sizes.get(self.identity) if self.identity is not None else None
        if size_bytes is None:
            with closing(self.source()) as source:
                size_bytes = source.size_bytes
            self._keep(size_bytes)
        return size_bytes

    def _keep(self, size_bytes: int) -> None:
        if self.identity is None:
            return
        while len(_known_sizes) >= VIRTUAL_SIZES_KEPT_MAX:
            del _known_sizes[next(iter(_known_sizes))]
        _known_sizes[self.identity] = size_bytes

    @property
    def mtime_ns(self) -> int:
        return self.mtime()

    def open(self) -> ByteSource:
        return self.source()


_Thing = TypeVar("_Thing")


@dataclass(slots=True)
class ComputedDirectory(Generic[_Thing]):
    """A directory whose entries are made by functions: `things` says what there is by name, `make` makes the
    entry of one. `find` says it of one name, where that is less work than to say it of all.
    """

    things: Callable[[], Mapping[str, _Thing]]
    make: Callable[[_Thing], VirtualDirectory | VirtualFile]
    mtime: Callable[[], int]
    find: Callable[[str], _Thing | None] | None = None

    def children(self) -> Iterator[tuple[str, VirtualDirectory | VirtualFile]]:
        for name, thing in self.things().items():
            yield name, self.make(thing)

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None:
        thing = self.find(name) if self.find is not None else self.things().get(name)
        return None if thing is None else self.make(thing)

    @property
    def mtime_ns(self) -> int:
        return self.mtime()


@dataclass(slots=True)
class FixedDirectory:
    """A directory with a fixed set of entries."""

    entries: Mapping[str, VirtualDirectory | VirtualFile]
    mtime: Callable[[], int]

    def children(self) -> Iterator[tuple[str, VirtualDirectory | VirtualFile]]:
        return iter(self.entries.items())

    def child(self, name: str) -> VirtualDirectory | VirtualFile | None:
        return self.entries.get(name)

    @property
    def mtime_ns(self) -> int:
        return self.mtime()
