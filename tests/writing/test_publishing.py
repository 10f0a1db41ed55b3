"""Files that are written in an address or a queue become messages, and a shell sees them at once."""

from __future__ import annotations

import errno
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk, parts_and_tail
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once

LINES = [f"line {number}" for number in range(100)]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.mark.rule("S-68", "S-70")
@pytest.mark.parametrize(
    "command",
    [
        "cat $FILE > in.txt",
        "cat $FILE >> in",
        "cp $FILE in.txt",
        "cp -p $FILE in.log",
        "mv $FILE in.csv",
        "tee in.txt < $FILE",
        "tee -a in.lines < $FILE",
        "dd if=$FILE of=in.txt bs=7 status=none",
        "while read -r line; do echo $line; done < $FILE > in.txt",
        "while read -r line; do echo $line >> in.txt; done < $FILE",
        "rsync -a $FILE ./",
        "sed -n p $FILE > in.txt",
        "mkdir _staged; cp $FILE _staged/a.txt; mv _staged/a.txt .; rmdir _staged",
    ],
)
def test_tools_publish_lines_and_see_them_at_once(address: Address, tmp_path: Path, command: str) -> None:
    file = tmp_path / "given.txt"
    file.write_text(TEXT)
    seen = shell(f"set -e; FILE={file}; {command}\ncat *.jsonl | wc -l", address.first.path).split()
    assert seen[-1] == str(len(LINES))
    assert bodies(address.first) == LINES
    assert bodies(address.second) == []
    parts, tails = parts_and_tail(address.first.path)
    assert (parts, len(tails)) == ([], 1)
    assert address.refusals() == []


@pytest.mark.rule("S-68")
def test_an_address_hands_messages_to_all_its_queues(address: Address) -> None:
    shell("echo one > in.txt; echo two >> in.txt", address.path)
    assert bodies(address.first) == bodies(address.second) == ["one", "two"]
    assert [line["id"] for line in address.first.lines()] == [line["id"] for line in address.second.lines()]


@pytest.mark.rule("S-68")
def test_a_queue_takes_what_is_written_to_it_whatever_its_filter_says(address: Address) -> None:
    os.setxattr(address.first.path, "user.journalfs.filter", b"color = 'red'")
    shell(f"echo routed > in.txt; echo direct > {address.first.path}/in.txt", address.path)
    assert bodies(address.first) == ["direct"]
    assert bodies(address.second) == ["routed"]


STATED = '{"body":"plain"}\n{"body":"stated","properties":{"_AMQ_ROUTING_TYPE":1}}'


@pytest.mark.rule("S-68", "S-78")
@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("cat $FILE > in.jsonl", "in.jsonl"),
        ("cp $FILE _in.jsonl; mv _in.jsonl in.jsonl", "in.jsonl"),
        ("mkdir _in; echo text > _in/a.txt; cp $FILE _in/b.jsonl; mv _in in", "in"),
    ],
)
def test_a_routing_type_that_no_queue_has_is_refused_and_told(
    address: Address, tmp_path: Path, command: str, refused: str
) -> None:
    file = tmp_path / "given.jsonl"
    file.write_text(f"{STATED}\n")
    said = shell(f"set -e; FILE={file}; {command}", address.path, succeeds=False)
    assert os.strerror(errno.EDESTADDRREQ) in said
    ((what, reason),) = address.refusals()
    assert what.endswith(f"{refused}: EDESTADDRREQ")
    assert "states routing type ANYCAST (1), and all queues here are MULTICAST" in reason
    assert bodies(address.first) == bodies(address.second) == []
    staged = "mv" in command
    assert (address.path / f"_{refused}").exists() is staged
    os.setxattr(address.second.path, "user.journalfs.routing-type", b"ANYCAST")
    shell(f"mv _{refused} {refused}" if staged else f"cat {file} > in.jsonl", address.path)
    assert bodies(address.first)[-1:] == ["plain"]
    assert bodies(address.second)[-1:] == ["stated"]
    shell(f"cat {file} > in.jsonl", address.first.path)
    assert bodies(address.first)[-2:] == ["plain", "stated"]


