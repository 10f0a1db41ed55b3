"""SIGKILL before each change that backup, restore, prune and redrive make to a file: what they did is done,
or is taken up again, and nothing is lost or there twice.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from journalfs.backup import Backups
from tests.frozen import PristineStores
from tests.kinds import first_is_quick
from tests.mounting import JOURNALFS, journalfs, mounted_for_writing
from tests.writing.conftest import new_store

HERE = Path(__file__).parent
KEPT = (
    'journal-file-size = 65536\njournal-retention-directory = "history"\n'
    "journal-retention-max-bytes = 100000000\n"
)
WITH_SMALL_WINDOWS = (
    "from journalfs.store import replaying; replaying.WINDOW_BYTES = 1; "
    "from journalfs.cli.main import main; main()"
)
KILLS_LONG = 40
"""At most, spread over the changes that a command makes."""


@pytest.fixture(scope="session")
def killing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("killing") / "killing.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "killing.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


def run(*words: str | Path) -> str:
    done = journalfs(*words)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


class Scene:
    """A directory before a command, which is put back for each kill."""

    words: list[str | Path]
    program: ClassVar[list[str | Path]] = [JOURNALFS]

    def __init__(self, path: Path, source: Path) -> None:
        self.path, self.source = path, source
        self.dest = path / "backups"

    def look(self) -> None:
        """Right after a kill."""

    def finish(self) -> None:
        """Give the command once more."""
        run(*self.words)

    def again(self) -> None:
        """After the command was given once more, to its end."""


class Backup(Scene):
    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(path, source)
        shutil.copytree(source, path / "store")
        run("backup", path / "store", self.dest)
        (path / "store/data/large-messages").mkdir(exist_ok=True)
        (path / "store/data/large-messages/1.msg").write_bytes(os.urandom(3 << 20))
        self.words = ["backup", path / "store", self.dest]

    def look(self) -> None:
        run("backup", "verify", "--all", self.dest)

    def again(self) -> None:
        self.look()
        run("restore", self.dest, self.path / "new")
        assert journalfs("diff", self.path / "new", self.source).returncode == 0


class Restore(Scene):
    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(path, source)
        run("backup", source, self.dest)
        self.words = ["restore", self.dest, path / "new"]

    def finish(self) -> None:
        if not (self.path / "new").exists():
            super().finish()

    def look(self) -> None:
        """It is whole, or not there."""
        if (self.path / "new").exists():
            self.again()
            shutil.rmtree(self.path / "new")

    def again(self) -> None:
        assert journalfs("diff", self.path / "new", self.source).returncode == 0
        assert not [one for one in os.listdir(self.path) if one.endswith(".unfinished")]


class Prune(Scene):
    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(path, source)
        for number in range(3):
            shutil.rmtree(path / "store", ignore_errors=True)
            shutil.copytree(source, path / "store")
            (path / "store/data/large-messages").mkdir(exist_ok=True)
            (path / f"store/data/large-messages/{number}.msg").write_bytes(os.urandom(1 << 20))
            run("backup", path / "store", self.dest)
        shutil.rmtree(path / "store")
        self.words = ["backup", "prune", "--keep", "1", self.dest]

    def look(self) -> None:
        run("backup", "verify", "--all", self.dest)

    def again(self) -> None:
        self.look()
        backups = Backups.at(str(self.dest))
        (name,) = backups.names()
        pieces = {one.name for one in (self.dest / "objects").rglob("*") if one.is_file()}
        assert pieces == backups.manifest(name).hashes()


class Redrive(Scene):
    LETTERS = 900

    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(path, source)
        store = new_store(path / "store")
        with mounted_for_writing(store, path / "mnt") as mount:
            for name in ("a/q", "a/r", "DLQ/DLQ"):
                (mount.path / name).mkdir(parents=True, exist_ok=True)
            lines = (
                {
                    "body": str(number),
                    "properties": {"_AMQ_ORIG_ADDRESS": "a", "_AMQ_ORIG_QUEUE": "qr"[number % 2]},
                }
                for number in range(self.LETTERS)
            )
            (mount.path / "DLQ/DLQ/in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        self.words = ["dlq", "redrive", store, "DLQ::DLQ"]

    def _bodies(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"q": [], "r": [], "DLQ": []}
        for line in run("cat", self.path / "store", "--no-index").splitlines():
            message = json.loads(line)
            found[message["queue"]].append(int(message["body"]))
        return found

    def look(self) -> None:
        every = Counter(body for bodies in self._bodies().values() for body in bodies)
        assert every == Counter(range(self.LETTERS))

    def again(self) -> None:
        found = {queue: sorted(bodies) for queue, bodies in self._bodies().items()}
        evens, odds = [*range(0, self.LETTERS, 2)], [*range(1, self.LETTERS, 2)]
        assert found == {"q": evens, "r": odds, "DLQ": []}


class Replay(Scene):
    """Each file of the history is a window, and so a transaction; to who goes on they are all one."""

    program: ClassVar[list[str | Path]] = [sys.executable, "-c", WITH_SMALL_WINDOWS]
    MESSAGES = 900

    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(path, source)
        store = new_store(path / "store")
        (store / "journalfs.toml").write_text(KEPT)
        with mounted_for_writing(store, path / "mnt") as mount:
            for name in ("a/q", "a/again"):
                (mount.path / name).mkdir(parents=True)
            for first in range(0, self.MESSAGES, 100):
                lines = (f"{number} {'x' * 2000}\n" for number in range(first, first + 100))
                (mount.path / "a/q/in.txt").write_text("".join(lines))
        self.words = ["replay", store, "a::q", "--to-queue", "a::again"]

    def finish(self) -> None:
        done = journalfs(*self.words)
        assert done.returncode == 0 or "this was replayed already, 900 messages" in done.stderr

    def _numbers(self) -> list[int]:
        lines = run("cat", self.path / "store", "--no-index").splitlines()
        found = [one for one in map(json.loads, lines) if one["queue"] == "again"]
        return [int(one["body"].split()[0]) for one in found]

    def look(self) -> None:
        found = self._numbers()
        assert found == [*range(len(found))]

    def again(self) -> None:
        assert self._numbers() == [*range(self.MESSAGES)]


def changes_of(scene: Scene, killing: Path, before: int | None, told: Path) -> int | None:
    """How many a whole run made; None: killed."""
    environment = {**os.environ, "LD_PRELOAD": str(killing), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["KILL_COUNT"] = str(told)
    if before is not None:
        environment["KILL_BEFORE"] = str(before)
    done = subprocess.run([*scene.program, *scene.words], env=environment, capture_output=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return int(told.read_text())


@pytest.mark.mount
@pytest.mark.rule("S-253", "S-270")
@pytest.mark.parametrize("kills", [1, pytest.param(KILLS_LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "made",
    [Backup, *first_is_quick(Redrive, Restore, Prune, Replay)],
)
def test_a_kill_before_any_change_loses_and_doubles_nothing(
    made: Callable[[Path, Path], Scene], kills: int, killing: Path, stores: PristineStores, tmp_path: Path
) -> None:
    scene = made(tmp_path / "scene", stores["aio"])
    shutil.copytree(scene.path, tmp_path / "before", symlinks=True)
    whole = changes_of(scene, killing, None, tmp_path / "told")
    scene.again()
    assert whole is not None
    assert whole > 2
    for point in sorted({1 + whole * (2 * number + 1) // (2 * kills) for number in range(kills)}):
        shutil.rmtree(scene.path)
        shutil.copytree(tmp_path / "before", scene.path, symlinks=True)
        assert changes_of(scene, killing, point, tmp_path / "told") is None, (point, whole)
        scene.look()
        scene.finish()
        scene.again()
