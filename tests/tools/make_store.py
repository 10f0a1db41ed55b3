"""Writes a synthetic store that a real broker accepts, of any size, the same bytes for the same seed.

Messages look like a JMS client's: durable core text messages with a user id and three properties, each an ADD
of type 45 and one UPDATE of type 32 a queue. A consumed one has the UPDATE_TX of type 33 with its COMMIT, and
the DELETE after the last.

    python -m tests.tools.make_store STORE --messages 1000000 --body-chars 120
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import time
import zlib
from array import array
from collections import deque
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from tests.differential.encode_messages import core_header
from tests.tools import store_bytes as sb

UNIQUE_CHARS = 17
"""Every body begins with `order 0000000123 ` (or its JSON equivalent), so that no two are the same."""

VARIANTS = 32
FIRST_TIMESTAMP_MS = 1_750_000_000_000
_PHRASE = (
    "ship two pallets to the north dock before noon and call the driver, gate code on file; customer asked "
    'for a signed receipt "as last time" and a note about the missing label on crate seven, 41.5 kg, fragile'
)
_WORDS = _PHRASE.split()
_COLORS = ("red", "green", "blue", "grey")


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """What to write. Sizes in bytes, `body_chars` in characters of the text body (two bytes each on disk)."""

    messages: int
    body_chars: int = 120
    body_spread: float = 0.25
    """Bodies are between (1 - spread) and (1 + spread) times `body_chars` long."""
    body_kind: str = "text"
    """`text` or `json`."""
    addresses: int = 1
    queues_per_address: int = 1
    """1: anycast, the queue has the address's name. More: multicast, each message is in all of them."""
    acked_fraction: float = 0.0
    ack_lag_messages: int = 500
    mixed_priorities: bool = False
    paged_messages: int = 0
    """Written to pages, after those in the journal, spread over the addresses in turn."""
    bombs: int = 0
    """Messages in the first queue with 4 MB of compressed body that state 4 GiB."""
    file_size_bytes: int = 10 * 1024 * 1024
    page_size_bytes: int = 10 * 1024 * 1024
    seed: int = 1


@dataclass(frozen=True, slots=True)
class QueueMade:
    name: str
    address: str
    queue_id: int
    live: array[int] = field(default_factory=lambda: array("q"))
    """Ids of the live messages in arrival order, paged ones last."""


@dataclass(frozen=True, slots=True)
class StoreMade:
    root: Path
    spec: StoreSpec
    queues: list[QueueMade]
    first_message_id: int
    """Messages have consecutive ids from here: message number n has `first_message_id + n`."""
    journal_bytes: int
    paging_bytes: int

    @property
    def data(self) -> Path:
        """The data directory, which is what a broker is given and journalfs mounts."""
        return self.root / "data"

    def body(self, message_id: int) -> str:
        """The text body of a message."""
        number = message_id - self.first_message_id
        return unique_text(self.spec, number) + _rests(self.spec)[number % VARIANTS]


def unique_text(spec: StoreSpec, number: int) -> str:
    """How the body of message `number` begins: always `UNIQUE_CHARS` characters."""
    return f'{{"order":{10_000_000 + number}' if spec.body_kind == "json" else f"order {number:010d} "


class JournalWriter:
    """Fills numbered journal files one after another; a record never straddles two."""

    def __init__(self, directory: Path, prefix: str, extension: str, file_size_bytes: int) -> None:
        self._pattern = str(directory / f"{prefix}-%d.{extension}")
        self._file_size_bytes = file_size_bytes
        self.file_id = 0
        self.bytes_written = 0
        self._parts: list[bytes] = []
        self._next_file()

    def _next_file(self) -> None:
        self.file_id += 1
        self._position = 16
        self._heads = [bytes([kind]) + sb.i32(self.file_id) + b"\0" for kind in range(20)]

    def append(self, kind: int, pieces: tuple[bytes, ...], length: int) -> None:
        """Append one record: `pieces` without the prefix, `length` the whole record's."""
        if self._position + length > self._file_size_bytes:
            self._flush()
            self._next_file()
        self._parts.append(self._heads[kind])
        self._parts.extend(pieces)
        self._position += length

    def append_record(self, kind: int, rest: bytes) -> None:
        self.append(kind, (rest,), sb.RECORD_PREFIX_BYTES + len(rest))

    def append_transaction(self, tx_id: int, kind: int, rest: bytes) -> None:
        """One transactional record and its COMMIT, which counts only the records in its own file."""
        self.append_record(kind, rest)
        file_id = self.file_id
        full = self._position + 22 > self._file_size_bytes
        self.append_record(sb.COMMIT, sb.commit(tx_id, 0 if full else 1))
        assert (self.file_id != file_id) == full

    def _flush(self) -> None:
        header = struct.pack(">iiq", 2, 0, self.file_id)
        with open(self._pattern % self.file_id, "xb") as file:
            file.write(header + b"".join(self._parts))
            file.write(bytes(self._file_size_bytes - self._position))
        self.bytes_written += self._file_size_bytes
        self._parts.clear()

    def close(self) -> None:
        """Write the last file, and an empty one behind it as the broker keeps ready."""
        self._flush()
        self._next_file()
        self._flush()


