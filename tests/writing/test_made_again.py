"""Queues and addresses that are deleted and made again while somebody still has something of the old one."""

from __future__ import annotations

import os

import pytest

from tests.writing.conftest import Address, bodies, shell


def is_whole(address: Address) -> None:
    """The queue shows what comes, takes what is written, and can be emptied and deleted."""
    queue = address.first
    (queue.path / "in.txt").write_text("one\n")
    (address.path / "in.txt").write_text("two\n")
    assert bodies(queue) == ["one", "two"]
    assert shell("cat *.jsonl | wc -l; ls -a | head -2; grep -r one . | wc -l", queue.path).split() == [
        "2",
        ".",
        "..",
        "1",
    ]
    shell(f"rm -r {queue.path.name}", address.path)
    assert not queue.path.exists()


@pytest.mark.rule("S-85")
def test_a_queue_somebody_stands_in(address: Address) -> None:
    again = f"rmdir ../{address.first.path.name} && mkdir ../{address.first.path.name}"
    shell(f'{again} && {again.replace("..", str(address.path))} && test -z "$(ls)"', address.first.path)
    is_whole(address)


@pytest.mark.rule("S-85")
@pytest.mark.parametrize("name", [".all.jsonl", ".follow", ".status", ".messages"])
def test_a_queue_of_which_something_is_open(address: Address, name: str) -> None:
    descriptor = os.open(address.first.path / name, os.O_RDONLY)
    try:
        address.first.path.rmdir()
        address.first.path.mkdir()
        is_whole(address)
    finally:
        os.close(descriptor)


@pytest.mark.rule("S-85")
def test_a_queue_that_is_written_to(address: Address) -> None:
    descriptor = os.open(address.first.path / "in.bin", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"whole")
    address.first.path.rmdir()
    address.first.path.mkdir()
    is_whole(address)
    os.close(descriptor)


@pytest.mark.rule("S-85")
def test_an_address_somebody_stands_in(address: Address) -> None:
    name, queue = address.path.name, address.first.path.name
    address.second.path.rmdir()
    address.first.path.rmdir()
    shell(f"rmdir ../{name} && mkdir ../{name} && mkdir {address.path}/{queue}", address.path)
    assert os.listdir(address.path) == [queue]
    is_whole(address)


@pytest.mark.rule("S-85")
def test_who_stands_in_what_is_removed_gets_out(address: Address) -> None:
    """There is nothing in it, as in a removed directory of any file system."""
    (address.first.path / "in.txt").write_text("one\n")
    inside = (
        "test -d . && test -z \"$(ls -a | grep -v '^[.]*$')\" && test ! -e in.txt && test -e ../../.journalfs"
    )
    shell(f"rm -r ../{address.first.path.name} && {inside} && ! echo more > in.txt", address.first.path)
    assert not address.first.path.exists()
    address.first.path.mkdir()
    shell(f"rm -r ../../{address.path.name} && test -d ..", address.first.path)
    assert not address.path.exists()


@pytest.mark.rule("S-79")
def test_who_stands_in_what_is_published_gets_out(address: Address) -> None:
    queue = address.first.path
    shell("mkdir .new .gone; echo one > .new/in.txt", queue)
    shell("mv ../.new ../new && ls && ls .. && cat ../_tail.jsonl", queue / ".new")
    shell("rmdir ../.gone && ls .. && cat ../_tail.jsonl; mkdir ../.gone && rmdir ../.gone", queue / ".gone")
    assert bodies(address.first) == ["one"]
