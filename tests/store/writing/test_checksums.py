"""A store is written with checksums, unless it is to do without; what contradicts them is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.reference.journal import EVENT, read_folder
from tests.store.writing.conftest import Writable, lines_of

WRITTEN, CHANGED = ("message 1 ".encode("utf-16-le"), "lessage 1 ".encode("utf-16-le"))


def events(writable: Writable) -> list[int]:
    """How many checksums the journals of messages and bindings hold."""
    root = writable.root
    return [
        sum(record.kind == EVENT for file in read_folder(folder, extension) for record in file.scan.records)
        for folder, extension in ((root / "journal", "amq"), (root / "bindings", "bindings"))
    ]


async def publish(writable: Writable, count: int = 20) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        for number in range(count):
            await publisher.write(b"message %d %s\n" % (number, b"x" * 100))
        await publisher.finish()


def damage(store: JournalStore) -> list[tuple[str, str]]:
    return [(one.file, one.kind) for one in store.core.damage()]


async def test_both_journals_have_them(writable: Writable) -> None:
    await publish(writable)
    messages, bindings = events(writable)
    assert messages >= 20
    assert bindings >= 1
    store = open_store(writable.root, clock=writable.clock, index=False)
    assert damage(store) == []
    store.close()


async def test_a_store_can_do_without(writable: Writable) -> None:
    settings = writable.root / "journalfs.toml"
    settings.write_text(settings.read_text() + "journal-checksums = false\n")
    await publish(writable)
    assert events(writable) == [0, 0]


def flip(folder: Path, text: str) -> str:
    """Change one bit of a text that stands in one file of the journal; the file's name below the store."""
    wanted = text.encode("utf-16-le")
    (path,) = [file for file in folder.iterdir() if wanted in file.read_bytes()]
    content = path.read_bytes()
    at = content.index(wanted)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 1]))
    return f"{folder.name}/{path.name}"


@pytest.mark.rule("S-92")
async def test_a_changed_body_is_shown_and_listed(writable: Writable) -> None:
    """Also from the index, which says of what was read before what was found then."""
    await publish(writable)
    name = flip(writable.root / "journal", "message 7")
    for _ in range(2):
        store = open_store(writable.root, clock=writable.clock)
        assert damage(store) == [(name, "checksum")]
        shown = lines_of(store, "work.a")  # type: ignore[arg-type]
        assert len(shown) == 20
        assert b"lessage 7" in shown[7]
        store.close()


async def test_a_flush_that_is_not_there_yet_is_waited_for(writable: Writable) -> None:
    """As a reader beside the writer may see it: the end of a flush before its beginning."""
    await publish(writable, 1)
    reader = open_store(writable.root, clock=writable.clock, index=False)
    await publish(writable, 2)
    name = flip(writable.root / "journal", "message 1 ")
    reader.look_now()
    assert damage(reader) == []
    before = len(lines_of(reader, "work.a"))  # type: ignore[arg-type]
    path = writable.root / name
    path.write_bytes(path.read_bytes().replace(CHANGED, WRITTEN))
    reader.look_now()
    assert len(lines_of(reader, "work.a")) > before  # type: ignore[arg-type]
    assert damage(reader) == []
    reader.close()


async def test_changed_bindings_are_listed(writable: Writable) -> None:
    async with writable.open() as store:
        await store.create_address("orders")
    name = flip(writable.root / "bindings", "orders")
    reader = open_store(writable.root, clock=writable.clock, index=False)
    assert (name, "checksum") in damage(reader)
    reader.close()
