"""What `large-message-sync` changes: whether the disk has a body before the record that names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.message.outgoing import WholeFile
from journalfs.store.write.store import SyncMode
from tests.store.writing.conftest import Writable, lines_of

BODY = b"x" * 300_000


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of all that is synced, in order."""
    found: list[Path] = []

    def noted(call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
            call(descriptor)

        return sync

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, noted(getattr(os, name)))
    return found


@pytest.mark.parametrize("as_file", [False, True], ids=["in memory", "staged"])
@pytest.mark.parametrize(
    ("setting", "sync", "expected"),
    [
        ("true", SyncMode.ALWAYS, True),
        ("false", SyncMode.ALWAYS, False),
        ("true", SyncMode.CLOSE, True),
        ("true", SyncMode.NONE, False),
    ],
)
async def test_a_body_is_synced_as_the_setting_says(
    writable: Writable,
    synced: list[Path],
    tmp_path: Path,
    *,
    as_file: bool,
    setting: str,
    sync: SyncMode,
    expected: bool,
) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write(f"large-message-sync = {setting}\n")
    folder = writable.root / "large-messages"
    async with writable.open(sync=sync) as store:
        if as_file:
            staged = tmp_path / "staged.bin"
            staged.write_bytes(BODY)
            await store.publish_files("work", "work.a", [(staged, "staged.bin")])
        else:
            await store.sending.publish("work", "work.a", [WholeFile(BODY)], whole=True)
        (body,) = folder.iterdir()
        assert [path for path in synced if path in (body, folder)] == ([body, folder] if expected else [])
        assert len(lines_of(store, "work.a")) == 1
        assert body.read_bytes() == BODY
