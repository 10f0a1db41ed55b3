"""`check --deep`: no false alarm on what real brokers wrote, and each of many damages found, alone."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from journalfs.account.advice import advice_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan, scan_journal
from journalfs.errors import EXIT_DAMAGED
from journalfs.inspect.deep import Checked, checked
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.store import open_store
from tests.differential.encode import record
from tests.differential.encode_messages import text_message
from tests.frozen import FILE_STORES, OLDER_STORES, PristineStores
from tests.mounting import journalfs
from tests.store.appending import ADD, UPDATE, JournalAppender
from tests.tools import store_bytes


def look(data: Path) -> Checked:
    store = open_store(data, index=False)
    try:
        return checked(store, deep=True)
    finally:
        store.close()


@pytest.mark.rule("S-266")
@pytest.mark.parametrize("name", FILE_STORES)
def test_what_a_broker_wrote_has_nothing_wrong(name: str, stores: PristineStores) -> None:
    done = look(stores[name])
    assert done.findings == []
    assert not done.left_out
    assert done.records is not None
    assert done.records > done.read.messages


@pytest.mark.rule("S-266")
@pytest.mark.long
@pytest.mark.parametrize("name", OLDER_STORES)
def test_nor_has_what_is_derived(name: str, stores: PristineStores, tmp_path: Path) -> None:
    done = journalfs("check", "--deep", "--derived", tmp_path, stores[name])
    assert done.returncode == 0, done.stdout


@dataclass(frozen=True)
class Data:
    """A store that is to be damaged."""

    root: Path

    def files(self, *, bindings: bool = False) -> Iterator[tuple[JournalFile, Scan, bytes]]:
        folder, extension = ("bindings", "bindings") if bindings else ("journal", "amq")
        for file in read_directory(self.root / folder, extension=extension, relative_to=self.root).files:
            with MappedFile(file.path) as mapped:
                scan = scan_journal(mapped, rid=file.rid, version=file.version)
                yield file, scan, mapped.copy(0, scan.end)

    def append(self, kind: int, record_id: int, user_type: int, body: bytes = b"") -> None:
        *_, (file, scan, _) = (one for one in self.files(bindings=user_type in BINDINGS) if one[1].count)
        at = JournalAppender(file.path, file.file_id, scan.end)
        at.append(record(kind, file.rid, record_id=record_id, user_type=user_type, body=body))

    def send(self, message_id: int, *queues: int) -> None:
        self.append(ADD, message_id, MESSAGE, text_message(message_id, "t"))
        for queue in queues:
            self.append(UPDATE, message_id, ADD_REF, store_bytes.i64(queue))

    def change(self, user_type: int, at: int, change: Callable[[int], int], which: int = 0) -> None:
        """Another number of four bytes in the body of a live record of the journal."""
        deleted = {one.record_id for _, scan, _ in self.files() for one in scan if one.kind in DELETES}
        file, offset, content = [
            (file, one.body_offset + at, content)
            for file, scan, content in self.files()
            for one in scan
            if one.user_type == user_type and one.kind in (11, 13) and one.record_id not in deleted
        ][which]
        (before,) = struct.unpack_from(">i", content, offset)
        self.write(file.path, offset, struct.pack(">i", change(before)))

    def write(self, path: Path | str, offset: int, content: bytes) -> None:
        with (self.root / path).open("r+b") as file:
            file.seek(offset if offset >= 0 else file.seek(0, os.SEEK_END) + offset + 1)
            file.write(content)

    @property
    def queue(self) -> int:
        """One that there is, of an anycast address."""
        store = open_store(self.root, index=False)
        try:
            anycast = [one for one in store.core.bindings.queues.values() if "orders" in one.address]
            return int(anycast[0].queue_id)
        finally:
            store.close()

    def page(self) -> Path:
        return max((self.root / "paging").rglob("*.page"), key=lambda path: path.stat().st_size)

    def body(self, begins: bytes) -> Path:
        files = sorted((self.root / "large-messages").glob("*.msg"))
        return next(one for one in files if one.read_bytes()[: len(begins)] == begins)


MESSAGE, ADD_REF, ACK, SCHEDULED, DUPLICATE, PAGE_TX, COUNTER, COMPLETE = 45, 32, 33, 36, 37, 35, 40, 42
ADDRESS, QUEUE, STATUS = 44, 21, 22
BINDINGS, DELETES, DELETE = {ADDRESS, QUEUE, STATUS}, {15, 16}, 16
NEW = 1190
"""An id of `orders-basic` that was given to nothing."""


def shorter(path: Path, by: int) -> None:
    os.truncate(path, path.stat().st_size - by)


def misnamed(data: Data) -> None:
    data.append(ADD, NEW, MESSAGE, text_message(NEW - 1, "t"))
    data.append(UPDATE, NEW, ADD_REF, store_bytes.i64(data.queue))


def dead_garbage(data: Data) -> None:
    data.append(ADD, NEW, MESSAGE, b"\1nothing")
    data.append(DELETE, NEW, 32)


def acknowledged_elsewhere(data: Data) -> None:
    data.send(NEW, data.queue)
    other = open_store(data.root, index=False)
    queues = [int(one) for one in other.core.bindings.queues if one != data.queue]
    other.close()
    data.append(UPDATE, NEW, ACK, store_bytes.i64(queues[0]))


def bound(name: str, address: str, kind: int) -> Callable[[Data], None]:
    return lambda data: data.append(ADD, NEW, QUEUE, store_bytes.queue_binding(name, address, kind))


def twice(data: Data) -> None:
    for number in range(2):
        data.append(ADD, NEW + number, DUPLICATE, b"\0\0\0\2a\0" + store_bytes.i32(1) + b"x")


def packet_ids(data: Data) -> None:
    """As 2.56 writes them: record, version, client, message, its address, packet id; one is cut off."""
    body = store_bytes.i64(NEW) + b"\0\0\0\0\3" + "c/1".encode("utf-16-be")
    body += store_bytes.i64(49) + store_bytes.i32(6) + "h/4".encode("utf-16-le") + store_bytes.i32(1)
    data.append(ADD, NEW, 54, body)
    data.append(ADD, NEW + 1, 54, body[:-1])


ORDERS: dict[str, tuple[Callable[[Data], None], str, str]] = {
    "a reference to a queue that is not there": (lambda d: d.send(NEW, 99_999), "lost-binding", "bindings"),
    "an acknowledgement where it never was": (acknowledged_elsewhere, "reference", "journal/"),
    "a record too short": (
        lambda d: d.append(UPDATE, NEW, SCHEDULED, b"\0" * 10), "short-record", "journal/",
    ),
    "a record that does not decode": (lambda d: d.append(ADD, NEW, DUPLICATE, b"\0"), "record", "journal/"),
    "a packet id of MQTT cut off": (packet_ids, "record", "journal/"),
    "a record that is too long": (
        lambda d: d.append(ADD, NEW, PAGE_TX, b"\0" * 13), "record", "journal/"
    ),
    "a message that says another id": (misnamed, "record", "journal/"),
    "a dead message that does not decode": (dead_garbage, "record", "journal/"),
    "an id above all that were given": (lambda d: d.send(5000, d.queue), "id-generator", "bindings/"),
    "a duplicate id twice": (twice, "duplicate-id", "journal/"),
    "a queue without its address": (bound("q", "no such", 0), "queue-without-address", "bindings/"),
    "a queue of another routing type": (bound("q", "orders", 0), "routing-type", "bindings"),
    "a binding that does not decode": (
        lambda d: d.append(ADD, NEW, QUEUE, b"\0"), "undecodable", "bindings/",
    ),
    "an address twice": (
        lambda d: d.append(ADD, NEW, ADDRESS, store_bytes.address_binding("orders", 1)),
        "duplicate-address", "bindings/",
    ),
    "a status of no queue": (
        lambda d: d.append(ADD, NEW, STATUS, store_bytes.i64(99_999) + b"\0\0"),
        "status-of-unknown", "bindings/",
    ),
}  # fmt: skip
PAGED: dict[str, tuple[Callable[[Data], None], str, str]] = {
    "a page complete that has more": (
        lambda d: d.change(COMPLETE, 16, lambda n: n - 1), "page-complete", "journal/",
    ),
    "a page that has less than is complete": (
        lambda d: d.change(COMPLETE, 16, lambda n: n + 1), "short-file", "paging/",
    ),
    "a page transaction with too few": (
        lambda d: d.change(PAGE_TX, 8, lambda n: n - 1), "page-transaction", "journal/",
    ),
    "a page counter": (lambda d: d.change(COUNTER, 12, lambda n: n - 1), "page-counter", "journal/"),
    "a body that is too long": (
        lambda d: d.write(d.body(b"\1"), -1, b"x"), "large-message", "large-messages/",
    ),
    "a body cut off": (lambda d: shorter(d.body(b"\1"), 1), "large-message", "large-messages/"),
    "a body that is gone": (lambda d: d.body(b"\1").unlink(), "large-message", "large-messages/"),
    "a compressed body cut off": (lambda d: shorter(d.body(b"\x78"), 9), "large-message", "large-messages/"),
    "an AMQP body with another section": (
        lambda d: d.write(d.body(b"\0Sp"), 2, b"\x41"), "large-message", "large-messages/",
    ),
    "an AMQP body cut off": (lambda d: shorter(d.body(b"\0Sp"), 5), "large-message", "large-messages/"),
    "a record of a page": (lambda d: d.write(d.page(), 0, b"x"), "page", "paging/"),
}  # fmt: skip


@pytest.mark.rule("S-267", "S-390")
@pytest.mark.parametrize(
    ("store", "case"),
    [*(("orders-basic", one) for one in ORDERS), *(("large-and-paged", one) for one in PAGED)],
)
def test_just_what_is_wrong_is_found(store: str, case: str, store_copy: Callable[[str], Path]) -> None:
    damage, kind, file = (ORDERS if store == "orders-basic" else PAGED)[case]
    data = Data(store_copy(store) / "data")
    damage(data)
    (finding,) = look(data.root).findings
    assert (finding.kind, finding.file.startswith(file)) == (kind, True), finding
    assert finding.json()["do"] == advice_of(kind)
    open_store(data.root).close()
    with closing(open_store(data.root)) as opened:  # by the index
        account = opened.status()["account"]
    assert isinstance(account, dict)
    assert account["kinds"] == {kind: 1} or (account["whole"] and kind in account["notLookedAt"])


def test_words_and_json_say_where_and_what_to_do(store_copy: Callable[[str], Path]) -> None:
    data = Data(store_copy("orders-basic") / "data")
    data.send(5000, data.queue)
    before = [(path, path.read_bytes()) for path in sorted(data.root.rglob("*")) if path.is_file()]
    done = journalfs("check", "--deep", "--json", data.root)
    rows = map(json.loads, done.stdout.splitlines())
    (found,) = [row for row in rows if row["standing"] is not None]  # others are of settings
    assert done.returncode == EXIT_DAMAGED
    assert found["kind"] == "id-generator"
    assert found["offset"] > 16
    assert "1194" in found["reason"]
    said = journalfs("check", "--deep", data.root)
    assert said.returncode == EXIT_DAMAGED
    assert f"id-generator: {found['do']}" in said.stderr
    assert "1 damaged" in said.stderr
    assert journalfs("check", data.root).returncode == EXIT_DAMAGED
    assert [(path, path.read_bytes()) for path, _ in before] == before
