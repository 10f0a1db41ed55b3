"""Mounts for tests: each is a process of its own, as in real life, so that it can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something a process does in its own time."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.005)


@dataclass
class MountedFake:
    """A fake store, mounted by a process that obeys."""

    process: subprocess.Popen[bytes]
    path: Path

    def tell(self, *command: object) -> object:
        """Send a command and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> object:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the mount ended: {self.process.wait(DEADLINE_S)}"
        return json.loads(line)

    def report(self) -> dict[str, object]:
        """What the mount says about itself."""
        return dict(json.loads((self.path / ".journalfs" / "mount.json").read_bytes()))

    def requests(self) -> dict[str, int]:
        counted = self.report()["requests"]
        assert isinstance(counted, dict)
        return counted

    def is_mounted(self) -> bool:
        return mounted_at(self.path) is not None


MountFake = Callable[..., MountedFake]


def started_after(change: str, place: Path, options: str = "") -> MountedFake:
    """A process that changes something of Python's, and then mounts the small scenario. `end` it."""
    program = (
        f"import sys; {change}; sys.argv[0] = 'serve_fake'; from tests.mount.serve_fake import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "small", str(place), "-o", options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    return MountedFake(process, place)


def end(mounted: MountedFake) -> str:
    """What it said on stderr."""
    mounted.process.terminate()
    _, errors = mounted.process.communicate(timeout=DEADLINE_S)
    return errors.decode()


@pytest.fixture
def mount_fake(tmp_path: Path) -> Iterator[MountFake]:
    """Mount a scenario of `serve_fake`; `options` is an `-o` list. Unmounted after the test in any case."""
    started: list[MountedFake] = []

    def mount(scenario: str = "small", options: str = "", path: Path | None = None) -> MountedFake:
        place = path or tmp_path / f"mnt{len(started)}"
        if mounted_at(place) is None:
            place.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.mount.serve_fake", scenario, str(place), "-o", options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        mounted = MountedFake(process, place)
        started.append(mounted)
        assert mounted.answer() == "ready"
        return mounted

    yield mount
    for mounted in started:
        if mounted.process.poll() is None:
            mounted.process.terminate()
        try:
            mounted.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            mounted.process.kill()
        if mounted.is_mounted():
            subprocess.run(["umount", "--lazy", str(mounted.path)], check=True)
        for pipe in (mounted.process.stdin, mounted.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(autouse=True)
def _needs_fuse(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("mount") and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be used")
