"""`.take` with real shells: who gets a message, when it is acknowledged, when it comes back."""

from __future__ import annotations

import errno
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once
from tests.writing.streams import next_line, reads


def publish(queue: QueueOnDisk, *texts: str) -> None:
    write_at_once(queue.path / "in.txt", ["".join(f"{text}\n" for text in texts).encode()])


def take(queue: QueueOnDisk) -> Path:
    return queue.path / ".take"


def counts(queue: QueueOnDisk) -> list[int]:
    """Delivery counts of the messages, as they are now and not as a part shows them."""
    names = (queue.path / ".messages" / name for name in queue.listed())
    return [int(os.getxattr(name, "user.journalfs.deliveryCount")) for name in names if _counted(name)]


def _counted(path: Path) -> bool:
    return "user.journalfs.deliveryCount" in os.listxattr(path)


def held(queue: QueueOnDisk) -> int:
    return len(os.listdir(queue.path / ".delivering" / ".messages"))


@contextmanager
def running(
    *command: str | Path, cwd: Path, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, cwd=cwd, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.rule("S-117")
def test_head_takes_one(address: Address) -> None:
    publish(address.first, "one", "two", "three")
    assert '"body":"one"' in shell(f"head -n 1 {address.first.path}/.take", address.path)
    assert bodies(address.first) == ["two", "three"]
    assert '"body":"two"' in shell(f"head -n 1 < {address.first.path}/.take", address.path)
    assert bodies(address.first) == ["three"]
    assert len(bodies(address.second)) == 0


@pytest.mark.rule("S-117")
def test_it_is_reached_by_name_only_and_by_its_owner(address: Address) -> None:
    publish(address.first, "one")
    assert not {".take", ".follow"} & set(os.listdir(address.first.path))
    assert take(address.first).stat().st_mode & 0o777 == 0o600
    assert take(address.first).stat().st_size == 0
    for place in (address.path, address.first.path / ".scheduled", address.first.path / ".delivering"):
        assert errno_of((place / ".take").stat) == errno.ENOENT
        assert errno_of((place / ".follow").stat) == errno.ENOENT
    assert errno_of(take(address.first).unlink) == errno.EPERM
    assert errno_of(os.open, take(address.first), os.O_WRONLY) == errno.EPERM
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-117")
@pytest.mark.parametrize("name", [".take", ".follow"])
def test_it_is_read_from_where_the_reader_is(address: Address, name: str) -> None:
    queue = address.first
    publish(queue, "one", "two")
    descriptor = os.open(queue.path / name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert errno_of(os.pread, descriptor, 10, 5) == errno.EINVAL
        os.lseek(descriptor, 5, os.SEEK_SET)
        assert errno_of(os.read, descriptor, 10) == errno.EINVAL
    finally:
        os.close(descriptor)
    assert bodies(queue) == ["one", "two"]


@pytest.mark.rule("S-117")
@pytest.mark.parametrize("name", ["bash", "dash"])
def test_a_loop_of_a_shell_consumes(address: Address, name: str) -> None:
    publish(address.first, *(f"text {number}" for number in range(20)), "last")
    script = """while read -r line; do /bin/echo "$line" | sed 's/.*"body":"\\(.*\\)"}/\\1/'
        case $line in *last*) break;; esac; done < "$1" """
    done = subprocess.run(
        [name, "-c", script, name, take(address.first)],
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=True,
    )
    assert done.stdout.splitlines() == [*(f"text {number}" for number in range(20)), "last"]
    assert bodies(address.first) == []


@pytest.mark.rule("S-120")
@pytest.mark.parametrize(
    "script",
    [
        'while read -r line; do exit 3; done < "$1"',
        'set -e; while read -r line; do false; done < "$1"',
        'while read -r line; do kill -KILL $$; done < "$1"',
        'while read -r line; do kill -TERM $$; sleep 10; done < "$1"',
        'exec 3< "$1"; read -r line <&3; exit 1',
        'read -r line < "$1"; exit 1',
        'head -n 1 "$1" > /dev/full',
        f"""{sys.executable} -c 'import sys
with open(sys.argv[1]) as lines:
    for line in lines: raise ValueError' "$1" """,
        f"""{sys.executable} -c 'import sys
for line in sys.stdin: raise ValueError' < "$1" """,
        f"""{sys.executable} -c 'import os, sys
lines = open(sys.argv[1], "rb", buffering=0); lines.readline(); os._exit(2)' "$1" """,
        """perl -e 'open F, $ARGV[0]; <F>; die' "$1" """,
    ],
)
def test_who_fails_gives_its_message_back(address: Address, script: str) -> None:
    publish(address.first, "one", "two")
    subprocess.run(
        ["bash", "-c", script, "bash", take(address.first)],
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    until(lambda: held(address.first) == 0, "nobody has a message")
    left = bodies(address.first)
    assert left in (["one", "two"], [])
    assert counts(address.first) == [1]


@pytest.mark.rule("S-120")
@pytest.mark.parametrize(
    "script",
    [
        'while read -r line; do exit 0; done < "$1"',
        'while read -r line; do sleep 0; false; break; done < "$1"',
        'read -r line < "$1"',
        'exec 3< "$1"; read -r line <&3',
        'exec 3< "$1"; read -r line <&3; (exit 5); bash -c "exit 6"; exit 0',
        f"""{sys.executable} -c 'import sys
with open(sys.argv[1]) as lines: next(lines)' "$1" """,
        f"""{sys.executable} -c 'import sys
for line in sys.stdin: sys.exit(0)' < "$1" """,
    ],
)
def test_who_ends_well_has_consumed(address: Address, script: str) -> None:
    publish(address.first, "one", "two")
    subprocess.run(
        ["bash", "-c", script, "bash", take(address.first)],
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert bodies(address.first) == ["two"]
    assert counts(address.first) == []
    assert held(address.first) == 0


@pytest.mark.rule("S-120")
@pytest.mark.parametrize(
    "script",
    [
        "head -c 50 .take",
        "dd if=.take bs=50 count=1 status=none",
        "dd bs=50 count=1 status=none < .take",
        'exec 3< .take; read -r -N 50 part <&3; exec 3<&-; echo "$part"',
    ],
)
def test_who_reads_a_part_has_not_consumed(address: Address, script: str) -> None:
    publish(address.first, "one", "two")
    for _ in range(2):
        assert shell(f"cd {address.first.path}; {script}", address.path).startswith('{"queue":"')
        until(lambda: held(address.first) == 0, "it is given back")
    assert bodies(address.first) == ["one", "two"]
    assert counts(address.first) == []
    assert '"body":"one"' in shell(f"head -n 1 {take(address.first)}", address.path)


@pytest.mark.rule("S-120")
def test_the_line_feed_may_be_left(address: Address) -> None:
    publish(address.first, "one", "two")
    with take(address.first).open("rb") as stream:
        size = len(stream.readline())
    until(lambda: bodies(address.first) == ["two"], "it is acknowledged")
    shell(f"head -c {size - 1} {take(address.first)}", address.path)
    until(lambda: bodies(address.first) == [], "it is acknowledged")


@pytest.mark.rule("S-117")
@pytest.mark.parametrize("command", ["tail -n 1 -f", "sort"])
def test_who_reads_all_takes_all(address: Address, command: str) -> None:
    publish(address.first, "one", "two", "three")
    with running(*command.split(), take(address.first), cwd=address.path) as process:
        until(lambda: address.first.status()["messageCount"] == 0, "it came back for more than there is")
        process.terminate()


@pytest.mark.rule("S-117")
def test_who_takes_a_short_read_for_the_end_takes_one(address: Address) -> None:
    """As `tac` does with what has the type of a file."""
    publish(address.first, "one", "two", "three")
    assert '"body":"one"' in shell(f"tac {take(address.first)}", address.path)
    until(lambda: bodies(address.first) == ["two", "three"], "it is acknowledged")
    assert held(address.first) == 0


@pytest.mark.rule("S-116")
def test_what_is_taken_first_is_not_followed(address: Address) -> None:
    with (address.first.path / ".follow").open() as lines:
        publish(address.first, "one", "two")
        shell(f"head -n 1 {take(address.first)}", address.path)
        until(lambda: bodies(address.first) == ["two"], "it is acknowledged")
        assert json.loads(lines.readline())["body"] == "two"


@pytest.mark.rule("S-120")
def test_who_closes_it_and_lives_on_has_consumed(address: Address) -> None:
    publish(address.first, "one")
    with take(address.first).open() as lines:
        assert "one" in lines.readline()
        assert held(address.first) == 1
        assert address.first.status()["deliveringCount"] == 1
    assert held(address.first) == 1
    until(lambda: bodies(address.first) == [], "it is acknowledged")


@pytest.mark.rule("S-120")
def test_who_reads_on_by_another_opening_has_consumed(address: Address) -> None:
    publish(address.first, *map(str, range(50)))
    script = 'for n in $(seq 50); do read -r line < "$1"; echo "$line"; done; kill -KILL $$'
    done = subprocess.run(
        ["bash", "-c", script, "bash", take(address.first)],
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert done.stdout.count("\n") == 50
    until(lambda: held(address.first) == 0, "nobody has a message")
    assert bodies(address.first) == ["49"]
    assert counts(address.first) == [1]


@pytest.mark.rule("S-119", "S-83")
def test_what_somebody_has_is_busy(address: Address) -> None:
    publish(address.first, "one", "two")
    name = address.first.listed()[0]
    with take(address.first).open() as lines:
        lines.readline()
        assert os.listdir(address.first.path / ".delivering" / ".messages") == [name]
        message = address.first.path / ".messages" / name
        assert errno_of(message.unlink) == errno.EBUSY
        assert errno_of(message.rename, address.second.path / name) == errno.EBUSY
        assert errno_of(address.first.path.rmdir) == errno.ENOTEMPTY
        lines.readline()
        assert bodies(address.first) == ["two"]


@pytest.mark.rule("S-119", "S-85")
def test_a_queue_that_is_read_is_busy(address: Address) -> None:
    with take(address.first).open():
        assert errno_of(address.first.path.rmdir) == errno.EBUSY
    shell(f"until rmdir {address.first.path} 2> /dev/null; do :; done", address.path)


@pytest.mark.rule("S-117")
def test_each_message_goes_to_one_of_many(address: Address) -> None:
    script = 'while read -r line; do echo "$line"; case $line in *stop*) exit 0;; esac; done < "$1"'
    readers, total = 5, 300
    with running("true", cwd=address.path):
        processes = [
            subprocess.Popen(
                ["bash", "-c", script, "bash", take(address.first)], stdout=subprocess.PIPE, text=True
            )
            for _ in range(readers)
        ]
        publish(address.first, *(f"text {number}." for number in range(total)))
        until(lambda: len(bodies(address.first)) <= readers, "all is taken")
        publish(address.first, *(f"stop {number}." for number in range(readers)))
        printed = [process.communicate(timeout=COMMAND_S_MAX)[0] for process in processes]
    seen = Counter(line for output in printed for line in output.splitlines())
    assert len(seen) == total + readers
    assert set(seen.values()) == {1}
    assert bodies(address.first) == []


@pytest.mark.rule("S-120")
def test_a_reader_killed_at_any_byte_gives_back(address: Address) -> None:
    """Nothing is lost and, but for what was held at a kill, nothing comes twice."""
    total, kills = 60, 15
    publish(address.first, *(f"{number:02} {'x' * (number * 97)}" for number in range(total)))
    dice = random.Random(7)
    output = address.mount.path.parent / f"{address.name}.out"
    script = """
import os, sys
source = os.open(sys.argv[1], os.O_RDONLY)
target = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while piece := os.read(source, int(sys.argv[3])):
    os.write(target, piece)
"""
    for number in range(kills):
        size = dice.choice((1, 7, 100, 65_536))
        before = output.stat().st_size if output.exists() else 0
        with running(
            sys.executable, "-c", script, take(address.first), output, str(size), cwd=address.path
        ) as it:
            _grown(output, before + dice.randint(1, 4_000), address.first)
            it.send_signal(signal.SIGKILL)
        with output.open("ab") as file:
            file.write(f"\nkilled {number}\n".encode())
    with running(sys.executable, "-c", script, take(address.first), output, "65536", cwd=address.path) as it:
        until(lambda: not bodies(address.first), "all is read and done with")
        it.send_signal(signal.SIGINT)
    text = output.read_text()
    seen = Counter(number for number in range(total) if f'"body":"{number:02} ' in text)
    assert set(seen) == set(range(total))
    whole = sum(line.startswith('{"queue"') and line.endswith('"}') for line in text.splitlines())
    assert total <= whole <= total + kills


def _grown(output: Path, size_bytes: int, queue: QueueOnDisk) -> None:
    until(
        lambda: (output.exists() and output.stat().st_size >= size_bytes) or not bodies(queue),
        "something is read",
    )


@pytest.mark.rule("S-117")
def test_a_long_line_is_read_in_pieces(address: Address) -> None:
    body = "".join(f"{number:07} " for number in range(300_000))
    write_at_once(address.first.path / "_long", [body.encode()])
    (address.first.path / "_long").rename(address.first.path / "long.txt")
    publish(address.first, "short")
    descriptor = os.open(take(address.first), os.O_RDONLY)
    try:
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(descriptor, 100_000)
        assert body.encode() in line
        assert b'"body":"short"' in os.read(descriptor, 100_000)
    finally:
        os.close(descriptor)
    until(lambda: bodies(address.first) == [], "both are acknowledged")


@pytest.mark.rule("S-123")
def test_who_does_not_wait_is_told_to_try_again(address: Address) -> None:
    descriptor = os.open(take(address.first), os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert errno_of(os.read, descriptor, 100) == errno.EAGAIN
        os.set_blocking(descriptor, True)
        publish(address.first, "one")
        assert b"one" in os.read(descriptor, 1000)
        os.set_blocking(descriptor, False)
        assert errno_of(os.read, descriptor, 100) == errno.EAGAIN
    finally:
        os.close(descriptor)


@pytest.mark.rule("S-123")
@pytest.mark.parametrize("name", [".take", ".follow"])
def test_it_can_be_polled(address: Address, name: str) -> None:
    descriptor = os.open(address.first.path / name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        poll = select.epoll()
        poll.register(descriptor, select.EPOLLIN)
        assert select.select([descriptor], [], [], 0) == ([], [], [])
        assert poll.poll(0) == []
        with running(
            "bash", "-c", 'sleep 0.3; echo one >> "$0/in.txt"', address.first.path, cwd=address.path
        ):
            assert poll.poll(COMMAND_S_MAX) == [(descriptor, select.EPOLLIN)]
        assert select.select([descriptor], [], [], COMMAND_S_MAX)[0] == [descriptor]
        assert b'"body":"one"' in os.read(descriptor, 1000)
        assert select.select([descriptor], [], [], 0) == ([], [], [])
    finally:
        os.close(descriptor)
    assert select.select([(address.first.path / ".status").open()], [], [], 0)[0]


@pytest.mark.rule("S-123")
@pytest.mark.parametrize("before", [True, False])
def test_who_polls_is_told_when_a_message_is_due(address: Address, before: bool) -> None:
    """Nothing happens then but that time passes. `before`: it polls before the message comes."""
    due_ms = int(time.time() * 1000) + 1500
    properties = (
        f'"properties":{{"_AMQ_SCHED_DELIVERY":{due_ms}}},"propertyTypes":{{"_AMQ_SCHED_DELIVERY":"long"}}'
    )
    line = f'{{"type":"text",{properties},"body":"later"}}\n'.encode()
    script = """
import select, sys
with open(sys.argv[1], "rb") as stream:
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    print("polls", flush=True)
    poll.poll()
    print(stream.readline().decode(), end="")
"""
    if not before:
        write_at_once(address.first.path / "in.jsonl", [line])
    with running(sys.executable, "-c", script, take(address.first), cwd=address.path) as process:
        assert next_line(process) == "polls\n"
        if before:
            write_at_once(address.first.path / "in.jsonl", [line])
        assert json.loads(next_line(process))["body"] == "later"
        assert time.time() * 1000 >= due_ms


@pytest.mark.rule("S-123")
@pytest.mark.parametrize("name", [".take", ".follow"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_wait_at_once(address: Address, name: str, number: signal.Signals) -> None:
    with running("cat", address.first.path / name, cwd=address.path) as process:
        until(lambda: reads(process.pid, address.first.path / name), "it waits in a read")
        begun = time.monotonic()
        process.send_signal(number)
        assert process.wait(COMMAND_S_MAX) == -number
        assert time.monotonic() - begun < 30


def with_two(mount: MountedStore) -> MountedStore:
    """In a queue of its own."""
    (mount.path / "a/q").mkdir(parents=True)
    publish(mount.queue("a", "q"), "one", "two")
    return mount


@pytest.mark.rule("S-124")
def test_the_end_of_the_mount_gives_back_without_counting(remount: Remount) -> None:
    mount = with_two(remount())
    with running("bash", "-c", 'read -r line < "$0"; exec 3< "$0"; read -r line <&3; echo; sleep 99',
                 take(mount.queue("a", "q")), cwd=mount.path.parent) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        daemon = mount.process_id()
        os.kill(daemon, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{daemon}").exists(), "the mount's process has ended")
    mount = remount()
    assert bodies(mount.queue("a", "q")) == ["two"]
    assert counts(mount.queue("a", "q")) == []


@pytest.mark.rule("S-120", "S-124")
def test_what_was_closed_is_acknowledged_at_the_end_of_the_mount(remount: Remount) -> None:
    """Nothing more is to be waited for: the mount ends while who read goes on living."""
    mount = with_two(remount())
    daemon = mount.process_id()
    with take(mount.queue("a", "q")).open() as lines:
        assert "one" in lines.readline()
    subprocess.run(["umount", mount.path], check=True)
    until(lambda: not Path(f"/proc/{daemon}").exists(), "the mount's process has ended")
    assert bodies(remount().queue("a", "q")) == ["two"]


@pytest.mark.rule("S-124")
def test_a_mount_that_is_killed_gives_back(remount: Remount) -> None:
    mount = with_two(remount())
    with running("bash", "-c", 'exec 3< "$0"; read -r line <&3; read -r line <&3; echo; sleep 99',
                 take(mount.queue("a", "q")), cwd=mount.path.parent) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(mount.process_id(), signal.SIGKILL)
    subprocess.run(["umount", "--lazy", mount.path], check=True)
    mount = remount()
    assert bodies(mount.queue("a", "q")) == ["two"]


@pytest.mark.rule("S-88", "S-117")
def test_not_where_nothing_is_taken_away(remount: Remount) -> None:
    mount = remount("browse")
    (mount.path / "a/q").mkdir(parents=True)
    assert errno_of(take(mount.queue("a", "q")).open) == errno.EPERM
    with (mount.queue("a", "q").path / ".follow").open():
        pass


@pytest.mark.rule("S-122")
def test_more_readers_than_allowed(address: Address) -> None:
    os.setxattr(address.first.path, "user.journalfs.max-consumers", b"1")
    with take(address.first).open():
        assert errno_of(take(address.first).open) == errno.EUSERS
    shell(f"head -n 1 {address.first.path}/.take & sleep 0; kill $!", address.path)


def test_many_may_wait_and_the_rest_go_on(mount: MountedStore, address: Address) -> None:
    """Readers that wait keep request tasks; the mount answers all others."""
    readers = [
        subprocess.Popen(["cat", address.first.path / ".follow"], stdout=subprocess.PIPE) for _ in range(40)
    ]
    try:
        stream = address.first.path / ".follow"
        until(lambda: all(reads(reader.pid, stream) for reader in readers), "all wait")
        publish(address.first, "one")
        for reader in readers:
            assert reader.stdout is not None
            assert b'"body":"one"' in reader.stdout.readline()
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()
