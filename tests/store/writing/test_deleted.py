"""How long what addresses and queues were is remembered."""

from __future__ import annotations

from journalfs.bindings.model import Address
from journalfs.broker.queues.administering import NAMES_MAX, Deleted, new_address
from journalfs.clock import FakeClock
from journalfs.format.bindings import RoutingType
from journalfs.ids import AddressId

KEEP_S = 60


def address(name: str) -> Address:
    return Address(AddressId(1), new_address(name, RoutingType.ANYCAST), paused=False)


def test_what_was_deleted_is_remembered_for_a_while() -> None:
    clock = FakeClock()
    deleted = Deleted(clock, lambda: KEEP_S)
    deleted.add(address("a"))
    clock.advance(by_ms=KEEP_S * 1000)
    assert deleted.address("a") is not None
    clock.advance(by_ms=1)
    assert deleted.address("a") is None
    assert deleted.address("b") is None


def test_only_so_many_are_remembered() -> None:
    deleted = Deleted(FakeClock(), lambda: KEEP_S)
    for number in range(NAMES_MAX + 1):
        deleted.add(address(str(number)))
    assert deleted.address("0") is None
    assert deleted.address("1") is not None
