"""What is said of each journal file agrees with what lies in it."""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass
from typing import cast

import pytest

from journalfs.api import VirtualDirectory, VirtualFile
from journalfs.engine.waiting import Slices
from journalfs.live.core import Core
from journalfs.live.explaining import FileFacts, QueueFacts, as_text
from journalfs.live.virtual import made_at_once
from journalfs.records.files import reports as account
from journalfs.records.files.reports import file_reports
from journalfs.store import open_store
from tests.frozen import FILE_STORES, PristineStores
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore


@dataclass
class Counted:
    messages: int = 0
    delivering: int = 0
    oldest_ms: int = 0


def counted(core: Core, slot: int) -> dict[int, Counted]:
    """The messages of a file by queue, one by one."""
    found: dict[int, Counted] = {}
    state = core.loader.state
    for queue in state.queues():
        for ref in state.refs(queue.slot, include="all"):
            info = state.ref(ref)
            if info.file_slot != slot:
                continue
            of = found.setdefault(queue.queue_id, Counted())
            of.messages += 1
            of.delivering += info.delivering
            if info.timestamp_ms:
                of.oldest_ms = min(of.oldest_ms or info.timestamp_ms, info.timestamp_ms)
    return found


@pytest.mark.parametrize("name", FILE_STORES)
def test_counts_by_queue_are_those_of_every_message(name: str, stores: PristineStores) -> None:
    store = open_store(stores[name], index=False)
    core = store.core
    slots = {read.file.name: read.slot for read in core.loader.files.read_files()}
    facts = store.explanations.facts()
    assert [one.file for one in facts] == list(slots)
    total = 0
    for one in facts:
        said = {q.id: Counted(q.messages, q.delivering, q.oldest_timestamp or 0) for q in one.queues}
        assert said == counted(core, slots[one.file])
        total += sum(q.messages for q in one.queues)
    assert total == core.loader.state.counts().references
    others = Counter[str]()
    for one in facts:
        others.update(one.other_records)
    assert others.total() == core.loader.state.counts().side_records
    assert facts[-1].state in ("current", "free")
    store.close()


def explained(little: LittleStore) -> dict[str, FileFacts]:
    store = little.open(index=False)
    facts = {one.file: one for one in store.explanations.facts()}
    store.close()
    return facts


def test_each_reason_is_named(little_store: LittleStore) -> None:
    """A message, a delete of what an earlier file holds, nothing, a transaction, nothing at all."""
    folder = little_store.root / "journal"
    journals = [little_store.journal] + [
        JournalAppender.create(folder / f"activemq-data-{n}.amq", n) for n in (2, 3, 4, 5, 6)
    ]
    journals[0].send(1001, QUEUE_A)
    journals[0].send(1002, QUEUE_B)
    journals[1].acknowledge(1002, QUEUE_B, tx_id=2000)
    journals[2].send(1003, QUEUE_B)
    journals[2].acknowledge(1003, QUEUE_B, tx_id=2001)
    journals[3].send_in_transaction(3000, 1004, QUEUE_A)
    journals[4].send(1005, QUEUE_A)
    facts = explained(little_store)
    states = {name.removeprefix("activemq-data-"): one.state for name, one in facts.items()}
    assert states == {
        "1.amq": "kept",
        "2.amq": "kept",
        "3.amq": "reclaimable",
        "4.amq": "kept",
        "5.amq": "current",
        "6.amq": "free",
    }
    first, second, third, fourth, _, last = facts.values()
    assert [(one.queue, one.messages) for one in first.queues] == [("work.a", 1)]
    assert (first.live_messages, first.needed_records, first.freed_by) == (1, 2, "compaction")
    assert (second.deletes_in, second.live_messages) == (["activemq-data-1.amq"], 0)
    assert (third.freed_by, last.freed_by) == ("reclaim", None)
    assert [(tx.id, tx.prepared, tx.operations) for tx in fourth.transactions] == [(3000, False, 2)]


def test_the_text_says_the_same(little_store: LittleStore) -> None:
    little_store.journal.send(1001, QUEUE_A)
    following = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    following.send(1002, QUEUE_A)
    store = little_store.open(index=False)
    first, second = map(as_text, store.explanations.facts())
    assert re.fullmatch(
        r"activemq-data-1\.amq: file id 1, 65536 bytes\n"
        r"kept: 2 needed records, \d+ bytes; compaction would free it, and would move \d+ bytes\n"
        r"  1 message\n"
        r"    work::work\.a: 1 message, \d+ bytes\n",
        first,
    )
    assert second.splitlines()[1].startswith("current: records are appended to it; 2 needed records")
    journal = cast("VirtualDirectory", store.control().child("journal"))
    assert sorted(dict(journal.children())) == [
        f"activemq-data-{n}.amq{ending}" for n in (1, 2) for ending in (".explain", ".jsonl")
    ]
    view = cast("VirtualFile", journal.child("activemq-data-1.amq.explain"))
    source = view.open()
    assert bytes(source.read(0, source.size_bytes)).decode() == first
    assert view.size_bytes == len(first)
    assert journal.child("activemq-data-9.amq.explain") is None
    store.close()


