"""Writers of an address that is full, and whose policy is to let them wait."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once

# What `print` left in a buffer is written once more at the interpreter's end, whatever a signal did before.
PYTHON_LINES = "import os; os.write(1, b'one\\ntwo\\n')"


def set_of(path: Path, name: str, value: object) -> None:
    os.setxattr(path, f"user.journalfs.{name}", str(value).encode())


def status_of(address: Address) -> dict[str, Any]:
    status: dict[str, Any] = json.loads((address.path / ".status").read_bytes())
    return status


def fill(address: Address, messages: int = 2, policy: str = "BLOCK") -> Address:
    """Make it full, with so many messages in its first queue."""
    set_of(address.path, "max-size-messages", messages)
    set_of(address.path, "address-full-policy", policy)
    shell(f"seq -f old-%g {messages} > in.txt", address.first.path)
    return address


@pytest.fixture
def full(address: Address) -> Address:
    return fill(address)


def await_blocked(address: Address, writers: int) -> None:
    deadline = time.monotonic() + COMMAND_S_MAX
    while status_of(address)["blockedWriters"] != writers:
        assert time.monotonic() < deadline, status_of(address)
        time.sleep(0.01)


def await_messages(queue: QueueOnDisk, messages: int) -> None:
    deadline = time.monotonic() + COMMAND_S_MAX
    while queue.status()["messages"] != messages:
        assert time.monotonic() < deadline, queue.status()
        time.sleep(0.01)


@contextmanager
def waiting(address: Address, command: str, *, writers: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A shell command that waits for room, in a process group of its own."""
    before = status_of(address)["blockedWriters"]
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=address.first.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        await_blocked(address, before + writers)
        yield process
        process.wait(COMMAND_S_MAX)
    finally:
        process.kill()
        process.communicate()


def consume(queue: QueueOnDisk, count: int = 1) -> None:
    for name in queue.listed()[:count]:
        (queue.path / ".messages" / name).unlink()


@pytest.mark.rule("S-102")
def test_a_writer_waits_until_there_is_room(full: Address) -> None:
    with waiting(full, "echo new > in.txt") as writer:
        assert writer.poll() is None
        assert bodies(full.first) == ["old-1", "old-2"]
        consume(full.first)
    assert writer.returncode == 0
    assert bodies(full.first) == ["old-2", "new"]
    assert status_of(full)["blockedWriters"] == 0


@pytest.mark.rule("S-102", "S-105")
def test_room_comes_with_another_limit(full: Address) -> None:
    with waiting(full, "echo new > in.txt"):
        set_of(full.path, "max-size-messages", 3)
    with waiting(full, "echo newer > in.txt"):
        (full.path / ".settings").write_text('address-full-policy = "PAGE"\n')
    assert bodies(full.first) == ["old-1", "old-2", "new", "newer"]


@pytest.mark.rule("S-102")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize(
    "command",
    [
        "echo new > in.txt",
        "exec cat /etc/passwd > in.txt",
        "exec cat /etc/passwd > in.bin",
        "exec dd if=/dev/zero of=in.bin bs=1M count=2 status=none",
        "{ seq 3; seq 4; } > in.txt",
        f'exec {sys.executable} -c "{PYTHON_LINES}" > in.txt',
    ],
)
def test_a_signal_ends_the_wait(full: Address, command: str, number: int) -> None:
    with waiting(full, command) as writer:
        os.killpg(writer.pid, number)
    assert writer.returncode != 0
    assert bodies(full.first) == ["old-1", "old-2"]
    consume(full.first, 2)
    assert bodies(full.first) == []


