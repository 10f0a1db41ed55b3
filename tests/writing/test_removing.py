"""Taking messages out of queues, and making and deleting addresses and queues."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import MountedStore, QueueOnDisk, is_tail, read_lines
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once


def publish(address: Address, *texts: str) -> None:
    write_at_once(address.path / "in.txt", ["".join(f"{text}\n" for text in texts).encode()])


def parts(queue: QueueOnDisk) -> list[Path]:
    return sorted(queue.path.glob("part-*"))


def sealed(queue: QueueOnDisk) -> Path:
    """The part that the queue's messages get when nothing comes for a while."""
    until(lambda: len(parts(queue)) == 1, "the tail becomes a part")
    return parts(queue)[0]


@pytest.mark.rule("S-83")
def test_removing_a_message_acknowledges_it_in_its_queue(address: Address) -> None:
    publish(address, "one", "two", "three")
    name = address.first.listed()[1]
    (address.first.path / ".messages" / name).unlink()
    assert bodies(address.first) == ["one", "three"]
    assert bodies(address.second) == ["one", "two", "three"]
    assert errno_of((address.first.path / ".messages" / name).unlink) == errno.ENOENT
    assert address.first.status()["messageCount"] == 2


@pytest.mark.rule("S-83")
def test_removing_a_part_acknowledges_what_it_holds_now(address: Address) -> None:
    publish(address, "one", "two", "three")
    part = sealed(address.first)
    (address.first.path / ".messages" / address.first.listed()[0]).unlink()
    publish(address, "four")
    with part.open("rb") as held:
        part.unlink()
        assert held.read().count(b"\n") == 2
    assert not part.exists()
    assert bodies(address.first) == ["four"]
    assert bodies(address.second) == ["one", "two", "three", "four"]


@pytest.mark.rule("S-83")
@pytest.mark.parametrize(
    ("removed", "left"),
    [
        ("_tail.jsonl", []),
        (".all.jsonl", []),
        (".where/color='red'/.all.jsonl", ["blue", "none"]),
        (".where/color IS NULL/.messages/*", ["red", "blue"]),
    ],
)
def test_removing_what_a_view_holds(address: Address, removed: str, left: list[str]) -> None:
    lines = [
        b'{"type":"text","properties":{"color":"red"},"body":"red"}\n',
        b'{"type":"text","properties":{"color":"blue"},"body":"blue"}\n',
        b'{"type":"text","body":"none"}\n',
    ]
    write_at_once(address.first.path / "in.jsonl", lines)
    for path in address.first.path.glob(removed) if "*" in removed else [address.first.path / removed]:
        path.unlink()
    assert bodies(address.first) == left


@pytest.mark.rule("S-83", "S-70")
def test_what_went_under_another_name_is_gone_at_once(address: Address) -> None:
    publish(address, "one", "two", "three")
    part = sealed(address.first)
    first, second, third = (address.first.path / ".messages" / name for name in address.first.listed())
    selected = address.first.path / ".where/JMSPriority = 4" / part.name
    for path in (part, first, second, third, selected):
        path.stat()  # the kernel knows the name now
    first.unlink()
    assert part.stat().st_size == len(part.read_bytes())
    assert [len(path.read_bytes().splitlines()) for path in (part, selected)] == [2, 2]
    (selected.parent / ".messages" / second.name).unlink()
    assert not second.exists()
    assert [len(path.read_bytes().splitlines()) for path in (part, selected)] == [1, 1]
    part.unlink()
    assert not third.exists()
    assert not selected.exists()
    third.parent.stat()
    address.first.path.rmdir()
    assert not third.parent.exists()
    assert os.listdir(address.path) == [address.second.path.name]


@pytest.mark.rule("S-30", "S-85")
def test_a_queue_that_is_made_again_has_selections_of_its_own(address: Address) -> None:
    selection = address.first.path / ".where" / "JMSPriority = 4"
    publish(address, "one")
    assert [line["body"] for line in read_lines(selection)] == ["one"]
    (address.first.path / "_tail.jsonl").unlink()
    address.first.path.rmdir()
    address.first.path.mkdir()
    publish(address, "two")
    assert [line["body"] for line in read_lines(selection)] == ["two"]


