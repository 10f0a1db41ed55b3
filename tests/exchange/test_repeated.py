"""An import that failed, or was killed, and is repeated: every message is there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mounting import JOURNALFS, journalfs, mounted_for_writing

MESSAGES = 20_000


def line(number: int) -> str:
    return json.dumps({"address": "in", "queue": "in", "body": f"{number}"}) + "\n"


def bodies(store: Path) -> list[str]:
    done = journalfs("cat", "--no-index", store)
    assert done.returncode == 0, done.stderr
    return [json.loads(one)["body"] for one in done.stdout.splitlines()]


def created(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    store.parent.mkdir(exist_ok=True)
    assert journalfs("create", store).returncode == 0
    return store


@pytest.mark.rule("S-219")
def test_after_a_mistake_in_the_file(tmp_path: Path) -> None:
    store, file = created(tmp_path), tmp_path / "in.jsonl"
    good = [line(number) for number in range(MESSAGES)]
    file.write_text("".join([*good[:10_000], "no envelope\n", *good[10_000:]]))
    done = journalfs("import", file, store)
    assert done.returncode != 0
    assert 0 < len(bodies(store)) < MESSAGES
    file.write_text("".join(good))
    done = journalfs("import", file, store)
    assert done.returncode == 0, done.stderr
    assert bodies(store) == [f"{number}" for number in range(MESSAGES)]
    assert os.listdir(tmp_path).count(".in.jsonl.importing") == 0
    # At its end it is done: who imports the file once more means it.
    assert journalfs("import", file, store).returncode == 0
    assert set(Counter(bodies(store)).values()) == {2}


@pytest.mark.rule("S-219")
def test_after_a_kill(tmp_path: Path) -> None:
    store, file = created(tmp_path), tmp_path / "in.jsonl"
    good = [line(number) for number in range(MESSAGES)]
    file.write_text("".join(good))
    note = tmp_path / ".in.jsonl.importing"
    importing = subprocess.Popen([JOURNALFS, "import", file, store], stdin=subprocess.DEVNULL)
    while importing.poll() is None and not note.exists():  # it is over soon
        pass
    importing.send_signal(signal.SIGKILL)
    importing.wait()
    done = journalfs("import", file, store)
    assert done.returncode == 0, done.stderr
    assert bodies(store) == [f"{number}" for number in range(MESSAGES)]


KILLED_AT = """
import os, sys
place, log = int(sys.argv.pop(1)), os.open(sys.argv.pop(1), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
write = os.write
made = 0
def counted(real, name):
    def call(*given, **more):
        global made
        if name != "open" or given[1] & os.O_CREAT:
            made += 1
            write(log, b"x")
            if made == place:
                os.kill(os.getpid(), 9)
        return real(*given, **more)
    return call
for name in ("open", "pwrite", "ftruncate", "fsync", "fdatasync", "rename", "unlink", "rmdir", "_exit"):
    setattr(os, name, counted(getattr(os, name), name))
sys.argv[0] = "journalfs"
from journalfs.cli.main import main
main()
"""


def killed_import(tmp_path: Path, file: Path, store: Path, place: int) -> int:
    """Import in a process that is killed before its call number `place` of those that change something or
    end it; how many it had made.
    """
    log = tmp_path / f"calls-{place}"
    command: list[str | Path] = [sys.executable, "-c", KILLED_AT, str(place), log, "import", file, store]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert done.returncode == (-signal.SIGKILL if place else 0), done.stderr
    return log.stat().st_size


@pytest.mark.rule("S-354")
@pytest.mark.parametrize("back", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (0, *range(2, 40)))])
def test_after_a_kill_near_its_end(tmp_path: Path, back: int) -> None:
    """The last calls are the removal of the note, and the end of the process."""
    file, store = tmp_path / "in.jsonl", created(tmp_path)
    file.write_text("".join(line(number) for number in range(20)))
    total = killed_import(tmp_path, file, created(tmp_path / "other"), 0)
    killed_import(tmp_path, file, store, total - back)
    # Killed instead of ending well, after the note was removed, it has done all.
    if back:
        done = journalfs("import", file, store)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / ".in.jsonl.importing").exists()
    assert bodies(store) == [f"{number}" for number in range(20)]


@pytest.mark.rule("S-354")
@pytest.mark.mount
@pytest.mark.long
@pytest.mark.parametrize("back", range(1, 12))
def test_after_a_kill_near_its_end_into_a_mount(tmp_path: Path, back: int) -> None:
    file, store = tmp_path / "in.jsonl", created(tmp_path)
    file.write_text("".join(line(number) for number in range(20)))
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        total = killed_import(tmp_path, file, mount.path, 0)
        (mount.path / "in/in/.all.jsonl").unlink()
        killed_import(tmp_path, file, mount.path, total - back)
        done = journalfs("import", file, mount.path)
        assert done.returncode == 0, done.stderr
    assert bodies(store) == [f"{number}" for number in range(20)]


@pytest.mark.rule("S-219")
@pytest.mark.mount
@pytest.mark.long
def test_into_a_mount_and_of_another_file(tmp_path: Path) -> None:
    store, file, mountpoint = created(tmp_path), tmp_path / "in.jsonl", tmp_path / "mnt"
    mountpoint.mkdir()
    good = [line(number) for number in range(MESSAGES)]
    with mounted_for_writing(store, mountpoint):
        file.write_text("".join([*good[:10_000], "no envelope\n"]))
        assert journalfs("import", file, mountpoint).returncode != 0
        other = journalfs("import", file, tmp_path / "elsewhere")
        assert ".in.jsonl.importing" in other.stderr
        file.write_text("".join([line(-1), *good]))
        changed = journalfs("import", file, mountpoint)
        assert "begins otherwise" in changed.stderr
        file.write_text("".join(good))
        assert journalfs("import", file, mountpoint).returncode == 0
        shown = journalfs("export", mountpoint, "-").stdout.splitlines()
    assert [json.loads(one)["body"] for one in shown] == [f"{number}" for number in range(MESSAGES)]
