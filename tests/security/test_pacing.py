"""Long work of one user rests while others ask for something."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from journalfs.limits import PIECE_TEXTS
from journalfs_mount.process.shares import OWNER, RECENT_S, SPARED_S, Pacing
from tests.mounting import MountedStore, mounted_for_writing
from tests.security.adversary import write
from tests.security.test_shares import AS_ROOT, OTHER, as_user
from tests.writing.conftest import new_store

PIECE_S = 0.002
PIECES = 100
VALUES = 200_000
PIECES_MAX = 10
"""Within one call of somebody else, of five requests: four or five are usual, and 17 to 20 without rest."""

PUBLISH = f"""
import os, sys
with open(sys.argv[1] + "/.values.json", "wb") as file:
    file.write(b"1 " * {VALUES})
print("written", flush=True)
sys.stdin.readline()
os.rename(sys.argv[1] + "/.values.json", sys.argv[1] + "/values.json")
print("published", flush=True)
"""


async def work(pacing: Pacing, user: int, pieces: int = PIECES) -> int:
    """As many pieces of work for a user; how many of them rested."""
    OWNER.set(user)
    rested = 0
    for _ in range(pieces):
        await trio.sleep_until(trio.current_time() + PIECE_S)
        rested += await pacing.rest(PIECE_S)
    return rested


async def ask(pacing: Pacing, user: int) -> None:
    while True:
        pacing.ask(user)
        await trio.sleep_until(trio.current_time() + RECENT_S / 2)


@pytest.mark.rule("S-149")
async def test_who_is_alone_never_rests(autojump_clock: trio.testing.MockClock) -> None:
    pacing = Pacing()
    pacing.ask(1)
    began = trio.current_time()
    assert await work(pacing, 1) == 0
    assert trio.current_time() - began == pytest.approx(PIECES * PIECE_S)


@pytest.mark.rule("S-149")
@pytest.mark.parametrize(("others", "works"), [(1, 1), (1, 5), (3, 2)])
async def test_work_takes_one_users_share(
    others: int, works: int, autojump_clock: trio.testing.MockClock
) -> None:
    """However many requests it is made of."""
    pacing = Pacing()
    async with trio.open_nursery() as asking:
        for other in range(others):
            asking.start_soon(ask, pacing, 2 + other)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        async with trio.open_nursery() as working:
            for _ in range(works):
                working.start_soon(work, pacing, 1)
        took = trio.current_time() - began
        asking.cancel_scope.cancel()
    assert took >= (works * PIECES * PIECE_S) * (1 + others) - 2 * SPARED_S - works * PIECE_S * (1 + others)


@pytest.mark.rule("S-149")
async def test_who_was_quiet_for_a_while_keeps_nobody_resting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pacing = Pacing()
    pacing.ask(2)
    assert await work(pacing, 1) > 0
    await trio.sleep(2 * RECENT_S)
    assert await work(pacing, 1) == 0


@pytest.fixture
def shared() -> Iterator[MountedStore]:
    """For all users."""
    base = Path("/tmp") / f"journalfs-pacing-{os.getpid()}"
    base.mkdir(mode=0o755)
    try:
        with mounted_for_writing(new_store(base / "store"), base / "mnt", "-o", "allow_other") as mount:
            for name in ("evil", "honest"):
                (mount.path / name / name).mkdir(parents=True)
            (mount.path / "evil").chmod(0o777)
            yield mount
    finally:
        subprocess.run(["rm", "-rf", base], check=True)


@AS_ROOT
@pytest.mark.mount
@pytest.mark.rule("S-149")
def test_an_append_waits_for_few_pieces_of_a_long_publication(shared: MountedStore) -> None:
    calls = 0
    write(shared.path / "honest")
    publishing = as_user(OTHER, PUBLISH, str(shared.path / "evil"))
    assert publishing.stdout is not None
    assert publishing.stdin is not None
    assert publishing.stdout.readline() == "written\n"
    publishing.stdin.write("\n")
    publishing.stdin.flush()
    while publishing.poll() is None:
        write(shared.path / "honest")
        calls += 1
    assert publishing.stdout.read() == "published\n"
    assert VALUES / PIECE_TEXTS / calls <= PIECES_MAX
