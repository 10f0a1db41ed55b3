"""The index of a KahaDB store (`db.data`, `db.redo`): trees and lists in pages. It says what of the journal
is live as of a place in it; what follows there is replayed (docs/format/kahadb.md, "Index").
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from journalfs.errors import DecodeError
from journalfs.records.older.activemq5 import Content, Messages, Place
from journalfs.records.older.kahadb_log import Fielded, varint
from journalfs.records.older.openwire import Destination, Loose, Subscription, decode, modified_utf8

HEADER_BYTES: Final = 4096
"""Two copies of a text of settings, each in half of it. The redo file has as many before its pages."""

PAGE: Final = struct.Struct(">bqqi")
"""Type, transaction, the next page (of a part) or the end of the content in this page, checksum."""

FREE, PART, END = range(3)
REDO: Final = struct.Struct(">qqi")
_PAGE_NUMBER: Final = struct.Struct(">q")
_PLACE: Final = struct.Struct(">ii")
_PLACE_SIZED: Final = struct.Struct(">iii")
_SETTING: Final = re.compile(rb"^(\w+)=(.*?)\s*$", re.MULTILINE)
DEPTH_MAX: Final = 64

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Location(NamedTuple):
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Indexed:
    """Where the index ends: the journal is replayed from `start` on, or behind it. Up to `last` the index has
    what the journal says, but for transactions that were open.
    """

    start: Location | None
    inclusive: bool
    last: Location | None


class PageFile:
    """The pages of `db.data` with what `db.redo` has of a batch that was cut off. Raises `DecodeError`."""

    def __init__(self, content: bytes, redo: bytes) -> None:
        settings = self._settings(content)
        try:
            self._page_bytes = int(settings[b"pageSize"])
        except (KeyError, ValueError):
            raise DecodeError(0, "the index does not say how long its pages are") from None
        if not PAGE.size < self._page_bytes <= 1 << 24:
            raise DecodeError(0, f"pages of {self._page_bytes} bytes")
        self._content = content
        self._redone: dict[int, bytes] = {}
        if settings.get(b"cleanShutdown") != b"true":
            self._redo(redo)

    @staticmethod
    def _settings(content: bytes) -> dict[bytes, bytes]:
        half = HEADER_BYTES // 2
        first, second = (dict(_SETTING.findall(content[at : at + half])) for at in (0, half))
        agree = first.get(b"metaDataTxId") == second.get(b"metaDataTxId")
        return first if agree or not second else second

    def _redo(self, redo: bytes) -> None:
        if len(redo) < HEADER_BYTES:
            return
        _, checksum, count = REDO.unpack_from(redo)
        size = _PAGE_NUMBER.size + self._page_bytes
        if count < 0 or HEADER_BYTES + count * size > len(redo):
            return
        pages, found = {}, 1
        for at in range(HEADER_BYTES, HEADER_BYTES + count * size, size):
            (number,) = _PAGE_NUMBER.unpack_from(redo, at)
            pages[number] = redo[at + _PAGE_NUMBER.size : at + size]
            found = zlib.adler32(pages[number], found)
        if found == checksum:
            self._redone = pages

    def read(self, number: int) -> bytes:
        """The content that begins in a page, whole. Empty where the page is free."""
        parts: list[bytes] = []
        seen: set[int] = set()
        while True:
            page = self._page(number)
            kind, _, following, _ = PAGE.unpack_from(page)
            if kind == FREE and not parts:
                return b""
            if kind == END and PAGE.size <= following <= self._page_bytes:
                parts.append(page[PAGE.size : following])
                return b"".join(parts)
            if kind != PART or number in seen:
                raise DecodeError(number, f"page {number} of the index has no content")
            seen.add(number)
            parts.append(page[PAGE.size :])
            number = following

    def _page(self, number: int) -> bytes:
        if number in self._redone:
            return self._redone[number]
        at = HEADER_BYTES + number * self._page_bytes
        page = self._content[at : at + self._page_bytes] if number >= 0 else b""
        if len(page) < self._page_bytes:
            raise DecodeError(at, f"page {number} of the index is not there")
        return page

    def tree(
        self, root: int, key: Callable[[Loose], _Key], value: Callable[[Loose], _Value]
    ) -> Iterator[tuple[_Key, _Value]]:
        """Entries of a tree in the order of their keys."""
        for keys, reader in self.leaves(root, lambda reader, count: [key(reader) for _ in range(count)]):
            for one in keys:
                yield one, value(reader)

    def leaves(
        self, root: int, take: Callable[[Loose, int], Sequence[_Key]], depth: int = 0
    ) -> Iterator[tuple[Sequence[_Key], Loose]]:
        """The keys of one leaf after another, with a reader of its values. `take` reads so many keys."""
        if depth > DEPTH_MAX:
            raise DecodeError(root, "a tree of the index is too deep")
        content = self.read(root)
        if not content:
            return
        reader = Loose(content)
        keys = take(reader, reader.i16())
        if reader.boolean():
            for child in _numbers(reader, len(keys) + 1):
                yield from self.leaves(child, take, depth + 1)
        else:
            yield keys, reader

    def list(
        self, head: int, key: Callable[[Loose], object], value: Callable[[Loose], _Value]
    ) -> Iterator[tuple[object, _Value]]:
        """Entries of a list."""
        seen = set()
        while head >= 0 and head not in seen:
            seen.add(head)
            content = self.read(head)
            if not content:
                return
            reader = Loose(content)
            head = reader.i64()
            for _ in range(reader.i16()):
                found = key(reader)
                yield found, value(reader)


def _numbers(reader: Loose, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{max(count, 0)}q", reader.take(8 * max(count, 0)))


def _utf(reader: Loose) -> str:
    return modified_utf8(reader.sized_utf())


def _location(reader: Loose) -> Location:
    return Location(reader.i32(), reader.i32())


class _Trees(NamedTuple):
    """The pages where what belongs to a destination begins."""

    order: list[int]
    subscriptions: int | None
    acknowledgements: int | None
    waiting: int | None


class Index:
    """What a closed or cut off index says. Raises `DecodeError`."""

    def __init__(self, content: bytes, redo: bytes) -> None:
        self._pages = PageFile(content, redo)
        reader = Loose(self._pages.read(0))
        reader.i32()
        self._destinations = reader.i64()
        last = _location(reader) if reader.boolean() else None
        first_open = _location(reader) if reader.boolean() else None
        if reader.more() and reader.boolean():
            _location(reader)
        self.version = reader.i32() if reader.more() else 1
        self.indexed = Indexed(first_open or last, first_open is not None, last)

    def fill(self, content: Content) -> None:
        """All that is live, with the order of each destination."""
        for name, trees in self._pages.tree(self._destinations, _utf, self._trees):
            kind, _, own = str(name).partition(":")
            destination = Destination(kind in ("1", "3"), own, kind in ("2", "3"))
            messages = self._messages(trees)
            if destination.topic:
                self._fill_topic(content, destination, trees, messages)
            else:
                found = sorted(messages.values(), key=lambda one: one[1].order)
                content.queue(own).update(found)

    def _trees(self, reader: Loose) -> _Trees:
        order = [reader.i64()]
        reader.i64()
        reader.i64()
        subscriptions = acknowledgements = waiting = None
        if reader.boolean():
            subscriptions, acknowledgements = reader.i64(), reader.i64()
            waiting = reader.i64() if self.version >= 3 else None
            if self.version >= 5:
                reader.i64()
        if self.version >= 2:
            order += [reader.i64(), reader.i64()]
        if self.version >= 7:
            reader.i64()
        return _Trees(order, subscriptions, acknowledgements, waiting)

    def _messages(self, trees: _Trees) -> dict[int, tuple[str, Place]]:
        """By the number that a destination gave them."""
        found: dict[int, tuple[str, Place]] = {}
        for root in trees.order:
            for numbers, reader in self._pages.leaves(root, _numbers):
                self._keys(numbers, bytes(reader.data), reader.at, found)
        return found

    def _keys(
        self, numbers: Sequence[int], data: bytes, at: int, found: dict[int, tuple[str, Place]]
    ) -> None:
        """What every message has: its id, and where it lies."""
        form = _PLACE_SIZED if self.version >= 6 else _PLACE
        try:
            for number in numbers:
                end = at + 2 + (data[at] << 8 | data[at + 1])
                file, offset, *_ = form.unpack_from(data, end)
                found[number] = modified_utf8(data[at + 2 : end]), Place(file, offset, 0, number)
                at = end + form.size
        except (IndexError, struct.error):
            raise DecodeError(at, "an entry of the index is cut off") from None

    def _fill_topic(
        self,
        content: Content,
        destination: Destination,
        trees: _Trees,
        messages: dict[int, tuple[str, Place]],
    ) -> None:
        content.topic(destination.name)
        waiting = self._waiting(trees, messages)
        assert trees.subscriptions is not None, "only topics have them, and all do"
        for key, info in self._pages.tree(trees.subscriptions, _utf, _subscription_info):
            subscribed = content.subscribe(decode(info, Subscription))
            if subscribed is None:
                continue
            found: Messages = subscribed.messages
            for number in sorted(waiting.get(str(key), ())):
                if number in messages:
                    identity, place = messages[number]
                    found[identity] = place

    def _waiting(self, trees: _Trees, messages: dict[int, tuple[str, Place]]) -> dict[str, set[int]]:
        """Numbers of the messages that each subscription still gets."""
        found: dict[str, set[int]] = {}
        if self.version >= 4 and trees.waiting is not None:
            for key, ranges in self._pages.list(trees.waiting, _utf, _ranges):
                some = (number for one in ranges for number in _within(one, messages))
                found.setdefault(str(key), set()).update(some)
        elif self.version == 3 and trees.waiting is not None:
            for number, keys in self._pages.tree(trees.waiting, Loose.i64, _string_set):
                for one in keys:
                    found.setdefault(one, set()).add(number)
        elif trees.acknowledgements is not None:
            for key, last in self._pages.tree(trees.acknowledgements, _utf, Loose.i64):
                found[str(key)] = {number for number in messages if number > last}
        return found


def _within(numbers: range, messages: dict[int, tuple[str, Place]]) -> Iterator[int]:
    """Those of a range that are messages; a range may be said to have any length."""
    if len(numbers) <= len(messages):
        return (number for number in numbers if number in messages)
    return (number for number in messages if number in numbers)


def _ranges(reader: Loose) -> list[range]:
    found = []
    for _ in range(reader.i32()):
        whole = reader.boolean()
        first = reader.i64()
        found.append(range(first, (reader.i64() if whole else first) + 1))
    return found


def _string_set(reader: Loose) -> list[str]:
    """A set of strings as Java serializes it, after its length."""
    item = Loose(reader.take(reader.i32()))
    at = bytes(item.data).find(b"\x77\x0c")
    item.at = max(at, 0) + 14
    found = []
    while item.more() and item.i8() == 0x74:
        found.append(modified_utf8(item.sized_utf()))
    return found


def _subscription_info(reader: Loose) -> bytes:
    """The OpenWire command within the command of a subscription, whose length is before it."""
    length, at = varint(reader.data, reader.at)
    fields = Fielded(reader.data, at, length)
    reader.at = at + length
    return fields.bytes(4)[4:]
