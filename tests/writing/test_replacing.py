"""Programs that remove a file to put another one in its place acknowledge, and it comes back by undo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.writing.conftest import Address, bodies, shell
from tests.writing.test_removing import publish, sealed
from tests.writing.test_undo import undo

NEW = '{"type":"text","body":"new"}\n'


@pytest.mark.rule("S-280", "S-83")
@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("cp -f {new} $PART", ["new", "three"]),
        ("cp --remove-destination {new} $PART", ["new", "three"]),
        ("mv {new} $PART", ["new", "three"]),
        ("tar cf {folder}.tar -C {folder} --transform s/in.jsonl/$PART/ in.jsonl; tar xf {folder}.tar", None),
        ("exec -a tar rm $PART", ["three"]),
        ("exec -a mv rm .messages/$MESSAGE", ["three", "two"]),
        ("rsync -a --delete-before {folder}/ .", ["new"]),
        ("python3 -c 'import os, sys; os.unlink(sys.argv[1])' $PART; cat {new} > $PART", ["new", "three"]),
    ],
)
def test_whoever_replaces_a_file_removes_what_it_held_and_undo_brings_it_back(
    address: Address, tmp_path: Path, command: str, left: list[str] | None
) -> None:
    publish(address, "one", "two")
    part, message = sealed(address.first), address.first.listed()[0]
    publish(address, "three")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/in.jsonl").write_text(NEW)
    script = command.format(new=tmp_path / "in/in.jsonl", folder=tmp_path / "in")
    shell(f"PART={part.name}; MESSAGE={message}; ({script})", address.first.path)
    now = bodies(address.first)
    assert sorted(now) == (left or ["new", "three"])
    gone = {"one", "two", "three"} - set(now)
    came = undo(address.mount.path)
    if gone:
        assert came[address.first.path.name] == len(gone)
    assert gone <= set(bodies(address.first))
