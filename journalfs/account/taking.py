"""Takes the account of an open store from all the evidence that the store gathered.

Called by every command that looks at a store, and by whatever makes something of one. It reads what the store
knows already; of messages it reads only those that are known to be damaged.
"""

from __future__ import annotations

from array import array
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from journalfs.account.advice import ACKNOWLEDGED, DEEP_ONLY, MESSAGE, PREPARED, advice_of
from journalfs.account.entries import (
    NONE,
    UNKNOWN,
    Account,
    Count,
    Entry,
    Standing,
    Totals,
    at_most,
    exactly,
    summary,
)
from journalfs.damage import DOUBTFUL, MISSING_FILE, Damage, name_of
from journalfs.engine.lines import LineBatch
from journalfs.engine.state_batch import file_slots
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import PageNumber, QueueId
from journalfs.live.content import QueueContent, total_messages
from journalfs.live.runs import Run, page_batch
from journalfs.live.undecided import NO_QUEUE, UNDECIDED, adds_message, adds_pages, of_transaction
from journalfs.message.envelope import decode_envelope
from journalfs.records.files.anomalies import MISSING_RECORDS, name_of_queue
from journalfs.views.transactions import StoredTransaction, prepared_transactions, undecided_transactions

if TYPE_CHECKING:
    from journalfs.live.core import Core
    from journalfs.pages.address import PagedAddress

_STANDINGS: Final[Mapping[str, Standing]] = {
    MISSING_FILE: Standing.MISSING,
    "missing-directory": Standing.MISSING,
    MISSING_RECORDS: Standing.MISSING,
    "missing-message": Standing.MISSING,
    "missing-id": Standing.MISSING,
    "short-file": Standing.MISSING,
    "incomplete-transaction": Standing.UNDECIDED,
    UNDECIDED: Standing.UNDECIDED,
    "lost-binding": Standing.LIVE,
    DOUBTFUL: Standing.LIVE,
}
"""By kind of damage; every other kind is of bytes that are there."""

_BETWEEN_QUEUES: Final = frozenset({"lost-binding", "page-folder"})
"""Kinds whose messages are live, or not shown, and none of them is damaged itself."""

LARGE: Final = "large-message"


class OfCore(Protocol):
    """An open store of any kind."""

    core: Core


def account_of(
    store: OfCore, found: Iterable[Entry] = (), not_looked_at: Sequence[str] = DEEP_ONLY
) -> Account:
    """Return the account of an open store. `found`: entries that a deeper look added."""
    core = store.core
    entries = [*entries_of(core), *found]
    damaged: dict[str, set[int]] = {}
    for entry in entries:
        if _is_damaged_message(entry) and entry.queue is not None and entry.id is not None:
            damaged.setdefault(entry.queue, set()).add(entry.id)
    queues = {name: _counted(content, damaged.get(name, set())) for name, content in _contents(core)}
    rest = Totals()
    for entry in entries:
        if entry.queue is None:
            rest += _moved(entry)
        else:
            queues[entry.queue] = queues.get(entry.queue, Totals()) + _moved(entry)
    return Account(core.shown, tuple(entries), queues, sum(queues.values(), rest), not_looked_at)


def _is_damaged_message(entry: Entry) -> bool:
    """Whether an entry is of a message of a queue that counts as damaged there."""
    return entry.kind in (MESSAGE, LARGE) and entry.queue is not None and entry.transaction is None


def status_of(core: Core) -> Mapping[str, object]:
    """Return what `status.json` says under `account`: the counts that need no look at every queue."""
    entries = entries_of(core)
    totals = sum(map(_moved, entries), Totals())
    damaged = sum(map(_is_damaged_message, entries))
    said = {**summary(entries, replace(totals, damaged=damaged))}
    del said["live"], said["scheduled"]
    return said


def entries_of(core: Core) -> list[Entry]:
    """Return everything that is not plainly live, place by place, without what is only due later."""
    found: list[Entry] = []
    seen: set[tuple[int, str]] = set()
    transactions = {one.tx_id: one for one in core.undecided()}
    names = _names(core)
    for one in core.damage():
        if one.kind == UNDECIDED and one.id in transactions:
            sent, _ = of_transaction(transactions[one.id], names, core.pages.values())
            found += _by_queue(one, Standing.UNDECIDED, sent, f"transaction-{one.id}")
        elif one.kind == LARGE and one.id >= 0:
            found += (entry for entry in _of_body(core, one, names) if not _is_known(seen, entry))
        else:
            found.append(entry_of(one))
    found += (entry for entry in _damaged_messages(core) if not _is_known(seen, entry))
    found += _damaged_sends(core)
    found += map(entry_of, core.contradictions.damage())
    found += map(_missing_id, core.missing_journal_files)
    found += map(_page_set_aside, core.pages_set_aside())
    for prepared in prepared_transactions(core):
        found += _prepared(core, prepared, names)
    return found


