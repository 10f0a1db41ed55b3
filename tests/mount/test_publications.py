"""Who waits for what is being published."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from journalfs_mount.limits import PUBLICATION_WAIT_S
from journalfs_mount.names.being_written import Publications


async def publish(publications: Publications, address: str, until: trio.Event) -> None:
    with publications.begun(address):
        await until.wait()


async def test_those_concerned_wait_and_others_do_not(autojump_clock: trio.testing.MockClock) -> None:
    publications = Publications()
    done = {name: trio.Event() for name in ("orders", "prices")}
    told: list[str] = []

    async def look(who: str, *addresses: str) -> None:
        await publications.settled(lambda name: name in addresses)
        told.append(who)

    async with trio.open_nursery() as nursery:
        for name, event in done.items():
            nursery.start_soon(publish, publications, name, event)
        await trio.testing.wait_all_tasks_blocked()
        assert publications
        nursery.start_soon(look, "neither")
        nursery.start_soon(look, "prices", "prices")
        nursery.start_soon(look, "both", "orders", "prices")
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["neither"]
        done["prices"].set()
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["neither", "prices"]
        done["orders"].set()
    assert told == ["neither", "prices", "both"]
    assert not publications
    assert trio.current_time() == 0


async def test_what_began_later_is_not_waited_for() -> None:
    publications = Publications()
    first, second = trio.Event(), trio.Event()
    settled = trio.Event()

    async def look() -> None:
        await publications.settled(lambda name: True)
        settled.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish, publications, "orders", first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(publish, publications, "orders", second)
        await trio.testing.wait_all_tasks_blocked()
        first.set()
        await settled.wait()
        assert publications
        second.set()


async def test_nobody_waits_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    publications = Publications()
    with publications.begun("orders"):
        await publications.settled(lambda name: True)
    assert trio.current_time() == pytest.approx(PUBLICATION_WAIT_S)


async def test_a_publication_that_fails_is_over() -> None:
    publications = Publications()
    with pytest.raises(ValueError), publications.begun("orders"):
        raise ValueError
    assert not publications
