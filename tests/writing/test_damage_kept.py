"""What nobody can read is kept until somebody says that it may go, whatever is done to the store."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kinds import first_is_quick
from tests.mounting import journalfs, mounted_for_writing
from tests.writing.conftest import FILE_BYTES, new_store, shell

JUNK = b"\xa5junk" * 300


def filled(root: Path, mountpoint: Path) -> Path:
    """A store with some journal files full of messages, a few of which are still there."""
    new_store(root)
    settings = root / "journalfs.toml"
    settings.write_text(f"journal-checksums = false\n{settings.read_text()}")  # as brokers write
    with mounted_for_writing(root, mountpoint) as mount:
        shell("mkdir -p jobs/work jobs/kept", mount.path)
        for _ in range(3):
            shell(
                f"echo kept > kept/in.txt; yes {'x' * 500} | head -n 1500 > work/in.txt", mount.path / "jobs"
            )
        shell("rm work/.all.jsonl", mount.path / "jobs")
    return root


def data_files(root: Path) -> list[Path]:
    """In the order of their ids."""
    files = [path for path in (root / "journal").glob("*.amq") if any(path.read_bytes()[16:100])]
    return sorted(files, key=lambda path: int.from_bytes(path.read_bytes()[8:16]))


def spoil(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(JUNK)


def checked(root: Path) -> tuple[int, list[dict[str, object]]]:
    done = journalfs("check", "--json", root)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.rule("S-183")
@pytest.mark.parametrize("by", first_is_quick("mount", "compact"))
def test_bytes_that_cannot_be_read_outlast_their_file(tmp_path: Path, by: str) -> None:
    root = filled(tmp_path / "store", tmp_path / "mnt")
    first = data_files(root)[0]
    spoil(first, 5000)
    before = [one for one in checked(root)[1] if one["kind"] == "garbage"]
    assert [one["file"] for one in before] == [f"journal/{first.name}"]
    if by == "compact":
        assert journalfs("compact", root).returncode == 0
    else:
        with mounted_for_writing(root, tmp_path / "mnt") as mount:
            shell(
                "yes | head -n 20000 > jobs/work/in.txt; rm jobs/*/.all.jsonl; echo > jobs/in.txt", mount.path
            )
    status, found = checked(root)
    assert status == 5
    kept = [one for one in found if str(one["file"]).startswith("journalfs/damaged/")]
    still = [one for one in found if one["file"] == f"journal/{first.name}" and one["kind"] == "garbage"]
    assert len(kept) + len(still) == 1
    if kept:
        assert JUNK in (root / str(kept[0]["file"])).read_bytes()
        assert f"{first.name}, byte" in str(kept[0]["reason"])
        with mounted_for_writing(root, tmp_path / "mnt") as mount:
            raw = list((mount.path / ".journalfs/damaged").glob("*garbage.bin"))
            assert any(JUNK in path.read_bytes() for path in raw)
    listed = {str(one["file"]) for one in checked(root)[1] if one["kind"] != "sound"}
    done = journalfs("compact", "--discard-damage", root)
    assert done.returncode == 0
    rows = [line.split("\t")[0] for line in done.stderr.splitlines() if "\t" in line]
    assert listed == set(rows)
    assert re.search(rf"discarded: {len(rows)} places? of damage, with [a-z 0-9]+ messages", done.stderr)
    assert not [one for one in checked(root)[1] if one["kind"] == "garbage"]


@pytest.mark.rule("S-184")
def test_only_the_end_of_the_last_file_is_how_a_writer_ends(tmp_path: Path) -> None:
    root = filled(tmp_path / "store", tmp_path / "mnt")
    first, *_, last = data_files(root)
    for path in (first, last):
        content = path.read_bytes().rstrip(b"\0")
        with path.open("r+b") as file:
            file.seek(len(content) - 200)
            file.write(bytes(FILE_BYTES - len(content) + 200))
    cut = first.read_bytes()
    with mounted_for_writing(root, tmp_path / "mnt") as mount:
        recovered = [event["message"] for event in mount.events() if event["event"] == "recovered"]
        assert any("a killed writer left them" in what and last.name in what for what in recovered)
        assert not any(first.name in what for what in recovered)
    assert first.read_bytes() == cut
    assert f"journal/{first.name}" in [one["file"] for one in checked(root)[1]]
