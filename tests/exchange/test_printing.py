"""`print --text`, compared with what the broker's own tool printed of the same stores."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import RecordInfo, scan_journal
from journalfs.errors import DecodeError
from journalfs.exchange.printing import java
from journalfs.exchange.printing.amqp import value_text
from journalfs.format.record_types import MessageType
from tests.exchange.exported import unpacked
from tests.frozen import PristineStores
from tests.mounting import JOURNALFS, journalfs

UTC = {**os.environ, "TZ": "UTC"}
RULE = "#" * 100 + "\n"
OTHERS = (
    "aio",
    "amqp-exotic",
    "amqp-mqtt-stomp-openwire",
    "large-and-paged",
    "orders-basic",
    "retention",
)


def printed(store: Path, *options: str) -> str:
    done = journalfs("print", "--text", *options, store, env=UTC)
    assert done.returncode == 0, done.stderr
    return done.stdout


def comparable(text: str) -> list[str]:
    """Without the banner, objects' identities and the broker's home. The stores of pages stand by their
    address: the tool has them partly in the order of the directory.
    """
    text = text[text.index("*****") :]
    text = re.sub(r"(\]@|XidImpl \()\d+", r"\g<1>0", text)
    text = re.sub(r"(Journal path: |folder = )\S*data/", r"\1", text)
    before, *pages = text.split(RULE)
    return "".join([before, *(RULE + page for page in sorted(pages))]).split("\n")


def theirs(name: str) -> list[str]:
    return comparable(unpacked(name).decode("utf-8", "replace"))


@pytest.mark.rule("S-235")
@pytest.mark.parametrize(
    "name", ["transactions", *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)]
)
def test_text_is_that_of_the_broker(stores: PristineStores, name: str) -> None:
    assert comparable(printed(stores[name])) == theirs(f"{name}.print.txt.zst")


@pytest.mark.rule("S-235")
@pytest.mark.parametrize("name", ["transactions", pytest.param("large-and-paged", marks=pytest.mark.long)])
def test_safe_text_is_that_of_the_broker(stores: PristineStores, name: str) -> None:
    assert comparable(printed(stores[name], "--safe")) == theirs(f"{name}.print-safe.txt.zst")


def test_sections_that_were_not_asked_for_are_skipped(stores: PristineStores) -> None:
    """What pages need of them is read all the same."""
    found = comparable(printed(stores["transactions"], "--pages"))
    whole = theirs("transactions.print.txt.zst")
    assert found.count(".... skipping") == 2
    assert not [line for line in found if line.startswith(("operation@", "recordID="))]
    assert found[found.index("P A G I N G") :] == whole[whole.index("P A G I N G") :]


def first_message(path: Path) -> RecordInfo:
    with MappedFile(path) as file:
        scan = scan_journal(file, rid=1, version=2)
        return next(record for record in scan if record.user_type == MessageType.MESSAGE)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.rule("S-235")
def test_damage_is_told_and_hides_nothing(store_copy: Callable[[str], Path]) -> None:
    store = store_copy("transactions")
    path = store / "data/journal/activemq-data-1.amq"
    whole = comparable(printed(store, "--journal"))
    one = first_message(path)
    overwrite(path, one.body_offset, b"\x63")
    done = journalfs("print", "--text", "--journal", store, env=UTC)
    assert done.returncode == 5
    assert f"{path}: at offset {one.offset}: no kind of message has the number 99" in done.stderr
    found = comparable(done.stdout)
    assert len(found) == len(whole)
    assert [line for line in found if line not in whole] == [
        line for line in found if "** damaged: no kind of message has the number 99 **" in line
    ]
    overwrite(path, one.offset + one.length - 4, bytes(4))
    done = journalfs("print", "--text", "--journal", store, env=UTC)
    assert done.returncode == 5
    assert f"{path}: at offset {one.offset}: {one.length} bytes are left out: no record" in done.stderr
    assert "** damaged" not in done.stdout


@pytest.mark.long
def test_an_older_store_is_printed_with_what_is_damaged_in_it(
    store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    """As the store that is derived from it."""
    store = store_copy("hq-2.4-main")
    environment = {**UTC, "JOURNALFS_DERIVED": str(tmp_path / "derived")}
    path = next(one for one in sorted(store.rglob("hornetq-data-*.hq")) if one.read_bytes()[16])
    overwrite(path, 16, bytes(1))
    done = journalfs("print", "--text", store, env=environment)
    assert done.returncode == 5
    assert f"{path.name}: at offset 16: " in done.stderr
    assert "msg=CoreMessage[messageID=" in done.stdout


def test_the_reader_may_leave(stores: PristineStores) -> None:
    command: list[str | Path] = [JOURNALFS, "print", "--text", stores["large-and-paged"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 128 + 13


@pytest.mark.parametrize(
    ("value", "single", "text"),
    [
        (0.0, False, "0.0"),
        (-0.0, False, "-0.0"),
        (100.0, False, "100.0"),
        (1e7, False, "1.0E7"),
        (9999999.0, False, "9999999.0"),
        (0.001, False, "0.001"),
        (1e-4, False, "1.0E-4"),
        (-123456.789, False, "-123456.789"),
        (1.25e300, False, "1.25E300"),
        (float("nan"), False, "NaN"),
        (float("-inf"), False, "-Infinity"),
        (struct.unpack("f", struct.pack("f", 0.1))[0], True, "0.1"),
        (struct.unpack("f", struct.pack("f", 3.4028235e38))[0], True, "3.4028235E38"),
        (16777216.0, True, "1.6777216E7"),
    ],
)
def test_numbers_are_those_of_java(value: float, *, single: bool, text: str) -> None:
    assert java.number(value, single=single) == text


def test_values_that_are_none_are_damage() -> None:
    """Lists of lists end somewhere, and what is cut off is not believed."""
    nested = b"\x45"
    for _ in range(100):
        nested = b"\xd0" + struct.pack(">II", len(nested) + 4, 1) + nested
    for data in (b"", nested, b"\x71\x00", b"\x99", b"\xc1\x03\x01\x40", b"\x00\x40"):
        with pytest.raises(DecodeError):
            value_text(data)
