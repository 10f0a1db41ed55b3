"""A broker starts on what was restored of a backup: of a mount, and of its own store while it ran."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.test_interop import new_instance
from tests.broker.test_interop_snapshots import MESSAGES, QUEUE, prepare
from tests.broker.writing import complaints
from tests.mounting import journalfs, mounted_for_writing

pytestmark = [pytest.mark.mount, pytest.mark.broker, pytest.mark.timeout(300)]


def backed_up(source: Path, dest: Path) -> str:
    done = journalfs("backup", "--json", source, dest)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["how"])


def restored(dest: Path, root: Path) -> Broker:
    """A broker over what was restored into the places of its own configuration."""
    broker = new_instance(root, "ASYNCIO", file_size="100K")
    shutil.rmtree(broker.data)
    done = journalfs("restore", dest, broker.data)
    assert done.returncode == 0, done.stderr
    return broker


@pytest.mark.rule("S-240")
def test_a_broker_starts_on_a_backup_of_a_mount(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "ASYNCIO", file_size="100K")
    lines = prepare(broker.root)
    with mounted_for_writing(broker.root, tmp_path / "mnt") as mount:
        assert backed_up(mount.path, tmp_path / "backups") == "snapshot"
        (mount.path / QUEUE / QUEUE / "in.txt").write_text("later\n")
    other = restored(tmp_path / "backups", tmp_path / "other")
    with other, CoreClient(other.port) as client:
        found = client.consume_many(QUEUE, MESSAGES + 2)
        assert found[: len(lines)] == [line["id"] for line in lines]
        assert complaints(other.log) == []
        other.stop()


@pytest.mark.long
@pytest.mark.rule("S-240")
def test_a_backup_beside_a_running_broker_has_what_was_there(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "ASYNCIO", file_size="100K")
    lines = prepare(broker.root)
    with broker, CoreClient(broker.port) as client:
        client.send_many(QUEUE, 50, size=1000)
        assert backed_up(broker.data, tmp_path / "backups") == "beside"
        broker.stop()
    other = restored(tmp_path / "backups", tmp_path / "other")
    with other, CoreClient(other.port) as client:
        found = client.consume_many(QUEUE, len(lines) + 51)
        assert found[: len(lines)] == [line["id"] for line in lines]
        other.stop()
