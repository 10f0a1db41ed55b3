"""The live state of the C core against the replay of the reference, on real journals and on invented ones."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import measure
from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from tests.differential.mutations import mutated
from tests.differential.streams import Journal, journals
from tests.frozen import FILE_STORES, PristineStores
from tests.reference import journal as reference
from tests.reference.messages import decode
from tests.reference.primitives import MalformedError
from tests.reference.store import MessageJournal, Reference, interpret

Files = Sequence[tuple[int, bytes]]
"""Header id and content, in reading order."""
SIDE_TYPES = (35, 37, 38, 39, 40, 42)


class NoBodies:
    """Bodies of large messages do not matter to what is live."""

    def body(self, message_id: int) -> bytes | None:
        return None


class Loaded:
    """A live state and the bytes its offsets lie in."""

    def __init__(self, files: Files, *, finish_before: int | None = None, following: bool = False) -> None:
        self.state = LiveState()
        self.contents = [content for _, content in files]
        with tempfile.TemporaryDirectory() as folder:
            for slot, (file_id, content) in enumerate(files):
                if slot == finish_before:
                    self.state.finish(following=following)
                path = Path(folder, str(slot))
                path.write_bytes(content)
                file = MappedFile(path)
                version = struct.unpack(">i", content[:4])[0]
                self.state.apply(slot, file, scan_journal(file, rid=file_id & 0x7FFFFFFF, version=version))
        if finish_before is None or finish_before >= len(files):
            self.state.finish(following=following)
        for large in self.state.measure():
            # How large the body is does not matter here, but the priority is known only to the measure.
            payload = self.body(large.file_slot, large.offset, large.body_bytes)
            found = measure(payload, source=large.source, large=b"")
            self.state.set_measure(large.message_index, large.message_id, found.pointer)

    def body(self, slot: int, offset: int, length: int) -> bytes:
        return self.contents[slot][offset : offset + length]


def reference_of(files: Files) -> tuple[reference.Replay, MessageJournal]:
    records = []
    for file_id, content in files:
        version = struct.unpack(">i", content[:4])[0]
        records.append(reference.scan(content, file_id & 0x7FFFFFFF, version).records)
    replayed = reference.replay(records)
    return replayed, interpret(replayed, NoBodies())  # type: ignore[arg-type]


Facts = tuple[int, int, int, bool]
"""Message id, delivery count, schedule, held by a prepared transaction."""


def queues_of(loaded: Loaded, order: str) -> dict[int, list[Facts]]:
    state = loaded.state
    found = {}
    for queue in state.queues():
        refs = [state.ref(ref) for ref in state.refs(queue.slot, order, "all")]  # type: ignore[arg-type]
        facts = [(one.message_id, one.delivery_count, one.scheduled_ms, one.delivering) for one in refs]
        assert queue.live_count == sum(not one.delivering for one in refs)
        assert queue.delivering_count == sum(one.delivering for one in refs)
        if facts:
            found[queue.queue_id] = facts
    return found


def expected_queues(found: MessageJournal, order: str) -> dict[int, list[Facts]]:
    expected = {}
    for queue, references in found.queues.items():
        ordered: list[tuple[int, Reference]] = list(references.items())
        if order == "delivery":
            ordered.sort(key=lambda one: -one[1].message.priority)
        if ordered:
            expected[queue] = [
                (message_id, one.delivery_count, one.scheduled_ms, one.delivering)
                for message_id, one in ordered
            ]
    return expected


def transactions_of(loaded: Loaded, *, prepared: bool) -> list[Any]:
    found = []
    for tx in loaded.state.open_transactions():
        if tx.prepared == prepared:
            operations = [
                (one.kind, one.record_id, loaded.body(one.file_slot, one.body_offset, one.body_bytes))
                for one in tx.operations
            ]
            extra = loaded.body(tx.file_slot, tx.extra_offset, tx.extra_bytes) if prepared else b""
            found.append((tx.tx_id, extra, sorted(operations)))
    return found


def expected_transactions(transactions: Sequence[reference.Transaction]) -> list[Any]:
    found = []
    for tx in transactions:
        extra = tx.extra if tx.extra is not None and not tx.invalid else b""
        operations = [
            (reference.UPDATE if one.update else reference.ADD, one.record_id, one.body)
            for one in tx.operations
        ]
        operations += [(reference.DELETE, record_id, body) for record_id, body in tx.deletes]
        found.append((tx.tx_id, extra, sorted(operations)))
    return found


def side_of(loaded: Loaded) -> list[tuple[int, int, bytes]]:
    found = loaded.state.side()
    return [
        (one.user_type, one.record_id, loaded.body(one.file_slot, one.body_offset, one.body_bytes))
        for one in found
        if one.user_type in SIDE_TYPES
    ]


def expected_side(replayed: reference.Replay) -> list[tuple[int, int, bytes]]:
    return [
        (one.user_type, one.record_id, one.body)
        for one in replayed.records
        if one.user_type in SIDE_TYPES and not one.update
    ]


def assert_same(loaded: Loaded, files: Files) -> None:
    replayed, found = reference_of(files)
    for order in ("arrival", "delivery"):
        assert queues_of(loaded, order) == expected_queues(found, order)
    assert transactions_of(loaded, prepared=True) == expected_transactions(replayed.prepared)
    assert transactions_of(loaded, prepared=False) == expected_transactions(replayed.failed)
    assert side_of(loaded) == expected_side(replayed)
    for queue, references in found.queues.items():
        slot = loaded.state.register_queue(queue)
        for message_id in references:
            info = loaded.state.ref(loaded.state.find(slot, message_id))
            payload = loaded.body(info.file_slot, info.offset, info.body_bytes)
            assert decode(payload, core_large=info.source == 1).message_id == message_id
    paged = {one.a: one.b for one in loaded.state.side(35)}
    assert paged == found.page_tx


@pytest.mark.parametrize("name", FILE_STORES)
def test_real_journals(name: str, stores: PristineStores) -> None:
    files = [
        (file.file_id, file.data) for file in reference.read_folder(stores[name] / "data/journal", "amq")
    ]
    assert_same(Loaded(files), files)


@given(journal=journals())
def test_invented_journals(journal: Journal) -> None:
    assert_same(Loaded(journal.files), journal.files)


@given(journal=journals())
def test_state_survives_its_checkpoint(journal: Journal) -> None:
    loaded = Loaded(journal.files)
    saved = loaded.state.save()
    loaded.state = LiveState.load(saved)
    assert_same(loaded, journal.files)
    assert loaded.state.save() == saved


def uses_deleted_ids(files: Files) -> bool:
    """Whether anything of a record comes into effect after its deletion. A running broker never does that."""
    records = [reference.scan(content, file_id & 0x7FFFFFFF).records for file_id, content in files]
    for number, content in enumerate(records):
        for end in range(len(content) + 1):
            before = reference.replay([*records[:number], content[:end]])
            for tx in [*before.prepared, *before.failed]:
                if any(one.record_id in before.deleted for one in tx.operations):
                    return True
            later = content[end : end + 1]
            if any(
                one.kind in (reference.ADD, reference.UPDATE) and one.record_id in before.deleted
                for one in later
            ):
                return True
    return False


@given(journal=journals(), split=st.integers(0, 5))
def test_following_ends_where_loading_does(journal: Journal, split: int) -> None:
    """What a running broker appends has the same effect after the load as during it."""
    assume(not uses_deleted_ids(journal.files))
    followed = Loaded(journal.files, finish_before=min(split, len(journal.files)), following=True)
    for order in ("arrival", "delivery"):
        assert queues_of(followed, order) == expected_queues(reference_of(journal.files)[1], order)
    whole = Loaded(journal.files)
    assert transactions_of(followed, prepared=True) == transactions_of(whole, prepared=True)
    assert side_of(followed) == side_of(whole)


@given(data=mutated())
def test_damaged_real_journals(data: bytes) -> None:
    """Any file gives some state, and the same one."""
    file_id = struct.unpack(">q", data[8:16])[0]
    files = [(file_id, data)]
    if data[:4] != b"\0\0\0\2" or _is_ambiguous(data, file_id & 0x7FFFFFFF):
        return
    assert_same(Loaded(files), files)


def _is_ambiguous(data: bytes, rid: int) -> bool:
    """Damage can repeat an id or cut a payload, for which there is no right answer to compare with."""
    seen = set()
    for record in reference.scan(data, rid).records:
        if record.kind in (reference.ADD, reference.ADD_TX):
            if record.record_id in seen:
                return True
            seen.add(record.record_id)
        if record.user_type in (30, 45) and not _decodes(record):
            return True
        if record.user_type in SIZES and len(record.body) != SIZES[record.user_type]:
            return True
    return False


SIZES = {32: 8, 33: 8, 34: 12, 35: 12, 36: 16, 39: 20, 40: 24, 42: 20}


def _decodes(record: reference.Record) -> bool:
    try:
        return decode(record.body, core_large=record.user_type == 30).message_id == record.record_id
    except MalformedError:
        return False
