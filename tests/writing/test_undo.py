"""What was removed through a mount: shown, and brought back by mv, cp and `journalfs undo`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import QueueOnDisk, journalfs, mounted_for_writing
from tests.writing.conftest import Address, Remount, bodies, errno_of, new_store, shell, write_at_once


def publish(queue: QueueOnDisk, *texts: str) -> None:
    write_at_once(queue.path / "in.txt", ["".join(f"{text}\n" for text in texts).encode()])


def removed_of(queue: QueueOnDisk) -> QueueOnDisk:
    mount = queue.path.parents[1]
    return QueueOnDisk(mount / ".journalfs" / "removed" / queue.path.parent.name / queue.path.name)


def alone(command: str, folder: Path) -> None:
    """As a shell runs a command that was typed: a process group of its own."""
    subprocess.run(["bash", "-c", command], cwd=folder, check=True, start_new_session=True)


def undo(folder: Path, *options: str) -> dict[str, int]:
    done = journalfs("undo", folder, *options, "--json")
    assert done.returncode == (0 if done.stdout else 1), done.stderr
    return {(one := json.loads(line))["queue"]: one["messages"] for line in done.stdout.splitlines()}


@pytest.mark.rule("S-192")
def test_what_was_removed_is_shown_the_newest_first(address: Address) -> None:
    publish(address.first, "one", "two", "three")
    names = address.first.listed()
    (address.first.path / ".messages" / names[1]).unlink()
    (address.first.path / ".messages" / names[0]).unlink()
    removed = removed_of(address.first)
    all_of_it = [json.loads(line)["body"] for line in (removed.path / ".all.jsonl").open()]
    assert all_of_it == ["one", "two"]
    assert removed.listed() == [names[0], names[1]]
    message = removed.path / ".messages" / names[1]
    assert message.read_text() == "two"
    taken_ms = int(os.getxattr(message, "user.journalfs.removedTime"))
    assert message.stat().st_mtime_ns // 1_000_000 == taken_ms
    assert taken_ms >= address.first.path.stat().st_mtime_ns // 1_000_000 - 60_000
    assert [line["body"] for line in removed.lines()] == ["one", "two"]
    assert not removed_of(address.second).path.exists()
    assert errno_of(message.unlink) == errno.EROFS


@pytest.mark.rule("S-193")
def test_a_removed_message_is_moved_back_with_its_properties(address: Address) -> None:
    line = {"type": "text", "body": "red", "priority": 7, "properties": {"color": "red"}}
    write_at_once(address.first.path / "in.jsonl", [json.dumps(line).encode() + b"\n"])
    publish(address.first, "other")
    (before, *_) = address.first.lines()
    alone("rm *.jsonl", address.first.path)
    removed = removed_of(address.first)
    os.rename(removed.path / ".messages" / removed.listed()[0], address.first.path / "back.txt")
    shell(f"mv '{removed.path}'/*.jsonl .", address.second.path)
    (one, other) = (*address.first.lines(), *address.second.lines())
    red = one if one["body"] == "red" else other
    assert {**red, "id": 0, "queue": ""} == {**before, "id": 0, "queue": ""}
    assert {one["body"], other["body"]} == {"red", "other"}
    assert not removed.path.exists(), "nothing is removed any more"
    assert address.first.path.name not in undo(address.mount.path)


@pytest.mark.rule("S-193")
def test_lines_are_copied_back(address: Address) -> None:
    publish(address.first, "one", "two")
    before = address.first.lines()
    alone("rm *.jsonl", address.first.path)
    shell(f"cp '{removed_of(address.first).path}/.all.jsonl' back.jsonl", address.first.path)
    assert sorted(bodies(address.first)) == ["one", "two"]
    kept = ("body", "timestamp", "priority")
    assert sorted([line[key] for key in kept] for line in address.first.lines()) == sorted(
        [line[key] for key in kept] for line in before
    )


@pytest.mark.rule("S-193")
def test_a_removed_queue_is_one_command_to_mend(address: Address) -> None:
    publish(address.first, *map(str, range(50)))
    publish(address.second, "stays")
    os.setxattr(address.first.path, "user.journalfs.max-consumers", b"3")
    alone(f"rm -r '{address.first.path}'", address.mount.path)
    assert not address.first.path.exists()
    assert undo(address.mount.path, "--dry-run") == {address.first.path.name: 50}
    assert undo(address.path) == {address.first.path.name: 50}
    assert bodies(address.first) == list(map(str, range(50)))
    assert os.getxattr(address.first.path, "user.journalfs.max-consumers") == b"3"
    assert address.first.path.name not in undo(address.mount.path)
    assert len(bodies(address.first)) == 50
    said = [event["message"] for event in address.mount.events() if event["event"] == "brought-back"]
    assert any(f"50 in {address.name}::{address.first.path.name}" in one for one in said)


@pytest.mark.rule("S-194")
def test_the_last_command_comes_back_and_then_the_one_before(address: Address) -> None:
    publish(address.first, "one", "two", "three", "four")
    names = address.first.listed()
    alone(f"rm .messages/{names[0]} .messages/{names[1]}", address.first.path)
    alone(f"find .messages -name {names[2]} | xargs rm", address.first.path)
    alone("head -n 1 .take > /dev/null", address.first.path)
    name = address.first.path.name
    until(lambda: address.mount.control("removed/.status")["commands"][0]["over"], "the reader has ended")
    commands = address.mount.control("removed/.status")["commands"]
    assert [one["taken"] for one in commands[:3]] == [True, False, False]
    assert commands[1]["processGroup"] != commands[2]["processGroup"]
    assert [list(one["queues"].values()) for one in commands[:3]] == [[1], [1], [2]]
    assert undo(address.mount.path) == {name: 1}
    assert bodies(address.first) == ["four"]
    assert undo(address.mount.path) == {name: 1}
    assert undo(address.mount.path) == {name: 2}
    assert sorted(bodies(address.first)) == ["four", "one", "three", "two"]


@pytest.mark.rule("S-194")
def test_all_since_a_time_comes_back(address: Address) -> None:
    for queue in (address.first, address.second):
        publish(queue, "one", "two")
        alone("rm .all.jsonl", queue.path)
    assert undo(address.mount.path, "--since", "1m", "--dry-run") == undo(address.mount.path, "--since", "1m")
    assert bodies(address.first) == bodies(address.second) == ["one", "two"]
    assert undo(address.mount.path, "--since", "2020-01-01") == {}
    done = journalfs("undo", address.mount.path, "--since", "whenever")
    assert done.returncode == 1
    assert "a time is 2026-01-31T14:30, 14:30, -2h, yesterday or now" in done.stderr


def test_what_is_asked_of_the_file_is_checked(address: Address) -> None:
    file = address.mount.path / ".journalfs/removed/.undo"
    for words in (b"everything", b"since tomorrow", b"since -5", b""):
        if words:
            assert errno_of(lambda words=words: file.write_bytes(words)) == errno.EINVAL
    assert file.read_bytes() == b""


@pytest.mark.rule("S-195")
def test_what_was_removed_is_kept_until_the_end_of_the_mount(remount: Remount) -> None:
    mount = remount()
    (mount.path / "a" / "q").mkdir(parents=True)
    queue = mount.queue("a", "q")
    publish(queue, "one")
    alone("rm .all.jsonl", queue.path)
    status = mount.control("status.json")
    assert status["removedMessages"] == 1
    mount = remount()
    assert mount.control("removed/.status")["messages"] == 0
    assert os.listdir(mount.path / ".journalfs/removed") == []
    assert undo(mount.path) == {}


@pytest.mark.rule("S-196")
@pytest.mark.parametrize("option", ["browse", "ro"])
def test_a_mount_that_takes_nothing_away_has_nothing_to_show(tmp_path: Path, option: str) -> None:
    store, mountpoint = new_store(tmp_path / "data"), tmp_path / "mnt"
    mountpoint.mkdir()
    with mounted_for_writing(store, mountpoint, "-o", option) as mount:
        assert not (mount.path / ".journalfs/removed").exists()
        done = journalfs("undo", mount.path)
        assert done.returncode == 1
        assert "this mount removes nothing" in done.stderr


@pytest.mark.rule("S-196")
def test_what_was_removed_is_its_owners_alone(address: Address) -> None:
    removed = address.mount.path / ".journalfs/removed"
    assert removed.stat().st_mode & 0o777 == 0o700
    assert (removed / ".undo").stat().st_mode & 0o077 == 0


OVERWRITE = """import os, sys
path = sys.argv[1]
try:
    if os.path.isdir(path):
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)
    os.mkdir(path)
