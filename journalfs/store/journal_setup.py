"""How the two journals of a store are written, as its settings say: backends and journal settings."""

from __future__ import annotations

import errno
import fnmatch
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from journalfs import door, store_owner
from journalfs.clock import Clock
from journalfs.config import core_settings
from journalfs.config.address_settings import Value
from journalfs.config.journal_settings import JournalSettings
from journalfs.config.layout import StoreLayout
from journalfs.engine.backend import Backend, BackendKind
from journalfs.engine.disk import DiskBackend, open_backend
from journalfs.errors import ConfigError, SystemFailure
from journalfs.records.files.directory import as_made
from journalfs.records.files.retention import Retention, RetentionLimits
from journalfs.records.files.write_settings import WriteSettings

FOLDER: Final = "journalfs"
"""The folder beside a broker's own directories that belongs to this product alone."""

BINDINGS_FILE_BYTES: Final = 1024 * 1024
BINDINGS_MIN_FILES: Final = 2
_BUFFER_TIMEOUT_NS: Final = {
    BackendKind.AIO: 500_000,
    BackendKind.NIO: 3_333_333,
    BackendKind.MAPPED: 3_333_333,
}


def make_backend(layout: StoreLayout, settings: JournalSettings, warn: Callable[[str], None]) -> DiskBackend:
    """The backend of the message journal: NIO where the system refuses ASYNCIO, which `warn` is told. Raises
    OSError.
    """
    kind = BackendKind(settings.journal_type)
    return open_backend(
        layout.journal_dir,
        kind,
        writes_in_flight_max=settings.max_io if kind is BackendKind.AIO else None,
        datasync=settings.journal_datasync,
        block_bytes=settings.device_block_size_bytes,
        warn=warn,
    )


def make_retention(
    layout: StoreLayout, settings: JournalSettings, journal: DiskBackend, clock: Clock
) -> Callable[[WriteSettings], Retention] | None:
    """Return the call that opens the history of the message journal; None if none is kept."""
    if settings.retention_directory is None:
        return None
    directory = layout.retention_dir
    assert directory is not None, "the setting says where"
    limits = RetentionLimits(settings.retention_period_ms, settings.retention_bytes_max)

    def retention(written: WriteSettings) -> Retention:
        door.make_folders(directory)
        history = open_backend(directory, BackendKind.NIO, datasync=settings.journal_datasync)
        return Retention(journal, history, written, clock, limits)

    return retention


def make_bindings_backend(layout: StoreLayout, settings: JournalSettings) -> DiskBackend:
    """The bindings journal's, which is always NIO. Raises OSError."""
    return open_backend(layout.bindings_dir, BackendKind.NIO, datasync=settings.journal_datasync)


def message_journal(layout: StoreLayout, settings: JournalSettings, kind: BackendKind) -> WriteSettings:
    """How the message journal is written with the backend that there is."""
    timeout_ns = settings.buffer_timeout_ns
    return WriteSettings(
        prefix=layout.journal_prefix,
        extension=layout.journal_extension,
        file_size_bytes=settings.file_size_bytes,
        min_files=settings.min_files,
        pool_files=settings.pool_files,
        compact_min_files=settings.compact_min_files,
        compact_percentage=settings.compact_percentage,
        buffer_size_bytes=settings.buffer_size_bytes,
        buffer_timeout_ns=_BUFFER_TIMEOUT_NS[kind] if timeout_ns is None else timeout_ns,
        sync_transactional=settings.journal_sync_transactional,
        sync_non_transactional=settings.journal_sync_non_transactional,
        attic_files_max=settings.max_attic_files,
        checksums=settings.journal_checksums,
    )


def as_found(layout: StoreLayout, wanted: WriteSettings) -> WriteSettings:
    """Where nothing says how large journal files are, they stay as large as they are: files of another size
    are not used again.
    """
    usual = size_of_most(layout)
    return wanted if usual is None else replace(wanted, file_size_bytes=usual)


