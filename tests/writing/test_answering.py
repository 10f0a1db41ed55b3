"""`.take` opened for reading and writing: only what its reader writes acknowledges."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journalfs_mount.limits import UNANSWERED_MAX
from tests.mount.conftest import until
from tests.mounting import QueueOnDisk, read_lines
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once
from tests.writing.test_taking import counts, held, publish, running, take, with_two


@contextmanager
def answering(queue: QueueOnDisk, flags: int = os.O_NONBLOCK) -> Iterator[int]:
    descriptor = os.open(take(queue), os.O_RDWR | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def back(queue: QueueOnDisk) -> None:
    until(lambda: held(queue) == 0, "nobody has a message")


@pytest.mark.rule("S-370")
def test_neither_reading_on_nor_closing_acknowledges(address: Address) -> None:
    queue = address.first
    publish(queue, "one", "two", "three")
    with answering(queue) as stream:
        lines = [os.read(stream, 65536) for _ in range(3)]
        assert [
            b'"body":"%s"' % text in line
            for text, line in zip((b"one", b"two", b"three"), lines, strict=True)
        ]
        assert errno_of(os.read, stream, 65536) == errno.EAGAIN
        assert (bodies(queue), held(queue)) == (["one", "two", "three"], 3)
    back(queue)
    assert (bodies(queue), counts(queue)) == (["one", "two", "three"], [1, 1, 1])


@pytest.mark.rule("S-370")
def test_what_is_answered_is_durable_when_the_write_returns(address: Address, remount: Remount) -> None:
    queue = address.first
    publish(queue, "one", "two", "three")
    with answering(queue) as stream:
        assert b'"one"' in os.read(stream, 65536)
        assert os.write(stream, b"ack\n") == 4
        assert bodies(queue) == ["two", "three"]
        assert b'"two"' in os.read(stream, 65536)
        assert os.write(stream, b"nack") == 4
        assert (bodies(queue), held(queue), counts(queue)) == (["two", "three"], 0, [1])
    assert bodies(queue) == ["two", "three"]


@pytest.mark.rule("S-371")
def test_answers_without_an_id_are_in_the_order_of_the_messages(address: Address) -> None:
    """A reader may have read ahead: its first answer is for the first message."""
    queue = address.first
    publish(queue, "one", "two", "three", "four")
    with answering(queue) as stream:
        first, _, third = (os.read(stream, 65536) for _ in range(3))
        os.write(stream, b"ack\n")
        assert bodies(queue) == ["two", "three", "four"]
        third_id = third.split(b'"id":')[1].split(b",")[0]
        os.write(stream, b"ack %s\n" % third_id)
        assert bodies(queue) == ["two", "four"]
        first_id = first.split(b'"id":')[1].split(b",")[0]
        assert errno_of(os.write, stream, b"ack %s\n" % first_id) == errno.EINVAL
        assert b'"four"' in os.read(stream, 65536)
        os.write(stream, b"nack\nack\n")
        assert bodies(queue) == ["two"]
    back(queue)
    assert counts(queue) == [1]


@pytest.mark.rule("S-372")
@pytest.mark.parametrize(
    "words",
    [b"\n", b"ok\n", b"ack x\n", b"ack -1\n", b"acknowledge\n", b"ack\nack\n", b"ack\nnonsense\n", b"ACK\n",
     b"ack 1 2\n", b"\0", b"ack 99999999\n", b'{"ack":true}\n'],
)  # fmt: skip
def test_other_words_answer_nothing(address: Address, words: bytes) -> None:
    queue = address.first
    publish(queue, "one")
    with answering(queue) as stream:
        assert errno_of(os.write, stream, b"ack\n") == errno.EINVAL  # nothing was read
        os.read(stream, 65536)
        assert errno_of(os.write, stream, words) == errno.EINVAL
        assert (bodies(queue), held(queue)) == (["one"], 1)
        os.write(stream, b"ack\n")
    assert bodies(queue) == []
    assert any("nothing was answered" in reason for _, reason in address.refusals())


@pytest.mark.rule("S-370")
def test_the_last_of_all_descriptors_gives_back(address: Address) -> None:
    queue = address.first
    publish(queue, "one", "two")
    with answering(queue) as stream:
        os.read(stream, 65536)
        copy = os.dup(stream)
    child = subprocess.Popen(["sleep", "60"], pass_fds=[copy])
    os.close(copy)
    try:
        assert b'"two"' in subprocess.check_output(["head", "-n", "1", take(queue)])
        assert held(queue) == 1, "a child has it open"
    finally:
        child.kill()
        child.wait()
    back(queue)
    assert (bodies(queue), counts(queue)) == (["one"], [1])


@pytest.mark.rule("S-370")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_killed_keeps_what_it_acknowledged(address: Address, number: int) -> None:
    queue = address.first
    publish(queue, "one", "two", "three")
    program = f"""import os
