"""What each process did last is known for some seconds, and of a bounded number of processes."""

from __future__ import annotations

import trio.testing

from journalfs_mount.recent import PROCESSES_MAX, Recent


async def test_the_last_thing_counts_until_its_time_is_over(autojump_clock: trio.testing.MockClock) -> None:
    recent = Recent[str](10.0)
    recent.did(1, "first")
    await trio.sleep(9)
    recent.did(1, "second")
    recent.did(2, "other")
    await trio.sleep(9)
    assert (recent.of(1), recent.of(2), recent.of(3)) == ("second", "other", None)
    await trio.sleep(1)
    assert (recent.of(1), recent.of(2)) == (None, None)


async def test_what_is_forgotten_is_gone() -> None:
    recent = Recent[str](10.0)
    recent.did(1, "first")
    recent.forget(1)
    recent.forget(2)
    assert recent.of(1) is None


async def test_who_did_nothing_for_longest_is_forgotten_first() -> None:
    recent = Recent[int](10.0)
    for process in range(PROCESSES_MAX):
        recent.did(process, process)
    recent.did(0, 0)
    recent.did(PROCESSES_MAX, PROCESSES_MAX)
    known = {process for process in range(PROCESSES_MAX + 1) if recent.of(process) is not None}
    assert known == set(range(PROCESSES_MAX + 1)) - {1}
