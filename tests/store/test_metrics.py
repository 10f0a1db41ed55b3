"""`.journalfs/metrics`: numbers for Prometheus, made while others go on."""

from __future__ import annotations

from time import monotonic_ns

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from journalfs.engine.waiting import Slices
from journalfs.limits import PIECE_NS
from journalfs.live import virtual
from journalfs.live.virtual import SlicedFile
from journalfs.store.store import JournalStore
from tests.store.conftest import QUEUE_A, LittleStore


def metrics_of(store: JournalStore) -> SlicedFile:
    control = store.control()
    file = control.child("metrics")
    assert isinstance(file, SlicedFile)
    assert "metrics" in dict(control.children())
    return file


def read(file: SlicedFile) -> str:
    source = file.open()
    return bytes(source.read(0, source.size_bytes)).decode()


def test_metrics_count_messages(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    text = read(metrics_of(little_store.open()))
    assert 'journalfs_queue_messages{address="work",queue="work.a"} 1.0' in text
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["journalfs_queue_messages", ("address", "work"), ("queue", "work.a")] == 1
    assert samples["journalfs_damaged_places",] == 0


def test_addresses_may_be_left_out(little_store: LittleStore) -> None:
    (little_store.root / "journalfs.toml").write_text("[address-settings.work]\nenable-metrics = false\n")
    text = read(metrics_of(little_store.open()))
    assert "journalfs_up 1.0" in text
    assert "work" not in text


async def test_what_asks_at_once_is_made_once_and_in_slices(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = 0
    making = 0

    async def make(slices: Slices) -> bytes:
        nonlocal making
        making += 1
        for _ in range(20):
            until = monotonic_ns() + PIECE_NS
            while monotonic_ns() < until:
                pass
            await slices.pause()
        return b"made %d" % making

    async def beside() -> None:
        nonlocal pauses
        while True:
            await trio.lowlevel.checkpoint()
            pauses += 1

    version = 0
    file = SlicedFile(make, lambda: 0, lambda: version)
    async with trio.open_nursery() as others:
        others.start_soon(beside)
        async with trio.open_nursery() as askers:
            for _ in range(200):
                askers.start_soon(file.prepare)
        others.cancel_scope.cancel()
    assert pauses >= 19, "others went on"
    assert making <= 2, "of those that ask while it is made, one makes it for all"
    assert file.prepared_bytes == 6
    content = file.open().read(0, 6)
    version += 1
    await file.prepare()
    assert file.open().read(0, 6) != content, "something changed"
    monkeypatch.setattr(virtual, "made_at_once", pytest.fail)
    file.open()
