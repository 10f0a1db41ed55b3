"""Very long directories."""

from __future__ import annotations

import os

import pytest

from tests.mount.conftest import MountFake

pytestmark = pytest.mark.mount


def test_a_hundred_thousand_messages_are_listed_with_their_sizes_and_without_a_request_each(
    mount_fake: MountFake,
) -> None:
    mounted = mount_fake("many", "nofollow")
    before = mounted.requests()
    entries = list(os.scandir(mounted.path / "many/100000/.messages"))
    assert [entry.name for entry in entries] == [f"{number}.txt" for number in range(1, 100_001)]
    assert all(entry.stat().st_size == place for place, entry in enumerate(entries))
    after = mounted.requests()
    # The kernel may forget some names where memory is short. A request each would be a hundred thousand.
    assert after["lookup"] - before["lookup"] < 10_000
    assert after["getattr"] - before.get("getattr", 0) < 10_000
    assert after["readdir"] < 2_000


@pytest.mark.rule("S-20")
def test_whoever_looks_at_each_as_it_is_listed_asks_no_more(mount_fake: MountFake) -> None:
    """As `ls -l` does, also where a broker lets messages come and go."""
    mounted = mount_fake("many")
    before = mounted.requests()
    with os.scandir(mounted.path / "many/100000/.messages") as entries:
        assert all(entry.stat().st_size == place for place, entry in enumerate(entries))
    after = mounted.requests()
    assert after["lookup"] - before["lookup"] < 10_000, "one for each, but for a pause of half a second or so"


@pytest.mark.long
def test_a_million_messages_are_listed_and_cost_the_mount_no_memory(mount_fake: MountFake) -> None:
    mounted = mount_fake("many")
    list(os.scandir(mounted.path / "many/100000/.messages"))
    before = mounted.tell("memory_kib")
    count, total = 0, 0
    for entry in os.scandir(mounted.path / "many/1000000/.messages"):
        count += 1
        total += int(entry.name.removesuffix(".txt"))
    assert (count, total) == (1_000_000, 1_000_000 * 1_000_001 // 2)
    after = mounted.tell("memory_kib")
    assert isinstance(before, int)
    assert isinstance(after, int)
    assert after - before < 4_096, "kilobytes for a million entries: less than 5 bytes each"
