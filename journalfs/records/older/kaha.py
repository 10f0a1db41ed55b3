"""The reference store of an AMQ Message Store (`kr-store`): maps and lists in files of slots. It is what the
broker believes after a clean stop.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.damage import Damage
from journalfs.errors import DecodeError
from journalfs.records.older import activemq5, openwire
from journalfs.records.older.amq_log import HEAD_BYTES

SLOT: Final = struct.Struct(">hbqqiqiiqi")
MAGIC: Final = 0x7A55
LISTS_OFFSET: Final = SLOT.size
"""The root container lists maps from its first slot, lists from its second."""

TSN: Final = "tsntopic://"
"""The name of what a subscription still gets begins so, since ActiveMQ 5.1."""

ITEM: Final = struct.Struct(">bi")
_I32: Final = struct.Struct(">i")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.#-]")
NAME_CHARS_MAX: Final = (64, 200)
"""Of a file: later names and ActiveMQ 5.0's are cut at the front."""

COMMAND_OFFSET: Final = HEAD_BYTES + 4
"""From a record of a data log to its command."""


class Entry(NamedTuple):
    key: bytes
    value: bytes
    value_file: int
    value_offset: int


class Container(NamedTuple):
    """One map or list: the name of its files, its own name, and where its first slot lies."""

    files: str
    name: str
    root_offset: int


def safe_name(name: str, longest: int) -> str:
    """How a container's name is spelled in a file's."""
    return "".join(char if _PLAIN.match(char) else f"#{ord(char):x}" for char in name)[-longest:]


class KahaStore:
    """One folder of containers. Raises `DecodeError`, `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents: dict[str, bytes] = {}

    def _file(self, *names: str) -> bytes:
        for name in names:
            if name not in self._contents:
                try:
                    self._contents[name] = activemq5.read_file(self._folder / name)
                except FileNotFoundError:
                    continue
            return self._contents[name]
        raise DecodeError(0, f"{self._folder} has no file {names[0]}")

    def _index(self, files: str) -> bytes:
        return self._file(*(f"index-{safe_name(files, longest)}" for longest in NAME_CHARS_MAX))

    def _data(self, files: str, number: int) -> bytes:
        later = [f"{safe_name(f'data-{files}-', longest)}{number}" for longest in NAME_CHARS_MAX]
        of_5_0 = [f"data-{safe_name(files, longest)}-{number}" for longest in NAME_CHARS_MAX]
        return self._file(*later, *of_5_0)

    def item(self, files: str, number: int, offset: int) -> bytes:
        """What lies at an offset of a container's data file."""
        content = self._data(files, number)
        if not 0 <= offset <= len(content) - ITEM.size:
            raise DecodeError(offset, f"data file {number} of {files} ends before")
        _, length = ITEM.unpack_from(content, offset)
        start = offset + ITEM.size
        if not 0 <= length <= len(content) - start:
            raise DecodeError(offset, f"an item of {length} bytes in {files}")
        return content[start : start + length]

    def entries(self, files: str, root_offset: int) -> Iterator[Entry]:
        """Keys and values of a map, or values of a list, in their order."""
        index = self._index(files)
        at, seen = root_offset, set()
        while at >= 0:
            if at in seen or not 0 <= at <= len(index) - SLOT.size:
                raise DecodeError(at, f"the slots of {files} lead nowhere")
            seen.add(at)
            slot = SLOT.unpack_from(index, at)
            magic, _, _, following, key_file, key_offset, _, value_file, value_offset, _ = slot
            if magic != MAGIC:
                raise DecodeError(at, f"no slot of {files}")
            if at != root_offset:
                key = self.item(files, key_file, key_offset) if key_file >= 0 else b""
                value = self.item(files, value_file, value_offset) if value_file >= 0 else b""
                yield Entry(key, value, value_file, value_offset)
            at = following

    def containers(self) -> dict[tuple[str, str], Container]:
        """All maps and lists, by the names of their files and their own."""
        root = next((name for name in ("container-roots", "kaha") if self._has(name)), None)
        found: dict[tuple[str, str], Container] = {}
        if root is None:
            # A link in its place is not the same as nothing, and neither are containers without their root.
            if any(name.startswith(("index-", "data-")) for name in door.names_if_there(self._folder)):
                raise DecodeError(0, f"{self._folder.name} has no list of its containers (index-kaha)")
            return found
        for start in (0, LISTS_OFFSET):
            if start >= len(self._index(root)):
                continue
            for entry in self.entries(root, start):
                files, name = container_id(entry.key)
                found[files, name] = Container(files, name, entry.value_offset)
        return found

    def _has(self, files: str) -> bool:
        names = (f"index-{safe_name(files, longest)}" for longest in NAME_CHARS_MAX)
        return any(door.exists(self._folder / name) for name in names)


