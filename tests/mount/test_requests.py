"""Requests that fail, must fail, or fail for a reason nobody foresaw."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs_mount.start.lifecycle import KERNEL_REFUSES
from tests.mount.conftest import MountedFake, MountFake, until

pytestmark = pytest.mark.mount

LIBC = ctypes.CDLL(None, use_errno=True)


def failing(call: Callable[[], object]) -> str:
    """Name of the errno that `call` fails with."""
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno is not None
    return errno.errorcode[caught.value.errno]


def test_a_mistake_in_the_program_ends_a_request_and_not_the_mount(mount_fake: MountFake) -> None:
    mounted = mount_fake("broken")
    queue = mounted.path / "orders/broken"
    assert failing(lambda: os.listdir(queue / ".messages")) == "EIO"
    assert failing((queue / ".messages/1.txt").stat) == "EIO"
    assert failing((queue / ".status").read_bytes) == "EIO"
    # Everything else goes on, in the same queue and beside it.
    assert (queue / "part-0001-4-0000000001.jsonl").read_bytes().count(b"\n") == 1
    assert len(os.listdir(mounted.path / "orders/billing/.messages")) == 26
    assert mounted.process.poll() is None


def test_a_store_that_stops_following_stays_mounted_and_says_so(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    assert mounted.report()["follow"] == "following"
    mounted.tell("fail")  # it answers first
    until(lambda: mounted.report()["follow"] != "following", "it failed")
    report = mounted.report()
    assert (report["follow"], report["followFailure"]) == ("failed", "told to fail")
    assert len(os.listdir(mounted.path / "orders/billing/.messages")) == 26


def test_what_is_no_selector_is_invalid_and_the_reason_can_be_read(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    where = mounted.path / "orders/billing/.where"
    assert failing((where / "nonsense").stat) == "EINVAL"
    assert failing((where / "JMSPriority LIKE '%5'").stat) == "EINVAL"
    assert failing(lambda: os.stat(os.fsencode(where) + b"/\xff")) == "EINVAL"
    refused = mounted.report()["refused"]
    assert isinstance(refused, list)
    assert [entry["name"] for entry in refused] == ["nonsense", "JMSPriority LIKE '%5'", "\ufffd"]
    assert "only colors can be asked for" in refused[0]["reason"]
    assert "written %25" in refused[1]["reason"]


def changes(path: Path) -> dict[str, Callable[[], object]]:
    part = path / "orders/billing/part-0001-1-0000000001.jsonl"
    return {
        "create": lambda: open(path / "orders/billing/new.txt", "w"),
        "write": lambda: os.open(part, os.O_WRONLY),
        "append": lambda: os.open(part, os.O_WRONLY | os.O_APPEND),
        "truncate": lambda: os.truncate(part, 0),
        "unlink": lambda: os.unlink(part),
        "mkdir": lambda: os.mkdir(path / "new"),
        "rmdir": lambda: os.rmdir(path / "orders/empty"),
        "rename": lambda: os.rename(part, path / "orders/billing/other"),
        "link": lambda: os.link(part, path / "orders/billing/other"),
        "symlink": lambda: os.symlink("x", path / "orders/billing/other"),
        "mknod": lambda: os.mknod(path / "orders/billing/other"),
        "chmod": lambda: os.chmod(part, 0o600),
        "chown": lambda: os.chown(part, 1, 1),
        "utime": lambda: os.utime(part, (0, 0)),
        "setxattr": lambda: os.setxattr(part, "user.x", b"y"),
        "removexattr": lambda: os.removexattr(part, "user.x"),
    }


@pytest.mark.rule("S-74")
@pytest.mark.parametrize("options", ["", "rw", "allow_other,rw"])
def test_every_change_is_refused_as_on_a_read_only_filesystem(mount_fake: MountFake, options: str) -> None:
    """Whether its user asks for it to be read only, or the store takes no changes."""
    mounted = mount_fake("small", options)
    for number, (name, change) in enumerate(changes(mounted.path).items(), 1):
        assert failing(change) == "EROFS", name
        refusals = mounted.tell("refusals")
        assert isinstance(refusals, list)
        assert len(refusals) == number, f"{name} is said once"
        what, reason = refusals[-1]
        assert what.endswith(": EROFS")
        assert "read only" in reason
    assert mounted.requests()["unlink"] == 1


@pytest.mark.rule("S-138")
@pytest.mark.parametrize("options", ["ro", "ro,allow_other"])
def test_what_the_kernel_refuses_is_said_once_and_for_all(mount_fake: MountFake, options: str) -> None:
    mounted = mount_fake("small", options)
    for name, change in changes(mounted.path).items():
        assert failing(change) == "EROFS", name
    assert "unlink" not in mounted.requests()
    assert mounted.tell("refusals") == [["every change: EROFS", KERNEL_REFUSES]]


@pytest.mark.rule("S-138")
@pytest.mark.parametrize("options", ["", "ro"])
def test_tools_that_ask_first_are_told_that_it_is_read_only(mount_fake: MountFake, options: str) -> None:
    mounted = mount_fake("small", options)
    part = mounted.path / "orders/billing/part-0001-1-0000000001.jsonl"
    assert part.stat().st_mode & 0o777 == 0o444
    for path in (mounted.path, part.parent, part):
        assert os.access(path, os.R_OK)
        assert not os.access(path, os.W_OK)
        assert os.access(path, os.X_OK) == path.is_dir()
        with pytest.raises(OSError, match="Read-only file system"):
            faccess(path, os.W_OK)
    with contextlib.chdir(part.parent):
        pass
    said = bool(os.statvfs(part).f_flag & os.ST_RDONLY)
    assert said == (options == "ro"), "only the kernel can say it"
    with part.open("rb") as opened:
        os.fsync(opened.fileno())
    refusals = mounted.tell("refusals")
    assert refusals == ([] if options == "" else [["every change: EROFS", KERNEL_REFUSES]])


def faccess(path: Path, mode: int) -> None:
    """access(2), which Python gives no errno of."""
    if LIBC.access(os.fsencode(path), mode):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def test_files_are_no_directories_and_the_other_way_round(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    assert failing((mounted.path / "orders").read_bytes) == "EISDIR"
    assert failing((mounted.path / "orders/billing/_tail.jsonl/x").stat) == "ENOTDIR"


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("orders/billing/.messages/7.txt", "user.property.color", b"green"),
        ("orders/billing/.messages/7.txt", "user.journalfs.id", b"7"),
        ("orders/billing", "user.journalfs.max-delivery-attempts", b"10"),
        ("orders", "user.journalfs.max-size-bytes", b"-1"),
    ],
)
def test_headers_properties_and_settings_are_extended_attributes(
    mount_fake: MountFake, path: str, name: str, value: bytes
) -> None:
    mounted = mount_fake("small")
    assert os.getxattr(mounted.path / path, name) == value
    assert name in os.listxattr(mounted.path / path)


def test_attributes_that_are_not_there(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    message = mounted.path / "orders/billing/.messages/7.txt"
    assert failing(lambda: os.getxattr(message, "user.property.shape")) == "ENODATA"
    assert failing(lambda: os.getxattr(message, "security.capability")) == "ENOTSUP"
    assert os.listxattr(mounted.path / "orders/billing/_tail.jsonl") == []


def test_what_the_kernel_cannot_pass_is_not_listed(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    message = mounted.path / "orders/billing/.messages/2.txt"
    listed = os.listxattr(os.fsencode(message))
    plain = ["user.journalfs.id", "user.property.color", "user.property.ümläut"]
    surrogate, nul = os.fsdecode(b"user.property.\xed\xa0\x80"), "user.property.nul%00"
    assert listed == [*plain, surrogate, nul]
    for name in (*plain, surrogate):
        assert os.getxattr(message, name)
    assert os.getxattr(message, "user.property.ümläut") == "größe".encode()
    assert failing(lambda: os.getxattr(message, b"user.property.\xff")) == "ENODATA"


def test_a_long_listing_asks_for_attributes_of_the_system_only_once(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    messages = mounted.path / "orders/billing/.messages"
    subprocess.run(["ls", "-l"], cwd=messages, check=True, capture_output=True)
    assert mounted.requests().get("getxattr", 0) <= 4


def test_noxattr_turns_the_attributes_off(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "noxattr")
    message = mounted.path / "orders/billing/.messages/7.txt"
    for _ in range(3):
        assert failing(lambda: os.getxattr(message, "user.property.color")) == "ENOTSUP"
        assert failing(lambda: os.listxattr(message)) == "ENOTSUP"
    # The kernel asks once and then never again.
    assert mounted.requests()["getxattr"] == mounted.requests()["listxattr"] == 1


def test_owner_and_permissions_are_the_mounts(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "uid=1234,gid=2345,umask=027")
    for name, mode in (("orders", 0o40550), ("orders/billing/_tail.jsonl", 0o100440)):
        stat = (mounted.path / name).stat()
        assert (stat.st_uid, stat.st_gid, stat.st_mode) == (1234, 2345, mode)


def test_the_kernel_enforces_permissions_for_others(mount_fake: MountFake) -> None:
    mounted: MountedFake = mount_fake("small", "allow_other,umask=007")
    for directory in [mounted.path, *mounted.path.parents][1:-1]:
        directory.chmod(directory.stat().st_mode | 0o011)
    done = subprocess.run(
        ["cat", mounted.path / "orders/billing/_tail.jsonl"],
        user=65534,
        group=65534,
        check=False,
        capture_output=True,
    )
    assert b"Permission denied" in done.stderr