@pytest.mark.rule("S-60")
def test_the_suffix_says_what_one_message_is(address: Address) -> None:
    write_at_once(address.first.path / "in.json", [b'{"a": [1,\n2]} "two" 3', b"\n4"])
    envelope = b'{"type":"text","priority":9,"properties":{"color":"red"},"body":"five"}\n'
    write_at_once(address.first.path / "in.jsonl", [envelope])
    write_at_once(address.first.path / "in.dat", [b"si", b"x\n"])
    lines = address.first.lines()
    assert [line.get("body") for line in lines[:5]] == ['{"a": [1,\n2]}', '"two"', "3", "4", "five"]
    assert (lines[4]["priority"], lines[4]["properties"]) == (9, {"color": "red"})
    assert (lines[5]["type"], lines[5]["body_base64"]) == ("bytes", "c2l4Cg==")
    assert len(lines) == 6


@pytest.mark.rule("S-69")
def test_lines_are_published_as_they_complete_and_the_last_one_at_the_close(address: Address) -> None:
    path = address.first.path / "in.txt"
    with path.open("wb", buffering=0) as file:
        file.write(b"one\ntw")
        assert bodies(address.first) == ["one"]
        file.write(b"o\nthree")
        assert bodies(address.first) == ["one", "two"]
        os.fsync(file.fileno())
        assert bodies(address.first) == ["one", "two"]
    assert bodies(address.first) == ["one", "two", "three"]


@pytest.mark.rule("S-69")
def test_a_descriptor_that_a_child_closes_is_not_the_last(address: Address) -> None:
    shell('exec 3> in.txt; printf "one " >&3; (true); printf two >&3; exec 3>&-', address.first.path)
    assert bodies(address.first) == ["one two"]


@pytest.mark.rule("S-70")
def test_what_comes_after_the_last_close_waits_for_the_publication(address: Address, tmp_path: Path) -> None:
    """The kernel does not wait for the close of a file, and a large body takes its time."""
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(range(256)) * 40_000)
    for number in range(1, 6):
        seen = shell(f"cp {large} {number}.bin; ls .messages | wc -l; wc -l < .all.jsonl", address.first.path)
        assert seen.split() == [str(number), str(number)]
    (name, *_) = address.first.listed()
    assert (address.first.path / ".messages" / name).read_bytes() == large.read_bytes()


@pytest.mark.rule("S-71")
def test_a_name_is_there_while_it_is_written_and_gone_afterwards(address: Address) -> None:
    path = address.first.path / "in.txt"
    with path.open("wb", buffering=0) as file:
        file.write(b"half")
        assert path.stat().st_size == os.fstat(file.fileno()).st_size == 4
        assert "in.txt" not in os.listdir(address.first.path)
        path.chmod(0o600)
        os.chown(path, os.getuid(), os.getgid())
        os.utime(path, (1, 1))
        os.fchmod(file.fileno(), 0o644)
        os.ftruncate(file.fileno(), 4)
        assert errno_of(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) == errno.EEXIST
    assert not path.exists()
    assert errno_of(path.chmod, 0o600) == errno.ENOENT
    assert bodies(address.first) == ["half"]


@pytest.mark.rule("S-71")
@pytest.mark.parametrize(
    ("name", "begun", "published", "dropped"),
    [
        ("in.txt", b"one\ntwo", ["one"], b"two"),
        ("in.json", b"1 [2", ["1"], b"[2"),
        ("in.jsonl", b'{"type":"te', [], b'{"type":"te'),
        ("in.bin", b"one\ntwo", [], b"one\ntwo"),
    ],
)
def test_what_is_written_goes_with_its_name(
    address: Address, name: str, begun: bytes, published: list[str], dropped: bytes
) -> None:
    path = address.first.path / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, begun)
    if name in {"in.txt", "in.bin"}:  # what may end here
        os.close(os.dup(descriptor))
    path.unlink()
    assert not path.exists()
    assert os.write(descriptor, b"]\nmore\nthan that") > 0
    os.fsync(descriptor)
    os.close(descriptor)
    assert bodies(address.first) == published
    said = [event for event in address.mount.events() if event["event"] == "dropped"][-1]
    assert said["what"] == f"{address.name}/{address.name}-first/{name}"
    assert f" {len(dropped)} bytes that were not published" in said["reason"]
    assert address.refusals() == []