def entry_of(damage: Damage) -> Entry:
    """Return a damaged place as an entry."""
    standing = _STANDINGS.get(damage.kind, Standing.DAMAGED)
    return Entry(
        standing,
        damage.queue or None,
        damage.kind,
        damage.file,
        damage.offset,
        damage.length_bytes,
        damage.reason,
        advice_of(damage.kind),
        _count_of(damage),
        certain=damage.kind != DOUBTFUL,
        transaction=f"transaction-{damage.id}" if damage.kind == "incomplete-transaction" else None,
        id=damage.id if damage.id >= 0 and damage.kind == "missing-message" else None,
    )


def _count_of(damage: Damage) -> Count:
    if damage.kind == "incomplete-transaction":
        return NONE  # its messages count where the transaction itself is listed
    if damage.messages < 0:
        return UNKNOWN
    # What was read of a page before it went may have been consumed since, in records that are lost too.
    is_bound = damage.kind in (MISSING_FILE, DOUBTFUL)
    return at_most(damage.messages) if is_bound else exactly(damage.messages)


def _moved(entry: Entry) -> Totals:
    """Return what an entry adds to the totals. Damaged messages of queues are counted with the queue."""
    count = entry.messages.messages or 0
    match entry.standing:
        case Standing.MISSING:
            return Totals(missing=entry.messages)
        case Standing.UNDECIDED:
            return Totals(undecided=count)
        case Standing.PREPARED:
            return Totals(prepared=count)
        case _:
            return Totals()


# What there is, by queue.


def _contents(core: Core) -> Iterator[tuple[str, QueueContent]]:
    for queue in (*core.bindings.queues.values(), *core.lost.queues.values()):
        yield f"{queue.address}::{queue.name}", QueueContent(core, queue)


def _names(core: Core) -> Mapping[int, str]:
    """Names of queues in full, by id: lost ones too."""
    lost = {int(one): f"{queue.address}::{queue.name}" for one, queue in core.lost.queues.items()}
    return ChainMap(lost, core.queue_names())  # type: ignore[arg-type]  # neither is written to


def _counted(content: QueueContent, damaged: Set[int]) -> Totals:
    """Count what a queue has, but for messages that a prepared transaction acknowledged: its entry does."""
    scheduled = content.scheduled()
    live, later = content.count(), total_messages(scheduled)
    broken_later = len(damaged & _ids(content, scheduled)) if damaged else 0
    return Totals(
        live=live - later - (len(damaged) - broken_later),
        scheduled=later - broken_later,
        damaged=len(damaged),
    )


def _ids(content: QueueContent, runs: Iterable[Run]) -> set[int]:
    return {number for run in runs for number in run.columns(content).ids}


# Entries of messages.


def _is_known(seen: set[tuple[int, str]], entry: Entry) -> bool:
    """Whether the message of an entry is listed for its queue already; note that it is now."""
    if entry.id is None:
        return False
    key = entry.id, entry.queue or ""
    known = key in seen
    seen.add(key)
    return known


def _of_body(core: Core, damage: Damage, names: Mapping[int, str]) -> Iterator[Entry]:
    """Yield an entry for each queue that has the message of a damaged body."""
    queues: Mapping[str, bool] = _queues_of(core, damage.id, names)
    rows: Sequence[str | None] = sorted(queues) or [None]
    for queue in rows:
        held = queue is not None and queues[queue]
        yield Entry(
            Standing.DAMAGED, queue, damage.kind, damage.file, damage.offset, damage.length_bytes,
            damage.reason, advice_of(damage.kind), exactly(1 if queue else 0),
            transaction=_holder(core, damage.id) if held else None, id=damage.id,
        )  # fmt: skip


