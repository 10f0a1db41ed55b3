"""Lives of one store after the other, of random acts, that end by kills and power cuts.

`python -m tests.pressure.simulator STORE FOLDER SEED LIVES [STEPS]` (`failing.c` preloaded, PYTHONHASHSEED=0)
prints a line a life. A life is a forked process that opens the store, works, meets calls that fail, and is
killed, cut off, or closes the store. Between two lives the other reader (`tests.reference`) tells what is
there, which has to be what was answered. All chance comes from the seed: the clock stands still but between
two acts, nothing runs in threads of Python, and trio's own order is drawn from it too. `trace` of a life is
a digest of each act, its fault, and its outcome: two runs of a seed have the same.

A life tells through memory that it shares with the process that reads it: nothing is lost by a kill, and
nobody is waited for. FOLDER had better be in memory, too.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio
import trio.testing
from trio.testing import MockClock

from journalfs.clock import FakeClock
from journalfs.errors import JournalfsError
from journalfs.store.write.opening import open_for_writing
from tests.crash.history import History
from tests.crash.plug import texts_in
from tests.pressure.determinism import settle
from tests.pressure.lives import (
    PAGES,
    SETTINGS,
    SHORT,
    A,
    B,
    Case,
    Checked,
    Failing,
    Life,
    User,
    leaves,
    may_end,
)

CUT, KILL = -2, -3
STEPS: Final = 200
START_MS: Final = 1_800_000_000_000
LIFE_S: Final = 600
MANY: Final = (1, 1, 3, 40)
MESSAGES_MAX: Final = 120
"""In a queue; beyond that some are removed."""
BACKENDS: Final = ("NIO", "ASYNCIO")
FAULTS: Final = (
    *((kind, error) for kind in ("write", "open") for error in (errno.EIO, errno.EINTR)),
    *(("write", error) for error in (errno.ENOSPC, SHORT)),
    *(("sync", errno.EIO), ("rename", errno.EIO), ("unlink", errno.EIO), ("link", errno.EIO)),
    *(("room", errno.ENOSPC), ("open", errno.EMFILE), ("alloc", errno.ENOMEM), ("map", errno.ENOMEM)),
)
ENDINGS: Final = (*("cut" for _ in range(4)), *("kill" for _ in range(4)), "close")
CALLS_OF_ENDINGS: Final = ("write", "sync", "rename", "unlink", "open")
SAID_BYTES_MAX: Final = 1 << 26


class Said:
    """Lines of a life, in memory that outlives it: eight bytes of their length, and the lines."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SAID_BYTES_MAX)
        self._end = 8

    def say(self, line: str) -> None:
        data = line.encode()
        self._memory[self._end : self._end + len(data)] = data
        self._end += len(data)
        self._memory[:8] = self._end.to_bytes(8)

    def lines(self) -> list[str]:
        end = int.from_bytes(self._memory[:8])
        return self._memory[8 : max(end, 8)].decode().splitlines()

    def close(self) -> None:
        self._memory.close()


