"""What `repair`, `recover` and `convert` make of damaged stores: nothing is left where a broker drops it, the
books say what became of each message, and a message that is lost on any way is noticed.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from journalfs.account.filters import Wanted
from journalfs.account.taking import account_of
from journalfs.clock import SystemClock
from journalfs.config.layout import locate_store
from journalfs.convert import Carrying, Mode, Report, carrying
from journalfs.convert.setting_aside import WHY, SettingAside
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.errors import EXIT_BUSY, EXIT_DAMAGED, EXIT_OK, BooksDoNotBalance, MadeNotWhole, WrongCall
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId
from journalfs.inspect.proof import prove
from journalfs.live.content import QueueContent
from journalfs.live.runs import Run
from journalfs.records.older.current import _Current
from journalfs.records.older.derived import DerivedStore
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.write.opening import change
from journalfs.store.write.store import WritingStore
from tests.differential.encode import record
from tests.mounting import journalfs
from tests.store.appending import ADD
from tests.store.conftest import QUEUE_A, QUEUE_B, START_MS, LittleStore
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.test_undecided import overwrite, sends
from tests.tools import store_bytes
from tests.truth.from_store import content_of

TX = 7
ALL = {"work::work.a": ["one", "three", "paged 2000"], "work::work.b": ["two"]}


def carried(source: Path, new: Path, mode: Mode = Mode.REPAIR, **options: Any) -> Report:
    return Carrying(source, new, mode, **options).run()


def lines_in(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Envelopes by full queue name, of queues that have any."""
    store = open_store(root, index=False)
    try:
        assert account_of(store).whole
        found = {
            f"{queue.model.address}::{queue.name}": [
                json.loads(line) for line in content_of(queue.open_all()).splitlines()
            ]
            for queue in store.queues()
        }
    finally:
        store.close()
    return {queue: lines for queue, lines in found.items() if lines}


def bodies_in(root: Path) -> dict[str, list[object]]:
    return {queue: [one.get("body") for one in lines] for queue, lines in lines_in(root).items()}


# ---- transactions whose end is lost ----


@pytest.fixture
def undecided(little_store: LittleStore) -> LittleStore:
    """Three messages in a transaction whose COMMIT is overwritten, one of them for two queues."""
    journal = little_store.journal
    sends(little_store)
    body = struct.pack(">q", QUEUE_B)
    journal.append(journal.record(14, tx_id=TX, record_id=1000, user_type=32, body=body))
    begin = journal.at
    journal.commit(TX, 8)
    end = journal.at
    journal.send(1010, QUEUE_A, "live behind")
    overwrite(little_store, begin, end, b"\xaa")
    return little_store


@pytest.mark.rule("S-311")
def test_messages_of_an_undecided_transaction_wait_in_a_queue_of_their_own(
    undecided: LittleStore, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    report = carried(undecided.root, new)
    assert report.exit_code == EXIT_DAMAGED
    assert bodies_in(new) == {
        "work::work.a": ["live before", "live behind"],
        "undecided.7::undecided.7": ["first", "first", "second", "third"],
    }
    assert "4 undecided in undecided.7::undecided.7" in report.told[0]

    async def redrive(store: WritingStore) -> None:
        queue = store.queue_at(("undecided.7", "undecided.7"))
        ids = [MessageId(one) for run in queue.content.live() for one in run.ids(queue.content)]
        await store.redrive(("undecided.7", "undecided.7"), ids)

    change(new, redrive)
    assert bodies_in(new) == {
        "work::work.a": ["live before", "live behind", "first", "second"],
        "work::work.b": ["first", "third"],
    }


# ---- lost bindings ----


def damage_binding(little: LittleStore, name: str, *, keeps_name: bool) -> None:
    """Damage the last record of a queue: its check size, and its name too unless that stays."""
    content = bytearray(little.bindings.path.read_bytes())
    encoded = name.encode("utf-16-le")
    at = content.rindex(encoded)
    if not keeps_name:
        content[at - 4 : at + len(encoded)] = b"\xff" * (len(encoded) + 4)
    content[at - 30 : at - 22] = b"\xee" * 8
    little.bindings.path.write_bytes(content)


@pytest.mark.rule("S-310")
@pytest.mark.parametrize(("keeps_name", "named"), [(True, "work.b"), (False, "recovered.queue-22")])
def test_a_queue_whose_binding_is_damaged_has_what_names_it(
    keeps_name: bool, named: str, little_store: LittleStore, tmp_path: Path
) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, QUEUE_B, "two")
    damage_binding(little_store, "work.b", keeps_name=keeps_name)
    report = carried(little_store.root, tmp_path / "new")
    assert report.exit_code == EXIT_DAMAGED
    found = bodies_in(tmp_path / "new")
    assert found.pop("work::work.a") == ["one"]
    ((queue, bodies),) = found.items()
    assert (queue.partition("::")[2], bodies) == (named, ["two"])


