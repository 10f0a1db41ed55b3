"""A command that is interrupted before it has begun."""

from __future__ import annotations

import click
import pytest

from journalfs.cli import lazy, main
from journalfs.cli.check import check


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (main, "command_group"),
        (click.Group, "make_context"),
        (lazy, "import_module"),
        (check, "make_context"),
    ],
    ids=["imported", "told", "found", "read"],
)
def test_it_is_one_line_whenever_that_is(
    place: object, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, interrupted)
    monkeypatch.setattr("sys.argv", ["journalfs", "check", "store"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "journalfs: interrupted\n")
