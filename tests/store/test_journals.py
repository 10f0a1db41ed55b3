"""What the settings mean for the two journals of a store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from journalfs.clock import FakeClock
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import DiskBackend
from journalfs.errors import ConfigError, SystemFailure
from journalfs.records.files.writer import JournalWriter
from journalfs.store.journal_setup import (
    bindings_journal,
    make_backend,
    make_bindings_backend,
    make_directories,
    message_journal,
)
from tests.config.test_broker_xml import read

DEFAULT = journal_settings(None)


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    journal = tmp_path / "data" / "journal"
    journal.mkdir(parents=True)
    (journal / "activemq-data-1.amq").write_bytes(bytes(8))
    return locate_store(tmp_path / "data")


def no_warning(text: str) -> None:
    raise AssertionError(text)


@pytest.mark.parametrize("kind", [BackendKind.NIO, BackendKind.MAPPED, BackendKind.AIO])
def test_the_backend_is_the_one_asked_for(kind: BackendKind, layout: StoreLayout) -> None:
    settings = msgspec.structs.replace(DEFAULT, journal_type=kind.value, max_io=8)
    backend = make_backend(layout, settings, no_warning)
    assert (backend.kind, backend.directory) == (kind, layout.journal_dir)
    assert backend.depth == (8 if kind is BackendKind.AIO else 1)
    backend.close()


def test_the_block_size_is_the_one_asked_for(layout: StoreLayout) -> None:
    settings = msgspec.structs.replace(DEFAULT, device_block_size_bytes=512)
    backend = make_backend(layout, settings, no_warning)
    assert backend.alignment_bytes == 512
    backend.close()


def test_where_direct_writes_are_refused(layout: StoreLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: DiskBackend, name: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)

    monkeypatch.setattr(DiskBackend, "open", refuse)
    warnings: list[str] = []
    backend = make_backend(layout, DEFAULT, warnings.append)
    assert backend.kind is BackendKind.NIO
    assert warnings == [
        f"{layout.journal_dir}: asynchronous I/O is refused (Invalid argument); writing with NIO instead"
    ]
    # Then the timeout is that of NIO, as in a broker that has fallen back.
    assert message_journal(layout, DEFAULT, backend.kind).buffer_timeout_ns == 3_333_333
    backend.close()


def test_the_message_journal(layout: StoreLayout) -> None:
    settings = msgspec.structs.replace(
        DEFAULT,
        file_size_bytes=65_536,
        min_files=3,
        pool_files=5,
        compact_min_files=6,
        compact_percentage=7,
        buffer_size_bytes=8000,
        buffer_timeout_ns=9,
        max_attic_files=2,
        journal_sync_transactional=False,
    )
    journal = message_journal(layout, settings, BackendKind.AIO)
    assert (journal.prefix, journal.extension) == ("activemq-data", "amq")
    assert (journal.file_size_bytes, journal.min_files, journal.pool_files) == (65_536, 3, 5)
    assert (journal.compact_min_files, journal.compact_percentage) == (6, 7)
    assert (journal.buffer_size_bytes, journal.buffer_timeout_ns) == (8000, 9)
    assert (journal.sync_transactional, journal.sync_non_transactional) == (False, True)
    assert journal.attic_files_max == 2
    assert message_journal(layout, DEFAULT, BackendKind.AIO).buffer_timeout_ns == 500_000


def test_the_bindings_journal(layout: StoreLayout) -> None:
    settings = msgspec.structs.replace(
        DEFAULT,
        file_size_bytes=65_536,
        min_files=9,
        pool_files=5,
        journal_sync_transactional=False,
        journal_sync_non_transactional=False,
    )
    journal = bindings_journal(layout, settings)
    assert (journal.prefix, journal.extension) == ("activemq-bindings", "bindings")
    assert (journal.file_size_bytes, journal.min_files, journal.pool_files) == (1_048_576, 2, 5)
    assert (journal.buffer_timeout_ns, journal.replaceable_types) == (0, frozenset())
    assert (journal.sync_transactional, journal.sync_non_transactional) == (True, True)
    # Nothing but the file limits a record.
    assert journal.record_bytes_max(1) == 1_048_576 - 16 - 51, "a header, and a checksum"


def test_files_are_made_as_said(layout: StoreLayout) -> None:
    settings = msgspec.structs.replace(DEFAULT, journal_type="NIO", file_size_bytes=4096, min_files=4)
    make_directories(layout, settings)
    backends = make_backend(layout, settings, no_warning), make_bindings_backend(layout, settings)
    journals = message_journal(layout, settings, backends[0].kind), bindings_journal(layout, settings)
    for backend, journal in zip(backends, journals, strict=True):
        writer = JournalWriter.open(backend, journal, FakeClock())
        writer.drain()
        writer.release()
        backend.close()
    sizes = [path.stat().st_size for path in layout.journal_dir.glob("*.amq") if path.stat().st_size > 8]
    assert sizes == [4096] * len(sizes)
    assert len(sizes) >= 4
    assert [path.stat().st_size for path in layout.bindings_dir.glob("*.bindings")] == [1_048_576] * 2


def test_missing_directories_are_made(layout: StoreLayout) -> None:
    make_directories(layout, DEFAULT)
    for directory in (layout.bindings_dir, layout.large_dir, layout.paging_dir):
        assert directory.is_dir()


@pytest.mark.parametrize("setting", ["create-journal-dir", "create-bindings-dir"])
def test_missing_directories_are_not_made_where_that_is_forbidden(tmp_path: Path, setting: str) -> None:
    core = f"<{setting}>false</{setting}><journal-directory>data/j</journal-directory>"
    config = read(tmp_path, core)
    (tmp_path / "data" / "j").mkdir(parents=True)
    (tmp_path / "data" / "j" / "activemq-data-1.amq").touch()
    layout = locate_store(tmp_path)
    missing = layout.bindings_dir if setting == "create-bindings-dir" else layout.large_dir
    with pytest.raises(ConfigError) as caught:
        make_directories(layout, journal_settings(config))
    assert str(caught.value).endswith(f"broker.xml:4: {setting}: is false, and there is no {missing}")


def test_a_directory_that_cannot_be_made(layout: StoreLayout) -> None:
    layout.bindings_dir.touch()
    with pytest.raises(SystemFailure, match="bindings: cannot make the directory: File exists"):
        make_directories(layout, DEFAULT)
