"""Bodies of large messages that are lost or changed after they were read: only their own lines say so."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from journalfs.bodies.directory import LargeDirectory
from journalfs.engine.buffers import MappedFile
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.errors import EXIT_DAMAGED, StaleView
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.views.queues import StoreQueue
from tests.differential.encode import record
from tests.differential.encode_messages import amqp_large_message, core_header, nullable, section
from tests.mounting import journalfs
from tests.store.appending import ADD, ADD_REF, ADD_TX, MESSAGE, UPDATE, UPDATE_TX
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.tools.failing_disk import failing_disk

ReadLines = Callable[[JournalStore, str], list[bytes]]

LARGE, PREPARE = 30, 17
TEXT = "a long text " * 20_000
WINDOW_BYTES = 100_000


def body_path(little: LittleStore, message_id: int) -> Path:
    return little.root / "large-messages" / f"{message_id}.msg"


def send_large(little: LittleStore, message_id: int, *queues: int) -> None:
    """A large text message in these queues."""
    body = nullable(TEXT)
    header = core_header(
        message_id, address="work", kind=3, properties={"_AMQ_LARGE_SIZE": ("long", len(body))}
    )
    little.journal.append(record(ADD, 1, record_id=message_id, user_type=LARGE, body=header))
    for queue in queues:
        reference = struct.pack(">q", queue)
        little.journal.append(
            record(UPDATE, 1, record_id=message_id, user_type=ADD_REF, body=reference),
        )
    body_path(little, message_id).write_bytes(body)


@pytest.fixture
def filled(little_store: LittleStore) -> LittleStore:
    little_store.journal.send(1000, QUEUE_A, "before")
    send_large(little_store, 1001, QUEUE_A, QUEUE_B)
    little_store.journal.send(1002, QUEUE_A, "after")
    return little_store


def queue_of(store: JournalStore, name: str) -> StoreQueue:
    return next(queue for queue in store.queues() if queue.name == name)


def lines(store: JournalStore, name: str) -> Iterator[dict[str, Any]]:
    """Every line of the parts, read as the kernel reads them; sizes must be what was said before."""
    queue = queue_of(store, name)
    for part in queue.parts():
        source = queue.open_part(part)
        now = queue.part(part.name)
        assert now is not None
        assert source.size_bytes == now.size_bytes
        pieces = [bytes(source.read(at, WINDOW_BYTES)) for at in range(0, source.size_bytes, WINDOW_BYTES)]
        assert sum(map(len, pieces)) == source.size_bytes
        yield from map(json.loads, b"".join(pieces).splitlines())


def harm(little: LittleStore, how: str) -> None:
    path = body_path(little, 1001)
    if how == "gone":
        path.unlink()
    elif how == "cut":
        os.truncate(path, 1000)
    else:
        path.write_bytes(nullable("\u03a9" * len(TEXT)))  # as long, but not when it is rendered


def assert_harmed(store: JournalStore, name: str, how: str) -> None:
    found = {line["id"]: line for line in lines(store, name)}
    assert [one for one, line in found.items() if "damage" in line] == ([1001] if how != "other" else [])
    if name == "work.a":
        assert [found[1000]["body"], found[1002]["body"]] == ["before", "after"]
    if how == "other":
        assert found[1001]["body"] != TEXT


@pytest.mark.rule("S-51")
@pytest.mark.parametrize("how", ["gone", "cut", "other"])
def test_after_the_index_was_written(filled: LittleStore, how: str) -> None:
    store = filled.open()
    assert [line["body"] for line in lines(store, "work.a")] == ["before", TEXT, "after"]
    store.close()
    harm(filled, how)
    for _ in range(2):
        store = filled.open()
        assert store.core.loader.bytes_scanned == 0
        for name in ("work.a", "work.b"):
            assert_harmed(store, name, how)
        assert [damage.kind for damage in store.core.damage()] == ["large-message"] * (how != "other")
        store.close()


@pytest.mark.rule("S-42", "S-51")
@pytest.mark.parametrize("how", ["gone", "cut", "other"])
def test_while_it_is_shown(filled: LittleStore, how: str) -> None:
    store = filled.open()
    (before,) = queue_of(store, "work.a").parts()
    (other,) = queue_of(store, "work.b").parts()
    harm(filled, how)
    for name in ("work.a", "work.b"):
        assert_harmed(store, name, how)
    (after,) = queue_of(store, "work.a").parts()
    assert (after.name, after.messages) == (before.name, before.messages)
    assert after.size_bytes != before.size_bytes, "another file under the same name"
    assert queue_of(store, "work.b").parts()[0].size_bytes != other.size_bytes


@pytest.mark.rule("S-51")
def test_body_that_comes_back(filled: LittleStore) -> None:
    content = body_path(filled, 1001).read_bytes()
    harm(filled, "gone")
    store = filled.open()
    assert_harmed(store, "work.a", "gone")
    body_path(filled, 1001).write_bytes(content)
    assert [line["body"] for line in lines(store, "work.a")] == ["before", TEXT, "after"]
    assert store.core.damage() == []
    store.close()
    assert [line["body"] for line in lines(filled.open(), "work.a")] == ["before", TEXT, "after"]


@pytest.mark.rule("S-11", "S-44")
def test_body_of_a_message_that_was_consumed_meanwhile(filled: LittleStore) -> None:
    """A broker deletes the file of what is acknowledged: that is no damage."""
    send_large(filled, 1003, QUEUE_A)
    store = filled.open()
    filled.journal.acknowledge(1003, QUEUE_A, tx_id=3000)
    body_path(filled, 1003).unlink()
    assert [line["id"] for line in lines(store, "work.a")] == [1000, 1001, 1002]
    assert store.core.damage() == []


@pytest.mark.rule("S-21", "S-51")
def test_message_file_opened_after_its_body_was_lost(filled: LittleStore) -> None:
    store = filled.open()
    queue = queue_of(store, "work.a")
    message = next(
        message
        for message in map(queue.message, (queue.listing().message_id(i) for i in range(3)))
        if message is not None and message.message_id == 1001
    )
    assert message.size_bytes == len(TEXT)
    harm(filled, "gone")
    with pytest.raises(StaleView):
        message.open()
    again = queue.message(message.message_id)
    assert again is not None
    assert again.open().size_bytes == again.size_bytes == 0
    assert "damage" in again.envelope()


@pytest.mark.rule("S-18")
def test_open_file_keeps_a_body_that_was_deleted(filled: LittleStore) -> None:
    store = filled.open()
    queue = queue_of(store, "work.a")
    source = queue.open_part(queue.parts()[0])
    harm(filled, "gone")
    content = b"".join(
        bytes(source.read(at, WINDOW_BYTES)) for at in range(0, source.size_bytes, WINDOW_BYTES)
    )
    assert [json.loads(line)["body"] for line in content.splitlines()] == ["before", TEXT, "after"]


@pytest.mark.rule("S-16", "S-51", "S-52")
def test_bodies_of_paged_messages(store_copy: Callable[[str], Path]) -> None:
    """In a real store: bodies of messages in the journal and in pages go one after the other."""
    data = store_copy("large-and-paged") / "data"
    store = open_store(data)
    names = [queue.name for queue in store.queues()]
    before = {name: [line["id"] for line in lines(store, name)] for name in names}
    paged = {line["id"] for name in names for line in lines(store, name)} - set(
        store.core.loader.state.large_ids()
    )
    bodies = sorted((data / "large-messages").glob("*.msg"), key=lambda path: int(path.stem))
    lost = {int(path.stem) for path in bodies[::3]}
    assert lost & paged
    assert lost - paged
    for message_id in lost:
        (data / "large-messages" / f"{message_id}.msg").unlink()
        for name in names:
            assert [line["id"] for line in lines(store, name)] == before[name]
    for _ in range(2):
        for name in names:
            found = {line["id"]: "damage" in line for line in lines(store, name)}
            assert found == {message_id: message_id in lost for message_id in before[name]}
        store.close()
        store = open_store(data)
    assert len({damage.file for damage in store.core.damage()}) == len(
        lost & {one for ids in before.values() for one in ids}
    )


@pytest.mark.rule("S-51", "S-54")
def test_sector_of_a_body_that_fails_after_the_index_was_written(filled: LittleStore, tmp_path: Path) -> None:
    """The file looks as it did. Who reads it gets an error once, and then the line says what is missing."""
    index = tmp_path / "index"
    body = "large-messages/1001.msg"
    with failing_disk(filled.root, tmp_path / "whole"):
        open_store(tmp_path / "whole", clock=filled.clock, index=index).close()
    with failing_disk(filled.root, tmp_path / "seen", {body: [(40_960, 45_056)]}):
        store = open_store(tmp_path / "seen", clock=filled.clock, index=index)
        assert store.status()["journalBytesScanned"] == 0
        with pytest.raises(FileTorn):
            list(lines(store, "work.a"))
        assert not index.exists()
        for name in ("work.a", "work.b"):
            assert_harmed(store, name, "cut")
        assert [(one.file, one.offset) for one in store.core.damage()] == [(body, 40_960)]
        store.close()
    assert not index.exists()


@pytest.mark.rule("S-51", "S-54")
def test_bytes_of_a_body_that_changed_without_a_trace(filled: LittleStore) -> None:
    path = body_path(filled, 1001)
    before = path.stat()
    filled.open().close()
    path.write_bytes(nullable("\u03a9" * len(TEXT)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    store = filled.open()
    with pytest.raises(CoreRefused):
        list(lines(store, "work.a"))
    for _ in range(2):
        assert_harmed(store, "work.a", "other")
        assert store.rebuilds == 0, "the journal is not to blame"
        store.close()
        store = filled.open()
        assert store.core.loader.bytes_scanned == 0


@pytest.mark.rule("S-49", "S-54")
def test_record_of_a_large_message_that_changed_without_a_trace(filled: LittleStore) -> None:
    """It is not the body that is another one then: the journal is read anew, and the damage is listed."""
    path = filled.journal.path
    before = path.stat()
    filled.open().close()
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(struct.pack(">q", 1001)) - 6)
        file.write(bytes(60))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    store = filled.open()
    assert store.core.loader.bytes_scanned == 0
    for _ in range(2):
        assert [line["id"] for line in lines(store, "work.a")] == [1000, 1002]
        assert "garbage" in [damage.kind for damage in store.core.damage()]
        store.close()
        store = filled.open()


@pytest.mark.rule("S-51")
@pytest.mark.parametrize("index", [False, True])
def test_record_of_a_large_message_that_says_another_id(filled: LittleStore, *, index: bool) -> None:
    """It keeps the id and the body of its record, in each mount."""
    path = filled.journal.path
    content = bytearray(path.read_bytes())
    at = content.index(struct.pack(">q", 1001))
    said = content.index(struct.pack(">q", 1001), at + 8)
    content[said : said + 8] = struct.pack(">q", 7777)
    path.write_bytes(content)
    for _ in range(2):
        store = open_store(filled.root, clock=filled.clock, index=index)
        found = list(lines(store, "work.a"))
        assert [line["id"] for line in found] == [1000, 1001, 1002]
        assert "message_base64" in found[1]
        assert not store.core.journal_doubted
        store.close()


@pytest.mark.rule("S-51")
@pytest.mark.parametrize(("missing", "listed"), [(-1, False), (0, False), (1, True)])
def test_bytes_that_end_before_their_message_says(
    little_store: LittleStore, missing: int, listed: bool
) -> None:
    """Bytes decode however long they are: only the length that the message states tells."""
    body = b"\xfe" * 150_000
    properties = {"_AMQ_LARGE_SIZE": ("long", len(body))}
    header = core_header(1001, address="work", kind=4, properties=properties)
    little_store.journal.append(
        record(ADD, 1, record_id=1001, user_type=LARGE, body=header),
        record(UPDATE, 1, record_id=1001, user_type=ADD_REF, body=struct.pack(">q", QUEUE_A)),
    )
    there = (body + b"\xfe")[: len(body) - missing]
    body_path(little_store, 1001).write_bytes(there)
    store = little_store.open()
    (line,) = lines(store, "work.a")
    assert ("damage" in line) is listed
    assert [(one.file, one.offset, one.reason) for one in store.core.damage()] == [
        ("large-messages/1001.msg", len(there), f"the body ends after {len(there)} of {len(body)} bytes")
    ] * listed


@pytest.mark.rule("S-16", "S-51")
def test_body_that_is_replaced_while_it_is_opened(
    filled: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the file and its opening: no line is made of another body than was measured."""
    store = filled.open()
    opened = LargeDirectory.body

    def replaced_first(self: LargeDirectory, *arguments: Any, **keywords: Any) -> MappedFile | None:
        monkeypatch.undo()
        harm(filled, "other")
        return opened(self, *arguments, **keywords)

    monkeypatch.setattr(LargeDirectory, "body", replaced_first)
    for name in ("work.a", "work.b"):
        assert_harmed(store, name, "other")
    assert (store.rebuilds, store.core.damage()) == (0, [])


