"""Rules of damage and of the index: what happens to a store that is not as its broker left it."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.polling import eventually
from tests.mounting import MountedStore, mounted, read_lines
from tests.reference import store as reference
from tests.semantics.conftest import Account

StoreCopy = Callable[[str], Path]

ZEROED_AT, ZEROED_BYTES = 200_000, 1_000
"""A stretch in the middle of the messages of `orders-basic`."""


def all_lines(mount: MountedStore) -> dict[tuple[str, str], list[dict[str, Any]]]:
    return {
        (address, queue): read_lines(mount.path / address / queue)
        for address in os.listdir(mount.path)
        for queue in os.listdir(mount.path / address)
    }


def total(mount: MountedStore) -> int:
    return sum(len(lines) for lines in all_lines(mount).values())


def listed_damage(mount: MountedStore) -> str:
    folder = mount.path / ".journalfs" / "damaged"
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.mark.rule("S-48")
@pytest.mark.parametrize(
    "gone",
    [
        "data/journal/activemq-data-1.amq",
        "data/journal/activemq-data-2.amq",
        "data/bindings/activemq-bindings-1.bindings",
        "data/bindings/activemq-bindings-2.bindings",
        "data/journal",
        "data/bindings",
        "data/paging",
        "data/large-messages",
        "data/journal/server.lock",
    ],
)
def test_a_store_with_something_missing_mounts(unseen_copy: StoreCopy, tmp_path: Path, gone: str) -> None:
    store = unseen_copy("large-and-paged")
    path = store / gone
    intact = shown_by_reference(store / "data")
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    with mounted(store, tmp_path / "mnt") as mount:
        shown = shown_by(mount)
        assert mount.control("status.json")["messages"] == total(mount)
    if gone in WITHOUT_NAMES:
        # Nothing says any more how the queues are called; their messages are all there.
        assert {one for ids in shown.values() for one in ids} == {
            one for ids in intact.values() for one in ids
        }
        return
    for folder in ("journal", "paging", "large-messages"):
        (store / "data" / folder).mkdir(exist_ok=True)
    assert shown == shown_by_reference(store / "data")
    assert shown


WITHOUT_NAMES = ("data/bindings", "data/bindings/activemq-bindings-1.bindings")

Ids = dict[tuple[str, str], set[int]]


def shown_by(mount: MountedStore) -> Ids:
    return {key: {line["id"] for line in lines} for key, lines in all_lines(mount).items()}


def shown_by_reference(data: Path) -> Ids:
    """What a slow, plain reader finds that knows nothing of journalfs."""
    return {
        (queue["address"], queue["name"]): {message["id"] for message in queue["messages"]}
        for queue in reference.load(data, now_ms=0)["queues"]
    }


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff" * 4096, b"not a journal at all\n" * 1000])
@pytest.mark.parametrize(
    "name", ["data/journal/activemq-data-2.amq", "data/bindings/activemq-bindings-2.bindings"]
)
def test_a_store_with_a_foreign_file_mounts(
    unseen_copy: StoreCopy, tmp_path: Path, name: str, content: bytes
) -> None:
    """All that is in the other files is shown, and the foreign one is listed: also zeros, which would be a
    file that waits for its first header, but no broker makes one of a hundred bytes.
    """
    store = unseen_copy("aio")
    path = store / name
    path.unlink()
    expected = shown_by_reference(store / "data")
    assert sum(map(len, expected.values())) > 50
    path.write_bytes(content)
    with mounted(store, tmp_path / "mnt") as mount:
        assert shown_by(mount) == expected
        assert path.name in listed_damage(mount)


@pytest.mark.rule("S-49")
def test_damage_in_the_middle_hides_nothing_after_it(
    unseen_copy: StoreCopy, tmp_path: Path, account: Callable[[str], Account]
) -> None:
    store = unseen_copy("orders-basic")
    journal = max((store / "data" / "journal").glob("*.amq"), key=last_used)
    place = last_used(journal) // 2
    overwrite(journal, place, b"\xa5" * ZEROED_BYTES)
    with mounted(store, tmp_path / "mnt") as mount:
        lines = [line for lines in all_lines(mount).values() for line in lines]
        live = account("orders-basic").content["liveMessages"]
        # A record is some hundred bytes: a thousand bytes of damage reach a dozen messages at most, each of
        # which may be in a few queues.
        assert live - 40 < len(lines) < live + 20
        newest = max(
            message["id"] for queue in account("orders-basic").queues for message in queue["messages"]
        )
        assert newest in {line["id"] for line in lines}
        report = listed_damage(mount)
        assert journal.name in report
        assert mount.control("status.json")["damage"]


def last_used(path: Path) -> int:
    """Offset after the last byte of a journal file that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


