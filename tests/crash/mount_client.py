"""Works on a mount as shell tools do, from several threads, until the mount is gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random

from tests.crash.history import Change, History, Place

THREADS = 6
SHARE_MAX = 60
QUEUES = ("work.a", "work.b")


class MountClient:
    """Keeps the history of what it was told."""

    def __init__(
        self,
        mounted: Path,
        history: History,
        seed: int,
        lengths: Sequence[int] = (0,),
        writers: int = 0,
    ) -> None:
        """Texts are lengthened by one of `lengths`; so many threads go on writing to a file each, only."""
        self._lengths = lengths
        self._writers = writers
        self._mounted = mounted
        self._history = history
        self._seed = seed
        self._one = threading.Lock()
        self._numbers = count(1)
        self._listens = True
        self._ended = threading.Event()

    def end(self) -> None:
        """Have `work` return when what is under way is done."""
        self._ended.set()

    def work(self) -> None:
        """Return when the mount is gone, or does nothing any more."""
        tasks = [self._write_on if task < self._writers else self._thread for task in range(THREADS)]
        threads = [threading.Thread(target=task, args=(number,)) for number, task in enumerate(tasks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def listen_no_more(self) -> None:
        """What is told from here on, while a disk stops, counts as not told."""
        with self._one:
            self._listens = False

    def _write_on(self, task: int) -> None:
        chance = Random(f"{self._seed}/{task}")
        for turn in count():
            try:
                self._append(chance, f"{self._seed}-{task}-{turn}", writes=chance.choice((1, 10, 1000)))
            except OSError:
                return

    def _thread(self, task: int) -> None:
        chance = Random(f"{self._seed}/{task}")
        mine: dict[Place, str] = {}
        for turn in count():
            try:
                self._act(chance, mine, f"{self._seed}-{task}-{turn}")
            except OSError:
                # The mount is gone, or half gone: what was under way is not known to be done.
                return
            if self._ended.is_set():
                return

    def _act(self, chance: Random, mine: dict[Place, str], name: str) -> None:
        if len(mine) < 4 or (chance.random() < 0.5 and len(mine) < SHARE_MAX):
            self._publish(chance, name)
            self._learn(mine, name)
        elif chance.random() < 0.7:
            self._remove(chance, mine)
        else:
            self._move(chance, mine)

    def _publish(self, chance: Random, name: str) -> None:
        if chance.random() < 0.3:
            self._stage(chance, name)
        else:
            self._append(chance, name, writes=1)

    def _stage(self, chance: Random, name: str) -> None:
        queue = chance.choice((None, *QUEUES))
        folder = self._mounted / "work" / (queue or "")
        change, content = self._begin_texts(chance, queue, name)
        staged = folder / f".{name}.txt"
        staged.write_bytes(content)
        staged.rename(folder / f"{name}.txt")
        self._end(change)

    def _append(self, chance: Random, name: str, writes: int) -> None:
        queue = chance.choice((None, *QUEUES))
        path = self._mounted / "work" / (queue or "") / f"{name}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for write in range(writes):
                change, content = self._begin_texts(chance, queue, f"{name}-{write}")
                assert os.write(descriptor, content) == len(content)
                self._end(change)
        finally:
            os.close(descriptor)

    def _begin_texts(self, chance: Random, queue: str | None, name: str) -> tuple[Change, bytes]:
        more = "x" * chance.choice(self._lengths)
        texts = [f"{name}-{n}{more}" for n in range(chance.choice((1, 1, 3, 30)))]
        places = frozenset((one, text) for one in (QUEUES if queue is None else (queue,)) for text in texts)
        return self._begin(places, frozenset()), "".join(text + "\n" for text in texts).encode()

    def _learn(self, mine: dict[Place, str], name: str) -> None:
        """File names of the messages that were just published."""
        for queue in QUEUES:
            folder = self._mounted / "work" / queue / ".messages"
            # The newest are the last, and others publish meanwhile.
            for file in os.listdir(folder)[-60:]:
                try:
                    text = (folder / file).read_text()
                except FileNotFoundError:
                    continue
                if text.startswith(f"{name}-"):
                    mine[queue, text] = file

    def _remove(self, chance: Random, mine: dict[Place, str]) -> None:
        place = chance.choice(sorted(mine))
        change = self._begin(frozenset(), frozenset({place}))
        (self._mounted / "work" / place[0] / ".messages" / mine.pop(place)).unlink()
        self._end(change)

    def _move(self, chance: Random, mine: dict[Place, str]) -> None:
        place = chance.choice(sorted(mine))
        target = QUEUES[1 - QUEUES.index(place[0])]
        with self._one:
            if (target, place[1]) in self._history.there:
                return
        change = self._begin(frozenset({(target, place[1])}), frozenset({place}))
        file = mine.pop(place)
        folder = self._mounted / "work"
        (folder / place[0] / ".messages" / file).rename(folder / target / ".messages" / file)
        self._end(change)
        mine[target, place[1]] = file

    def _begin(self, adds: frozenset[Place], removes: frozenset[Place]) -> Change:
        with self._one:
            change = Change(next(self._numbers), adds, removes)
            self._history.take(change.line("begun"))
        return change

    def _end(self, change: Change) -> None:
        with self._one:
            if self._listens:
                self._history.take(change.line("done"))
