"""Lines that the front publishes: each is there once it was answered, once, and in its writer's order."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from tests.mounting import EVERY_DISK_IS_QUICK, Commands, MountedStore, journalfs, mounted_for_writing

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

LINE = b"a line of some length\n"
TAKEN = 40


@pytest.fixture
def fast_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On a file system that keeps nothing, and where no flush takes too long for C."""
    monkeypatch.setattr(Commands, "unlimited", EVERY_DISK_IS_QUICK)
    monkeypatch.setattr(Commands, "forked", True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def new_store(folder: Path, journal_type: str = "NIO") -> Path:
    store = folder / "store"
    assert journalfs("create", store).returncode == 0
    (store / "journalfs.toml").write_text(f'journal-type = "{journal_type}"\njournal-file-size = 1048576\n')
    return store


def counts(mounted: MountedStore) -> Mapping[str, int]:
    found: Mapping[str, int] = mounted.control("status.json")["frontRequests"]
    return found


def bodies(queue: Path) -> list[str]:
    parts = sorted(queue.glob("*.jsonl"), key=lambda part: part.name.partition("-")[2])
    content = b"".join(part.read_bytes() for part in parts)
    return [json.loads(line)["body"] for line in content.splitlines()]


@pytest.mark.rule("S-278")
@pytest.mark.parametrize("journal_type", ["NIO", "ASYNCIO", "MAPPED"])
def test_a_line_is_there_when_the_write_returns(fast_folder: Path, tmp_path: Path, journal_type: str) -> None:
    store = new_store(fast_folder, journal_type)
    with mounted_for_writing(store, tmp_path / "mnt", "-o", "front=on") as mounted:
        queue = mounted.path / "orders/orders"
        queue.mkdir(parents=True)
        expected: list[str] = []
        with (queue.parent / "in.txt").open("ab", buffering=0) as file:
            for number in range(60):
                assert file.write(f"{number}\n".encode()) == len(f"{number}\n")
                expected.append(str(number))
                if number % 20 == 7:
                    file.write(b"of two ")
                    file.write(b"writes\nand\nthree\n")
                    expected += ["of two writes", "and", "three"]
                if number % 10 == 9:
                    assert bodies(queue) == expected
            assert os.fstat(file.fileno()).st_size == sum(map(len, expected)) + len(expected)
            while counts(mounted)["write"] < 20:  # on a busy machine flushes take long
                file.write(b"more\n" * 5)
                expected += ["more"] * 5
        assert bodies(queue) == expected
        assert mounted.control("mount.json")["requests"]["write"] >= 66
    with mounted_for_writing(store, tmp_path / "mnt") as mounted:
        assert bodies(mounted.path / "orders/orders") == expected


def test_those_who_wait_hear_of_it(fast_folder: Path, tmp_path: Path) -> None:
    with mounted_for_writing(new_store(fast_folder), tmp_path / "mnt", "-o", "front=on") as mounted:
        queue = mounted.path / "orders/orders"
        queue.mkdir(parents=True)
        with (
            (queue / ".follow").open("rb", buffering=0) as follower,
            (queue.parent / "in.txt").open("ab", buffering=0) as file,
        ):
            for number in range(50):
                file.write(f"{number}\n".encode())
                assert json.loads(follower.readline())["body"] == str(number)


def echo(file: Path, text: str, flags: int = os.O_APPEND) -> None:
    """As a shell does it: what it opened is closed twice."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | flags)
    os.close(os.dup(descriptor))
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


@pytest.mark.rule("S-278")
@pytest.mark.parametrize("chaos", ["0", "5"])
@pytest.mark.parametrize("where", ["orders", "orders/orders"])
def test_files_are_made_and_closed_in_c(
    fast_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, chaos: str
) -> None:
    """And are Python's as soon as anybody asks it of them, or changes what they are in."""
    monkeypatch.setenv("JOURNALFS_FRONT_CHAOS", chaos)
    with mounted_for_writing(new_store(fast_folder), tmp_path / "mnt", "-o", "front=on") as mounted:
        queue, file = mounted.path / "orders/orders", mounted.path / where / "in.txt"
        queue.mkdir(parents=True)
        expected: list[str] = []

        def say(text: str, flags: int = os.O_APPEND) -> None:
            echo(file, text, flags)
            expected.append(text)

        while chaos == "0" and counts(mounted)["create"] < 20:  # on a busy machine flushes take long
            for flags in (os.O_APPEND, os.O_TRUNC, os.O_EXCL) * 4:
                say(f"line {len(expected)}", flags)
            assert len(expected) < 1000
        for turn in range(20):
            say(f"again {turn}")
            assert not file.exists()
            with file.open("ab", buffering=0) as held:
                assert file.exists()  # so Python has it from here on
                assert held.write(f"held {turn}\n".encode())
                expected.append(f"held {turn}")
                assert os.fstat(held.fileno()).st_size == file.stat().st_size == len(f"held {turn}\n")
                say(f"beside {turn}")
                if turn % 4 == 0:
                    held.write(b"of two ")
                    (mounted.path / f"other-{turn}").mkdir()
                    held.write(b"writes\nrest")
                    expected += ["of two writes", "rest"]
                if turn % 4 == 1:
                    file.unlink()
                    held.write(b"nobody's\n")
            if turn % 5 == 0:
                assert bodies(queue) == expected
        assert bodies(queue) == expected
        found = counts(mounted)
        assert found["flags"] == 0
        assert mounted.control("mount.json")["requests"]["create"] >= 40
    with mounted_for_writing(fast_folder / "store", tmp_path / "mnt") as mounted:
        assert bodies(mounted.path / "orders/orders") == expected


def with_rest(file: Path) -> None:
    """Its flush has something to do."""
    file.write_bytes(b"a line\nand a rest")


def after_change(file: Path) -> None:
    other = file.parent.parent / "other"
    other.mkdir()
    echo(file, "a line")
    other.rmdir()


def while_open(file: Path) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    assert file.exists()
    os.close(descriptor)


REASONS: Mapping[str, Callable[[Path], None]] = {
    "flags": lambda file: os.close(os.open(file, os.O_RDWR | os.O_CREAT)),
    "revoked": after_change,
    "unknown": lambda file: echo(file.parent / f"{os.urandom(4).hex()}.txt", "a line"),
    "unpublished": with_rest,
    "unready": with_rest,
    "named": while_open,
}


def test_why_it_was_left_to_python_is_counted_by_name(fast_folder: Path, tmp_path: Path) -> None:
    with mounted_for_writing(new_store(fast_folder), tmp_path / "mnt", "-o", "front=on") as mounted:
        (mounted.path / "orders/orders").mkdir(parents=True)
        file = mounted.path / "orders/in.txt"
        for reason, act in REASONS.items():
            for _ in range(50):  # now and then something is revoked just before
                before = counts(mounted)[reason]
                for _ in range(3):
                    echo(file, "a line")
                act(file)
                if counts(mounted)[reason] > before:
                    break
            else:
                pytest.fail(f"never {reason}: {counts(mounted)}")
        metrics = (mounted.path / ".journalfs/metrics").read_text()
        assert all(f'journalfs_front_total{{of="{reason}"}}' in metrics for reason in REASONS)


class Writers:
    """Threads that write lines in several ways and read them back, and what they were told of."""

    def __init__(self, address: Path, seed: int, writes: int) -> None:
        self._address = address
        self._seed = seed
        self._writes = writes
        self.told: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._one = threading.Lock()

    def run(self, writers: int) -> None:
        threads = [threading.Thread(target=self._guarded, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, writer: int) -> None:
        try:
            self._write(writer)
        except BaseException as error:
            self.wrong.append(f"{writer}: {error!r}")
            raise

    def _write(self, writer: int) -> None:
        chance = Random(f"{self._seed}/{writer}")
        name = self._address / chance.choice(("in.txt", f"{writer}.log"))
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for turn in range(self._writes):
            texts = [
                f"{writer}-{turn}-{n}{'x' * chance.choice((0, 100))}"
                for n in range(chance.choice((1, 1, 1, 4)))
            ]
            content = "".join(text + "\n" for text in texts).encode()
            way = chance.random()
            if way < 0.9:
                assert os.write(file, content) == len(content)
            elif way < 0.95:
                cut = chance.randrange(len(content))
                for piece in (content[:cut], content[cut:]):
                    assert os.write(file, piece) == len(piece)
            else:
                staged = self._address / f".{writer}-{turn}.txt"
                staged.write_bytes(content)
                staged.rename(self._address / f"{writer}-{turn}.txt")
            with self._one:
                self.told.update(texts)
            if chance.random() < 0.05:
                os.close(file)
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            if chance.random() < 0.03:
                found = bodies(self._address / "kept")
                assert set(texts) <= set(found), f"{texts} are not there"
        os.close(file)


def take(queue: Path, taken: list[str]) -> None:
    """By a process of its own: how a thread's reading ended, nobody else can tell."""
    done = subprocess.run(["head", "-n", str(TAKEN), queue / ".take"], check=True, stdout=subprocess.PIPE)
    taken += [json.loads(line)["body"] for line in done.stdout.splitlines()]


def stressed(folder: Path, mountpoint: Path, writers: int, writes: int) -> Mapping[str, int]:
    """Returns what the front counted."""
    store = new_store(folder)
    with mounted_for_writing(store, mountpoint, "-o", "front=on") as mounted:
        address, taken = mounted.path / "orders", list[str]()
        for queue in ("kept", "taken"):
            (address / queue).mkdir(parents=True)
        taker = threading.Thread(target=take, args=(address / "taken", taken))
        taker.start()
        work = Writers(address, writes, writes)
        work.run(writers)
        taker.join()
        assert not work.wrong
        kept = bodies(address / "kept")
        assert Counter(kept) == work.told
        assert Counter(bodies(address / "taken")) + Counter(taken) == work.told
        for writer in range(writers):
            turns = [int(text.split("-")[1]) for text in kept if text.startswith(f"{writer}-")]
            assert turns == sorted(turns)
        found = counts(mounted)
    with mounted_for_writing(store, mountpoint) as mounted:
        assert bodies(mounted.path / "orders/kept") == kept
    return found


@pytest.mark.rule("S-279")
@pytest.mark.parametrize("chaos", ["0", "5"])
def test_writers_readers_takers_and_renames_at_once(
    fast_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chaos: str
) -> None:
    """Also where Python has to take the end of the journal back before every fifth write."""
    monkeypatch.setenv("JOURNALFS_FRONT_CHAOS", chaos)
    found = stressed(fast_folder, tmp_path / "mnt", 16, 25)
    assert found["write"] > found["flushes"] > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chaos", ["0", "3", "40"])
def test_many_writers_for_long(
    fast_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chaos: str
) -> None:
    monkeypatch.setenv("JOURNALFS_FRONT_CHAOS", chaos)
    stressed(fast_folder, tmp_path / "mnt", 64, 300)
