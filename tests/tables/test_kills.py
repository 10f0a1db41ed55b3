"""SIGKILL of the mount, and of the server, while others publish, take, move and use transactions: what they
were told stays true, and the mount goes on when the server is back.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.broker.polling import eventually
from tests.crash.history import History
from tests.crash.mount_client import THREADS
from tests.crash.plug import LONGEST_S, killed_mount, text_of
from tests.mounting import MountedStore, mounted_for_writing
from tests.tables.instances import instance_at
from tests.tables.load import TablesClient, end_transactions, make_queues
from tests.tables.servers import Server
from tests.tables.test_writing import shown

pytestmark = [pytest.mark.mount, pytest.mark.rule("S-222", "S-247")]

KILLS_QUICK, KILLS_OF_A_PIECE, PIECES = 1, 25, 8
"""The long suite does 200 in pieces, each on a database of its own: `-k piece3` does one."""

NETWORK_TIMEOUT_MS = 1_000
AWAY_S_MAX = 2.5
HEALED_S_MAX = 60
PAUSE = threading.Event()
SERVERS = {"postgresql": "postgres", "mysql": "maria"}


def pieces(*kinds: str) -> list[object]:
    return [
        pytest.param(
            kind,
            piece,
            id=f"{kind}-piece{piece}",
            marks=[pytest.mark.timeout(3600), *([pytest.mark.long] if piece or kind != kinds[0] else [])],
        )
        for kind in kinds
        for piece in range(PIECES + 1)
    ]


def new_instance(place: Path, url: str, **settings: int) -> Path:
    folder = place / "instance"
    folder.mkdir()
    return instance_at(folder, url, **settings)


def texts(url: str) -> dict[str, list[str]]:
    """What is in the tables, as who opens them now reads them."""
    return {queue: [text_of(line) for line in lines] for queue, lines in shown(url).items()}


class Told(History):
    """Remembers all of it, to say what became of a text."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def take(self, line: str) -> None:
        self._lines.append(line)
        super().take(line)

    def settled(self, url: str, what: str) -> None:
        wrong = self.settle(texts(url))
        self._lines.append(f"looked at: {what}\n")
        of_it = [text for one in wrong for text in re.findall(r"'(\d[^']*)'", one)]
        assert not wrong, f"{what}: {wrong[:5]}\n{self._said(of_it)}"

    def shown(self, mount: Mapping[str, list[str]], tables: Mapping[str, list[str]]) -> None:
        """The mount shows what is in the tables, but for the order: a rollback brings back to the tail."""
        for queue in mount.keys() | tables.keys():
            ours, theirs = sorted(mount.get(queue, [])), sorted(tables.get(queue, []))
            differ = {*ours} ^ {*theirs}
            assert ours == theirs, f"{queue}: in one only {sorted(differ)}\n{self._said(differ)}"

    def _said(self, of_it: Collection[str]) -> str:
        said = [line for line in self._lines if any(text in line for text in ("looked", *of_it))]
        return "".join(said[-50:])


@pytest.mark.parametrize(("kind", "piece"), pieces("sqlite", "postgresql", "mysql"))
def test_a_mount_killed_under_load(
    empty_database: Callable[[str], str], tmp_path: Path, kind: str, piece: int
) -> None:
    url = empty_database(kind)
    folder = new_instance(tmp_path, url)
    mountpoint = tmp_path / "mnt"
    with mounted_for_writing(folder, mountpoint) as mount:
        make_queues(mount.path)
    history, chance = Told(), Random(f"{kind} {piece}")
    for cycle in range(KILLS_OF_A_PIECE if piece else KILLS_QUICK):
        with killed_mount(folder, mountpoint, chance.uniform(0.05, 2 * LONGEST_S)):
            TablesClient(mountpoint, history, cycle).work()
        history.settled(url, f"{kind}, piece {piece}, kill {cycle}")
    assert history.done > 0
    print(f"{kind}, piece {piece}: {cycle + 1} kills of the mount, {history.done} changes done")


class Killing:
    """Ways in which a server ends that it does not choose."""

    def __init__(self, server: Server, chance: Random) -> None:
        self.server, self.chance = server, chance

    def kill(self) -> None:
        """All of it, or what it does when somebody is in a hurry."""
        if "postgres" in Path(f"/proc/{self.server.process.pid}/cmdline").read_text():
            self.chance.choice((self.server.kill, self._at_once, self._one_of_it))()
        else:
            self.server.kill()

    def _at_once(self) -> None:
        self.server.process.send_signal(signal.SIGQUIT)
        self.server.process.wait()

    def _one_of_it(self) -> None:
        """A process of it that works for somebody: the others are thrown out by the server itself."""
        working = [pid for pid in self.server.processes()[1:] if is_working(pid)]
        for pid in self.chance.sample(working, min(1, len(working))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        if self.server.process.poll() is not None:
            self.server.restart()


def is_working(pid: int) -> bool:
    with suppress(OSError):
        return b"127.0.0.1" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize(("kind", "piece"), pieces("postgresql", "mysql"))
def test_a_server_killed_under_load(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, piece: int
) -> None:
    server: Server = request.getfixturevalue(SERVERS[kind])
    url = server.make(f"killed{piece}")
    folder = new_instance(tmp_path, url, network_timeout=NETWORK_TIMEOUT_MS)
    history, chance = Told(), Random(f"{kind} {piece}")
    killing = Killing(server, chance)
    with mounted_for_writing(folder, tmp_path / "mnt") as mount:
        make_queues(mount.path)
        for cycle in range(KILLS_OF_A_PIECE if piece else KILLS_QUICK):
            client = TablesClient(mount.path, history, cycle)
            working = threading.Thread(target=client.work)
            working.start()
            PAUSE.wait(chance.uniform(0.05, LONGEST_S))
            killing.kill()
            PAUSE.wait(chance.uniform(0, AWAY_S_MAX))
            killing.restart()
            back_s = time.monotonic()
            client.end()
            working.join(HEALED_S_MAX)
            assert not working.is_alive(), "somebody hangs"
            eventually(lambda: takes(mount), deadline_s=HEALED_S_MAX, what="it takes changes again")
            healed_s = time.monotonic() - back_s
            eventually(lambda: ended(mount), deadline_s=HEALED_S_MAX, what="transactions can be ended")
            # Who closed `.take` has taken what he had within a second.
            eventually(lambda: not delivering(mount), deadline_s=HEALED_S_MAX, what="nobody has a message")
            history.settled(url, f"{kind}, piece {piece}, kill {cycle}, back after {healed_s:.1f} s")
            history.shown(texts_of(mount), texts(url))
    print(f"{kind}, piece {piece}: {cycle + 1} kills of the server, {history.done} changes done")


def takes(mount: MountedStore) -> bool:
    with suppress(OSError):
        (mount.path / "probe").mkdir()
        (mount.path / "probe").rmdir()
        return True
    return False


def ended(mount: MountedStore) -> bool:
    with suppress(OSError):
        end_transactions(mount.path)
        return True
    return False


def delivering(mount: MountedStore) -> int:
    queues = [mount.queue(f"taken{task}") for task in range(THREADS)]
    return sum(queue.status()["deliveringCount"] for queue in queues)


def texts_of(mount: MountedStore) -> dict[str, list[str]]:
    return {
        queue.name: [text_of(line) for line in mount.queue(address.name, queue.name).lines()]
        for address in mount.path.iterdir()
        if not re.match(r"[._]", address.name)
        for queue in address.iterdir()
        if queue.is_dir()
    }
