"""Rules of status, numbers, permissions and of a mount that only reads."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frozen import tree_state
from tests.mounting import MountedStore, QueueOnDisk, mounted, mounted_for_writing
from tests.semantics.conftest import Account


@pytest.mark.rule("S-33")
def test_status_counts_as_the_broker_counts(
    orders: MountedStore, transactions: MountedStore, account: Callable[[str], Account]
) -> None:
    for mount, store in ((orders, "orders-basic"), (transactions, "transactions")):
        for queue in account(store).queues:
            if (
                "/" in queue["name"]
                or len(queue["name"]) > 255
                or queue["name"][0] == "."
                or "%" in queue["name"]
            ):
                continue
            status = mount.queue(queue["address"], queue["name"]).status()
            assert status["messageCount"] == queue["messageCount"], queue["name"]
            assert status.get("scheduledCount", 0) == queue.get("scheduledCount", 0)
            assert status.get("deliveringCount", 0) == queue.get("deliveringCount", 0)
    address = json.loads((orders.path / "prices" / ".status").read_text())
    assert address["queues"] == {
        queue["name"]: queue["messageCount"]
        for queue in account("orders-basic").queues
        if queue["address"] == "prices"
    }


@pytest.mark.rule("S-34")
def test_settings_are_toml_and_attributes(orders: MountedStore) -> None:
    folder = orders.path / "claims"
    text = (folder / ".settings").read_text()
    settings = tomllib.loads(text)
    assert "claims.DLA" in text
    assert "broker.xml" in text
    assert settings
    found = {name: os.getxattr(folder, name).decode() for name in os.listxattr(folder)}
    assert found["user.journalfs.dead-letter-address"] == "claims.DLA"
    assert found["user.journalfs.max-delivery-attempts"] == "2"
    assert tomllib.loads((folder / "claims" / ".settings").read_text())


@pytest.mark.rule("S-35")
def test_df_knows_disk_and_messages(
    orders: MountedStore, account: Callable[[str], Account], stores: object
) -> None:
    shown = os.statvfs(orders.path)
    assert shown.f_blocks > 0
    assert shown.f_bavail <= shown.f_blocks
    assert shown.f_namemax == 255
    counted = sum(queue["messageCount"] for queue in account("orders-basic").queues)
    distinct = {message["id"] for queue in account("orders-basic").queues for message in queue["messages"]}
    assert len(distinct) <= shown.f_files - shown.f_ffree <= counted


@pytest.mark.rule("S-36")
def test_the_store_and_the_mount_say_what_they_are(orders: MountedStore) -> None:
    status = orders.control("status.json")
    assert status["messages"] == 301
    report = orders.control("mount.json")
    assert os.path.exists(f"/proc/{report['pid']}")
    assert report["readOnly"] is True


@pytest.mark.rule("S-37")
def test_every_file_of_the_store_has_its_records_as_lines(
    paged: MountedStore, stores: dict[str, Path]
) -> None:
    data = stores["large-and-paged"] / "data"
    for folder, pattern in (("journal", "journal/*.amq"), ("bindings", "bindings/*.bindings")):
        shown = os.listdir(paged.path / ".journalfs" / folder)
        for path in data.glob(pattern):
            (view,) = [name for name in shown if name.startswith(path.name) and name.endswith(".jsonl")]
            lines = [
                json.loads(line)
                for line in (paged.path / ".journalfs" / folder / view).read_bytes().splitlines()
            ]
            offsets = [line["offset"] for line in lines]
            assert offsets == sorted(offsets)
            assert all({"kind", "bytes"} <= line.keys() for line in lines)
    pages = paged.path / ".journalfs" / "pages"
    views = list(pages.rglob("*.jsonl"))
    assert len(views) == len(list(data.glob("paging/*/*.page")))
    assert sum(path.read_bytes().count(b"\n") for path in views) > 500


@pytest.mark.rule("S-90")
def test_every_journal_file_says_what_keeps_it(transactions: MountedStore, stores: dict[str, Path]) -> None:
    folder = transactions.path / ".journalfs" / "journal"
    files = {path.name for path in (stores["transactions"] / "data" / "journal").glob("*.amq")}
    texts = {path.name.removesuffix(".explain"): path.read_text() for path in folder.glob("*.explain")}
    assert texts.keys() == files
    first = texts["activemq-data-1.amq"]
    assert "tx.orders::tx.orders: 33 messages" in first
    assert re.search(r"^  transaction \d+ \(\S+\), prepared: \d+ records in this file$", first, re.MULTILINE)
    assert re.search(r"the oldest \d+ \w+ \d+ \w+ old$", first, re.MULTILINE)
    (path,) = folder.glob("activemq-data-2.amq.explain")
    assert path.stat().st_size == len(path.read_bytes())


CHANGES: list[Callable[[Path, Path], object]] = [
    lambda queue, message: (queue / "new.txt").write_text("x"),
    lambda queue, message: message.write_text("x"),
    lambda queue, message: os.truncate(message, 0),
    lambda queue, message: message.unlink(),
    lambda queue, message: (queue / "_tail.jsonl").open("a"),
    lambda queue, message: os.mkdir(queue.parent / "other"),
    lambda queue, message: os.rmdir(queue),
    lambda queue, message: os.rename(message, queue / "elsewhere"),
    lambda queue, message: os.symlink("a", queue / "b"),
    lambda queue, message: os.link(message, queue / "b"),
    lambda queue, message: os.mkfifo(queue / "fifo"),
    lambda queue, message: os.chmod(message, 0o600),
    lambda queue, message: os.chown(message, 1, 1),
    lambda queue, message: os.utime(message),
    lambda queue, message: os.setxattr(message, "user.a", b"b"),
    lambda queue, message: os.removexattr(message, "user.journalfs.priority"),
]


@pytest.mark.rule("S-38", "S-74")
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_every_change_is_refused(orders: MountedStore, number: int) -> None:
    queue = orders.queue("orders")
    message = queue.path / ".messages" / queue.listed()[0]
    before = len(orders.events())
    with pytest.raises(OSError, match="Read-only") as refused:
        CHANGES[number](queue.path, message)
    assert refused.value.errno == errno.EROFS
    (event,) = orders.events()[before:]
    assert event["event"] == "refused"
    assert re.fullmatch(r"orders.*: EROFS", event["what"])
    assert "mounted to be read only" in event["reason"]


TOOLS: dict[str, str] = {
    "echo x > new.txt": "new.txt",
    "echo x >> _tail.jsonl": "_tail.jsonl",
    "printf x | tee new.txt": "new.txt",
    "touch new.txt": "new.txt",
    "touch .messages/ID": ".messages/ID",
    "cp /etc/hostname new.txt": "new.txt",
    "cp -f /etc/hostname .messages/ID": ".messages/ID",
    "mv .messages/ID elsewhere": "elsewhere",
    "rm -f .messages/ID": ".messages/ID",
    "mkdir new": "new",
    "ln -s a new": "new",
    "chmod 600 .messages/ID": ".messages/ID",
    "truncate -s 0 .messages/ID": ".messages/ID",
    "setfattr -n user.journalfs.max-consumers -v 3 .": "",
}
"""What people type in the directory of a queue, and the name in it that the event is about."""


@pytest.mark.rule("S-38", "S-74")
@pytest.mark.parametrize("command", TOOLS)
def test_tools_say_that_it_is_read_only(orders: MountedStore, command: str) -> None:
    queue = orders.queue("orders")
    name = queue.listed()[0]
    before = len(orders.events())
    done = subprocess.run(
        ["bash", "-c", command.replace("ID", name)],
        cwd=queue.path,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    events = orders.events()[before:]
    about = f"orders/orders/{TOOLS[command]}".rstrip("/").replace("ID", name)
    assert {event["what"] for event in events} == {f"{about}: EROFS"}


@pytest.mark.rule("S-138")
def test_a_mount_that_the_kernel_knows_to_be_read_only_says_so(
    store_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    with mounted(store_copy("aio"), tmp_path / "mnt", "-o", "ro") as mount:
        assert os.statvfs(mount.path).f_flag & os.ST_RDONLY
        with pytest.raises(OSError, match="Read-only"):
            (mount.path / "new").mkdir()
        (event,) = [one for one in mount.events() if one["event"] == "refused"]
        assert event["what"] == "every change: EROFS"
        assert "the kernel refuses changes" in event["reason"]


@pytest.mark.rule("S-39")
def test_reading_everything_changes_nothing(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    store = store_copy("large-and-paged")
    before = tree_state(store)
    # The index may have come along with the copy, and is ours to write.
    theirs = [path for path in store.rglob("*") if path.is_file() and path.parent.name != "journalfs"]
    content = {path: path.read_bytes() for path in theirs}
    with mounted(store, tmp_path / "mnt") as mount:
        for folder, _, names in os.walk(mount.path):
            for name in names:
                Path(folder, name).read_bytes()
        for folder, _, names in os.walk(mount.path / ".journalfs"):
            for name in names:
                Path(folder, name).read_bytes()
    assert tree_state(store) == before
    assert {path: path.read_bytes() for path in content} == content


@pytest.mark.rule("S-39")
def test_a_store_that_cannot_be_written_keeps_its_index_elsewhere(
    unseen_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = unseen_copy("aio")
    bound = tmp_path / "bound"
    bound.mkdir()
    subprocess.run(["mount", "--bind", "-o", "ro", store, bound], check=True)
    try:
        with mounted(bound, tmp_path / "mnt") as mount:
            assert os.listdir(mount.path)
        assert [path for path in (tmp_path / "cache").rglob("index*") if path.is_file()]
        assert not list(store.rglob("journalfs"))
    finally:
        subprocess.run(["umount", bound], check=True)


@pytest.mark.rule("S-40")
def test_permissions_and_owners(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    store = store_copy("aio")
    with mounted(store, tmp_path / "mnt") as mount:
        assert mount.path.stat().st_mode & 0o7777 == 0o555
        for folder, _, names in os.walk(mount.path):
            for name in names:
                status = Path(folder, name).stat()
                assert status.st_mode & 0o7777 == 0o444
                assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())
    with mounted(store, tmp_path / "mnt", "-o", "umask=027,uid=7,gid=8") as mount:
        status = mount.path.stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o550, 7, 8)


@pytest.mark.rule("S-40")
def test_permissions_of_what_is_staged(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    store = store_copy("aio")
    with mounted_for_writing(store, tmp_path / "mnt", "-o", "umask=027") as mount:
        file, directory = mount.path / "_file", mount.path / ".directory"
        before = os.umask(0)
        try:
            file.touch()
            directory.mkdir()
        finally:
            os.umask(before)
        assert [path.stat().st_mode & 0o777 for path in (file, directory)] == [0o640, 0o750]
        file.chmod(0o604)
        assert file.stat().st_mode & 0o777 == 0o600


def numbers(mount: MountedStore) -> dict[str, int]:
    found = {}
    for folder, folders, names in os.walk(mount.path):
        for name in [*folders, *names]:
            path = Path(folder, name)
            found[str(path.relative_to(mount.path))] = path.stat().st_ino
    for queue in [path for path in mount.path.glob("*/*") if path.is_dir()]:
        for entry in os.scandir(queue / ".messages"):
            found[str(Path(entry.path).relative_to(mount.path))] = entry.stat().st_ino
        for name in (".take", ".follow"):
            found[str((queue / name).relative_to(mount.path))] = (queue / name).stat().st_ino
    return found


@pytest.mark.rule("S-41")
def test_inode_numbers_are_stable_and_distinct(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    store = store_copy("orders-basic")
    with mounted(store, tmp_path / "mnt"):
        pass  # the tails of empty queues come behind the parts of others from the second mount on
    with mounted(store, tmp_path / "mnt") as mount:
        first = numbers(mount)
        assert numbers(mount) == first
    with mounted(store, tmp_path / "elsewhere") as mount:
        assert numbers(mount) == first
    assert len(set(first.values())) == len(first)


@pytest.mark.rule("S-41")
def test_a_message_has_one_number_in_every_view(orders: MountedStore) -> None:
    queue = orders.queue("reminders")
    for view in (QueueOnDisk(queue.path / ".scheduled"), QueueOnDisk(queue.path / ".where" / "n > 0")):
        assert view.listed()
        for entry in view.listed():
            same = queue.path / ".messages" / entry
            assert (view.path / ".messages" / entry).stat().st_ino == same.stat().st_ino
