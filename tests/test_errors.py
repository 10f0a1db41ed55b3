"""Errors: documented, stable, one line each. And the clock that tests own."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from journalfs import errors
from journalfs.clock import FakeClock, SystemClock
from tests.tidy.identifiers import error_kinds

DOCUMENT = (Path(__file__).resolve().parents[1] / "docs" / "reference" / "errors.md").read_text()

SAMPLES = [
    errors.SystemFailure.from_os(OSError(errno.EACCES, "Permission denied"), "/x", doing="read"),
    errors.NotAStore("/x", "no message store here", looked_for=("a", "b")),
    errors.UnknownVersion("/x", "a HornetQ journal", advice="convert it"),
    errors.Damaged("journal/a.amq", 4096, "record does not fit"),
    errors.DecodeError(3, "4 bytes expected"),
    errors.ConfigError("broker.xml", "is no number", line=7, setting="page-size-bytes"),
    errors.DependencyMissing("this", package="that", install="pip install that"),
    errors.SelectorError("a = \n", 4, "a value is missing"),
    errors.NameRefused(b"%zz", "broken escape"),
    errors.StoreBusy("/x", "a running broker"),
    errors.IndexUnusable("/x", "checksum"),
    errors.MountpointBusy("/x", "not empty"),
    errors.FuseMissing("no /dev/fuse", advice="load the fuse module"),
    errors.JournalfsError("two\nlines"),
]


def test_document_lists_every_error() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \| (\d+) \| (E[A-Z]+) \|", DOCUMENT, re.MULTILINE)
    kinds = error_kinds().values()
    actual = [(kind.identifier, str(kind.exit_code), errno.errorcode[kind.errno]) for kind in kinds]
    assert sorted(listed) == sorted(actual)
    assert len({identifier for identifier, _, _ in listed}) == len(kinds)


def test_document_lists_every_exit_code() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT, re.MULTILINE)}
    assert listed == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.identifier)
def test_message_is_one_line(error: errors.JournalfsError) -> None:
    assert "\n" not in str(error)
    assert str(error) == error.message != ""


def test_messages_say_where_and_what_to_do() -> None:
    said = {error.identifier: str(error) for error in SAMPLES}
    assert said["bad-configuration"] == "broker.xml:7: page-size-bytes: is no number"
    assert said["system-failure"] == "/x: cannot read: Permission denied"
    assert said["damaged"].startswith("journal/a.amq: damaged at offset 4096: record does not fit; ")
    assert "(looked for a, b); give a broker's data directory" in said["not-a-store"]
    assert said["bad-selector"].endswith("a value is missing at character 5")
    assert said["store-busy"].endswith("stop that, or look at it with journalfs mount --read-only")


def test_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(wall_ms=1_000)
    assert (clock.now_ms(), clock.monotonic_ns()) == (1_000, 0)
    clock.advance(by_ms=5)
    assert (clock.now_ms(), clock.monotonic_ns()) == (1_005, 5_000_000)
    with pytest.raises(ValueError, match="cannot be moved back by 1 ms"):
        clock.advance(by_ms=-1)


def test_system_clock_goes_forward() -> None:
    clock = SystemClock()
    before = clock.monotonic_ns()
    assert clock.monotonic_ns() >= before
    assert clock.now_ms() > 1_700_000_000_000
