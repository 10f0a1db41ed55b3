"""Works on a mount of a store in a database: as `MountClient` does, and by `.take` and in transactions."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path
from random import Random

from tests.crash.history import Change, Place
from tests.crash.mount_client import QUEUES, THREADS, MountClient

ADDRESS = "work"
SENT = 3
"""Messages of a transaction, beside the one that it may move."""


def make_queues(mount: Path) -> None:
    for place in (*(f"{ADDRESS}/{queue}" for queue in QUEUES), *map(taken_by, range(THREADS))):
        (mount / place).mkdir(parents=True, exist_ok=True)


def taken_by(task: int) -> str:
    """The queue that one thread alone takes from: its message was said to be there."""
    return f"taken{task}/taken{task}"


def end_transactions(mount: Path) -> None:
    """Those that nobody will end."""
    root = mount / ".journalfs/transactions"
    for left in os.listdir(root):
        (root / left).rmdir()


class TablesClient(MountClient):
    def _act(self, chance: Random, mine: dict[Place, str], name: str) -> None:
        kind = chance.random()
        if kind < 0.2:
            self._take(name)
        elif kind < 0.4:
            self._transaction(chance, mine, name)
        else:
            super()._act(chance, mine, name)

    def _take(self, name: str) -> None:
        """Two of them: the first is taken when the second is read, and the second a while after the close."""
        folder = self._mounted / taken_by(int(name.split("-")[1]))
        texts = [f"{name}-{number}" for number in range(2)]
        sent = self._begin(frozenset((folder.name, text) for text in texts), frozenset())
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
        self._end(sent)
        with (folder / ".take").open("rb", buffering=0) as reader:
            first = self._taken(folder, reader)
            self._taken(folder, reader)
            self._end(first)

    def _taken(self, folder: Path, reader: FileIO) -> Change:
        # What was left by an earlier thread of the number may come first.
        text = json.loads(reader.read(1 << 16))["body"]
        return self._begin(frozenset(), frozenset({(folder.name, text)}))

    def _transaction(self, chance: Random, mine: dict[Place, str], name: str) -> None:
        root, (source, target) = self._mounted / ".journalfs/transactions", QUEUES
        adds = {(target, f"{name}-t{number}") for number in range(SENT)}
        removes: set[Place] = set()
        for place in mine:
            if place[0] == source and self._is_nowhere(target, place[1]):
                removes, adds = {place}, adds | {(target, place[1])}
                break
        rolls_back = chance.random() < 0.25
        change = self._begin(frozenset(() if rolls_back else adds), frozenset(() if rolls_back else removes))
        transaction = root / name
        transaction.mkdir()
        inside = transaction / ADDRESS / target
        for number in range(SENT):
            (inside / f"{number}.txt").write_text(f"{name}-t{number}\n")
        for place in removes:
            file = mine.pop(place)
            (self._mounted / ADDRESS / source / ".messages" / file).rename(inside / file)
        if rolls_back:
            transaction.rmdir()
        else:
            transaction.rename(root / "committed" / name)
        self._end(change)

    def _is_nowhere(self, queue: str, text: str) -> bool:
        with self._one:
            return (queue, text) not in self._history.there
