"""Anomalies of the live state as damage: references of present records to missing ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from journalfs.damage import Damage
from journalfs.engine.buffers import MappedFile
from journalfs.engine.checksums import CHECKSUM_BYTES, Checked, Mismatch, check_records
from journalfs.engine.scan import Scan
from journalfs.engine.state import LiveState
from journalfs.engine.state_types import Anomaly, AnomalyKind
from journalfs.format.record_types import RecordKind
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.records.files.files import FileSet, ReadFile

_OF_UNKNOWN: Final = frozenset(
    {AnomalyKind.REF_OF_UNKNOWN, AnomalyKind.ACK_OF_UNKNOWN, AnomalyKind.UPDATE_OF_UNKNOWN}
)

_OF_TRANSACTIONS: Final = frozenset({AnomalyKind.COMMIT_INCOMPLETE, AnomalyKind.PREPARE_INCOMPLETE})

_TEXTS: Mapping[AnomalyKind, tuple[str, str]] = {
    AnomalyKind.REF_OF_UNKNOWN: (
        "missing-message",
        "{queue} refers to message {a}, whose record is not in the journal: the message is lost",
    ),
    AnomalyKind.ACK_OF_UNKNOWN: (
        "missing-message",
        "an acknowledgement in {queue} of message {a}, whose record is not in the journal",
    ),
    AnomalyKind.UPDATE_OF_UNKNOWN: (
        "missing-message",
        "a delivery count or schedule in {queue} of message {a}, whose record is not in the journal",
    ),
    AnomalyKind.COMMIT_INCOMPLETE: (
        "incomplete-transaction",
        "transaction {a} committed {b} records in this file, and not all are there: a broker drops it whole",
    ),
    AnomalyKind.PREPARE_INCOMPLETE: (
        "incomplete-transaction",
        "transaction {a} prepared {b} records in this file, and not all are there: a broker drops it whole",
    ),
    AnomalyKind.SHORT_RECORD: (
        "short-record",
        "record {a} of type {b} is too short for its type and was left out",
    ),
    AnomalyKind.IN_DAMAGE: (
        "doubtful-record",
        "record {a} lies within what a damaged record claims, so it may be part of that record's body",
    ),
}
"""Kinds that mean that something is lost or doubtful. Unfinished transactions and messages without references
are how every killed broker leaves its journal, and an acknowledgement too many loses nothing."""


class Doubt:
    """Tells a loader that goes on behind an earlier reading whether its state may be wrong: records about
    unknown messages came. A message that was deleted may be acknowledged again, as brokers do, and only a
    reading from the beginning tells it from a lost one.
    """

    def __init__(self) -> None:
        self._anomalies = 0

    def begin(self, state: LiveState) -> None:
        """Everything was read."""
        self._anomalies = state.counts().anomalies

    def arose(self, state: LiveState) -> bool:
        """Return True if such records came since the last call."""
        before = self._anomalies
        self.begin(state)
        return self._anomalies > before and any(one.kind in _OF_UNKNOWN for one in state.anomalies())


def references_to_unknown(anomalies: Iterable[Anomaly], queue_names: Mapping[int, str]) -> Counter[str]:
    """How many records refer to messages that no record has, by the queue that they are about."""
    return Counter(name_of_queue(one.b, queue_names) for one in anomalies if one.kind in _OF_UNKNOWN)


def name_of_queue(queue_id: int, names: Mapping[int, str]) -> str:
    return names.get(queue_id, f"queue {queue_id}")


def anomaly_damage(
    anomalies: Iterable[Anomaly],
    file_name: Callable[[int], str | None],
    queue_names: Mapping[int, str],
) -> Iterator[Damage]:
    """One entry per anomaly; `file_name` says what a file slot is called, `None` once the file is gone."""
    for anomaly in anomalies:
        texts = _TEXTS.get(anomaly.kind)
        name = file_name(anomaly.file_slot)
        if texts is not None and name is not None:
            kind, reason = texts
            queue = name_of_queue(anomaly.b, queue_names)
            told = reason.format(a=anomaly.a, b=anomaly.b, queue=queue)
            if anomaly.kind in _OF_TRANSACTIONS:
                yield Damage(name, anomaly.offset, 0, kind, told, id=anomaly.a)
            elif anomaly.kind in _OF_UNKNOWN:
                lost = 1 if anomaly.kind is AnomalyKind.REF_OF_UNKNOWN else 0
                of = queue_names.get(anomaly.b, "")
                yield Damage(name, anomaly.offset, 0, kind, told, of, lost, anomaly.a)
            else:
                yield Damage(name, anomaly.offset, 0, kind, told)


# What the checksums of a journal say of it: stretches that are not what was written, and records that are
# not there any more. What lies in them is shown all the same.

MISSING_RECORDS: Final = "missing-records"
"""Damage of one file that another one tells of."""

_FIRST_RECORD_BYTES: Final = 6
"""Of a record, as much as says of what kind it is and how often it was compacted."""

_COUNTED_UP: Final = frozenset(
    {RecordKind.EVENT, RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX}
)
"""Kinds of which compaction counts up each copy."""


class Contradictions:
    """Found while the files of one journal are read, in their order."""

    def __init__(self) -> None:
        self._appended: dict[int, bool] = {}
        """True for files with checksums that were appended to, False for compacted ones; by slot."""
        self._chained: set[int] = set()
        """Slots of files that said how far the file before them had been written."""

    def of(
        self, read: ReadFile, mapped: MappedFile, scan: Scan, files: FileSet, name: str
    ) -> Iterator[Damage]:
        """Return the damage that the checksums among these records reveal. `name` is the file's; damage in
        the file before it is reported for that file.
        """
        checked = check_mapped(mapped, scan, read.file.file_id)
        yield from (mismatch_damage(name, found) for found in checked.mismatches)
        if checked.count:
            self._appended[read.slot] = not checked.rewritten
        if checked.previous is not None and read.slot not in self._chained:
            self._chained.add(read.slot)
            yield from self._missing_before(*checked.previous, files, name)

    def _missing_before(self, file_id: int, end: int, files: FileSet, name: str) -> Iterator[Damage]:
        """Records of the file before, up to `end`, that are lost. That file may be free by now, or another
        with its id may hold what compaction kept of it.
        """
        for read in files.read_files():
            if read.file.file_id == file_id and read.position < end and self._was_appended_to(read, files):
                folder = name.rpartition("/")[0]
                place = f"{folder}/{read.file.path.name}" if folder else read.file.path.name
                reason = f"the next file says that records followed up to {end}: they are lost"
                yield Damage(place, read.position, end - read.position, MISSING_RECORDS, reason)

    def _was_appended_to(self, read: ReadFile, files: FileSet) -> bool:
        """Return True if the file was appended to. A compacted file begins right behind the header, mostly
        with a record whose count compaction raised.
        """
        if read.slot in self._appended:
            return self._appended[read.slot]
        mapped = files[read.slot]
        first = mapped.reading(lambda: mapped.copy(JOURNAL_HEADER_BYTES, _FIRST_RECORD_BYTES))
        return first[0] == 0 or (first[0] in _COUNTED_UP and first[-1] == 0)


def check_mapped(mapped: MappedFile, scan: Scan, file_id: int) -> Checked:
    """Check what the checksums among the records of a mapped file cover."""
    return mapped.reading(lambda: check_records(mapped.pointer, mapped.size_bytes, scan, file_id))


def mismatch_damage(name: str, found: Mismatch) -> Damage:
    """The stretch and its checksum: either may be what was changed."""
    length = found.length + CHECKSUM_BYTES
    if not found.length:
        reason = "a checksum that covers nothing that could lie before it"
    else:
        reason = f"these bytes were changed: their checksum, at {found.record_offset}, is that of others"
    return Damage(name, found.offset, length, "checksum", reason)
