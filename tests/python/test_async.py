"""`async with journalfs.open(...)` on trio and on asyncio, with a store of this process and with a mount."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

import journalfs
from tests.mounting import journalfs as command
from tests.mounting import mounted_for_writing

WRITERS = 16


@pytest.fixture(params=["own", "mount"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    if request.param == "own":
        yield tmp_path / "store"
        return
    with mounted_for_writing(tmp_path / "store", tmp_path / "mnt") as mount:
        yield mount.path


async def _failing(queue: journalfs.AsyncQueue) -> journalfs.Message:
    """Take a message, and fail."""
    try:
        async with queue.take(timeout=5) as message:
            raise KeyError
    except KeyError:
        return message


async def _rolled_back(store: journalfs.AsyncStore, queue: journalfs.AsyncQueue) -> None:
    async with store.transaction():
        await queue.publish("never")
        raise RuntimeError("rolled back")


async def _uses(path: Path) -> None:
    async with journalfs.open(path, write=True) as store:
        queue = await store.create("jobs::jobs")
        async with anyio.create_task_group() as tasks:
            for number in range(WRITERS):
                tasks.start_soon(queue.publish, f"text {number}")
        assert sorted([one.body async for one in queue]) == sorted(f"text {n}" for n in range(WRITERS))
        assert await queue.count() == WRITERS
        first = await _failing(queue)
        async with queue.take(timeout=5) as message:
            assert (message.id, message.delivery_count) == (first.id, 1)
        with pytest.raises(journalfs.NoMessage):
            await queue.where("n = 1").take(timeout=0).__aenter__()
        async with store.transaction(), queue.take(timeout=5):
            await queue.publish("in a transaction")
        assert await queue.count() == WRITERS - 1
        with pytest.raises(RuntimeError, match="rolled back"):
            await _rolled_back(store, queue)
        assert await queue.remove() == WRITERS - 1
        assert (await store.undo())["jobs::jobs"] >= WRITERS - 1
        assert repr(queue) == "<journalfs.AsyncQueue 'jobs::jobs'>"
        assert [one.name for one in await store.queues()].count("jobs::jobs") == 1


async def _follows(path: Path) -> None:
    async with journalfs.open(path, write=True) as store:
        queue, seen = await store.create("jobs::jobs"), list[object]()

        async def follow(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            following = queue.follow(timeout=10)
            task_status.started()
            async for message in following:
                seen.append(message.body)
                if message.body == "end":
                    return

        async with anyio.create_task_group() as tasks:
            await tasks.start(follow)
            with anyio.fail_after(30):
                while not seen:
                    await queue.publish("x")
            await queue.publish("end")
        assert seen[-1] == "end"
        await queue.remove()
        with anyio.move_on_after(0.2) as scope:
            async with queue.take():
                pass
        assert scope.cancelled_caught
        await queue.publish("after")
        async with queue.take(timeout=5) as message:
            assert message.body == "after", "who was cancelled took nothing"


async def _raises(path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with journalfs.open(path, write=True) as store:
            print(len(await store.addresses()) // 0)
    with pytest.raises(journalfs.JournalfsError):
        async with journalfs.open(path / "nothing"):
            pass
    async with journalfs.open(path) as store:
        assert "DLQ" in await store.addresses()


@pytest.mark.rule("S-375", "S-376", "S-377")
@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_the_same_with_await(path: Path, library: str) -> None:
    anyio.run(_uses, path, backend=library)


@pytest.mark.rule("S-375")
@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_following_and_giving_up(path: Path, library: str) -> None:
    anyio.run(_follows, path, backend=library)


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_errors_are_raised_as_they_are(path: Path, library: str) -> None:
    anyio.run(_raises, path, backend=library)