stream = os.open({str(take(queue))!r}, os.O_RDWR)
os.read(stream, 65536); os.write(stream, b"ack"); os.read(stream, 65536); print("has", flush=True)
os.read(stream, 65536); print("both", flush=True); os.read(stream, 65536)"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["has\n", "both\n"]
        process.send_signal(number)
    back(queue)
    assert (bodies(queue), counts(queue)) == (["two", "three"], [1, 1])


@pytest.mark.rule("S-370")
def test_an_exception_in_a_living_process_loses_nothing(address: Address) -> None:
    queue = address.first
    publish(queue, "one")

    def work(buffering: int) -> None:
        with take(queue).open("r+b", buffering=buffering) as stream:
            assert stream.readline()
            print(1 // 0)

    for buffering in (0, -1):
        with pytest.raises(ZeroDivisionError):
            work(buffering)
        back(queue)
    assert (bodies(queue), counts(queue)) == (["one"], [2])


@pytest.mark.rule("S-370")
def test_too_many_attempts_make_a_dead_letter(address: Address) -> None:
    queue = address.first
    publish(queue, "bad", "good")
    (address.path.parent / "DLQ/DLQ").mkdir(parents=True, exist_ok=True)
    os.setxattr(address.path, "user.journalfs.max-delivery-attempts", b"2")
    os.setxattr(address.path, "user.journalfs.dead-letter-address", b"DLQ")
    with answering(queue) as stream:
        for _ in range(2):
            assert b'"bad"' in os.read(stream, 65536)
            os.write(stream, b"nack")
        assert b'"good"' in os.read(stream, 65536)
        os.write(stream, b"ack")
    assert bodies(queue) == []
    assert [one["body"] for one in read_lines(address.path.parent / "DLQ" / "DLQ")] == ["bad"]


@pytest.mark.rule("S-373")
def test_a_reader_that_answers_nothing_gets_so_many(address: Address) -> None:
    queue = address.first
    texts = [f"text {number}" for number in range(UNANSWERED_MAX + 1)]
    publish(queue, *texts)
    with answering(queue) as stream:
        for _ in range(UNANSWERED_MAX):
            os.read(stream, 65536)
        assert errno_of(os.read, stream, 65536) == errno.EBUSY
        os.write(stream, b"ack\n" * 2)
        assert texts[-1].encode() in os.read(stream, 65536)
        os.write(stream, b"ack\n" * (UNANSWERED_MAX - 1))
    assert bodies(queue) == []


@pytest.mark.rule("S-370")
def test_it_waits_and_is_polled(address: Address) -> None:
    queue = address.first
    with answering(queue) as stream:
        assert select.select([stream], [stream], [], 0) == ([], [stream], [])
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        assert poll.poll(0) == []
        publish(queue, "one")
        assert poll.poll(5000) == [(stream, select.POLLIN)]
        assert os.read(stream, 10), "a part of the line"
        os.write(stream, b"ack")
        assert bodies(queue) == []
        publish(queue, "two")
        assert os.read(stream, 65536).startswith(b'{"queue"'), "the rest of an answered line is not read"


@pytest.mark.rule("S-370")
@pytest.mark.parametrize("name", ["bash", "dash"])
def test_a_shell_answers(address: Address, name: str) -> None:
    queue = address.first
    publish(queue, "one", "stop", "three")
    script = """exec 3<>"$1"
        while read -r line <&3; do case $line in *stop*) exit 1;; esac; echo ack >&3; done"""
    done = subprocess.run([name, "-c", script, name, take(queue)], check=False, timeout=30)
    assert done.returncode == 1
    back(queue)
    assert (bodies(queue), counts(queue)) == (["stop", "three"], [1])


@pytest.mark.rule("S-124")
def test_a_mount_that_ends_counts_nothing(remount: Remount) -> None:
    mount = with_two(remount())
    program = (
        "import os, sys, time; os.read(os.open(sys.argv[1], os.O_RDWR), 9); print(flush=True); time.sleep(99)"
    )
    with running(
        sys.executable, "-c", program, take(mount.queue("a", "q")), cwd=mount.path.parent
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        daemon = mount.process_id()
        os.kill(daemon, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{daemon}").exists(), "the mount's process has ended")
    found = remount().queue("a", "q")
    assert (bodies(found), counts(found)) == (["one", "two"], [])


@pytest.mark.rule("S-370")
def test_who_reads_only_is_as_before(address: Address) -> None:
    queue = address.first
    publish(queue, "one", "two")
    shell(f"head -n 1 < {take(queue)}", address.path)
    assert bodies(queue) == ["two"]
    assert errno_of(os.open, take(queue), os.O_WRONLY) == errno.EPERM
    assert errno_of(os.open, take(queue), os.O_RDWR | os.O_TRUNC) in (errno.EPERM, errno.EINVAL)
    assert errno_of(os.open, queue.path / ".follow", os.O_RDWR) == errno.EPERM
    write_at_once(queue.path / "in.txt", [b"three\n"])
    assert bodies(queue) == ["two", "three"]
