"""The history that a store keeps where its settings say so."""

from __future__ import annotations

import re

import pytest

from journalfs.records.files.upkeep import Upkeep
from tests.reference.journal import ADD, ADD_TX, EVENT, ROLLBACK, read_folder
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, queue_of

LARGE_MESSAGE, MESSAGE, BODY = 30, 45, 49


def configure(writable: Writable, more: str = "") -> None:
    settings = writable.root / "journalfs.toml"
    settings.write_text(
        settings.read_text()
        + 'journal-file-size = 65536\njournal-retention-directory = "history"\n'
        + "journal-retention-max-bytes = 100000000\n"
        + more
    )


async def test_closed_files_are_copied(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        for turn in range(20):
            await publish_file(
                store,
                "work",
                "work.a",
                "in",
                b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 500) for n in range(20)),
            )
            await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
            await store.journals.messages.upkeep.tidy()
        assert store.journals.messages.upkeep.files_freed > 5
    history = read_folder(writable.root / "history")
    assert len(history) > 5
    assert all(re.fullmatch(rf"activemq-data-\d{{14}}-{file.file_id}\.amq", file.name) for file in history)
    sent = [
        record.record_id
        for file in (*history, *read_folder(writable.root / "journal"))
        for record in file.scan.records
        if record.kind in (ADD, ADD_TX) and record.user_type == MESSAGE
    ]
    assert len(set(sent)) == 400


async def test_bodies_of_large_messages_are_in_the_journal_too(writable: Writable) -> None:
    """As a broker writes them: pieces of 10 KiB, right before the record of the message."""
    configure(writable)
    content = bytes(range(256)) * 1000
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "picture.png", content)
        message_id = queue_of(store, "work.a").listing().message_id(0)
        await store.journals.messages.upkeep.tidy()
    records = {}
    for folder in ("history", "journal"):
        for file in read_folder(writable.root / folder):
            records[file.file_id] = file.scan.records
    ordered = [record for file_id in sorted(records) for record in records[file_id]]
    pieces = [record for record in ordered if record.kind == EVENT and record.user_type == BODY]
    assert {record.record_id for record in pieces} == {message_id}
    assert b"".join(record.body for record in pieces) == content
    assert {len(record.body) for record in pieces[:-1]} == {10 * 1024}
    (message,) = [record for record in ordered if record.user_type == LARGE_MESSAGE]
    assert ordered.index(message) > ordered.index(pieces[-1])


@pytest.mark.rule("S-94")
async def test_what_was_closed_last_is_copied_at_the_end(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that starts then takes it for free, since nothing in it lives."""

    async def too_late(_upkeep: object) -> None:
        pass

    configure(writable)
    monkeypatch.setattr(Upkeep, "_retain", too_late)
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "picture.png", bytes(range(256)) * 600)
        await store.published()
        assert read_folder(writable.root / "history") == []
    *closed, _ = sorted(file.file_id for file in read_folder(writable.root / "journal") if file.scan.records)
    assert closed
    assert [file.file_id for file in read_folder(writable.root / "history")] == closed


async def test_without_a_history_there_is_nothing_of_the_kind(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "picture.png", bytes(300_000))
    found = [record for file in read_folder(writable.root / "journal") for record in file.scan.records]
    assert not any(record.user_type == BODY for record in found)
    assert not (writable.root / "history").exists()


async def test_a_broker_goes_on_behind_what_was_copied(writable: Writable) -> None:
    """It takes a file without data for free, and would write on in the one before, which has its copy."""
    configure(writable)
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "in", b"kept\n" * 20)
        await store.published()
        await store.journals.messages.upkeep.compact()
        current = store.journals.messages.current.name
    contents = []
    for _ in range(2):
        async with writable.open() as store:
            assert store.journals.messages.current.name == current
            assert len(queue_of(store, "work.a").listing()) == 20
            assert store.core.damage() == []
        (file,) = [one for one in read_folder(writable.root / "journal") if one.name == current]
        contents.append([record.kind for record in file.scan.records if record.kind != EVENT])
    assert contents == [[ADD_TX, ROLLBACK]] * 2, "once"
