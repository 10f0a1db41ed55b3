"""What becomes of a name that is written: told by the name, and by how the file is made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from journalfs_mount.names.fates import Fate, fate_of, is_temporary


@pytest.mark.parametrize(
    ("name", "fate"),
    [
        (b"in.txt", Fate.PUBLISHED),
        (b"part-0001-1-0000000001.jsonl", Fate.PUBLISHED),
        (b"a._SUCCESS", Fate.PUBLISHED),
        (b"a.crc", Fate.PUBLISHED),
        (b"%5Fname", Fate.PUBLISHED),
        (b"_temporary", Fate.STAGED),
        (b".in.txt.Xy12Zq", Fate.STAGED),
        (b"_SUCCESS2", Fate.STAGED),
        (b"..crc", Fate.STAGED),
        (b"_x.crc", Fate.STAGED),
        (b"_SUCCESS", Fate.DROPPED),
        (b"._SUCCESS.crc", Fate.DROPPED),
        (b".part-0-\n.json.crc", Fate.DROPPED),
        (b"_spark_metadata", Fate.SINK_LOG),
        (b"_tail.jsonl", Fate.VIEW),
        (b".messages", Fate.VIEW),
        (b".take", Fate.VIEW),
        (b".journalfs", Fate.VIEW),
    ],
)
def test_the_fate_of_a_name(name: bytes, fate: Fate) -> None:
    assert fate_of(name) is fate


ALONE = os.O_CREAT | os.O_EXCL


@pytest.mark.parametrize(
    ("flags", "mode", "temporary"),
    [
        (ALONE | os.O_RDWR, 0o100600, True),
        (ALONE | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, True),
        (ALONE | os.O_WRONLY, 0o600, False),
        (ALONE | os.O_RDWR, 0o644, False),
        (os.O_CREAT | os.O_RDWR, 0o600, False),
        (os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644, False),
    ],
)
def test_how_a_temporary_file_is_made(flags: int, mode: int, temporary: bool) -> None:
    assert is_temporary(flags, mode) is temporary


def test_mkstemp_makes_them_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule stands on what libraries do, so that is looked at too."""
    made = []
    real_open = os.open

    def watching(path: str, flags: int, mode: int = 0o777) -> int:
        made.append(is_temporary(flags, mode))
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", watching)
    os.close(tempfile.mkstemp(dir=tmp_path)[0])
    assert made == [True]