@pytest.mark.rule("S-71")
def test_what_waits_for_room_goes_with_its_name(address: Address) -> None:
    for setting, value in (("max-size-messages", b"0"), ("address-full-policy", b"BLOCK")):
        os.setxattr(address.path, f"user.journalfs.{setting}", value)
    path = address.first.path / "in.txt"
    with subprocess.Popen(["sh", "-c", "echo one > in.txt"], cwd=address.first.path) as writer:
        status = address.path / ".status"
        until(lambda: json.loads(status.read_bytes())["blockedWriters"] == 1, "it waits")
        path.unlink()
        os.removexattr(address.path, "user.journalfs.max-size-messages")
    assert writer.returncode == 0
    assert bodies(address.first) == []


@pytest.mark.rule("S-71")
def test_what_is_written_cannot_be_read_through_its_name(address: Address) -> None:
    path = address.first.path / "in.txt"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        assert errno_of(os.read, descriptor, 10) == errno.EBADF
        assert errno_of(path.read_bytes) == errno.EACCES
    finally:
        os.close(descriptor)


@pytest.mark.rule("S-72")
def test_a_file_nothing_was_written_to_publishes_nothing(address: Address) -> None:
    shell(
        "set -e; touch a.txt; touch a.bin; : > b.bin; cp /dev/null c.bin; truncate -s 0 d.txt; "
        "touch _e.bin; mv _e.bin e.bin; dd if=/dev/null of=f.bin status=none",
        address.first.path,
    )
    assert address.first.lines() == []


@pytest.mark.rule("S-73")
def test_bytes_are_taken_from_front_to_back(address: Address) -> None:
    path = address.first.path / "in.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, b"one\n")
        assert errno_of(os.pwrite, descriptor, b"ONE\n", 0) == errno.EINVAL
        assert errno_of(os.pwrite, descriptor, b"\0", 100) == errno.EINVAL
        assert errno_of(os.ftruncate, descriptor, 100) == errno.EINVAL
        assert errno_of(os.posix_fallocate, descriptor, 0, 100) == errno.EINVAL
        os.write(descriptor, b"two\n")
    finally:
        os.close(descriptor)
    shell("truncate -s 10 other.txt", address.first.path, succeeds=False)
    assert bodies(address.first) == ["one", "two"]
    assert {what for what, _ in address.refusals()} == {
        f"{address.name}-first/in.txt: EINVAL",
        f"{address.name}-first/other.txt: EINVAL",
    }


@pytest.mark.rule("S-74")
def test_a_write_with_a_bad_line_publishes_nothing_and_says_why(address: Address) -> None:
    path = address.first.path / "in.jsonl"
    good, bad = b'{"type":"text","body":"good"}\n', b'{"type":"text","prio":1}\n'
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, good)
        assert errno_of(os.write, descriptor, good + bad) == errno.EINVAL
        assert bodies(address.first) == ["good"]
        os.write(descriptor, good)
    finally:
        os.close(descriptor)
    assert bodies(address.first) == ["good", "good"]
    ((what, reason),) = address.refusals()
    assert what == f"{address.name}-first/in.jsonl: EINVAL"
    assert "prio" in reason
    assert "line 3" in reason


@pytest.mark.rule("S-74")
def test_after_a_failure_an_unfinished_line_is_not_published(address: Address) -> None:
    shell(
        r"""(printf '{"type":"te'; printf 'xt","body":1}\n') > in.jsonl""", address.first.path, succeeds=False
    )
    assert address.first.lines() == []
    # The write, and the close of what it left unfinished.
    assert {what for what, _ in address.refusals()} == {f"{address.name}-first/in.jsonl: EINVAL"}


@pytest.mark.rule("S-64")
def test_a_close_refuses_what_ends_too_early(address: Address) -> None:
    path = address.first.path / "short.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b'{"a":1} [2,3')
    assert errno_of(os.close, descriptor) == errno.EINVAL


