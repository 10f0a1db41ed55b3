"""How workers share the tests among themselves."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests import sharing
from tests.sharing import SECONDS, SERVERS, SESSION, SOURCES, Measured, shared_with, slowest_first


def test_one_worker_does_what_needs_sparks_session_servers_or_the_sources(
    request: pytest.FixtureRequest,
) -> None:
    """Whatever was collected."""
    for item in request.session.items:
        if "spark" in getattr(item, "fixturenames", ()):
            assert shared_with(item.path) == SESSION, item
        elif {"postgres", "maria", "empty_database"} & {*getattr(item, "fixturenames", ())}:
            assert shared_with(item.path) == SERVERS, item
    assert shared_with(request.path) != SESSION
    tidy = request.path.parent / "tidy"
    assert {shared_with(tidy / f"test_{name}.py") for name in ("laws", "size", "seams")} == {SOURCES}


def test_files_stay_whole_and_what_took_longest_comes_first(request: pytest.FixtureRequest) -> None:
    items = list(request.session.items)
    slowest_first(items)
    files = [item.path for item in items]
    assert len(set(files)) == 1 + sum(one != other for one, other in pairwise(files))
    taken = json.loads(SECONDS.read_text())
    alone = [file for file in dict.fromkeys(files) if shared_with(file) == str(file)]
    seconds = [taken.get(file.relative_to(request.config.rootpath).as_posix(), 0) for file in alone]
    assert seconds == sorted(seconds, reverse=True)


def test_what_files_take_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "SECONDS", tmp_path / "seconds.json")
    measured = Measured()
    for file, seconds in (("a.py", 1), ("b.py", 2.5), ("b.py", 2.5), ("a.py", 1)):
        measured.pytest_runtest_logreport(
            pytest.TestReport(file, (file, 1, ""), {}, "passed", None, "call", duration=seconds)
        )
    measured.pytest_sessionfinish()
    assert json.loads(sharing.SECONDS.read_text()) == {"b.py": 5}


def test_files_that_took_long_are_there(request: pytest.FixtureRequest) -> None:
    assert all((request.config.rootpath / name).exists() for name in json.loads(SECONDS.read_text()))