@pytest.mark.rule("S-83", "S-169")
def test_removing_what_a_selection_has(address: Address) -> None:
    """What it lists is left alone: so a job clears a place that it is to overwrite, and could not write."""
    lines = [b'{"type":"text","priority":%d,"body":"%d"}\n' % (number, number) for number in range(10)]
    write_at_once(address.first.path / "in.jsonl", lines)
    name = sealed(address.first).name
    selection = address.first.path / ".where" / "JMSPriority > 3"
    assert errno_of((selection / name).unlink) == errno.EPERM
    assert len(bodies(address.first)) == 10
    assert any(".all.jsonl acknowledges all messages" in why for _, why in address.refusals())
    (selection / ".all.jsonl").unlink()
    assert sorted(bodies(address.first)) == ["0", "1", "2", "3"]


@pytest.mark.rule("S-84")
def test_moving_messages_to_another_queue(address: Address) -> None:
    publish(address, "one", "two", "three")
    target = address.queue("third")
    first, second, third = (address.first.path / ".messages" / name for name in address.first.listed())
    first.rename(target.path / "any name")
    second.rename(target.path / ".messages" / second.name)
    assert bodies(address.first) == ["three"]
    assert bodies(target) == ["one", "two"]
    assert not (target.path / "any name").exists()
    shell(f"mv {third} {target.path}/", address.path)
    assert bodies(address.first) == []
    assert sorted(bodies(target)) == ["one", "three", "two"]
    assert bodies(address.second) == ["one", "two", "three"]


@pytest.mark.rule("S-84")
def test_moving_parts_and_the_tail_to_another_queue(address: Address) -> None:
    publish(address, "one", "two")
    part = sealed(address.first)
    part.rename(address.queue("other").path / "moved.jsonl")
    assert not (address.path / f"{address.name}-other" / "moved.jsonl").exists()
    assert not part.exists()
    publish(address, "one", "two")
    sealed(address.first)
    publish(address, "three")
    target = address.queue("third")
    shell(f"mv *.jsonl {target.path}/", address.first.path)
    assert bodies(address.first) == []
    assert sorted(bodies(target)) == ["one", "three", "two"]
    assert all(part.name in os.listdir(target.path) for part in parts(target))


@pytest.mark.rule("S-84")
def test_mv_of_several_is_content(address: Address) -> None:
    """It looks for each name that it gave, which is found for a moment."""
    publish(address, "one", "two", "three")
    third = address.queue("third")
    names = address.first.listed()
    # The second has these messages too, so that there they get other ids.
    assert shell(f"mv {address.first.path}/.messages/* {third.path}/", address.path) == ""
    assert shell(f"mv {third.path}/.messages/* {address.second.path}/.messages/", address.path) == ""
    assert sorted(bodies(address.second)) == sorted(["one", "two", "three"] * 2)
    until(lambda: not any((third.path / name).exists() for name in names), "the names go")
    publish(address, "four")
    sealed(address.first)
    fourth = address.queue("fourth")
    shell("mkdir _up; for n in 1 2 3; do echo $n > _up/$n.txt; done", fourth.path)
    said = shell(f"mv {address.first.path}/part-* _up/*.txt {address.second.path}/", fourth.path)
    assert said == ""
    assert all(map(is_tail, os.listdir(address.first.path)))
    assert sorted(bodies(address.second))[:3] == ["1", "2", "3"]


@pytest.mark.rule("S-84")
def test_a_name_that_was_given_can_be_used_again(address: Address) -> None:
    publish(address, "one", "two")
    target = address.queue("third")
    first, second = (address.first.path / ".messages" / name for name in address.first.listed())
    name = target.path / first.name
    shell(f"mv {first} {target.path}", address.path)
    assert name.stat().st_size == 0, "for whoever looks at once"
    assert errno_of(name.read_bytes) == errno.EACCES
    second.rename(name)
    name.write_text("three\n")
    assert bodies(target) == ["one", "two", "three"]
    assert name.name not in os.listdir(target.path)
    until(lambda: not name.exists(), "the name goes")


@pytest.mark.rule("S-84")
def test_where_messages_are_not_moved(address: Address) -> None:
    publish(address, "one")
    queue = address.first.path
    message = queue / ".messages" / address.first.listed()[0]
    for target in (queue / "x", address.path / "x", address.mount.path / "x", queue / ".where" / "x" / "x"):
        assert errno_of(message.rename, target) == errno.EPERM, target
    third = address.queue("third")
    message.rename(third.path / "_x")
    assert bodies(address.first) == []
    assert bodies(third) == ["one"]
    for directory in (queue, address.path):
        assert errno_of(directory.rename, directory.with_name("renamed")) == errno.EPERM


