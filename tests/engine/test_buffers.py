"""Mapped files: they grow, shrink and vanish under their readers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile, Unreadable
from journalfs.engine.scan import scan_journal
from journalfs.engine.status import FileTorn
from tests.differential.encode import header, record

DELETE = 16


def test_copies_what_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)))
    with MappedFile(path) as file:
        assert file.size_bytes == 256
        assert file.copy(10, 3) == b"\x0a\x0b\x0c"
        assert file.copy(256, 0) == b""
        for offset, length in ((250, 7), (-1, 2), (0, -1), (257, 0)):
            with pytest.raises(ValueError, match="outside"):
                file.copy(offset, length)


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with MappedFile(path) as file:
        assert file.size_bytes == 0
        assert file.copy(0, 0) == b""
        assert scan_journal(file, rid=1, version=2).count == 0


def test_outlives_an_unlink(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with MappedFile(path) as file:
        path.unlink()
        assert file.copy(0, 7) == b"content"


def test_a_truncated_file_raises_instead_of_ending_the_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    with MappedFile(path) as file:
        os.truncate(path, 4096)
        assert file.copy(0, 4096) == bytes(4096)
        with pytest.raises(FileTorn, match="truncated"):
            file.copy(0, 1 << 20)


def test_zeros_stand_for_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 20_000)
    with MappedFile(path) as file:
        assert not file.mend()
        os.truncate(path, 8192)
        assert file.reading(lambda: file.copy(0, 20_000)) == b"x" * 8192 + bytes(20_000 - 8192)
        assert file.unreadable == (Unreadable(8192, 20_000 - 8192, "the file ends before"),)
        assert not file.mend()
        os.truncate(path, 0)
        assert file.copy(8192, 10) == bytes(10)
        assert file.reading(lambda: file.copy(0, 20_000)) == bytes(20_000)
        assert [place.offset for place in file.unreadable] == [0]


def test_an_earlier_pointer_gets_no_zeros(tmp_path: Path) -> None:
    """Lines that were measured with the bytes that were there are not rendered with others."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 20_000)
    with MappedFile(path) as file, MappedFile(path) as other:
        earlier = other.pointer
        os.truncate(path, 8192)
        assert other.mend()
        file.pointer = earlier
        with pytest.raises(FileTorn):
            file.copy(8192, 1)


def test_a_deleted_file_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 20_000)
    with MappedFile(path) as file, path.open("r+b") as still_open:
        file.detach()
        path.unlink()
        still_open.truncate(8192)
        assert file.mend()
        assert file.copy(8000, 1000) == b"x" * 192 + bytes(808)


def test_records_before_an_unreadable_end_are_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(header(1) + record(DELETE, 1, record_id=5) + bytes(20_000))
    with MappedFile(path) as file:
        os.truncate(path, 4096)
        assert [one.record_id for one in scan_journal(file, rid=1, version=2)] == [5]
        assert [place.offset for place in file.unreadable] == [4096]


def test_released_bytes_come_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10000)
    with MappedFile(path) as file:
        assert file.copy(5000, 4) == b"xxxx"
        file.release()
        assert file.copy(5000, 4) == b"xxxx"


def test_closing_twice_is_allowed_and_closes_the_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    file = MappedFile(path)
    fd = file.fd
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MappedFile(tmp_path / "nothing")


GARBAGE = """
import gc
import numpy as np
from journalfs.engine.buffers import MemoryFile
from journalfs.engine.columns import LINE, lines_pointer
from journalfs.engine.lines import LineBatch

class Held:
    pass

def kept(number):
    view = memoryview(bytearray(b"x" * 100))[1:]
    if number == 0:
        return MemoryFile("nothing", view)
    if number == 1:
        return LineBatch.of_payloads([view], queue="q")
    return lines_pointer(np.zeros(9, LINE))

for number in (0, 1, 2) * 30:
    what = kept(number)
    held = Held()
    held.itself, held.what = held, what
    del held, what
    gc.collect()
print("alive")
"""


def test_what_is_kept_of_a_view_does_not_end_the_process_as_garbage() -> None:
    """The view goes before the pointer when both are in garbage that refers to itself."""
    command = [sys.executable, "-c", GARBAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
