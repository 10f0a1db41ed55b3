"""Manual pages, made from what `--help` is made of: click's commands and the tables of mount options."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from journalfs import errors
from journalfs.cli.main import command_group
from journalfs_mount.options import described, described_words
from journalfs_mount.start.helper import helper_parser

EXIT_CODES = {
    "EXIT_OK": "done",
    "EXIT_WRONG_CALL": "wrong call",
    "EXIT_SYSTEM": "the operating system refused something",
    "EXIT_NOT_A_STORE": "no store at this path",
    "EXIT_UNKNOWN_VERSION": "a store of another kind or version",
    "EXIT_DAMAGED": "damage: for check, something cannot be read; otherwise damaged beyond use",
    "EXIT_CONFIG": "a mistake in a configuration file",
    "EXIT_BUSY": "in use by another process",
    "EXIT_DEPENDENCY": "an optional library is missing",
    "EXIT_MOUNT_FAILED": "the filesystem could not be mounted or unmounted",
}


def pages() -> dict[str, str]:
    """File name -> roff, of every command and of the helper of mount(8)."""
    found = {}
    for names, command in _commands(command_group(), ("journalfs",)):
        found[f"{'-'.join(names)}.1"] = _page(names, command)
    found["mount.journalfs.8"] = _helper_page()
    return found


def _commands(
    command: click.Command, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield names, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from _commands(below, (*names, name))


def _page(names: tuple[str, ...], command: click.Command) -> str:
    ctx = click.Context(command, info_name=" ".join(names), help_option_names=["-h", "--help"])
    description = _paragraphs(command.help or "")
    lines = _head("-".join(names), 1, command.get_short_help_str(limit=200).rstrip("."))
    lines += [".SH SYNOPSIS", f".B {_safe(' '.join(names))}"]
    lines += [_safe(" ".join(command.collect_usage_pieces(ctx)))]
    lines += [".SH DESCRIPTION", *description]
    named = [one for one in command.get_params(ctx) if isinstance(one, click.Option)]
    options = [option.get_help_record(ctx) for option in named]
    lines += [".SH OPTIONS", *_terms([record for record in options if record])]
    if isinstance(command, click.Group):
        below = [(name, _short(command, name)) for name in command.list_commands(ctx)]
        lines += [".SH COMMANDS", *_terms(below)]
    if names == ("journalfs", "mount"):
        lines += _mount_options()
    if command.epilog:
        example = command.epilog.removeprefix("Example: ")
        lines += [".SH EXAMPLE", ".nf", _safe(example), ".fi"]
    lines += [".SH EXIT STATUS", *_terms(_exit_codes())]
    return _end(lines, names)


def _short(group: click.Group, name: str) -> str:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command.get_short_help_str(limit=200)


def _exit_codes() -> list[tuple[str, str]]:
    return [(str(getattr(errors, name)), meaning) for name, meaning in EXIT_CODES.items()]


def _mount_options() -> list[str]:
    words = [(", ".join(words), meaning) for meaning, words in described_words()]
    return [".SH MOUNT OPTIONS", "Given as a comma list to \\fB\\-o\\fR.", *_terms([*described(), *words])]


def _helper_page() -> str:
    parser = helper_parser()
    lines = _head("mount.journalfs", 8, "mount a message store; called by mount(8)")
    lines += [".SH SYNOPSIS", ".B mount \\-t journalfs", "STORE MOUNTPOINT [\\-o OPTION[,...]]"]
    lines += [".SH DESCRIPTION", "What mount(8) and a line of /etc/fstab call for the type journalfs."]
    options = [
        (", ".join(action.option_strings), action.help or "said by mount(8)")
        for action in parser._actions
        if action.option_strings
    ]
    lines += [".SH OPTIONS", *_terms(options), *_mount_options()]
    lines += [".SH EXAMPLE", ".nf", "/var/lib/artemis/data  /mnt/artemis  journalfs  ro,nofail  0  0", ".fi"]
    codes = {"0", "1", "2", "32"}
    lines += [".SH EXIT STATUS", *_terms([code for code in _exit_codes() if code[0] in codes])]
    return _end(lines, ("journalfs", "mount"))


def _head(title: str, section: int, short: str) -> list[str]:
    return [
        '.\\" Made by scripts/docs from the definitions of --help.',
        f'.TH "{title.upper()}" {section} "" "journalfs" "journalfs"',
        ".SH NAME",
        f"{_safe(title)} \\- {_safe(short)}",
    ]


def _end(lines: list[str], names: tuple[str, ...]) -> str:
    others = ["journalfs(1)"] if len(names) > 1 else ["journalfs-mount(1)", "mount.journalfs(8)"]
    return "\n".join([*lines, ".SH SEE ALSO", _safe(", ".join(others))]) + "\n"


def _paragraphs(text: str) -> list[str]:
    """Of a docstring; what stands behind a `\\b` keeps its lines."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", click.unstyle(text).strip()):
        kept = paragraph.lstrip().startswith("\b")
        words = [_safe(line.strip()) for line in paragraph.splitlines() if line.strip() != "\b"]
        lines += [".PP", *([".nf", *words, ".fi"] if kept else words)]
    return lines[1:]


def _terms(records: list[tuple[str, str]]) -> list[str]:
    return [line for name, meaning in records for line in (".TP", f".B {_safe(name)}", _safe(meaning))]


def _safe(text: str) -> str:
    """For roff: backslashes and hyphens as they are typed, no line that begins as a request."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
