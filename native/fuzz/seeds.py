"""Cuts the frozen stores into seeds for the fuzz targets: `python native/fuzz/seeds.py FOLDER`.

One folder per target. What each target reads is said at the top of its C file.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from journalfs.engine.checksums import crc32c
from journalfs.engine.lines import LineBatch
from journalfs.store import open_store
from tests.frozen import FILE_STORES, OLDER_STORES, unpack
from tests.reference.journal import JournalFile, read_folder
from tests.reference.pages import page

FILE_BYTES = 8_000
"""Of a journal or page file: longer seeds only slow the search down."""
SEEDS_MAX = 400
"""Per target: the rest looks alike."""
LARGE_BYTES = 2_000
STEPS = 8
HEADER_BYTES = 16
SELECT_STEPS = bytes([3, 5, 14, 0, 6, 0, 1, 2, 0, 11, 14, 3, 0, 6, 1, 1, 0, 12, 14, 2, 6, 3, 0, 0, 0])
"""n = 1, or a LIKE a pattern, or x IN constants: as fuzz_select.c reads them."""
EVENT, CHECKSUM_TYPE, MAGIC = 10, 99, 0x4A465331


def _journals(store: Path) -> list[list[JournalFile]]:
    data = store / "data"
    return [read_folder(data / "journal", "amq"), read_folder(data / "bindings", "bindings")]


def _payloads(store: Path) -> Iterator[tuple[int, bytes]]:
    """Every message record: 0 and a payload with persister byte, or 1 and a bare core header."""
    for file in _journals(store)[0]:
        for record in file.scan.records:
            if record.user_type in (30, 45):
                yield int(record.user_type == 30), record.body
    for path in (store / "data/paging").rglob("*.page"):
        for entry in page(path.read_bytes()).entries:
            yield int(entry.core_large), entry.payload


def _large(store: Path) -> bytes:
    """The beginning of a body file of the store. That its end is missing is one of the things to survive."""
    for path in sorted((store / "data/large-messages").glob("*.msg")):
        return path.read_bytes()[:LARGE_BYTES]
    return b""


def with_checksum(data: bytes) -> bytes:
    """A piece of a journal file with what journalfs puts behind what it wrote."""
    file_id = int.from_bytes(data[8:16])
    body = struct.pack(">IIIqI", MAGIC, HEADER_BYTES, len(data) - HEADER_BYTES, 0, 0)
    covered = crc32c(struct.pack(">q", file_id) + body + data[HEADER_BYTES:])
    body += struct.pack(">I", covered)
    head = struct.pack(">Bibqib", EVENT, file_id & 0x7FFFFFFF, 0, 0, len(body), CHECKSUM_TYPE)
    return data + head + body + struct.pack(">I", len(head) + len(body) + 4)


def _steps(payloads: Sequence[bytes]) -> bytes:
    """Records to be staged, a line of text each, and the end of a flush."""
    records = b"".join(
        struct.pack(">BBBBB", 11 + number % 3, 5, number % 256, 45, min(len(payload), 255)) + payload[:255]
        for number, payload in enumerate(payloads)
    )
    return records + b"\x01\x11\x00\x0bone\ntwo\xc3\xbc\n\n" + b"\x02"


def seeds(store: Path) -> Iterator[tuple[str, bytes]]:
    """(target, seed) pairs of one unpacked store."""
    for files in _journals(store):
        for file in files:
            yield "scan", file.data[:FILE_BYTES]
            yield "recordview", file.data[:FILE_BYTES]
            yield "export", b"\xff" + file.data[:FILE_BYTES]
            yield "checksum", with_checksum(file.data[:FILE_BYTES])
        several = [file.data[: FILE_BYTES // len(files)] for file in files[:4]]
        yield "state", b"".join(struct.pack(">I", len(data)) + data for data in several)
    large = _large(store)
    payloads = [payload for _, payload in _payloads(store)]
    for at in range(0, len(payloads), STEPS):
        yield "stage", _steps(payloads[at : at + STEPS])
    for source, payload in _payloads(store):
        columns = struct.pack(">HHBH", 0x0FFF, len(payload) % 500, source, len(payload) % 65536)
        yield "columns", columns + payload[:65535] + columns[4:] + payload[:65535]
        yield "select", SELECT_STEPS + columns[4:] + payload[:65535]
        if not source:
            yield "copy", payload
            yield "export", payload
        yield "line", struct.pack(">BI", source, len(payload)) + payload + large
        yield "publish", b"\x07\x0b" + LineBatch.of_payloads([payload], queue="q", sources=[source]).line(0)
    for path in (store / "data/paging").rglob("*.page"):
        yield "page", path.read_bytes()[:FILE_BYTES]
    with closing(open_store(store, index=False)) as opened:
        yield "checkpoint", opened.core.loader.state.save()


def older_seeds(store: Path) -> Iterator[bytes]:
    """Pieces of journals and pages of older brokers, with what they are before them."""
    for path in sorted(store.rglob("*")):
        for what, pattern in enumerate(("db-*.log", "data-*", "*-data-*.*", "*.page")):
            if path.is_file() and path.match(pattern):
                yield bytes((what, 1)) + path.read_bytes()[:FILE_BYTES]
                break


def _write(folder: Path, seed: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


def main() -> None:
    target_root = Path(sys.argv[1])
    made: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in FILE_STORES:
            unpack(name, Path(folder))
            shapes: set[tuple[str, int]] = set()
            for target, seed in seeds(Path(folder, name)):
                # Messages of one length in one store are mostly the same message with another number in it.
                alike = (
                    target in ("line", "publish", "columns", "copy", "export")
                    and (target, len(seed)) in shapes
                )
                if alike or made.get(target, 0) >= SEEDS_MAX:
                    continue
                shapes.add((target, len(seed)))
                made[target] = made.get(target, 0) + 1
                _write(target_root / target, seed)
        for archive in sorted(set(OLDER_STORES.values())):
            unpack(archive, Path(folder, archive))
            for seed in older_seeds(Path(folder, archive)):
                made["older"] = made.get("older", 0) + 1
                _write(target_root / "older", seed)
    print(*(f"{count} seeds for {target}" for target, count in sorted(made.items())), sep="\n")


if __name__ == "__main__":
    main()