@pytest.mark.rule("S-310")
def test_without_bindings_no_message_is_in_no_queue(little_store: LittleStore, tmp_path: Path) -> None:
    """Ids go on above those of the messages: the counter was in the bindings too."""
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, QUEUE_B, "two")
    write_page(little_store, 1, [small(2000)])
    shutil.rmtree(little_store.root / "bindings")
    report = carried(little_store.root, tmp_path / "new")
    assert report.exit_code == EXIT_DAMAGED
    found = bodies_in(tmp_path / "new")
    assert found["work::recovered.queue-21"] == ["one", "paged 2000"]
    assert sorted(map(len, found.values())) == [1, 2]
    assert report.renamed["work::queue-21"] == "work::recovered.queue-21"
    store = open_store(tmp_path / "new", index=False)
    assert (store.core.bindings.id_counter or 0) > 2000
    store.close()


@pytest.mark.rule("S-310")
def test_a_snapshot_names_lost_queues(little_store: LittleStore, tmp_path: Path) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    kept = little_store.root / "journalfs" / "snapshots" / "before" / "bindings"
    kept.parent.mkdir(parents=True)
    shutil.move(little_store.root / "bindings", kept)
    carried(little_store.root, tmp_path / "new")
    assert bodies_in(tmp_path / "new") == {"work::work.a": ["one"]}


# ---- damaged messages ----


@pytest.fixture
def with_bodies(tmp_path: Path) -> Path:
    """A store with three large messages: the body of one is gone, that of another is cut."""
    root = tmp_path / "bodies"
    create_store(root, {}, SystemClock(), warn=pytest.fail)

    async def fill(store: WritingStore) -> None:
        await store.create_address("docs")
        await store.create_queue("docs", "docs")
        for letter in "abc":
            await publish_file(store, "docs", None, f"{letter}.txt", letter.encode() * 300_000)

    change(root, fill)
    first, second, _ = sorted((root / "large-messages").glob("*.msg"), key=lambda path: int(path.stem))
    first.unlink()
    second.write_bytes(second.read_bytes()[:1000])
    return root


@pytest.mark.rule("S-312")
def test_damaged_messages_are_set_aside_with_what_there_is_of_them(with_bodies: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    report = carried(with_bodies, new)
    assert report.exit_code == EXIT_DAMAGED
    found = lines_in(new)
    assert {queue: len(lines) for queue, lines in found.items()} == {"docs::docs": 1, "damaged::damaged": 2}
    for one in found["damaged::damaged"]:
        assert one["type"] == "bytes"
        assert one["properties"]["_AMQ_ORIG_QUEUE"] == "docs"
        assert one["properties"][WHY]
    assert report.books["carriedMessages"] == report.books["sourceMessages"] == 3


@pytest.mark.rule("S-312")
def test_damaged_messages_stay_where_they_are_if_that_is_asked_for(with_bodies: Path, tmp_path: Path) -> None:
    report = carried(with_bodies, tmp_path / "new", keep_damaged=True)
    assert report.exit_code == EXIT_DAMAGED
    assert report.queues == {"docs::docs": 3}


# ---- which messages ----


@pytest.mark.rule("S-314")
@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ((["work::work.b"], None, None, None), {"work::work.b": ["two"]}),
        (
            (["work"], None, None, None),
            {"work::work.a": ["one", "three", "paged 2000"], "work::work.b": ["two"]},
        ),
        (([], "AMQPriority > 4", None, None), {"work::work.a": ["three"]}),
        (([], None, "2100-01-01", None), {}),
    ],
)
def test_only_what_is_asked_for_is_carried(
    asked: tuple[list[str], str | None, str | None, str | None],
    left: dict[str, list[str]],
    little_store: LittleStore,
    tmp_path: Path,
) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.send(1001, QUEUE_B, "two")
    little_store.journal.send(1002, QUEUE_A, "three", priority=9)
    write_page(little_store, 1, [small(2000)])
    wanted = Wanted.of(*asked, START_MS)
    report = carried(little_store.root, tmp_path / "new", Mode.CONVERT, wanted=wanted)
    assert bodies_in(tmp_path / "new") == left
    assert report.exit_code == EXIT_OK
    assert sum(one["messages"] for one in report.books["notCarried"]) == 4 - sum(map(len, left.values()))


