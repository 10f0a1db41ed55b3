"""Loading a store's message journal with the engine alone, for tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import measure
from journalfs.engine.scan import Scan, scan_journal
from journalfs.engine.state import LiveState


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A journal file as a scan needs it."""

    file: MappedFile
    file_id: int
    version: int

    def scan(self, start: int = 16, stop: int | None = None) -> Scan:
        rid = self.file_id & 0x7FFFFFFF
        return scan_journal(self.file, rid=rid, version=self.version, start=start, stop=stop)


def journal_files(directory: Path, suffix: str = ".amq") -> list[JournalFile]:
    """The files of a journal in replay order."""
    found = []
    for path in directory.iterdir():
        if path.suffix == suffix:
            file = MappedFile(path)
            header = file.copy(0, 16)
            found.append(JournalFile(file, int.from_bytes(header[8:16], "big"), header[3]))
    return sorted(found, key=lambda journal: journal.file_id)


def load(store: Path) -> LiveState:
    """The live state of a store whose broker is not at work, with every message measured."""
    state = LiveState()
    files = journal_files(store / "data" / "journal")
    for slot, journal in enumerate(files):
        state.apply(slot, journal.file, journal.scan())
    state.finish()
    for message in state.measure():
        payload = files[message.file_slot].file.copy(message.offset, message.body_bytes)
        with MappedFile(store / "data" / "large-messages" / f"{message.message_id}.msg") as body:
            found = measure(payload, source=message.source, large=body)
        state.set_measure(message.message_index, message.message_id, found.pointer)
    return state


def live_ids(state: LiveState, order: str = "delivery") -> dict[int, list[int]]:
    """Ids of the live messages of each queue that has any, by queue id."""
    found = {}
    for queue in state.queues():
        refs = state.refs(queue.slot, "delivery" if order == "delivery" else "arrival")
        if refs:
            found[queue.queue_id] = state.listing(refs).ids.tolist()
    return found
