"""What the kernel may keep, and that nobody ever reads a mixture of two contents."""

from __future__ import annotations

import json
import mmap
import os

import pytest

from tests.mount.conftest import MountFake, until

pytestmark = pytest.mark.mount

PART = "orders/billing/part-0001-1-0000000001.jsonl"


def ids(lines: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in lines.splitlines()]


def test_a_part_is_read_once_and_then_comes_from_the_page_cache(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    part = mounted.path / PART
    first = part.read_bytes()
    before = mounted.requests()["read"]
    assert part.read_bytes() == first
    # mount.json itself is read past the cache: one or two requests.
    assert mounted.requests()["read"] - before <= 2


@pytest.mark.parametrize("standing_still", [False, True])
def test_stat_of_a_part_asks_at_most_for_its_name(mount_fake: MountFake, standing_still: bool) -> None:
    mounted = mount_fake("small", *["nofollow"] * standing_still)
    part = mounted.path / PART
    part.stat()
    before = mounted.requests()
    for _ in range(20):
        part.stat()
    after = mounted.requests()
    assert (after["lookup"] - before["lookup"] < 5) is standing_still
    # Reading the report asks a few times itself; 20 calls of stat ask none.
    assert after.get("getattr", 0) - before.get("getattr", 0) < 10


@pytest.mark.rule("S-20")
def test_what_was_listed_and_has_gone_cannot_be_opened(mount_fake: MountFake) -> None:
    """Its name may still be there for who only looks, for less than a second."""
    mounted = mount_fake("small")
    messages = mounted.path / "orders/billing/.messages"
    with os.scandir(messages) as entries:
        listed = {entry.name: entry.stat().st_size for entry in entries}
    mounted.tell("remove", "orders", "billing", [21])
    (name,) = (name for name in listed if name.startswith("21."))
    assert name not in os.listdir(messages)
    with pytest.raises(FileNotFoundError):
        (messages / name).open("rb")
    until(lambda: not (messages / name).exists(), "its name is gone")


def test_the_tail_is_always_current(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    tail = mounted.path / "orders/billing/_tail.jsonl"
    assert ids(tail.read_bytes())[:5] == [21, 22, 23, 24, 25]
    for number in range(26, 31):
        mounted.tell("add", "orders", "billing", [number], 0)
        content = tail.read_bytes()
        assert number in ids(content)
        assert tail.stat().st_size == len(content)


def test_an_open_tail_keeps_what_it_had(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    with open(mounted.path / "orders/billing/_tail.jsonl", "rb", buffering=0) as file:
        before = os.pread(file.fileno(), 1 << 20, 0)
        mounted.tell("remove", "orders", "billing", [21, 22])
        mounted.tell("add", "orders", "billing", [40, 41], 0)
        assert os.pread(file.fileno(), 1 << 20, 0) == before
        assert os.pread(file.fileno(), 1 << 20, len(before)) == b""


def test_a_part_that_shrinks_is_new_content_for_new_readers_only(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    part = mounted.path / PART
    old_stat = part.stat()
    with open(part, "rb", buffering=0) as old:
        begun = os.read(old.fileno(), 50)
        mounted.tell("remove", "orders", "billing", [1, 5])
        until(lambda: part.stat().st_ino != old_stat.st_ino, "the name leads to the new content")
        shrunk = part.read_bytes()
        assert ids(shrunk) == [2, 3, 4, 6, 7, 8, 9, 10]
        assert part.stat().st_size == len(shrunk) < old_stat.st_size
        # The old reader goes on where it was, from pages that are its content's own.
        whole = begun + old.read()
        assert ids(whole) == list(range(1, 11))
        assert os.fstat(old.fileno()).st_size == old_stat.st_size == len(whole)


def test_opening_through_a_stale_name_opens_the_new_content(mount_fake: MountFake) -> None:
    """The kernel may still hold the old name when open comes: ESTALE makes it look once more."""
    mounted = mount_fake("small")
    part = mounted.path / PART
    for number in range(1, 10):
        part.stat()
        mounted.tell("remove", "orders", "billing", [number])
        assert ids(part.read_bytes()) == list(range(number + 1, 11))


def test_a_part_that_went_is_gone(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    part = mounted.path / PART
    with open(part, "rb") as old:
        mounted.tell("remove", "orders", "billing", list(range(1, 11)))
        with pytest.raises(FileNotFoundError):
            part.read_bytes()
        until(lambda: not part.exists(), "the name of the part goes")
        assert ids(old.read()) == list(range(1, 11))


def test_a_message_that_went_is_gone_for_all_but_its_readers(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    message = mounted.path / "orders/billing/.messages/3.txt"
    with open(message, "rb") as file:
        mounted.tell("remove", "orders", "billing", [3])
        until(lambda: not message.exists(), "the name of the message goes")
        assert file.read() == b"body of 3"


def test_a_queue_that_went_takes_its_files_along(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    queue = mounted.path / "orders/billing"
    queue.stat()
    os.listdir(queue)
    (queue / ".where/color = 'red'/.all.jsonl").read_bytes()
    mounted.tell("remove_queue", "orders", "billing")
    until(lambda: not queue.exists(), "the directory of the queue goes")
    with pytest.raises(FileNotFoundError):
        os.listdir(queue)


def test_selected_parts_follow_the_queue(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    part = mounted.path / "orders/billing/.where/color = 'green'/part-0001-1-0000000001.jsonl"
    assert ids(part.read_bytes()) == [1, 4, 7, 10]
    mounted.tell("remove", "orders", "billing", [4])
    assert ids(part.read_bytes()) == [1, 7, 10]
    assert part.stat().st_size == len(part.read_bytes())


def test_parts_can_be_mapped(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    with open(mounted.path / PART, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert ids(bytes(mapped)) == list(range(1, 11))


def test_a_store_that_stands_still_is_cached_whole(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "nofollow")
    assert mounted.report()["follow"] == "off"
    tail = mounted.path / "orders/billing/_tail.jsonl"
    first = tail.read_bytes()
    before = mounted.requests()["read"]
    assert tail.read_bytes() == first
    assert mounted.requests()["read"] - before <= 2


def test_every_open_file_is_let_go_of(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    for number in range(1, 26):
        (mounted.path / f"orders/billing/.messages/{number}.txt").read_bytes()
    until(lambda: mounted.tell("opened") == 0, "releases arrive")
