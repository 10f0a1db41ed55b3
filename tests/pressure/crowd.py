"""Publishers, takers, movers and undoers on one mount, which is killed again and again; a ledger beside it.

`python -m tests.pressure.crowd STORE MOUNTPOINT SECONDS SEED [BACKEND [LIFE]]` makes a store, prints a line a
kill, which comes LIFE seconds after the mount at the latest, and ends with 1 at the first difference: a
message that was lost, is there twice, came from nowhere, or overtook another. Between two lives of the mount
the other reader tells what is there.

All that was answered counts in the ledger by a sum of each text: +1 when published or brought back, -1 when
taken or removed. What got an error is in doubt until the next look. The sums do not depend on the order in
which threads come to note what they were told.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from journalfs.clock import SystemClock
from journalfs.store.creating import create_store
from journalfs.store.write.opening import open_for_writing
from journalfs_mount.process.mount_table import mounted_at
from tests.crash.plug import texts_in

PUBLISHERS, TAKERS, MOVERS, UNDOERS = 8, 8, 4, 2
SHARED: Final = ("work/work.a", "work/work.b")
ORDERED: Final = "ordered/ordered"
"""Nobody moves or removes anything here, and one taker takes."""
LIFE_S: Final = 8.0
DEPTH: Final = 400
"""So many messages a queue, and publishers wait."""
MOUNTS_S_MAX: Final = 120
HANGS_S: Final = 180


@dataclass
class Ledger:
    """What was answered of each text."""

    sums: Counter[str] = field(default_factory=Counter)
    doubts: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _last: dict[str, int] = field(default_factory=dict)

    def done(self, what: str, texts: list[str], change: int) -> None:
        with self._mutex:
            self.counts[what] += len(texts)
            for text in texts:
                self.sums[text] += change

    def doubt(self, texts: list[str], change: int) -> None:
        with self._mutex:
            self.counts["in doubt"] += len(texts)
            for text in texts:
                self.doubts[text].append(change)

    def in_order(self, text: str) -> None:
        """It was acknowledged where nobody but publishers and one taker work."""
        publisher, _, number = text.partition(" ")
        before = self._last.get(publisher, -1)
        if int(number) <= before:
            self.wrong.append(f"{text} was taken behind {before}")
        self._last[publisher] = int(number)

    def look(self, found: Counter[str]) -> None:
        """Compare with what is there, and go on from it."""
        for text in self.sums.keys() | self.doubts.keys() | found.keys():
            sums = {self.sums[text]}
            for change in self.doubts.get(text, ()):
                sums |= {one + change for one in sums}
            if found[text] not in sums or found[text] > 1:
                self.wrong.append(f"{text} is there {found[text]} times, answered was {sorted(sums)}")
        self.sums = Counter(dict.fromkeys(found, 1))
        self.doubts.clear()


class Gate:
    """Anybody's while the mount is there; closed while it is looked at."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._open = False
        self.over = False

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: self._open or self.over)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    def open(self) -> None:
        with self._condition:
            self._open = True
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._open = False

    def empty(self) -> None:
        """Return when all that was under way was answered."""
        with self._condition:
            if not self._condition.wait_for(lambda: not self._inside, HANGS_S):
                raise TimeoutError(f"{self._inside} requests were not answered within {HANGS_S} s")

    def end(self) -> None:
        with self._condition:
            self.over = True
            self._condition.notify_all()


