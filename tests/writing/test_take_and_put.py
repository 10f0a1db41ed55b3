"""`journalfs take`, `put` and `why`, in a mount and of a store that nobody has open."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, JOURNALFS, journalfs, mounted_for_writing
from tests.writing.conftest import Address, bodies, errno_of, new_store
from tests.writing.test_removing import publish


def put(*arguments: str | Path, given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [JOURNALFS, "put", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )


@pytest.mark.rule("S-185")
def test_a_message_is_acknowledged_when_its_command_ended_well(address: Address, tmp_path: Path) -> None:
    publish(address, "one", "two", "three")
    queue = address.first.path
    done = journalfs("take", queue, "--max", "2", "--exec", f"cat | jq -r .body >> {tmp_path}/done")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "done").read_text() == "one\ntwo\n"
    until(lambda: bodies(address.first) == ["three"], "the last one is acknowledged")
    done = journalfs("take", queue, "--no-wait", "--exec", "cat > /dev/null; exit 7")
    assert done.returncode == 7
    until(lambda: not address.first.status()["deliveringCount"], "it was given back")
    (message,) = (queue / ".messages").iterdir()
    assert os.getxattr(message, "user.journalfs.deliveryCount") == b"1", (
        "a line of before says what was so then"
    )
    done = journalfs("take", queue, "--no-wait", "--exec", "kill -9 $$")
    assert done.returncode == 128 + 9
    done = journalfs("take", queue, "--no-wait")
    assert json.loads(done.stdout)["body"] == "three"
    until(lambda: not address.first.lines(), "it was written, so it is consumed")
    assert journalfs("take", queue, "--no-wait", "--exec", "exit 9").returncode == 0


@pytest.mark.rule("S-186")
def test_files_are_put_all_or_none(address: Address, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.json").write_text('{"n": 1} {"n": 2}')
    (tmp_path / "bad.jsonl").write_text("no envelope\n")
    done = journalfs("put", address.first.path, tmp_path / "a.txt", tmp_path / "bad.jsonl")
    assert done.returncode == 2
    assert "no JSON" in done.stderr
    assert bodies(address.first) == []
    assert journalfs("put", address.path, tmp_path / "a.txt", tmp_path / "b.json").returncode == 0
    assert bodies(address.first) == bodies(address.second) == ["one", "two", '{"n": 1}', '{"n": 2}']
    assert put(address.second.path, given="three\nfour").returncode == 0
    until(lambda: bodies(address.second)[-2:] == ["three", "four"], "an unfinished line is one in the end")
    assert put(address.second.path, "-", "--as", "x.json", given="[1]").returncode == 0
    until(lambda: bodies(address.second)[-1] == "[1]", "the name says what it is")


@pytest.mark.rule("S-185", "S-186")
def test_a_store_needs_no_mount(tmp_path: Path) -> None:
    root = new_store(tmp_path / "store")
    assert "ADDRESS" in journalfs("put", root).stderr
    assert put(root, "work::work", given="one").stderr.count("\n") == 1
    with mounted_for_writing(root, tmp_path / "mnt") as mount:
        (mount.path / "DLQ").mkdir()
        (mount.path / "DLQ/DLQ").mkdir()
    done = put(root, "DLQ::DLQ", given="one\ntwo\n")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "more.txt").write_text("three\n")
    assert journalfs("put", root, "DLQ", tmp_path / "more.txt").returncode == 0
    assert journalfs("take", root, "DLQ::DLQ", "--exec", "grep -q one").returncode == 1
    left = journalfs("take", root, "DLQ::DLQ").stdout.splitlines()
    found = [(line["body"], line.get("deliveryCount", 0)) for line in map(json.loads, left)]
    assert found == [("two", 1), ("three", 0)]


@pytest.mark.rule("S-187")
def test_why_says_what_a_shell_does_not(address: Address) -> None:
    publish(address, "one")
    assert errno_of((address.first.path / ".messages").rmdir)
    with pytest.raises(OSError, match="Invalid argument"):
        (address.path / "in.jsonl").write_text("no envelope\n")
    said = journalfs("why", address.path).stdout
    assert f"{address.name}/in.jsonl: Invalid argument (EINVAL)" in said
    assert "what to do" in said
    said = journalfs("why", address.mount.path, "-n", "1", "--printed", "operation not permitted").stdout
    assert "always stays" in said
    assert "in.jsonl" not in said
    assert json.loads(journalfs("why", "-n", "1", "--json", address.path).stdout)["errno"] == "EINVAL"
    assert journalfs("why", "/").returncode == 1