def test_files_are_counted_once_for_all(little_store: LittleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many files each listing would take a time that grows with the square of their number, or more."""
    for number in range(2, 8):
        JournalAppender.create(little_store.root / f"journal/activemq-data-{number}.amq", number).send(
            1000 + number, QUEUE_A
        )
    store = little_store.open(index=False)
    counted: list[int] = []
    reports = file_reports
    monkeypatch.setattr(account, "file_reports", lambda *args: counted.append(1) or reports(*args))  # type: ignore[func-returns-value]
    journal = cast("VirtualDirectory", store.control().child("journal"))
    texts = [cast("VirtualFile", file) for name, file in journal.children() if name.endswith(".explain")]
    assert len(texts) == 7
    assert all(text.size_bytes for text in texts)
    assert len(counted) == 1
    store.close()


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (900, "0 s"),
        (59_999, "59 s"),
        (61_000, "1 min 1 s"),
        (7_500_000, "2 h 5 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_ages_are_in_the_two_largest_units(age_ms: int, text: str) -> None:
    queue = QueueFacts(21, "a", "q\n", 2, 1, 30, 1, age_ms)
    facts = FileFacts("f", 1, 9, "kept", "compaction", 4, 90, 2, 0, [queue], {}, [], [])
    line = f"    'a::q\\n': 2 messages, 30 bytes, 1 held by a prepared transaction, the oldest {text} old"
    assert line in as_text(facts).splitlines()


@pytest.mark.rule("S-90")
def test_what_is_consumed_waits_for_the_file_that_says_so(little_store: LittleStore) -> None:
    """All queues are empty, and files stay: what deletes their records is in the file that is written now."""
    folder = little_store.root / "journal"
    little_store.journal.send(1001, QUEUE_A)
    second = JournalAppender.create(folder / "activemq-data-2.amq", 2)
    second.send(1002, QUEUE_A)
    second.acknowledge(1001, QUEUE_A, tx_id=2000)
    third = JournalAppender.create(folder / "activemq-data-3.amq", 3)
    third.acknowledge(1002, QUEUE_A, tx_id=2001)
    facts = explained(little_store)
    assert [(one.state, one.needed_records, one.waits_for) for one in facts.values()] == [
        ("reclaimable", 0, None),
        ("kept", 0, "activemq-data-3.amq"),
        ("current", facts["activemq-data-3.amq"].needed_records, None),
    ]
    said = as_text(facts["activemq-data-2.amq"])
    assert "kept: nothing in it is needed, since activemq-data-3.amq, which is written now, deletes" in said
    assert "compaction" in said
    assert facts["activemq-data-3.amq"].deletes_in == ["activemq-data-2.amq"]
    JournalAppender.create(folder / "activemq-data-4.amq", 4).send(1003, QUEUE_A)
    assert [one.state for one in explained(little_store).values()] == [*["reclaimable"] * 3, "current"]


def test_deletes_alone_keep_a_file_as_long_as_what_they_delete(little_store: LittleStore) -> None:
    folder = little_store.root / "journal"
    little_store.journal.send(1001, QUEUE_A)
    little_store.journal.send(1002, QUEUE_A)
    JournalAppender.create(folder / "activemq-data-2.amq", 2).acknowledge(1001, QUEUE_A, tx_id=2000)
    JournalAppender.create(folder / "activemq-data-3.amq", 3).send(1003, QUEUE_A)
    second = explained(little_store)["activemq-data-2.amq"]
    assert (second.state, second.needed_records, second.waits_for) == ("kept", 0, None)
    assert as_text(second).splitlines()[-2:] == [
        "  deletes of records in activemq-data-1.amq, which would come back without them",
        "    nothing else in it is needed: it is set free when these files are",
    ]


def test_it_follows_what_is_appended(little_store: LittleStore) -> None:
    little_store.journal.send(1001, QUEUE_A)
    store = little_store.open(index=False)
    assert [one.needed_records for one in store.explanations.facts()] == [2]
    little_store.journal.send(1002, QUEUE_B)
    following = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    following.acknowledge(1001, QUEUE_A, tx_id=2000)
    following.acknowledge(1002, QUEUE_B, tx_id=2001)
    store.look_now()
    fresh = explained(little_store)
    facts = {one.file: one for one in store.explanations.facts()}
    assert facts == fresh
    assert facts["activemq-data-1.amq"].needed_records == 0
    store.close()


def test_a_message_that_no_queue_has_is_told_apart(little_store: LittleStore) -> None:
    """As a broker leaves one that dies between the message and its reference."""
    journal = little_store.journal
    journal.send(1001, QUEUE_A)
    before = journal.at
    journal.send(1002, QUEUE_A)
    with journal.path.open("r+b") as file:
        file.seek(journal.at - 31)
        file.write(bytes(31))
    assert struct.unpack(">i", journal.path.read_bytes()[before + 1 : before + 5]) == (1,)
    (facts,) = explained(little_store).values()
    assert (facts.live_messages, facts.queueless_messages) == (2, 1)


def test_a_file_that_is_gone_explains_nothing(little_store: LittleStore) -> None:
    store = little_store.open(index=False)
    assert made_at_once(store.explanations.fact("activemq-data-77.amq", Slices.none())) is None
    store.close()
