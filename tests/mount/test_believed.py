"""Notices that have the kernel ask for all names again, written to a pipe in place of /dev/fuse."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import trio

from journalfs_mount.nodes.believed import AGAIN_S, BELIEVED_S, Believed

NOTICE_BYTES = 16


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reads, writes = os.pipe2(os.O_NONBLOCK)
    yield reads, writes
    for descriptor in (reads, writes):
        os.close(descriptor)


def notices(descriptor: int) -> int:
    try:
        return len(os.read(descriptor, 1 << 12)) // NOTICE_BYTES
    except BlockingIOError:
        return 0


def test_a_notice_is_given_once_for_all_that_was_listed_before(pipe: tuple[int, int]) -> None:
    believed = Believed()
    assert believed.name_s(believed.left_count) == 0
    believed.begin(pipe[1])
    assert notices(pipe[0]) == 1  # to see whether the kernel knows it
    believed.left()
    assert notices(pipe[0]) == 0
    listed_at = believed.left_count
    for _ in range(3):
        assert believed.name_s(listed_at) == BELIEVED_S
    believed.left()
    believed.left()
    assert notices(pipe[0]) == 1
    # The rest of a list that was begun before.
    assert believed.name_s(listed_at) == 0
    believed.end()
    assert believed.name_s(believed.left_count) == 0


def test_nothing_is_believed_where_the_kernel_does_not_know_the_notice(pipe: tuple[int, int]) -> None:
    believed = Believed()
    believed.begin(pipe[0])  # which cannot be written to
    assert believed.name_s(believed.left_count) == 0


async def test_what_the_kernel_enters_later_is_asked_for_again(
    pipe: tuple[int, int], autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    believed = Believed()
    believed.begin(pipe[1])
    nursery.start_soon(believed.run)
    believed.name_s(believed.left_count)
    believed.left()
    await trio.sleep(sum(AGAIN_S) * 2)
    assert notices(pipe[0]) == 2 + len(AGAIN_S)
