"""Scrubbing: what rots between two looks is found, at its pace, and a killed scrub goes on where it was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journalfs.clock import FakeClock
from journalfs.config.layout import locate_store
from journalfs.errors import EXIT_DAMAGED, EXIT_WRONG_CALL
from journalfs.inspect.findings import Finding
from journalfs.inspect.scrub import Pace, Scrub
from journalfs.inspect.scrub_memory import Done, Memory
from tests.frozen import FILE_STORES, PristineStores
from tests.mounting import journalfs, mounted_for_writing
from tests.writing.conftest import new_store

Copy = Callable[[str], Path]


def scrubbed(store: Path, state: Path, pace: Pace | None = None) -> tuple[Done, list[Finding]]:
    memory = Memory(state)
    try:
        done = Scrub(memory, pace or Pace()).store(locate_store(store, adopting=False))
        found = memory.findings()
        memory.ended()
    finally:
        memory.close()
    return done, found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "scrub.sqlite"


@pytest.mark.rule("S-268")
@pytest.mark.parametrize("name", FILE_STORES)
def test_a_healthy_store_is_read_whole_and_left_as_it_is(
    name: str, stores: PristineStores, state: Path
) -> None:
    first, found = scrubbed(stores[name], state)
    assert found == []
    again, found = scrubbed(stores[name], state)
    assert found == []
    assert (again.files, again.bytes) == (first.files, first.bytes)
    assert again.compared >= first.compared


def flip(path: Path, offset: int) -> None:
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes((byte ^ 1,)))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.rule("S-268")
def test_bit_rot_between_two_scrubs_is_found_until_it_is_mended(store_copy: Copy, state: Path) -> None:
    data = store_copy("large-and-paged") / "data"
    scrubbed(data, state)
    body = max((data / "large-messages").glob("*.msg"), key=lambda path: path.stat().st_size)
    page = min((data / "paging").rglob("*.page"), key=lambda path: (path.parent, len(path.name), path.name))
    assert body.stat().st_size > 1 << 20
    for path, offset in ((body, (1 << 20) + 17), (page, page.stat().st_size // 2)):
        flip(path, offset)
        for _ in range(2):
            _, (found,) = scrubbed(data, state)
            assert data / found.file == path
            assert (found.kind, found.offset) == ("rotten", offset >> 20 << 20)
        flip(path, offset)
        assert scrubbed(data, state)[1] == []


def test_a_closed_journal_file_may_be_used_again_and_not_change(store_copy: Copy, state: Path) -> None:
    data = store_copy("compacted") / "data"
    scrubbed(data, state)
    files = sorted((data / "journal").glob("*.amq"), key=lambda path: path.read_bytes()[8:16])
    flip(files[0], files[0].stat().st_size - 5)
    assert [one.kind for one in scrubbed(data, state)[1]] == ["rotten"]
    highest = max(int.from_bytes(path.read_bytes()[8:16]) for path in files)
    with files[0].open("r+b") as file:  # as it is freed
        file.seek(8)
        file.write((highest + 1).to_bytes(8))
    assert scrubbed(data, state)[1] == []


@pytest.mark.rule("S-268")
def test_checksums_tell_at_the_first_look(tmp_path: Path, state: Path) -> None:
    store = new_store(tmp_path / "store")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)
        (mount.path / "orders" / "in.txt").write_text("one\ntwo\n")
        assert scrubbed(store, state)[1] == []
    path = min((store / "journal").glob("*.amq"))
    at = path.read_bytes().index("two".encode("utf-16-le"))
    flip(path, at)
    _, (found,) = scrubbed(store, tmp_path / "another")
    assert found.kind == "checksum"
    assert found.offset is not None
    assert found.offset <= at


@pytest.mark.rule("S-269")
def test_a_killed_scrub_goes_on_where_it_was(stores: PristineStores, state: Path) -> None:
    whole, _ = scrubbed(stores["large-and-paged"], state.with_name("whole"))
    clock, read, limit = FakeClock(), [0], [6 << 20]

    class Killed(BaseException):
        pass

    def advance(count: int) -> None:
        clock.advance(by_ms=2000)
        read[0] += count
        if read[0] > limit[0]:
            raise Killed

    while True:
        try:
            done, found = scrubbed(stores["large-and-paged"], state, Pace(clock=clock, advance=advance))
        except Killed:
            limit[0] += 6 << 20
        else:
            break
    assert found == []
    assert (done.files, done.bytes) == (whole.files, whole.bytes)
    kills = limit[0] // (6 << 20) - 1
    assert kills >= 3
    assert read[0] <= whole.bytes + kills * (2 << 20)


@pytest.mark.rule("S-269")
def test_no_more_is_read_a_second_than_allowed(stores: PristineStores, state: Path) -> None:
    clock = FakeClock()
    pace = Pace(4 << 20, clock, sleep=lambda seconds: clock.advance(by_ms=round(seconds * 1000)))
    done, _ = scrubbed(stores["large-and-paged"], state, pace)
    assert clock.monotonic_ns() / 1e9 == pytest.approx(done.bytes / (4 << 20), rel=0.01)


@pytest.mark.rule("S-268")
def test_backups_are_scrubbed_by_their_hashes(stores: PristineStores, tmp_path: Path) -> None:
    dest, state = tmp_path / "backups", tmp_path / "state"
    shutil.copytree(stores["large-and-paged"], tmp_path / "gone")
    assert journalfs("backup", tmp_path / "gone", dest).returncode == 0
    shutil.rmtree(tmp_path / "gone")  # nothing is mended from it

    def scrub() -> tuple[int, list[dict[str, Any]]]:
        done = journalfs("scrub", "--json", "--state", state, dest)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    code, (facts,) = scrub()
    assert (code, facts["damage"]) == (0, 0)
    assert facts["files"] == facts["compared"] + 1  # the description
    pieces = sorted((dest / "objects").rglob("*"))
    files = [path for path in pieces if path.is_file()]
    flip(files[0], 3)
    files[1].unlink()
    code, (rotten, missing, facts) = scrub()
    assert code == EXIT_DAMAGED
    assert (rotten["kind"], dest / str(rotten["file"])) == ("rotten", files[0])
    assert (missing["kind"], dest / str(missing["file"])) == ("missing-file", files[1])
    assert rotten["do"]
    said = journalfs("scrub", "--state", state, "--rate", "50MB/s", dest)
    assert "2 damaged" in said.stderr
    assert journalfs("scrub", "--rate", "fast", dest).returncode == EXIT_WRONG_CALL
