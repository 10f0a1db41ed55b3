"""A descriptor of a staged file acts on its own file, whatever became of the name."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.writing.conftest import Address

REPLACE = {
    "renamed over": "open('_new','w').write('new'); os.rename('_new', '_file')",
    "made anew": "os.unlink('_file'); open('_file','w').write('new')",
}


def elsewhere(folder: Path, program: str) -> None:
    subprocess.run([sys.executable, "-c", f"import os; {program}"], cwd=folder, check=True, timeout=60)


@pytest.mark.rule("S-171")
@pytest.mark.parametrize("how", REPLACE)
def test_another_file_of_the_name_is_left_alone(address: Address, how: str) -> None:
    folder = address.first.path
    descriptor = os.open(folder / "_file", os.O_RDWR | os.O_CREAT, 0o640)
    os.write(descriptor, b"the old one")
    elsewhere(folder, REPLACE[how])
    new = folder / "_file"
    before = new.stat()
    os.ftruncate(descriptor, 3)
    os.fchmod(descriptor, 0o600)
    os.utime(descriptor, ns=(5_000_000_000, 7_000_000_000))
    after = new.stat()
    assert (new.read_bytes(), after.st_mtime_ns, after.st_mode) == (
        b"new",
        before.st_mtime_ns,
        before.st_mode,
    )
    own = os.fstat(descriptor)
    assert (own.st_size, own.st_mtime_ns, own.st_nlink) == (3, 7_000_000_000, 0)
    assert stat.S_IMODE(own.st_mode) == 0o600
    again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    assert os.read(again, 100) == b"the"
    os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_TRUNC))
    assert (os.fstat(descriptor).st_size, new.read_bytes()) == (0, b"new")
    os.close(again)
    os.close(descriptor)
    new.unlink()


@pytest.mark.rule("S-171")
def test_a_file_that_was_removed_is_an_ordinary_one(address: Address) -> None:
    with tempfile.TemporaryFile(dir=address.path) as file:
        file.write(b"something")
        file.flush()
        file.truncate(4)
        assert os.fstat(file.fileno()).st_nlink == 0
        file.seek(0)
        assert file.read() == b"some"


@pytest.mark.rule("S-172")
def test_modes_and_owners_are_those_that_were_given(address: Address) -> None:
    file, folder = address.path / "_file", address.path / "_folder"
    before = os.umask(0o002)
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o666))
        assert stat.S_IMODE(file.stat().st_mode) == 0o664, "by the umask of who makes it"
        folder.mkdir(0o777)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o775
    finally:
        os.umask(before)
    file.chmod(0o444)
    assert stat.S_IMODE(file.stat().st_mode) == 0o444
    os.chown(file, 12, 34)
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12, 34, 0o444)
    file.unlink()
    folder.rmdir()
