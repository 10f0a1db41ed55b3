"""One random history after the other: the library, a mount and a real broker end where the model ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.broker.writing import complaints
from tests.kinds import FILES, KINDS, first_is_quick, new_database
from tests.model.brokers import Brokers
from tests.model.library import Library
from tests.model.machine import Histories
from tests.model.model import ATTEMPTS_MAX, LIMITS, Kind
from tests.model.mounted import Mounted
from tests.model.world import World, new_store

pytestmark = [pytest.mark.broker, pytest.mark.mount]

YEARS_MS: Final = 10 * 365 * 24 * 3_600_000
"""So far ahead of the real time is that of the histories: nothing happens in a broker by its own clock."""
SCAN_MS: Final = 20
QUICK, QUICK_STEPS = 2, 20
LONG, LONG_STEPS = 40, 60
TOLD: Final = ("AMQ222059", "AMQ222149", "AMQ222039")
"""What a broker warns with when it drops a message that it had before, when one becomes a dead letter, and
when an address is full and drops what comes.
"""


@pytest.fixture(scope="module", params=KINDS)
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def worlds(
    request: pytest.FixtureRequest,
    store_kind: str,
    artemis_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[World]]:
    tmp_path = tmp_path_factory.mktemp("worlds")
    now_ms = int(time.time() * 1000) + YEARS_MS
    Histories.now_ms = now_ms
    configured = BrokerSettings(max_delivery_attempts=ATTEMPTS_MAX, message_expiry_scan_period_ms=-1)

    def url() -> str | None:
        return None if store_kind == FILES else new_database(request, store_kind, tmp_path)

    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path / "broker", settings=configured))
        library = stack.enter_context(closing(Library(new_store(tmp_path / "library", -1, url()), now_ms)))
        mount = Mounted(new_store(tmp_path / "mounted", SCAN_MS, url()), tmp_path / "mnt", now_ms)
        stack.enter_context(closing(mount))
        brokers = stack.enter_context(closing(Brokers(broker, now_ms)))
        Histories.worlds = [library, mount, brokers]
        yield [library, mount, brokers]
        assert [line for line in complaints(broker.log) if not any(told in line for told in TOLD)] == []


def play(histories: int, steps: int, *, same: bool) -> None:
    """`same`: the same histories each time."""
    chosen = settings(
        max_examples=histories,
        stateful_step_count=steps,
        derandomize=same,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,) if same else (Phase.generate, Phase.shrink),
    )
    run_state_machine_as_test(Histories, settings=chosen)


def test_no_difference(worlds: list[World]) -> None:
    play(QUICK, QUICK_STEPS, same=True)


def test_readers_of_an_exclusive_queue(worlds: list[World]) -> None:
    """So rare in a few short histories that it has one of its own."""
    history = Histories()
    history.create_address()
    history.create_queue(0, Kind(exclusive=True))
    for _ in range(2):
        history.publish_plain(0, "lines", 3, routed=True)
        history.compete(0, 1)
        history.all_see_the_same()
    history.give_back(0)
    history.all_see_the_same()
    history.teardown()


@pytest.mark.parametrize("word", first_is_quick("page", *sorted({*LIMITS} - {"page"})))
def test_an_address_with_a_limit(worlds: list[World], word: str) -> None:
    """The same: two subscriptions, one of which is far behind; all is consumed, and it begins anew."""
    history = Histories()
    history.create_limited_address(word)
    for _ in range(2):
        history.create_queue(0, Kind())
    for count in (1, 3):
        history.publish_limited(0, "lines", 6)
        history.all_see_the_same()
        history.take(0, count)
        history.publish_limited(0, "whole", 2)
        history.acknowledge(1, {0, 2})
        history.all_see_the_same()
        history.restart(0)
        history.all_see_the_same()
        for pick in (0, 1):
            if history.holding():
                history.acknowledge_all(pick)
        history.all_see_the_same()
    history.teardown()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_difference_in_many_histories(worlds: list[World]) -> None:
    play(LONG, LONG_STEPS, same=False)