@pytest.mark.rule("S-50")
def test_a_record_cut_off_at_the_end_is_left_out(
    unseen_copy: StoreCopy, tmp_path: Path, account: Callable[[str], Account]
) -> None:
    store = unseen_copy("aio")
    with mounted(store, tmp_path / "mnt") as mount:
        before = {id for lines in all_lines(mount).values() for id in [line["id"] for line in lines]}
    shutil.rmtree(index_of(store).parent)
    journal = max((store / "data" / "journal").glob("*.amq"), key=last_used)
    end = last_used(journal)
    overwrite(journal, end - 3, b"\0" * 3)
    with mounted(store, tmp_path / "mnt") as mount:
        after = {id for lines in all_lines(mount).values() for id in [line["id"] for line in lines]}
        assert len(before ^ after) <= 1


@pytest.mark.rule("S-51")
def test_a_message_without_its_large_body_is_still_a_line(unseen_copy: StoreCopy, tmp_path: Path) -> None:
    store = unseen_copy("large-and-paged")
    with mounted(store, tmp_path / "mnt") as mount:
        intact = all_lines(mount)
    live = {line["id"] for lines in intact.values() for line in lines}
    bodies = sorted((store / "data" / "large-messages").glob("*.msg"))
    gone, cut = [path for path in bodies if int(path.stem) in live][:2]
    gone.unlink()
    os.truncate(cut, 1_000)
    harmed = {int(gone.stem), int(cut.stem)}
    for _ in range(2):
        # From the index of the mount before, and from its own.
        with mounted(store, tmp_path / "mnt") as mount:
            shown = all_lines(mount)
            report = listed_damage(mount)
            assert mount.control("status.json")["journalBytesScanned"] == 0
        assert gone.name in report
        assert cut.name in report
        for key, lines in intact.items():
            assert len(shown[key]) == len(lines)
            for line, was in zip(shown[key], lines, strict=True):
                if line["id"] not in harmed:
                    assert line == was
                    continue
                assert (line["id"], line["queue"]) == (was["id"], was["queue"])
                assert line["damage"]
                assert "body" not in line
                if line["id"] == int(cut.stem):
                    assert base64.b64decode(line["message_base64"], validate=True)
                    there = line.get("body_base64") or line["large_base64"]
                    assert base64.b64decode(there, validate=True) == cut.read_bytes()