@pytest.mark.rule("S-85")
def test_making_and_deleting_addresses_and_queues(mount: MountedStore, address: Address) -> None:
    publish(address, "one")
    assert errno_of(address.path.mkdir) == errno.EEXIST
    assert errno_of((mount.path / "broken%zz").mkdir) == errno.EINVAL
    assert errno_of(address.first.path.rmdir) == errno.ENOTEMPTY
    assert errno_of(address.path.rmdir) == errno.ENOTEMPTY
    shell(f"rm .messages/{address.first.listed()[0]} && rmdir $PWD", address.first.path)
    assert os.listdir(address.path) == [address.second.path.name]
    shell(f"rm -r {address.name}", mount.path)
    assert not address.path.exists()
    address.path.mkdir()
    assert os.listdir(address.path) == []
    other = mount.path / f"{address.name}-other"
    (other / "shared").mkdir(parents=True)
    assert errno_of((address.path / "shared").mkdir) == errno.EEXIST
    encoded = mount.path / f"{address.name}%2Fchild"
    encoded.mkdir()
    assert mount.control("status.json")
    encoded.rmdir()


@pytest.mark.rule("S-82")
def test_a_directory_can_be_copied_away_and_back(address: Address, tmp_path: Path) -> None:
    publish(address, "one", "two")
    part = sealed(address.first)
    assert os.listdir(address.first.path) == [part.name]
    copy = address.first.path.with_name(f"{address.first.path.name}-copy")
    empty = address.queue("empty")
    shell(
        f"""set -e; cp -r {address.first.path} {address.first.path}-at-once
        cp -r {address.first.path} {tmp_path}/away; cp -r {tmp_path}/away {copy}
        cp -r {empty.path} {tmp_path}/none; cp -r {tmp_path}/none {empty.path}-copy""",
        tmp_path,
    )
    assert bodies(QueueOnDisk(copy)) == ["one", "two"]
    assert QueueOnDisk(Path(f"{empty.path}-copy")).lines() == []
    publish(address, "three")
    again = address.queue("again")
    shell(
        f"cp -r {address.first.path}/. {again.path}/; rsync -r {address.first.path}/ {again.path}/", tmp_path
    )
    assert sorted(bodies(again)) == ["one", "one", "three", "three", "two", "two"]
    rest = address.queue("rest")
    assert os.listdir(rest.path) == []
    assert not (rest.path / "_tail.jsonl").exists()
    # From the tail, unless a second has passed.
    shell(f"grep -h three {address.first.path}/*.jsonl >> _tail.jsonl; echo more > in.txt", rest.path)
    (rest.path / "_staged").write_text('{"type":"text","body":"staged"}\n')
    (rest.path / "_staged").rename(rest.path / "_tail.jsonl")
    assert bodies(rest) == ["three", "more", "staged"]
    assert list(map(is_tail, os.listdir(rest.path))) == [True]


@pytest.mark.rule("S-83", "S-84")
def test_a_tail_that_became_a_part_since_it_was_listed_is_not_said_to_be_removed(address: Address) -> None:
    queue = address.first.path
    write_at_once(queue / "in.txt", [b"one\n"])
    part = sealed(address.first)
    tail = queue / "_tail.jsonl"
    assert errno_of(tail.unlink) == errno.ENOENT
    assert errno_of(tail.rename, address.second.path / "moved.jsonl") == errno.ENOENT
    assert errno_of((queue / ".where/JMSPriority=4/_tail.jsonl").unlink) in (errno.ENOENT, errno.EPERM)
    assert tail.read_bytes() == b""
    assert bodies(address.first) == ["one"]
    assert "cannot remove" in shell(f"rm {tail} 2>&1 || true", queue)
    assert parts(address.first) == [part]
    shell("rm *.jsonl", queue)
    assert bodies(address.first) == []
    tail.unlink()
    shell(f"rm -r {queue}", queue.parent)


