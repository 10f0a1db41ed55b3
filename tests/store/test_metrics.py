"""`.journalfs/metrics`: numbers with the library, and without it an error that says what to install."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable

import pytest

from journalfs.errors import DependencyMissing
from journalfs.store.virtual import MadeFile
from tests.store.conftest import QUEUE_A, LittleStore


def metrics_of(little: LittleStore) -> tuple[MadeFile, list[str], Iterable[dict[str, object]]]:
    little.journal.send(1000, QUEUE_A)
    store = little.open()
    control = store.control()
    file = control.child("metrics")
    assert isinstance(file, MadeFile)
    return file, list(dict(control.children())), store.core.events


def test_metrics_count_messages(little_store: LittleStore) -> None:
    pytest.importorskip("prometheus_client")
    file, listed, _ = metrics_of(little_store)
    assert "metrics" in listed
    text = bytes(file.open().read(0, file.size_bytes)).decode()
    assert 'journalfs_message_count{address="work",queue="work.a"} 1.0' in text


def test_addresses_may_be_left_out(little_store: LittleStore) -> None:
    pytest.importorskip("prometheus_client")
    (little_store.root / "journalfs.toml").write_text("[address-settings.work]\nenable-metrics = false\n")
    file, _, _ = metrics_of(little_store)
    text = bytes(file.open().read(0, file.size_bytes)).decode()
    assert "journalfs_message_count" in text
    assert "work" not in text


def test_without_the_library_nothing_is_listed_and_asking_is_an_error(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    file, listed, events = metrics_of(little_store)
    assert "metrics" not in listed
    assert "status.json" in listed
    for ask in (lambda: file.size_bytes, file.open, file.open):
        with pytest.raises(DependencyMissing, match=r"run: pip install 'journalfs\[metrics\]'") as caught:
            ask()
    assert errno.errorcode[caught.value.errno] == "ENOSYS"
    told = [event for event in events if event["event"] == "dependency-missing"]
    assert len(told) == 1, "once, however often it is asked"
    assert "pip install 'journalfs[metrics]'" in str(told[0]["message"])
