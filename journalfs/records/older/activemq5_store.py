"""Writes what a store of ActiveMQ 5 holds into a derived store."""

from __future__ import annotations

import heapq
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.engine.buffers import MappedFile
from journalfs.errors import DecodeError, SelectorError
from journalfs.format.bindings import RoutingType
from journalfs.format.primitives import nullable_simple_string
from journalfs.format.xid import Xid
from journalfs.ids import QueueId
from journalfs.records.older import openwire_core
from journalfs.records.older.activemq5 import Content, InDoubt, Messages, Place, Send, Subscribed, Taken
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.openwire import Destination, OpenWireMessage, XaTransaction, decode_message
from journalfs.records.older.rewriting import OpenWireBatch
from journalfs.selector import Selector, compile_selector

Told = Callable[[int, Destination, str, Place, list[QueueId]], None]
"""Hears of each message that is in queues: its id here, where it was sent, its id there, where it lies."""

TOGETHER_MAX: Final = 1024
"""Messages of which the core is asked at once."""
MAPPED_MAX: Final = 64
"""Journal files."""

Load = Callable[[Place], bytes]
"""The OpenWire command of a message from its type on. Raises `DecodeError`, `OSError`."""


class Places:
    """Reads places of journal files, which stay open."""

    def __init__(self, files: dict[int, Path], folder: Path, form: str, root: Path) -> None:
        """`form`: how `folder` names a file of a number; `root` is the source's."""
        self._files = files
        self._folder = folder.relative_to(root)
        self._form = form
        self._open: dict[int, int] = {}
        self._mapped: dict[int, MappedFile] = {}

    def mapped(self, file: int) -> MappedFile:
        """The file for the core. One that cannot be had is empty, and `read` says why."""
        if file not in self._mapped:
            while len(self._mapped) >= MAPPED_MAX:
                self._mapped.pop(next(iter(self._mapped))).close()
            self._mapped[file] = self._map(file)
        return self._mapped[file]

    def _map(self, file: int) -> MappedFile:
        try:
            mapped = MappedFile(self._files[file])
        except (KeyError, OSError):
            return MappedFile.without_content(self.name(file))
        mapped.detach()
        return mapped

    def size_bytes(self) -> int:
        """Of all files together, as far as they are there."""
        found = 0
        for path in self._files.values():
            with suppress(OSError):
                found += door.status(path).st_size
        return found

    def read(self, file: int, offset: int, length: int) -> bytes:
        """Fewer bytes where the file ends. Raises `DecodeError` when there is no such file, `OSError`."""
        if file not in self._files:
            raise DecodeError(offset, "the journal file is not there")
        if file not in self._open:
            self._open[file] = door.open_file(self._files[file])
        return os.pread(self._open[file], length, offset)

    def name(self, file: int) -> str:
        return str(self._folder / self._form.format(file))

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        for mapped in self._mapped.values():
            mapped.close()
        self._mapped.clear()


class _Queue:
    """A durable subscription as a queue, with the selector that decides what it gets."""

    def __init__(self, queue: QueueId, selector: Selector | None) -> None:
        self.id = queue
        self._selector = selector

    @property
    def gets_all(self) -> bool:
        return self._selector is None

    def gets(self, message: OpenWireMessage, form: openwire_core.CoreForm) -> bool:
        return self._selector is None or self._selector.accepts(openwire_core.selectable(message, form))


class _Way(NamedTuple):
    """Where messages go."""

    destination: Destination
    queues: Sequence[_Queue]


class _Waiting:
    """Messages that are written together: by the core, but for those that are anything but usual."""

    def __init__(self, writer: ContentWriter, *, topic: bool) -> None:
        self._writer = writer
        self._topic = topic
        self._begin()

    def _begin(self) -> None:
        self._batch = OpenWireBatch(layout=self._writer.layout, topic=self._topic)
        self._found: list[Place] = []
        self._ways: list[_Way] = []
        self._ends: list[int] = []
        """Of each way, the number of the message behind its last one."""

    def add(self, destination: Destination, places: Sequence[Place], queues: Sequence[_Queue]) -> None:
        batch = self._batch
        for file in {place.file for place in places}.difference(batch.files):
            batch.file(file, self._writer.places.mapped(file))
        address = self._writer.address(destination.name)
        batch.add([place[:3] for place in places], address, [one.id for one in queues])
        self._found += places
        self._ways.append(_Way(destination, queues))
        self._ends.append(len(batch))
        if len(batch) >= TOGETHER_MAX:
            self.write()

    def write(self) -> None:
        """All, in their order. Nothing waits then."""
        count, at, out = len(self._batch), 0, self._writer.out
        while at < count:
            at = out.openwire(self._batch, at)
            if at < count:
                way = self._ways[bisect_right(self._ends, at)]
                self._writer.write_one(way.destination, self._found[at], way.queues)
                at += 1
        out.progress(int(self._writer.bytes_each * count))
        self._begin()


