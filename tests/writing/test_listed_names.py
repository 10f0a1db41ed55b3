"""What was listed, read later by a shell; and copies of what is listed, copied back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import is_tail
from tests.writing.conftest import Address, bodies, shell
from tests.writing.test_removing import parts, publish


@pytest.mark.rule("S-180")
def test_a_listing_that_is_read_later_misses_and_doubles_nothing(address: Address, tmp_path: Path) -> None:
    queue = address.first.path
    publish(address, "one", "two")
    until(lambda: len(parts(address.first)) == 1, "a part")
    publish(address, "three", "four")
    listed = shell("echo *.jsonl", queue).split()
    assert any(map(is_tail, listed))
    until(lambda: len(parts(address.first)) == 2, "the tail became a part")
    publish(address, "five")
    assert not set(listed) <= set(shell("ls", queue).split())
    read = f"cat {' '.join(listed)} | jq -r .body"
    assert sorted(shell(read, queue).split()) == ["four", "one", "three", "two"]
    tail = next(filter(is_tail, listed))
    assert shell(f"stat -c %s {tail}; wc -c < {tail}; grep -c . {tail}", queue).split()[2] == "2"
    shell(f"rm .messages/{address.first.listed()[2]}", queue)
    assert shell(f"jq -r .body {tail}", queue).split() == ["four"]
    shell(f"mv {tail} {tmp_path}/taken", queue)
    assert "No such file" in shell(f"cat {tail} 2>&1 || true", queue)
    assert bodies(address.first) == ["one", "two", "five"]
    assert "four" in (tmp_path / "taken").read_text()


@pytest.mark.rule("S-180", "S-82")
@pytest.mark.parametrize(
    "command", ["cp {away}/* .", "rsync -r {away}/ .", "cat {away}/* > _x; mv _x {tail}"]
)
def test_a_copied_tail_is_messages_wherever_it_is_copied_to(
    address: Address, tmp_path: Path, command: str
) -> None:
    """Though its name begins as those of staged files do, and messages would wait there for ever."""
    publish(address, "one")
    away = tmp_path / "away"
    away.mkdir()
    shell(f"cp {address.first.path}/*.jsonl {away}/", address.path)
    (name,) = [path.name for path in away.iterdir()]
    tail = name.replace("part-", "_tail-")
    (away / name).rename(away / tail)
    third = address.queue("third")
    shell(command.format(away=away, tail=tail), third.path)
    assert bodies(third) == ["one"]
    shell(command.format(away=away, tail=tail), address.path)
    assert bodies(third) == ["one", "one"]
