"""A file of which a write was refused: nothing unfinished of it is published, and one event says why."""

from __future__ import annotations

import errno
import os
import subprocess
import zipfile
from collections.abc import Callable

import pytest

from tests.mounting import QueueOnDisk
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell

Fault = tuple[int, Callable[[int, Address], None]]
"""The errno, and a change of an open file that is refused with it."""


def out_of_order(descriptor: int, _address: Address) -> None:
    os.pwrite(descriptor, b"X", 0)


def cut_off(descriptor: int, _address: Address) -> None:
    os.ftruncate(descriptor, 2)


def made_longer(descriptor: int, _address: Address) -> None:
    os.ftruncate(descriptor, 200)


def over_a_limit(descriptor: int, address: Address) -> None:
    for name, value in (("address-full-policy", b"FAIL"), ("max-size-messages", b"0")):
        os.setxattr(address.path, f"user.journalfs.{name}", value)
    try:
        os.write(descriptor, b"more\n")
    finally:
        os.removexattr(address.path, "user.journalfs.max-size-messages")


FAULTS: list[Fault] = [
    (errno.EINVAL, out_of_order),
    (errno.EINVAL, cut_off),
    (errno.EINVAL, made_longer),
    (errno.EDQUOT, over_a_limit),
]


CASES: list[tuple[Fault, str]] = [
    (fault, name)
    for fault in FAULTS
    for name in ("in.txt", "in.json", "in.jsonl", "in.bin")
    # Zeros may follow in what is one message (S-190).
    if (fault[1], name) != (made_longer, "in.bin")
]


def opened(address: Address, name: str) -> int:
    return os.open(address.first.path / name, os.O_WRONLY | os.O_CREAT, 0o644)


def messages(queue: QueueOnDisk) -> list[str | None]:
    """Bodies, whatever type they have."""
    return [line.get("body", line.get("body_base64")) for line in queue.lines()]


@pytest.mark.rule("S-74")
@pytest.mark.parametrize(
    ("fault", "name"), CASES, ids=lambda one: one if isinstance(one, str) else one[1].__name__
)
def test_nothing_unfinished_is_published_after_it(address: Address, fault: Fault, name: str) -> None:
    number, change = fault
    descriptor = opened(address, name)
    os.write(descriptor, b'{"begun":')
    assert errno_of(change, descriptor, address) == number
    # Said once: that something is missing now is no other fault.
    assert errno_of(os.write, descriptor, b'"ended"}\n') == number
    assert errno_of(os.fsync, descriptor) == number
    assert errno_of(os.close, descriptor) == number
    assert messages(address.first) == []
    ((what, reason),) = address.refusals()
    assert what == f"{address.name}-first/{name}: {errno.errorcode[number]}"
    assert reason.endswith("; the 9 bytes before it are not published")


@pytest.mark.rule("S-74")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[1].__name__)
def test_complete_lines_stand_and_go_on(address: Address, fault: Fault) -> None:
    number, change = fault
    descriptor = opened(address, "in.txt")
    os.write(descriptor, b"one\n")
    assert errno_of(change, descriptor, address) == number
    os.write(descriptor, b"two\n")
    os.fsync(descriptor)
    os.write(descriptor, b"thr")
    assert errno_of(os.close, descriptor) == number
    assert bodies(address.first) == ["one", "two"]
    assert len(address.refusals()) == 1


@pytest.mark.rule("S-74", "S-70")
@pytest.mark.parametrize(("name", "kept"), [("in.txt", "durable"), ("in.bin", "ZHVyYWJsZQ==")])
def test_what_was_made_durable_before_it_stays(address: Address, name: str, kept: str) -> None:
    descriptor = opened(address, name)
    os.write(descriptor, b"durable")
    os.fsync(descriptor)
    os.write(descriptor, b", and not")
    assert errno_of(out_of_order, descriptor, address) == errno.EINVAL
    assert errno_of(os.close, descriptor) == errno.EINVAL
    assert messages(address.first) == [kept]
    assert "those are published that were synced" in address.refusals()[0][1]


@pytest.mark.rule("S-74", "S-69")
@pytest.mark.parametrize("name", ["in.txt", "in.bin"])
def test_a_program_that_was_started_meanwhile_kept_nothing(address: Address, name: str) -> None:
    descriptor = opened(address, name)
    os.set_inheritable(descriptor, True)
    os.write(descriptor, b"kept? ")
    subprocess.run(["true"], close_fds=False, check=True)
    assert errno_of(out_of_order, descriptor, address) == errno.EINVAL
    assert errno_of(os.close, descriptor) == errno.EINVAL
    assert messages(address.first) == []


@pytest.mark.rule("S-74")
def test_a_record_that_is_too_large_is_one_fault(address: Address) -> None:
    descriptor = opened(address, "in.jsonl")
    os.write(descriptor, b'{"type":"text","body":"x","properties":{"long":"')
    assert errno_of(os.write, descriptor, b"x" * 900_000 + b'"}}\n') == errno.EMSGSIZE
    assert errno_of(os.close, descriptor) == errno.EMSGSIZE
    assert messages(address.first) == []
    ((what, _),) = address.refusals()
    assert what.endswith("in.jsonl: EMSGSIZE")


