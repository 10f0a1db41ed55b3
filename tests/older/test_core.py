"""What the C core makes of OpenWire is what Python makes of it, byte for byte."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from journalfs.config.layout import locate_store
from journalfs.config.older import forced
from journalfs.errors import OlderStore
from journalfs.records.older import amq_log, kahadb_log
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import derive
from journalfs.records.older.rewriting import OpenWireBatch
from tests.frozen import PristineStores

STORES = [
    *(("amq", f"amq-{name}") for name in ("5.0-clean", "5.4-clean", "5.4-killed", "5.8-killed")),
    *(("kahadb", f"kaha-{name}") for name in ("5.4.3-killed", "5.8.0-clean", "5.16.7-killed", "6.1.7-clean")),
]


def derived(kind: str, store: Path, base: Path) -> dict[str, bytes]:
    """All that is derived from a store, by the names of the files."""
    try:
        locate_store(store)
        found = forced(kind, store)
    except OlderStore as recognised:
        found = recognised
    place = derive(found, base, quiet=True)
    files = (path for path in sorted(place.rglob("*")) if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


class Both:
    """Derives by the core, and by Python alone."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._tmp_path = tmp_path
        self._monkeypatch = monkeypatch
        self.by_core = 0

    def compare(self, kind: str, store: Path) -> None:
        own = DerivedStore.openwire

        def counted(out: DerivedStore, batch: OpenWireBatch, first: int) -> int:
            done = own(out, batch, first)
            self.by_core += done - first
            return done

        with self._monkeypatch.context() as patched:
            patched.setattr(DerivedStore, "openwire", counted)
            core = derived(kind, store, self._tmp_path / "core")
        with self._monkeypatch.context() as patched:
            patched.setattr(DerivedStore, "openwire", lambda out, batch, first: first)
            nothing: Callable[[bytes, int], Any] = lambda content, at: (iter(()), at)  # noqa: E731
            patched.setattr(kahadb_log, "kahadb_rows", nothing)
            patched.setattr(amq_log, "amq_rows", nothing)
            python = derived(kind, store, self._tmp_path / "python")
        assert core.keys() == python.keys()
        assert [name for name in core if core[name] != python[name]] == []


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    return Both(tmp_path, monkeypatch)


@pytest.mark.rule("S-233")
@pytest.mark.parametrize(("kind", "name"), STORES)
def test_of_what_brokers_wrote(stores: PristineStores, both: Both, kind: str, name: str) -> None:
    both.compare(kind, stores[name])
    assert both.by_core > 0


# -- made up -------------------------------------------------------------------------------------------------