@pytest.mark.rule("S-75")
def test_writers_of_one_name_do_not_mix(address: Address) -> None:
    path = address.first.path / "in.txt"
    with path.open("ab", buffering=0) as one, path.open("ab", buffering=0) as other:
        assert os.fstat(one.fileno()).st_ino != os.fstat(other.fileno()).st_ino
        one.write(b"one be")
        other.write(b"other be")
        one.write(b"gun\n")
        other.write(b"gun\n")
    assert bodies(address.first) == ["one begun", "other begun"]


@pytest.mark.rule("S-75")
def test_a_name_that_is_written_is_there_for_who_wants_none(address: Address) -> None:
    path, alone = address.first.path / "in.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL
    events = address.mount.events()
    with path.open("wb", buffering=0) as one:
        assert errno_of(os.open, path, alone) == errno.EEXIST
        one.write(b"one\n")
        assert errno_of(os.open, path, alone) == errno.EEXIST
    with open(os.open(path, alone), "wb") as other:
        other.write(b"other\n")
    assert bodies(address.first) == ["one", "other"]
    assert address.mount.events() == events


@pytest.mark.rule("S-75")
def test_many_writers_of_one_name_lose_nothing_and_keep_their_order(address: Address) -> None:
    script = "for number in $(seq 50); do echo $0 $number >> in.txt; done"
    running = [
        subprocess.Popen(["bash", "-c", script, str(writer)], cwd=address.first.path) for writer in range(16)
    ]
    assert [process.wait() for process in running] == [0] * 16
    found = [tuple(map(int, body.split())) for body in bodies(address.first)]
    assert len(found) == 16 * 50
    for writer in range(16):
        assert [number for who, number in found if who == writer] == list(range(1, 51))


@pytest.mark.rule("S-75")
def test_processes_that_share_a_descriptor_lose_nothing(address: Address) -> None:
    script = "for who in 1 2 3 4; do (for n in $(seq 50); do echo $who $n; done) & done > in.txt; wait"
    shell(script, address.first.path)
    found = [tuple(map(int, body.split())) for body in bodies(address.first)]
    assert sorted(found) == [(who, number) for who in (1, 2, 3, 4) for number in range(1, 51)]
    for who in (1, 2, 3, 4):
        assert [number for one, number in found if one == who] == list(range(1, 51))


@pytest.mark.parametrize("loop", ["fast", "stock"])
def test_others_are_served_while_writers_wait(remount: Remount, loop: str) -> None:
    mount = remount(f"loop={loop}")
    address, other = Address(mount), Address(mount)
    stop = threading.Event()

    def write(number: int) -> None:
        while not stop.is_set():
            write_at_once(address.path / f"{number}.txt", [b"a line\n"])

    writers = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(50):
            assert len(os.listdir(other.path)) == 2
            assert (other.first.path / ".status").read_bytes()
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    found = bodies(address.first)
    assert len(found) >= 20
    assert set(found) == {"a line"}


