"""Programs that remove a file to put another one in its place: in a queue that would acknowledge messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mount.conftest import until
from tests.writing.conftest import Address, bodies, shell, write_at_once


def publish(address: Address, *texts: str) -> None:
    write_at_once(address.first.path / "in.txt", ["".join(f"{text}\n" for text in texts).encode()])


@pytest.fixture
def part(address: Address) -> Path:
    """Two messages in a part; a third is in the tail."""
    publish(address, "one", "two")
    until(lambda: any(address.first.path.glob("part-*")), "they get a part")
    publish(address, "three")
    return next(address.first.path.glob("part-*"))


def replaced(address: Address) -> list[dict[str, Any]]:
    events = address.mount.events()
    mine = f"{address.name}/"
    return [event for event in events if event["event"] == "replaced" and event["what"].startswith(mine)]


@pytest.mark.rule("S-76")
@pytest.mark.parametrize("command", ["bsdcpio", "7zz", "borg", "git", "busybox tar", "busybox /nowhere/mv"])
def test_they_are_known_by_their_names(address: Address, part: Path, tmp_path: Path, command: str) -> None:
    program, _, arguments = command.partition(" ")
    (tmp_path / program).symlink_to("/bin/rm")  # a program of that name, which does the first half
    message = address.first.listed()[0]
    for name in (part.name, "_tail.jsonl", f".messages/{message}"):
        shell(f"{tmp_path}/{program} {arguments} {name}", address.first.path, succeeds=False)
    assert bodies(address.first) == ["one", "two", "three"]
    assert len([why for _, why in address.refusals() if "replace nothing" in why]) == 3
    assert replaced(address) == []


@pytest.mark.rule("S-76")
def test_others_of_many_names_remove_what_they_are_told_to(
    address: Address, part: Path, tmp_path: Path
) -> None:
    (tmp_path / "busybox").symlink_to("/bin/rm")
    shell(f"{tmp_path}/busybox -f {part.name}", address.first.path)
    assert bodies(address.first) == ["three"]


NEW = '{"type":"text","body":"new"}'


@pytest.fixture
def replace(tmp_path: Path) -> str:
    """A command that puts another file in the place of the one that it is given, and may read that before."""
    script = tmp_path / "replace.py"
    script.write_text(
        f"""
import os, sys
name, read = sys.argv[1:]
if read == "read":
    open(name).read()
os.unlink(name)
with open(name, "w") as file:
    file.write({NEW!r})
"""
    )
    return f"{sys.executable} {script}"


@pytest.mark.rule("S-76")
@pytest.mark.parametrize(("number", "left"), [(0, ["one", "two", "new"]), (1, ["three", "new"])])
def test_who_does_it_under_another_name_is_found_out(
    address: Address, part: Path, replace: str, number: int, left: list[str]
) -> None:
    name = ("_tail.jsonl", part.name)[number]
    shell(f"{replace} {name} unread", address.first.path)
    assert bodies(address.first) == left
    (event,) = replaced(address)
    assert event["what"] == f"{address.name}/{address.first.path.name}/{name}"
    assert "acknowledged what it held" in event["reason"]


@pytest.mark.rule("S-76")
def test_nothing_is_found_where_nothing_was_replaced(address: Address, part: Path, replace: str) -> None:
    queue = address.first.path
    shell(f"{replace} {part.name} read", queue)  # it has what it removed
    shell(f"rm _tail.jsonl; echo '{NEW}' > _tail.jsonl", queue)  # two processes
    shell("rm _tail.jsonl", queue)
    shell(f"{replace} _tail.jsonl unread", queue)  # there was nothing in it
    assert replaced(address) == []
