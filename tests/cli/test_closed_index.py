"""An index that its user may not read: what only reads does without, as where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kinds import first_is_quick
from tests.mounting import JOURNALFS, journalfs, read_lines

WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
"""Without these, root is its files' owner and no more."""

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def store(store_copy: Callable[[str], Path]) -> Iterator[Path]:
    """A store that nobody may write beside, so that its index is in the cache directory."""
    data = store_copy("orders-basic") / "data"
    shutil.rmtree(data / "journalfs", ignore_errors=True)  # of others who opened the store that was copied
    data.chmod(0o555)
    yield data
    data.chmod(0o755)


@pytest.fixture(params=first_is_quick("files", "folder"))
def call(store: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Call]:
    """Run a command whose cache directory cannot be searched, or holds files that cannot be read."""
    cache = tmp_path / "cache"
    restricted = WITHOUT_RIGHTS if os.geteuid() == 0 else ()

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*restricted, JOURNALFS, *arguments],
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    run("ls", store)
    (index,) = (cache / "journalfs").rglob("index")
    closed = [cache] if request.param == "folder" else list(index.parent.iterdir())
    for one in closed:
        one.chmod(0)
    yield run
    cache.chmod(0o755)


@pytest.mark.rule("S-54")
@pytest.mark.parametrize("words", ["ls", "cat", "status", "check", "explain journal", "print"])
def test_commands_that_read_do_without_it(store: Path, call: Call, words: str) -> None:
    command, *rest = words.split()
    arguments: list[Any] = [command, store.joinpath(*rest)]
    done = call(*arguments)
    assert done.returncode == 0, done.stderr
    assert "/index: cannot be read: Permission denied" in done.stderr
    if command in ("ls", "cat"):
        assert done.stdout == journalfs(*arguments, "--no-index").stdout


@pytest.mark.mount
@pytest.mark.rule("S-54")
def test_a_mount_to_be_read_does_without_it(store: Path, call: Call, tmp_path: Path) -> None:
    place = tmp_path / "mnt"
    place.mkdir()
    done = call("mount", "--read-only", store, place)
    assert done.returncode == 0, done.stderr
    try:
        lines = [line for queue in sorted(place.glob("*/*")) for line in read_lines(queue)]
        events = (place / ".journalfs/events.jsonl").read_text()
    finally:
        ended = journalfs("umount", place)
    assert ended.returncode == 0, ended.stderr
    assert len(lines) == len(journalfs("cat", store, "--no-index").stdout.splitlines()) > 0
    assert '"event":"index-unusable"' in events