BLOCK, LONG_BLOCK, STRING = 0x77, 0x7A, 0x74
"""Marks of Java's serialization: bytes that an object wrote itself, and a string."""
ID_CLASS: Final = b"org.apache.activemq.kaha.ContainerId"
DESTINATION_CLASS: Final = b"org.apache.activemq.command.ActiveMQ"


def container_id(item: bytes) -> tuple[str, str]:
    """Files and own name of a container: a serialized object of two fields, of which the second is a string
    or a destination, itself an object.
    """
    start = item.find(b"xp", item.find(ID_CLASS))
    if start < 0:
        raise DecodeError(0, "an entry of the root container names no container")
    files, at = _block(item, start + 2)
    if item[at] == STRING:
        return files, openwire.modified_utf8(openwire.Loose(item, at + 1).sized_utf())
    inner = item.find(b"xp", item.find(DESTINATION_CLASS, at))
    if inner < 0:
        raise DecodeError(at, f"a container of {files} has a name of an unknown kind")
    return files, _block(item, inner + 2)[0]


def _block(item: bytes, at: int) -> tuple[str, int]:
    """A text in a block of its own, and where the block ends."""
    reader = openwire.Loose(item, at)
    mark = reader.i8()
    if mark not in (BLOCK, LONG_BLOCK):
        raise DecodeError(at, "no block of bytes")
    length = reader.i8() if mark == BLOCK else reader.i32()
    end = reader.at + length
    return openwire.modified_utf8(reader.sized_utf()), end


def _utf(data: bytes) -> str:
    return openwire.modified_utf8(openwire.Loose(data).sized_utf())


def _sized(data: bytes) -> bytes:
    reader = openwire.Loose(data)
    return reader.take(reader.i32())


def stopped_cleanly(state: Path) -> bool:
    """Whether the broker believes the reference store. Raises `DecodeError`, `OSError`."""
    return closed_mark(state) is not None


def closed_mark(state: Path) -> tuple[Path, int] | None:
    """File and offset of the byte that says that a reference store was closed; None: nothing says so. Raises
    `DecodeError`, `OSError`.
    """
    store = KahaStore(state)
    for found in store.containers().values():
        if found.files == "store-state":
            for entry in store.entries(found.files, found.root_offset):
                # A serialized AtomicBoolean, whose int comes last; the version of the index is a number.
                if b"AtomicBoolean" in entry.value and entry.value[-1] == 1:
                    end = entry.value_offset + ITEM.size + len(entry.value)
                    return state / f"data-{found.files}-{entry.value_file}", end - 1
    return None


def durable_subscribers(state: Path) -> list[openwire.Subscription]:
    """What ActiveMQ 5.0 to 5.2 know of subscriptions beside the reference store."""
    store = KahaStore(state)
    found = store.containers().get(("kaha", "durableSubscribers"))
    if found is None:
        return []
    values = (entry.value for entry in store.entries(found.files, found.root_offset))
    return [openwire.decode(_command(_sized(value)), openwire.Subscription) for value in values]