def utf(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def nullable(text: bytes | None) -> bytes:
    return b"\0" if text is None else b"\1" + utf(text)


def sized(data: bytes | None) -> bytes:
    return b"\0" if data is None else b"\1" + struct.pack(">i", len(data)) + data


TEXTS = (
    b"",
    b"plain",
    b"a long text of ASCII, over sixteen characters " * 3,
    "grün €".encode(),
    b"\xed\xa0\xbd\xed\xb8\x80 a pair",
    b"a NUL \xc0\x80.",
    b"x" * 5000,
    "é".encode() * 9,
)
WILD_TEXTS = (
    *TEXTS,
    b"\xed\xa0\xbd a half",
    b"\xed\xb8\x80\xed\xa0\xbd halves",
    "\U0001f600 of four bytes".encode(),
    b"\xff none",
    b"\xc1\x81\xe0\x80\x80",
    b"\xe2\x82",
)


class Made:
    """Random messages in loose encoding."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._wild = False
        """The message that is made has what is rare."""
        self.sequence = 0

    def text(self) -> bytes:
        return self._random.choice(WILD_TEXTS if self._wild else TEXTS)

    def _rare(self, chances: int) -> bool:
        return self._wild and not self._random.randrange(chances)

    def maybe(self) -> bytes:
        return nullable(self._random.choice((None, self.text())))

    def i64(self) -> bytes:
        value = self._random.choice((0, -1, 1 << 40, -(1 << 63), self._random.getrandbits(62)))
        return struct.pack(">q", value)

    def i32(self) -> bytes:
        return struct.pack(">i", self._random.choice((0, -1, 7, (1 << 31) - 1)))

    def value(self, depth: int = 0) -> bytes:
        kind = 200 if self._rare(20) else self._random.choice((*range(11), 13))
        if self._rare(3):
            kind = self._random.choice((11, 12))
        if kind in (11, 12):
            if depth > 1:
                return b"\0"
            inner = (
                self.map(2) if kind == 11 else struct.pack(">i", 2) + self.value(depth + 1) + self.value(2)
            )
            return bytes((kind,)) + inner
        floats = (b"\x7f\xc0\x00\x00", struct.pack(">f", 0.1))
        made = {
            0: b"",
            1: bytes((self._random.choice((0, 1, 255)),)),
            2: b"\x80",
            3: b"\xd8\x00",
            4: b"\xff\xfe",
            5: self.i32(),
            6: self.i64(),
            7: struct.pack(">d", self._random.choice((0.1, float("nan"), float("-inf")))),
            8: b"\x7f\x80\x00\x01" if self._rare(3) else self._random.choice(floats),
            9: utf(self.text()),
            10: struct.pack(">i", 3) + b"\0\1\2",
            13: struct.pack(">i", 5) + b"large",
        }
        return bytes((kind,)) + made.get(kind, b"")

    def map(self, depth: int = 0) -> bytes:
        count = self._random.choice((0, 1, 3))
        entries = (utf(self.text()[:20]) + self.value(depth) for _ in range(count))
        return struct.pack(">i", count) + b"".join(entries)

    def destination(self) -> bytes:
        if self._random.randrange(3):
            return b"\0"
        return b"\1" + bytes((self._random.randrange(100, 104),)) + self.maybe()

    def producer(self) -> bytes:
        if self._rare(5):
            return b"\0"
        connection = b"ID:host-1-2-3:1"
        if self._rare(3):
            return b"\1\x7b" + self.maybe() + self.i64() + self.i64()
        return b"\1\x7b" + nullable(connection) + self.i64() + self.i64()

    def identity(self) -> bytes:
        self.sequence += 1
        foreign = self._random.choice((b"", b"", b"\0", b"\1" + utf(b"ID:foreign"), b"\1" + utf(b"of stomp")))
        return b"\1\x6e" + foreign + self.producer() + struct.pack(">q", self.sequence) + self.i64()

    def brokers(self) -> bytes:
        if self._random.randrange(3):
            return b"\0"
        names = [
            self._random.choice((b"\0", b"\1\x7c" + self.maybe())) for _ in range(20 if self._rare(9) else 2)
        ]
        return b"\1" + struct.pack(">h", len(names)) + b"".join(names)

    def content(self, kind: int) -> bytes | None:
        if not self._random.randrange(10):
            return None
        if kind == 28:
            text = self.text()
            length = self._random.choice((-1, len(text) + 1)) if self._rare(4) else len(text)
            return struct.pack(">i", length) + text
        if kind == 25:
            return self.map()
        if kind == 27:
            return b"".join(self.value() for _ in range(self._random.randrange(6)))
        if self._rare(20):
            return bytes(300_000)
        return self._random.choice((b"", b"bytes", bytes(range(256)) * 4))

    def message(self) -> bytes:
        kind = self._random.choice(
            (23, 24, 25, 26, 27, 28, 28, 28, 29 if not self._random.randrange(9) else 28)
        )
        command = bytes((kind,)) + self.i32() + b"\1" + self.producer()
        command += b"\1\x64" + nullable(b"orders") + b"\0" + self.destination() + self.identity() + b"\0"
        command += self.maybe() + self.i32() + self.maybe()
        command += (
            bytes((self._random.randrange(2),)) + self.i64() + bytes((self._random.choice((4, 0, 9, 200)),))
        )
        command += self.destination() + self.i64() + self.maybe()
        command += sized(self.content(kind)) + sized(
            b"\xff\xff\xff\xff" if self._rare(9) else self._random.choice((None, self.map()))
        )
        command += b"\0\0" + bytes((self._rare(9),))
        command += (
            struct.pack(">i", self._random.choice((0, 0, 3))) + self.brokers() + self.i64() + self.maybe()
        )
        command += b"\0" + bytes((self._random.randrange(2),)) + self.brokers() + self.i64() + self.i64()
        if kind == 29:
            command += nullable(b"http://blob") + b"\0\0"
        if self._rare(5):
            return command[: self._random.randrange(1, len(command))]
        if self._rare(5):
            at = self._random.randrange(1, len(command))
            return command[:at] + bytes((self._random.randrange(256),)) + command[at + 1 :]
        return command + self._random.choice((b"", b"\1"))


def frames(commands: Iterator[bytes]) -> Iterator[bytes]:
    """As a data log has them."""
    for command in commands:
        head = struct.pack(">ibB", 29 + 4 + len(command) + 3, 1, 0) + bytes(20) + b"SOR"
        yield head + struct.pack(">i", len(command)) + command + b"EOR"


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def records(commands: Iterator[bytes]) -> Iterator[bytes]:
    """As a journal of KahaDB has them, now and then with an odd field or an odd batch."""
    chance = random.Random(7)
    for number, command in enumerate(commands):
        fields = field(2, b"\x08\x00" + field(2, b"orders")) + field(3, b"m%d" % number)
        fields += field(4, struct.pack(">i", len(command)) + command)
        fields += chance.choice((b"", b"\x28\x04", b"\x0d\0\0\0\0", varint(9 << 3) + b"\xff" * 9 + b"\1"))
        if not chance.randrange(20):
            fields = fields[: chance.randrange(len(fields))]
        record = bytes((1,)) + varint(len(fields)) + fields
        record = struct.pack(">ib", 5 + len(record), 1) + record
        checksum = chance.choice((0, 0, 0, 12345))
        yield struct.pack(">ib11siq", 28, 2, b"WRITE BATCH", len(record), checksum) + record
        if not chance.randrange(30):
            yield bytes(chance.randrange(40))


@pytest.mark.rule("S-233")
@pytest.mark.parametrize("kind", ["amq", "kahadb"])
def test_of_random_messages(both: Both, tmp_path: Path, kind: str) -> None:
    made = Made(36)
    store, commands = tmp_path / "store", (made.message() for _ in range(2000))
    store.mkdir()
    name, wrapped = ("data-1", frames) if kind == "amq" else ("db-1.log", records)
    (store / name).write_bytes(b"".join(wrapped(commands)))
    both.compare(kind, store)
    assert both.by_core > 1000
