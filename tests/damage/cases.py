"""Damaging one place of a store, and looking at what is left of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings

from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.reference import journal as reference
from tests.reference.store import LargeMessages, interpret
from tests.truth.from_store import content_of

QUICK_EXAMPLES = 100
"""Of the hypothesis profile that runs unless another is asked for."""

Queues = dict[int, set[int]]
"""Queue id -> ids of its messages, those that a prepared transaction holds included."""


def cases(quick: int) -> int:
    """How many places to damage: `quick`, or 20 times that with `--hypothesis-profile=long`."""
    return quick * (20 if settings().max_examples > QUICK_EXAMPLES else 1)


@contextmanager
def changed(path: Path, offset: int, content: bytes) -> Iterator[None]:
    """Overwrite bytes of a file, and put them back."""
    with path.open("r+b") as file:
        file.seek(offset)
        before = file.read(len(content))
        file.seek(offset)
        file.write(content[: len(before)])
        file.flush()
        yield
        file.seek(offset)
        file.write(before)


@contextmanager
def flipped(path: Path, offset: int, bit: int) -> Iterator[None]:
    with path.open("rb") as file:
        file.seek(offset)
        byte = file.read(1)[0]
    with changed(path, offset, bytes([byte ^ 1 << bit])):
        yield


@dataclass(frozen=True)
class Seen:
    """What a store shows."""

    queues: Queues
    """Also queues that hold nothing."""
    journal: Queues
    """Without what is in pages."""
    damaged_lines: int
    places: list[tuple[str, int, int]]
    """File, offset and length of each listed damage."""
    wrong: list[str] = field(default_factory=list)


def look(data: Path) -> Seen:
    """Open the store, read every line and every message file, close it."""
    store = open_store(data, index=False)
    try:
        return _seen(store)
    finally:
        store.close()


def _seen(store: JournalStore) -> Seen:
    queues: Queues = {}
    journal: Queues = {}
    damaged_lines = 0
    wrong = []
    for queue in store.queues():
        whole = content_of(queue.open_all())
        lines = [json.loads(line) for line in whole.splitlines()]
        damaged_lines += sum("damage" in line for line in lines)
        listing = queue.listing()
        ids = [int(listing.message_id(index)) for index in range(len(listing))]
        if len(ids) != len(lines) or len(set(ids)) != len(ids):
            wrong.append(f"{queue.name}: {len(ids)} files, {len(lines)} lines")
        if not {line["id"] for line in lines if "id" in line} <= set(ids):
            wrong.append(f"{queue.name}: lines with ids that are not listed")
        for message_id in ids:
            message = queue.message(message_id)  # type: ignore[arg-type]
            if message is None or len(content_of(message.open())) != message.size_bytes:
                wrong.append(f"{queue.name}: message {message_id} cannot be read whole")
        held = queue.delivering().listing()
        ids += [int(held.message_id(index)) for index in range(len(held))]
        queues[int(queue.content.queue_id)] = set(ids)
        state = queue.content.state
        references = state.refs(queue.content.slot, "arrival", "all")
        journal[int(queue.content.queue_id)] = {state.ref(one).message_id for one in references}
    places = [(one.file, one.offset, one.length_bytes) for one in store.core.damage()]
    return Seen(queues, journal, damaged_lines, places, wrong)


def oracle(data: Path) -> Queues:
    """The same by the reference, of the journal alone."""
    files = reference.read_folder(data / "journal")
    found = interpret(
        reference.replay(file.scan.records for file in files), LargeMessages(data / "large-messages")
    )
    return {queue: set(references) for queue, references in found.queues.items() if references}


def used_bytes(path: Path) -> int:
    """Where the last valid record of a journal file ends."""
    data = path.read_bytes()
    return reference.scan(data, int.from_bytes(data[8:16], "big") & 0x7FFFFFFF).end
