"""A writer that appends to a journal as a broker at work does, for tests of following and of the index."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential.encode import header, record
from tests.differential.encode_messages import text_message

ADD, UPDATE, ADD_TX, UPDATE_TX, DELETE, PREPARE, COMMIT = 11, 12, 13, 14, 16, 17, 18
MESSAGE, ADD_REF, ACK, DELIVERY_COUNT, SCHEDULED = 45, 32, 33, 34, 36


@dataclass
class JournalAppender:
    """Appends records to one journal file in place. `file_id` is that of its header."""

    path: Path
    file_id: int
    position: int
    at: int = field(init=False)

    def __post_init__(self) -> None:
        self.at = self.position

    @classmethod
    def last_of(cls, directory: Path, position: int) -> JournalAppender:
        """The file with the highest id that holds records, at a position the caller knows."""
        files = sorted(
            directory.glob("*.amq"), key=lambda path: struct.unpack(">q", path.read_bytes()[8:16])[0]
        )
        holding = [path for path in files if any(path.read_bytes()[16:4200])]
        path = holding[-1]
        return cls(path, struct.unpack(">q", path.read_bytes()[8:16])[0], position)

    @classmethod
    def create(cls, path: Path, file_id: int, *, size_bytes: int = 65536) -> JournalAppender:
        path.write_bytes(header(file_id) + bytes(size_bytes - 16))
        return cls(path, file_id, 16)

    def append(self, *records: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.at)
            file.write(b"".join(records))
        self.at += sum(map(len, records))

    def record(self, kind: int, **fields: object) -> bytes:
        return record(kind, self.file_id & 0x7FFFFFFF, **fields)  # type: ignore[arg-type]

    def send(self, message_id: int, queue_id: int, text: str = "t", *, priority: int = 4) -> None:
        body = text_message(message_id, text, priority=priority)
        self.append(
            self.record(ADD, record_id=message_id, user_type=MESSAGE, body=body),
            self.record(UPDATE, record_id=message_id, user_type=ADD_REF, body=struct.pack(">q", queue_id)),
        )

    def acknowledge(self, message_id: int, queue_id: int, *, tx_id: int) -> None:
        self.append(
            self.record(
                UPDATE_TX, tx_id=tx_id, record_id=message_id, user_type=ACK, body=struct.pack(">q", queue_id)
            ),
            self.record(COMMIT, tx_id=tx_id, count=1),
            self.record(DELETE, record_id=message_id),
        )

    def redeliver(self, message_id: int, queue_id: int, count: int) -> None:
        body = struct.pack(">qi", queue_id, count)
        self.append(self.record(UPDATE, record_id=message_id, user_type=DELIVERY_COUNT, body=body))

    def schedule(self, message_id: int, queue_id: int, time_ms: int) -> None:
        body = struct.pack(">qq", queue_id, time_ms)
        self.append(self.record(UPDATE, record_id=message_id, user_type=SCHEDULED, body=body))

    def send_in_transaction(self, tx_id: int, message_id: int, queue_id: int, text: str = "t") -> None:
        self.append(
            self.record(
                ADD_TX,
                tx_id=tx_id,
                record_id=message_id,
                user_type=MESSAGE,
                body=text_message(message_id, text),
            ),
            self.record(
                UPDATE_TX,
                tx_id=tx_id,
                record_id=message_id,
                user_type=ADD_REF,
                body=struct.pack(">q", queue_id),
            ),
        )

    def commit(self, tx_id: int, count: int) -> None:
        self.append(self.record(COMMIT, tx_id=tx_id, count=count))