def test_a_signal_for_a_child_that_writes_ends_its_wait_alone(full: Address) -> None:
    with waiting(full, "{ seq 3 & wait $!; echo $? >&2; } > in.txt") as writer:
        (child,) = Path(f"/proc/{writer.pid}/task/{writer.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        assert writer.communicate(timeout=COMMAND_S_MAX)[1] == f"{128 + signal.SIGTERM}\n"
    assert bodies(full.first) == ["old-1", "old-2"]


@pytest.mark.rule("S-102")
def test_a_signal_that_only_reports_does_not_end_the_wait(full: Address) -> None:
    with waiting(full, "trap 'true' CHLD WINCH; echo new > in.txt") as writer:
        os.kill(writer.pid, signal.SIGWINCH)
        os.kill(writer.pid, signal.SIGCHLD)
        with waiting(full, "exec cat /etc/hostname > in.txt") as other:
            # Whoever is told to stop is found at a look that has seen the other one, too.
            os.kill(other.pid, signal.SIGTERM)
        assert writer.poll() is None
        consume(full.first)
    assert writer.returncode == 0
    assert bodies(full.first) == ["old-2", "new"]


@pytest.mark.rule("S-102", "S-123")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_asks_to_stop_counts_after_one_that_does_not(
    full: Address, ending: signal.Signals
) -> None:
    """Though the kernel tells of the first only. Nothing of what waited is published."""
    signals = f"sleep 0.5; kill -WINCH $$; sleep 0.5; kill -{ending.name.removeprefix('SIG')} $$"
    with waiting(full, f"trap 'true' WINCH; {{ {signals}; }} & echo new > in.txt") as writer:
        pass
    assert writer.returncode == -ending
    consume(full.first)
    shell("echo later > in.txt", full.first.path)
    assert bodies(full.first) == ["old-2", "later"]


@pytest.mark.rule("S-102")
def test_a_long_write_that_is_interrupted_is_short(full: Address) -> None:
    """The kernel hands it on in pieces, each of which is taken or not."""
    consume(full.first, 2)
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "file = os.open('in.txt', os.O_WRONLY | os.O_CREAT)\n"
        "print(os.write(file, (b'x' * 1023 + b'\\n') * 3072))\n"
    )
    with waiting(full, f'exec {sys.executable} -c "{script}"') as writer:
        os.kill(writer.pid, signal.SIGTERM)
        out, _ = writer.communicate(timeout=COMMAND_S_MAX)
    assert 0 < int(out) <= 1 << 20
    assert [len(body) for body in bodies(full.first)] == [1023] * (int(out) // 1024)


@pytest.mark.rule("S-102")
def test_who_does_not_want_to_wait_is_told(full: Address) -> None:
    path = full.first.path / "in.txt"
    assert errno_of(write_at_once, path, [b"new\n"], os.O_NONBLOCK) == errno.EAGAIN
    consume(full.first)
    write_at_once(path, [b"new\n"], os.O_NONBLOCK)
    assert bodies(full.first) == ["old-2", "new"]


@pytest.mark.rule("S-102")
def test_a_rename_does_not_keep_the_directory_from_those_who_make_room(full: Address) -> None:
    """It waits for a moment only, because the kernel locks the directory until it is answered."""
    shell("echo new > _staged", full.first.path)
    renamed = full.first.path / "_staged", full.first.path / "in.txt"
    assert errno_of(os.rename, *renamed) == errno.EAGAIN
    assert (full.first.path / "_staged").read_text() == "new\n"
    assert full.refusals()[-1][0].endswith("_staged: EAGAIN")
    shell("rm .all.jsonl", full.first.path)
    os.rename(*renamed)
    assert bodies(full.first) == ["new"]


@pytest.mark.rule("S-102")
def test_nothing_of_a_line_that_was_given_up_is_published(full: Address) -> None:
    consume(full.first)
    descriptor = os.open(full.first.path / "in.txt", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)
    try:
        os.write(descriptor, b"begin")
        shell("echo old-3 > in.txt", full.first.path)
        assert errno_of(os.write, descriptor, b"ning\n") == errno.EAGAIN
    finally:
        assert errno_of(os.close, descriptor) == errno.EAGAIN
    assert bodies(full.first) == ["old-2", "old-3"]
    ((what, reason),) = full.refusals()
    assert what.endswith("in.txt: EAGAIN")
    assert "the 5 bytes before it are not published" in reason


@pytest.mark.rule("S-74")
def test_what_had_to_wait_can_be_written_again(full: Address) -> None:
    descriptor = os.open(full.first.path / "in.txt", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)
    assert errno_of(os.write, descriptor, b"new\nre") == errno.EAGAIN
    consume(full.first, 2)
    os.write(descriptor, b"new\nre")
    os.write(descriptor, b"st")
    os.close(descriptor)
    assert bodies(full.first) == ["new", "rest"]
    assert full.refusals() == []


@pytest.mark.rule("S-102")
def test_closing_another_descriptor_does_not_wait(full: Address) -> None:
    script = (
        "import subprocess\n"
        "file = open('in.txt', 'wb')\n"
        "child = subprocess.Popen(['seq', '3'], stdout=file)\n"
        "input()\n"
        "file.close()\n"
        "print('closed', flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=full.first.path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        await_blocked(full, 1)
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "closed\n"
        assert status_of(full)["blockedWriters"] == 1
        consume(full.first, 2)
    assert writer.returncode == 0
    assert bodies(full.first) == ["1", "2", "3"]


@pytest.mark.rule("S-102")
def test_many_writers_get_through_one_after_the_other(full: Address) -> None:
    writers = 24
    commands = "".join(f"echo new-{number} > in.txt & " for number in range(writers))
    with waiting(full, f"{commands} wait", writers=writers) as group:
        seen: list[str] = []
        while len(seen) < writers + 2:
            await_messages(full.first, 2)
            seen += bodies(full.first)
            consume(full.first, 2)
            if len(seen) == writers + 2:
                break
    assert group.returncode == 0
    assert seen[:2] == ["old-1", "old-2"]
    assert sorted(seen[2:]) == sorted(f"new-{number}" for number in range(writers))
    assert bodies(full.first) == []


def test_others_go_on_while_writers_wait(full: Address, mount: MountedStore) -> None:
    other = Address(mount)
    with waiting(full, "echo new > in.txt") as writer:
        shell("seq 100 > in.txt; cat *.jsonl | wc -l", other.first.path)
        assert len(bodies(other.first)) == 100
        consume(full.first)
    assert writer.returncode == 0


@pytest.mark.rule("S-100")
@pytest.mark.parametrize("command", ["echo new > in.txt", "cp /etc/passwd in.bin"])
def test_fail_is_told_at_once(address: Address, command: str) -> None:
    full = fill(address, policy="FAIL")
    assert "Disk quota exceeded" in shell(command, full.first.path, succeeds=False)
    shell("echo new > _staged", full.first.path)
    assert errno_of(os.rename, full.first.path / "_staged", full.first.path / "in.txt") == errno.EDQUOT
    assert (full.first.path / "_staged").read_text() == "new\n"
    assert bodies(full.first) == ["old-1", "old-2"]
    assert any("max-size-messages" in reason for _, reason in full.refusals())


@pytest.mark.rule("S-100", "S-105")
def test_drop_takes_and_counts(address: Address) -> None:
    full = fill(address, policy="DROP")
    shell("seq 3 > in.txt; cp /etc/passwd in.bin; echo staged > _s; mv _s in.txt", full.first.path)
    assert bodies(full.first) == ["old-1", "old-2"]
    status = status_of(full)
    assert status["droppedMessages"] == 5
    assert (status["limit"], status["limitAction"]) == ("max-size-messages", "drop")


def test_a_mount_that_ends_lets_go_of_who_waits(remount: Remount) -> None:
    mount = remount()
    full = fill(Address(mount))
    with waiting(full, "echo new > in.txt") as writer:
        daemon = mount.process_id()
        os.kill(daemon, signal.SIGTERM)
    assert writer.returncode != 0
    until(lambda: not Path(f"/proc/{daemon}").exists(), "the mount's process has ended")
    mount = remount()
    assert bodies(QueueOnDisk(full.first.path)) == ["old-1", "old-2"]


@pytest.mark.rule("S-101")
def test_what_was_taken_is_published_at_the_close(full: Address) -> None:
    consume(full.first)
    with (full.first.path / "in.bin").open("wb", buffering=0) as whole:
        whole.write(b"whole")
        with (full.first.path / "in.txt").open("wb", buffering=0) as line:
            line.write(b"unfinished")
            shell("echo old-3 > in.txt", full.first.path)
            assert status_of(full)["limit"] == "max-size-messages"
    assert [line.get("body", "whole") for line in full.first.lines()] == [
        "old-2",
        "old-3",
        "unfinished",
        "whole",
    ]


@pytest.mark.rule("S-106")
def test_messages_are_moved_into_a_full_address(full: Address, mount: MountedStore) -> None:
    other = Address(mount)
    shell("echo moved > in.txt", other.first.path)
    (name,) = other.first.listed()
    set_of(full.path, "address-full-policy", "FAIL")
    source = other.first.path / ".messages" / name
    assert errno_of(os.rename, source, full.first.path / name) == errno.EDQUOT
    set_of(full.path, "address-full-policy", "BLOCK")
    source.rename(full.first.path / name)
    assert bodies(full.first) == ["old-1", "old-2", "moved"]