@pytest.mark.rule("S-42", "S-51")
def test_a_body_that_is_lost_between_two_readings_of_its_part(unseen_copy: StoreCopy, tmp_path: Path) -> None:
    """What the kernel kept of the part as it was is not mixed with what it is now."""
    store = unseen_copy("large-and-paged")
    with mounted(store, tmp_path / "mnt") as mount:
        queue = mount.path / "images/images"
        (part,) = queue.glob("part-*.jsonl")
        before = part.stat()
        with part.open("rb", buffering=0) as file:
            os.pread(file.fileno(), 1_000_000, before.st_size // 2)
        (store / "data/large-messages/28.msg").unlink()
        content = part.read_bytes()
        lines = [json.loads(line) for line in content.splitlines()]
        after = part.stat()
        listed = {int(name.partition(".")[0]) for name in os.listdir(queue / ".messages")}
    assert {line["id"] for line in lines} == listed
    assert [line["id"] for line in lines if "damage" in line] == [28]
    assert len(content) == after.st_size != before.st_size
    assert after.st_ino != before.st_ino


@pytest.mark.rule("S-52")
def test_a_page_that_was_cut_gives_up_the_rest(
    unseen_copy: StoreCopy, tmp_path: Path, account: Callable[[str], Account]
) -> None:
    store = unseen_copy("large-and-paged")
    pages = sorted((store / "data" / "paging").glob("*/*.page"), key=lambda path: -path.stat().st_size)
    os.truncate(pages[0], pages[0].stat().st_size // 2)
    with mounted(store, tmp_path / "mnt") as mount:
        shown = {name: {line["id"] for line in lines} for (_, name), lines in all_lines(mount).items()}
        told = {
            queue["name"]: {m["id"] for m in queue["messages"]} for queue in account("large-and-paged").queues
        }
        lost = {name: told[name] - shown[name] for name in told if told[name] - shown[name]}
        assert lost
        addresses = {queue["address"] for queue in account("large-and-paged").queues if queue["name"] in lost}
        assert len(addresses) == 1
        assert all(shown[name] <= told[name] for name in told)
        assert all(len(ids) < len(told[name]) for name, ids in lost.items())
        assert pages[0].name in listed_damage(mount)


def index_of(store: Path) -> Path:
    (path,) = [path for path in store.rglob("journalfs/index") if path.is_file()]
    return path


@pytest.mark.rule("S-53")
def test_a_second_mount_reads_no_journal(unseen_copy: StoreCopy, tmp_path: Path) -> None:
    store = unseen_copy("compacted")
    with mounted(store, tmp_path / "mnt") as mount:
        first = all_lines(mount)
        assert mount.control("status.json")["journalBytesScanned"] > 100_000
    written = index_of(store).stat().st_mtime_ns
    with mounted(store, tmp_path / "mnt") as mount:
        assert mount.control("status.json")["journalBytesScanned"] == 0
        assert all_lines(mount) == first
        assert mount.control("status.json")["journalBytesScanned"] == 0
    assert index_of(store).stat().st_mtime_ns == written


@pytest.mark.rule("S-54")
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "foreign", "gone"])
def test_a_bad_index_is_made_anew(unseen_copy: StoreCopy, tmp_path: Path, harm: str) -> None:
    store = unseen_copy("aio")
    with mounted(store, tmp_path / "mnt") as mount:
        first = all_lines(mount)
    path = index_of(store)
    content = bytearray(path.read_bytes())
    if harm == "flip":
        content[len(content) // 2] ^= 0x10
    path.write_bytes(
        {"flip": bytes(content), "cut": bytes(content[:-7]), "foreign": b"[x]\n" * 99}.get(harm, b"")
    )
    if harm == "gone":
        path.unlink()
    with mounted(store, tmp_path / "mnt") as mount:
        assert without_part_names(all_lines(mount)) == without_part_names(first)
    assert index_of(store).stat().st_size > 100


@pytest.mark.rule("S-54")
def test_an_index_of_an_older_state_is_brought_up_to_date(unseen_copy: StoreCopy, tmp_path: Path) -> None:
    store, other = unseen_copy("aio"), unseen_copy("mapped")
    with mounted(other, tmp_path / "mnt") as mount:
        expected = all_lines(mount)
    with mounted(store, tmp_path / "mnt"):
        pass
    # The store is replaced below its index, as a restored backup would.
    for folder in ("journal", "bindings", "paging", "large-messages"):
        shutil.rmtree(store / "data" / folder)
        shutil.copytree(other / "data" / folder, store / "data" / folder)
    with mounted(store, tmp_path / "mnt") as mount:
        assert all_lines(mount) == expected


def without_part_names(lines: dict[tuple[str, str], list[dict[str, Any]]]) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for found in lines.values() for line in found)


@pytest.mark.rule("S-44")
def test_bytes_that_change_in_place_are_shown(unseen_copy: StoreCopy, tmp_path: Path) -> None:
    """To the same length, and after the kernel was given what was there before."""
    store = unseen_copy("killed")
    with mounted(store, tmp_path / "mnt") as mount:
        path, offset, text, part, message = text_in_an_older_file(store, mount)
        changed = "Z" + text[1:]
        with part.open("rb") as opened:
            overwrite(path, offset, b"Z")
            eventually(lambda: message.read_text() == changed, deadline_s=30, what="the message as it is")
            eventually(
                lambda: changed in bodies_in(part.read_text()), deadline_s=30, what="the line as it is"
            )
            assert text in bodies_in(opened.read().decode())


def bodies_in(lines: str) -> list[str]:
    return [json.loads(line).get("body") for line in lines.splitlines()]


def text_in_an_older_file(store: Path, mount: MountedStore) -> tuple[Path, int, str, Path, Path]:
    """Where a journal file that is not written to any more holds a body, the body, and the part and the file
    that show it, both read.
    """
    journal = store / "data/journal/activemq-data-2.amq"
    content = journal.read_bytes()
    for part in sorted(mount.path.glob("*/*/part-*.jsonl")):
        for line in part.read_text().splitlines():
            envelope = json.loads(line)
            text = envelope.get("body")
            at = content.find(text.encode("utf-16-le")) if isinstance(text, str) and text.isascii() else -1
            message = part.parent / ".messages" / f"{envelope['id']}.txt"
            if at > 0 and len(text) > 8 and message.exists() and message.read_text() == text:
                return journal, at, text, part, message
    raise AssertionError("no text")
