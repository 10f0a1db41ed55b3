"""How workers share the tests among themselves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.sharing import SESSION, SLOWEST, SOURCES, shared_with, slowest_first


def test_one_worker_does_what_needs_sparks_session_or_the_sources(request: pytest.FixtureRequest) -> None:
    """Whatever was collected."""
    for item in request.session.items:
        if "spark" in getattr(item, "fixturenames", ()):
            assert shared_with(item.path) == SESSION, item
    assert shared_with(request.path) != SESSION
    tidy = request.path.parent / "tidy"
    assert {shared_with(tidy / f"test_{name}.py") for name in ("laws", "size", "seams")} == {SOURCES}


def test_files_stay_whole_and_the_slowest_come_first(request: pytest.FixtureRequest) -> None:
    items = list(request.session.items)
    slowest_first(items)
    files = [item.path for item in items]
    assert len(set(files)) == 1 + sum(one != other for one, other in pairwise(files))
    last = {
        mark: max((n for n, one in enumerate(items) if one.get_closest_marker(mark)), default=-1)
        for mark in SLOWEST
    }
    first = next(n for n, one in enumerate(items) if one.path == request.path)
    assert all(at < first for at in last.values())
