"""Damage to pages, large messages and bindings."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.damage.cases import Seen, cases, changed, flipped, look, used_bytes
from tests.reference import journal as reference
from tests.reference.pages import page

Copy = Callable[[str], Path]


def _ids(seen: Seen) -> dict[int, set[int]]:
    return {queue: ids for queue, ids in seen.queues.items() if ids}


def _lost(before: dict[int, set[int]], after: dict[int, set[int]]) -> set[tuple[int, int]]:
    return {(queue, one) for queue, ids in before.items() for one in ids - after.get(queue, set())}


def _extents(data: bytes) -> list[tuple[int, int]]:
    """Offset and length of each record of a page, by their frames."""
    found = []
    at = 0
    while len(data) - at >= 6:
        length = struct.unpack(">i", data[at + 1 : at + 5])[0] + 6
        found.append((at, length))
        at += length
    assert at == len(data)
    return found


@pytest.mark.rule("S-52")
def test_pages_cut_off_or_with_a_damaged_record(store_copy: Copy) -> None:
    """Only the damaged record is lost; of a page that was cut off, only what was cut off."""
    data = store_copy("large-and-paged") / "data"
    pristine = look(data)
    paths = [path for path in sorted((data / "paging").rglob("*.page")) if path.stat().st_size]
    assert len(paths) > 20
    for number, path in enumerate(paths[:: max(1, 12 // cases(1))]):
        content = path.read_bytes()
        extents = _extents(content)
        assert len(extents) == len(page(content).entries)
        offset, length = extents[number * 7 % len(extents)]
        with changed(path, offset, b"\xff"):
            seen = look(data)
        assert seen.wrong == []
        lost = _lost(pristine.queues, seen.queues)
        assert len({message for _, message in lost}) <= 1
        assert any(file.endswith(path.name) for file, _, _ in seen.places)
        path.write_bytes(content[: offset + length // 2])
        seen = look(data)
        path.write_bytes(content)
        behind = sum(start >= offset for start, _ in extents)
        lost = _lost(pristine.queues, seen.queues)
        assert seen.wrong == []
        assert len({message for _, message in lost}) <= behind


@pytest.mark.rule("S-51", "S-52")
def test_flipped_bits_of_a_page(store_copy: Copy) -> None:
    data = store_copy("large-and-paged") / "data"
    pristine = look(data)
    paths = [path for path in sorted((data / "paging").rglob("*.page")) if path.stat().st_size]
    path = paths[len(paths) // 2]
    size = path.stat().st_size
    flips = cases(12)
    for number in range(flips):
        with flipped(path, size * number // flips, number % 8):
            seen = look(data)
        assert seen.wrong == []
        # One bit is in one record. It may also change which queues or which message the record names.
        assert len(_lost(pristine.queues, seen.queues)) <= 3


@pytest.mark.rule("S-51")
def test_large_bodies_cut_off_or_missing(store_copy: Copy) -> None:
    """The message stays a line that says so; nothing else changes."""
    data = store_copy("large-and-paged") / "data"
    pristine = look(data)
    assert pristine.damaged_lines == 0
    bodies = sorted((data / "large-messages").glob("*.msg"))
    assert bodies
    for path in bodies[:: max(1, 3 // cases(1))]:
        content = path.read_bytes()
        lines_of_it = sum(int(path.stem) in ids for ids in pristine.queues.values())
        for cut in (len(content) - 1, 1, 0, None):
            if cut is None:
                path.unlink()
            else:
                path.write_bytes(content[:cut])
            seen = look(data)
            assert seen.wrong == []
            assert _ids(seen) == _ids(pristine)
            assert seen.damaged_lines == lines_of_it, (path.name, cut)
            if lines_of_it:
                assert any(str(path.name) in file for file, _, _ in seen.places)
        path.write_bytes(content)


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("name", ["aio", "transactions"])
def test_flipped_bits_of_the_bindings(name: str, store_copy: Copy) -> None:
    """Queues whose own records are whole are still there, with all their messages."""
    data = store_copy(name) / "data"
    pristine = look(data)
    for path in sorted((data / "bindings").glob("*.bindings")):
        end = used_bytes(path)
        content = path.read_bytes()
        records = reference.scan(content, int.from_bytes(content[8:16], "big")).records
        flips = cases(20)
        for number in range(flips):
            offset = 16 + (end - 16) * number // flips
            hit = [one for one in records if one.offset <= offset < one.offset + one.length]
            with flipped(path, offset, number % 8):
                seen = look(data)
            assert seen.wrong == []
            gone = {queue for queue, ids in pristine.queues.items() if seen.queues.get(queue) != ids}
            of_one_record = {one.record_id for one in hit if one.kind in (11, 12, 13, 14)}
            touched = {one.tx_id for one in hit if one.tx_id}
            of_one_record |= {one.record_id for one in records if one.tx_id in touched}
            assert gone <= of_one_record, (path.name, offset, hit)