class Crowd:
    def __init__(self, place: Path, seed: int, first: int = 0) -> None:
        self.place, self.seed = place, seed
        self.ledger, self.gate = Ledger(), Gate()
        self._numbers = itertools.count(first)
        self._lives = 0

    def threads(self) -> list[threading.Thread]:
        roles: list[tuple[Callable[[random.Random, int], None], int]] = [
            (self.publish, PUBLISHERS),
            (self.take, TAKERS),
            (self.move, MOVERS),
            (self.undo, UNDOERS),
        ]
        return [
            threading.Thread(target=self._work, args=(role, number), daemon=True)
            for role, count in roles
            for number in range(count)
        ]

    def _work(self, role: Callable[[random.Random, int], None], number: int) -> None:
        chance = random.Random(f"{self.seed}/{role.__name__}/{number}")
        while not self.gate.over:
            with self.gate.inside():
                if self.gate.over:
                    return
                try:
                    role(chance, number)
                except OSError:
                    self.ledger.counts["refused"] += 1

    # ---- roles: one act, within the gate ----

    def publish(self, chance: random.Random, number: int) -> None:
        queue = ORDERED if number < 2 else chance.choice(SHARED)
        if json.loads((self.place / queue / ".status").read_bytes())["messageCount"] > DEPTH:
            select.select([], [], [], 0.05)
            return
        texts = [f"p{number} {next(self._numbers)}" for _ in range(chance.choice((1, 1, 1, 5, 40)))]
        self.ledger.doubt(texts, +1)
        try:
            with (self.place / queue / f"in-{number}.txt").open("w") as file:
                file.write("".join(f"{text}\n" for text in texts))
        except OSError:
            return
        self._certain("published", texts, +1)

    def take(self, chance: random.Random, number: int) -> None:
        queue = ORDERED if number == 0 else SHARED[number % 2]
        taker = os.open(self.place / queue / ".take", os.O_RDWR | os.O_NONBLOCK)
        try:
            for _ in range(chance.randrange(1, 50)):
                line = os.read(taker, 1 << 16)
                text = json.loads(line)["body"]
                if chance.random() < 0.05:
                    return  # it goes back
                self.ledger.doubt([text], -1)
                os.write(taker, b"ack\n")
                self._certain("taken", [text], -1)
                if queue == ORDERED:
                    self.ledger.in_order(text)
        finally:
            os.close(taker)

    def move(self, chance: random.Random, number: int) -> None:
        source, target = chance.sample(SHARED, 2)
        names = os.listdir(self.place / source / ".messages")
        if not names:
            return
        name = chance.choice(names)
        os.rename(self.place / source / ".messages" / name, self.place / target / name)
        self.ledger.counts["moved"] += 1

    def undo(self, chance: random.Random, number: int) -> None:
        queue = chance.choice(SHARED)
        names = os.listdir(self.place / queue / ".messages")
        if not names:
            return
        name = chance.choice(names)
        path = self.place / queue / ".messages" / name
        text = path.read_text().rstrip("\n")
        self.ledger.doubt([text], -1)
        try:
            path.unlink()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EBUSY):  # another one has it, or had it
                self._never([text], -1)
            return
        self._certain("removed", [text], -1)
        self.ledger.doubt([text], +1)
        back = self.place / ".journalfs/removed" / queue / ".messages" / name
        os.rename(back, self.place / queue / name)
        self._certain("brought back", [text], +1)

    def _certain(self, what: str, texts: list[str], change: int) -> None:
        self._never(texts, change)
        self.ledger.done(what, texts, change)

    def _never(self, texts: list[str], change: int) -> None:
        """They are in doubt no more."""
        for text in texts:
            doubts = self.ledger.doubts[text]
            doubts.remove(change)

    # ---- lives of the mount ----

    def live(self, store: Path, seconds: float) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "journalfs", "mount", "-f", str(store), str(self.place)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + MOUNTS_S_MAX
        while mounted_at(self.place) is None:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"no mount: {process.poll()}")
            select.select([], [], [], 0.02)
        self.gate.open()
        select.select([], [], [], seconds)
        process.send_signal(signal.SIGKILL)
        self.gate.close()
        process.wait()
        self.gate.empty()
        subprocess.run(["umount", "--lazy", "--no-canonicalize", str(self.place)], check=True)

    def run(self, store: Path, seconds: float, life_s: float) -> int:
        chance, until = random.Random(self.seed), time.monotonic() + seconds
        for thread in self.threads():
            thread.start()
        try:
            while time.monotonic() < until and not self.ledger.wrong:
                self.live(store, chance.uniform(1, life_s))
                there = Counter(text for texts in texts_in(store).values() for text in texts)
                self.ledger.look(there)
                self._lives += 1
                self.tell(len(there))
        finally:
            self.gate.end()
        return len(self.ledger.wrong)

    def tell(self, there: int) -> None:
        line: dict[str, Any] = {"seed": self.seed, "kills": self._lives, "there": there}
        line |= {"counts": self.ledger.counts, "wrong": self.ledger.wrong[:10]}
        print(json.dumps(line), flush=True)


def prepare(store: Path, backend: str) -> None:
    """A store with queues, and with small files, so that compaction has work."""
    settings: dict[str, str | int] = {
        "journal-type": backend,
        "journal-file-size": 262144,
        "journal-compact-min-files": 4,
    }
    create_store(store, settings, SystemClock(), warn=print)

    async def make() -> None:
        opened = open_for_writing(store)
        for queue in (*SHARED, ORDERED):
            address, name = queue.split("/")
            if opened.address(address) is None:
                await opened.create_address(address)
            await opened.create_queue(address, name)
        opened.close()

    trio.run(make)


def main() -> None:
    store, place, seconds, seed = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    prepare(store, sys.argv[5] if sys.argv[5:] else "NIO")
    place.mkdir(exist_ok=True)
    life_s = float(sys.argv[6]) if sys.argv[6:] else LIFE_S
    sys.exit(1 if Crowd(place, seed).run(store, seconds, life_s) else 0)


if __name__ == "__main__":
    main()
