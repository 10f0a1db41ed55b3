"""What keeps the journal files of a store that is being written."""

from __future__ import annotations

import os
from typing import cast

import pytest

from journalfs.api import VirtualDirectory, VirtualFile
from journalfs.records.files import upkeep
from journalfs.records.files.reports import file_reports
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable


async def test_the_writer_and_a_reader_say_the_same(writable: Writable) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = 65536\njournal-compact-min-files = 0\n'
    )
    async with writable.open() as store:
        for turn in range(12):
            await publish_file(
                store, "work", None, "in", b"".join(b"%d-%d %s\n" % (turn, n, b"x" * 500) for n in range(20))
            )
            await store.acknowledge_part(("work", "work.a"), "_tail.jsonl")
        await store.journals.messages.upkeep.tidy()
        await store.look()
        facts = store.explanations.facts()
        store.explanations.of_writer = None
        assert store.explanations.facts() == facts
    states = [one.state for one in facts]
    assert states.count("current") == 1
    assert states.count("kept") > 3
    kept = facts[0]
    assert {one.queue for one in kept.queues} == {"work.b"}
    live = kept.live_messages
    assert 3 * live <= kept.needed_records <= 4 * live, "two references each, and acknowledgements of most"


@pytest.mark.rule("S-90")
async def test_each_file_that_is_listed_is_explained(writable: Writable) -> None:
    """Also the one that the mount makes ahead."""
    async with writable.open() as store:
        await store.journals.messages.upkeep.tidy()
        journal = cast("VirtualDirectory", store.control().child("journal"))
        files = {name for name in os.listdir(writable.root / "journal") if name.endswith(".amq")}
        names = {name for name, _ in journal.children()}
        assert names == {name + suffix for name in files for suffix in (".jsonl", ".explain")}
        texts = {}
        for name in files:
            source = cast("VirtualFile", journal.child(name + ".explain")).open()
            texts[name] = bytes(source.read(0, source.size_bytes)).decode()
            source.close()
        ahead = store.journals.messages.ready_file
        assert ahead is not None
        assert "free: it holds no records" in texts[ahead.name]
        assert all(text.startswith(name) for name, text in texts.items())


async def test_files_are_counted_again_when_something_is_written(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    reports = file_reports
    monkeypatch.setattr(upkeep, "file_reports", lambda *args: counted.append(1) or reports(*args))  # type: ignore[func-returns-value]
    async with writable.open() as store:
        live: list[int] = []
        for turn in range(3):
            await publish_file(store, "work", None, "in.txt", b"one\n")
            await store.look()
            facts = [store.explanations.facts() for _ in range(3)]
            assert len(counted) == turn + 1
            live.append(sum(one.live_messages for one in facts[-1]))
    assert live == [1, 2, 3]