@pytest.mark.rule("S-13")
def test_parts_that_are_copied_keep_their_order(address: Address, tmp_path: Path) -> None:
    """Programs that copy directories take files by inode number."""
    bodies_ = ["one", "two", "three", "four", "five"]
    for count, body in enumerate(bodies_, 1):
        (address.first.path / "in.txt").write_text(f"{body}\n")
        if body != bodies_[-1]:
            until(lambda count=count: len(parts(address.first)) == count, "a part")  # type: ignore[misc]
    queue = address.first.path
    shell(f"cp -r {queue} {queue}-with-tail", tmp_path)
    assert sorted(bodies(QueueOnDisk(Path(f"{queue}-with-tail")))) == sorted(bodies_)
    until(lambda: len(parts(address.first)) == len(bodies_), "the tail becomes a part")
    shell(f"set -e; cp -r {queue} {queue}-copied; mkdir {queue}-tar; tar c . | tar x -C {queue}-tar", queue)
    assert bodies(QueueOnDisk(Path(f"{queue}-copied"))) == bodies_
    assert bodies(QueueOnDisk(Path(f"{queue}-tar"))) == bodies_


@pytest.mark.rule("S-82")
def test_a_part_is_not_copied_over_one_of_its_name(address: Address, tmp_path: Path) -> None:
    """Names of parts say of which queue they are, so it is copied back to that one, or was listed there."""
    publish(address, "one")
    part = sealed(address.first)
    (tmp_path / "copy").mkdir()
    shell(f"cp {part} {tmp_path}/copy; echo three > {tmp_path}/copy/in.txt", address.path)
    said = shell(f"cp {tmp_path}/copy/* {part.parent}/", address.path, succeeds=False)
    assert "Operation not permitted" in said
    assert bodies(address.first) == ["one", "three"]
    ((path, why),) = address.refusals()
    assert path.endswith(f"{part.name}: EPERM")
    assert "a part of this name is there already" in why
    assert "cp FROM/.all.jsonl TO/copy.jsonl" in why
    (tmp_path / "copy" / part.name).write_text('{"body":"another"}\n')
    shell(f"rsync {tmp_path}/copy/{part.name} {part.parent}/", address.path, succeeds=False)
    assert "under a new name" in address.refusals()[-1][1]
    other = Address(address.mount)
    publish(other, "two")
    there = sealed(other.second)
    assert part.name != there.name
    shell(f"cp {part} {there.parent}/", address.path)
    shell(f"cp {address.first.path}/.all.jsonl {there.parent}/copy.jsonl", address.path)
    assert bodies(other.second) == ["two", "one", "one", "three"]
    assert other.refusals() == []


@pytest.mark.rule("S-40", "S-86")
def test_modes_and_times(address: Address) -> None:
    publish(address, "one")
    message = address.first.path / ".messages" / address.first.listed()[0]
    part = sealed(address.first)
    assert [path.stat().st_mode & 0o777 for path in (message, part)] == [0o644] * 2
    for path in (address.path, address.first.path):
        path.chmod(0o700)
        os.utime(path, (1, 1))
        assert path.stat().st_mode & 0o777 == 0o700
    changes: list[Callable[[Path], None]] = [
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, (1, 1)),
        lambda path: os.truncate(path, 0),
        lambda path: path.open("ab").close(),
        lambda path: path.open("wb").close(),
    ]
    for path in (message, part):
        for change in changes:
            assert errno_of(change, path) == errno.EPERM
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-70")
def test_all_of_it_is_there_after_a_remount(remount: Remount) -> None:
    address = Address(remount())
    publish(address, "one", "two", "three")
    (address.first.path / ".messages" / address.first.listed()[0]).unlink()
    moved = address.first.path / ".messages" / address.first.listed()[0]
    moved.rename(address.second.path / "x")
    before = [read_lines(queue.path) for queue in (address.first, address.second)]
    remount()
    assert [read_lines(queue.path) for queue in (address.first, address.second)] == before
    assert [line["body"] for line in before[0]] == ["three"]


def removed_as_tail(address: Address, path: Path) -> bool:
    """Remove it when it was read and got more. False: what was read became a part meanwhile, as it does when
    nothing comes for a second, and stays.
    """
    publish(address, "one", "two")
    read = path.read_bytes().count(b"\n")
    publish(address, "three")
    with suppress(FileNotFoundError):
        path.unlink()
    return read == 2 and not parts(address.first)


