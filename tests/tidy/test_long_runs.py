"""The long tests run in pieces that go on where the last one stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.long import __main__ as long


@pytest.mark.parametrize(
    ("how", "row_name"),
    [("", "tests/a"), ("--front on", "tests/a --front on"), ("--kind sqlite", "tests/a --kind sqlite")],
)
def test_pieces_go_on_and_whole_folders_are_recorded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: str,
    row_name: str,
) -> None:
    page = tmp_path / "long-runs.md"
    page.write_text(f"| tests |\n| --- |\n| `{row_name}` | before |\n")
    ran: list[str] = []

    def run(file: str, how: str, seed: int, most_s: float, *, is_first: bool) -> dict[str, Any] | None:
        """The second file of a piece takes too long."""
        if not is_first:
            return None
        ran.append(file)
        return {"file": file, "how": how, "passed": 2, "failed": 0, "seconds": 3, "seed": seed}

    for name, value in {
        "PAGE": page,
        "NOTES": tmp_path / "notes.jsonl",
        "run": run,
        "commit": lambda: "abc",
        "files": lambda _how: ["tests/a/test_1.py", "tests/a/test_2.py", "tests/b/test_3.py"],
    }.items():
        monkeypatch.setattr(long, name, value)
    monkeypatch.setattr("sys.argv", ["long-tests", "--seed", "7", *how.split()])
    assert long.main() == 0
    assert "2 files are left" in capsys.readouterr().out
    assert "before" in page.read_text(), "half a folder is not recorded"
    assert long.main() == 0
    assert ran == ["tests/a/test_1.py", "tests/a/test_2.py"]
    (row,) = (line for line in page.read_text().splitlines() if f"`{row_name}`" in line)
    assert row.endswith("| abc | 4 | 0 | 6 | 7 |")
    assert [json.loads(line)["commit"] for line in long.NOTES.read_text().splitlines()] == ["abc", "abc"]