def read_references(folder: Path, content: activemq5.Content, damage: list[Damage]) -> None:
    """Fill `content` from a reference store that was closed. `damage`: what of it leads nowhere. Raises
    `DecodeError`, `OSError`.
    """
    store = KahaStore(folder / "data")
    containers = store.containers()
    topics: dict[str, activemq5.Messages] = {}
    for found in containers.values():
        if found.files == "queue-data":
            content.queue(found.name).update(_references(store, found))
        elif found.files == "topic-data":
            content.topic(found.name)
            topics[found.name] = _references(store, found)
    waiting = {key for key in containers if key[0].startswith(TSN) or key[1].endswith("tsn")}
    for found in list(containers.values()):
        if found.files == "blob" and found.name.endswith("-Subscriptions"):
            for entry in store.entries(found.files, found.root_offset):
                subscription = openwire.decode(
                    _command(_sized(entry.value)), openwire.Subscription, openwire.Tight
                )
                waiting.discard(
                    _read_subscription(store, containers, content, topics, subscription, damage=damage)
                )
    for files, name in waiting:
        if any(True for _ in store.entries(files, containers[files, name].root_offset)):
            reason = f"{name.removeprefix(TSN)} is no subscription, but messages wait for it"
            damage.append(Damage(f"{folder.name}/data", 0, 0, "garbage", reason))
    if door.exists(folder / "state"):
        _read_prepared(KahaStore(folder / "state"), content)


def _references(store: KahaStore, container: Container) -> activemq5.Messages:
    found: activemq5.Messages = {}
    for entry in store.entries(container.files, container.root_offset):
        reader = openwire.Loose(entry.value)
        identity = openwire.modified_utf8(reader.sized_utf())
        number, offset = reader.i32(), reader.i32()
        found[identity] = activemq5.Place(number, offset + COMMAND_OFFSET, 0, len(found))
    return found


def _read_subscription(
    store: KahaStore,
    containers: dict[tuple[str, str], Container],
    content: activemq5.Content,
    topics: dict[str, activemq5.Messages],
    found: openwire.Subscription,
    *,
    damage: list[Damage],
) -> tuple[str, str] | None:
    """Which container says what it still gets."""
    if found.destination is None:
        return None
    content.subscribe(found)
    topic, key = found.destination.name, f"{found.client}:{found.name}"
    later = f"{TSN}{topic}{key}"
    container = containers.get((later, later)) or containers.get(("kaha", f"{key}:topic://{topic}tsn"))
    if container is None:
        return None
    live = topics.get(topic, {})
    messages = content.topic(topic)[activemq5.subscription_key(found.client, found.name)].messages
    for entry in store.entries(container.files, container.root_offset):
        identity = _utf(entry.key)
        if identity in live:
            messages[identity] = live[identity]
        else:
            reason = f"the subscription {key} of {topic} gets {identity}, which is no message there"
            damage.append(Damage("kr-store/data", 0, 0, "garbage", reason))
    return container.files, container.name


def _read_prepared(store: KahaStore, content: activemq5.Content) -> None:
    """What transactions in doubt sent; what they acknowledged is not in the reference store."""
    for found in store.containers().values():
        if found.files != "transactions-state":
            continue
        for entry in store.entries(found.files, found.root_offset):
            transaction = openwire.transaction_in(b"\1" + _command(_sized(entry.key)))
            assert transaction is not None, "it is marked as present"
            in_doubt = content.prepared.setdefault(transaction, activemq5.InDoubt(transaction))
            reader = openwire.Loose(entry.value)
            reader.take(LOCATION_BYTES)
            for _ in range(reader.i32()):
                reader.take(LOCATION_BYTES)
                message, destination = reader.take(reader.i32()), reader.take(reader.i32())
                decoded = openwire.decode_message(_command(message), openwire.Tight)
                to = openwire.decode_tight_destination(_command(destination))
                in_doubt.operations.append(activemq5.Send(to, decoded.id, None, decoded))


LOCATION_BYTES: Final = 13
"""A file, an offset, a size, and a type."""


def _command(data: bytes) -> bytes:
    """A command without the length before it."""
    return data[4:]
