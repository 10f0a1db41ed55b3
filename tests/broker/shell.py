"""A store that is mounted and changed with what a shell has: `mkdir`, `tee`, `rm`, `mv`, attributes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from journalfs_mount.names.grammar import encode_name
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk, journalfs, mounted_for_writing

QueuePath = tuple[str, str]
"""Address and queue, by their own names."""

TROUBLE = {"refused", "kept", "not-kept", "not-forwarded", "write-failed", "limit-reached", "store-gone"}
"""Events that nothing which succeeds leads to."""


class ShellStore:
    """What one does in a mount. Every change succeeds, or the test fails."""

    def __init__(self, mount: MountedStore) -> None:
        self.mount = mount

    # ---- where things are ----

    def folder(self, address: str, queue: str | None = None) -> Path:
        path = self.mount.path / os.fsdecode(encode_name(address))
        return path if queue is None else path / os.fsdecode(encode_name(queue))

    def queue(self, path: QueuePath) -> QueueOnDisk:
        return QueueOnDisk(self.folder(*path))

    def lines(self, path: QueuePath) -> list[dict[str, Any]]:
        """The envelopes of a queue in arrival order."""
        content = (self.folder(*path) / ".all.jsonl").read_bytes()
        return [json.loads(line) for line in content.splitlines()]

    def held(self, path: QueuePath) -> int:
        """How many messages prepared transactions hold."""
        return len(os.listdir(self.folder(*path) / ".delivering" / ".messages"))

    def _files(self, path: QueuePath) -> dict[int, str]:
        """Message id -> name in `.messages/`."""
        return {int(name.split(".")[0]): name for name in self.queue(path).listed()}

    # ---- publishing ----

    def publish(self, address: str, queue: str | None, file_name: str, content: bytes) -> None:
        _run("tee", "--", file_name, folder=self.folder(address, queue), given=content)

    def publish_in_one_step(self, path: QueuePath, files: Mapping[str, bytes]) -> None:
        """All of them, in the order of their names, as one transaction."""
        staged = self.folder(*path) / ".step"
        _run("mkdir", "--", staged)
        for name, content in files.items():
            _run("tee", "--", name, folder=staged, given=content)
        _run("mv", "--", ".step", "step", folder=staged.parent)

    # ---- taking away ----

    def acknowledge(self, path: QueuePath, ids: Sequence[int]) -> None:
        if ids:
            files = self._files(path)
            _run("rm", "--", *(files[one] for one in ids), folder=self.folder(*path) / ".messages")

    def acknowledge_parts(self, path: QueuePath) -> None:
        """Everything there is, part by part."""
        folder = self.folder(*path)
        _run("rm", "--", *sorted(os.listdir(folder)), folder=folder)

    def move(self, path: QueuePath, ids: Sequence[int], target: QueuePath) -> None:
        if ids:
            files = self._files(path)
            into: list[str | Path] = ["mv", "-t", self.folder(*target), "--"]
            _run(*into, *(files[one] for one in ids), folder=self.folder(*path) / ".messages")

    # ---- administering ----

    def create(self, address: str, *queues: str) -> None:
        _run("mkdir", "--", self.folder(address), *(self.folder(address, queue) for queue in queues))

    def create_queue(self, path: QueuePath) -> None:
        _run("mkdir", "--", self.folder(*path))

    def delete_queue(self, path: QueuePath) -> None:
        _run("rmdir", "--", self.folder(*path))

    def delete_address(self, address: str) -> None:
        _run("rmdir", "--", self.folder(address))

    def delete_with_all(self, address: str) -> None:
        _run("rm", "-r", "--", self.folder(address))

    def set_attribute(self, address: str, queue: str | None, name: str, value: str) -> None:
        os.setxattr(self.folder(address, queue), f"user.journalfs.{name}", value.encode())


def _run(*command: str | Path, folder: Path | None = None, given: bytes = b"") -> None:
    done = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, timeout=COMMAND_S_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, b""), (command[:6], done.stderr.decode())


@contextmanager
def in_a_shell(root: Path, mountpoint: Path) -> Iterator[ShellStore]:
    """The store of a broker's instance, mounted; nothing is refused, damaged or kept aside meanwhile."""
    with mounted_for_writing(root, mountpoint) as mount:
        yield ShellStore(mount)
        assert [one for one in mount.events() if one["event"] in TROUBLE] == []
        assert os.listdir(mount.path / ".journalfs" / "damaged") == []


def compact(root: Path) -> None:
    done = journalfs("compact", root)
    assert done.returncode == 0, done.stderr
