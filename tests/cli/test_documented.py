"""What README.md and docs/reference/commands.md say of commands, options and extras is what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest

from journalfs.cli.main import COMMANDS, command_group

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
TEXT = (ROOT / "docs/reference/commands.md").read_text()


def options(name: str, below: str | None = None) -> set[str]:
    """Of a command, or of one of a group's."""
    command: click.Command | None = command_group()
    for word in (name, below) if below is not None else (name,):
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
        assert command is not None, word
    assert command is not None
    return {word for option in command.params if isinstance(option, click.Option) for word in option.opts}


@pytest.mark.parametrize("usage", re.findall(r"^\| `(journalfs [^`]*)` \|", TEXT, re.MULTILINE))
def test_documented_options_exist(usage: str) -> None:
    _, name, *words = usage.split()
    assert name in COMMANDS
    below = words[0] if name == "pipeline" else None
    named = {word.strip("[].") for word in words if word.strip("[").startswith("--")}
    assert named <= options(name, below)


@pytest.mark.parametrize("name", ["ls", "cat", "status", "print", "explain"])
def test_commands_that_use_the_index_can_do_without(name: str) -> None:
    assert f"`{name}`" in TEXT.partition("**The index.**")[2]
    assert "--no-index" in options(name)


def test_options_of_commands_in_the_readme_exist() -> None:
    blocks = "".join(re.findall(r"^```[a-z]*\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
    called = re.findall(r"^(?:\$ )?journalfs ([a-z]+)([^\n#]*)", blocks, re.MULTILINE)
    assert len(called) > 5
    assert {name for name, _ in called} <= set(COMMANDS)
    for name, words in called:
        below = words.split()[0] if name == "pipeline" else None
        assert set(re.findall(r"(?<= )--[a-z-]+", words)) <= options(name, below), name


def test_extras_are_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = README.partition("| extra | brings |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE)) == set(project["optional-dependencies"])


def test_mount_options_of_the_page_on_mounting_exist() -> None:
    from journalfs_mount.options import parse_options  # noqa: PLC0415 - not in what the commands load

    text = (ROOT / "docs/operate/mount.md").read_text()
    (listed,) = re.findall(r"^Options: `-o ([^`]+)`", text, re.MULTILINE)
    values = {"uid=": "uid=0", "gid=": "gid=0", "umask=": "umask=077", "sync=": "sync=close"}
    values |= {"file_mode=": "file_mode=640", "dir_mode=": "dir_mode=750", "config=": "config=/broker.xml"}
    assert parse_options([",".join(values.get(word, word) for word in listed.split(","))])
