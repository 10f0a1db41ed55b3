"""Two honest clients, one that publishes and one that reads, alone and beside somebody who does his worst."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pwd
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from scripts.benchmarks.context import Context, Mounted
from scripts.benchmarks.measure import Case, Goal, anonymous_bytes, conclude, run_quietly

STORE: Final = "adversary"
LINES: Final = 400_000
"""In the queue that selections are asked of."""
SECONDS: Final = 10.0
GOAL_MS: Final = 50.0
FOLLOWERS: Final = 200
JSON_BYTES: Final = 4 << 20
OTHERS: Final = 65_534
"""The uid of who does his worst: nobody's."""

_SPAWN = multiprocessing.get_context("spawn")
_Work = Callable[[Path, random.Random], None]


# ---- who does his worst -----------------------------------------------------------------------------------


def select(mount: Path, chance: random.Random) -> None:
    """A new selection over many messages."""
    hundred = " OR ".join(f"n = {chance.random()}" for _ in range(100))
    cheap = f"JMSTimestamp > {chance.randrange(10**6)}"
    os.listdir(mount / "big/big/.where" / chance.choice((hundred, cheap, f"n LIKE '%{chance.random()}%'")))


def inflate(mount: Path, chance: random.Random) -> None:
    """The beginning of what states that it is 4 GiB."""
    (queue,) = os.listdir(mount / "scale.000")
    with open(mount / "scale.000" / queue / ".all.jsonl", "rb") as file:
        file.read(10)


