"""Second names for files, and copies of their beginnings."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs.door import link, remove_tree
from journalfs.engine.links import copy_beginning, is_linked, lengthen
from journalfs.limits import COPY_CHUNK_BYTES, LENGTHENED_BYTES

LENGTH = COPY_CHUNK_BYTES + 12_345


@pytest.fixture(params=["here", "elsewhere"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file on the same file system as the copy, and on another, between which the system may not copy."""
    if request.param == "here":
        folder = tmp_path
    else:
        folder = Path("/dev/shm")
        if not folder.is_dir() or folder.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("no second file system here")
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(os.urandom(2 * LENGTH))
        file.flush()
        yield Path(file.name)


@pytest.mark.parametrize("size_bytes", [0, 3 * LENGTH])
def test_the_beginning_of_a_file(source: Path, tmp_path: Path, size_bytes: int) -> None:
    copy = tmp_path / "copy"
    copy_beginning(source, copy, LENGTH, size_bytes=size_bytes)
    wanted = source.read_bytes()[:LENGTH]
    assert copy.read_bytes() == wanted.ljust(size_bytes, b"\0")
    with pytest.raises(FileExistsError):
        copy_beginning(source, copy, LENGTH)


def test_names_and_lengths(tmp_path: Path) -> None:
    file, name = tmp_path / "file", tmp_path / "name"
    file.write_bytes(b"x" * 100)
    assert not is_linked(file)
    link(file, name)
    assert is_linked(file)
    lengthen(file, 101)
    assert file.stat().st_size == 100, "it is of another size"
    lengthen(file, 100)
    lengthen(file, 100)
    assert name.read_bytes() == b"x" * 100 + bytes(LENGTHENED_BYTES)


def test_a_tree_goes_without_what_its_links_lead_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(b"x")
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below/file").write_bytes(b"y")
    (tree / "link").symlink_to(kept)
    remove_tree(tree)
    assert not tree.exists()
    assert (kept / "file").exists()
