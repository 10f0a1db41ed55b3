"""The work of `convert`, `recover` and `repair`, in steps that can be taken up again after a kill.

A new store is put together beside its destination, under a name that begins with a dot, and moved there at
the end; so nothing of it is ever there twice. A step that was done is noted in a file of ours.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
import trio

from journalfs.config.files import TOML_NAME
from journalfs.config.journal_settings import JournalSettings, journal_settings
from journalfs.config.journalfs_toml import settings_text
from journalfs.config.layout import StoreLayout, locate_store, plan_store
from journalfs.config.older import ARTEMIS_1, HORNETQ, forced
from journalfs.config.setting_names import Value
from journalfs.convert.report import Report
from journalfs.damage import Damage
from journalfs.door import sync
from journalfs.engine.buffers import MappedFile
from journalfs.engine.older import RECOVER, RENAME
from journalfs.engine.state_types import AnomalyKind, TransactionInfo
from journalfs.errors import DecodeError, OlderStore, StoreBusy, SystemFailure, WrongCall
from journalfs.format.large_file import parse_large_name
from journalfs.format.xid import decode_xid
from journalfs.journal.account import JournalAccount
from journalfs.journal.loader import JournalLoader
from journalfs.older import Source
from journalfs.older.adapters import CURRENT, adapter_for
from journalfs.older.derived import DerivedStore
from journalfs.older.reading import identity_of
from journalfs.older.writing_hornetq import HornetqStore
from journalfs.store.compacting import compact_store
from journalfs.store.locks import lock_holder
from journalfs.store.opening import open_store
from journalfs.store.write.opening import open_for_writing

PROGRESS: Final = "unfinished.json"
MADE_FROM: Final = Path("journalfs", "made-from.json")
REWRITTEN: Final = "rewritten"
WRITTEN: Final = (HORNETQ,)
"""Kinds of older stores that can be made."""
COPIED_BYTES: Final = 8 << 20
"""Copied at once."""

LIVE_SHARE_MIN: Final = 0.5
"""A journal of which less counts is compacted."""

_BROKEN: Final = frozenset(
    {AnomalyKind.TX_UNFINISHED, AnomalyKind.COMMIT_INCOMPLETE, AnomalyKind.PREPARE_INCOMPLETE}
)


class Mode(StrEnum):
    CONVERT = "convert"
    RECOVER = "recover"
    """Acknowledged messages that are still on disk count, too."""
    REPAIR = "repair"


class _Step(StrEnum):
    NOTHING = "nothing"
    RECORDS = "records"
    """Journals and pages are written."""
    BODIES = "bodies"
    PACKED = "packed"
    """Nothing is in the journals that a broker would complain of, and the report is written."""
    REWRITTEN = "rewritten"
    """The older store is made of it."""


_LAST: Final = frozenset({_Step.PACKED, _Step.REWRITTEN})
"""From here on files may have been moved already."""


class _State(msgspec.Struct):
    """How far the work is."""

    mode: str
    identity: str
    to: str | None = None
    step: str = _Step.NOTHING
    damage: list[Damage] = []
    notes: list[tuple[str, str]] = []
    bodies: str | None = None


@dataclass(slots=True)
class Carrying:
    """Makes the store `destination` of the one at `path`. `run` does it. `kind` says what the source is."""

    path: Path
    destination: Path
    mode: Mode
    kind: str | None = None
    to: str | None = None
    """The kind of store to make, of `WRITTEN`; None: one of the current format."""
    advance: Callable[[int], None] = lambda count: None

    def run(self) -> Report:
        """Raises what `locate_store` raises, `WrongCall` where the destination is in use, `SystemFailure`."""
        destination = Path(os.path.abspath(self.destination))
        source = self._source()
        if destination == source.root or source.root.is_relative_to(destination):
            raise WrongCall(
                f"{destination}: this is the source, which stays as it is; give another directory"
            )
        staging = destination.parent / f".{destination.name}.unfinished"
        try:
            return self._run(source, destination, staging)
        except OSError as error:
            raise SystemFailure.from_os(error, error.filename or destination, doing=self.mode) from error

    def source_bytes(self) -> int:
        """What there is to read."""
        return sum(status.st_size for _, status in self._source().files())

    def _source(self) -> Source:
        given = Path(os.path.abspath(self.path))
        try:
            if self.kind is None:
                layout = locate_store(given)
                _refuse_busy(layout.root, layout.node_manager_lock_dir)
                return Source(
                    CURRENT,
                    layout.root,
                    layout.journal_dir,
                    layout.bindings_dir,
                    "a store of the current format",
                    paging=layout.paging_dir,
                    large=layout.large_dir,
                )
            found = forced(self.kind, given)
        except OlderStore as older:
            found = older
        _refuse_busy(found.root, found.journal_dir)
        return Source(found.kind, found.root, found.journal_dir, found.bindings_dir, found.found)

    def _run(self, source: Source, destination: Path, staging: Path) -> Report:
        state = _state_of(staging)
        identity = identity_of(source)
        if state is None or (state.mode, state.to, state.identity) != (self.mode, self.to, identity):
            shutil.rmtree(staging, ignore_errors=True)
            state = _State(self.mode, identity, self.to)
        if state.step not in _LAST:
            plan_store(destination)  # nothing may be there
        if state.step == _Step.NOTHING:
            self._records(source, staging, destination, state)
        if state.step == _Step.RECORDS:
            self._bodies(staging, state)
        if state.step == _Step.BODIES:
            self._pack(source, staging, destination, state)
        if state.step == _Step.PACKED and self.to is not None:
            self._rewrite(source, staging, destination, state)
        report = msgspec.json.decode((staging / MADE_FROM).read_bytes(), type=Report)
        _move(staging, destination, _places(destination) if self.to is None else _hornetq_places(destination))
        return report

    def _records(self, source: Source, staging: Path, destination: Path, state: _State) -> None:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        older = source.kind != CURRENT
        renamed = older and not self._keeps_names(source)
        flags = (RENAME if renamed else 0) | (RECOVER if self.mode is Mode.RECOVER else 0)
        size_bytes = _settings(destination).file_size_bytes
        with DerivedStore(staging, self.advance, flags=flags, file_bytes=size_bytes) as out:
            adapter_for(source)(source, out)
            out.paging_dir.mkdir(exist_ok=True)
            out.large_dir.mkdir(exist_ok=True)
        state.damage, state.notes = sorted(out.damaged), out.notes
        state.bodies = None if out.bodies is None else str(out.bodies)
        _done(staging, state, _Step.RECORDS)

    def _bodies(self, staging: Path, state: _State) -> None:
        """Copies of the bodies that messages have, each whole or not there."""
        there = [] if state.bodies is None else sorted(Path(state.bodies).iterdir())
        wanted = _bodies_of(staging) if there else set()
        for path in there:
            if path.name in wanted and path.is_file():
                self._copy(path, staging / "large-messages" / path.name)
        sync(staging / "large-messages")
        _done(staging, state, _Step.BODIES)

    def _copy(self, source: Path, to: Path) -> None:
        size_bytes = source.stat().st_size
        if to.is_file() and to.stat().st_size == size_bytes:
            return
        part = to.with_name(f"{to.name}.part")
        with source.open("rb") as reading, part.open("wb") as writing:
            while piece := reading.read(COPIED_BYTES):
                writing.write(piece)
                self.advance(len(piece))
            writing.flush()
            os.fsync(writing.fileno())
        part.rename(to)

    def _pack(self, source: Source, staging: Path, destination: Path, state: _State) -> None:
        """As durable as every store is, and without what a broker would complain of; say what it is."""
        report, pack = self._report(source, staging, destination, state)
        if pack or self.to is not None:
            _compact(staging, destination)
            again, _ = self._report(source, staging, destination, state)
            report = msgspec.structs.replace(again, damage=report.damage)
        shutil.rmtree(staging / MADE_FROM.parent, ignore_errors=True)
        (staging / MADE_FROM).parent.mkdir()
        _write_report(staging, report)
        _sync_all(staging)
        _done(staging, state, _Step.PACKED)

    def _keeps_names(self, source: Source) -> bool:
        """Destinations have the names already that clients of the new store know."""
        return self.to is not None and source.kind in (HORNETQ, ARTEMIS_1)

    def _rewrite(self, source: Source, staging: Path, destination: Path, state: _State) -> None:
        """Make the older store of what was packed."""
        place = staging / REWRITTEN
        shutil.rmtree(place, ignore_errors=True)
        writing = HornetqStore(
            staging,
            place,
            _settings(destination).file_size_bytes,
            current_names=not self._keeps_names(source),
            jms=source.bindings_dir if source.kind == HORNETQ else None,
        )
        writing.write()
        report = msgspec.json.decode((staging / MADE_FROM).read_bytes(), type=Report)
        notes = [(kind, text) for kind, text in report.notes if kind != "jms"]
        _write_report(staging, msgspec.structs.replace(report, notes=notes + writing.notes))
        _sync_all(staging)
        _done(staging, state, _Step.REWRITTEN)

    def _report(self, source: Source, staging: Path, destination: Path, state: _State) -> tuple[Report, bool]:
        """What is in the new store, and whether it is worth compacting."""
        store = open_store(staging, index=False)
        try:
            queues = {
                f"{address.name}::{queue.name}": len(queue)
                for address in store.addresses()
                for queue in address.queues()
            }
            loader = store.core.loader
            prepared = [_xid(loader.files[one.file_slot], one) for one in loader.state.transactions()]
            bodies = [path for path in (staging / "large-messages").iterdir() if parse_large_name(path.name)]
            missing = [one for one in store.core.damage() if one.kind == "large-message"]
            pack = _is_worth_compacting(loader)
        finally:
            store.close()
        report = Report(
            mode=self.mode,
            source=os.fsdecode(os.fsencode(source.root)),
            format=source.kind,
            destination=str(destination),
            messages=sum(queues.values()),
            queues=queues,
            large_bodies=len(bodies),
            prepared_transactions=prepared,
            damage=sorted({*state.damage, *missing}),
            notes=state.notes,
        )
        return report, pack


def _write_report(staging: Path, report: Report) -> None:
    (staging / MADE_FROM).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def _settings(destination: Path) -> JournalSettings:
    """As the broker of the new store has them."""
    return journal_settings(_layout_at(destination).config)


def _is_worth_compacting(loader: JournalLoader) -> bool:
    """Of transactions without an end, and of incomplete ones, brokers warn; and dead bytes cost room."""
    anomalies = loader.state.anomalies()
    if any(one.kind in _BROKEN for one in anomalies) or len(anomalies) < loader.state.counts().anomalies:
        return True
    live_bytes = sum(one.live_bytes for one in JournalAccount().reports(loader.files))
    return live_bytes < LIVE_SHARE_MIN * sum(read.position for read in loader.files.read_files())


def _compact(staging: Path, destination: Path) -> None:
    said: dict[str, Value] = {
        "journal-file-size": _settings(destination).file_size_bytes,
        "journal-type": "NIO",
        "journal-datasync": False,
    }
    (staging / TOML_NAME).write_text(settings_text(said))
    writing = open_for_writing(staging, index=False, auto_delete=False, expire=False)
    try:
        trio.run(compact_store, writing)
    finally:
        writing.close()


def _xid(file: MappedFile, transaction: TransactionInfo) -> str:
    extra = file.copy(transaction.extra_offset, transaction.extra_bytes)
    try:
        return decode_xid(extra).base64()
    except DecodeError:
        return f"{transaction.tx_id}, whose name cannot be read"


def _refuse_busy(root: Path, lock_dir: Path) -> None:
    holder = lock_holder(lock_dir)
    if holder is not None:
        raise StoreBusy(root, f"process {holder}" if holder else "a process in another container")


def _bodies_of(staging: Path) -> set[str]:
    """Names of the files that messages of the new store have."""
    store = open_store(staging, index=False)
    try:
        orphaned = {Path(name).name for name in store.orphaned_bodies()}
        return {file.name for file in store.core.large.files()} - orphaned
    finally:
        store.close()


def _state_of(staging: Path) -> _State | None:
    try:
        return msgspec.json.decode((staging / PROGRESS).read_bytes(), type=_State)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def _done(staging: Path, state: _State, step: _Step) -> None:
    """Note that a step was taken: afterwards it is not taken again."""
    state.step = step
    new = staging / f"{PROGRESS}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    new.rename(staging / PROGRESS)
    sync(staging)


def _sync_all(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync(Path(parent))


def _places(destination: Path) -> dict[str, Path]:
    """Where parts of the new store belong; the journal last, which makes it one."""
    layout = _layout_at(destination)
    return {
        "large-messages": layout.large_dir,
        "paging": layout.paging_dir,
        "bindings": layout.bindings_dir,
        "journalfs": layout.root / "journalfs",
        "journal": layout.journal_dir,
    }


def _hornetq_places(destination: Path) -> dict[str, Path]:
    made = {f"{REWRITTEN}/{name}": destination / name for name in ("paging", "bindings", "journal")}
    beside = {"large-messages": destination / "largemessages", "journalfs": destination / "journalfs"}
    return beside | made


def _move(staging: Path, destination: Path, places: Mapping[str, Path]) -> None:
    """All that is left of the new store to where it belongs."""
    for name, place in places.items():
        for path in _files_of(staging / name):
            to = place / path.relative_to(staging / name)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, to)
            sync(to.parent)
        if (staging / name).is_dir():
            place.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(staging)
    sync(destination)


def _layout_at(destination: Path) -> StoreLayout:
    """Where its parts go: as its configuration says, also when some are there already."""
    try:
        return plan_store(destination)
    except WrongCall:
        return locate_store(destination)


def _files_of(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in sorted(names))
