"""Two mounts are told the same, call by call: where C answers what it can, all is as where Python does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.kinds import first_is_quick
from tests.mounting import (
    EVERY_DISK_IS_QUICK,
    Commands,
    MountedStore,
    QueueOnDisk,
    journalfs,
    mounted_for_writing,
)

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

CALLS = 400
OPEN_MAX = 6
FOLDERS = ("work", "work/work.a", "work/work.b")
NAMES = ("in.txt", "in.txt", "other.txt", "third.jsonl", "whole.bin")
FLAGS = (
    *[os.O_WRONLY | os.O_CREAT | os.O_APPEND] * 4,
    *[os.O_WRONLY | os.O_CREAT | os.O_TRUNC] * 2,
    os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_WRONLY | os.O_CREAT,
    os.O_WRONLY | os.O_APPEND,
    os.O_RDWR | os.O_CREAT,
    os.O_RDONLY,
)
PIECES = (b"%d\n", b"%d\n", b"%d\n", b"%d a\n%d b\n", b"%d and ", b"%d" + b"x" * 9000 + b"\n", b"", b"\n")


class Told:
    """What one mount is told, by numbers of open files; each call returns what it came to.

    It has a word of its own for `work`: who else has a file open is asked by its number (`is_open`), and that
    is the same in both mounts where the names are.
    """

    def __init__(self, mounted: MountedStore, word: str) -> None:
        self.mounted = mounted
        self.word = word
        self.files: dict[int, int] = {}

    def path(self, name: str) -> Path:
        return self.mounted.path / name.replace("work", self.word)

    def open(self, number: int, path: str, flags: int) -> None:
        self.files[number] = os.open(self.path(path), flags, 0o640)

    def write(self, number: int, content: bytes) -> int:
        return os.write(self.files[number], content)

    def write_at(self, number: int, content: bytes, offset: int) -> int:
        return os.pwrite(self.files[number], content, offset)

    def truncate(self, number: int, size: int) -> None:
        os.ftruncate(self.files[number], size)

    def sync(self, number: int) -> None:
        os.fsync(self.files[number])

    def attributes(self, number: int) -> tuple[int, ...]:
        found = os.fstat(self.files[number])
        return found.st_size, found.st_mode, found.st_nlink, found.st_uid, found.st_blocks

    def flush(self, number: int) -> None:
        os.close(os.dup(self.files[number]))

    def close(self, number: int) -> None:
        os.close(self.files.pop(number))

    def close_all(self) -> None:
        for number in list(self.files):
            outcome(self.close, (number,))

    def stat(self, path: str) -> tuple[int, ...]:
        found = self.path(path).stat()
        return found.st_size, found.st_mode

    def unlink(self, path: str) -> None:
        self.path(path).unlink()

    def rename(self, path: str, to: str) -> None:
        self.path(path).rename(self.path(to))

    def listed(self, path: str) -> list[str]:
        found = os.listdir(self.path(path))
        return sorted(
            name.replace(self.word, "work") for name in found if not name.startswith(("part-", "_tail"))
        )

    def bodies(self, queue: str) -> list[object]:
        lines = QueueOnDisk(self.path(f"work/{queue}")).lines()
        return [line.get("body", line.get("body_base64")) for line in lines]

    def take(self, queue: str) -> None:
        folder = self.path(f"work/{queue}/.messages")
        for name in sorted(os.listdir(folder))[:1]:
            (folder / name).unlink()


def call(chance: Random, count: int, is_open: bool) -> tuple[str, tuple[object, ...]]:
    """What to tell, without the number of the file."""
    path = f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}"
    content = chance.choice(PIECES)
    content = content.replace(b"%d", b"%d" % count)
    of_file: list[tuple[str, tuple[object, ...]]] = [
        *[("write", (content,))] * 8,
        ("write_at", (content, chance.choice((0, 3, 100)))),
        ("truncate", (chance.choice((0, 3)),)),
        ("sync", ()),
        *[("attributes", ())] * 3,
        *[("flush", ())] * 2,
        *[("close", ())] * 6,
    ]
    of_paths: list[tuple[str, tuple[object, ...]]] = [
        *[("stat", (path,))] * 2,
        ("unlink", (path,)),
        ("rename", (path, f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}")),
        *[("listed", (chance.choice(FOLDERS),))] * 2,
        *[("bodies", (chance.choice(("work.a", "work.b")),))] * 2,
        ("take", (chance.choice(("work.a", "work.b")),)),
    ]
    return chance.choice(of_file if is_open and chance.random() < 0.75 else of_paths)


def outcome(what: Callable[..., object], arguments: tuple[object, ...]) -> object:
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


@contextmanager
def both(tmp_path: Path) -> Iterator[list[Told]]:
    with ExitStack() as mounts:
        told = []
        for front, word in (("on", "work"), ("off", "toil")):
            store = tmp_path / front
            assert journalfs("create", store).returncode == 0
            mounted = mounts.enter_context(
                mounted_for_writing(store, tmp_path / f"mnt-{front}", "-o", f"front={front}")
            )
            told.append(Told(mounted, word))
            for queue in ("work.a", "work.b"):
                told[-1].path(f"work/{queue}").mkdir(parents=True)
            mounts.callback(told[-1].close_all)
        yield told


@pytest.mark.rule("S-272", "S-278")
@pytest.mark.parametrize("seed", first_is_quick(*range(12)))
def test_calls_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(Commands, "unlimited", EVERY_DISK_IS_QUICK)
    monkeypatch.setattr(Commands, "forked", True)
    chance = Random(seed)
    done: list[object] = []
    with both(tmp_path) as told:
        for count in range(CALLS):
            arguments: tuple[object, ...]
            numbers = sorted(told[0].files)
            if len(numbers) < OPEN_MAX and chance.random() < 0.3:
                path = f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}"
                name, arguments = "open", (count, path, chance.choice(FLAGS))
            else:
                name, arguments = call(chance, count, bool(numbers))
                if name in ("write", "write_at", "truncate", "sync", "attributes", "flush", "close"):
                    arguments = (chance.choice(numbers), *arguments)
            found = [outcome(getattr(one, name), arguments) for one in told]
            done.append((name, arguments, found[1]))
            assert found[0] == found[1], "\n".join(str(one)[:150] for one in done[-50:])
        for one in told:
            one.close_all()
        for queue in ("work.a", "work.b"):
            assert told[0].bodies(queue) == told[1].bodies(queue)
        hot = told[0].mounted.control("status.json")["frontRequests"]
    assert hot["write"] > 0, hot