@pytest.mark.rule("S-74", "S-73")
def test_an_archive_that_is_written_in_another_order(address: Address) -> None:
    def pack() -> None:
        with zipfile.ZipFile(address.first.path / "in.zip", "w") as archive:
            archive.writestr("name.txt", "content")

    assert errno_of(pack) == errno.EINVAL
    assert messages(address.first) == []
    assert len(address.refusals()) == 1
    shell("python3 -m zipfile -c _in.zip /etc/passwd && mv _in.zip in.zip", address.first.path)
    assert len(messages(address.first)) == 1


@pytest.mark.rule("S-73")
def test_nobody_else_cuts_off_what_is_being_written(address: Address) -> None:
    path = address.first.path / "in.bin"
    descriptor = opened(address, path.name)
    os.write(descriptor, b"four")
    assert errno_of(os.truncate, path, 0) == errno.EINVAL
    os.truncate(path, 4)
    os.close(descriptor)
    assert messages(address.first) == ["Zm91cg=="]


@pytest.mark.rule("S-74")
def test_events_are_those_of_this_mount(remount: Remount) -> None:
    address = Address(remount())
    shell("echo 'no envelope' > in.jsonl", address.first.path, succeeds=False)
    assert [what for what, _ in address.refusals()] == [f"{address.name}-first/in.jsonl: EINVAL"]
    remount()
    assert address.refusals() == []


@pytest.mark.rule("S-74")
def test_what_no_filesystem_of_messages_has_is_refused_with_an_event(address: Address) -> None:
    (address.first.path / "in").write_text("one\n")
    message = next((address.first.path / ".messages").iterdir())
    taken: list[tuple[int, str, Callable[[], None]]] = [
        (errno.EPERM, "linked", lambda: os.link(message, address.path / "linked")),
        (errno.EPERM, "pointing", lambda: os.symlink("x", address.path / "pointing")),
        (errno.EPERM, "pipe", lambda: os.mkfifo(address.path / "pipe")),
        (errno.EOPNOTSUPP, "user.foo", lambda: os.setxattr(address.first.path, "user.foo", b"1")),
        (errno.ENODATA, "user.foo", lambda: os.removexattr(address.first.path, "user.foo")),
    ]
    for number, _, change in taken:
        assert errno_of(change) == number
    said = address.refusals()
    assert len(said) == len(taken)
    for (what, reason), (number, name, _) in zip(said, taken, strict=True):
        assert what.endswith(f": {errno.errorcode[number]}")
        assert name in what + reason


@pytest.mark.rule("S-74")
def test_what_the_kernel_refuses_by_itself_has_no_event(address: Address) -> None:
    for name in ("in.txt", "_staged"):
        said = shell(f"fallocate -l 100 {name}", address.first.path, succeeds=False)
        assert "not supported" in said
    assert address.refusals() == []
    assert address.first.lines() == []


@pytest.mark.rule("S-74")
def test_what_is_refused_of_the_root_is_named(address: Address) -> None:
    root = address.mount.path
    assert errno_of(os.setxattr, root, "user.journalfs.ring-size", b"1") == errno.ENOTSUP
    said = [one["what"] for one in address.mount.events() if "ring-size" in one["message"]]
    assert said == ["/: ENOTSUP"]


@pytest.mark.rule("S-74")
@pytest.mark.parametrize(
    ("name", "refused", "more", "left"),
    [
        ("in.txt", b"pay 10\npay 2", b"5000\npay 3\n", []),
        ("in.txt", b"pay 10\n", b"pay 25000\npay 3\n", ["pay 25000", "pay 3"]),
        ("in.json", b"1 2 1234", b"5678 3 4 ", []),
        ("in.json", b'[\n1,\n{"a":\n', b"2\n", []),
        ("in.json", b"1 2\n", b"3\n", ["3"]),
        ("in.jsonl", b'{"type":"text","body":"a"}\n{"type":"te', b'xt","body":"b"}\n', []),
        ("in.bin", b"all\n", b"of it\n", []),
    ],
)
def test_nothing_begins_inside_of_what_was_refused(
    address: Address, name: str, refused: bytes, more: bytes, left: list[str]
) -> None:
    """Who goes on although a write failed publishes no end of what is missing."""
    setting = "user.journalfs.max-size-messages"
    os.setxattr(address.path, "user.journalfs.address-full-policy", b"FAIL")
    os.setxattr(address.path, setting, b"0")
    descriptor = opened(address, name)
    assert errno_of(os.write, descriptor, refused) == errno.EDQUOT
    os.setxattr(address.path, setting, b"-1")
    if left:
        assert os.write(descriptor, more) == len(more)
    else:
        assert errno_of(os.write, descriptor, more) == errno.EDQUOT
    os.close(descriptor)
    assert messages(address.first) == left
    assert len(address.refusals()) == 1


@pytest.mark.rule("S-74")
def test_a_bad_line_within_a_write_is_told_once(address: Address) -> None:
    """As a program writes that hands on what fills its buffer, and does not look whether it was taken."""
    lines = [b'{"type":"text","body":"%d"}\n' % number for number in range(2000)]
    lines[9] = b'{"type":"text","priority":12}\n'
    content = b"".join(lines)
    descriptor = opened(address, "in.jsonl")
    for at in range(0, len(content), 4096):
        assert errno_of(os.write, descriptor, content[at : at + 4096]) == errno.EINVAL
    os.close(descriptor)
    ((_, reason),) = address.refusals()
    assert "line 10: priority" in reason
