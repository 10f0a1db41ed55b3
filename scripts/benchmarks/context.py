"""What the measurements share: where to work, the stores they read, mounts and helper programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scripts.benchmarks.measure import Case, Result, take
from tests.tools.make_store import StoreSpec, make_store

C_SOURCES = Path(__file__).parent / "c"
MOUNT_S_MAX = 300.0

SPECS = {
    "million": StoreSpec(messages=1_000_000, body_chars=100),
    "hundred": StoreSpec(messages=100_000, body_chars=100),
    "bulk": StoreSpec(messages=260_000, body_chars=1200),
    "gib": StoreSpec(messages=400_000, body_chars=1200),
    "third": StoreSpec(messages=87_000, body_chars=1200),
    "adversary": StoreSpec(messages=100_000, body_chars=100, addresses=100_000, bombs=2),
    "few": StoreSpec(messages=10_000, body_chars=200, addresses=20),
}
"""By name. `bulk` is 700 MB of journal and `gib` 1 GiB; `million` has bodies of about 200 bytes as the store
encodes them.
"""

SMALL_DIVISOR = 100


@dataclass(frozen=True, slots=True)
class Mounted:
    path: Path
    pid: int
    mount_s: float


class Context:
    """One run of the measurements. `work` is a directory of its own on the disk to be measured."""

    def __init__(
        self, work: Path, *, runs: int, small: bool, messages_paged: int = 0, broker_messages: int = 0
    ) -> None:
        self.work = work
        self.runs = runs
        self.small = small
        self.messages_paged = messages_paged
        """How many messages go through pages, and how many through those of a broker; 0: none."""
        self.broker_messages = broker_messages
        self.results: list[Result] = []
        # Compiled modules are kept, as those of an installed package are.
        self.environment = {name: value for name, value in os.environ.items() if "BYTECODE" not in name}
        self.environment |= {
            "XDG_CACHE_HOME": str(work / "cache"),
            "PYTHONPYCACHEPREFIX": str(work / "compiled"),
            "LC_ALL": "C.UTF-8",
        }
        self.journalfs = str(Path(sys.executable).parent / "journalfs")
        self.commit = _commit()
        self._programs: dict[str, Path] = {}
        (work / "mnt").mkdir(exist_ok=True)

    def take(self, case: Case) -> None:
        """Take a measurement, keep it and show it."""
        self.keep(take(case, self.runs, self.commit))

    def keep(self, result: Result) -> None:
        self.results.append(result)
        shown = ", ".join(
            f"{name} {sample.median:.4g} ({sample.minimum:.4g}-{sample.maximum:.4g})"
            for name, sample in result.sides.items()
        )
        ratio = f", ratio {result.ratio.median:.2f}" if result.ratio else ""
        verdict = {None: "", True: "  [goal met]", False: "  [goal MISSED]"}[result.met]
        print(f"{result.identifier}: {shown} {result.unit}{ratio}{verdict}", flush=True)

    def messages(self, name: str) -> int:
        """How many live messages the store of that name has."""
        count = SPECS[name].messages
        return count // SMALL_DIVISOR if self.small else count

    def data(self, name: str) -> Path:
        """The data directory of the store of that name, made at its first use."""
        spec, messages = SPECS[name], self.messages(name)
        spec = replace(spec, messages=messages, addresses=min(spec.addresses, messages))
        root = self.work / "stores" / name
        stamp = root / "spec.json"
        wanted = json.dumps(asdict(spec))
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(root, ignore_errors=True)
            print(f"making store {name}: {spec.messages} messages", flush=True)
            make_store(root, spec)
            stamp.write_text(wanted)
        return root / "data"

    def remake(self, name: str) -> None:
        """Make a store anew that somebody writes to."""
        shutil.rmtree(self.work / "stores" / name, ignore_errors=True)
        self.data(name)

    def forget_index(self, name: str) -> None:
        """Remove what journalfs derived from a store."""
        shutil.rmtree(self.data(name) / "journalfs", ignore_errors=True)
        shutil.rmtree(self.work / "cache", ignore_errors=True)

    @contextmanager
    def mounted(self, name: str, *options: str, writing: bool = False) -> Iterator[Mounted]:
        """Mount the store of that name, read-only unless told."""
        access = [] if writing else ["--read-only"]
        with self.mounted_at(self.data(name), *access, *options) as mounted:
            yield mounted

    @contextmanager
    def mounted_at(self, store: Path, *options: str) -> Iterator[Mounted]:
        """Mount a store; the time is that of the command, which returns once it serves."""
        mountpoint = self.work / "mnt"
        command = [self.journalfs, "mount", *options, str(store), str(mountpoint)]
        start = time.perf_counter()
        subprocess.run(command, env=self.environment, check=True, timeout=MOUNT_S_MAX)
        mount_s = time.perf_counter() - start
        try:
            yield Mounted(mountpoint, _daemon(mountpoint), mount_s)
        finally:
            self.unmount(mountpoint)

    def unmount(self, mountpoint: Path) -> None:
        """Unmount, and wait until the process that served it is gone."""
        pid = _daemon(mountpoint)
        subprocess.run(["fusermount3", "-u", str(mountpoint)], check=True)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), 30.0, "the mount's process to end")

    def program(self, name: str, *libraries: str) -> Path:
        """Compile one of the C programs beside this file."""
        if name not in self._programs:
            flags: list[str] = []
            if libraries:
                asked = ["pkg-config", "--cflags", "--libs", *libraries]
                flags = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
            target = self.work / name
            subprocess.run(["cc", "-O2", "-o", str(target), str(C_SOURCES / f"{name}.c"), *flags], check=True)
            self._programs[name] = target
        return self._programs[name]

    def probe(self, *arguments: str, cpus: Sequence[int] = ()) -> str:
        """Run one of the probes in a fresh interpreter and return what it printed."""
        command = [sys.executable, "-m", "scripts.benchmarks.probe", *arguments]
        if cpus:
            command = ["taskset", "-c", ",".join(map(str, cpus)), *command]
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout


def wait_until(done: Callable[[], bool], deadline_s: float, what: str) -> None:
    end = time.monotonic() + deadline_s
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {deadline_s} s in vain for {what}")
        time.sleep(0.002)


def _daemon(mountpoint: Path) -> int:
    """The process that serves a mountpoint: the one whose command line names it."""
    wanted = str(mountpoint).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if wanted in arguments:
            return int(entry.name)
    raise RuntimeError("no process serves the mountpoint")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
