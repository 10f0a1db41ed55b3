"""What is flushed to the journal of a derived store, as commands in the data logs of an AMQ Message Store.

A message is a command of its own, an acknowledgement another; what belongs together is a local transaction of
that broker, which counts once its COMMIT is there. One flush is one append.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from journalfs import door
from journalfs.config.activemq_xml import AmqSettings
from journalfs.engine.stage import StagedRecord
from journalfs.errors import DecodeError, RecordRefused
from journalfs.format.core_message import CoreParts, split_header, split_message
from journalfs.format.large_file import format_large_name
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId
from journalfs.records.older import openwire
from journalfs.records.older import openwire_out as out
from journalfs.records.older.activemq5 import Place
from journalfs.records.older.amq import COMMIT
from journalfs.records.older.amq_data import DataLog, frame
from journalfs.records.older.amq_log import commands, log_files
from journalfs.records.older.openwire import Destination, Identity, LocalTransaction, Outcome, Subscription
from journalfs.records.older.openwire_core import core_form

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Target:
    """What a queue of the derived store is there: a queue, or a durable subscription."""

    destination: Destination
    client: str = ""
    name: str = ""
    selector: str | None = None
    has_wildcards: bool = False


class Held(NamedTuple):
    """A message in a queue."""

    destination: Destination
    identity: Identity
    place: Place


@dataclass(slots=True)
class Known:
    """What the store holds, by the ids of the derived one."""

    targets: dict[int, Target] = field(default_factory=dict)
    subscribed: dict[str, list[int]] = field(default_factory=dict)
    """The subscriptions that each topic has."""
    held: dict[int, dict[int, Held]] = field(default_factory=dict)
    """Messages by the queues that they are in."""
    live: Counter[int] = field(default_factory=Counter)
    """How much of each file is needed."""
    in_doubt: bool = False
    """Transactions are prepared, which no file must lose."""

    def hold(self, message_id: int, queue: int, held: Held) -> None:
        self.held.setdefault(message_id, {})[queue] = held
        self.live[held.place.file] += 1

    def let_go(self, message_id: int, queue: int) -> Held | None:
        found = self.held.get(message_id, {}).pop(queue, None)
        if found is not None:
            self.live[found.place.file] -= 1
        return found


class _Send(NamedTuple):
    message_id: int
    parts: CoreParts
    queues: list[int]
    redeliveries: int = 0


class _Ack(NamedTuple):
    message_id: int
    queue: int


_Operation = _Send | _Ack


class _Command(NamedTuple):
    content: bytes
    then: Callable[[Place], None] | None = None
    """Told where it lies."""


class AmqLog:
    """Use from one thread at a time."""

    def __init__(self, data: DataLog, known: Known, large_dir: Path, settings: AmqSettings) -> None:
        """`large_dir` has the bodies of large messages on their way."""
        self._data = data
        self._known = known
        self._large_dir = large_dir
        self._settings = settings
        self._added: dict[int, CoreParts] = {}
        self._open: dict[int, list[StagedRecord]] = {}
        self._leaving: set[_Ack] = set()
        """What is acknowledged in this flush: a message is deleted by the same one as a rule."""
        self._transactions = 0
        self._copies = 0
        self._cleaned_s = time.monotonic()

    def commit(self, records: Iterable[StagedRecord]) -> None:
        wanted: list[_Command] = []
        try:
            for record in records:
                wanted += self._commands(record)
        except DecodeError as error:
            raise RecordRefused(f"a message that ActiveMQ 5 cannot hold: {error}") from error
        if wanted:
            number, end = self._data.number, self._data.end
            try:
                places = self._data.append(one.content for one in wanted)
            except OSError:
                self._data.cut(number, end)
                raise
            for one, place in zip(wanted, places, strict=True):
                if one.then is not None:
                    one.then(place)
        self._leaving.clear()
        if time.monotonic() - self._cleaned_s > self._settings.cleanup_interval_ms / 1000:
            try:
                self.clean()
            except OSError as error:
                log.warning("%s: no data log is let go: %s", self._data.folder, error)

    def _commands(self, one: StagedRecord) -> list[_Command]:
        one = one._replace(body=bytes(one.body))  # the buffer is used again
        match one.kind:
            case RecordKind.ADD_TX | RecordKind.UPDATE_TX | RecordKind.DELETE_TX:
                self._open.setdefault(one.tx_id, []).append(one)
                return []
            case RecordKind.COMMIT:
                return self._encoded(list(self._operations(self._open.pop(one.tx_id, []))))
            case RecordKind.ROLLBACK:
                self._open.pop(one.tx_id, None)
                return []
            case _:
                return self._encoded(list(self._operations([one])))

    # -- from records to what they do ------------------------------------------------------------------------

    def _operations(self, records: Iterable[StagedRecord]) -> Iterator[_Operation]:
        sends: dict[int, _Send] = {}
        acks: list[_Ack] = []
        for one in records:
            if one.kind in (RecordKind.DELETE, RecordKind.DELETE_TX):
                acks += [_Ack(one.record_id, queue) for queue in self._known.held.get(one.record_id, ())]
                self._added.pop(one.record_id, None)
            elif one.user_type in (MessageType.MESSAGE, MessageType.LARGE_MESSAGE):
                self._added[one.record_id] = self._parts(one)
            elif one.user_type == MessageType.ADD_REFERENCE:
                queue = Reader(one.body).i64()
                send = sends.get(one.record_id) or self._sent(one.record_id)
                sends[one.record_id] = send
                send.queues.append(queue)
            elif one.user_type == MessageType.ACKNOWLEDGE_REFERENCE:
                acks.append(_Ack(one.record_id, Reader(one.body).i64()))
        yield from sends.values()
        for ack in acks:
            if ack not in self._leaving:
                self._leaving.add(ack)
                yield ack

    def _parts(self, one: StagedRecord) -> CoreParts:
        if one.user_type == MessageType.MESSAGE:
            return out.inflated_parts(split_message(one.body))
        path = self._large_dir / format_large_name(MessageId(one.record_id))
        with open(door.open_file(path), "rb") as file:
            body = file.read()
        return out.inflated_parts(split_header(Reader(one.body), body))

    def _sent(self, message_id: int) -> _Send:
        """A message that comes, or one that is there already and goes to another queue, too."""
        parts = self._added.pop(message_id, None)
        if parts is not None:
            return _Send(message_id, parts, [])
        held = next(iter(self._known.held.get(message_id, {}).values()), None)
        if held is None:
            raise DecodeError(0, f"message {message_id} is not there")
        message = openwire.decode_message(self._data.read(held.place))
        form = core_form(message, topic=held.destination.topic)
        address = held.destination.name
        parts = CoreParts(message_id, address, form.header, form.body)
        return _Send(message_id, parts, [], message.redeliveries)

    # -- from what they do to commands -----------------------------------------------------------------------

    def _encoded(self, operations: list[_Operation]) -> list[_Command]:
        found = self._of_operations(operations, None)
        if len(found) < 2:
            return found
        self._transactions += 1
        transaction = LocalTransaction(out.CONNECTION, self._transactions)
        found = self._of_operations(operations, transaction)
        return [*found, _Command(openwire.encode(Outcome(transaction, COMMIT)))]

    def _of_operations(
        self, operations: list[_Operation], transaction: LocalTransaction | None
    ) -> list[_Command]:
        found: list[_Command] = []
        for one in operations:
            if isinstance(one, _Send):
                for destination, queues in self._destinations(one).items():
                    found += self._send(one, destination, queues, transaction)
            else:
                found += self._acknowledge(one, transaction)
        return found

    def _destinations(self, send: _Send) -> dict[Destination, list[int]]:
        found: dict[Destination, list[int]] = {}
        for queue in send.queues:
            target = self._known.targets[queue]
            destination = target.destination
            if target.has_wildcards:
                destination = destination._replace(name=send.parts.address or destination.name)
            found.setdefault(destination, []).append(queue)
        return found

    def _send(
        self, send: _Send, to: Destination, queues: list[int], transaction: LocalTransaction | None
    ) -> list[_Command]:
        known, message_id = self._known, send.message_id
        self._copies += 1
        identity = Identity(out.new_identity(message_id, self._copies))
        form = out.Form(to, identity, send.redeliveries, transaction)

        def hold(place: Place) -> None:
            for queue in queues:
                known.hold(message_id, queue, Held(to, identity, place))

        found = [_Command(out.message(send.parts, form), hold)]
        if to.topic:
            subscribed = known.subscribed.setdefault(to.name, [])
            for queue in queues:
                if queue not in subscribed:
                    found.insert(0, self._subscribe(queue, to))
            for queue in subscribed:
                if queue not in queues:
                    target = known.targets[queue]
                    ack = openwire.topic_ack(to, identity, target.client, target.name, transaction)
                    found.append(_Command(ack))
        return found

    def _subscribe(self, queue: int, topic: Destination) -> _Command:
        """A subscription with wildcards has no messages of that topic yet."""
        target, subscribed = self._known.targets[queue], self._known.subscribed[topic.name]

        def note(_: Place) -> None:
            if queue not in subscribed:
                subscribed.append(queue)

        asked = target.destination
        command = openwire.encode(Subscription(target.client, topic, target.selector, target.name, asked))
        return _Command(command, note)

    def _acknowledge(self, ack: _Ack, transaction: LocalTransaction | None) -> list[_Command]:
        known = self._known
        held = known.held.get(ack.message_id, {}).get(ack.queue)
        if held is None:
            return []
        if held.destination.topic:
            target = known.targets[ack.queue]
            command = openwire.topic_ack(
                held.destination, held.identity, target.client, target.name, transaction
            )
        else:
            command = openwire.queue_ack(held.destination, held.identity, transaction)

        def let_go(_: Place) -> None:
            known.let_go(ack.message_id, ack.queue)
            if not known.held[ack.message_id]:
                del known.held[ack.message_id]

        return [_Command(command, let_go)]

    # -- cleaning --------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Let the oldest data logs go in which no message is needed. Subscriptions in them stay, and no file
        goes before an older one: an acknowledgement never goes before its message. Raises OSError.
        """
        self._cleaned_s = time.monotonic()
        if self._known.in_doubt:
            return
        for number, path in log_files(self._data.folder).items():
            if number == self._data.number or self._known.live[number] > 0:
                return
            self._drop(path, number)

    def _drop(self, path: Path, number: int) -> None:
        content = door.read(path)
        found = (
            content[one.offset : one.offset + one.length] for one in commands(content, number, path.name, [])
        )
        kept = b"".join(frame(one) for one in found if one[0] == openwire.SUBSCRIPTION)
        if kept and len(kept) == len(content):
            return
        archive = self._settings.archive
        if archive is not None:
            door.make_folders(archive)
            to = archive / path.name
            while door.exists(to):
                to = to.with_name(f"{to.name}-again")
            door.copy(path, to)
            door.sync(to)
            door.sync(archive)
        if kept:
            door.sweep_replacements(path)
            door.replace(path, kept)
        else:
            door.remove(path)
        door.sync(path.parent)
        log.info("%s: nothing in it is needed any more", path)


class NoBindings:
    """The bindings of a derived store, which has ids only for as long as it is there."""

    def commit(self, records: Iterable[StagedRecord]) -> None:
        """Nothing of them is kept."""
