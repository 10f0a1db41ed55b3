"""What counts for some seconds: until then, and of a bounded number of things."""

from __future__ import annotations

import trio.testing

from journalfs_mount.kernel.remembered import REMEMBERED_MAX, Remembered


async def test_the_last_value_counts_until_its_time_is_over(autojump_clock: trio.testing.MockClock) -> None:
    remembered = Remembered[str](10.0)
    remembered.put(1, "first")
    await trio.sleep(9)
    remembered.put(1, "second")
    remembered.put(2, "other")
    await trio.sleep(9)
    assert (remembered.get(1), remembered.get(2), remembered.get(3)) == ("second", "other", None)
    assert list(remembered) == ["second", "other"]
    await trio.sleep(1)
    assert (remembered.get(1), list(remembered)) == (None, [])


async def test_what_came_first_is_forgotten_first() -> None:
    remembered = Remembered[int](10.0)
    for key in range(REMEMBERED_MAX):
        remembered.put(key, key)
    remembered.put(0, 0)
    remembered.forget(5)
    remembered.put(REMEMBERED_MAX, REMEMBERED_MAX)
    remembered.put(REMEMBERED_MAX + 1, 0)
    known = {key for key in range(REMEMBERED_MAX + 2) if remembered.get(key) is not None}
    assert known == set(range(REMEMBERED_MAX + 2)) - {1, 5}