def _queues_of(core: Core, message_id: int, names: Mapping[int, str]) -> dict[str, bool]:
    """Return the queues that have a message, in the journal or in pages, and whether a prepared transaction
    holds it there.
    """
    state = core.loader.state
    slots = {info.slot: info.queue_id for info in state.queues()}
    found: dict[int, bool] = {}
    for info in map(state.ref, state.message_refs(message_id)):
        found[slots[info.queue_slot]] = info.delivering
    for paged in core.pages.values():
        for number in paged.numbers():
            summary = paged.summary(number)
            if summary.first_id <= message_id <= summary.last_id:
                ids = paged.scan(number).message_ids()
                for queue in paged.queues_in(number):
                    if any(ids[index] == message_id for index in paged.live(number, queue)):
                        found[int(queue)] = False
    return {names[queue]: held for queue, held in found.items() if queue in names}


def _damaged_messages(core: Core) -> Iterator[Entry]:
    """Yield an entry for each message of a queue that cannot be read whole, in the journal and in pages."""
    state = core.loader.state
    for message_id in state.damaged_ids():
        yield from _in_journal(core, message_id)
    of_pages = {
        address: [number for number in paged.numbers() if paged.summary(number).damaged]
        for address, paged in core.pages.items()
    }
    if not any(of_pages.values()):
        return  # most often: then no queue is looked at, however many there are
    for name, content in _contents(core):
        paged = core.pages.get(content.model.address)
        for number in of_pages.get(content.model.address, ()):
            assert paged is not None, "it has pages"
            places = {*paged.live(number, content.queue_id), *paged.delivering(number, content.queue_id)}
            for index in places.intersection(paged.summary(number).damaged):
                yield _of_page(core, paged, number, index, queue=name)


def _in_journal(core: Core, message_id: int) -> Iterator[Entry]:
    names, state = _names(core), core.loader.state
    slots = {info.slot: info.queue_id for info in state.queues()}
    for ref in state.message_refs(message_id):
        info = state.ref(ref)
        queue = names.get(slots[info.queue_slot])
        read = core.loader.files.get_read(info.file_slot)
        if queue is None or read is None:
            continue  # of a queue that is not bound: not shown
        refs = array("I", [ref])
        files = {
            slot: core.loader.files[slot] for slot in file_slots(state, refs, core.loader.files.slot_limit)
        }
        lines, keep = state.fill_lines(refs, files, sealed=False)
        reason = _said_of(LineBatch(lines, 1, queue=None, keep=keep))
        place = name_of(read.file.path, core.root), info.offset, info.body_bytes
        holder = _holder(core, message_id) if info.delivering else None
        yield _message(queue, message_id, place, reason, holder)


def _holder(core: Core, message_id: int) -> str | None:
    """Return the name of the prepared transaction that acknowledged a message. Its entry counts that."""
    for prepared in prepared_transactions(core):
        for op in prepared.records:
            if op.user_type == MessageType.ACKNOWLEDGE_REFERENCE and op.record_id == message_id:
                return prepared.name
    return None


def _said_of(batch: LineBatch) -> str:
    """Return what the line of a message says of its damage."""
    return str(decode_envelope(batch.line(0)).get("damage", "it cannot be read whole"))


def _message(
    queue: str | None,
    message_id: int,
    place: tuple[str, int, int],
    reason: str,
    transaction: str | None = None,
) -> Entry:
    """Return the entry of a message that cannot be read whole."""
    return Entry(
        Standing.DAMAGED, queue, MESSAGE, *place, reason, advice_of(MESSAGE), exactly(1),
        transaction=transaction, id=message_id,
    )  # fmt: skip


def _damaged_sends(core: Core) -> Iterator[Entry]:
    """Yield an entry for each damaged message of a transaction that has not ended. The transaction's own
    entry counts the message.
    """
    for transaction in chain(prepared_transactions(core), undecided_transactions(core)):
        for op in transaction.records:
            if adds_pages(op):
                yield from _damaged_in_pages(core, op.a, transaction.name)
            read = core.loader.files.get_read(op.file_slot) if adds_message(op) else None
            if read is None:
                continue
            batch = core.bodies.batch_of(op)
            measure = batch.measure(0)
            if measure.damaged and not measure.large:  # else its body is listed
                place = name_of(read.file.path, core.root), op.body_offset, op.body_bytes
                yield _message(None, op.record_id, place, _said_of(batch), transaction.name)


def _damaged_in_pages(core: Core, tx_id: int, transaction: str) -> Iterator[Entry]:
    """Yield the damaged messages that a transaction wrote to pages."""
    for paged in core.pages.values():
        for number in paged.numbers():
            summary = paged.summary(number)
            if summary.damaged and tx_id in summary.tx_ids:
                tx_ids = paged.scan(number).tx_ids()
                for index in summary.damaged:
                    if tx_ids[index] == tx_id:
                        yield _of_page(core, paged, number, index, transaction=transaction)


