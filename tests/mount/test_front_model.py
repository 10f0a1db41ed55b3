"""A model of how the front answers, in which all orders of steps are tried.

Two threads read the device: Python's and the front's own. A client asks what there is, another has it
changed, and a third closes a file that it wrote: it is told so before that is published. No answer may show
less than its client knew when it asked; and none of C's less than anybody was told of changes, for the kernel
keeps answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

Shown = tuple[int, int]
"""How many changes were made, and how many closed files are published."""

QUESTIONS, CHANGES, CLOSES = 3, 2, 1


@dataclass(frozen=True, slots=True)
class Rules:
    """What the front keeps to. Without any one of these somebody is told what is over."""

    revokes_before: bool = True
    """Python revokes before it changes anything, and not after it replied."""
    compares_epochs: bool = True
    """An answer is kept only if nothing was revoked since Python began to work on it."""
    holds_lock: bool = True
    """From reading a request until it is answered or queued, the front keeps the device from others."""
    waits_for_releases: bool = True
    """Nothing is answered between a written file's release and what Python replies to it."""


@dataclass(frozen=True, slots=True)
class World:
    shown: Shown = (0, 0)
    told: Shown = (0, 0)
    """What clients know by now."""
    epoch: int = 0
    row: tuple[Shown, int] | None = None
    device: tuple[Shown | None, ...] = ()
    """Requests of the kernel: questions with what their client knew, and releases (None)."""
    queue: tuple[Shown | None, ...] = ()
    """The same, read and not yet handled by Python."""
    answering: tuple[Shown, Shown, bool] | None = None
    """The front answers this to who knew that; whether it holds the lock."""
    computed: tuple[Shown, int, Shown] | None = None
    """Python is to answer this, as of that epoch, to who knew that."""
    doing: tuple[str, ...] = ()
    """Steps that Python has to take before it handles anything else."""
    releases: int = 0
    asked: int = 0
    asking: bool = False
    changed: int = 0
    closed: int = 0

    @property
    def is_locked(self) -> bool:
        return self.answering is not None and self.answering[2]


class ToldWhatIsOver(Exception):  # noqa: N818  (what the model looks for)
    """An answer shows less than its client knew."""


def answered(world: World, shown: Shown, knew: Shown) -> World:
    if shown[0] < knew[0] or shown[1] < knew[1]:
        raise ToldWhatIsOver
    told = max(world.told[0], shown[0]), max(world.told[1], shown[1])
    return replace(world, told=told, asking=False)


def clients(world: World) -> Iterator[World]:
    if not world.asking and world.asked < QUESTIONS:
        device = (*world.device, world.told)
        yield replace(world, device=device, asked=world.asked + 1, asking=True)
    if world.closed < CLOSES:
        # `close` returns here, and its caller expects to find what it wrote.
        told = world.told[0], world.closed + 1
        yield replace(world, device=(*world.device, None), closed=world.closed + 1, told=told)


def readers(world: World, rules: Rules) -> Iterator[World]:
    """Either thread, as they do the same."""
    if world.answering is not None:
        shown, knew, _ = world.answering
        yield answered(replace(world, answering=None), shown, (world.told[0], knew[1]))
    if not world.device or world.answering is not None:
        return
    first, rest = world.device[0], world.device[1:]
    read = replace(world, device=rest)
    waits = world.releases and rules.waits_for_releases
    if first is None:
        yield replace(read, queue=(*world.queue, None), releases=world.releases + 1)
    elif world.row is not None and world.row[1] == world.epoch and not waits:
        yield replace(read, answering=(world.row[0], first, rules.holds_lock))
    else:
        yield replace(read, queue=(*world.queue, first))


def python(world: World, rules: Rules) -> Iterator[World]:
    if world.doing:
        if world.doing[0] == "make" or not world.is_locked:
            yield step(world, world.doing[0])
        return
    if world.queue and (world.queue[0] is None or world.computed is None):
        first, rest = world.queue[0], world.queue[1:]
        if first is None:
            yield replace(world, queue=rest, doing=steps("publish", rules))
        else:
            yield replace(world, queue=rest, computed=(world.shown, world.epoch, first))
    if world.changed < CHANGES:
        yield replace(world, changed=world.changed + 1, doing=steps("make", rules))
    if world.computed is not None and not world.is_locked:
        # The handler may have been suspended, and others may have run, since it found its answer.
        shown, epoch, knew = world.computed
        kept = (shown, world.epoch) if epoch == world.epoch or not rules.compares_epochs else world.row
        yield answered(replace(world, computed=None, row=kept), shown, knew)


def steps(change: str, rules: Rules) -> tuple[str, ...]:
    reply = "tell" if change == "make" else "released"
    return ("revoke", change, reply) if rules.revokes_before else (change, reply, "revoke")


def step(world: World, name: str) -> World:
    changes, published = world.shown
    after = replace(world, doing=world.doing[1:])
    if name == "revoke":
        return replace(after, epoch=world.epoch + 1)
    if name == "make":
        return replace(after, shown=(changes + 1, published))
    if name == "publish":
        return replace(after, shown=(changes, published + 1))
    if name == "tell":
        return replace(after, told=(changes, world.told[1]))
    return replace(after, releases=world.releases - 1)


def worlds(rules: Rules) -> set[World]:
    """All that can be reached. Raises `ToldWhatIsOver`."""
    seen, left = {World()}, [World()]
    while left:
        world = left.pop()
        for follows in (clients(world), readers(world, rules), python(world, rules)):
            for after in follows:
                if after not in seen:
                    seen.add(after)
                    left.append(after)
    return seen


@pytest.mark.rule("S-273")
def test_nobody_is_told_what_is_over() -> None:
    found = worlds(Rules())
    assert any(world.answering is not None and world.answering[0] == (CHANGES, CLOSES) for world in found)
    assert any(world.asked == QUESTIONS and not world.asking for world in found)


@pytest.mark.parametrize("without", ["revokes_before", "compares_epochs", "holds_lock", "waits_for_releases"])
def test_every_rule_of_the_front_is_needed(without: str) -> None:
    with pytest.raises(ToldWhatIsOver):
        worlds(Rules(**{without: False}))
