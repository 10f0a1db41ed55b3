"""What was listed, read later by a shell; and copies of what is listed, copied back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import QueueOnDisk, is_tail, mounted_for_writing
from tests.writing.conftest import Address, bodies, new_store, shell
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


def settled(queue: QueueOnDisk, count: int) -> None:
    """Wait until all of it is in parts."""
    until(
        lambda: (len(parts(queue)), any(map(is_tail, queue.listed()))) == (count, False), "the tail is a part"
    )


@pytest.mark.rule("S-180")
@pytest.mark.parametrize(
    ("command", "shown", "left"),
    [
        ("cat {names} | jq -r .body", "one two", "one two three"),
        ("find {queue} -name '*.jsonl' | xargs cat | jq -r .body", "one two three", "one two three"),
        ("rm {names}", "", "three"),
        ("mv {names} {other}/; cat {other}/*.jsonl | jq -r .body", "one two", "three"),
        ("tar cf - {names} 2>/dev/null | tar xOf - | jq -r .body", "one two", "one two three"),
        ("cp {names} {other}/; cat {other}/*.jsonl | jq -r .body", "one two", "one two three"),
        ("rm -f {queue}/.messages/*; cat {names} 2>&1 | grep -c 'No such file'", "1", ""),
    ],
)
def test_what_a_shell_does_with_the_name_of_a_tail_later(
    address: Address, command: str, shown: str, left: str
) -> None:
    publish(address, "one", "two")
    names = shell("echo *.jsonl", address.first.path).split()
    assert all(map(is_tail, names))
    settled(address.first, 1)
    publish(address, "three")
    facts = {"names": " ".join(names), "queue": address.first.path, "other": address.second.path}
    shell("rm -f .all.jsonl", address.second.path)
    said = shell(command.format(**facts), address.first.path)
    assert sorted(said.split()) == sorted(shown.split())
    assert bodies(address.first) == left.split()


@pytest.mark.rule("S-180")
def test_names_of_tails_outlive_the_mount(tmp_path: Path) -> None:
    """Of two queues, one of whose tails is several parts by then."""
    store, mnt = new_store(tmp_path / "store"), tmp_path / "mnt"
    with mounted_for_writing(store, mnt) as mount:
        shell("mkdir -p a/a b/b; seq 70000 > a/a/in.txt; echo x > b/b/in.txt", mount.path)
        names = shell("echo */*/*.jsonl", mount.path).split()
        shell("echo later > a/a/in.txt", mount.path)
    with mounted_for_writing(store, mnt) as mount:
        shell("echo later still > a/a/in.txt", mount.path)
        found = shell(f"cat {' '.join(names)} | jq -r .body", mount.path).splitlines()
        assert {*map(str, range(1, 70_001)), "x"} <= {*found} <= {*map(str, range(1, 70_001)), "x", "later"}
        assert len(found) == len({*found})
        assert "later still" in shell("cat a/a/*.jsonl", mount.path)


TEXTS = [f"text {number}" for number in range(200)]


def lookups(address: Address) -> int:
    found: int = address.mount.control("mount.json")["requests"]["lookup"]
    return found


@pytest.mark.rule("S-288")
def test_a_list_of_messages_asks_for_none_of_them_again(address: Address) -> None:
    publish(address, *TEXTS)
    messages = address.first.path / ".messages"
    asked = []
    for _ in range(5):  # what left in a test before may be told once more meanwhile
        before = lookups(address)
        # Published meanwhile: what is there stays.
        listed = shell("ls -l; echo more >> ../../in.txt; ls -l", messages).splitlines()
        asked.append(lookups(address) - before)
    assert len(listed) == 2 * (len(TEXTS) + 5) + 1
    assert min(asked) < len(TEXTS) / 2


@pytest.mark.rule("S-288")
@pytest.mark.parametrize(
    "command",
    [
        "rm '{first}/.where/AMQPriority > 0/.all.jsonl'",
        "rm {first}/.all.jsonl",
        "mv {first}/.all.jsonl {second}/",
        'head -n {count} {first}/.take > /dev/null; until [ -z "$(ls {first}/.messages)" ]; do :; done',
        "setfattr -n user.journalfs.ring-size -v 1 {first}; seq 5 >> {first}/in.txt; "
        "until [ $(ls {first}/.messages | wc -l) = 1 ]; do :; done",
        "mkdir {transaction}; mv {first}/.all.jsonl {transaction}/x",
    ],
)
def test_what_left_by_another_way_is_gone_at_once(address: Address, command: str) -> None:
    publish(address, *TEXTS)
    messages = address.first.path / ".messages"
    listing = os.scandir(messages)
    with listing:
        begun = next(listing).name
        with os.scandir(messages) as entries:
            names = [entry.name for entry in entries if entry.stat().st_size]
        assert (names[0], len(names)) == (begun, len(TEXTS))
        facts = {
            "first": address.first.path,
            "second": address.second.path,
            "count": len(names),
            "transaction": address.mount.path / ".journalfs/transactions" / address.name,
        }
        shell(command.format(**facts), address.path)
        assert [name for name in names if (messages / name).exists()] == []
        # A list that was begun before goes on as it was begun, and nobody believes it.
        rest = [entry.name for entry in listing]
    assert set(rest) <= set(names)
    assert [name for name in rest if (messages / name).exists()] == []
