"""`.journalfs/history/` of real mounts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import journalfs, mounted_for_writing, read_lines
from tests.mounting import mounted as mounting

ALL = ".journalfs/history/all"


@pytest.fixture
def writable(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    kept = (
        'journal-file-size = 65536\njournal-retention-directory = "history"\n'
        "journal-retention-max-bytes = 100000000\n"
    )
    settings = store / "journalfs.toml"
    settings.write_text(kept + (settings.read_text() if settings.exists() else ""))
    return store


@pytest.mark.rule("S-250", "S-252")
def test_what_a_broker_retained(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    with mounting(store_copy("retention"), tmp_path / "mnt") as mount:
        look_at_the_retained(mount.path)


def look_at_the_retained(mounted: Path) -> None:
    found = mounted / ALL / "payments" / "payments"
    assert len(read_lines(found)) == 1202
    assert os.listdir(mounted / ".journalfs/history") == ["2026-11-21"]
    assert len(read_lines(mounted / ".journalfs/history/2026-11-21/rates/rates.log")) == 240
    assert not read_lines(mounted / ".journalfs/history/yesterday/payments/payments")
    assert len(read_lines(found / ".where" / "n < 5")) == 5
    first = min(os.listdir(found / ".messages"), key=lambda name: int(name.split(".")[0]))
    message = found / ".messages" / first
    said = {name: os.getxattr(message, name) for name in os.listxattr(message)}
    assert said["user.journalfs.acknowledged"] == b"true"
    assert int(said["user.journalfs.published"]) == message.stat().st_mtime_ns // 1_000_000
    assert not (mounted / ".journalfs/history/nonsense").exists()
    with pytest.raises(OSError, match="Read-only"):
        os.rmdir(mounted / ALL)
    with pytest.raises(OSError, match="Read-only"):
        message.unlink()


@pytest.mark.rule("S-253")
def test_replay_in_a_mount(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    """By the same command, which is told why it is refused."""
    store = store_copy("retention")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        words = ("replay", mount.path, "payments", "--to-queue", "DLQ::DLQ", "--name", "once")
        assert journalfs(*words, "--dry-run").stdout == "DLQ::DLQ: 1202 would be replayed\n"
        assert journalfs(*words).stdout == "DLQ::DLQ: 1202 replayed\n"
        assert len(read_lines(mount.path / "DLQ/DLQ")) == 1202
        assert "replayed already" in journalfs(*words).stderr
        assert "other options" in journalfs(*words, "--to", "2026-11-21").stderr
        with pytest.raises(OSError, match="Invalid"):
            (mount.path / ".journalfs/history/.replay").write_text("{}")
        (kept,) = (store / "data/retention").glob("activemq-data-*-3.amq")
        with kept.open("r+b") as file:
            file.seek(3000)
            file.write(b"\xff" * 600)
        assert "history is damaged in 2 places" in journalfs(*words, "--again").stderr


@pytest.mark.long
@pytest.mark.rule("S-250")
def test_what_was_empty_when_it_was_read_shows_what_came(writable: Path, tmp_path: Path) -> None:
    """Under one number, of which the kernel is not to keep what it knew."""
    with mounted_for_writing(writable, tmp_path / "mnt") as mount:
        (mount.path / "orders/billing").mkdir(parents=True)
        everything = mount.path / ALL / "orders/billing/.all.jsonl"
        assert not everything.read_bytes()
        assert everything.stat().st_size == 0
        (mount.path / "orders/billing/in.txt").write_text("1\n")
        until(lambda: bool(everything.read_bytes()), "what came is shown")


def test_what_was_consumed_through_the_mount_is_copied_back(writable: Path, tmp_path: Path) -> None:
    with mounted_for_writing(writable, tmp_path / "mnt") as mount:
        consume_and_copy_back(mount.path)


def consume_and_copy_back(mounted: Path) -> None:
    queue = mounted / "orders" / "billing"
    for name in ("billing", "again"):
        (mounted / "orders" / name).mkdir(parents=True)
    for turn in range(4):
        (queue / "in.txt").write_text("".join(f"{turn}-{n} {'x' * 500}\n" for n in range(100)))
        for part in queue.glob("*.jsonl"):
            part.unlink()
    (queue / "picture.bin").write_bytes(bytes(range(256)) * 1000)
    assert len(list((queue / ".messages").iterdir())) == 1
    (picture,) = (queue / ".messages").iterdir()
    picture.unlink()
    found = mounted / ".journalfs/history/-1h/orders/billing"
    assert len(read_lines(found)) == 401
    assert (found / ".messages" / picture.name).read_bytes() == bytes(range(256)) * 1000
    subprocess.run(
        f"cat {found}/.where/'color IS NULL'/part-*.jsonl > {mounted}/orders/again/in.jsonl",
        shell=True,
        check=True,
    )
    again = mounted / "orders" / "again"
    assert len(read_lines(again)) == 401
