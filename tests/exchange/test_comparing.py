"""What differs between two stores."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journalfs.errors import SystemFailure
from journalfs.exchange import comparing as long_lines
from journalfs.exchange import sorting
from journalfs.exchange.sorting import in_order
from tests.frozen import PristineStores
from tests.kinds import first_is_quick
from tests.mounting import JOURNALFS, MountedStore, journalfs, mounted, mounted_for_writing
from tests.writing.conftest import new_store


def diff(first: Path | str, second: Path | str, code: int = 1) -> list[dict[str, Any]]:
    done = journalfs("diff", first, second, "--json")
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def filled(mount: MountedStore) -> None:
    for path in ("a/q", "b/b", "DLQ/DLQ"):
        (mount.path / path).mkdir(parents=True, exist_ok=True)
    (mount.path / "a/q/in.txt").write_text("".join(f"{n}\n" for n in range(6)))
    (mount.path / "a/q/large.bin").write_bytes(b"large" * 50_000)
    amqp = {"protocol": "AMQP", "body": "amqp", "properties": {"n": 1}}
    (mount.path / "a/q/in.jsonl").write_text(json.dumps(amqp) + "\n")


def test_every_kind_of_difference_is_found(tmp_path: Path) -> None:
    before, mountpoint = new_store(tmp_path / "before"), tmp_path / "mnt"
    with mounted_for_writing(before, mountpoint) as mount:
        filled(mount)
    after = tmp_path / "after"
    shutil.copytree(before, after)
    assert diff(before, after, 0) == []
    with mounted_for_writing(after, mountpoint) as mount:
        queue = mount.queue("a", "q")
        ids = {line["body"]: line["id"] for line in queue.lines() if "body" in line}
        large = next(line["id"] for line in queue.lines() if "body" not in line)
        snapshot = mount.path / ".journalfs/snapshots/s"
        snapshot.mkdir()
        (queue.path / f".messages/{ids['0']}.txt").unlink()
        os.setxattr(queue.path / f".messages/{ids['1']}.txt", "user.journalfs.deliveryCount", b"3")
        for one in (ids["2"], ids["amqp"], large):
            (name,) = (name for name in os.listdir(queue.path / ".messages") if name.startswith(f"{one}."))
            os.rename(queue.path / ".messages" / name, mount.path / "b/b" / name)
        (mount.path / "b/b/new.txt").write_text("2\n")
        (mount.path / "c/c").mkdir(parents=True)
        to = {line.get("body"): line["id"] for line in mount.queue("b").lines()}
        expected = [
            {"what": "added", "queue": "c::c", "id": None},
            {"what": "lost", "queue": "a::q", "id": ids["0"]},
            {"what": "changed", "queue": "a::q", "id": ids["1"], "fields": ["deliveryCount"]},
            {"what": "moved", "queue": "a::q", "id": ids["2"], "toQueue": "b::b"},
            {"what": "moved", "queue": "a::q", "id": ids["amqp"], "toQueue": "b::b"},
            {"what": "moved", "queue": "a::q", "id": large, "toQueue": "b::b"},
            {"what": "added", "queue": "b::b", "id": to["2"]},
        ]

        def by_kind(found: list[dict[str, Any]]) -> list[str]:
            return sorted(json.dumps({k: v for k, v in one.items() if k != "toId"}) for one in found)

        # The new message says 2 as well, but was sent at another time.
        assert by_kind(diff(before, mountpoint)) == by_kind(expected)
        assert by_kind(diff(snapshot, mountpoint)) == by_kind(expected)
        assert diff(before, snapshot, 0) == []
    words = journalfs("diff", before, after)
    assert f"changed a::q {ids['1']}: deliveryCount\n" in words.stdout
    assert words.stderr == "2 added, 1 changed, 1 lost, 3 moved\n"
    assert journalfs("diff", before, tmp_path / "nothing").returncode >= 2


@pytest.mark.parametrize(
    "scheme",
    first_is_quick("file://", ""),
    ids=["objects", "directory"],
)
def test_backups_are_compared_as_what_is_restored_of_them(tmp_path: Path, scheme: str) -> None:
    store, mountpoint = new_store(tmp_path / "store"), tmp_path / "mnt"
    place = f"{scheme}{tmp_path}/daily@home"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with mounted_for_writing(store, mountpoint) as mount:
        filled(mount)
        made = journalfs("backup", "--json", mountpoint, place)
        (mount.path / "b/b/new.txt").write_text("new\n")
        assert journalfs("backup", mountpoint, place).returncode == 0
    first = f"{place}@{json.loads(made.stdout)['name']}"
    added = [("added", "b::b")]
    for second in (store, place):
        assert [(one["what"], one["queue"]) for one in diff(first, second)] == added
    assert diff(place, store, 0) == []
    done = journalfs("diff", place, store, env={**os.environ, "TMPDIR": str(temporary)})
    assert (done.returncode, os.listdir(temporary)) == (0, []), done.stderr
    for wrong in (f"{place}@never", f"{tmp_path}/nothing@never"):
        done = journalfs("diff", wrong, store)
        assert done.returncode >= 2
        assert "Traceback" not in done.stderr
    assert "never: there is no such backup" in journalfs("diff", f"{place}@never", store).stderr


def test_a_range_of_the_history_is_compared(store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    """What was sent and is not there any more was consumed; the rest says the same in both."""
    data = store_copy("retention") / "data"
    with mounted(data, tmp_path / "mnt") as mount:
        for place in (data, mount.path):
            found = diff(place / ".journalfs/history/all", place)
            of_queue = Counter(one["what"] for one in found if one["queue"] == "payments::payments")
            assert of_queue == {"lost": 1202 - 61}
            assert diff(place / ".journalfs/history/2026-11-21", place / ".journalfs/history/all", 0) == []
    for wrong, said in (("history/nonsense", "nonsense: a time is"), ("snapshots/x", "no snapshot x")):
        done = journalfs("diff", data, data / ".journalfs" / wrong)
        assert done.returncode >= 2
        assert said in done.stderr
    plain = new_store(tmp_path / "plain")
    assert "keeps no history" in journalfs("diff", plain, plain / ".journalfs/history/-2h").stderr


def test_what_went_back_was_moved(tmp_path: Path) -> None:
    before, mountpoint = new_store(tmp_path / "before"), tmp_path / "mnt"
    with mounted_for_writing(before, mountpoint) as mount:
        filled(mount)
        os.rename(mount.path / "a/q/.all.jsonl", mount.path / "DLQ/DLQ/x")
    after = tmp_path / "after"
    shutil.copytree(before, after)
    assert journalfs("dlq", "redrive", after, "DLQ::DLQ").returncode == 0
    found = diff(before, after)
    assert [(one["what"], one["queue"], one["toQueue"]) for one in found] == [
        ("moved", "DLQ::DLQ", "a::q")
    ] * 8


def converted(source: Path, to: Path, *options: str) -> Path:
    done = journalfs("convert", *options, source, to)
    assert done.returncode == 0, done.stderr
    return to


@pytest.mark.rule("S-320")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hq-2.4-main", ()),
        ("transactions", ("--to", "hornetq")),
        pytest.param("art-1.5-main", (), marks=pytest.mark.long),
    ],
)
def test_names_of_a_conversion_are_no_difference(
    name: str, options: tuple[str, ...], stores: PristineStores, tmp_path: Path
) -> None:
    source, new = stores[name], converted(stores[name], tmp_path / "new", *options)
    renamed = json.loads((new / "journalfs" / "made-from.json").read_bytes())["renamed"]
    assert any("::" in old and "::" in to for old, to in renamed.items())
    for pair in ((source, new), (new, source)):
        done = journalfs("diff", *pair)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert f"{new}/journalfs/made-from.json" in done.stderr


@pytest.mark.rule("S-320")
def test_a_message_that_a_conversion_lost_is_found(stores: PristineStores, tmp_path: Path) -> None:
    """A canary: the names hide nothing."""
    new = converted(stores["hq-2.4-main"], tmp_path / "new")
    with mounted_for_writing(new, tmp_path / "mnt") as mount:
        queue = mount.path / "orders/orders/.messages"
        first, second, *_ = sorted(os.listdir(queue))
        (queue / first).unlink()
        os.rename(queue / second, mount.path / "picky/picky" / second)
    found = diff(stores["hq-2.4-main"], new)
    old = "jms.queue.orders::jms.queue.orders"
    assert {(one["what"], one["queue"], one.get("toQueue")) for one in found} == {
        ("lost", old, None),
        ("moved", old, "picky::picky"),
    }


@pytest.mark.rule("S-320")
def test_names_that_the_caller_gives(tmp_path: Path) -> None:
    before, after, mountpoint = new_store(tmp_path / "before"), tmp_path / "after", tmp_path / "mnt"
    with mounted_for_writing(before, mountpoint) as mount:
        filled(mount)
    shutil.copytree(before, after)
    with mounted_for_writing(after, mountpoint) as mount:
        for address, queue in (("a", "r"), ("c", "c")):
            (mount.path / address / queue).mkdir(parents=True)
        os.rename(mount.path / "a/q/.all.jsonl", mount.path / "a/r/x")
        os.rmdir(mount.path / "a/q")
        os.rmdir(mount.path / "b/b")
    assert {one["what"] for one in diff(before, after)} == {"lost", "added", "moved"}
    done = journalfs("diff", before, after, "--renamed", "a::q=a::r", "--renamed", "b=c")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for wrong in ("a", "a=", "a::q=r"):
        done = journalfs("diff", before, after, "--renamed", wrong)
        assert done.returncode == 2
        assert "say OLD=NEW" in done.stderr


def test_lines_longer_than_memory_are_compared_by_their_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Source:
        def __init__(self, content: bytes) -> None:
            self.content, self.size_bytes = content, len(content)

        def read(self, offset: int, length: int) -> bytes:
            return self.content[offset : offset + length]

        def ahead(self, offset: int, length: int) -> None:
            return None

        def close(self) -> None:
            self.content = b""

    monkeypatch.setattr(long_lines, "KEPT_BYTES_MAX", 100_000)
    short = b'{"id":1,"body":"x"}'
    longer = [b'{"id":2,"body":"%s"}' % (b"y" * n) for n in (200_000, 200_001)]
    found = [list(long_lines.lines_of(Source(short + b"\n" + line + b"\n"))) for line in longer]
    assert [lines[0] for lines in found] == [(short, None)] * 2
    (one, other) = (lines[1] for lines in found)
    assert one.text == other.text == b'{"id":2,"body":""}'
    assert one.digest != other.digest


def test_more_than_fits_into_memory_is_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "TOGETHER_MAX", 10)
    records = [(bytes([n]), b"x") for n in range(250)]
    mixed = random.Random(1).sample(records, len(records))
    assert list(in_order(mixed)) == records


def test_no_room_for_what_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "TOGETHER_MAX", 10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        with pytest.raises(SystemFailure, match="put messages into order among temporary files"):
            list(in_order([(bytes(100),)] * 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


MESSAGE_BYTES_MAX = 200
"""A store that is open keeps under 100 of a live message, and a listing 25: 160 were seen."""


def anonymous_peak(process: subprocess.Popen[bytes]) -> int:
    """The most memory that a process has for itself, in bytes; mapped files are the kernel's."""
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"RssAnon:\s+(\d+) kB", status)
            peak = max(peak, 1024 * int(found[1]) if found else 0)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    return peak