def prepare_large(little: LittleStore, protocol: str) -> None:
    """A large message that a prepared transaction sent, whose body is there."""
    if protocol == "core":
        body = nullable(TEXT)
        properties = {"_AMQ_LARGE_SIZE": ("long", len(body))}
        user_type, payload = LARGE, core_header(1001, address="work", kind=3, properties=properties)
    else:
        text = TEXT.encode()
        body = section(0x77, b"\xb1" + struct.pack(">i", len(text)) + text)
        user_type, payload = MESSAGE, amqp_large_message(1001, address="work")
    reference = struct.pack(">q", QUEUE_A)
    little.journal.append(
        record(ADD_TX, 1, tx_id=70, record_id=1001, user_type=user_type, body=payload),
        record(UPDATE_TX, 1, tx_id=70, record_id=1001, user_type=ADD_REF, body=reference),
        record(PREPARE, 1, tx_id=70, count=2),
    )
    body_path(little, 1001).write_bytes(body)


@pytest.mark.rule("S-26", "S-48", "S-51")
@pytest.mark.parametrize("protocol", ["core", "amqp"])
@pytest.mark.parametrize("how", ["gone", "cut"])
def test_body_of_what_a_prepared_transaction_sent(little_store: LittleStore, protocol: str, how: str) -> None:
    """It is in no queue, so nothing but `check` reads it before it is committed."""
    prepare_large(little_store, protocol)
    done = journalfs("check", little_store.root)
    assert done.returncode == 0
    assert [line.split("\t")[3] for line in done.stdout.splitlines()] == ["prepared-transaction"]
    assert "1 sent by transactions that have not ended" in done.stderr
    harm(little_store, how)
    done = journalfs("check", little_store.root, "--json")
    assert done.returncode == EXIT_DAMAGED
    rows = {row["kind"]: row for row in map(json.loads, done.stdout.splitlines())}
    body = rows["large-message"]
    assert (body["file"], body["id"]) == ("large-messages/1001.msg", 1001)
    assert rows["prepared-transaction"]["transaction"] == "transaction-70"


@pytest.mark.rule("S-26", "S-48", "S-51")
@pytest.mark.parametrize("protocol", ["core", "amqp"])
def test_sector_of_such_a_body_that_fails(little_store: LittleStore, tmp_path: Path, protocol: str) -> None:
    prepare_large(little_store, protocol)
    body = "large-messages/1001.msg"
    with failing_disk(little_store.root, tmp_path / "seen", {body: [(40_960, 45_056)]}):
        done = journalfs("check", tmp_path / "seen", "--json")
    assert done.returncode == EXIT_DAMAGED, done.stderr
    rows = list(map(json.loads, done.stdout.splitlines()))
    assert (body, 40_960) in [(row["file"], row["offset"]) for row in rows]
    assert "transaction-70" in [row["transaction"] for row in rows]