@pytest.mark.rule("S-76")
def test_where_nothing_is_written(mount: MountedStore, address: Address) -> None:
    write_at_once(address.first.path / "in.txt", [b"one\n"])
    queue = address.first.path
    (message,) = address.first.listed()
    for folder in (
        mount.path,
        queue / ".messages",
        queue / ".where" / "color='red'",
        mount.path / ".journalfs",
    ):
        assert errno_of((folder / "in.txt").write_bytes, b"two\n") == errno.EPERM, folder
    for folder in (queue, queue / ".messages", mount.path / ".journalfs"):
        assert errno_of((folder / "directory").mkdir) == errno.EPERM, folder
    assert errno_of((queue / ".messages" / message).write_bytes, b"two\n") == errno.EPERM
    assert errno_of((queue / ".take").write_bytes, b"two\n") == errno.EPERM
    assert errno_of(os.symlink, "in.txt", queue / "link") == errno.EPERM
    assert errno_of(os.link, queue / ".messages" / message, queue / "link") == errno.EPERM
    assert errno_of(os.mkfifo, queue / "pipe") == errno.EPERM
    assert errno_of((queue / ("x" * 256)).write_bytes, b"") == errno.ENAMETOOLONG
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-77", "S-87")
def test_what_was_open_when_the_mount_ended(remount: Remount) -> None:
    """What its writer was told is kept is published, the rest is not: it was not done."""
    mount = remount()
    path = Address(mount).first.path
    script = (
        "import os, sys\n"
        "told, untold = (os.open(n, os.O_WRONLY | os.O_CREAT) for n in ('told.txt', 'untold.txt'))\n"
        "os.write(told, b'one\\ntwo'); os.fsync(told)\n"
        "os.write(untold, b'three\\nfour')\n"
        "settings = os.open('.settings', os.O_WRONLY)\n"
        "os.write(settings, b'ring-size = 1\\n'); os.fsync(settings)\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        serving = os.pidfd_open(mount.process_id())
        signal.pidfd_send_signal(serving, signal.SIGTERM)
        ended, _, _ = select.select([serving], [], [], COMMAND_S_MAX)
        os.close(serving)
        assert ended
        writer.communicate()
    again = QueueOnDisk(remount().path / path.relative_to(mount.path))
    assert sorted(bodies(again)) == ["one", "three", "two"]
    assert os.getxattr(again.path, "user.journalfs.ring-size") == b"-1"


COPIES = "python3 -c 'import shutil; shutil.{}'"


@pytest.mark.rule("S-71", "S-79")
@pytest.mark.parametrize(
    ("command", "succeeds"),
    [
        (COPIES.format('copyfile("OUT/one.txt", "in.txt")'), True),
        ("cp -p OUT/one.txt in.txt", True),
        ("tar c -C OUT one.txt | tar x", True),
        ("install OUT/one.txt in.txt", False),
        ("rsync OUT/one.txt .", True),
        ("rsync --inplace OUT/one.txt .", False),
        ("rsync --temp-dir=OUT OUT/one.txt .", False),
        (COPIES.format('copy("OUT/one.txt", "in.txt")'), False),
        (COPIES.format('copy2("OUT/one.txt", "in.txt")'), False),
        (COPIES.format('move("OUT/one.txt", "in.txt")'), False),
        (COPIES.format('copytree("OUT", ".", dirs_exist_ok=True)'), False),
        (COPIES.format('copy2("OUT/one.txt", "_in")') + " && mv _in in.txt", True),
        (COPIES.format('copytree("OUT", "_in")') + " && mv _in in", True),
    ],
)
def test_tools_that_look_at_what_they_wrote(
    address: Address, command: str, succeeds: bool, tmp_path: Path
) -> None:
    (tmp_path / "one.txt").write_text("one\n")
    shell(command.replace("OUT", str(tmp_path)), address.first.path, succeeds=succeeds)
    assert bodies(address.first) == ["one"]
    assert (tmp_path / "one.txt").exists()


@pytest.mark.rule("S-85")
def test_directories_of_a_tree_are_queues_in_an_address_and_files_where_they_are_staged(
    address: Address, tmp_path: Path
) -> None:
    names = f"{address.name}-tree", "below"
    (tmp_path / names[0] / names[1]).mkdir(parents=True)
    for folder in (tmp_path / names[0], tmp_path / names[0] / names[1]):
        (folder / "in.txt").write_text("one\n")
    shell(f"tar c -C {tmp_path} {names[0]} | tar x", address.path, succeeds=False)
    assert bodies(QueueOnDisk(address.path / names[0])) == ["one"]
    shell(f"mkdir _in && cp -r {tmp_path}/{names[0]} _in && mv _in in", address.first.path)
    assert bodies(address.first) == ["one", "one"]


@pytest.mark.rule("S-40")
def test_what_may_change_is_mapped_privately(address: Address) -> None:
    write_at_once(address.first.path / "in.txt", [b"one\n"])
    until(lambda: any(address.first.path.glob("part-*")), "they get a part")
    part = next(address.first.path.glob("part-*"))
    message = address.first.path / ".messages" / address.first.listed()[0]
    staged = address.path / "_staged"
    staged.write_bytes(b"staged")
    for path in (part, message):
        for kind in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            assert mapped(path, kind) == path.read_bytes()
    for path in (address.first.path / ".all.jsonl", address.first.path / ".settings", staged):
        assert mapped(path, mmap.MAP_PRIVATE) == path.read_bytes()
        assert errno_of(mapped, path, mmap.MAP_SHARED) == errno.ENODEV


def mapped(path: Path, kind: int) -> bytes:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=kind, prot=mmap.PROT_READ) as content:
        return content[:]
