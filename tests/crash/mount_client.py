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

    def __init__(self, mounted: Path, history: History, seed: int, lengths: Sequence[int] = (0,)) -> None:
        """Texts are lengthened by one of `lengths`."""
        self._lengths = lengths
        self._mounted = mounted
        self._history = history
        self._seed = seed
        self._one = threading.Lock()
        self._numbers = count(1)
        self._ended = threading.Event()

    def work(self) -> None:
        """Return when the mount is gone."""
        threads = [threading.Thread(target=self._thread, args=(task,)) for task in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _thread(self, task: int) -> None:
        chance = Random(f"{self._seed}/{task}")
        mine: dict[Place, str] = {}
        for turn in count():
            name = f"{self._seed}-{task}-{turn}"
            try:
                if len(mine) < 4 or (chance.random() < 0.5 and len(mine) < SHARE_MAX):
                    self._publish(chance, name)
                    self._learn(mine, name)
                elif chance.random() < 0.7:
                    self._remove(chance, mine)
                else:
                    self._move(chance, mine)
            except OSError:
                # The mount is gone, or half gone: what was under way is not known to be done.
                return

    def _publish(self, chance: Random, name: str) -> None:
        more = "x" * chance.choice(self._lengths)
        texts = [f"{name}-{n}{more}" for n in range(chance.choice((1, 1, 3, 30)))]
        queue = chance.choice((None, *QUEUES))
        folder = self._mounted / "work" / (queue or "")
        places = frozenset((one, text) for one in (QUEUES if queue is None else (queue,)) for text in texts)
        content = "".join(text + "\n" for text in texts).encode()
        change = self._begin(places, frozenset())
        if chance.random() < 0.3:
            staged = folder / f".{name}.txt"
            staged.write_bytes(content)
            staged.rename(folder / f"{name}.txt")
        else:
            descriptor = os.open(folder / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                assert os.write(descriptor, content) == len(content)
            finally:
                os.close(descriptor)
        self._end(change)

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
            self._history.take(change.line("done"))
