"""Memory that is refused, one allocation after the other: what was answered holds, nothing comes again."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.pressure.conftest import Lives
from tests.pressure.lives import ACTS, Case, Life

# Of "publish many", the loop of trio waits for ever now and then once the 92nd allocation was refused, after
# the act was answered: in a mount the watchdog ends that.
QUICK = ("take", "remove some", "move paged")
FEW = 6
SEED = 48


def chosen(seen: int, few: int | None) -> list[int]:
    """Which calls of so many fail, one a life: `few` of them, or all."""
    every = range(1, seen + 1)
    return list(every) if few is None or seen <= few else sorted(Random(SEED).sample(every, few))


def live_all(lives: Lives, act: str, kind: str, few: int | None, error: int, **case: object) -> list[Life]:
    whole = lives.live(Case(act, kind, 0, **case))  # type: ignore[arg-type]
    assert not whole.wrong, whole
    assert whole.act == "done", whole
    found = [
        lives.live(Case(act, kind, nth, error=error, **case))  # type: ignore[arg-type]
        for nth in chosen(whole.seen, few)
    ]
    assert not [life for life in found if life.wrong]
    return found


@pytest.mark.parametrize(
    "act", [pytest.param(act, marks=() if act in QUICK else pytest.mark.long) for act in ACTS]
)
def test_what_was_answered_holds(lives: Lives, act: str) -> None:
    live_all(lives, act, "alloc", FEW, errno.ENOMEM)


@pytest.mark.long
@pytest.mark.parametrize("act", ACTS)
def test_each_allocation_in_c(lives: Lives, act: str) -> None:
    live_all(lives, act, "alloc", None, errno.ENOMEM)


@pytest.mark.long
@pytest.mark.parametrize("act", ACTS)
def test_memory_that_is_out_for_a_while(lives: Lives, act: str) -> None:
    live_all(lives, act, "alloc", 100, errno.ENOMEM, times=20)


@pytest.mark.long
@pytest.mark.parametrize("act", ACTS)
def test_allocations_of_python(lives_in_python: Lives, act: str) -> None:
    live_all(lives_in_python, act, "alloc", 300, errno.ENOMEM)


@pytest.mark.parametrize(
    "act", [pytest.param(act, marks=() if act == "take" else pytest.mark.long) for act in ACTS]
)
def test_files_that_cannot_be_mapped(lives: Lives, act: str) -> None:
    """As where the process may have no more address space."""
    live_all(lives, act, "map", FEW, errno.ENOMEM, times=3)
