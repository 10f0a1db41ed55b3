"""The world of the mount: everything by the tools that one has in a shell."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.model import served
from tests.model.library import body_of
from tests.model.model import DEAD_LETTERS, EXPIRED, RING_SIZE, SELECTOR, Kind, Message, QueueSeen, Seen
from tests.model.world import SUFFIXES, Framing, QueuePath, content_of, in_order, kind_settings
from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk, journalfs

COMPETE = """
import os, sys
path, count = sys.argv[1], int(sys.argv[2])
first, second = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY | os.O_NONBLOCK)
for _ in range(count):
    print("first", os.read(first, 1 << 20).decode(), end="")
try:
    print("second", os.read(second, 1 << 20).decode(), end="")
except BlockingIOError:
    pass
os.close(first)
print("second", os.read(second, 1 << 20).decode(), end="")
"""
READ_AND_DIE = 'exec 3< "$1"; read -r line <&3; printf "%s\\n" "$line"; kill -KILL $$'


class Mounted:
    restarts = True

    def __init__(self, root: Path, mountpoint: Path, now_ms: int) -> None:
        self._root, self._mountpoint = root, mountpoint
        self._clock, self._log = mountpoint.with_suffix(".clock"), mountpoint.with_suffix(".log")
        self._now_ms = now_ms
        self._clock.write_bytes(now_ms.to_bytes(served.CLOCK_BYTES))
        mountpoint.mkdir()
        self._mount()
        for name in (DEAD_LETTERS, EXPIRED):
            self.create_address(name)
            self.create_queue((name, name), Kind())

    def _mount(self) -> None:
        command = [sys.executable, "-m", "tests.model.served"]
        folder = Path(__file__).resolve().parents[2]
        subprocess.run(
            [*command, self._root, self._mountpoint, self._clock, self._log],
            cwd=folder,
            check=True,
            timeout=COMMAND_S_MAX,
        )
        self._store = MountedStore(self._mountpoint)

    def close(self) -> None:
        done = journalfs("umount", self._mountpoint)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in self._log.read_text()

    def _folder(self, path: QueuePath) -> Path:
        return self._mountpoint / path[0] / path[1]

    def _files(self, path: QueuePath) -> dict[str, Path]:
        """The file of each message, by its body, in the order of delivery."""
        folder = self._folder(path) / ".messages"
        return {(folder / name).read_text(): folder / name for name in os.listdir(folder)}

    # ---- changes ----

    def create_address(self, name: str) -> None:
        (self._mountpoint / name).mkdir()

    def delete_address(self, name: str) -> None:
        (self._mountpoint / name).rmdir()

    def create_queue(self, path: QueuePath, kind: Kind) -> None:
        self._folder(path).mkdir()
        for name, value in kind_settings(kind, RING_SIZE, SELECTOR).items():
            os.setxattr(self._folder(path), f"user.journalfs.{name}", value.encode())

    def delete_queue(self, path: QueuePath) -> None:
        self._folder(path).rmdir()

    def publish(self, address: str, queue: str | None, framing: Framing, messages: Sequence[Message]) -> None:
        folder = self._mountpoint / address / (queue or "")
        plain = folder / f"in{SUFFIXES[framing]}"
        written = folder / f"_in{SUFFIXES[framing]}" if framing == "staged" else plain
        written.write_bytes(content_of(framing, messages))
        if written != plain:
            written.rename(plain)

    def offer(self, address: str, framing: Framing, message: Message) -> bool:
        try:
            self.publish(address, None, framing, [message])
        except OSError as error:
            if error.errno != errno.EDQUOT:
                raise
            return False
        return True

    def acknowledge(self, path: QueuePath, bodies: Sequence[str]) -> None:
        files = self._files(path)
        for body in bodies:
            files[body].unlink()

    def acknowledge_all(self, path: QueuePath) -> None:
        for name in os.listdir(self._folder(path)):
            (self._folder(path) / name).unlink()

    def acknowledge_selected(self, path: QueuePath) -> None:
        all_of_them = self._folder(path) / ".where" / SELECTOR / ".all.jsonl"
        if all_of_them.stat().st_size:
            all_of_them.unlink()

    def move(self, source: QueuePath, bodies: Sequence[str], target: QueuePath) -> None:
        files = self._files(source)
        for body in bodies:
            files[body].rename(self._folder(target) / files[body].name)

    # ---- consuming ----

    def take(self, path: QueuePath, count: int) -> list[str]:
        done = self._run("head", "-n", str(count), self._folder(path) / ".take")
        assert done.returncode == 0, done.stderr
        return _bodies(done.stdout)

    def compete(self, path: QueuePath, count: int) -> tuple[list[str], list[str]]:
        done = self._run(sys.executable, "-c", COMPETE, self._folder(path) / ".take", str(count))
        assert done.returncode == 0, done.stderr
        got: dict[str, list[str]] = {"first": [], "second": []}
        for said in done.stdout.splitlines():
            who, line = said.split(" ", 1)
            got[who] += _bodies(line)
        return got["first"], got["second"]

    def give_back(self, path: QueuePath) -> str:
        done = self._run("bash", "-c", READ_AND_DIE, "bash", self._folder(path) / ".take")
        (body,) = _bodies(done.stdout)
        held = self._folder(path) / ".delivering" / ".messages"
        until(lambda: not os.listdir(held), "the message is given back")
        return body

    @staticmethod
    def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)

    # ---- time, and being mounted again ----

    def pass_time(self, now_ms: int) -> None:
        """What expires by that leaves a moment later."""
        self._now_ms = now_ms
        with self._clock.open("r+b") as file:
            file.write(now_ms.to_bytes(served.CLOCK_BYTES))

    def restart(self) -> None:
        self.close()
        self._mount()

    # ---- what is there ----

    def seen(self, path: QueuePath) -> QueueSeen:
        queue = QueueOnDisk(self._folder(path))
        found = [_seen(self._folder(path) / ".messages" / name) for name in queue.listed()]
        return in_order(found, self._now_ms, queue.status()["messageCount"])

    def arrived(self, path: QueuePath) -> list[str] | None:
        # All of one moment: a message may get a part while files are read one after the other.
        content = (self._folder(path) / ".all.jsonl").read_text()
        return _bodies(content)

    def sent_on(self, path: QueuePath) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        folder = self._folder(path) / ".messages"
        for file in [folder / name for name in os.listdir(folder)]:
            origin = os.getxattr(file, "user.property._AMQ_ORIG_QUEUE").decode()
            found.setdefault(origin, []).append(file.read_text())
        return found


def _bodies(lines: str) -> list[str]:
    return [body_of(json.loads(line)) for line in lines.splitlines()]


def _seen(file: Path) -> Seen:
    there = {
        name.removeprefix("user.journalfs."): os.getxattr(file, name).decode() for name in os.listxattr(file)
    }

    def number(name: str) -> int:
        return int(there.get(name, "0"))

    return Seen(
        file.read_text(),
        number("priority"),
        number("expiration"),
        there.get("groupId", ""),
        number("deliveryCount"),
        number("scheduledTime"),
    )
