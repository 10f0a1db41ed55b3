"""Manual pages, made from what `--help` is made of: click's commands and the tables of mount options."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from journalfs import errors
from journalfs.cli.lazy import LazyGroup
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

NAME = "look into, search and mount message stores of Apache ActiveMQ Artemis"

ENVIRONMENT = [
    ("JOURNALFS_CONFIG", "the broker's configuration (broker.xml), as --config names it"),
    ("JOURNALFS_DERIVED", "where stores derived from older ones are kept, as --derived says"),
    ("XDG_CACHE_HOME", "where they are kept without it: in journalfs below this directory, else ~/.cache"),
]

FILES = [
    (
        "STORE/journal, bindings, paging, large-messages",
        "what a broker keeps: a broker's data directory is a STORE",
    ),
    ("etc/broker.xml beside STORE", "the broker's configuration, read and never written"),
    ("STORE/journalfs.toml", "settings of the store for journalfs alone; they overrule broker.xml"),
    ("STORE/journalfs/index", "makes opening quick; made anew where it is missing"),
]

FILES_OF_MOUNTS = [
    *FILES,
    ("STORE/journalfs/staging", "staged names, of no message yet"),
    ("STORE/journalfs/unpublished", "what could not be published when it was closed"),
    ("MOUNTPOINT/.journalfs/events.jsonl", "what happened, refusals with their reasons among it"),
    ("MOUNTPOINT/.journalfs/status.json, mount.json", "the state of the store and of the mount"),
]

OF_MOUNTS = [("mount",), ("umount",), ("why",), ("undo",)]
"""Commands that work with a mount."""


def pages() -> dict[str, str]:
    """File name -> roff, of every command and of the helper of mount(8)."""
    found = {}
    for names, command, line in commands(command_group(), ("journalfs",), NAME):
        found[f"{'-'.join(names)}.1"] = _page(names, command, line)
    found["mount.journalfs.8"] = _helper_page()
    return found


def commands(
    command: click.Command, names: tuple[str, ...], line: str
) -> Iterator[tuple[tuple[str, ...], click.Command, str]]:
    """Words, command and its line in the help of the group, of a command and all below it."""
    yield names, command, line
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from commands(below, (*names, name), _line(command, name))


def _line(group: click.Group, name: str) -> str:
    """What the help of a group says of a command."""
    if isinstance(group, LazyGroup):
        return group.line(name)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command.get_short_help_str(limit=200)


def _page(names: tuple[str, ...], command: click.Command, line: str) -> str:
    ctx = click.Context(command, info_name=" ".join(names), help_option_names=["-h", "--help"])
    lines = _head("-".join(names), 1, line.rstrip("."))
    lines += [".SH SYNOPSIS", f".B {_safe(' '.join(names))}"]
    lines += [_safe(" ".join(command.collect_usage_pieces(ctx)))]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help or "")]
    named = [one for one in command.get_params(ctx) if isinstance(one, click.Option)]
    options = [option.get_help_record(ctx) for option in named]
    lines += [".SH OPTIONS", *_terms([record for record in options if record])]
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS"]
        groups = command.grouped() if isinstance(command, LazyGroup) else [("", command.list_commands(ctx))]
        for heading, below in groups:
            lines += [f".SS {_safe(heading)}"] if heading else []
            lines += _terms([(name, _line(command, name)) for name in below])
    if names == ("journalfs", "mount"):
        lines += _mount_options()
    if command.epilog:
        example = command.epilog.removeprefix("Example: ")
        lines += [".SH EXAMPLE", ".nf", _safe(example), ".fi"]
    lines += [".SH EXIT STATUS", *_terms(_exit_codes())]
    lines += [".SH ENVIRONMENT", *_terms(ENVIRONMENT)]
    lines += [".SH FILES", *_terms(FILES_OF_MOUNTS if names[1:2] in OF_MOUNTS else FILES)]
    return _end(lines, names)


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
        (", ".join(action.option_strings), action.help or "")
        for action in parser._actions
        if action.option_strings
    ]
    lines += [".SH OPTIONS", *_terms(options), *_mount_options()]
    lines += [".SH EXAMPLE", ".nf", "/var/lib/artemis/data  /mnt/artemis  journalfs  ro,nofail  0  0", ".fi"]
    codes = {"0", "1", "2", "32"}
    lines += [".SH EXIT STATUS", *_terms([code for code in _exit_codes() if code[0] in codes])]
    lines += [".SH FILES", *_terms([("/etc/fstab", "a line of the type journalfs"), *FILES_OF_MOUNTS])]
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