@pytest.mark.rule("S-83", "S-192")
@pytest.mark.parametrize("name", ["_tail.jsonl", ".all.jsonl", ".where/JMSPriority=4/.all.jsonl"])
def test_what_came_after_it_was_read_goes_too_and_an_event_tells(mount: MountedStore, name: str) -> None:
    """Moving to another file system reads and removes. What nobody read is among what was removed."""
    address = Address(mount)
    while not removed_as_tail(address, address.first.path / name):
        assert name == "_tail.jsonl"
        address = Address(mount)
    assert bodies(address.first) == []
    removed = address.mount.path / ".journalfs/removed" / address.name / address.first.path.name
    assert bodies(QueueOnDisk(removed)) == ["one", "two", "three"]
    said = [event for event in address.mount.events() if event["event"] == "emptied"]
    assert any(event["what"].endswith(f"{address.first.path.name}/{name}") for event in said)


@pytest.mark.rule("S-83")
def test_a_queue_is_drained_by_moving_it_to_another_first(address: Address, tmp_path: Path) -> None:
    """Messages come meanwhile. Each is in the queue or in one of the files, once."""
    taken = Address(address.mount).first
    script = f"""
        (for n in $(seq 300); do echo "$n" > {address.path}/in.txt; done; touch {tmp_path}/done) &
        while [ ! -e {tmp_path}/done ]; do
            mv .all.jsonl {taken.path}/in && mv {taken.path}/.all.jsonl {tmp_path}/$((k++)).jsonl
        done; wait
    """
    shell(script, address.first.path)
    files = [path.read_text().splitlines() for path in tmp_path.glob("*.jsonl")]
    found = [json.loads(line)["body"] for lines in files for line in lines]
    assert len(found) > 0
    assert sorted([*found, *bodies(address.first)], key=int) == [str(n) for n in range(1, 301)]


@pytest.mark.rule("S-83")
def test_a_view_stays_when_all_in_it_is_removed(address: Address) -> None:
    view = ".messages"
    publish(address, "1", "2")
    shell(f"rm -r '{view}'", address.first.path, succeeds=False)
    assert bodies(address.first) == []
    ((what, why),) = address.refusals()
    assert what == f"{address.first.path.name}/{view}: EPERM"
    assert "always stays" in why
    assert "undo" in why


@pytest.mark.rule("S-3", "S-82")
def test_a_queue_has_a_tail_from_its_first_message_on(address: Address) -> None:
    """Whoever saw that message, or did not."""
    for taken in ("rm .all.jsonl", "rm -r .messages/*", "head -n 1 .take"):
        queue = address.queue("made")
        assert os.listdir(queue.path) == []
        assert errno_of(os.stat, queue.path / "_tail.jsonl") == errno.ENOENT
        shell(f"echo one > in.txt; {taken}", queue.path)
        until(lambda queue=queue: queue.status()["messageCount"] == 0, "it is gone")  # type: ignore[misc]
        assert list(map(is_tail, os.listdir(queue.path))) == [True]
        queue.path.rmdir()


@pytest.mark.rule("S-82")
def test_one_message_goes_to_another_place_as_its_line(address: Address) -> None:
    line = '{"type":"text","priority":7,"properties":{"k":1},"body":"one\\ntwo"}\n'
    (address.first.path / "in.jsonl").write_text(f'{{"type":"text","body":"other"}}\n{line}')
    (message,) = (one for one in address.first.lines() if one["body"] == "one\ntwo")
    shell(f"grep -h '\"id\":{message['id']},' {address.first.path}/*.jsonl > one.jsonl", address.second.path)
    (copied,) = address.second.lines()
    same = ("userId", "type", "priority", "properties", "propertyTypes", "body", "timestamp")
    assert [copied.get(key) for key in same] == [message.get(key) for key in same]
    shell(f"cp {address.first.path}/.messages/{message['id']}.txt in.txt", address.second.path)
    assert bodies(address.second)[1:] == ["one", "two"]


@pytest.mark.rule("S-82", "S-5")
def test_a_name_that_was_cut_is_not_made(address: Address) -> None:
    assert errno_of(os.mkdir, address.path / f"{'x' * 238}~0123456789abcdef") == errno.EINVAL
    assert "short form of a long name" in address.refusals()[0][1]
