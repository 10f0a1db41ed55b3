"""Tools that change files in place, on messages, which do not change: they fail, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import QueueOnDisk, is_tail
from tests.writing.conftest import Address, bodies, errno_of, shell, write_at_once

NOT_EMPTIED = "emptying it takes no message away"


@pytest.fixture
def part(address: Address) -> Path:
    """Two messages in a part."""
    write_at_once(address.first.path / "in.txt", [b"one\ntwo\n"])
    until(lambda: any(address.first.path.glob("part-*")), "they get a part")
    return next(address.first.path.glob("part-*"))


@pytest.mark.rule("S-76")
@pytest.mark.parametrize(
    "command",
    [
        "> $PART",
        "echo x >> $PART",
        "echo x | tee $PART",
        "echo x | tee -a $PART",
        "truncate -s 0 $PART",
        "sed -i s/one/three/ $PART",
        "cp in.jsonl $PART",
        "cp --backup=simple in.jsonl $PART",
        "mv $PART $PART~",
        "printf '1s/one/three/\\nwq\\n' | ed -s $PART && false",
        "> .messages/$MESSAGE",
        "truncate -s 0 .all.jsonl",
    ],
)
def test_nothing_changes(address: Address, part: Path, command: str) -> None:
    folder = address.first.path
    given = folder.parent / "_in.jsonl"  # a staged file is as any other
    given.write_text('{"type":"text","body":"new"}\n')
    message = address.first.listed()[0]
    before = address.first.lines()
    script = f"PART={part.name}; MESSAGE={message}\n{command.replace('in.jsonl', str(given))}"
    shell(script, folder, succeeds=False)
    assert address.first.lines() == before
    assert os.listdir(folder) == [part.name]
    assert any(what.endswith(": EPERM") for what, _ in address.refusals())


@pytest.mark.rule("S-78", "S-79")
@pytest.mark.parametrize("name", ["in.jsonl~", "#in.jsonl#", "part-0001-0000000001.jsonl~"])
def test_copies_that_editors_keep_are_no_messages(address: Address, name: str) -> None:
    folder = address.first.path
    (folder / name).write_text("what it was\n")
    assert (folder / name).read_text() == "what it was\n"
    assert os.listdir(folder) == []
    (folder / name).unlink()
    (folder / "_batch").mkdir()
    for each in ("one.txt", name):
        (folder / "_batch" / each).write_text(f"{each}\n")
    (folder / "_batch").rename(folder / "batch")
    assert bodies(address.first) == ["one.txt"]
    (address.path / f"{name}~").mkdir()  # a queue may have any name
    assert f"{name}~" in os.listdir(address.path)


@pytest.mark.rule("S-76")
@pytest.mark.parametrize(
    ("command", "succeeds"),
    [
        ("> _tail.jsonl", True),  # shells do not look at what closing says
        ("cp /dev/null _tail.jsonl", True),
        ("truncate -s 0 _tail.jsonl", False),
        ("truncate -s 7 _tail.jsonl", False),
    ],
)
def test_emptying_the_tail_takes_nothing_away(address: Address, command: str, succeeds: bool) -> None:
    # What comes all the time keeps the tail from becoming a part.
    folder = address.first.path
    shell("while ! test -s _tail.jsonl; do echo one > in.txt; done", folder)
    before = len(address.first.lines())
    shell(f"echo one > in.txt; {command}; echo rc=$? > {folder.parent}/_rc; ls > /dev/null", folder)
    assert (folder.parent / "_rc").read_text() == f"rc={0 if succeeds else 1}\n"
    assert len(address.first.lines()) == before + 1
    until(lambda: len(address.refusals()) == 1, "an event says so")
    ((what, reason),) = address.refusals()
    assert what.startswith(f"{address.name}-first/_tail.jsonl: E")
    assert NOT_EMPTIED in reason or "cannot become 7" in reason


@pytest.mark.rule("S-76")
@pytest.mark.parametrize("command", ["gzip {}", "gzip -S .z {}", "zstd -q --rm {}"])
def test_what_compresses_in_place_takes_nothing_away(address: Address, part: Path, command: str) -> None:
    """It writes another file, which would be one message, and removes the one that it read."""
    queue = address.first.path
    for name in (part.name, "_tail.jsonl", ".all.jsonl"):
        shell(command.format(name), queue, succeeds=False)
    assert bodies(address.first) == ["one", "two"]
    assert not [name for name in os.listdir(queue) if name.endswith((".gz", ".z", ".zst"))]
    for name in (f"{part.name}.gz", "_tail.jsonl.gz", ".all.jsonl.zst"):
        assert errno_of(lambda name=name: (queue / name).stat()) == errno.ENOENT
    assert any("ELSEWHERE" in reason for _, reason in address.refusals())
    shell(f"cp {part.name} other.gz && cp {part.name} part-1.jsonl.gz", queue)
    assert len(address.first.lines()) == 4, "names that mean nothing here"


@pytest.mark.rule("S-80", "S-85")
def test_what_to_do_instead_is_said(address: Address, part: Path) -> None:
    queue = address.first.path
    before = (queue / ".settings").read_text()
    shell("sed -i 's/^paused = .*/paused = true/' .settings", queue, succeeds=False)
    assert "> .settings" in address.refusals()[-1][1]
    assert (queue / ".settings").read_text() == before
    for old in (queue, address.path):
        shell(f"mv {old.name} renamed", old.parent, succeeds=False)
    said = [event for event in address.mount.events() if event["event"] == "refused"][-2:]
    assert all("mv OLD/*.jsonl NEW/" in event["reason"] for event in said)
    shell(
        f"mkdir {address.name}-new && mv {queue.name}/*.jsonl {address.name}-new/ && rmdir {queue.name}",
        address.path,
    )
    assert bodies(QueueOnDisk(address.path / f"{address.name}-new")) == ["one", "two"]


@pytest.mark.rule("S-76", "S-82")
def test_what_is_written_to_the_tail_is_added_whatever_it_is_opened_with(address: Address) -> None:
    shell(
        """set -e; printf '{"type":"text","body":"one"}\n' > _tail.jsonl
        cat _tail.jsonl *.jsonl | head -n 1 > ../_copy; cp ../_copy _tail.jsonl; cat ../_copy >> _tail.jsonl
        : > ../empty.txt""",
        address.first.path,
    )
    assert bodies(address.first) == ["one"] * 3
    assert address.refusals() == []


@pytest.mark.rule("S-18")
def test_an_open_tail_and_all_keep_what_they_had(address: Address) -> None:
    (address.first.path / "in.txt").write_text("before\n")
    queue = address.first.path
    with (queue / "_tail.jsonl").open("rb") as tail, (queue / ".all.jsonl").open("rb") as whole:
        had = whole.read()
        tail.read()
        (queue / "again.jsonl").write_bytes(had)
        assert (whole.read(), tail.read()) == (b"", b"")
    assert len(bodies(address.first)) == 2 * had.count(b"\n")


@pytest.mark.rule("S-13", "S-15")
def test_one_file_has_all_in_the_order_of_arrival(address: Address, part: Path) -> None:
    script = "LC_ALL=C; until test -s _tail.jsonl; do echo three > in.txt; done; echo *.jsonl; cat .all.jsonl"
    names, *lines = shell(script, address.first.path).splitlines()
    tail, *others = names.split()
    assert is_tail(tail)
    assert others[0] == part.name
    texts = [json.loads(line)["body"] for line in lines]
    assert texts == ["one", "two"] + ["three"] * (len(texts) - 2)
    assert len(texts) > 2
