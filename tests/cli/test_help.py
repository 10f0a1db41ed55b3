"""What leads somebody to a command: help, manual pages, completion, and words spelled nearly right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from journalfs.cli.completion import SHELLS
from journalfs.cli.main import COMMANDS, GROUPS, command_group
from scripts.documents.__main__ import COMPLETIONS, MAN
from scripts.documents.manual import commands
from tests.cli.running import journalfs
from tests.mounting import JOURNALFS
from tests.tidy.sources import ROOT


@pytest.mark.parametrize("words", [(), ("ls",), ("help",), ("pipeline", "archive")], ids=" ".join)
def test_help_says_what_the_option_says(words: tuple[str, ...]) -> None:
    asked, told = journalfs("help", *words), journalfs(*words, "--help")
    assert asked.returncode == 0
    assert re.sub(r"^Usage: \w+", "", asked.stdout) == re.sub(r"^Usage: \w+", "", told.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["moutn"], "no command 'moutn'; did you mean mount?"),
        (["help", "statsu"], "no command 'statsu'; did you mean status?"),
        (["pipeline", "archve"], "no command 'archve'; did you mean archive?"),
        (["xyzzy"], "no command 'xyzzy'; see journalfs help"),
        (["help", "cat", "ls"], "cat has no commands below it"),
        (["mount", "-o", "brows", "/", "/"], "unknown mount option 'brows'; did you mean 'browse'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_spelled_nearly_right_is_named(words: list[str], said: str) -> None:
    done = journalfs(*words) if words[0] != "mount" else run([str(JOURNALFS), *words])
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ls"], "ls: missing argument 'STORE'; see journalfs help ls"),
        (
            ["ls", "/", "--wher", "x"],
            "ls: no such option '--wher'; did you mean one of: '--help', '--where'?",
        ),
        (
            ["take", "/", "--max", "x"],
            "take: invalid value for '--max': 'x' is no whole number; see journalfs help take",
        ),
        (["ls", "/", "a::b", "c"], "ls: got unexpected extra argument (c); see journalfs help ls"),
        (["pipeline", "stats"], "pipeline stats: missing argument"),
        (["xyzzy"], "no command 'xyzzy'; see journalfs help"),
        (["--version", "ls", "/"], "--version stands alone; see journalfs help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_told_in_one_line(words: list[str], said: str) -> None:
    done = journalfs(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"journalfs: {said}")


def test_no_option_is_of_a_class() -> None:
    """Where a command does not say what an option takes, click shows the name of a class of its own."""
    of_click = {"TEXT", "INTEGER", "INTEGER RANGE", "FLOAT", "FLOAT RANGE", "BOOLEAN", "FILENAME"}
    for names, command, _ in commands(command_group(), ("journalfs",), ""):
        context = click.Context(command)
        options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
        shown = {one.make_metavar(context) for one in options if one.metavar is None and not one.is_flag}
        assert not shown & of_click, names


def test_each_command_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    shown = journalfs("help").stdout
    assert [line[:-1] for line in shown.splitlines() if re.match(r"[A-Z].*:$", line)] == ["Options", *GROUPS]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False
    )


COMPLETED = [
    (["mou"], {"mount"}),
    (["pipeline", "a"], {"archive", "audit"}),
    (["mount", "--read"], {"--read-only"}),
    (["mount", "-o", "allow_other,sy"], {f"allow_other,sync={word}" for word in ("always", "close", "none")}),
    (["help", ""], set()),
]


@pytest.mark.parametrize(("words", "found"), COMPLETED, ids=lambda value: " ".join(sorted(value)))
def test_bash_completes_words(words: list[str], found: set[str]) -> None:
    """With the script that is installed, as bash calls it."""
    quoted = " ".join(f"'{word}'" for word in ["journalfs", *words])
    program = (
        f"source {ROOT / 'docs/completions' / COMPLETIONS['bash']}\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}\n"
        '_journalfs_completion journalfs; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{JOURNALFS.parent}:{os.environ['PATH']}"
    done = run(["bash", "--norc", "-c", program], PATH=path)
    assert set(done.stdout.split()) == found, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str) -> None:
    done = journalfs("completion", shell)
    assert done.stdout == (ROOT / "docs/completions" / COMPLETIONS[shell]).read_text()
    if shutil.which(shell):
        script = str(ROOT / "docs/completions" / COMPLETIONS[shell])
        checked = run([shell, "-n", script])
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("page", sorted(MAN.iterdir()), ids=lambda page: page.name)
def test_manual_pages_are_whole(page: Path) -> None:
    text = page.read_text()
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES"):
        assert f".SH {section}\n" in text
    name = re.search(r"^\.SH NAME\n(.*)\n\.SH", text, re.MULTILINE)
    assert name is not None, "NAME is one line"
    assert "..." not in name[1]
    assert "said by" not in text
    if shutil.which("groff"):
        done = run(["groff", "-man", "-Tutf8", "-ww", "-z", str(page)])
        assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_a_manual_page_that_is_installed() -> None:
    pages = {page.name for page in MAN.iterdir()}
    assert {"journalfs.1", "mount.journalfs.8"} | {f"journalfs-{name}.1" for name in COMMANDS} <= pages
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    installed = {path.name for globs in files.values() for glob in globs for path in ROOT.glob(glob)}
    assert pages | set(COMPLETIONS.values()) <= installed
