"""A store of which a part is not there, as when its disk was not mounted: nothing of the rest goes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from journalfs.api import ByteSource
from journalfs.errors import PartMissing
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from tests.mounting import journalfs
from tests.store.conftest import QUEUE_A, LittleStore

EXIT_DAMAGED = 5

Copy = Callable[[str], Path]


def bodies_and_pages(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("large-messages", "paging")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def messages_of(data: Path) -> dict[str, list[str]]:
    """Ids of what is live, by queue; nothing is damaged."""
    store = open_store(data, index=False)
    try:
        assert not store.core.damage()
        return {queue.name: ids_of(queue.open_all()) for queue in store.queues()}
    finally:
        store.close()


def ids_of(source: ByteSource) -> list[str]:
    try:
        content = bytes(source.read(0, source.size_bytes))
    finally:
        source.close()
    return [json.loads(line)["id"] for line in content.splitlines()]


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("how", ["gone", "empty", "misspelt"])
@pytest.mark.parametrize("part", ["journal", "paging"])
@pytest.mark.parametrize("name", ["large-and-paged", "transactions"])
def test_a_store_without_its_journal_or_pages_is_not_written(
    store_copy: Copy, tmp_path: Path, name: str, part: str, how: str
) -> None:
    data = store_copy(name) / "data"
    before, live = bodies_and_pages(data), messages_of(data)
    toml = data / "journalfs.toml"
    if how == "misspelt":
        toml.write_text(f'{part}-directory = "{part}l"\n')
    else:
        shutil.move(data / part, tmp_path / "away")
    if how == "empty":
        (data / part).mkdir()
    with pytest.raises(PartMissing, match=rf"{part}l?: no .* is mounted and that {part}-directory is right"):
        open_for_writing(data)
    if how == "misspelt":
        toml.unlink()
    else:
        shutil.rmtree(data / part, ignore_errors=True)
        shutil.move(tmp_path / "away", data / part)
    assert bodies_and_pages(data) == before
    assert messages_of(data) == live


@pytest.mark.rule("S-49", "S-109")
@pytest.mark.parametrize("name", ["large-and-paged", "transactions"])
async def test_where_a_journal_file_is_gone_no_page_and_no_body_goes(
    store_copy: Copy, tmp_path: Path, name: str
) -> None:
    data = store_copy(name) / "data"
    live = messages_of(data)
    open_store(data).close()
    file = data / "journal" / "activemq-data-1.amq"
    shutil.move(file, tmp_path / "away")
    before = bodies_and_pages(data)
    store = open_for_writing(data)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            assert any(one.kind == "missing-file" for one in store.core.damage())
            for _ in range(3):
                await store.look()
            nursery.cancel_scope.cancel()
    finally:
        store.close()
    assert bodies_and_pages(data) == before
    shutil.move(tmp_path / "away", file)
    assert messages_of(data) == live


@pytest.mark.rule("S-109")
@pytest.mark.parametrize("command", [("compact",), ("check", "--set-aside")])
def test_commands_leave_the_bodies_where_the_journal_is_empty(
    store_copy: Copy, command: tuple[str, ...]
) -> None:
    data = store_copy("aio") / "data"
    bodies = sorted((data / "large-messages").iterdir())
    assert bodies
    shutil.rmtree(data / "journal")
    (data / "journal").mkdir()
    assert journalfs(*command, data).returncode == EXIT_DAMAGED
    assert sorted((data / "large-messages").iterdir()) == bodies


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("index", [False, True])
def test_zeros_in_the_last_journal_file_are_damage_where_an_index_knew_messages_in_it(
    little_store: LittleStore, index: bool
) -> None:
    little_store.journal.send(1000, QUEUE_A, "one")
    little_store.open(index=index).close()
    path = little_store.journal.path
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))
    store = open_for_writing(little_store.root, clock=little_store.clock, index=index)
    damage = store.core.damage()
    assert ("missing-file" in [one.kind for one in damage]) is index
    store.close()
    if index:
        assert path.read_bytes() == bytes(len(content))
        path.write_bytes(content)
        found = little_store.open()
        assert (found.status()["messages"], found.core.damage()) == (1, [])
    else:
        assert not damage
