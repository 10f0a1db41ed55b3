"""What shell tools see in a mounted store."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.mount.conftest import MountedFake, MountFake
from tests.mount.fake_store import PUBLISHED_NS

pytestmark = pytest.mark.mount

PARTS = ["part-0001-1-0000000001.jsonl", "part-0001-1-0000000002.jsonl"]
TAIL = "_tail-0001-1-0000001000.jsonl"
STATES = [".delivering", ".expired", ".failed", ".scheduled"]
HIDDEN_IN_QUEUE = [".all.jsonl", ".messages", ".settings", ".status", ".where", *STATES]


@pytest.fixture(params=["fast", "stock"])
def mounted(request: pytest.FixtureRequest, mount_fake: MountFake) -> MountedFake:
    fake = mount_fake("small", f"loop={request.param}")
    assert fake.report()["loop"] == request.param
    return fake


def shell(command: str, at: Path) -> str:
    done = subprocess.run(
        command, shell=True, cwd=at, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def ids(lines: bytes | str) -> list[int]:
    return [json.loads(line)["id"] for line in lines.splitlines()]


def test_directories_list_addresses_queues_parts_and_tail_only(mounted: MountedFake) -> None:
    assert sorted(os.listdir(mounted.path)) == ["DLQ", "orders"]
    assert sorted(os.listdir(mounted.path / "orders")) == ["billing", "empty"]
    assert sorted(os.listdir(mounted.path / "orders" / "billing")) == [TAIL, *PARTS]
    assert shell("ls -a", mounted.path / "orders").split() == [".", "..", "billing", "empty"]


def test_what_is_not_listed_is_reached_by_name(mounted: MountedFake) -> None:
    queue = mounted.path / "orders" / "billing"
    for name in HIDDEN_IN_QUEUE:
        assert (queue / name).exists(), name
    assert (mounted.path / ".journalfs" / "status.json").read_bytes() == b"{}\n"
    assert json.loads((mounted.path / "orders" / ".status").read_bytes()) == {
        "address": "orders",
        "queues": 2,
    }
    assert (queue / ".settings").read_text() == "max-delivery-attempts = 10\n"
    assert json.loads((queue / ".status").read_bytes())["messages"] == 26


def test_parts_and_tail_hold_every_message_once(mounted: MountedFake) -> None:
    queue = mounted.path / "orders" / "billing"
    assert ids(shell("cat *.jsonl | sort -t: -k2n", queue)) == [*range(1, 26), 1 << 50]
    assert ids((queue / ".all.jsonl").read_bytes()) == [*range(1, 26), 1 << 50]
    assert shell("wc -l < part-0001-1-0000000001.jsonl", queue).strip() == "10"


def test_walking_tools_read_every_message_once_and_nothing_else(mounted: MountedFake, tmp_path: Path) -> None:
    assert shell("grep -rh '\"id\": 7,' . | wc -l", mounted.path).strip() == "1"
    found = shell("find . -type f | sort", mounted.path).split()
    assert found == [
        "./DLQ/DLQ/_tail-0001-3-0000001000.jsonl",
        f"./orders/billing/{TAIL}",
        *(f"./orders/billing/{part}" for part in PARTS),
        "./orders/empty/_tail-0001-2-0000001000.jsonl",
    ]
    shell(f"cp -r . {tmp_path}/copy", mounted.path)
    assert (tmp_path / "copy/orders/billing" / PARTS[0]).read_bytes() == (
        mounted.path / "orders/billing" / PARTS[0]
    ).read_bytes()
    assert not (tmp_path / "copy/.journalfs").exists()


def test_tar_keeps_sizes_and_times(mounted: MountedFake, tmp_path: Path) -> None:
    shell(f"tar -cf {tmp_path}/all.tar .", mounted.path / "orders" / "billing" / ".messages")
    with tarfile.open(tmp_path / "all.tar") as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert members["./12.txt"].size == len("body of 12")
        assert members["./12.txt"].mtime == PUBLISHED_NS // 10**9


def test_size_is_right_before_the_first_read(mounted: MountedFake) -> None:
    queue = mounted.path / "orders" / "billing"
    for name in [*PARTS, TAIL, "_tail.jsonl", ".all.jsonl", ".status", ".settings", ".messages/1.txt"]:
        size_bytes = (queue / name).stat().st_size
        assert size_bytes == len((queue / name).read_bytes()), name


def test_messages_are_listed_in_the_order_of_delivery(mounted: MountedFake) -> None:
    messages = mounted.path / "orders/billing/.messages"
    assert os.listdir(messages) == [f"{number}.txt" for number in [*range(1, 26), 1 << 50]]
    assert (messages / "7.txt").read_bytes() == b"body of 7"
    assert (messages / "7.txt").stat().st_mtime_ns == PUBLISHED_NS + 7_000_000
    for absent in ("99.txt", "07.txt", "7.bin", "7", "x.txt"):
        assert not (messages / absent).exists(), absent


def test_states_show_their_messages_and_only_those(mounted: MountedFake) -> None:
    queue = mounted.path / "orders/billing"
    assert os.listdir(queue / ".scheduled/.messages") == ["31.txt", "32.txt"]
    assert (queue / ".scheduled/.messages/31.txt").read_bytes() == b"body of 31"
    assert ids((queue / ".delivering/.all.jsonl").read_bytes()) == [33]
    assert not (queue / ".messages/31.txt").exists()


def test_a_selector_is_a_directory_like_a_queue(mounted: MountedFake) -> None:
    green = mounted.path / "orders/billing/.where/color = 'green'"
    expected = [number for number in [*range(1, 26), 1 << 50] if number % 3 == 1]
    assert sorted(os.listdir(green)) == [TAIL, *PARTS]
    assert ids((green / ".all.jsonl").read_bytes()) == expected
    assert [int(name.removesuffix(".txt")) for name in os.listdir(green / ".messages")] == expected
    assert ids((green / ".where" / "color = 'red'" / ".all.jsonl").read_bytes()) == []
    assert os.getxattr(green, "user.journalfs.selector") == b"color = 'green'"


def test_a_selector_is_percent_decoded(mounted: MountedFake) -> None:
    where = mounted.path / "orders/billing/.where"
    assert os.listdir(where) == []
    assert os.getxattr(where / "color = 'a%2Fb%25'", "user.journalfs.selector") == b"color = 'a/b%'"


def test_inode_numbers_are_the_same_after_a_new_mount(mount_fake: MountFake) -> None:
    first, second = mount_fake("small"), mount_fake("small")
    for name in ("orders", "orders/billing", f"orders/billing/{PARTS[0]}", "orders/billing/.messages/1.txt"):
        assert (first.path / name).stat().st_ino == (second.path / name).stat().st_ino
    listed = {entry.name: entry.inode() for entry in os.scandir(first.path / "orders/billing/.messages")}
    for name, inode in listed.items():
        assert (first.path / "orders/billing/.messages" / name).stat().st_ino == inode, name
    assert len(set(listed.values())) == len(listed)


def test_a_message_is_the_same_file_in_every_view(mounted: MountedFake) -> None:
    queue = mounted.path / "orders/billing"
    for number in (1, 1 << 50):
        color = ("red", "green", "blue")[number % 3]
        plain = (queue / ".messages" / f"{number}.txt").stat()
        selected = (queue / ".where" / f"color = '{color}'" / ".messages" / f"{number}.txt").stat()
        assert plain.st_ino == selected.st_ino


def test_statfs_tells_the_store_and_its_messages(mounted: MountedFake) -> None:
    stats = os.statvfs(mounted.path)
    assert stats.f_blocks * stats.f_frsize == 1 << 30
    assert stats.f_bfree * stats.f_frsize == 1 << 29
    assert stats.f_bavail * stats.f_frsize == 1 << 28
    assert (stats.f_files, stats.f_ffree) == (1000, 993)


def test_rewinding_a_directory_shows_what_it_has_now(
    mounted: MountedFake,
) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fdopendir.restype = ctypes.c_void_p
    libc.readdir.restype = ctypes.c_void_p
    libc.readdir.argtypes = libc.rewinddir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
    stream = libc.fdopendir(os.open(mounted.path / "orders/billing/.messages", os.O_RDONLY | os.O_DIRECTORY))

    def count() -> int:
        number = 0
        while libc.readdir(stream):
            number += 1
        return number

    assert count() == 26 + 2
    mounted.tell("remove", "orders", "billing", [1, 2])
    libc.rewinddir(stream)
    assert count() == 24 + 2
    libc.closedir(stream)
