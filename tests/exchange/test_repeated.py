"""An import that failed, or was killed, and is repeated: every message is there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
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