@pytest.mark.rule("S-314")
def test_a_queue_that_is_nowhere_is_refused_before_anything_is_made(
    little_store: LittleStore, tmp_path: Path
) -> None:
    wanted = Wanted.of(["work::work.c"], None, None, None, START_MS)
    with pytest.raises(WrongCall, match=r"did you mean work::work\.[ab]"):
        carried(little_store.root, tmp_path / "new", Mode.CONVERT, wanted=wanted)
    assert not list(tmp_path.glob(".new*"))


# ---- messages that were moved ----


@pytest.mark.rule("S-208")
def test_recover_brings_a_moved_message_back_once(tmp_path: Path) -> None:
    root = tmp_path / "moved"
    create_store(root, {}, SystemClock(), warn=pytest.fail)

    async def play(store: WritingStore) -> None:
        for name in ("a", "b", "c"):
            await store.create_address(name)
            await store.create_queue(name, name)
        for text in (b"moved twice", b"consumed", b"stays"):
            await publish_file(store, "a", None, "in.txt", text)
        first, second, _ = (
            MessageId(one)
            for run in store.queue_at(("a", "a")).content.live()
            for one in run.ids(store.queue_at(("a", "a")).content)
        )
        await store.move(("a", "a"), [first], ("b", "b"))
        content = store.queue_at(("b", "b")).content
        ids = [MessageId(one) for run in content.live() for one in run.ids(content)]
        await store.move(("b", "b"), ids, ("c", "c"))
        await store.acknowledge(("a", "a"), [second])

    change(root, play)
    report = carried(root, tmp_path / "new", Mode.RECOVER)
    assert bodies_in(tmp_path / "new") == {"a::a": ["consumed", "stays"], "c::c": ["moved twice"]}
    assert report.books["consumed"] == {"a::a": 1}
    assert report.exit_code == EXIT_OK


# ---- one way of reading ----


@pytest.mark.rule("S-313")
def test_what_replication_left_is_no_damage(little_store: LittleStore, tmp_path: Path) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    left = little_store.root / "paging" / "oldreplica.1" / "folder"
    left.mkdir(parents=True)
    (left / "000000001.page").write_bytes(b"remains")
    report = carried(little_store.root, tmp_path / "new")
    assert (report.exit_code, report.damage) == (EXIT_OK, [])


@pytest.mark.rule("S-313")
def test_without_a_journal_nothing_is_never_whole(little_store: LittleStore, tmp_path: Path) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    shutil.rmtree(little_store.root / "journal")
    report = carried(little_store.root, tmp_path / "new")
    assert (report.messages, report.exit_code) == (0, EXIT_DAMAGED)
    assert [one.kind for one in report.damage] == ["missing-directory"]


# ---- what it would be, and that it is so ----


@pytest.mark.rule("S-316")
def test_a_dry_run_says_what_repair_ends_with_and_makes_nothing(
    undecided: LittleStore, tmp_path: Path
) -> None:
    write_page(undecided, 1, [small(2000)])
    damage_binding(undecided, "work.b", keeps_name=False)
    before = sorted(tmp_path.rglob("*"))
    told = Carrying(undecided.root, tmp_path / "new", Mode.REPAIR).preview()
    assert sorted(tmp_path.rglob("*")) == before
    done = carried(undecided.root, tmp_path / "new")
    assert told.books["carried"] == done.books["carried"]
    assert told.queues == {queue: count for queue, count in done.queues.items() if count}
    assert sum(one["messages"] for one in told.books["setAside"]) == 4
    assert told.exit_code == done.exit_code == EXIT_DAMAGED


@pytest.mark.rule("S-316")
@pytest.mark.parametrize("kept", [False, True])
def test_a_second_reading_finds_what_the_books_say(
    kept: bool, undecided: LittleStore, with_bodies: Path, tmp_path: Path
) -> None:
    write_page(undecided, 1, [small(2000), small(2001, queues=(QUEUE_A, QUEUE_B))])
    for number, source in enumerate((undecided.root, with_bodies)):
        new = tmp_path / f"new-{number}"
        report = carried(source, new, keep_damaged=kept)
        if kept and source == with_bodies:
            with pytest.raises(MadeNotWhole, match="no such file, for a large message"):
                prove(locate_store(new), report.books)
        else:
            prove(locate_store(new), report.books)