@pytest.mark.long
def test_memory_is_what_two_open_stores_take(tmp_path: Path) -> None:
    """Equal ones that all changed or moved: the kinds that would have to be kept."""
    counts, peaks = (60_000, 240_000), []
    for count in counts:
        stores = []
        for side, queue in enumerate(("a/q", "b/q")):
            stores.append(new_store(tmp_path / f"{count}-{side}"))
            with mounted_for_writing(stores[-1], tmp_path / "mnt") as mount:
                for path in ("c/c", queue):
                    (mount.path / path).mkdir(parents=True, exist_ok=True)
                line = json.dumps({"body": "equal", "timestamp": 1}) + "\n"
                (mount.path / "c/c/in.txt").write_text(f"{side}\n" * (count // 2))
                (mount.path / queue / "in.jsonl").write_text(line * (count // 2))
        with (
            (tmp_path / "out").open("w") as out,
            subprocess.Popen([JOURNALFS, "diff", *stores], stdout=out) as process,
        ):
            peaks.append(anonymous_peak(process))
        assert process.returncode == 1
        assert len((tmp_path / "out").read_text().splitlines()) >= count // 2
    assert peaks[1] - peaks[0] < 2 * (counts[1] - counts[0]) * MESSAGE_BYTES_MAX, peaks