def size_of_most(layout: StoreLayout) -> int | None:
    """The size that most journal files have; None where a setting says it, or there are none."""
    if layout.config is not None and "journal-file-size" in layout.config.core:
        return None
    with door.folder(layout.journal_dir) as held:
        files = fnmatch.filter(door.names_in(held), f"{layout.journal_prefix}-*.{layout.journal_extension}")
        sizes = Counter(as_made([door.status_in(held, name).st_size for name in files]))
    # Of as many of each the longer ones: where the disk is full, compaction makes shorter ones.
    return max(sizes, key=lambda size: (sizes[size], size), default=None)


FOUND: Final = "the size of most files"
_FALLEN_BACK: Final = "the system refused ASYNCIO"
_HERE: Final = "the most that is used here"


def in_use(layout: StoreLayout, written: WriteSettings, backend: Backend) -> dict[str, tuple[Value, str]]:
    """Settings of the message journal as it is written, with what made them differ from what is configured:
    without them `settings.toml` would show values of a backend that the system refused.
    """
    core = dict(layout.config.core) if layout.config is not None else {}
    kind = str(backend.kind)
    configured = core_settings.value_in_force(core, "journal-type")
    core["journal-type"] = core_settings.ConfiguredValue(kind, "", None)
    found: dict[str, tuple[Value, str]] = {
        "journal-max-io": (backend.depth, _HERE),
        "journal-file-size": (written.file_size_bytes, FOUND),
    }
    if kind != configured:
        found["journal-type"] = (kind, _FALLEN_BACK)
    for name in ("journal-buffer-timeout", "page-sync-timeout"):
        value = core_settings.value_in_force(core, name)
        if value is not None:
            found[name] = (value, _FALLEN_BACK)
    return found


def bindings_journal(layout: StoreLayout, settings: JournalSettings) -> WriteSettings:
    """How the bindings journal is written: unbuffered, always synced, in files of one size."""
    return WriteSettings(
        prefix=layout.bindings_prefix,
        extension=layout.bindings_extension,
        file_size_bytes=BINDINGS_FILE_BYTES,
        min_files=BINDINGS_MIN_FILES,
        pool_files=settings.pool_files,
        compact_min_files=settings.compact_min_files,
        compact_percentage=settings.compact_percentage,
        buffer_size_bytes=BINDINGS_FILE_BYTES,
        buffer_timeout_ns=0,
        attic_files_max=settings.max_attic_files,
        checksums=settings.journal_checksums,
        replaceable_types=frozenset(),
    )


def make_directories(layout: StoreLayout, settings: JournalSettings) -> None:
    """Make the directories that are missing, as far as `create-journal-dir` and `create-bindings-dir` let.
    Raises `ConfigError` where they do not, and `SystemFailure`.
    """
    for directory, allowed, setting in (
        (layout.bindings_dir, settings.create_bindings_dir, "create-bindings-dir"),
        (layout.journal_dir, settings.create_journal_dir, "create-journal-dir"),
        (layout.large_dir, settings.create_journal_dir, "create-journal-dir"),
        (layout.paging_dir, True, ""),
    ):
        if door.is_folder(directory):
            continue
        if not allowed:
            file, line = _place(layout, setting)
            raise ConfigError(file, f"is false, and there is no {directory}", line=line, setting=setting)
        try:
            door.make_folders(directory)
        except OSError as error:
            told = not_made(error, directory)
            raise SystemFailure(f"{directory}: {told.strerror}", system_errno=error.errno) from error
    with suppress(OSError):  # whatever needs it says so
        door.make_for_owner(layout.root / FOLDER)


def not_made(error: OSError, directory: Path) -> OSError:
    """Return why a directory of the store could not be made, with the call of root's that makes it."""
    reason = f"cannot make the directory: {error.strerror or error}"
    if error.errno in (errno.EACCES, errno.EPERM):
        user, group = store_owner.acts_as()
        reason += f"; let root make it: install -d -o {user} -g {group} {directory}"
    return OSError(error.errno, reason, str(directory))


def _place(layout: StoreLayout, setting: str) -> tuple[Path | str, int | None]:
    assert layout.config is not None, "only a configuration can say so"
    configured = layout.config.core[setting]
    return configured.file, configured.line
