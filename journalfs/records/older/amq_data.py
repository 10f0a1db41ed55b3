"""Data logs of an AMQ Message Store, appended to, and the mark that has its broker replay them.

A broker believes its reference store (`kr-store`) once it was closed, or where there is none; so what is
appended by others is found only where the reference store says that it was not closed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.damage import Damage
from journalfs.engine.links import write_durably
from journalfs.format.core_message import CoreParts
from journalfs.format.primitives import i32
from journalfs.records.older import kaha, openwire
from journalfs.records.older import openwire_out as out
from journalfs.records.older.activemq5 import Content, Place, content_of, subscription_key
from journalfs.records.older.amq_log import (
    END,
    HEAD_BYTES,
    START,
    TAIL_BYTES,
    USER_RECORD,
    commands,
    log_files,
    records_end,
)
from journalfs.records.older.openwire import Destination, Identity, Subscription
from journalfs.records.older.openwire_core import core_form

MAX_FILE_BYTES: Final = 32 << 20
"""maxFileLength unless something else is said."""

COMMAND_OFFSET: Final = HEAD_BYTES + 4
_RESERVED: Final = bytes(21)


def frame(command: bytes) -> bytes:
    """A command as a record."""
    size = HEAD_BYTES + 4 + len(command) + TAIL_BYTES
    head = i32(size) + bytes((USER_RECORD,)) + _RESERVED + START
    return b"".join((head, i32(len(command)), command, END))


class DataLog:
    """Appends records to the last of the files in `folder`, and to others behind it. Raises OSError."""

    def __init__(self, folder: Path, *, max_file_bytes: int = MAX_FILE_BYTES, end: int | None = None) -> None:
        """`end`: where the records of the last file end, if not with the file."""
        self.folder = folder
        self.max_file_bytes = max_file_bytes
        self._descriptor = -1
        self.number = max(log_files(folder), default=0)
        if self.number:
            self._open()
            if end is not None:
                self.cut(self.number, end)
        else:
            self._begin()

    def path(self, number: int) -> Path:
        return self.folder / f"data-{number}"

    def _begin(self) -> None:
        if self._descriptor >= 0:
            os.fdatasync(self._descriptor)
            os.close(self._descriptor)
        self.number += 1
        self._descriptor = door.create(self.path(self.number))
        self.end = 0
        door.sync(self.folder)

    def _open(self) -> None:
        self._descriptor = door.open_file(self.path(self.number), door.WRITE)
        self.end = os.fstat(self._descriptor).st_size

    def append(self, commands: Iterable[bytes], *, durable: bool = True) -> list[Place]:
        """Where each command lies; durable on return. None is split between files."""
        places, pieces = [], bytearray()
        for command in commands:
            record = frame(command)
            at = self.end + len(pieces)
            if at and at + len(record) > self.max_file_bytes:
                self._write(pieces)
                pieces.clear()
                self._begin()
                at = 0
            pieces += record
            places.append(Place(self.number, at + COMMAND_OFFSET, len(command)))
        self._write(pieces)
        if durable:
            os.fdatasync(self._descriptor)
        return places

    def whole(self, place: Place) -> Place:
        """A reference says only where a command begins; its length stands before it."""
        if place.length:
            return place
        with open(door.open_file(self.path(place.file)), "rb") as file:
            file.seek(place.offset - 4)
            return place._replace(length=int.from_bytes(file.read(4), "big"))

    def read(self, place: Place) -> bytes:
        """The command at a place."""
        place = self.whole(place)
        with open(door.open_file(self.path(place.file)), "rb") as file:
            return os.pread(file.fileno(), place.length, place.offset)

    def _write(self, data: bytearray) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self._descriptor, view, self.end)
                self.end += written
                view = view[written:]
        finally:
            view.release()

    def overwrite(self, number: int, offset: int, command: bytes) -> None:
        """Put a command in the place of one of the same length; durable on return."""
        with door.opened(self.path(number), door.WRITE) as descriptor:
            os.pwrite(descriptor, command, offset)
            os.fdatasync(descriptor)

    def cut(self, number: int, end: int) -> None:
        """Take back what was appended behind a place."""
        while self.number > number:
            os.close(self._descriptor)
            door.remove(self.path(self.number))
            self.number -= 1
            self._open()
        os.ftruncate(self._descriptor, end)
        self.end = end

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_logs(folder: Path, max_file_bytes: int) -> DataLog:
    """Behind the last whole record that is there: what a killed writer left of one is written over."""
    files, end = log_files(folder), None
    if files:
        end = records_end(door.read(files[max(files)]))
    return DataLog(folder, max_file_bytes=max_file_bytes, end=end)


# -- the reference store -------------------------------------------------------------------------------------

_STREAM: Final = bytes.fromhex("aced0005")
"""Begins every serialized object of Java."""
_ID_OBJECT: Final = (
    _STREAM + bytes.fromhex("73720024") + kaha.ID_CLASS + bytes.fromhex("84b679936282f4090c00007870")
)
_BOOLEAN_OBJECT: Final = (
    _STREAM
    + bytes.fromhex("73720029")
    + b"java.util.concurrent.atomic.AtomicBoolean"
    + bytes.fromhex("4098b70a4f3ffc330200014900")
    + b"\5value"
    + bytes.fromhex("787000000000")
)
"""False: it is not closed."""
_STATE: Final = "store-state"
_SUBSCRIBERS: Final = "durableSubscribers"
_NOWHERE: Final = -1


def mark_unclosed(store: Path, subscriptions: Sequence[bytes]) -> None:
    """Have a broker replay the data logs of the store at `store` when it starts. `subscriptions` are commands
    of durable subscriptions, which releases before 5.3 do not find in a log. Durable on return.
    """
    state = store / "kr-store" / "state"
    if door.is_folder(state):
        at = kaha.closed_mark(state)
        if at is not None:
            path, offset = at
            with door.opened(path, door.WRITE) as descriptor:
                os.pwrite(descriptor, bytes(1), offset)
                os.fdatasync(descriptor)
        return
    door.make_folders(state)
    for name, content in _state_files(subscriptions).items():
        write_durably(state / name, content)
    for folder in (state, state.parent, store):
        door.sync(folder)


def _state_files(subscriptions: Sequence[bytes]) -> dict[str, bytes]:
    """A map that says whether it was closed, and a list of durable subscriptions."""
    root, state = _Container(), _Container()
    maps, lists = root.slot(), root.slot()
    top = state.slot()
    root.entry(maps, key=_container_id(_STATE, "state"), value_offset=top)
    key = _STREAM + b"t" + len(_STATE).to_bytes(2, "big") + _STATE.encode()
    state.entry(top, key=i32(len(key)) + key, value=i32(len(_BOOLEAN_OBJECT)) + _BOOLEAN_OBJECT)
    first = root.slot()
    root.entry(lists, key=_container_id("kaha", _SUBSCRIBERS), value_offset=first)
    for command in subscriptions:
        sized = i32(len(command)) + command
        root.entry(first, value=i32(len(sized)) + sized)
    return {
        "index-kaha": root.index(),
        "data-kaha-1": bytes(root.data),
        f"index-{_STATE}": state.index(),
        f"data-{_STATE}-1": bytes(state.data),
    }


def _container_id(files: str, name: str) -> bytes:
    """Names of a map or list, as a serialized object."""
    block = len(files).to_bytes(2, "big") + files.encode()
    named = b"t" + len(name).to_bytes(2, "big") + name.encode()
    whole = _ID_OBJECT + bytes((kaha.BLOCK, len(block))) + block + named + b"x"
    return i32(len(whole)) + whole


class _Container:
    """Slots in an index file that lead from one to the next, and the items that they name."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._slots: list[list[int]] = []
        self._last: dict[int, int] = {}

    def slot(self) -> int:
        """A slot of its own; where it lies."""
        self._slots.append([_NOWHERE, _NOWHERE, _NOWHERE, _NOWHERE, 0, _NOWHERE, _NOWHERE, 0])
        return (len(self._slots) - 1) * kaha.SLOT.size

    def entry(
        self, head: int, *, key: bytes | None = None, value: bytes | None = None, value_offset: int = _NOWHERE
    ) -> None:
        """One more behind `head`, which begins a map or list."""
        at, last = self.slot(), self._last.get(head, head)
        self._slots[last // kaha.SLOT.size][1] = at
        self._last[head] = at
        slot = self._slots[-1]
        slot[0], slot[6] = last, value_offset
        if key is not None:
            slot[2:5] = 1, *self._item(key)
        if value is not None:
            slot[5:8] = 1, *self._item(value)

    def _item(self, content: bytes) -> tuple[int, int]:
        at = len(self.data)
        self.data += kaha.ITEM.pack(1, len(content)) + content
        return at, len(content)

    def index(self) -> bytes:
        return b"".join(kaha.SLOT.pack(kaha.MAGIC, 1, *slot) for slot in self._slots)


# What is to be appended to data logs so that a replay of them finds what is there.


def difference(found: Content, wanted: Content, data: DataLog) -> Iterator[bytes]:
    """Commands that make of `found`, what a replay finds, `wanted`. Raises `DecodeError` and OSError."""
    for one in found.dangling:
        known = found.topics.get(one.destination.name, {}).get(one.subscription or "")
        if known is not None:
            yield openwire.topic_ack(one.destination, Identity(one.id), known.client, known.name)
    for name, messages in found.queues.items():
        for identity in messages.keys() - wanted.queues.get(name, {}).keys():
            yield openwire.queue_ack(Destination(False, name), Identity(identity))
    for name, messages in wanted.queues.items():
        there = found.queues.get(name, {})
        for identity, place in messages.items():
            if identity not in there:
                yield _again(data, place, Destination(False, name), identity)
    for topic in found.topics.keys() | wanted.topics.keys():
        yield from _of_topic(topic, found, wanted, data)


def forget_unsubscribed(found: Content, wanted: Content, data: DataLog, damage: list[Damage]) -> None:
    """That brokers write no end of a subscription brings it back in a replay: where one is not wanted, what
    says so becomes a note of the same length. Raises OSError.
    """
    gone = {
        (topic, key)
        for topic, known in found.topics.items()
        for key in known.keys() - wanted.topics.get(topic, {}).keys()
    }
    if not gone:
        return
    for number, path in log_files(data.folder).items():
        content = content_of(path, path.name, damage)
        for one in commands(content, number, path.name, damage):
            said = content[one.offset : one.offset + one.length]
            if said[0] != openwire.SUBSCRIPTION:
                continue
            known = openwire.decode(said, Subscription)
            key = subscription_key(known.client, known.name)
            if known.destination is not None and (known.destination.name, key) in gone:
                data.overwrite(number, one.offset, openwire.trace("UNSUBSCRIBED", len(said)))


def _of_topic(topic: str, found: Content, wanted: Content, data: DataLog) -> Iterator[bytes]:
    destination = Destination(True, topic)
    there, to_be = found.topics.get(topic, {}), wanted.topics.get(topic, {})
    for key in to_be.keys() - there.keys():
        one, asked = to_be[key], Destination(True, to_be[key].asked)
        yield openwire.encode(Subscription(one.client, destination, one.selector, one.name, asked))
    places: dict[str, Place] = {}
    for key, one in to_be.items():
        had = there[key].messages if key in there else {}
        places |= {identity: place for identity, place in one.messages.items() if identity not in had}
    for identity, place in sorted(places.items(), key=lambda found: found[1].order):
        if any(identity in one.messages for key, one in there.items() if key in to_be):
            continue  # some have it: it cannot come once more by the same id
        yield _again(data, place, destination, identity)
        for one in to_be.values():
            if identity not in one.messages:
                yield openwire.topic_ack(destination, Identity(identity), one.client, one.name)
    for key, one in there.items():
        if key not in to_be:
            continue
        for identity in one.messages.keys() - to_be[key].messages.keys():
            yield openwire.topic_ack(destination, Identity(identity), one.client, one.name)


def _again(data: DataLog, place: Place, destination: Destination, identity: str) -> bytes:
    """A message that is there, as a command that is in no transaction."""
    message = openwire.decode_message(data.read(place))
    form = core_form(message, topic=destination.topic)
    parts = CoreParts(0, destination.name, form.header, form.body)
    return out.message(parts, out.Form(destination, Identity(identity), message.redeliveries))
