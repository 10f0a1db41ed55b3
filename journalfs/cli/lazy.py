"""A click group that knows its commands by name and imports one when it is called."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NoReturn

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem

from journalfs.cli.common import nearest
from journalfs.errors import EXIT_SYSTEM, EXIT_WRONG_CALL, JournalfsError, WrongCall
from journalfs.showing import printable


class LazyGroup(click.Group):
    """`table` maps a name to `module:attribute` and a one-line help, `groups` a heading to the names that are
    listed below it; `interrupted` ends the command.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]],
        groups: Mapping[str, Sequence[str]] = MappingProxyType({}),
        interrupted: Callable[[], NoReturn],
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._table = table
        self._groups = groups
        self._interrupted = interrupted

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{cmd_name} is not a click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table alone: `--help` imports none of them."""
        width = max(map(len, self._table))
        for heading, names in self.grouped():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._table[name][1]) for name in names])

    def line(self, name: str) -> str:
        """What `--help` says of a command."""
        return self._table[name][1]

    def grouped(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Each heading with its commands; those that no group names come last."""
        yield from self._groups.items()
        rest = sorted(self._table.keys() - {name for names in self._groups.values() for name in names})
        if rest:
            yield "Others" if self._groups else "Commands", rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the command that is spelled most like one that is not there."""
        word = args[0]
        if word not in self._table and not ctx.resilient_parsing and not word.startswith("-"):
            ctx.fail(f"no command {word!r}{nearest(word, sorted(self._table)) or '; see journalfs help'}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table alone: click would import every command, for its help."""
        names = [name for name in sorted(self._table) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._table[name][1]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        """Read the command line. click would end with a word of its own and the code of a wrong call where
        that is interrupted, and so it would in `invoke`.
        """
        with self._in_one_line():
            return super().make_context(*arguments, **keywords)

    def invoke(self, ctx: click.Context) -> Any:
        with self._in_one_line():
            return super().invoke(ctx)

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """Give a wrong call as a WrongCall: click would print its usage before it."""
        try:
            yield
        except KeyboardInterrupt:
            self._interrupted()
        except NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            raise WrongCall(_wrong_call(error)) from None

    def main(self, *arguments: Any, **keywords: Any) -> Any:
        """Run, turning a failure into one line on stderr and its documented exit code.

        A call without a command ends with 1: click's own 2 means a refusal of the operating system here.
        """
        click.UsageError.exit_code = EXIT_WRONG_CALL
        if any("@" in one or "assword=" in one for one in sys.argv):
            from journalfs.process_list import hide_passwords  # noqa: PLC0415 - seldom

            hide_passwords()
        try:
            return super().main(*arguments, **keywords)
        except JournalfsError as error:
            from journalfs.config.database import without_passwords  # noqa: PLC0415 - for who fails

            print(f"journalfs: {printable(without_passwords(str(error)))}", file=sys.stderr)
            sys.exit(getattr(error, "code", error.exit_code))
        except OSError as error:
            if error.errno != errno.EPIPE:
                print(f"journalfs: {printable(_refusal(error))}", file=sys.stderr)
                _flush_or_drop()
                sys.exit(EXIT_SYSTEM)
            # The reader of our output left, as `head` does.
            _flush_or_drop()
            sys.exit(128 + 13)


_PLAIN: Final = (
    (r"is not a valid integer(?: range)?", "is no whole number"),
    (r"is not a valid float(?: range)?", "is no number"),
    (r"\. \((Did you mean .*)\)$", r". \1"),
)
"""What click says -> what a user reads: names of its classes are none of theirs."""


def _wrong_call(error: click.UsageError) -> str:
    """What is wrong with a call, in one line, with where the right one is shown."""
    said = " ".join(error.format_message().split()).rstrip(".")
    for words_of_click, plain in _PLAIN:
        said = re.sub(words_of_click, plain, said)
    clauses = "; ".join(clause[:1].lower() + clause[1:] for clause in re.split(r"\.\s+(?=[A-Z])", said))
    words = error.ctx.command_path.split()[1:] if error.ctx is not None else []
    shown = (
        ""
        if "see journalfs help" in clauses or clauses.endswith("?")
        else f"; see {' '.join(['journalfs help', *words])}"
    )
    return f"{' '.join(words)}: {clauses}{shown}" if words else clauses + shown


def _flush_or_drop() -> None:
    """Write what is buffered, or let go of it: the interpreter would fail at its last flush."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refusal(error: OSError) -> str:
    """What the operating system refused, in one line."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"
