"""Several find a stream at the same moment: each opening has a number and a first question of its own.

The requests come here as the kernel would send them, in an order that the kernel leaves to chance.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from pyfuse3 import FileHandleT, FileNameT, FlagT, FUSEError, InodeT, RequestContext

from journalfs.clock import FakeClock
from journalfs_mount.kernel.finders import PROMISED_S
from journalfs_mount.kernel.operations import Operations
from journalfs_mount.nodes.base import MountContext
from journalfs_mount.nodes.inodes import ROOT, NodeTable
from journalfs_mount.nodes.report import MountReport
from journalfs_mount.options import MountOptions
from tests.mount.fake_store import FakeStore

ONE, OTHER = 1_000_000_001, 1_000_000_002
"""Threads that are no more, so that nothing is to be seen of them."""


class Kernel:
    """What it asks of a mount, for threads that walk to `.follow` of a queue."""

    def __init__(self) -> None:
        store = FakeStore()
        store.add_queue("orders", "billing")
        context = MountContext(store, MountOptions(read_only=True), MountReport(FakeClock()))
        self._operations = Operations(context, lambda: None)

    async def finds(self, thread: int) -> InodeT:
        inode = InodeT(ROOT)
        for name in (b"orders", b"billing", b".follow"):
            inode = (await self._operations.lookup(inode, FileNameT(name), _context(thread))).st_ino
        return inode

    async def asks(self, thread: int, inode: InodeT) -> int:
        return (await self._operations.getattr(inode, _context(thread))).st_size

    async def opens(self, thread: int, inode: InodeT) -> FileHandleT:
        info = await self._operations.open(inode, FlagT(os.O_RDONLY), _context(thread))
        assert info.fh is not None
        return info.fh

    async def closes(self, handle: FileHandleT) -> None:
        await self._operations.release(handle)


def _context(thread: int) -> RequestContext:
    return cast(RequestContext, SimpleNamespace(gid=0, pid=thread, uid=0))


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def child() -> Iterator[int]:
    """Another process, which waits."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process.pid


async def _is_turned_away(kernel: Kernel, thread: int, inode: InodeT) -> bool:
    try:
        await kernel.opens(thread, inode)
    except FUSEError as error:
        return error.errno == errno.ESTALE
    return False


@pytest.mark.rule("S-41", "S-116")
async def test_who_comes_later_finds_it_anew(kernel: Kernel) -> None:
    inode = await kernel.finds(ONE)
    assert await kernel.finds(OTHER) == inode
    await kernel.opens(ONE, inode)
    assert await _is_turned_away(kernel, OTHER, inode)
    another = await kernel.finds(OTHER)
    assert another != inode
    await kernel.opens(OTHER, another)
    assert [await kernel.asks(ONE, inode), await kernel.asks(OTHER, another)] == [0, 0]
    assert min(await kernel.asks(ONE, inode), await kernel.asks(OTHER, another)) > 0


@pytest.mark.rule("S-41")
async def test_who_was_turned_away_loses_to_nobody_again(kernel: Kernel) -> None:
    third = OTHER + 1
    inode = await kernel.finds(OTHER)
    await kernel.opens(ONE, await kernel.finds(ONE))
    assert await _is_turned_away(kernel, OTHER, inode)
    another = await kernel.finds(OTHER)
    await kernel.opens(third, await kernel.finds(third))
    await kernel.opens(OTHER, another)


@pytest.mark.rule("S-116")
async def test_who_found_it_asks_not_for_who_has_it_open(kernel: Kernel) -> None:
    """The kernel asks whether it may open it, and so does `stat`."""
    inode = await kernel.finds(OTHER)
    await kernel.opens(ONE, await kernel.finds(ONE))
    with pytest.raises(FUSEError):
        await kernel.asks(OTHER, inode)
    another = await kernel.finds(OTHER)
    assert another != inode
    assert await kernel.asks(OTHER, another) == 0
    assert await kernel.asks(ONE, inode) == 0


@pytest.mark.rule("S-41")
async def test_who_looked_opens_what_it_looked_at(
    kernel: Kernel, child: int, autojump_clock: trio.testing.MockClock
) -> None:
    """As `cp` does, whoever else does so beside it."""
    for process in (os.getpid(), child):
        assert await kernel.asks(process, await kernel.finds(process)) == 0
    looked_at = {process: await kernel.finds(process) for process in (os.getpid(), child)}
    assert looked_at[os.getpid()] != looked_at[child]
    for process, inode in looked_at.items():
        assert await kernel.finds(process) == inode
        await kernel.opens(process, inode)
        assert await kernel.asks(process, inode) == 0


