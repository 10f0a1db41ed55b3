"""Commands and mounts take the URL of a database where they take a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.running import journalfs, objects
from tests.mounting import mounted_for_writing


@pytest.mark.rule("S-220")
def test_an_embedded_store_from_a_shell(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    made = journalfs("create", url)
    assert made.returncode == 0, made.stderr
    again = journalfs("create", url)
    assert again.returncode == 1
    assert "there is a store already" in again.stderr
    assert {line["queue"] for line in objects("ls", "--json", url) if "queue" in line} == {
        "DLQ",
        "ExpiryQueue",
    }
    assert journalfs("check", url).returncode == 0


@pytest.mark.rule("S-220")
@pytest.mark.mount
def test_a_mount_of_an_embedded_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.db"
    assert journalfs("create", url).returncode == 0
    with mounted_for_writing(Path(url), tmp_path / "mnt") as mount:
        (mount.path / "orders" / "orders").mkdir(parents=True)
        (mount.path / "orders" / "in.txt").write_text("one\ntwo\n")
        assert 'dead-letter-address = "DLQ"' in (mount.path / "DLQ" / ".settings").read_text()
        (first, _) = sorted(os.listdir(mount.path / "orders" / "orders" / ".messages"))
        (mount.path / "orders" / "orders" / ".messages" / first).unlink()
    lines = objects("cat", url, "orders::orders")
    assert [line["body"] for line in lines] == ["two"]


def test_a_password_is_shown_nowhere(tmp_path: Path) -> None:
    done = journalfs("ls", "postgresql://me:secret@127.0.0.1:1/none")
    assert done.returncode == 2
    assert "postgresql+psycopg://me@127.0.0.1:1/none: cannot read the store" in done.stderr
    assert "secret" not in done.stderr + done.stdout