except OSError as error:
    sys.exit(error.errno)
"""


def overwrite(path: Path) -> int:
    """What Hadoop and Spark do with a path that is to be overwritten; the errno of the call that failed."""
    done = subprocess.run([sys.executable, "-c", OVERWRITE, path], check=False, start_new_session=True)
    return done.returncode


@pytest.mark.rule("S-197")
@pytest.mark.parametrize("name", [".messages", ".all.jsonl", "_tail.jsonl", "part"])
def test_what_a_job_overwrites_that_it_cannot_write_comes_back(address: Address, name: str) -> None:
    publish(address.first, "one", "two", "three")
    if name == "part":
        until(lambda: any(one.startswith("part") for one in os.listdir(address.first.path)), "a part")
        (name,) = (one for one in os.listdir(address.first.path) if one.startswith("part"))
    stays = name.endswith(("all.jsonl", "_tail.jsonl"))
    assert overwrite(address.first.path / name) == (errno.EEXIST if stays else errno.EPERM)
    assert bodies(address.first) == []
    said = address.mount.events()[-1]
    assert said["event"] == ("emptied" if stays else "refused")
    assert said["what"].startswith(f"{address.name}/{address.first.path.name}/{name}")
    assert said["reason"].endswith("what was removed comes back by journalfs undo MNT")
    assert undo(address.mount.path) == {address.first.path.name: 3}
    assert bodies(address.first) == ["one", "two", "three"]


@pytest.mark.rule("S-197")
@pytest.mark.parametrize("name", [".where/JMSPriority > 0", ".scheduled"])
def test_a_job_that_overwrites_a_selection_removes_nothing(address: Address, name: str) -> None:
    publish(address.first, "one", "two")
    assert overwrite(address.first.path / name) == errno.EPERM
    assert bodies(address.first) == ["one", "two"]
