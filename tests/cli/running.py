"""Running the commands in this process, which saves a second of start-up each."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from journalfs.cli.main import command_group


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def journalfs(*arguments: str | Path) -> Done:
    """Run a command as `tests.mounting.journalfs` does, without a process of its own."""
    with chdir("."):  # a command may go elsewhere, and would leave the tests there
        result = CliRunner().invoke(command_group(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    """The JSON lines that a command prints; it must succeed."""
    done = journalfs(*arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