class Simulated:
    """One life."""

    def __init__(
        self, root: Path, seed: int, number: int, failing: Failing, say: Callable[[str], None]
    ) -> None:
        self.root, self.failing, self.say = root, failing, say
        self.chance = random.Random(f"{seed}/{number}")
        self.clock = FakeClock(wall_ms=START_MS + number * 3_600_000)
        self.timers = MockClock()
        """Of what the store does by itself."""
        self.number = number
        self.life = Life({"seed": seed, "life": number})
        self.faults = self.chance.choice((0.0, 0.01, 0.05, 0.2))
        """How often an act meets one that is not the last: most of them end what the store takes."""
        self.steps = 0

    def tell(self) -> None:
        self.say(json.dumps(["life", {"wrong": self.life.wrong, "refused": self.life.after}]) + "\n")

    async def live(self, steps: int) -> None:
        store = open_for_writing(self.root, clock=self.clock)
        store.keep_removed()
        user = User(store, self.say, texts=self.number * 100_000)
        user.history.there = {(queue, text) for queue, texts in user.shown().items() for text in texts}
        self.checked = Checked(user, self.life, self.tell)
        ending = self.chance.choice(ENDINGS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            for step in range(steps):
                last = step + 1 == steps
                await self.step(user, ending if last else None)
                if store.read_only or self.life.wrong:
                    break
            await self.checked.look("at the end")
            self.tell()
            nursery.cancel_scope.cancel()
        if ending == "close":
            with suppress(JournalfsError, OSError):
                store.close()
        self.tell()

    async def step(self, user: User, ending: str | None) -> None:
        name, act = await self.act(user)
        self.steps += 1
        fault = self.fault(ending)
        self.say(json.dumps(["step", name, None if fault is None else fault.line()]) + "\n")

        async def around(work: Callable[[], Awaitable[object]]) -> None:
            if fault is not None:
                self.failing.arm(fault)
            try:
                await work()
            finally:
                self.failing.disarm()

        try:
            await act(around=around)
        except (JournalfsError, OSError, MemoryError) as error:
            said = repr(error).replace(str(self.root), "")
            self.life.after.append(f"{name}: {said}")
            self.say(json.dumps(["refused", said]) + "\n")
            await self.checked.look(f"after {name}")
        else:
            if self.chance.random() < 0.1:
                await self.checked.look(f"after {name}")
        self.clock.advance(by_ms=60_000)  # what is removed next is another command
        if self.chance.random() < 0.2:
            self.timers.jump(1)
            await trio.testing.wait_all_tasks_blocked()
        if ending is not None:
            self.tell()

    def fault(self, ending: str | None) -> Case | None:
        if ending in ("cut", "kill"):
            kind = self.chance.choice(CALLS_OF_ENDINGS)
            return Case("", kind, self.chance.randrange(1, 8), 1, CUT if ending == "cut" else KILL)
        if self.chance.random() < self.faults:
            kind, error = self.chance.choice(FAULTS)
            return Case("", kind, self.chance.randrange(1, 12), self.chance.choice((1, 1, 5)), error)
        return None

    async def act(self, user: User) -> tuple[str, Any]:
        """What is done next. Whatever is said before it is done by then."""
        chance, store = self.chance, user.store
        source, target = chance.sample([A, B], 2)
        known = Counter(queue for queue, _ in user.history.there)
        there = {path: known[path[1]] for path in (A, B, PAGES)}
        full = [path for path, count in there.items() if count > MESSAGES_MAX]
        if full:
            return "remove", user.removing(full[0], MESSAGES_MAX // 2)
        some = [path for path, count in there.items() if count]
        any_queue = chance.choice(some or [A])
        acts: list[tuple[str, Callable[[], Any]]] = [
            (
                "publish",
                lambda: user.publishing(
                    "work", chance.choice((None, A[1], B[1])), chance.choice((1, 1, 3, 40))
                ),
            ),
            *[("publish", lambda: user.publishing("work", A[1], 1))] * 6,
            ("page", lambda: user.publishing("paged", "paged", chance.choice((1, 4, 12)))),
            (
                "compact",
                lambda: lambda around: user.change(store.journals.messages.upkeep.compact, around=around),
            ),
            (
                "reclaim",
                lambda: lambda around: user.change(store.journals.messages.upkeep.reclaim, around=around),
            ),
            ("snapshot", lambda: lambda around: user.change(self.snapshot(user), around=around)),
            ("bindings", lambda: lambda around: user.change(self.bindings(user), around=around)),
        ]
        if some:
            acts += [
                *[("take", lambda: user.taking(any_queue))] * 6,
                ("give back", lambda: user.taking(any_queue, well=False)),
                ("remove", lambda: user.removing(any_queue, chance.choice((1, 2, 10)))),
            ]
        if there[source]:
            acts += [("move", lambda: user.moving(source, target, chance.choice((1, 3))))] * 4
        if there[PAGES]:
            acts.append(("move paged", lambda: user.moving(PAGES, target, 3)))
        name, make = chance.choice(acts)
        if name == "remove" and chance.random() < 0.3:
            count = chance.choice((1, 2, 10))
            gone = {(any_queue[1], text) for text in list(user.messages(any_queue))[:count]}
            await user.removing(any_queue, count)()
            return "undo", user.undoing(gone)
        return name, make()

    def snapshot(self, user: User) -> Callable[[], Awaitable[object]]:
        store = user.store
        names = [path.name for path in sorted((self.root / "journalfs/snapshots").glob("s*"))]

        async def work() -> None:
            if len(names) > 1:
                await store.snapshots.delete(names[0])
            else:
                await store.snapshots.create(f"s{self.number}-{self.steps}")

        return work

    def bindings(self, user: User) -> Callable[[], Awaitable[object]]:
        store = user.store

        async def work() -> None:
            if store.address("extra") is None:
                await store.create_address("extra")
                await store.create_queue("extra", "extra")
            else:
                await store.delete_queue("extra", "extra")
                await store.delete_address("extra")

        return work


def _child(one: Simulated, seed: int, steps: int) -> None:
    gc.disable()  # what is collected when would depend on what was done before the fork
    settle(seed * 1000 + one.number)
    library = ctypes.CDLL(None)
    library.failing_log.argtypes = (ctypes.c_ulong,)
    library.failing_log(seed * 1000 + one.number + 1)
    signal.alarm(LIFE_S)
    try:
        trio.run(one.live, steps, clock=one.timers)
    except BaseException as error:
        one.failing.disarm()
        if not all(map(may_end, leaves(error))):
            one.life.wrong.append("unexpected: " + "".join(traceback.format_exc())[-3000:])
        one.tell()
    os.kill(os.getpid(), signal.SIGKILL)


class Chain:
    """A store, and what was answered of it."""

    def __init__(self, store: Path, folder: Path, seed: int) -> None:
        self.root = folder / f"seed-{seed}"
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(store, self.root)
        chosen = BACKENDS[seed % len(BACKENDS)]
        (self.root / "journalfs.toml").write_text(SETTINGS.format(backend=chosen))
        self.seed = seed
        self.history = History()
        self.steps = 0
        self.kinds: Counter[str] = Counter()
        self.acts: list[str] = []
        """In the last life, with what was refused."""
        self.trace = ""
        """A digest of all lives so far."""
        self._failing = Failing()

    def life(self, number: int, steps: int) -> list[str]:
        """Live once; what is wrong."""
        said = Said()
        child = os.fork()
        if not child:
            one = Simulated(self.root, self.seed, number, self._failing, said.say)
            _child(one, self.seed, steps)
        _, status = os.waitpid(child, 0)
        lines = said.lines()
        said.close()
        wrong: list[str] = []
        self.acts = []
        for line in lines:
            word, *rest = json.loads(line)
            if word == "life":
                wrong = list(rest[0]["wrong"])
            elif word in ("step", "refused"):
                self.acts.append(" ".join(map(str, rest)))
                self.steps += word == "step"
                if word == "step":
                    self.kinds[rest[0]] += 1
            else:
                self.history.take(line)
        found = texts_in(self.root)
        seen = json.dumps([self.trace, lines, found], sort_keys=True)
        self.trace = hashlib.sha256(seen.encode()).hexdigest()
        if status != signal.SIGKILL:
            wrong.append(f"it ended with {status:#x}")
        return wrong + [f"on the disk: {one}" for one in self.history.settle(found)]


def main() -> None:
    store, folder, first, lives = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    steps = int(sys.argv[5]) if sys.argv[5:] else STEPS
    chain, began = Chain(store, folder, first), time.monotonic()
    for number in range(lives):
        wrong = chain.life(number, steps)
        line = {"seed": first, "life": number, "steps": chain.steps, "wrong": wrong, "trace": chain.trace}
        if wrong:
            line["acts"] = chain.acts
        if wrong or number + 1 == lives:
            line["kinds"] = chain.kinds
        print(json.dumps({**line, "seconds": round(time.monotonic() - began, 1)}), flush=True)
        if wrong:
            sys.exit(1)
    shutil.rmtree(chain.root)


if __name__ == "__main__":
    main()
