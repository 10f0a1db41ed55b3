"""What root adds to a store belongs to the user whose store it is: that user's broker goes on with it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from journalfs.clock import SystemClock
from journalfs.message.outgoing import WholeFile
from journalfs.store.creating import create_store
from journalfs.store.write.compacting import compact_store
from tests.config.test_broker_xml import read
from tests.store.writing.conftest import Writable

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

USER, GROUP = 12_345, 12_346


def give_away(path: Path) -> None:
    for one in (path, *path.rglob("*")):
        shutil.chown(one, USER, GROUP)


def not_theirs(path: Path) -> list[Path]:
    found = ((one, one.lstat()) for one in path.rglob("*"))
    return [one for one, stat in found if (stat.st_uid, stat.st_gid) != (USER, GROUP)]


async def test_files_have_the_owner_of_their_directory(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('journal-file-size = 65536\njournal-retention-directory = "history/of it"\n')
        settings.write("journal-retention-max-bytes = 10000000\n")
    (writable.root / "large-messages").rmdir()
    give_away(writable.root)
    before = set(writable.root.rglob("*"))
    async with writable.open(index=True) as store:
        await store.create_address("news")
        await store.create_queue("news", "all")
        await store.publish("news", None, [WholeFile(bytes(200_000))])
        for number in range(40):
            await store.publisher("news", None, "in.bin").write(b"x" * 9000 + b"%d\n" % number)
        store.staging_directory()
        await compact_store(store)
    made = {path.name for path in set(writable.root.rglob("*")) - before}
    assert {"history", "of it", "large-messages", "serverlock.1", "staging", "index"} <= made
    assert len(made) > 12
    assert not_theirs(writable.root) == []


def test_a_new_store_inside_an_instance_is_the_instances(tmp_path: Path) -> None:
    instance = tmp_path / "instance"
    instance.mkdir()
    read(instance, "")
    give_away(instance)
    create_store(instance, {}, SystemClock(), warn=pytest.fail)
    assert (instance / "data" / "journal").is_dir()
    assert (instance / "lock" / "cli.lock").is_file()
    assert not_theirs(instance) == []
