"""Programs that remove a file to put another one in its place: in a queue that would acknowledge messages."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.writing.conftest import Address, bodies, shell
from tests.writing.test_removing import publish, sealed


@pytest.fixture
def part(address: Address) -> Path:
    """Two messages in a part; a third is in the tail."""
    publish(address, "one", "two")
    found = sealed(address.first)
    publish(address, "three")
    return found


def replaced(address: Address) -> list[dict[str, Any]]:
    events = address.mount.events()
    mine = f"{address.name}/"
    return [event for event in events if event["event"] == "replaced" and event["what"].startswith(mine)]


@pytest.mark.rule("S-76", "S-82")
@pytest.mark.parametrize(
    "command",
    [
        "mv {copy}/part* {copy}/_tail* .",
        "tar xf {copy}.tar --strip-components=1",
        "cp --remove-destination {copy}/* .",
        "install {copy}/_tail* .",
    ],
)
def test_who_puts_a_file_in_the_place_of_messages_acknowledges_none(
    address: Address, tmp_path: Path, command: str
) -> None:
    """What is moved from another file system, or unpacked, would be removed first."""
    publish(address, "one")
    part = sealed(address.first)
    publish(address, "two")
    shell(f"cp -r . {tmp_path}/copy; tar cf {tmp_path}/copy.tar -C {tmp_path} copy", address.first.path)
    part.unlink()
    shell(command.format(copy=tmp_path / "copy"), address.first.path, succeeds=False)
    assert "two" in bodies(address.first)
    refused = [why for path, why in address.refusals() if "/_tail" in path]
    assert any("replace nothing" in why for why in refused)
    assert part.name in os.listdir(tmp_path / "copy") or "one" in bodies(address.first)


@pytest.mark.rule("S-76")
@pytest.mark.parametrize("when", ["--delete", "--delete-before", "--delete-after", "--delete-delay"])
def test_a_queue_that_is_made_like_a_folder_loses_nothing(
    address: Address, tmp_path: Path, when: str
) -> None:
    """Least of all what was just brought."""
    publish(address, "one")
    sealed(address.first)
    publish(address, "two")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/in.txt").write_text("three\nfour\n")
    shell(f"rsync -a {when} {tmp_path}/new/ .", address.first.path, succeeds=False)
    assert bodies(address.first) == ["one", "two", "three", "four"]
    assert any("like another folder" in why for path, why in address.refusals() if "/_tail" in path)


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
    assert "acknowledged its messages" in event["reason"]


@pytest.mark.rule("S-76")
def test_nothing_is_found_where_nothing_was_replaced(address: Address, part: Path, replace: str) -> None:
    queue = address.first.path
    shell(f"{replace} {part.name} read", queue)  # it has what it removed
    shell(f"rm _tail.jsonl; echo '{NEW}' > _tail.jsonl", queue)  # two processes
    shell("rm .all.jsonl", queue)
    shell(f"{replace} _tail.jsonl unread", queue)  # there was nothing in it
    assert replaced(address) == []