@pytest.mark.rule("S-41")
async def test_what_was_looked_at_is_kept_for_a_while(
    kernel: Kernel, child: int, autojump_clock: trio.testing.MockClock
) -> None:
    inode = await kernel.finds(os.getpid())
    assert await kernel.finds(child) != inode
    await trio.sleep(PROMISED_S)
    assert await kernel.finds(child) == inode


@pytest.mark.rule("S-41")
async def test_it_is_kept_for_nobody_who_has_ended(
    kernel: Kernel, child: int, autojump_clock: trio.testing.MockClock
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        inode = await kernel.finds(process.pid)
        assert await kernel.finds(child) != inode
    assert await kernel.finds(os.getpid()) == inode


@pytest.mark.rule("S-41")
async def test_what_was_looked_at_is_opened_though_the_first_is_free_again(
    kernel: Kernel, child: int, autojump_clock: trio.testing.MockClock
) -> None:
    first = await kernel.finds(child)
    handle = await kernel.opens(child, first)
    looked_at = await kernel.finds(os.getpid())
    await kernel.closes(handle)
    assert await kernel.finds(os.getpid()) == looked_at
    await kernel.closes(await kernel.opens(os.getpid(), looked_at))
    assert await kernel.finds(os.getpid()) == first


@pytest.mark.rule("S-41")
async def test_who_looks_again_and_again_finds_the_first_once_it_is_free(
    kernel: Kernel, child: int, autojump_clock: trio.testing.MockClock
) -> None:
    first = await kernel.finds(child)
    handle = await kernel.opens(child, first)
    looked_at = await kernel.finds(os.getpid())
    await kernel.closes(handle)
    await trio.sleep(PROMISED_S * 0.6)
    assert await kernel.finds(os.getpid()) == looked_at
    await trio.sleep(PROMISED_S * 0.6)
    assert await kernel.finds(os.getpid()) == first


@pytest.mark.rule("S-41")
@pytest.mark.parametrize("opened", [1, 40])
async def test_no_number_is_searched_for(
    kernel: Kernel, opened: int, child: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many that open a name at the same moment look it up as often as there are pairs of them."""
    for thread in range(ONE, ONE + opened):
        inode = await kernel.finds(thread)
        if await _is_turned_away(kernel, thread, inode):
            await kernel.opens(thread, await kernel.finds(thread))
    entered = Counter[str]()
    enter = NodeTable.enter

    def counted(*arguments: Any) -> Any:
        entered["nodes"] += 1
        return enter(*arguments)

    monkeypatch.setattr(NodeTable, "enter", counted)
    await kernel.finds(child)
    assert entered["nodes"] <= 4, "two directories, the name, and its number"


@pytest.mark.rule("S-41")
async def test_what_nobody_has_open_has_one_number(kernel: Kernel) -> None:
    inode = await kernel.finds(ONE)
    handle = await kernel.opens(ONE, inode)
    another = await kernel.finds(OTHER)
    await kernel.opens(OTHER, another)
    await kernel.closes(handle)
    assert {await kernel.finds(thread) for thread in (ONE, OTHER)} == {inode}


@pytest.mark.rule("S-116")
async def test_who_shares_a_number_has_a_first_question(kernel: Kernel, child: int) -> None:
    """As by `/dev/stdin`, which is opened again without being looked up."""
    inode = await kernel.finds(os.getpid())
    await kernel.opens(os.getpid(), inode)
    assert await _is_turned_away(kernel, child, inode)
    await kernel.opens(child, inode)
    assert [await kernel.asks(process, inode) for process in (os.getpid(), child)] == [0, 0]
    assert min([await kernel.asks(process, inode) for process in (os.getpid(), child)]) > 0


@pytest.mark.rule("S-116")
async def test_a_child_asks_of_what_it_got(kernel: Kernel, child: int) -> None:
    inode = await kernel.finds(os.getpid())
    await kernel.opens(os.getpid(), inode)
    assert await _is_turned_away(kernel, OTHER, inode)
    await kernel.opens(OTHER, inode)
    assert [await kernel.asks(thread, inode) for thread in (child, OTHER)] == [0, 0]
    assert await kernel.asks(os.getpid(), inode) > 0