@pytest.mark.parametrize("part", ["journal", "paging", "bindings", "large-messages"])
def test_a_second_reading_finds_what_is_not_there(part: str, undecided: LittleStore, tmp_path: Path) -> None:
    write_page(undecided, 1, [small(2000)])
    new = tmp_path / "new"
    report = carried(undecided.root, new)
    if part == "large-messages":
        books = {**report.books, "carried": {"work::work.a": 99}}
    else:
        books = report.books
        for path in [one for one in (new / part).rglob("*") if one.is_file() and one.suffix != ".txt"]:
            path.unlink()
    with pytest.raises(MadeNotWhole, match="a second reading finds"):
        prove(locate_store(new), books)


@pytest.mark.rule("S-317")
@pytest.mark.usefixtures("held_by_a_broker")
def test_recover_beside_a_broker_works_on_a_copy(little_store: LittleStore, tmp_path: Path) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.journal.acknowledge(1000, QUEUE_A, tx_id=5)
    little_store.journal.send(1001, QUEUE_A, "two")
    new = tmp_path / "new"
    done = journalfs("recover", "--json", little_store.root, "--out", new)
    assert done.returncode == EXIT_OK, done.stderr
    assert bodies_in(new) == {"work::work.a": ["one", "two"]}
    assert "as it was beside what writes to it" in json.loads(done.stdout)["source"]
    assert not list(tmp_path.glob(".new*"))
    assert journalfs("convert", little_store.root, tmp_path / "other").returncode == EXIT_BUSY


# ---- canaries: one message is dropped on each way, and that is noticed ----

DECIDABLE, LEAVE_OUT = "_decidable", "_leave_out"
Drop = Callable[[pytest.MonkeyPatch], None]


def in_the_journal(patch: pytest.MonkeyPatch) -> None:
    """One reference becomes a record that nobody reads."""
    true = DerivedStore.take_over

    def lossy(self: DerivedStore, mapped: MappedFile, scan: Scan, *given: Any) -> int:
        for index in range(scan.count):
            one = scan.pointer.records[index]
            if one.kind == RecordKind.UPDATE and one.user_type == MessageType.ADD_REFERENCE:
                one.kind = RecordKind.EVENT
                break
        return true(self, mapped, scan, *given)

    patch.setattr(DerivedStore, "take_over", lossy)


def in_pages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Current, "page", lambda *given: None)


def of_a_lost_queue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(carrying, "_bind_lost", lambda *given, **named: None)


def of_a_transaction(patch: pytest.MonkeyPatch) -> None:
    true = getattr(SettingAside, DECIDABLE)

    async def lossy(self: SettingAside, store: WritingStore, *given: Any) -> None:
        await true(self, store, *given)
        await take_one(store, "undecided.7")

    patch.setattr(SettingAside, DECIDABLE, lossy)


def of_a_queue(patch: pytest.MonkeyPatch) -> None:
    true = getattr(SettingAside, LEAVE_OUT)

    async def lossy(self: SettingAside, store: WritingStore) -> None:
        await true(self, store)
        await store.leaving.acknowledge(
            store.queue_at(("work", "work.a")), lambda queue: first_of(queue.content, queue.content.live())
        )

    patch.setattr(SettingAside, LEAVE_OUT, lossy)


async def take_one(store: WritingStore, name: str) -> None:
    await store.leaving.acknowledge(
        store.queue_at((name, name)), lambda queue: first_of(queue.content, queue.content.live())
    )


def first_of(content: QueueContent, runs: Iterable[Run]) -> list[Run]:
    run = next(iter(runs))
    return [run.of(run.numbers[:1])]


@pytest.mark.rule("S-315")
@pytest.mark.parametrize("drop", [in_the_journal, in_pages, of_a_lost_queue, of_a_transaction, of_a_queue])
def test_a_message_that_is_dropped_on_the_way_is_noticed(
    drop: Drop, undecided: LittleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_page(undecided, 1, [small(2000)])
    undecided.bindings.append(
        record(ADD, 1, record_id=23, user_type=21, body=store_bytes.queue_binding("work.c", "work", 0))
    )
    undecided.journal.send(1020, 23, "lost")
    damage_binding(undecided, "work.c", keeps_name=False)
    report = carried(undecided.root, tmp_path / "whole")
    assert report.books["sourceMessages"] == report.books["carriedMessages"]
    drop(monkeypatch)
    with pytest.raises((BooksDoNotBalance, MadeNotWhole), match="a fault of journalfs"):
        carried(undecided.root, tmp_path / "new")
    assert not (tmp_path / "new" / "journal").exists()


def test_a_body_that_is_not_carried_is_noticed(
    with_bodies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Carrying, "_copy", lambda *given: None)
    with pytest.raises(BooksDoNotBalance):
        carried(with_bodies, tmp_path / "new")
