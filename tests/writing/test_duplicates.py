"""Messages that were published before, as their duplicate ids say."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import Any

import pytest

from tests.mount.conftest import ROOT
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once


def line(body: str, duplicate_id: str | None) -> bytes:
    properties = {} if duplicate_id is None else {"_AMQ_DUPL_ID": duplicate_id}
    return json.dumps({"type": "text", "body": body, "properties": properties}).encode() + b"\n"


def left_out(address: Address) -> list[tuple[str, int]]:
    """What events say: path in the address, and how many."""
    said = [event for event in address.mount.events() if event["event"] == "duplicates"]
    mine = [event for event in said if event["what"].split("/")[0] == address.name]
    return [(event["what"].partition("/")[2], event["messages"]) for event in mine]


def counted(address: Address) -> int:
    status: dict[str, Any] = json.loads((address.path / ".status").read_bytes())
    count: int = status["duplicateMessages"]
    return count


@pytest.mark.rule("S-136")
def test_what_is_known_is_left_out_and_said(address: Address) -> None:
    first = address.first.path.name
    write_at_once(
        address.path / "in.jsonl", [line("a", "1") + line("b", "1") + line("c", "2") + line("d", None)]
    )
    assert bodies(address.first) == bodies(address.second) == ["a", "c", "d"]
    assert left_out(address) == [("in.jsonl", 1)]
    again = [line("e", "1") + line("f", "3"), line("g", "2"), line("h", "4")]
    write_at_once(address.first.path / "again.jsonl", again)
    assert bodies(address.first) == ["a", "c", "d", "f", "h"]
    assert left_out(address)[1:] == [(f"{first}/again.jsonl", 1)] * 2
    assert counted(address) == 3
    assert address.refusals() == []


@pytest.mark.rule("S-136")
def test_what_was_written_can_be_written_again(address: Address) -> None:
    content = b"".join(line(str(number), f"id {number}") for number in range(100))
    # Cut off in the middle of a line.
    assert errno_of(write_at_once, address.first.path / "in.jsonl", [content[:5000]]) == errno.EINVAL
    shell(f"cat > whole.jsonl <<'END'\n{content.decode()}END", address.first.path)
    assert sorted(map(int, bodies(address.first))) == list(range(100))
    assert sum(count for _, count in left_out(address)) == counted(address) > 10


@pytest.mark.rule("S-136")
def test_in_a_rename_and_after_all_were_consumed(address: Address) -> None:
    (address.path / "_batch").mkdir()
    for name in ("one", "two"):
        (address.path / "_batch" / f"{name}.jsonl").write_bytes(line(name, "same") + line(name, name))
    os.rename(address.path / "_batch", address.path / "batch")
    assert bodies(address.first) == ["one", "one", "two"]
    shell(f"rm {address.first.path}/*.jsonl {address.second.path}/*.jsonl", address.path)
    (address.path / "_staged").write_bytes(line("three", "one"))
    os.rename(address.path / "_staged", address.path / "three.jsonl")
    assert bodies(address.first) == []
    assert left_out(address) == [("", 1), ("three.jsonl", 1)]
    assert counted(address) == 2


@pytest.mark.rule("S-136")
@pytest.mark.parametrize("paged", [False, True])
def test_of_many_too_and_in_the_next_mount(remount: Remount, paged: bool) -> None:
    address = Address(remount())
    if paged:
        os.setxattr(address.path, "user.journalfs.max-size-bytes", b"1")
        write_at_once(address.path / "in.txt", [b"begins to page\n"])
    known = b"".join(line(str(number), f"id {number}") for number in range(3000))
    write_at_once(address.path / "_staged", [known])
    os.rename(address.path / "_staged", address.path / "many.jsonl")
    assert len(bodies(address.first)) == 3000 + paged
    assert left_out(address) == []
    remount()
    write_at_once(address.path / "_staged", [known + line("new", "new") + known])
    os.rename(address.path / "_staged", address.path / "more.jsonl")
    assert bodies(address.first)[-1] == "new"
    assert len(bodies(address.second)) == 3001 + paged
    assert left_out(address) == [("more.jsonl", 6000)]
    assert counted(address) == 6000


@pytest.mark.rule("S-136")
def test_who_removes_the_id_publishes_again(address: Address) -> None:
    """By what the documents recommend, for ids of all kinds."""
    by_bytes = b'{"body":"b","properties":{"_AMQ_DUPL_ID":"BQD/"},"propertyTypes":{"_AMQ_DUPL_ID":"bytes"}}\n'
    by_amqp = b'{"protocol":"AMQP","body":"c","properties":{"_AMQ_DUPL_ID":"1c","k":"v"}}\n'
    none = b'{"protocol":"AMQP","body":"d"}\n'
    write_at_once(address.first.path / "in.jsonl", [line("a", "1"), by_bytes, by_amqp, none])
    known = json.loads((address.first.path / ".all.jsonl").read_bytes().splitlines()[1])
    assert known["duplicateId_base64"] == "BQD/"
    text = (ROOT / "docs/operate/backup.md").read_text()
    (recipe,) = re.findall(r"^jq -c 'del\(\.duplicateId[^']*'$", text, re.MULTILINE)
    shell(f"set -e; jq -c . .all.jsonl > a.jsonl; {recipe} .all.jsonl > b.jsonl", address.first.path)
    assert sorted(bodies(address.first)) == [*"aabbcc", *"dddd"]
    assert counted(address) == 3