class PageWriter:
    """Fills the pages of one address, rolling as the broker does: a page has at least one record."""

    def __init__(self, folder: Path, address: str, page_size_bytes: int) -> None:
        folder.mkdir(parents=True)
        (folder / "address.txt").write_text(address + "\n")
        self._folder = folder
        self._page_size_bytes = page_size_bytes
        self._records: list[bytes] = []
        self._used_bytes = 0
        self.page = 1
        self.bytes_written = 0

    def append(self, record: bytes) -> tuple[int, int]:
        """Append one record and return its position (page number, index in it)."""
        if self._records and self._used_bytes + len(record) > self._page_size_bytes:
            self.close()
            self.page += 1
        self._records.append(record)
        self._used_bytes += len(record)
        return self.page, len(self._records) - 1

    def close(self) -> None:
        content = b"".join(self._records)
        (self._folder / f"{self.page:09d}.page").write_bytes(content)
        self.bytes_written += len(content)
        self._records.clear()
        self._used_bytes = 0


@cache
def _rests(spec: StoreSpec) -> list[str]:
    """The part of the body that all messages of one variant share."""
    rng = random.Random(spec.seed)
    rests = []
    for variant in range(VARIANTS):
        scale = 1 - spec.body_spread + 2 * spec.body_spread * variant / (VARIANTS - 1)
        chars = max(8, int(spec.body_chars * scale) - UNIQUE_CHARS)
        words = [rng.choice(_WORDS) for _ in range(chars // 3 + 4)]
        if variant % 8 == 0:
            words[0] = "Grüße·→"
        text = " ".join(words)
        if spec.body_kind == "json":
            text = ',"note":' + json.dumps(text[: max(1, chars - 12)], ensure_ascii=False) + "}"
        rests.append(text if spec.body_kind == "json" else text[:chars])
    return rests


class _Templates(dict[tuple[int, int], sb.TextTemplate]):
    """By address and variant, made when they are first used: there may be a hundred thousand addresses."""

    def __init__(self, spec: StoreSpec, addresses: list[str]) -> None:
        super().__init__()
        self._spec = spec
        self._addresses = addresses

    def __missing__(self, key: tuple[int, int]) -> sb.TextTemplate:
        address, variant = key
        routing = sb.ANYCAST if self._spec.queues_per_address == 1 else sb.MULTICAST
        properties = [
            sb.property_entry("_AMQ_ROUTING_TYPE", routing, 3),
            sb.property_entry("color", _COLORS[variant % len(_COLORS)], 10),
        ]
        made = self[key] = sb.text_template(
            self._addresses[address],
            unique_chars=UNIQUE_CHARS,
            rest=_rests(self._spec)[variant],
            priority=variant % 10 if self._spec.mixed_priorities else 4,
            properties=properties,
            counter_name="number",
        )
        return made


class _Writer:
    """One run of `make_store`."""

    def __init__(self, root: Path, spec: StoreSpec) -> None:
        self.spec = spec
        self.data = root / "data"
        for name in ("bindings", "journal", "paging", "large-messages"):
            (self.data / name).mkdir(parents=True)
        self.last_id = 1
        self.journal = JournalWriter(self.data / "journal", "activemq-data", "amq", spec.file_size_bytes)
        self.bindings = JournalWriter(self.data / "bindings", "activemq-bindings", "bindings", 1024 * 1024)
        self.addresses = ["scale"]
        if spec.addresses > 1:
            self.addresses = [f"scale.{number:03d}" for number in range(spec.addresses)]
        self.queues: list[list[QueueMade]] = []
        self.templates = _Templates(spec, self.addresses)
        self.paging_bytes = 0

    def draw(self) -> int:
        self.last_id += 1
        return self.last_id

    def bind(self) -> None:
        routing = sb.ANYCAST if self.spec.queues_per_address == 1 else sb.MULTICAST
        self.bindings.append_record(sb.ADD, sb.add(1, sb.ID_COUNTER, sb.i64(2**31 - 1)))
        for address in self.addresses:
            self._bind_one(sb.ADDRESS_BINDING, sb.address_binding(address, routing))
            queues = []
            for number in range(self.spec.queues_per_address):
                name = address if self.spec.queues_per_address == 1 else f"{address}.sub-{number}"
                queue_id = self._bind_one(sb.QUEUE_BINDING, sb.queue_binding(name, address, routing))
                queues.append(QueueMade(name, address, queue_id))
            self.queues.append(queues)

    def _bind_one(self, user_type: int, body: bytes) -> int:
        record_id, tx_id = self.draw(), self.draw()
        self.bindings.append_transaction(tx_id, sb.ADD_TX, sb.add_tx(tx_id, record_id, user_type, body))
        return record_id

    def message_pieces(self, number: int, message_id: int) -> tuple[bytes, ...]:
        """The payload of message `number`, in pieces."""
        spec = self.spec
        p0, p1, p2, p3, p4, p5, p6 = self.templates[number % spec.addresses, number % VARIANTS].pieces
        id_bytes = message_id.to_bytes(8, "big")
        return (
            p0,
            id_bytes,
            p1,
            unique_text(spec, number).encode("utf-16-le"),
            p2,
            id_bytes,
            p3,
            (0x8000_0000_0000_0000 | number).to_bytes(8, "big"),
            p4,
            (FIRST_TIMESTAMP_MS + number).to_bytes(8, "big"),
            p5,
            number.to_bytes(4, "big"),
            p6,
        )

    def send_all(self, first_id: int) -> None:
        """Write every journal message, and the acknowledgements of earlier ones between them."""
        spec, append = self.spec, self.journal.append
        refs = [
            [(sb.i32(8) + bytes([sb.ADD_REF]) + sb.i64(q.queue_id) + sb.i32(31), q) for q in queues]
            for queues in self.queues
        ]
        rng = random.Random(spec.seed + 1)
        waiting: deque[tuple[int, int, QueueMade]] = deque()
        unacked: dict[int, int] = {}
        next_tx = first_id + spec.messages + spec.paged_messages
        for number in range(spec.messages):
            message_id = first_id + number
            a, v = number % spec.addresses, number % VARIANTS
            id_bytes = message_id.to_bytes(8, "big")
            payload_bytes = self.templates[a, v].payload_bytes
            length = payload_bytes + 23
            head = id_bytes + sb.i32(payload_bytes) + bytes([sb.MESSAGE])
            append(sb.ADD, (head, *self.message_pieces(number, message_id), sb.i32(length)), length)
            for tail, queue in refs[a]:
                append(sb.UPDATE, (id_bytes, tail), 31)
                if spec.acked_fraction and rng.random() < spec.acked_fraction:
                    waiting.append((number, message_id, queue))
                else:
                    queue.live.append(message_id)
            if spec.acked_fraction:
                unacked[message_id] = len(refs[a])
                while waiting and waiting[0][0] <= number - spec.ack_lag_messages:
                    next_tx = self._acknowledge(waiting.popleft(), unacked, next_tx)
        while waiting:
            next_tx = self._acknowledge(waiting.popleft(), unacked, next_tx)
        self.last_id = next_tx

    def _acknowledge(self, ref: tuple[int, int, QueueMade], unacked: dict[int, int], tx_id: int) -> int:
        _, message_id, queue = ref
        self.journal.append_transaction(
            tx_id, sb.UPDATE_TX, sb.add_tx(tx_id, message_id, sb.ACKNOWLEDGE_REF, sb.i64(queue.queue_id))
        )
        unacked[message_id] -= 1
        if unacked[message_id] == 0:
            self.journal.append_record(sb.DELETE, sb.delete(message_id))
        return tx_id + 1

    def send_bombs(self) -> None:
        stream = bomb() if self.spec.bombs else b""
        queue = self.queues[0][0]
        properties = {"_AMQ_LARGE_COMPRESSED": ("boolean", True), "_AMQ_LARGE_SIZE": ("long", 4 << 30)}
        for _ in range(self.spec.bombs):
            message_id = self.draw()
            (self.data / "large-messages" / f"{message_id}.msg").write_bytes(stream)
            header = core_header(message_id, address=queue.address, properties=properties)
            self.journal.append_record(sb.ADD, sb.add(message_id, sb.LARGE_MESSAGE, header))
            reference = sb.add(message_id, sb.ADD_REF, sb.i64(queue.queue_id))
            self.journal.append_record(sb.UPDATE, reference)
            queue.live.append(message_id)

    def page_all(self, first_id: int) -> None:
        """Write the paged messages; each queue has consumed the same share of them, from the front."""
        spec = self.spec
        if not spec.paged_messages:
            return
        paging = self.data / "paging"
        pages = [
            PageWriter(paging / f"5e11a7be-0c0d-11f1-9000-{number:012x}", address, spec.page_size_bytes)
            for number, address in enumerate(self.addresses)
        ]
        consumed = int(spec.paged_messages * spec.acked_fraction)
        for index in range(spec.paged_messages):
            number = spec.messages + index
            a = number % spec.addresses
            queues = self.queues[a]
            payload = b"".join(self.message_pieces(number, first_id + number))
            page, record = pages[a].append(sb.page_record(payload, [q.queue_id for q in queues]))
            for queue in queues:
                if index < consumed:
                    body = sb.i64(queue.queue_id) + sb.i64(page) + sb.i32(record)
                    self.journal.append_record(sb.ADD, sb.add(self.draw(), sb.ACKNOWLEDGE_CURSOR, body))
                else:
                    queue.live.append(first_id + number)
        for writer in pages:
            writer.close()
            self.paging_bytes += writer.bytes_written

    def finish(self) -> None:
        last = self.draw()
        self.bindings.append_record(sb.ADD, sb.add(last, sb.ID_COUNTER, sb.i64(last)))
        self.journal.close()
        self.bindings.close()
        node_id = bytes.fromhex("5e11a7be0c0d11f1900002fc") + sb.i32(self.spec.seed)
        (self.data / "journal" / "server.lock").write_bytes(b"P00" + node_id)
        for name in ("serverlock.1", "serverlock.2"):
            (self.data / "journal" / name).touch()


def bomb() -> bytes:
    """A compressed stream of 2 to 4 MB, of which more comes than anybody may inflate."""
    packer = zlib.compressobj(9)
    piece = packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = zlib.compressobj(9, wbits=-15)
    block = repeated.compress(bytes(64 << 20)) + repeated.flush(zlib.Z_FULL_FLUSH)
    return piece + block * (4_000_000 // len(block))


def make_store(root: Path, spec: StoreSpec) -> StoreMade:
    """Write the store into `root`, as a cleanly stopped NIO broker leaves it. `root/data` must not exist."""
    writer = _Writer(root, spec)
    writer.bind()
    first_id = writer.draw()
    writer.last_id = first_id + spec.messages + spec.paged_messages
    writer.send_all(first_id)
    writer.page_all(first_id)
    writer.send_bombs()
    writer.finish()
    queues = [queue for of_address in writer.queues for queue in of_address]
    return StoreMade(
        root=root,
        spec=spec,
        queues=queues,
        first_message_id=first_id,
        journal_bytes=writer.journal.bytes_written,
        paging_bytes=writer.paging_bytes,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", type=Path)
    defaults = StoreSpec(messages=0)
    for name, value in asdict(defaults).items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(value), default=value, required=name == "messages")
    arguments = vars(parser.parse_args())
    root = arguments.pop("store")
    started = time.monotonic()
    made = make_store(root, StoreSpec(**arguments))
    live = sum(len(queue.live) for queue in made.queues)
    print(
        f"{len(made.queues)} queues, {live} live messages, journal {made.journal_bytes / 1e6:.0f} MB, "
        f"pages {made.paging_bytes / 1e6:.0f} MB, {time.monotonic() - started:.1f} s"
    )


if __name__ == "__main__":
    main()
