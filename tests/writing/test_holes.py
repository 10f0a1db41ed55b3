"""What copies leave out where they write, and paths that are longer than the system takes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mounting import MountedStore, mounted_for_writing
from tests.writing.conftest import new_store, shell


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    folder = tmp_path_factory.mktemp("holes")
    new_store(folder / "store")
    with mounted_for_writing(folder / "store", folder / "mnt") as mounted:
        shell("mkdir -p work/work", mounted.path)
        yield mounted


@pytest.mark.rule("S-190")
def test_holes_of_a_file_that_is_one_message_are_zeros(mount: MountedStore, tmp_path: Path) -> None:
    """As `cp` leaves them out: at the beginning, in the middle, at the end, or all of it."""
    whole = tmp_path / "sparse.bin"
    with whole.open("wb") as file:
        for at in (0, 1 << 20, 5 << 20):
            file.seek(at + (1 << 19))
            file.write(b"data")
        file.truncate(8 << 20)
    expected = {whole.read_bytes()}
    hole = tmp_path / "hole.bin"
    with hole.open("wb") as file:
        file.truncate(70_000)
    expected.add(hole.read_bytes())
    shell(
        f"cp --sparse=always {whole} {hole} work/work/; : > {tmp_path}/empty.bin; "
        f"cp {tmp_path}/empty.bin work/work/",
        mount.path,
    )
    shown = (mount.path / "work/work/.messages").glob("*")
    assert {path.read_bytes() for path in shown} == expected
    shell("rm work/work/.messages/*", mount.path)


@pytest.mark.rule("S-190")
@pytest.mark.parametrize(("name", "size"), [("lines.txt", 10), ("whole.bin", 1 << 40)])
def test_other_holes_are_refused(mount: MountedStore, name: str, size: int) -> None:
    with (mount.path / "work/work" / name).open("wb") as file:
        with pytest.raises(OSError) as refused:
            os.ftruncate(file.fileno(), size)
        assert refused.value.errno == errno.EINVAL
        with pytest.raises(OSError) as refused:
            os.pwrite(file.fileno(), b"x", size)
        assert refused.value.errno == errno.EINVAL
    assert not list((mount.path / "work/work/.messages").iterdir())


@pytest.mark.rule("S-191")
def test_a_staged_path_that_is_too_long_is_refused_as_such(mount: MountedStore) -> None:
    """Whatever is done with it, and what lies above it goes on."""
    top = mount.path / "work/_deep"
    top.mkdir()
    descriptor = os.open(top, os.O_RDONLY)
    name, depth, number = "d" * 200, 0, 0
    while not number and depth < 40:
        try:
            os.mkdir(name, dir_fd=descriptor)
        except OSError as error:
            number = error.errno or 0
            continue
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor, depth = below, depth + 1
    assert number == errno.ENAMETOOLONG
    assert depth > 15
    with pytest.raises(OSError) as refused:
        os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=descriptor)
    assert refused.value.errno == errno.ENAMETOOLONG
    os.close(descriptor)
    shell("rm -r work/_deep", mount.path)
    assert "Traceback" not in mount.path.with_name(f"{mount.path.name}.log").read_text()
