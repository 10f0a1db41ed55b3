"""A whole data directory: what is live in which queue, in delivery order, and what is prepared."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.reference.bindings import bindings
from tests.reference.journal import Emitted, Replay, Transaction, read_folder, replay
from tests.reference.messages import Message, decode
from tests.reference.pages import address_pages
from tests.reference.primitives import Cursor, MalformedError, base64_text

LARGE, ADD_REF, ACK_REF, DELIVERY_COUNT, PAGE_TX, SCHEDULED = 30, 32, 33, 34, 35, 36
DUPLICATE_ID, HEURISTIC, CURSOR_ACK, PAGE_COMPLETE, MESSAGE = 37, 38, 39, 42, 45


@dataclass
class Reference:
    """A message on a queue."""

    message: Message
    delivery_count: int = 0
    scheduled_ms: int = 0
    delivering: bool = False
    paged: bool = False


@dataclass
class MessageJournal:
    """The surviving records, told apart by what they mean."""

    messages: dict[int, Message] = field(default_factory=dict)
    queues: dict[int, dict[int, Reference]] = field(default_factory=dict)
    page_tx: dict[int, int] = field(default_factory=dict)
    """Page transaction -> pairs not consumed yet."""
    page_tx_records: dict[int, int] = field(default_factory=dict)
    cursor_acks: set[tuple[int, int, int]] = field(default_factory=set)
    completed: set[tuple[int, int]] = field(default_factory=set)
    duplicate_ids: dict[str, int] = field(default_factory=dict)
    heuristic: list[tuple[str, bool]] = field(default_factory=list)
    prepared_acks: set[tuple[int, int, int]] = field(default_factory=set)


class LargeMessages:
    """The folder of large bodies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def body(self, message_id: int) -> bytes | None:
        path = self._folder / f"{message_id}.msg"
        return path.read_bytes() if path.is_file() else None


def _message(record: Emitted, large: LargeMessages) -> Message:
    """The message of a record. Its id is the record's; the copies inside agree in what a broker wrote."""
    core_large = record.user_type == LARGE
    try:
        return decode(record.body, core_large=core_large, large=large.body(record.record_id))
    except MalformedError as error:
        return Message({"id": record.record_id, "damage": str(error)}, record.record_id, 4, 0, None, None)


def _ids(body: bytes, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, body[: struct.calcsize(layout)])


def interpret(replayed: Replay, large: LargeMessages) -> MessageJournal:
    found = MessageJournal()
    for record in replayed.records:
        _interpret_one(record, found, large)
    for tx in replayed.prepared:
        for record in tx.operations:
            if record.user_type == ACK_REF:
                reference = found.queues.get(_ids(record.body, ">q")[0], {}).get(record.record_id)
                if reference is not None:
                    reference.delivering = True
            elif record.user_type == CURSOR_ACK:
                queue, page, index = _ids(record.body, ">qqi")
                found.prepared_acks.add((queue, page, index))
    return found


def _interpret_one(record: Emitted, found: MessageJournal, large: LargeMessages) -> None:
    kind, body = record.user_type, record.body
    if kind in (LARGE, MESSAGE):
        found.messages[record.record_id] = _message(record, large)
    elif kind in (ADD_REF, ACK_REF, DELIVERY_COUNT, SCHEDULED):
        _interpret_reference(record, found)
    elif kind in (PAGE_TX, CURSOR_ACK, PAGE_COMPLETE):
        _interpret_paging(record, found)
    elif kind == DUPLICATE_ID:
        address = Cursor(body).simple_string()
        found.duplicate_ids[address] = found.duplicate_ids.get(address, 0) + 1
    elif kind == HEURISTIC:
        cursor = Cursor(body)
        xid = _xid(cursor.i32(), cursor.block(), cursor.block())
        found.heuristic.append((xid, cursor.boolean()))


def _interpret_reference(record: Emitted, found: MessageJournal) -> None:
    kind, body = record.user_type, record.body
    if kind == ADD_REF:
        message = found.messages.get(record.record_id)
        if message is not None:
            refs = found.queues.setdefault(_ids(body, ">q")[0], {})
            refs.setdefault(record.record_id, Reference(message, scheduled_ms=max(message.scheduled_ms, 0)))
    elif kind == ACK_REF:
        found.queues.get(_ids(body, ">q")[0], {}).pop(record.record_id, None)
    else:
        queue, value = _ids(body, ">qi" if kind == DELIVERY_COUNT else ">qq")
        reference = found.queues.get(queue, {}).get(record.record_id)
        if reference is not None and kind == DELIVERY_COUNT:
            reference.delivery_count = value
        elif reference is not None:
            # None, or no time: what the message says itself counts.
            reference.scheduled_ms = value if value > 0 else max(reference.message.scheduled_ms, 0)


def _interpret_paging(record: Emitted, found: MessageJournal) -> None:
    kind, body = record.user_type, record.body
    if kind == PAGE_TX:
        tx_id, count = _ids(body, ">qi")
        if not record.update:
            found.page_tx[tx_id] = found.page_tx.get(tx_id, 0) + count
        elif tx_id in found.page_tx:
            found.page_tx[tx_id] -= count
    elif kind == CURSOR_ACK:
        found.cursor_acks.add(_ids(body, ">qqi"))  # type: ignore[arg-type]
    else:
        queue, page = _ids(body, ">qq")
        found.completed.add((queue, page))


