"""Reads the bindings journal: small, so it is read whole whenever it changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from journalfs.bindings.model import Anomaly, BindingsState
from journalfs.bindings.replay import replay_bindings
from journalfs.damage import Damage, FileStamp
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import GapKind, RecordInfo, Scan, scan_journal
from journalfs.journal.directory import JournalFile, read_directory

EXTENSION = "bindings"
DAMAGED_GAPS = {GapKind.ZEROED, GapKind.GARBAGE, GapKind.TORN}
DAMAGE_KINDS = {"undecodable", "incomplete-transaction"}
"""Anomalies that mean lost or unreadable data; the others are facts of ordinary stores."""

BindingsStamp = tuple[tuple[str, FileStamp], ...]


def bindings_stamp(directory: Path, *, relative_to: Path) -> BindingsStamp:
    """What tells whether the bindings journal has to be read again."""
    listing = read_directory(directory, extension=EXTENSION, relative_to=relative_to)
    return tuple((file.name, file.stamp) for file in listing.files)


def read_bindings(directory: Path, *, relative_to: Path) -> tuple[BindingsState, tuple[Damage, ...]]:
    """Replay the bindings journal. A missing directory gives no addresses."""
    listing = read_directory(directory, extension=EXTENSION, relative_to=relative_to)
    problems = list(listing.problems)
    read: list[tuple[str, list[tuple[RecordInfo, bytes]]]] = []
    for file in listing.files:
        name = str(file.path.relative_to(relative_to))
        try:
            mapped = MappedFile(file.path)
        except FileNotFoundError:
            continue
        with mapped:
            scan = _scan(mapped, file)
            problems.extend(_gaps(name, scan))
            read.append(
                (name, [(record, mapped.copy(record.body_offset, record.body_bytes)) for record in scan])
            )
    state = replay_bindings(read)
    problems.extend(_anomalies(state.anomalies))
    return state, tuple(sorted(problems))


def _scan(mapped: MappedFile, file: JournalFile) -> Scan:
    """A file without a usable header gives up its records whatever id they carry."""
    return scan_journal(mapped, rid=file.rid, version=file.version, any_rid=file.header_damaged)


def _gaps(name: str, scan: Scan) -> Iterator[Damage]:
    for gap in scan.gaps():
        if gap.kind in DAMAGED_GAPS:
            yield Damage(
                name, gap.offset, gap.length, gap.kind.name.lower(), "no bindings record can be read here"
            )


def _anomalies(anomalies: tuple[Anomaly, ...]) -> Iterator[Damage]:
    for anomaly in anomalies:
        if anomaly.kind in DAMAGE_KINDS:
            yield Damage(anomaly.file, anomaly.offset, 0, anomaly.kind, anomaly.reason)
