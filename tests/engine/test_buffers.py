"""Mapped files: they grow, shrink and vanish under their readers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.engine.status import FileTorn


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


def test_refresh_maps_what_was_appended_and_keeps_earlier_pointers(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    with MappedFile(path) as file:
        earlier = file.pointer
        assert not file.refresh()
        with path.open("ab") as more:
            more.write(b" second")
        assert file.size_bytes == 5
        assert file.refresh()
        assert file.copy(0, 12) == b"first second"
        assert earlier[4] == ord("t")


def test_a_truncated_file_raises_instead_of_ending_the_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    with MappedFile(path) as file:
        os.truncate(path, 4096)
        assert file.copy(0, 4096) == bytes(4096)
        with pytest.raises(FileTorn, match="truncated"):
            file.copy(0, 1 << 20)
        with pytest.raises(FileTorn):
            scan_journal(file, rid=1, version=2)


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
