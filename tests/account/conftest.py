"""What is derived from older stores lies in a directory of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.records.older.deriving import DERIVED_VARIABLE


@pytest.fixture(autouse=True)
def derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "derived"
    monkeypatch.setenv(DERIVED_VARIABLE, str(folder))
    return folder