def _xid(format_id: int, branch: bytes, global_id: bytes) -> str:
    """As management shows one: base64 of branch qualifier, global id and four bytes made of the format id.

    The broker makes each of the four by a remainder of 255 that keeps the sign, not by a mask.
    """
    shifted = [format_id >> 8 * at for at in range(4)]
    remainders = [abs(part) % 255 * (-1 if part < 0 else 1) for part in shifted]
    return base64_text(branch + global_id + bytes(one & 0xFF for one in remainders))


def envelope(reference: Reference, queue: str, now_ms: int) -> dict[str, Any]:
    """The whole envelope of a message on a queue."""
    line = {"queue": queue, **reference.message.envelope}
    if reference.delivery_count > 0:
        line["deliveryCount"] = reference.delivery_count
    if reference.scheduled_ms > now_ms:
        line["scheduledTime"] = reference.scheduled_ms
    return line


def load(data: Path, now_ms: int) -> dict[str, Any]:
    """What a broker's account of this directory says, under the same keys.

    Messages are whole envelopes: the live ones in delivery order, then the scheduled ones by their time.
    """
    bound = bindings(replay(file.scan.records for file in read_folder(data / "bindings", "bindings")))
    large = LargeMessages(data / "large-messages")
    replayed = replay(file.scan.records for file in read_folder(data / "journal"))
    found = interpret(replayed, large)
    paged = _paged(data / "paging", found, large)
    queues = []
    for queue in sorted(bound.queues.values(), key=lambda one: (one["name"], one["address"])):
        references = [*found.queues.get(queue["id"], {}).values()]
        references.sort(key=lambda one: -one.message.priority)
        references += paged.references.get(queue["id"], [])
        visible = [one for one in references if not one.delivering]
        due = [one for one in visible if one.scheduled_ms <= now_ms]
        later = [one for one in visible if one.scheduled_ms > now_ms]
        later.sort(key=lambda one: one.scheduled_ms)
        queues.append(
            {
                **queue,
                "messageCount": len(references),
                "scheduledCount": len(later),
                "deliveringCount": len(references) - len(visible),
                "messages": [envelope(one, queue["name"], now_ms) for one in due + later],
            }
        )
    addresses = []
    for address in sorted(bound.addresses.values(), key=lambda one: str(one["name"])):
        name = address["name"]
        bound_queues = [queue["name"] for queue in queues if queue["address"] == name]
        addresses.append({**address, "queues": bound_queues})
        if found.duplicate_ids.get(name):
            addresses[-1]["duplicateIdCacheSize"] = found.duplicate_ids[name]
    heuristic = {
        key: [xid for xid, committed in found.heuristic if committed == outcome]
        for key, outcome in (("heuristicallyCommitted", True), ("heuristicallyRolledBack", False))
    }
    prepared = [_prepared(tx, found, large) for tx in replayed.prepared]
    return {"addresses": addresses, "queues": queues, "preparedTransactions": prepared, **heuristic}


@dataclass
class Paged:
    references: dict[int, list[Reference]] = field(default_factory=dict)
    """By queue id, in page order."""


def _paged(folder: Path, found: MessageJournal, large: LargeMessages) -> Paged:
    paged = Paged()
    for subfolder in sorted(folder.iterdir()) if folder.is_dir() else []:
        content = address_pages(subfolder) if subfolder.is_dir() else None
        for page in content[1] if content else []:
            for index, entry in enumerate(page.entries):
                if entry.tx_id > 0 and found.page_tx.get(entry.tx_id, 0) <= 0:
                    continue
                message = None
                for queue in entry.queue_ids:
                    position = (queue, page.number, index)
                    if (queue, page.number) in found.completed or position in found.cursor_acks:
                        continue
                    if message is None:
                        message = _paged_message(entry.payload, core_large=entry.core_large, large=large)
                    reference = Reference(message, scheduled_ms=message.scheduled_ms, paged=True)
                    reference.delivering = position in found.prepared_acks
                    paged.references.setdefault(queue, []).append(reference)
    return paged


def _paged_message(payload: bytes, *, core_large: bool, large: LargeMessages) -> Message:
    # The id that names the body file is inside the payload, so the first decoding goes without the body.
    first = decode(payload, core_large=core_large)
    if not first.envelope.get("largeMessage"):
        return first
    return decode(payload, core_large=core_large, large=large.body(first.message_id))


def _prepared(tx: Transaction, found: MessageJournal, large: LargeMessages) -> dict[str, Any]:
    assert tx.extra is not None
    cursor = Cursor(tx.extra)
    format_id, branch, global_id = cursor.i32(), cursor.block(), cursor.block()
    own: dict[int, Message] = {}
    operations = []
    for record in tx.operations:
        if record.user_type in (LARGE, MESSAGE):
            own[record.record_id] = _message(record, large)
        elif record.user_type in (ADD_REF, ACK_REF):
            send = record.user_type == ADD_REF
            message = own.get(record.record_id) or found.messages.get(record.record_id)
            if message is not None:
                operations.append(
                    {
                        "operation": "send" if send else "ack",
                        "id": record.record_id,
                        "queueId": _ids(record.body, ">q")[0],
                        "envelope": message.envelope,
                    }
                )
    return {
        "xid": _xid(format_id, branch, global_id),
        "formatId": format_id,
        "globalTransactionId": global_id.decode("latin-1"),
        "branchQualifier": branch.decode("latin-1"),
        "operations": operations,
    }
