"""Queues that become others while they hold messages. A store that stays open, and one that is opened anew at
each step, end where the model ends: what is kept in memory says nothing else than what is on disk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.kinds import FILES, new_database
from tests.kinds import KINDS as KINDS_OF_STORES
from tests.model.library import Library
from tests.model.machine import KINDS, PICK, Histories
from tests.model.model import Kind, Queue
from tests.model.world import new_store

DIFFERENT: Final = (
    Kind(),
    Kind(filtered=True),
    Kind(last_value=True),
    Kind(ring=True),
    Kind(last_value=True, ring=True),
    Kind(exclusive=True),
)
HISTORIES, STEPS = 40, 60


pytestmark = pytest.mark.usefixtures("worlds")


class Changing(Histories):
    stays: ClassVar[Library]
    opened_anew: ClassVar[Library]

    def changeable(self) -> list[Queue]:
        """Not where something is scheduled: when that is due it may leave, and in the model it stays."""
        return [one for one in self.free() if not one.later(self.model.now_ms)]

    @precondition(lambda self: self.changeable())
    @rule(pick=PICK, kind=KINDS)
    def change_queue(self, pick: int, kind: Kind) -> None:
        queue = self.queue(pick, self.changeable())
        queue.kind = kind._replace(anycast=queue.kind.anycast)
        for world in (self.stays, self.opened_anew):
            world.change_queue((queue.address, queue.name), queue.kind)

    @invariant()
    def all_see_the_same(self) -> None:
        self.opened_anew.restart()
        super().all_see_the_same()


@pytest.fixture(params=KINDS_OF_STORES)
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def worlds(request: pytest.FixtureRequest, store_kind: str, tmp_path: Path) -> Iterator[None]:
    Changing.now_ms = Histories.now_ms = int(time.time() * 1000)

    def library(name: str) -> Library:
        url = None if store_kind == FILES else new_database(request, store_kind, tmp_path)
        return Library(new_store(tmp_path / name, -1, url), Histories.now_ms)

    with closing(library("stays")) as stays, closing(library("anew")) as anew:
        Changing.stays, Changing.opened_anew = stays, anew
        Changing.worlds = [stays, anew]
        yield


STATED: Final = [
    (4, 0, 0, "", "red", "k", ""),
    (4, 0, 0, "g", "", "k", ""),
    (5, 0, 0, "", "red", "l", ""),
    (4, 0, 0, "", "blue", "", ""),
]


BECOMES: Final = [
    pytest.param(before, after, marks=() if at % 5 == at // 5 % 5 else pytest.mark.long)
    for at, (before, after) in enumerate(permutations(DIFFERENT, 2))
]
"""Each is once in the quick suite, before and after."""


@pytest.mark.parametrize(("before", "after"), BECOMES)
def test_a_kind_becomes_another(before: Kind, after: Kind) -> None:
    """And what it was again, with messages that came before, between and after."""
    history = Changing()
    history.create_address()
    history.create_queue(0, before)
    history.publish_stated(0, routed=False, stated=STATED)
    history.all_see_the_same()
    history.change_queue(0, after)
    history.publish_stated(0, routed=False, stated=STATED[:2])
    history.all_see_the_same()
    history.take(0, 2)
    history.publish_plain(0, "lines", 2, routed=False)
    history.all_see_the_same()
    history.change_queue(0, before)
    history.publish_stated(0, routed=False, stated=STATED[1:3])
    history.all_see_the_same()
    history.teardown()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_store_opened_anew_goes_on_where_it_was() -> None:
    chosen = settings(
        max_examples=HISTORIES,
        stateful_step_count=STEPS,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    run_state_machine_as_test(Changing, settings=chosen)