class ContentWriter:
    """Writes one `Content`; `places` names files for what is said of damage."""

    def __init__(
        self,
        out: DerivedStore,
        load: Load,
        places: Places,
        *,
        layout: int,
        hide_taken: bool,
        told: Told | None = None,
    ) -> None:
        """`layout`: how `load` finds what has no length, for the core (`engine.openwire`)."""
        self.out = out
        self._told = told
        self._load = load
        self.places = places
        self.layout = layout
        self._hide_taken = hide_taken
        """Whether the broker hides what a transaction in doubt has acknowledged."""
        self._ids: dict[tuple[str, str], int] = {}
        self._addresses: dict[str, bytes] = {}
        """Names, encoded."""
        self.bytes_each = 0.0
        """Of the source, for the progress bar."""
        self._subscriptions: dict[tuple[str, str], _Queue] = {}
        self.subscriptions: list[tuple[Subscribed, QueueId]] = []
        """With the queue that each is."""

    def write(self, content: Content) -> None:
        wanted = {
            (one.destination.qualified, one.id)
            for found in content.prepared.values()
            for one in found.operations
            if isinstance(one, Taken)
        }
        self.bytes_each = self.places.size_bytes() / max(content.messages(), 1)
        for name, messages in content.queues.items():
            queue = self.out.queue(name, name, RoutingType.ANYCAST)
            self._write_queue(name, queue, messages, wanted)
        self._make_subscriptions(content)
        self._write_topics(content, wanted)
        for found in content.prepared.values():
            self._write_prepared(found, content)

    def _write_queue(
        self, name: str, queue: QueueId, messages: Messages, wanted: set[tuple[str, str]]
    ) -> None:
        destination, waiting = Destination(False, name), _Waiting(self, topic=False)
        queues = [_Queue(queue, None)]
        known = {identity for qualified, identity in wanted if qualified == destination.qualified}
        for told, some in groupby(messages.items(), lambda one: self._told is not None or one[0] in known):
            if not told:
                places = [place for _, place in some]
                for first in range(0, len(places), TOGETHER_MAX):
                    waiting.add(destination, places[first : first + TOGETHER_MAX], queues)
                continue
            waiting.write()
            for identity, place in some:
                message_id = self.write_one(destination, place, queues)
                if message_id is not None:
                    self._ids[destination.qualified, identity] = message_id
        waiting.write()

    def _is_told_of(self, message: tuple[str, str], wanted: set[tuple[str, str]]) -> bool:
        """Whether anybody has to know its id here."""
        return self._told is not None or message in wanted

    # -- topics ----------------------------------------------------------------------------------------------

    def _make_subscriptions(self, content: Content) -> None:
        """A queue for each, by the name that a 2.x broker gives it."""
        addresses: dict[str, str] = {}
        for topic, known in content.topics.items():
            self.out.address(topic, RoutingType.MULTICAST)
            for key, one in known.items():
                address = openwire_core.wildcard_address(one.asked) if one.asked != topic else topic
                name = openwire_core.subscription_queue(one.client, one.name)
                if addresses.setdefault(name, address) != address:
                    # Brokers that wrote no end of a subscription know it again, on the topic it was on.
                    name = f"{name}.{topic}"
                    self.out.note(
                        "subscription-renamed",
                        f"the subscription {one.name} of client {one.client} is on several topics: "
                        f"that on {topic} is the queue {name}",
                    )
                self._subscriptions[topic, key] = self._subscription(one, name, address)

    def _subscription(self, one: Subscribed, name: str, address: str) -> _Queue:
        selector = None
        if one.selector:
            try:
                selector = compile_selector(one.selector)
            except SelectorError as error:
                self.out.note("selector-not-kept", f"the queue {name} has no filter: {error}")
        filter_text = (
            openwire_core.core_filter(one.selector) if selector is not None and one.selector else None
        )
        queue = self.out.queue(name, address, RoutingType.MULTICAST, filter=filter_text)
        facts = {"clientId": one.client, "name": one.name, "topic": one.asked, "selector": one.selector}
        self.out.jms(f"subscription.{name}", {**facts, "queue": name})
        self.subscriptions.append((one, queue))
        return _Queue(queue, selector)

    def _write_topics(self, content: Content, wanted: set[tuple[str, str]]) -> None:
        """All topics by turns, in the order of the journal: a subscription with wildcards is on several."""
        each = (_merged(topic, known) for topic, known in content.topics.items())
        waiting = _Waiting(self, topic=True)
        for topic, identity, place, keys in heapq.merge(*each, key=lambda one: one.place[:2]):
            destination = Destination(True, topic)
            queues = [self._subscriptions[topic, key] for key in keys]
            told = self._is_told_of((destination.qualified, identity), wanted)
            if not told and all(one.gets_all for one in queues):
                waiting.add(destination, [place], queues)
                continue
            waiting.write()
            message_id = self.write_one(destination, place, queues)
            if message_id is not None:
                self._ids[destination.qualified, identity] = message_id
        waiting.write()

    # -- messages --------------------------------------------------------------------------------------------

    def write_one(self, destination: Destination, place: Place, queues: Sequence[_Queue]) -> int | None:
        """One message that nobody looked at; its id. None: it is in no queue, or cannot be read."""
        decoded = self._decoded(place, destination)
        if decoded is None:
            return None
        got = [one.id for one in queues if one.gets(*decoded)]
        if not got:
            return None
        message_id = self._put(destination, decoded, got)
        if self._told is not None:
            self._told(message_id, destination, decoded[0].id, place, got)
        return message_id

    def address(self, name: str) -> bytes:
        if name not in self._addresses:
            self._addresses[name] = nullable_simple_string(name)
        return self._addresses[name]

    def _decoded(
        self, place: Place, destination: Destination
    ) -> tuple[OpenWireMessage, openwire_core.CoreForm] | None:
        """None, and said, where it cannot be read."""
        try:
            message = decode_message(self._load(place))
            return message, self._form(message, destination)
        except (DecodeError, OSError, IndexError) as error:
            name, reason = self.places.name(place.file), f"a message of {destination.qualified}: {error}"
            self.out.damage(name, place.offset, place.length, "garbage", reason)
            return None

    def _form(self, message: OpenWireMessage, destination: Destination) -> openwire_core.CoreForm:
        if message.blob_url is not None:
            text = "a blob message has a URL (property __HDR_BLOB_URL) in place of a body"
            self.out.note("blob-message", text)
        form = openwire_core.core_form(message, topic=destination.topic)
        if form.nested:
            text = f"{destination.qualified}: maps and lists within properties or maps are JSON in a string"
            self.out.note("nested-value", text)
        return form

    def _put(
        self,
        destination: Destination,
        decoded: tuple[OpenWireMessage, openwire_core.CoreForm],
        queues: list[QueueId],
        tx: int | None = None,
    ) -> int:
        message, form = decoded
        message_id = self.out.next_id()
        self.out.message(message_id, destination.name, form.header, form.body, queues, tx=tx)
        if message.redeliveries > 0 and tx is None:
            for queue in queues:
                self.out.delivery_count(message_id, queue, message.redeliveries)
        return message_id

    # -- transactions in doubt -------------------------------------------------------------------------------

    def _write_prepared(self, found: InDoubt, content: Content) -> None:
        xid = found.transaction
        if not isinstance(xid, XaTransaction):
            return
        tx = self.out.in_doubt(Xid(xid.format_id, xid.branch, xid.global_id))
        for one in found.operations:
            if isinstance(one, Send):
                self._send(one, tx, content)
            else:
                self._take(one, tx, found)

    def _send(self, one: Send, tx: int, content: Content) -> None:
        destination = one.destination
        if one.place is not None:
            decoded = self._decoded(one.place, destination)
        else:
            assert one.message is not None, "it lies somewhere, or is there"
            decoded = one.message, self._form(one.message, destination)
        if decoded is None:
            return
        if destination.topic:
            keys = [(destination.name, key) for key in content.topics.get(destination.name, {})]
            queues = [self._subscriptions[key].id for key in keys if self._subscriptions[key].gets(*decoded)]
        else:
            queues = [self.out.queue(destination.name, destination.name, RoutingType.ANYCAST)]
        if queues:
            self._put(destination, decoded, queues, tx)

    def _take(self, one: Taken, tx: int, found: InDoubt) -> None:
        if not self._hide_taken:
            text = f"{one.destination.qualified}: acknowledgements of a transaction in doubt do not count"
            self.out.note("acknowledgement-in-doubt", text)
            return
        message_id = self._ids.get((one.destination.qualified, one.id))
        if message_id is None:
            return
        if one.subscription is None:
            queue: QueueId | None = self.out.queues.get(one.destination.name)
        else:
            known = self._subscriptions.get((one.destination.name, one.subscription))
            queue = known.id if known is not None else None
        if queue is not None:
            self.out.acknowledge(message_id, queue, tx=tx)


_ORDER: Final = itemgetter(0)


class _OfTopic(NamedTuple):
    """A message of a topic, with the subscriptions that still get it."""

    topic: str
    id: str
    place: Place
    keys: list[str]


def _merged(topic: str, known: dict[str, Subscribed]) -> Iterator[_OfTopic]:
    """Each message once, in order."""

    def ordered(key: str, messages: Messages) -> Iterator[tuple[int, str, Place, str]]:
        for identity, place in messages.items():
            yield place.order, identity, place, key

    each = (ordered(key, one.messages) for key, one in known.items())
    for _, alike in groupby(heapq.merge(*each, key=_ORDER), key=_ORDER):
        found = list(alike)
        _, identity, place, _ = found[0]
        yield _OfTopic(topic, identity, place, [key for *_, key in found])
