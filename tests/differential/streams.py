"""Random journals: record streams of a busy broker, and of a mad one, spread over files as a broker would."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.differential.encode import journal_file, record
from tests.differential.encode_messages import core_header, text_message
from tests.reference.journal import (
    ADD,
    ADD_TX,
    COMMIT,
    DELETE,
    DELETE_TX,
    EVENT,
    PREPARE,
    ROLLBACK,
    UPDATE,
    UPDATE_TX,
)

QUEUES = (21, 22, 2**40)
XID = struct.pack(">ii2si3s", 7, 2, b"bq", 3, b"gid")


@dataclass
class Writer:
    """Lays records into files, keeping the per-file transaction counts a COMMIT and a PREPARE must name."""

    file_ids: list[int]
    compact_count: int = 0
    files: list[list[bytes]] = field(default_factory=lambda: [[]])
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def next_file(self) -> None:
        if len(self.files) < len(self.file_ids):
            self.files.append([])

    @property
    def rid(self) -> int:
        return self.file_ids[len(self.files) - 1] & 0x7FFFFFFF

    def put(self, kind: int, *, tx_id: int = 0, wrong: int = 0, **fields: object) -> None:
        """Append a record. `wrong` is added to the count of a COMMIT or PREPARE."""
        file = len(self.files) - 1
        counted_file, count = self.counts.get(tx_id, (-1, 0))
        count = count if counted_file == file else 0
        if kind in (ADD_TX, UPDATE_TX, DELETE_TX):
            self.counts[tx_id] = (file, count + 1)
        elif kind in (COMMIT, ROLLBACK):
            self.counts.pop(tx_id, None)
        compacted = self.compact_count if kind in (ADD, UPDATE, ADD_TX, UPDATE_TX) else 0
        self.files[-1].append(
            record(kind, self.rid, tx_id=tx_id, count=count + wrong, compact_count=compacted, **fields)  # type: ignore[arg-type]
        )


def message_payload(message_id: int) -> tuple[int, bytes]:
    """User type and body of a message whose look depends on its id: small or large, of every priority."""
    priority = message_id % 10
    if message_id % 7 == 3:
        return 30, core_header(message_id, priority=priority, kind=4)
    return 45, text_message(message_id, f"text {message_id}", priority=priority, timestamp=message_id)


KINDS = (
    *(
        "send",
        "send",
        "send",
        "send_tx",
        "send_tx",
        "ack",
        "ack_tx",
        "count",
        "schedule",
        "delete",
        "delete_tx",
    ),
    *("commit", "commit", "rollback", "prepare", "wrong", "side", "side_tx", "roll", "event", "ref", "noise"),
)
STEPS = st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 2), st.sampled_from(QUEUES))


@dataclass
class _Ids:
    """Message ids are drawn once, so that none is added twice; old ones are met again by everything else."""

    last: int = 100

    def fresh(self) -> int:
        self.last += 1
        return self.last

    def old(self, back: int) -> int:
        """One that was drawn before; 100, which is nobody's, as long as there is none."""
        return max(101, self.last - back) if self.last > 100 else 100


def _ref(queue: int, *numbers: int, layout: str = "") -> bytes:
    return struct.pack(">q" + layout, queue, *numbers)


def _step(writer: Writer, ids: _Ids, step: tuple[str, int, int, int]) -> None:
    what, back, tx, queue = step
    tx_id = 1000 + tx
    old = ids.old(back)
    if what in ENDS:
        writer.put(ENDS[what], tx_id=tx_id, wrong=1 if what == "wrong" else 0, body=XID)
    elif what == "roll":
        writer.next_file()
    elif what == "noise":
        writer.files[-1].append(bytes(range(back)))
    elif what == "event":
        writer.put(EVENT, record_id=old, user_type=99, body=b"not a record")
    elif what == "delete":
        writer.put(DELETE, record_id=old)
    elif what == "delete_tx":
        writer.put(DELETE_TX, tx_id=tx_id, record_id=old)
    elif what.startswith(("send", "side")):
        _add(writer, ids, step, tx_id)
    else:
        user_type, layout, number = {
            "ref": (32, "", ()),
            "ack": (33, "", ()),
            "ack_tx": (33, "", ()),
            "count": (34, "i", (back,)),
            "schedule": (36, "q", (10**12 * back,)),
        }[what]
        kind = UPDATE_TX if what == "ack_tx" else UPDATE
        body = _ref(queue, *number, layout=layout)
        writer.put(kind, tx_id=tx_id, record_id=old, user_type=user_type, body=body)


ENDS = {"prepare": PREPARE, "commit": COMMIT, "wrong": COMMIT, "rollback": ROLLBACK}


def _add(writer: Writer, ids: _Ids, step: tuple[str, int, int, int], tx_id: int) -> None:
    """A message with its references, or a record of a page position."""
    what, back, tx, queue = step
    add, update = (ADD_TX, UPDATE_TX) if what.endswith("_tx") else (ADD, UPDATE)
    record_id = ids.fresh()
    if what.startswith("side"):
        body = _ref(queue, back, tx, layout="qi")
        writer.put(add, tx_id=tx_id, record_id=record_id, user_type=39, body=body)
        return
    user_type, body = message_payload(record_id)
    writer.put(add, tx_id=tx_id, record_id=record_id, user_type=user_type, body=body)
    for one in QUEUES[: 1 + back % 3]:
        writer.put(update, tx_id=tx_id, record_id=record_id, user_type=32, body=_ref(one))


@dataclass(frozen=True)
class Journal:
    """Files in reading order: header id and content."""

    files: tuple[tuple[int, bytes], ...]


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    """Files of one journal; reused ones carry records of an older life behind their own."""
    steps = draw(st.lists(STEPS, min_size=draw(st.sampled_from([1, 30, 80])), max_size=120))
    first = draw(st.sampled_from([1, 2, 2**31 - 2, 2**33]))
    writer = Writer([first + number for number in range(5)], compact_count=draw(st.integers(0, 1)))
    ids = _Ids()
    for step in steps:
        _step(writer, ids, step)
    files = []
    for number, records in enumerate(writer.files):
        leftover = b""
        if draw(st.booleans()):
            old = record(ADD, 77, record_id=101, user_type=45, body=b"x" * draw(st.integers(0, 90)))
            leftover = old[draw(st.integers(0, 20)) :] + old
        files.append(
            (writer.file_ids[number], journal_file(writer.file_ids[number], records, leftover=leftover))
        )
    return Journal(tuple(files))