def frame(mount: Path, chance: random.Random) -> None:
    """Millions of values, in a file whose writer gives up before it is published."""
    with open(mount / "evil/.values.json", "wb") as file:
        file.write(b"1 " * (JSON_BYTES // 2))
    os.rename(mount / "evil/.values.json", mount / "evil/values.json")


def follow(mount: Path, chance: random.Random) -> None:
    """Many reads that wait."""
    script = f'for n in $(seq {FOLLOWERS}); do cat "$0" & done; sleep 5; kill $(jobs -p)'
    subprocess.run(["bash", "-c", script, str(mount / "evil/evil/.follow")], capture_output=True, check=False)


def walk(mount: Path, chance: random.Random) -> None:
    """All addresses."""
    os.listdir(mount)


# ---- what the owner's own tools do meanwhile ---------------------------------------------------------------


def scrape(mount: Path, chance: random.Random) -> None:
    (mount / ".journalfs/metrics").read_bytes()


def administer(mount: Path, chance: random.Random) -> None:
    """Addresses and queues that come and go, and snapshots that are opened."""
    name = f"new-{chance.random()}"
    (mount / name / name).mkdir(parents=True)
    os.setxattr(mount / name, "user.journalfs.max-delivery-attempts", b"3")
    (mount / name / name).rmdir()
    (mount / name).rmdir()
    snapshot = mount / ".journalfs/snapshots" / name
    snapshot.mkdir()
    os.listdir(snapshot)
    snapshot.rmdir()


def _again_and_again(work: _Work, mount: Path, uid: int, over: Event) -> None:
    os.nice(19)  # the processors are not what is measured
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    chance = random.Random(uid)
    while not over.is_set():
        # What is refused is what should be.
        with contextlib.suppress(OSError, ValueError):
            work(mount, chance)
        time.sleep(0.001)


@contextmanager
def _at_their_worst(mount: Path) -> Iterator[None]:
    over = _SPAWN.Event()
    works = [(work, OTHERS) for work in (select, select, inflate, frame, follow, walk)]
    works += [(work, 0) for work in (scrape, administer)]
    others = [
        _SPAWN.Process(target=_again_and_again, args=(work, mount, uid, over), daemon=True)
        for work, uid in works
    ]
    for other in others:
        other.start()
    time.sleep(2.0)
    try:
        yield
    finally:
        over.set()
        for other in others:
            other.join(timeout=120)
            if other.is_alive():
                other.kill()


# ---- the honest ones --------------------------------------------------------------------------------------


def publish(address: Path) -> None:
    with open(address / "in.txt", "a") as out:
        out.write("a line\n")


def read(address: Path) -> None:
    queue = address / address.name
    os.listdir(queue)
    (queue / "_tail.jsonl").read_bytes()


def _timed(work: Callable[[Path], None], address: Path, seconds_: float, out: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    took: list[float] = []
    end = time.perf_counter() + seconds_
    while time.perf_counter() < end:
        began = time.perf_counter()
        work(address)
        took.append(1000 * (time.perf_counter() - began))
        time.sleep(0.002)
    out.put(took)


def _honest(address: Path, seconds_: float) -> dict[str, list[float]]:
    """Milliseconds that each call of both took, side by side."""
    clients = {"publish": publish, "read": read}
    queues = {name: _SPAWN.Queue() for name in clients}
    running = [
        _SPAWN.Process(target=_timed, args=(work, address, seconds_, queues[name]), daemon=True)
        for name, work in clients.items()
    ]
    for one in running:
        one.start()
    took = {name: sorted(queue.get(timeout=seconds_ + 300)) for name, queue in queues.items()}
    for one in running:
        one.join()
    return took


def adversary(context: Context) -> None:
    if os.getuid() != 0:
        print("adversary: left out, only root can be two users", flush=True)
        return
    seconds_ = 2.0 if context.small else SECONDS
    os.chmod(context.work, 0o755)
    took: dict[str, dict[str, list[list[float]]]] = {
        side: {"publish": [], "read": []} for side in ("journalfs", "alone")
    }
    memory: list[float] = []
    context.remake(STORE)
    with context.mounted(STORE, "--allow-other", writing=True) as mounted:
        honest = _prepare(context, mounted)
        _honest(honest, 1.0)
        for _ in range(context.runs):
            with ExitStack() as worst:
                for side in ("alone", "journalfs"):
                    if side == "journalfs":
                        worst.enter_context(_at_their_worst(mounted.path))
                    for client, values in _honest(honest, seconds_).items():
                        took[side][client].append(values)
            memory.append(anonymous_bytes(mounted.pid) / 2**20)
        status = json.loads((mounted.path / ".journalfs/status.json").read_bytes())
        live, lag = status["messages"], status["loopLagMs"]
        print(f"{live:,} live messages; turns of the loop: {lag}", flush=True)
        for line in (mounted.path / ".journalfs/events.jsonl").read_text().splitlines():
            if json.loads(line)["event"] == "slow":
                print(line, flush=True)
    _tell(context, took, memory)


def _prepare(context: Context, mounted: Mounted) -> Path:
    for name in ("big", "evil", "honest"):
        (mounted.path / name / name).mkdir(parents=True)
    os.chmod(mounted.path / "evil", 0o777)
    lines = context.work / "lines.txt"
    lines.write_text("".join(f"message {n}\n" for n in range(LINES // 100 if context.small else LINES)))
    run_quietly(["cp", str(lines), str(mounted.path / "big/in.txt")])
    publish(mounted.path / "honest")
    return mounted.path / "honest"


def _tell(context: Context, took: dict[str, dict[str, list[list[float]]]], memory: list[float]) -> None:
    note = (
        f"Another user ({pwd.getpwuid(OTHERS).pw_name}) lists new selections over {LINES:,} messages, "
        f"inflates what states 4 GiB, publishes 4 MiB of `1 1 1`, waits in {FOLLOWERS} `.follow`, and lists "
        "100,000 addresses, all at once, while the owner reads `metrics`, makes queues and opens snapshots."
    )
    for client, what in (("publish", "Append a line and close"), ("read", "List a queue and read its tail")):
        for name, of in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            sides = {
                side: [values[min(len(values) - 1, int(of * len(values)))] for values in clients[client]]
                for side, clients in took.items()
            }
            case = Case(
                f"adversary-{client}-{name}",
                "Adversary",
                f"{what}: {name}",
                "ms",
                "lower",
                {},
                against="alone",
                goal=Goal("journalfs", "at most", GOAL_MS) if name == "p99" else None,
                note=note,
            )
            context.keep(conclude(case, sides, context.commit))
    case = Case("adversary-memory", "Adversary", "Anonymous memory of the mount", "MiB", "lower", {})
    context.keep(conclude(case, {"journalfs": memory}, context.commit))
