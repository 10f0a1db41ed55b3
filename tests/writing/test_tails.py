"""The tail of a queue, as programs find it that copy, unpack and replace files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mounting import QueueOnDisk, is_tail
from tests.writing.conftest import Address, bodies, shell
from tests.writing.test_removing import publish, sealed

TRIES_MAX = 20
"""So often at most is a tail a part by the time that it is listed, where the machine is slow."""


@pytest.fixture
def emptied(address: Address) -> QueueOnDisk:
    """The queue with an empty tail, alone."""
    publish(address, "one")
    sealed(address.first).unlink()
    assert (address.first.path / "_tail.jsonl").read_bytes() == b""
    return address.first


@pytest.mark.rule("S-76", "S-82")
@pytest.mark.parametrize(
    ("command", "published"),
    [
        ("tar xf {folder}/empty.tar", []),
        ("tar xf {folder}/full.tar", ["new"]),
        ("cp --remove-destination {folder}/full/_tail.jsonl .", ["new"]),
        ("install {folder}/full/_tail.jsonl . || true", ["new"]),
        ("mv {folder}/full/_tail.jsonl .", ["new"]),
    ],
)
def test_an_empty_tail_makes_way_for_another(
    emptied: QueueOnDisk, tmp_path: Path, command: str, published: list[str]
) -> None:
    """Or `tar` would try to remove it for ever."""
    for name, content in (("empty", ""), ("full", '{"body":"new"}\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_tail.jsonl").write_text(content)
        shell(f"tar cf {name}.tar -C {name} _tail.jsonl", tmp_path)
    shell(command.format(folder=tmp_path), emptied.path)
    assert bodies(emptied) == published
    assert (emptied.path / "_tail.jsonl").exists()
    assert sorted(os.listdir(emptied.path))[0].startswith("_tail")
    shell("echo later > in.txt; cat _tail.jsonl | grep -c later", emptied.path)


@pytest.mark.rule("S-76")
def test_a_tail_that_was_removed_is_back_with_a_message(emptied: QueueOnDisk, address: Address) -> None:
    shell("rm _tail.jsonl", emptied.path)
    assert os.listdir(emptied.path) == []
    publish(address, "two")
    assert bodies(emptied) == ["two"]
    shell("rm _tail.jsonl", emptied.path)
    assert list(map(is_tail, os.listdir(emptied.path))) == [True]


@pytest.mark.rule("S-71", "S-82")
@pytest.mark.parametrize(
    "command",
    [
        "cp -p {folder}/_tail.jsonl .",
        "cp -a {folder}/. .",
        "tar xf {folder}/../full.tar --overwrite",
        "rsync -a {folder}/ .",
        "cp {folder}/_tail.jsonl .; chmod 600 _tail.jsonl; touch _tail.jsonl",
    ],
)
def test_who_copies_onto_a_tail_may_set_its_times(address: Address, tmp_path: Path, command: str) -> None:
    """What was published must not look failed: it would be done again."""
    publish(address, "one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/_tail.jsonl").write_text('{"body":"new"}\n')
    shell("tar cf full.tar -C full .", tmp_path)
    shell(command.format(folder=tmp_path / "full"), address.first.path)
    assert bodies(address.first) == ["one", "new"]


def test_a_queue_is_as_old_as_it_is(address: Address, tmp_path: Path) -> None:
    """What looks for what came since finds it."""
    (tmp_path / "before").touch()
    queue = address.queue("third")
    found = shell(f"find {address.path} -newer {tmp_path}/before -name {queue.path.name}", tmp_path)
    assert found.split() == [str(queue.path)]


@pytest.mark.rule("S-13", "S-15", "S-83")
def test_files_are_listed_in_the_order_of_arrival(address: Address) -> None:
    publish(address, "one")
    part = sealed(address.first)
    for view in (address.first.path, address.first.path / ".where/JMSPriority = 4"):
        for _ in range(TRIES_MAX):
            publish(address, "another")
            with os.scandir(view) as listed:
                first, *parts, last = (entry.name for entry in listed)
            assert first == part.name
            assert sorted(parts) == parts
            assert not any(map(is_tail, parts))
            if is_tail(last):
                break
        else:
            pytest.fail("what just came is a part whenever it is looked at")
    shell(f"rm -r {address.first.path}", address.path)
    assert not address.first.path.exists()