def _of_page(
    core: Core,
    paged: PagedAddress,
    number: PageNumber,
    index: int,
    *,
    queue: str | None = None,
    transaction: str | None = None,
) -> Entry:
    """Return the entry of a record of a page whose message cannot be read whole."""
    scan = paged.scan(number)
    entry = scan.entry(index)
    reason = _said_of(page_batch(core, scan, [index], queue=None, now_ms=core.clock.now_ms()))
    place = name_of(paged.files[number].path, core.root), entry.offset, entry.record_bytes
    return _message(queue, entry.message_id, place, reason, transaction)


# Transactions.


def _prepared(core: Core, prepared: StoredTransaction, names: Mapping[int, str]) -> Iterator[Entry]:
    """Yield an entry for each queue that a prepared transaction sends to, or acknowledged messages of."""
    sent, _ = of_transaction(prepared.info, names, core.pages.values())
    taken = _held(core, prepared, names)
    first = next(iter(prepared.records), None)
    read = core.loader.files.get_read(first.file_slot) if first is not None else None
    file = name_of(read.file.path, core.root) if read is not None else ""
    offset = first.body_offset if first is not None else 0
    for queue, count in sorted(sent.items()):
        reason = f"transaction {prepared.name} is prepared, and sends {count} messages to {queue}"
        place = Damage(file, offset, 0, PREPARED, reason)
        yield from _by_queue(place, Standing.PREPARED, {queue: count}, prepared.name)
    for queue, count in sorted(taken.items()):
        reason = f"transaction {prepared.name} is prepared, and has acknowledged {count} messages of {queue}"
        place = Damage(file, offset, 0, ACKNOWLEDGED, reason)
        yield from _by_queue(place, Standing.PREPARED, {queue: count}, prepared.name)


def _held(core: Core, prepared: StoredTransaction, names: Mapping[int, str]) -> Counter[str]:
    """Return how many messages a prepared transaction keeps from being delivered, by queue."""
    state = core.loader.state
    slots = {info.queue_id: info.slot for info in state.queues()}
    found: Counter[str] = Counter()
    for op in prepared.records:
        there = False
        if op.user_type == MessageType.ACKNOWLEDGE_REFERENCE and op.a in slots:
            there = any(state.ref(ref).queue_slot == slots[op.a] for ref in state.message_refs(op.record_id))
        elif op.user_type == MessageType.ACKNOWLEDGE_CURSOR and op.kind == RecordKind.ADD:
            queue = core.bindings.queues.get(QueueId(op.a))
            paged = core.pages.get(queue.address) if queue is not None else None
            number = PageNumber(op.b)
            there = paged is not None and number in paged.files and op.c < paged.summary(number).records
        if there:
            found[name_of_queue(op.a, names)] += 1
    return found


def _by_queue(
    damage: Damage, standing: Standing, counts: Mapping[str, int], transaction: str
) -> Iterator[Entry]:
    """Yield an entry for each queue; one without a queue where there are none."""
    rows: Sequence[tuple[str | None, int]] = sorted(counts.items()) or [(None, 0)]
    for queue, count in rows:
        yield Entry(
            standing, None if queue == NO_QUEUE else queue, damage.kind, damage.file, damage.offset,
            damage.length_bytes, damage.reason, advice_of(damage.kind), exactly(count),
            transaction=transaction,
        )  # fmt: skip


# What is no damage by itself.


def orphan_entry(name: str) -> Entry:
    """Return the entry of a large body that no message has."""
    reason = "no message has this body; --set-aside moves it out of the way"
    return Entry(Standing.LIVE, None, "orphan", name, 0, 0, reason, advice_of("orphan"), NONE)


def _page_set_aside(name: str) -> Entry:
    kind = "page-set-aside"
    reason = "something was wrong with this page when nothing was left to consume in it: it was renamed"
    return Entry(Standing.LIVE, None, kind, name, 0, 0, reason, advice_of(kind), NONE)


def _missing_id(ids: str) -> Entry:
    kind = "missing-id"
    reason = (
        f"no file has id {ids}, and neither use under a later id nor the pool of free files explains it: one "
        "that was taken away took with it what was in it"
    )
    return Entry(
        Standing.MISSING, None, kind, "journal", 0, 0, reason, advice_of(kind), UNKNOWN, certain=False
    )
